"""From evidence to a table, offline: replies on disk, or a run that holds them, read again."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from refbench.benchmarks import Benchmark, Dataset, benchmark, names, resolve_data
from refbench.benchmarks.fetch import said_of
from refbench.benchmarks.kit.beside import with_measures
from refbench.benchmarks.kit.definition import ImportedReplies, unjudged
from refbench.benchmarks.registry import SHIPPED, from_run
from refbench.calls.identity import UNTOLD
from refbench.case import AnyCase
from refbench.evidence import PEOPLE, Evidence, Purpose
from refbench.metrics import find_metric
from refbench.output import painting, seeds_of
from refbench.record import RefBenchError, content_key, counted
from refbench.runs import LedgerWriter, Run, Shard
from refbench.runs.derived import Derived
from refbench.runs.ledger import PAINTER
from refbench.runs.published import open_run
from refbench.runs.run import cases_fingerprint, fair_order
from refbench.score import Score
from refbench.tables.packed import PackedScores, packed
from refbench.tables.result import Result
from refbench.tables.sampled import ESTIMATOR_VERSION, SampleDesign, Sampling, away_of, estimated_rows
from refbench.tables.scorer import RunFacts, drawn_scores, score_evidence, version_of
from refbench.tables.table import DRAWS, INTERVAL_VERSION, SEED, Row, System, Table, columns_of, tabulate

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
    formulas: str = ""


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
    formulas: str = ""
    """By which of the benchmark's formulas the numbers are made; empty for the usual ones."""
    design: SampleDesign | None = None
    """By which a part of the calls was judged; it shapes nothing where all of them were."""
    stopping: Sequence[str] = ()
    """The pairs that the run was to be asked about until they were resolved, and no further."""


def load(name: Path | str, data: Path | str | None = None, *, subset: str | None = None) -> Dataset:
    """The cases of a benchmark from its official files, `data` being `$REFBENCH_DATA/<benchmark>` by default; or those
    in a file of one's own."""
    from refbench.benchmarks.own.cases import holds_cases

    if holds_cases(name):
        from refbench.benchmarks.own.benchmark import own_benchmark

        return own_benchmark(None).data.load(Path(name), subset)
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
    formulas: str = "",
) -> Result:
    """Read judge replies that are already there and table them; with `out`, keep them in a run.

    Running it again with the same `out` resumes: replies recorded before are not recorded twice.
    """
    tabling = Tabling(protocol, draws, seed, refusals, formulas)
    dataset = load(name, data, subset=subset)
    bench = benchmark(name)
    if bench.asking.import_replies is None:
        raise RefBenchError(f"{bench.title} has no released replies to read from {replies}: judge with refbench run")
    found = bench.asking.import_replies(dataset, Path(replies), models, judge)
    systems = [(model, found.judge) for model in found.models]
    if found.protocol:
        if protocol not in ("both", found.protocol):
            raise RefBenchError(f"--protocol {protocol}: {replies} has values of the {found.protocol} protocol alone")
        tabling = replace(tabling, protocol=found.protocol)
    notes = []
    if found.unknown:
        notes.append(f"{len(found.unknown)} replies for items not in the data were skipped (first: {found.unknown[0]})")
    if found.outside:
        notes.append(f"{len(found.outside)} replies are for items of the data outside the subset {subset}: not scored")
    if out is not None:
        run = Run.create(Path(out), bench.name, dataset.cases, subset=subset)
        conflicts = _record(run, found, dataset, shard)
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
    formulas: str = "",
) -> Result:
    """Score and table what a run holds, with the readers of this version; `formulas` names other ones than the usual,
    where the benchmark has such.

    `path` may be a folder that was published. A run of a benchmark that is not shipped is read by the copy that it
    keeps, or by `reader`: a newer file of it, or a rubric.
    """
    run = open_run(Path(path))
    bench = benchmark_of(run, reader)
    cases = run.cases(bench.data.case_type)
    derived = derived_of(run, run.derived) if reader is None else None
    return run_result(run, bench, cases, Tabling(protocol, draws, seed, refusals, formulas), derived=derived)


