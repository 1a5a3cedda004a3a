"""From evidence to a table, offline: replies on disk, or a run that holds them, read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refbench.benchmarks import Benchmark, Dataset, benchmark, resolve_data
from refbench.benchmarks.kit.definition import unjudged
from refbench.calls.identity import UNTOLD
from refbench.case import AnyCase
from refbench.evidence import Evidence, Purpose
from refbench.output import painting, seeds_of
from refbench.record import RefBenchError, content_key
from refbench.runs import LedgerWriter, Run, Shard
from refbench.runs.run import cases_fingerprint, fair_order
from refbench.score import Score
from refbench.tables.result import Result
from refbench.tables.scorer import RunFacts, drawn_scores, score_evidence
from refbench.tables.table import DRAWS, INTERVAL_VERSION, SEED, Row, System, Table, tabulate

REFUSALS = ("conditional", "worst", "worst,unsupported")
"""How a model's own failures count: left out, with bounds beside; as the worst; what it cannot take as well."""

_COMMIT_EVERY = 500
"""Imported replies per commit: they cost nothing to read again, and a commit costs a disk flush."""


@dataclass(frozen=True)
class Tabling:
    """What is tabled and how: under which protocol, with how many bootstrap draws, how a model's own failures count."""

    protocol: str = "both"
    draws: int = DRAWS
    seed: int = SEED
    refusals: str = REFUSALS[0]


@dataclass(frozen=True)
class Origin:
    """How scores came about: who the judges were, by what was measured, on which data; most of it shapes the
    fingerprint of their table."""

    subset: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    pictures: str = ""
    changes: Sequence[dict[str, Any]] = ()
    notes: Sequence[str] = ()


def load(name: Path | str, data: Path | str | None = None, *, subset: str | None = None) -> Dataset:
    """The cases of a benchmark from its official files; `data` defaults to `$REFBENCH_DATA/<benchmark>`."""
    bench = benchmark(name)
    return bench.data.load(resolve_data(bench, Path(data) if data is not None else None), subset)


def rescore(
    name: Path | str,
    *,
    replies: Path | str,
    data: Path | str | None = None,
    models: Sequence[str] | None = None,
    judge: str | None = None,
    subset: str | None = None,
    protocol: str = "both",
    out: Path | str | None = None,
    shard: Shard | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
    refusals: str = REFUSALS[0],
) -> Result:
    """Read judge replies that are already there and table them; with `out`, keep them in a run.

    Running it again with the same `out` resumes: replies recorded before are not recorded twice.
    """
    tabling = Tabling(protocol, draws, seed, refusals)
    dataset = load(name, data, subset=subset)
    bench = benchmark(name)
    if bench.asking.import_replies is None:
        raise RefBenchError(f"{bench.title} has no released replies to read from {replies}: judge with refbench run")
    found = bench.asking.import_replies(dataset, Path(replies), models, judge)
    systems = [(model, found.judge) for model in found.models]
    notes = []
    if found.unknown:
        notes.append(f"{len(found.unknown)} replies for items not in the data were skipped (first: {found.unknown[0]})")
    if found.outside:
        notes.append(f"{len(found.outside)} replies are for items of the data outside the subset {subset}: not scored")
    if out is not None:
        run = Run.create(Path(out), bench.name, dataset.cases, subset=subset)
        conflicts = _record(run, found.replies(), dataset, shard)
        if conflicts:
            notes.append(f"{conflicts} replies differ from those recorded in {run.path} before; the recorded ones stay")
        return run_result(run, bench, dataset.cases, tabling, systems=systems, notes=notes)
    return _result(bench, dataset.cases, found.replies(), tabling, RunFacts(systems), Origin(subset, notes=notes))


def score_run(
    path: Path | str,
    *,
    protocol: str = "both",
    draws: int = DRAWS,
    seed: int = SEED,
    refusals: str = REFUSALS[0],
    reader: Path | str | None = None,
) -> Result:
    """Score and table what a run holds, with the readers of this version.

    A run of a benchmark that is not shipped is read by the copy that it keeps, or by `reader`: a newer file of it, or
    a rubric.
    """
    run = Run.open(Path(path))
    bench = benchmark_of(run, reader)
    cases = run.cases(bench.data.case_type)
    return run_result(run, bench, cases, Tabling(protocol, draws, seed, refusals))


