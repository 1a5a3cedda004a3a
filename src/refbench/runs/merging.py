"""Merging runs of the same cases into one: nothing is lost, and disagreements are counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refbench.case import AnyCase
from refbench.output import Output
from refbench.record import Record, RefBenchError, counted
from refbench.runs.annotations import take_over
from refbench.runs.disk import disk_error, write_whole
from refbench.runs.ledger import FOUND, PAINTER, SEEDS, LedgerWriter, place_of
from refbench.runs.register import ID
from refbench.runs.run import (
    Run,
    acts_on_record,
    all_retirements,
    disagreements,
    other_weights,
    retired_evidence,
    standing_evidence,
    standing_outputs,
)

_OF_ONE_LEDGER = frozenset({ID, "journal", "wanted"})
"""Notes that are about the file they stand in, or are not simply taken over."""


class MergeReport(Record):
    """What a merge did: acts taken over, acts that were there already, and results that disagreed."""

    new: int
    known: int
    conflicts: int


def merge(sources: Sequence[Path], out: Path) -> MergeReport:
    """Bring the evidence, outputs, pictures and annotations of `sources` into `out` (new, or a run of the same cases).

    Success beats failure, then the earliest wins. The sources stay as they are.
    """
    runs = [Run.open(path) for path in sources]
    if not runs:
        raise RefBenchError("merge needs at least one run to read")
    _must_be_alike(runs)
    first = runs[0]
    there = sorted({*first.info.kept, *(path.name for path in (first.path / "benchmark").glob("*"))})
    kept = {name: first.kept(name).decode("utf-8", "surrogateescape") for name in there}
    target = Run.create(
        out,
        first.info.benchmark,
        first.cases(AnyCase),
        subset=first.info.subset,
        settings=first.info.settings,
        keep=kept,
        code=first.info.code,
    )
    ledgers = [ledger for run in runs for ledger in run.ledgers()]
    counts = {"new": 0, "known": 0, "conflict": 0}
    _must_agree([*runs, target])
    counts["conflict"] += _painted_twice([*runs, target])
    for run in runs:  # first: where a picture is damaged, nothing is said of any
        _copy_blobs(run, target)
    with target.writer() as writer:
        _take_retirements(writer, ledgers, target)
        writer.learn(acts_on_record(target.ledgers()))
        for purpose, evidence, recorded in standing_evidence(ledgers):
            counts[writer.add(evidence, purpose, recorded=recorded)] += 1
        here = {_place(output): output for output in target.outputs()}
        for output, recorded in standing_outputs(ledgers):
            before = here.get(_place(output))
            if before is None or (before.failure is not None and output.failure is None):
                writer.add_output(output, recorded=recorded)
            elif output.failure is None and before.pictures != output.pictures:
                counts["conflict"] += 1
        for run in runs:
            _take_notes(writer, run)
    take_over(target, runs)
    conflicts = counts["conflict"] + disagreements(ledgers)
    return MergeReport(new=counts["new"], known=counts["known"], conflicts=conflicts)


def _must_be_alike(runs: Sequence[Run]) -> None:
    """Refuses runs of other cases, settings or code: one table of both would mix two questions."""
    first = runs[0]
    for other in runs[1:]:
        if (other.info.benchmark, other.info.cases) != (first.info.benchmark, first.info.cases):
            raise RefBenchError(
                f"{other.path} ({other.info.benchmark}, {counted(other.info.n_cases, 'case')}) has other cases than "
                f"{first.path} ({first.info.benchmark}, {counted(first.info.n_cases, 'case')}): only runs of the same "
                "data merge"
            )
        if other.info.settings != first.info.settings:
            keys = sorted(dict(other.info.settings.items() ^ first.info.settings.items()))
            raise RefBenchError(
                f"{other.path} and {first.path} were judged with other settings ({', '.join(keys)}): one table of both "
                "would mix two questions"
            )
        if other.info.code != first.info.code:
            raise RefBenchError(
                f"{other.path} and {first.path} were begun with other code of the benchmark ({other.info.code} and "
                f"{first.info.code}): judge one of them again"
            )


def _take_retirements(writer: LedgerWriter, ledgers: Sequence[Path], target: Run) -> None:
    """First, so that what was retired in one run gives way in all, and stays in the account of what was paid."""
    there = set(all_retirements(target.ledgers()))
    for row in all_retirements(ledgers):
        if row not in there:
            what, digest, recorded, why = row
            writer.retire(what, digest, why, recorded)
    for evidence, recorded in retired_evidence(ledgers):
        writer.keep(evidence, recorded)
    writer.commit()


def _take_notes(writer: LedgerWriter, run: Run) -> None:
    for picture in run.pictures():
        writer.know(picture)
    for name, value in run.notes("").items():
        if name.startswith(SEEDS):
            writer.note_seeds(name.removeprefix(SEEDS), run.number(value))
        elif name not in _OF_ONE_LEDGER:
            writer.note(name, value)
    if run.ledgers():
        writer.want(run.wanted())


def _must_agree(runs: Sequence[Run]) -> None:
    """Refuse runs whose cases have other pictures, or whose judges of one name are not the same."""
    pictures: dict[str, tuple[str, Run]] = {}
    judges: dict[str, tuple[str, Run]] = {}
    served: dict[str, tuple[dict[str, str], Run]] = {}
    for run in runs:
        for name, told in run.served().items():
            then, there = served.setdefault(name, (told, run))
            if changed := other_weights(then, told):
                raise RefBenchError(
                    f"the judge {name} of {run.path} is not the one of {there.path} ({'; '.join(changed)}): one table "
                    "of both would mix two judges"
                )
        for picture in run.pictures():
            before = pictures.setdefault(picture.name, (picture.sha256, run)) if picture.name else None
            if before is not None and before[0] != picture.sha256:
                raise RefBenchError(
                    f"{run.path} and {before[1].path} have other pictures under the name {picture.name}: only runs of "
                    "the same data merge"
                )
        for name, who in run.judges().items():
            known = judges.setdefault(name, (who, run))
            if known[0] != who:
                raise RefBenchError(
                    f"the judge {name} of {run.path} ({who}) is not the one of {known[1].path} ({known[0]}): one table "
                    "of both would mix two judges"
                )


def _painted_twice(runs: Sequence[Run]) -> int:
    """How many pictures a model has made differently in two runs. Refuses models of one name that are not the same:
    made with other settings, or found in another folder. What one of the runs has replaced is no difference."""
    retired: dict[tuple[str, str], float] = {}
    for what, digest, recorded, _ in all_retirements([ledger for run in runs for ledger in run.ledgers()]):
        retired[what, digest] = max(recorded, retired.get((what, digest), recorded))
    painters: dict[str, tuple[str, Run]] = {}
    first: dict[tuple[str, str, int, int | None], tuple[Output, Run]] = {}
    twice = 0
    for run in runs:
        notes = run.notes(PAINTER)
        for output, recorded in standing_outputs(run.ledgers()):
            name, content = output.model, output.content
            if not output.pictures or retired.get((place_of(output), content), recorded) > recorded:
                continue
            painter = notes.get(name, "")
            known, where = painters.setdefault(name, (painter, run))
            before, there = first.setdefault(_place(output), (output, run))
            differs = before.content != content
            if known != painter or (differs and painter == FOUND):
                what = f"made by {painter} and {known}" if known != painter else f"other pictures of case {output.case}"
                raise RefBenchError(
                    f"the model {name} of {run.path} is not the one of {(there if differs else where).path} ({what}): "
                    "one table of both would mix two models"
                )
            twice += differs
    return twice


def _place(output: Output) -> tuple[str, str, int, int | None]:
    return output.case, output.model, output.seed, output.step


def _copy_blobs(source: Run, target: Run) -> None:
    for path in source.blobs.root.glob("*/*"):
        copy = target.blobs.root / path.relative_to(source.blobs.root)
        if copy.exists() or path.name.startswith("."):
            continue
        data = source.blobs.checked(path)
        try:
            write_whole(copy, data, flush=False)
        except OSError as error:
            raise disk_error(error, copy) from error