def derived_of(run: Run, at_opening: Derived | None = None) -> Derived | None:
    """What was derived from a run before; None where code has a part in it that is not RefBench's own, since nobody can
    tell when that changes. `at_opening` is of a run that was opened just now."""
    if run.info.benchmark not in (*SHIPPED, "own"):
        return None
    for name in noted_metrics(run):
        with contextlib.suppress(RefBenchError):  # a part that is no metric, or one that is not installed any more
            if find_metric(name).code:
                return None
    return at_opening or Derived(run.path)


def released_result(
    name: str,
    *,
    protocol: str = "both",
    subset: str | None = None,
    draws: int = DRAWS,
    refusals: str = REFUSALS[0],
    formulas: str = "",
) -> Result:
    """The item scores that a benchmark's authors released, tabled."""
    bench = benchmark(name)
    if bench.reporting.released is None:
        raise RefBenchError(f"no item scores of {bench.title} were released: give a run directory")
    if subset is not None and subset not in bench.data.subsets:
        raise RefBenchError(f"--subset {subset}: {bench.title} has {', '.join(bench.data.subsets) or 'none'}")
    cases, scores = bench.reporting.released(subset)
    theirs = scores[0].protocol
    if protocol not in ("both", theirs):
        raise RefBenchError(f"--protocol {protocol}: the released scores of {bench.title} are of {theirs} only")
    note = "these are the item scores that were released, as the authors' scripts gave them"
    origin = Origin(subset, notes=[note], formulas=formulas)
    return result_of(bench, cases, scores, origin, draws=draws, refusals=refusals)


def benchmark_of(run: Run, reader: Path | str | None = None) -> Benchmark:
    """The benchmark of a run, with the metrics that were measured beside its own: shipped or installed, or made again
    from the file that the run keeps, if this user may run it, or from a file given. What is written in a run names no
    other code."""
    if run.info.benchmark == "own":
        from refbench.benchmarks.own.benchmark import own_benchmark
        from refbench.judges.rubric import rubric_source

        text = run.kept("rubric.md").decode("utf-8", "surrogateescape") if run.keeps("rubric.md") else None
        source = (text, run.info.settings.get("rubric", "rubric.md")) if reader is None else rubric_source(reader)
        return own_benchmark(*source, noted_metrics(run))
    return with_measures(_found_for(run, reader), noted_metrics(run))


def _found_for(run: Run, reader: Path | str | None) -> Benchmark:
    if reader is not None:
        bench = benchmark(reader)
        if bench.name != run.info.benchmark:
            raise RefBenchError(f"--benchmark {reader}: it holds {bench.name}, and {run.path} {run.info.benchmark}")
        return bench
    name = run.info.benchmark
    if name not in SHIPPED and run.keeps("benchmark.py"):
        return from_run(run.path / "benchmark/benchmark.py", run.kept("benchmark.py"), run.info.code)
    if name not in names():
        raise RefBenchError(
            f"{run.path} is a run of {name!r}, which is neither shipped nor installed here, and keeps no file of it: "
            "give --benchmark FILE"
        )
    return benchmark(name)


DESIGN = "sample design"
"""The note of a run that judges a part of the calls."""


def design_of(run: Run) -> SampleDesign | None:
    """The design by which a part of the calls is judged, if there is one."""
    note = run.notes(DESIGN).get("")
    if note is None:
        return None
    try:
        return SampleDesign.model_validate_json(note)
    except ValidationError as error:
        raise RefBenchError(f"{run.path}: the design of its sample cannot be read: restore its ledger") from error


CHOSEN = "cases chosen"
"""The note of a run over cases that were chosen by other models' scores: what was measured of such a choice."""

_MEASURES = "measures "


def note_dataset(writer: LedgerWriter, dataset: Dataset) -> None:
    """Keep where the data lie, and from which repository and commit they were fetched, if they were."""
    writer.note_data(dataset.root, dataset.picture_root)
    if source := said_of(dataset.root):
        writer.note(_SOURCE, source)


def note_measured(writer: LedgerWriter, bench: Benchmark) -> None:
    """Keep the names of the parts that a run measures, so that a benchmark which was given them is made again."""
    for part in sorted(bench.asking.measured):
        writer.note(_MEASURES + part, "")