def benchmark_of(run: Run, reader: Path | str | None = None) -> Benchmark:
    """The benchmark of a run: shipped, or made again from what the run keeps of it, or from a file given."""
    if run.info.benchmark == "own":
        from refbench.benchmarks.own import own_benchmark
        from refbench.judges.rubric import rubric_source

        text = run.kept("rubric.md") if run.keeps("rubric.md") else None
        source = (text, run.info.settings.get("rubric", "rubric.md")) if reader is None else rubric_source(reader)
        return own_benchmark(*source, noted_metrics(run))
    if reader is not None:
        bench = benchmark(reader)
        if bench.name != run.info.benchmark:
            raise RefBenchError(f"--benchmark {reader}: it holds {bench.name}, and {run.path} {run.info.benchmark}")
        return bench
    if run.keeps("benchmark.py"):
        return benchmark(str(run.path / "benchmark/benchmark.py"))
    return benchmark(run.info.benchmark)


_MEASURES = "measures "


def note_measured(writer: LedgerWriter, bench: Benchmark) -> None:
    """Keep the names of the parts that a run measures, so that a benchmark which was given them is made again."""
    for part in sorted(bench.asking.measured):
        writer.note(_MEASURES + part, "")


def noted_metrics(run: Run) -> dict[str, int]:
    """The metrics that a run of own cases has been asked for so far, each with its number of references at most."""
    parts = [part.partition("#") for part in sorted(run.notes(_MEASURES))]
    found: dict[str, int] = {}
    for metric, _, number in parts:
        found[metric] = max(found.get(metric, 1), int(number or 1))
    return found


def run_result(
    run: Run,
    bench: Benchmark,
    cases: Sequence[AnyCase],
    tabling: Tabling | None = None,
    *,
    systems: Sequence[System] = (),
    notes: Sequence[str] = (),
) -> Result:
    """The result of what a run holds, over the cases that it has been asked for so far."""
    tabling = tabling or Tabling()
    cases = _wanted(run, cases)
    facts = replace(facts_of(run, tabling.refusals), systems=systems, pictures=_pictures(run, cases))
    left_out = [*_unmeasured(bench, facts), *bench.reporting.notes(cases, facts.outputs), *painting(facts.outputs)]
    painters = {name: json.loads(how) for name, how in sorted(run.notes("model ").items())}
    left_out += _untold(painters)
    if len(set(facts.seeds.values())) > 1:
        counts = ", ".join(f"{count} of {model}" for model, count in sorted(facts.seeds.items()))
        left_out.append(f"not as many seeds of every model: {counts}")
    if run.info.code and bench.code != run.info.code:
        left_out.append(f"read with other code ({bench.code}) than the run was begun with ({run.info.code})")
    if gone := run.left_out():
        left_out.append(f"{gone} results are about outputs that were replaced since, and are left out")
    origin = Origin(run.info.subset, notes=[*notes, *left_out])
    return _result(bench, cases, run.evidence(), tabling, facts, origin)


def _unmeasured(bench: Benchmark, facts: RunFacts) -> list[str]:
    """Parts that were not measured, together where the reason is the same."""
    by_reason: dict[str, list[str]] = {}
    order = [metric for of_part in bench.asking.parts.values() for metric in of_part]
    for part in sorted(facts.unmeasured, key=lambda part: (order.index(part) if part in order else len(order), part)):
        if facts.unmeasured[part]:
            by_reason.setdefault(facts.unmeasured[part], []).append(part)
    return [
        f"{', '.join(parts)} {'was' if len(parts) == 1 else 'were'} not measured: {reason}"
        for reason, parts in by_reason.items()
    ]


def _pictures(run: Run, cases: Sequence[AnyCase]) -> str:
    """One hash for the content of the cases' pictures as far as they were opened, "" where none was."""
    mine = {picture.name for case in cases for picture in (*case.request.pictures, *case.targets)}
    known = {name: sha256 for name, sha256 in run.inputs().items() if name in mine}
    return content_key(known)[:16] if known else ""


def facts_of(run: Run, refusals: str = REFUSALS[0]) -> RunFacts:
    """What is known of a run beyond its evidence."""
    notes = run.notes("")  # read once: on network disks a reader copies the ledger first

    def under(prefix: str) -> dict[str, str]:
        return {name.removeprefix(prefix): value for name, value in notes.items() if name.startswith(prefix)}

    return RunFacts(
        outputs=run.outputs(),
        settings=run.info.settings,
        live=True,
        judges=tuple(under("family of ")),
        seeds={model: int(count) for model, count in under("seeds of ").items()},
        unmeasured=under("not measured "),
        unsupported_counts=refusals == "worst,unsupported",
    )


def run_draws(path: Path | str, *, protocol: str = "both") -> Iterator[Score]:
    """What a run holds before anything is averaged: the scores of each seed and each repeat."""
    run = Run.open(Path(path))
    bench = benchmark_of(run)
    cases = _wanted(run, run.cases(bench.data.case_type))
    return drawn_scores(bench, cases, run.evidence(), _protocols(bench, protocol), facts_of(run))


def _wanted(run: Run, cases: Sequence[AnyCase]) -> Sequence[AnyCase]:
    """The cases that the run has been asked for so far."""
    wanted = run.wanted()
    if wanted is None:
        return cases
    chosen = {case.id for case in fair_order(cases)[:wanted]}
    return [case for case in cases if case.id in chosen]


def _record(run: Run, replies: Iterable[tuple[Purpose, Evidence]], dataset: Dataset, shard: Shard | None) -> int:
    """Put imported replies into the run's ledger (those of the shard only); returns the number of conflicts."""
    mine = {case.id for i, case in enumerate(dataset.cases) if shard is None or i % shard.count == shard.index - 1}
    with run.writer(shard) as writer:
        writer.note_data(dataset.root, dataset.picture_root)
        for number, (purpose, evidence) in enumerate(replies, 1):
            if purpose.case in mine:
                writer.add(evidence, purpose)
            if number % _COMMIT_EVERY == 0:
                writer.commit()
    return writer.conflicts


def _result(
    bench: Benchmark,
    cases: Sequence[AnyCase],
    evidence: Iterable[tuple[Purpose, Evidence]],
    tabling: Tabling,
    facts: RunFacts,
    origin: Origin,
) -> Result:
    chosen = _protocols(bench, tabling.protocol)
    if tabling.refusals not in REFUSALS:
        raise RefBenchError(f"--refusals {tabling.refusals}: choose {', '.join(REFUSALS)}")
    judges: dict[str, dict[str, Any]] = {}
    measured: dict[str, dict[str, Any]] = {}
    scores = score_evidence(bench, cases, _noted(evidence, judges, measured), chosen, facts)
    if not scores:
        raise RefBenchError("there is nothing to score yet: the run holds no replies and no measurements")
    explain = bench.reporting.explain_changes if len(chosen) > 1 else None
    origin = replace(
        origin,
        settings=facts.settings,
        judges=judges,
        measured=measured,
        seeds=seeds_of(facts.outputs),
        pictures=facts.pictures,
        changes=explain(cases, scores) if explain else (),
        notes=[
            *origin.notes,
            *_lost_repeats(scores),
            *_untold({name: who["parameters"] for name, who in sorted(judges.items())}),
        ],
    )
    return result_of(bench, cases, scores, origin, draws=tabling.draws, seed=tabling.seed, refusals=tabling.refusals)