def noted_metrics(run: Run) -> dict[str, int]:
    """The metrics that a run of own cases has been asked for so far, each with its number of references at most."""
    parts = [part.partition("#") for part in sorted(run.notes(_MEASURES))]
    found: dict[str, int] = {}
    for metric, _, number in parts:
        found[metric] = max(found.get(metric, 1), run.number(number or "1"))
    return found


def run_result(
    run: Run,
    bench: Benchmark,
    cases: Sequence[AnyCase],
    tabling: Tabling | None = None,
    *,
    systems: Sequence[System] = (),
    notes: Sequence[str] = (),
    derived: Derived | None = None,
) -> Result:
    """The result of what a run holds, over the cases that it has been asked for so far; with `derived`, which is of the
    run's own cases and benchmark, what was derived from it before is not derived again."""
    tabling = tabling or Tabling()
    cases = _wanted(run, cases)
    if derived is None:
        return _run_result(run, bench, cases, tabling, systems, notes, None)
    told = bench.name, bench.code, list(bench.asking.parts), sorted(bench.asking.measured)
    return derived.remembered(
        lambda: _run_result(run, bench, cases, tabling, systems, notes, derived),
        _packed_result,
        lambda data: _restored_result(data, bench, cases),
        "result",
        asdict(tabling),
        systems,
        notes,
        told,
    )


def _packed_result(result: Result) -> bytes | None:
    """All of a result that is not its run's; its scores come last, since most readers want nothing of them."""
    scores = packed(result.scores)
    told = {name: getattr(result, name) for name in _TOLD}
    head = orjson.dumps({"table": result.table.model_dump(mode="json"), **told})
    data = len(head).to_bytes(8) + head
    same = replace(_restored_result(data, result.bench, result.cases), scores=()) == replace(result, scores=())
    return data + scores if same and scores is not None else None


def _restored_result(data: bytes, bench: Benchmark, cases: Sequence[AnyCase]) -> Result:
    end = 8 + int.from_bytes(data[:8])
    told = orjson.loads(data[8:end])
    table = Table.model_validate(told.pop("table"))
    told |= {name: tuple(told[name]) for name in ("changes", "notes")}
    return Result(bench=bench, table=table, scores=PackedScores(data[end:]), cases=tuple(cases), **told)


_TOLD = ("changes", "notes", "seeds", "refusals", "served", "stopped")
"""What a result says beside its table and its scores."""


def _run_result(
    run: Run,
    bench: Benchmark,
    cases: Sequence[AnyCase],
    tabling: Tabling,
    systems: Sequence[System],
    notes: Sequence[str],
    derived: Derived | None,
) -> Result:
    facts = replace(facts_of(run, tabling.refusals), systems=systems, pictures=_pictures(run, cases))
    if tabling.protocol == "both" and not facts.outputs and (only := run.notes(_GIVEN).get("")):
        tabling = replace(tabling, protocol=only)
    left_out = [*_unmeasured(bench, facts), *bench.reporting.notes(cases, facts.outputs), *painting(facts.outputs)]
    painters = {name: run.told(how) for name, how in sorted(run.notes(PAINTER).items())}
    left_out += _untold(painters)
    if len(set(facts.seeds.values())) > 1:
        counts = ", ".join(f"{count} of {model}" for model, count in sorted(facts.seeds.items()))
        left_out.append(f"not as many seeds of every model: {counts}")
    if source := run.notes(_SOURCE).get(""):
        left_out.append(f"data: {source}")
    if run.info.code and bench.code != run.info.code:
        left_out.append(f"read with other code ({bench.code}) than the run was begun with ({run.info.code})")
    if bench.beside:
        files = ", ".join(bench.beside)
        left_out.append(f"the run does not keep what its benchmark imports ({files}): read it with --benchmark FILE")
    left_out += [f"{PEOPLE}: {told}" for _, told in sorted(run.notes(f"{PEOPLE} ").items())]
    if gone := run.left_out():
        left_out.append(f"{gone} results are about outputs that were replaced since, and are left out")
    if chosen := run.notes(CHOSEN).get(""):
        left_out.append(
            f"the cases were chosen to stand for others, not drawn at random, so that the intervals here are not of a "
            f"random sample and do not tell how far these numbers are from those of all cases: {chosen}"
        )
    rules = sorted(run.notes(STOPPING))
    origin = Origin(run.info.subset, notes=[*notes, *left_out], design=design_of(run), stopping=rules)
    made = replace(_result(bench, cases, run.evidence(), tabling, facts, origin, derived), served=_served(run))
    return _with_stopping(made, rules, run.notes(STOPPED)) if rules else made