def _untold(identities: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Functions that carry values of which two cannot be told apart, so that a run would be continued with others."""
    return [
        f"{name}: {values} cannot be told from other values: give the function an attribute `version`, and change it "
        "with them"
        for name, how in identities.items()
        for key, values in how.items()
        if key.rpartition(".")[2] == UNTOLD  # wrappers tell of their model under `model.`
    ]


def _lost_repeats(scores: Sequence[Score]) -> list[str]:
    """Repeats of a judge that could not be read, where another stands for them."""
    lost: dict[str, int] = {}
    for score in scores:
        if score.lost_repeats:
            lost[score.judge or ""] = lost.get(score.judge or "", 0) + score.lost_repeats
    return [
        f"{judge}: {n} marks of repeats could not be read; the other repeats stand for them"
        for judge, n in lost.items()
    ]


def _noted(
    evidence: Iterable[tuple[Purpose, Evidence]],
    judges: dict[str, dict[str, Any]],
    measured: dict[str, dict[str, Any]],
) -> Iterator[tuple[Purpose, Evidence]]:
    """The evidence as it is, while noting who each judge was, and by what each part was measured; not in the order in
    which it was recorded, so that a table has one fingerprint. Of several versions of a metric the newest counts; of
    several ways to ask one judge all are told."""
    for purpose, act in evidence:
        if act.kind == "measure":
            how = {key: act.request.get(key) for key in ("metric", "version", "networks")}
            if "code" in act.request:  # of a metric that is not shipped
                how["code"] = act.request["code"]
            part = f"{purpose.part} {act.request.get('protocol') or 'both'}"
            if part not in measured or _newness(how) > _newness(measured[part]):
                measured[part] = how
        elif act.asked is not None:
            who = {key: act.asked[key] for key in ("model", "parameters")}
            judges[purpose.judge] = _asked_as(judges.get(purpose.judge), who)
        yield purpose, act


def _newness(how: Mapping[str, Any]) -> tuple[int, str]:
    return int(how["version"] or 0), content_key(how)


def _asked_as(before: dict[str, Any] | None, who: dict[str, Any]) -> dict[str, Any]:
    if before is None or before == who or who in before.get("also", ()):
        return before or who
    ways = [{"model": before["model"], "parameters": before["parameters"]}, *before.get("also", ()), who]
    first, *others = sorted(({content_key(way): way for way in ways}).values(), key=content_key)
    return {**first, "also": others} if others else first


def result_of(
    bench: Benchmark,
    cases: Sequence[AnyCase],
    scores: Sequence[Score],
    origin: Origin | None = None,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    refusals: str = REFUSALS[0],
) -> Result:
    """Table the scores, protocol by protocol, under the fingerprint of everything that shapes the numbers."""
    origin = origin or Origin()
    if refusals != REFUSALS[0]:
        bench = _counting_refusals(bench)
    rows: list[Row] = []
    for name in dict.fromkeys(score.protocol for score in scores):
        mine = [score for score in scores if score.protocol == name]
        rows += tabulate(name, bench.scoring.protocols[name].aggregate, mine, cases, draws=draws, seed=seed)
    rows += bench.scoring.further_rows(rows)
    # Without draws the fingerprint is that of the usual intervals: the same numbers must not have two.
    interval = {"version": INTERVAL_VERSION, "draws": draws or DRAWS, "seed": seed}
    parts = _fingerprint_parts(bench, cases, scores, origin, refusals, interval)
    made = Result(
        bench=bench,
        table=Table(
            benchmark=bench.name,
            fingerprint=content_key(parts)[:16],
            parts=parts,
            digest=_digest(scores),
            rows=tuple(rows),
        ),
        scores=tuple(scores),
        cases=tuple(cases),
        changes=tuple(origin.changes),
        notes=(*origin.notes, *([_COUNTED[refusals]] if refusals in _COUNTED else ())),
        # Imported replies come without outputs: there is one picture for each.
        seeds={score.model: 1 for score in scores} | dict(origin.seeds),
        refusals=refusals,
    )
    odd = unjudged(made.unjudged())
    return replace(made, notes=(*made.notes, odd)) if odd else made


def _fingerprint_parts(
    bench: Benchmark,
    cases: Sequence[AnyCase],
    scores: Sequence[Score],
    origin: Origin,
    refusals: str,
    interval: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that shapes the numbers; what says nothing is left out, so that old tables keep their fingerprints."""
    protocols = dict.fromkeys(score.protocol for score in scores)
    parts = {
        "benchmark": bench.name,
        "cases": cases_fingerprint(cases),
        "subset": origin.subset,
        "protocols": {name: dict(bench.scoring.protocols[name].versions) for name in protocols},
        "judges": sorted({score.judge for score in scores if score.judge}),
        "asked": {name: dict(who) for name, who in sorted(origin.judges.items())},
        "settings": dict(origin.settings),
    }
    further = {
        "measured": {name: dict(how) for name, how in sorted(origin.measured.items())},
        "code": bench.code,
        "pictures": origin.pictures,
        "refusals": refusals if refusals != REFUSALS[0] else "",
    }
    return {**parts, **{name: part for name, part in further.items() if part}, "interval": interval}


_COUNTED = {
    "worst": "a model's own failures (it refused, or gave no picture) count as the worst value",
    "worst,unsupported": "a model's own failures, and requests it cannot take, count as the worst value",
}


def _counting_refusals(bench: Benchmark) -> Benchmark:
    """The benchmark with a model's own failures as the worst value of each metric."""
    protocols = {
        name: replace(protocol, aggregate=protocol.aggregate.counting_refusals(bench.scoring.lower))
        for name, protocol in bench.scoring.protocols.items()
    }
    return replace(bench, scoring=replace(bench.scoring, protocols=protocols))


def _digest(scores: Sequence[Score]) -> str:
    """One hash for the states of all scores, in whatever order they come."""
    lines = sorted(
        "\t".join(
            (
                score.protocol,
                score.model,
                score.judge or "",
                score.case,
                score.metric,
                str(score.seed),
                repr(score.value),
                f"{score.failure.kind} {score.failure.by_model}" if score.failure else "",
                "not asked" if score.not_asked else "" if score.not_applicable is None else "not applicable",
            )
        )
        for score in scores
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _protocols(bench: Benchmark, protocol: str) -> tuple[str, ...]:
    if protocol == "both":
        return tuple(bench.scoring.protocols)
    if protocol not in bench.scoring.protocols:
        raise RefBenchError(f"--protocol {protocol}: choose {', '.join(bench.scoring.protocols)} or both")
    return (protocol,)