def _with_stopping(made: Result, rules: Sequence[str], decisions: Mapping[str, str]) -> Result:
    """The result with what the rule did to it: how many cases there are of a model depends on the scores only where a
    pair was decided and cases are unasked."""
    unasked: dict[str, set[str]] = {}
    for score in made.scores:
        if score.not_asked:
            unasked.setdefault(score.model, set()).add(score.case)
    told = [decisions[place] for place in sorted(decisions)]
    pairs = "; ".join(rules)
    stopped: dict[str, int] = {}
    if not unasked:
        said = f"pairs were followed ({pairs}); all cases were asked, so intervals are ordinary"
    elif all(sentence.startswith(_UNDECIDED) for sentence in told):
        said = f"to be asked until pairs are resolved ({pairs}); not decided yet"
    else:
        stopped = {model: len(made.cases) - len(cases) for model, cases in unasked.items()}
        said = (
            f"asked until pairs were resolved ({pairs}), so how many cases there are depends on their scores: "
            "intervals and p values of fixed numbers of cases do not allow for that"
        )
    note = ". ".join(sentence.removesuffix(".") for sentence in (said, *told))
    return replace(made, notes=(*made.notes, note), stopped=stopped)


def _served(run: Run) -> dict[str, dict[str, str]]:
    """What is known of the models behind judges on servers of one's own, and the states that any server answered in."""
    served = run.served()
    for name, states in run.answered_as().items():
        served[name] = {**served.get(name, {"address": "the provider's"}), "system_fingerprint": ", ".join(states)}
    return served


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


def pictures_of(run: Run, cases: Sequence[AnyCase]) -> dict[str, str]:
    """The hash of each picture of the cases that was opened, by its name."""
    mine = {picture.name for case in cases for picture in (*case.request.pictures, *case.targets)}
    return {name: sha256 for name, sha256 in run.inputs().items() if name in mine}


def _pictures(run: Run, cases: Sequence[AnyCase]) -> str:
    """One hash for the content of the cases' pictures as far as they were opened, "" where none was."""
    known = pictures_of(run, cases)
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
        seeds={model: run.number(count) for model, count in under("seeds of ").items()},
        unmeasured=under("not measured "),
        unsupported_counts=refusals == "worst,unsupported",
    )


def run_draws(path: Path | str, *, protocol: str = "both") -> Iterator[Score]:
    """What a run holds before anything is averaged: the scores of each seed and each repeat."""
    run = open_run(Path(path))
    bench = benchmark_of(run)
    cases = _wanted(run, run.cases(bench.data.case_type))
    protocols = _protocols(bench, protocol)

    def make() -> Sequence[Score]:
        return tuple(drawn_scores(bench, cases, run.evidence(), protocols, facts_of(run)))

    derived = derived_of(run, run.derived)
    if derived is None:
        return drawn_scores(bench, cases, run.evidence(), protocols, facts_of(run))
    kept: Sequence[Score] = derived.remembered(make, packed, PackedScores, "draws", protocols)
    return iter(kept)


def _wanted(run: Run, cases: Sequence[AnyCase]) -> Sequence[AnyCase]:
    """The cases that the run has been asked for so far."""
    wanted = run.wanted()
    if wanted is None:
        return cases
    chosen = {case.id for case in fair_order(cases)[:wanted]}
    return [case for case in cases if case.id in chosen]


STOPPING = "stop when resolved: "
"""The note of a rule by which a run was to stop, and that of what a pair was found to be."""
STOPPED = "resolved: "
_UNDECIDED = "Not decided "
"""How it begins where the pair is still open."""
_GIVEN = "imported for"
"""The note of a run that holds what the released code has measured: the only protocol that this is about."""
_SOURCE = "source of the data"
"""The note of the repository and commit that the data were fetched from."""


def _record(run: Run, found: ImportedReplies, dataset: Dataset, shard: Shard | None) -> int:
    """Put imported replies into the run's ledger (those of the shard only); returns the number of conflicts."""
    mine = {case.id for i, case in enumerate(dataset.cases) if shard is None or i % shard.count == shard.index - 1}
    with run.writer(shard) as writer:
        note_dataset(writer, dataset)
        if found.protocol:
            writer.note(_GIVEN, found.protocol)
        for number, (purpose, evidence) in enumerate(found.replies(), 1):
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
    derived: Derived | None = None,
) -> Result:
    chosen = _protocols(bench, tabling.protocol)
    if tabling.refusals not in REFUSALS:
        raise RefBenchError(f"--refusals {tabling.refusals}: choose {', '.join(REFUSALS)}")
    read = _read(bench, cases, evidence, chosen, facts, derived)
    scores, judges, measured = read.scores, read.judges, read.measured
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
        formulas=tabling.formulas,
        changes=explain(cases, scores) if explain else (),
        notes=[
            *origin.notes,
            *_lost_repeats(bench, scores),
            *_untold({name: who["parameters"] for name, who in sorted(judges.items())}),
        ],
    )
    return result_of(bench, cases, scores, origin, draws=tabling.draws, seed=tabling.seed, refusals=tabling.refusals)


class _Read(NamedTuple):
    """What was read from evidence: the scores, who each judge was, and by what each part was measured."""

    judges: dict[str, dict[str, Any]]
    measured: dict[str, dict[str, Any]]
    scores: Sequence[Score]


def _read(
    bench: Benchmark,
    cases: Sequence[AnyCase],
    evidence: Iterable[tuple[Purpose, Evidence]],
    protocols: Sequence[str],
    facts: RunFacts,
    derived: Derived | None,
) -> _Read:
    """The scores that evidence gives, or that it gave before."""

    def make() -> _Read:
        judges: dict[str, dict[str, Any]] = {}
        measured: dict[str, dict[str, Any]] = {}
        scores = score_evidence(bench, cases, _noted(evidence, judges, measured), protocols, facts)
        return _Read(judges, measured, scores)

    def pack(read: _Read) -> bytes | None:
        scores, head = packed(read.scores), orjson.dumps([read.judges, read.measured])
        same = orjson.loads(head) == [read.judges, read.measured]
        return len(head).to_bytes(8) + head + scores if same and scores is not None else None

    def unpack(data: bytes) -> _Read:
        end = 8 + int.from_bytes(data[:8])
        judges, measured = orjson.loads(data[8:end])
        return _Read(judges, measured, PackedScores(data[end:]))

    if derived is None:
        return make()
    told = list(bench.asking.parts), facts.systems, facts.unsupported_counts
    return derived.remembered(make, pack, unpack, "scores", protocols, told)


def _untold(identities: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Functions that carry values of which two cannot be told apart, so that a run would be continued with others."""
    return [
        f"{name}: {values} cannot be told from other values: give the function an attribute `version`, and change it "
        "with them"
        for name, how in identities.items()
        for key, values in how.items()
        if key.rpartition(".")[2] == UNTOLD  # wrappers tell of their model under `model.`
    ]


def _lost_repeats(bench: Benchmark, scores: Sequence[Score]) -> list[str]:
    """Marks that repeats of a judge lack, where another repeat stands for them: each counts once, as the first protocol
    reads it, and what follows from marks is none."""
    first = next((score.protocol for score in scores), "")
    marks = {metric for part, of_part in bench.asking.parts.items() if part != "derived" for metric in of_part}
    lost: Counter[str] = Counter()
    for score in scores:
        if score.lost_repeats and score.protocol == first and score.metric in marks:
            lost[score.judge or ""] += score.lost_repeats
    return [
        f"{judge}: {counted(n, 'mark')} of repeats failed; the other repeats stand for {'it' if n == 1 else 'them'}"
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
        elif PEOPLE in act.request:
            before = judges.get(PEOPLE, {"parameters": {}})["parameters"].get("studies", "")
            studies = sorted({*filter(None, before.split(", ")), str(act.request[PEOPLE])})
            judges[PEOPLE] = {"model": PEOPLE, "parameters": {"studies": ", ".join(studies)}}
        elif act.asked is not None:
            who = {key: act.asked[key] for key in ("model", "parameters")}
            judges[purpose.judge] = _asked_as(judges.get(purpose.judge), who)
        yield purpose, act


def _newness(how: Mapping[str, Any]) -> tuple[int, str]:
    return version_of(how), content_key(how)


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
    if origin.formulas:
        bench = _by_formulas(bench, origin.formulas)
    if refusals != REFUSALS[0]:
        bench = _counting_refusals(bench)
    rows: list[Row] = []
    for name in dict.fromkeys(score.protocol for score in scores):
        mine = [score for score in scores if score.protocol == name]
        whole = tabulate(name, bench.scoring.protocols[name].aggregate, mine, cases, draws=draws, seed=seed)
        rows += whole if origin.design is None else _estimated(bench, name, whole, mine, cases, origin.design)
    part = [row for row in rows if row.sampled]
    # What follows from numbers that are estimated is not a number of the ordinary kind.
    rows += bench.scoring.further_rows([row for row in rows if not row.sampled])
    # Without draws the fingerprint is that of the usual intervals: the same numbers must not have two.
    interval = {"version": INTERVAL_VERSION, "draws": draws or DRAWS, "seed": seed}
    if not part:
        origin = replace(origin, design=None)
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
        changes=() if part else tuple(origin.changes),  # of the judged alone, which were not drawn alike
        notes=(
            *origin.notes,
            *([_COUNTED[refusals]] if refusals in _COUNTED else ()),
            *([_leaning(origin.design)] if origin.design is not None else ()),
            *([f"numbers by the formulas {origin.formulas!r}"] if origin.formulas else ()),
        ),
        # Imported replies come without outputs: there is one picture for each.
        seeds={score.model: 1 for score in scores} | dict(origin.seeds),
        refusals=refusals,
    )
    odd = unjudged(made.unjudged())
    return replace(made, notes=(*made.notes, odd)) if odd else made


def _estimated(
    bench: Benchmark,
    protocol: str,
    rows: Sequence[Row],
    scores: Sequence[Score],
    cases: Sequence[AnyCase],
    design: SampleDesign,
) -> list[Row]:
    if design.cases != cases_fingerprint(cases):
        raise RefBenchError("the run's sample was drawn from other cases than these: table it with all of its cases")
    sampling = Sampling(design, bench.asking.parts, away_of(bench.asking.not_applicable, cases))
    columns = columns_of(scores, cases)
    return estimated_rows(rows, bench.scoring.protocols[protocol].aggregate, columns, cases, sampling)


def _leaning(design: SampleDesign) -> str:
    leaning = [design.references] if design.references else []
    leaning += [f"the marks of {', '.join(design.proxies)}"] if design.proxies else []
    return "estimated from a part of the calls" + (f", leaning on {' and '.join(leaning)}" if leaning else "")


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
        "formulas": origin.formulas,
        "sample": {"design": origin.design.digest, "estimator": ESTIMATOR_VERSION} if origin.design is not None else {},
        # A run that went on to the end has the ordinary numbers.
        "stopping": list(origin.stopping) if any(score.not_asked for score in scores) else [],
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


def _by_formulas(bench: Benchmark, name: str) -> Benchmark:
    """The benchmark with other formulas in every protocol."""
    protocols = {}
    for protocol, usual in bench.scoring.protocols.items():
        if name not in usual.formulas:
            there = f"the formulas {', '.join(usual.formulas)} beside" if usual.formulas else "only"
            raise RefBenchError(f"--formulas {name}: {bench.title} has {there} its usual ones: leave it out")
        protocols[protocol] = replace(usual, aggregate=usual.formulas[name])
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
