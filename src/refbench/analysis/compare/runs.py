"""Runs and released figures compared: `RUN_DIR:MODEL`, `RUN_DIR`, or `BENCHMARK:MODEL`, read once each, laid over the
same cases, with a list of everything that differs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from refbench.analysis.compare import Comparison, Further, Systems, compare_columns
from refbench.benchmarks import Benchmark, benchmark, resolve_data
from refbench.benchmarks.registry import names
from refbench.case import AnyCase
from refbench.record import RefBenchError, content_key
from refbench.runs import Run
from refbench.runs.derived import Derived
from refbench.runs.published import holds_run, is_published, open_run
from refbench.score import Score
from refbench.tables.scoring import REFUSALS, derived_of, pictures_of, score_run
from refbench.tables.table import DRAWS, EMPTY, SEED, Columns, System, columns_of

RELEASED = "released"
RELEASED_DIGITS = 6
"""Released item scores have so many; beside them the scores of runs are rounded likewise, or rounding makes a gap."""


@dataclass(frozen=True)
class ScoreSource:
    """One source of scores and the models wanted of it."""

    name: str
    """The run's directory as it was given, or `released`."""
    bench: Benchmark
    protocol: str
    cases: Sequence[AnyCase]
    scores: Sequence[Score]
    models: tuple[str, ...]
    parts: Mapping[str, Any]
    """What the fingerprint of its table is taken of."""
    seeds: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stopped: Mapping[str, int] = field(default_factory=dict)
    """As of `Result.stopped`."""
    pictures: Mapping[str, str] = field(default_factory=dict)
    """The content of the cases' pictures that were opened, by name."""

    @property
    def released(self) -> bool:
        return self.name == RELEASED

    @property
    def fingerprint(self) -> str | None:
        """As `refbench table` prints it; released figures have none."""
        return None if self.released else content_key(self.parts)[:16]


def load_sources(
    operands: Sequence[str], protocol: str | None, data: Path | None, refusals: str = REFUSALS[0]
) -> list[ScoreSource]:
    """The sources in the order given, each with the models wanted. All are of one benchmark."""
    if protocol == "both":
        raise RefBenchError("--protocol both: a comparison is under one protocol, give paper or corrected")
    wanted: dict[str, list[str | None]] = {}
    for word in operands:
        place, model = split_operand(word)
        wanted.setdefault(place, []).append(model)
    benches = {place: _bench_name(place) for place in wanted}
    if len(set(benches.values())) > 1:
        places = ", ".join(f"{place} is {name}" for place, name in benches.items())
        raise RefBenchError(f"only models on the same benchmark can be compared: {places}")
    released = [place for place in wanted if not _is_run(place)]
    if data is not None and not released:
        raise RefBenchError("--data is for released figures: a run has its cases with it, leave --data out")
    sources = [_released(place, wanted[place], protocol, data) for place in released]
    chosen = sources[0].protocol if sources else protocol
    by_place = {place: _of_run(place, wanted[place], chosen, refusals) for place in wanted if _is_run(place)}
    by_place |= dict(zip(released, sources, strict=True))
    return [by_place[place] for place in wanted]


def split_operand(word: str) -> tuple[str, str | None]:
    """Place and model. Directories and models may have colons of their own: the first colon after a run counts."""
    if _is_run(word):
        return _place(word), None
    cuts = [i for i, letter in enumerate(word) if letter == ":"]
    for cut in cuts:
        if _is_run(word[:cut]) and word[cut + 1 :]:
            return _place(word[:cut]), word[cut + 1 :]
    name, _, model = word.partition(":")
    if name in names():
        return name, model or None
    if (Path(name) / "run.json").exists() or not cuts or "/" in name:
        Run.open(Path(name))  # says what the path is instead
    raise RefBenchError(
        f"{word}: give RUN_DIR, RUN_DIR:MODEL, or BENCHMARK:MODEL with a benchmark of {', '.join(names())}"
    )


def _place(word: str) -> str:
    return word.rstrip("/") or word


def _is_run(word: str) -> bool:
    return holds_run(Path(word))


def _bench_name(place: str) -> str:
    return open_run(Path(place)).info.benchmark if _is_run(place) else place


def _of_run(place: str, models: Sequence[str | None], protocol: str | None, refusals: str) -> ScoreSource:
    path = Path(place)
    # Without draws: the intervals of single models are not what is asked, and cost more than all pairs.
    result = score_run(path, protocol=protocol or "both", draws=0, refusals=refusals)
    result.needs_all_calls("a comparison", place)
    protocol = protocol or result.table.rows[0].protocol
    scores = [score for score in result.scores if score.protocol == protocol]
    there = list(dict.fromkeys(score.model for score in scores))
    bench = result.bench
    whole = {**result.table.parts, "protocols": {name: dict(p.versions) for name, p in bench.scoring.protocols.items()}}
    return ScoreSource(
        name=place,
        bench=bench,
        protocol=protocol,
        cases=result.cases,
        scores=scores,
        models=_chosen(place, models, there),
        parts=whole,
        seeds=result.seeds,
        notes=result.notes,
        stopped=result.stopped,
        pictures=pictures_of(open_run(path), result.cases),
    )


def _released(place: str, models: Sequence[str | None], protocol: str | None, data: Path | None) -> ScoreSource:
    bench = benchmark(place)
    if bench.reporting.released is None:
        raise RefBenchError(f"{place}: no item scores of {bench.title} were released; give a run directory")
    cases, scores = bench.reporting.released(None)
    theirs = scores[0].protocol
    if protocol not in (None, theirs):
        raise RefBenchError(
            f"--protocol {protocol}: the released figures of {bench.title} are of the {theirs} protocol only"
        )
    notes: tuple[str, ...] = ()
    if protocol is None:
        notes = (f"released figures are of the {theirs} protocol, so everything here is compared under it",)
    if data is not None:
        by_id = {case.id: case for case in bench.data.load(resolve_data(bench, data), None).cases}
        cases = [by_id.get(case.id, case) for case in cases]
    there = list(dict.fromkeys(score.model for score in scores))
    return ScoreSource(
        name=RELEASED,
        bench=bench,
        protocol=theirs,
        cases=cases,
        scores=scores,
        models=_chosen(f"{bench.title}'s released figures", models, there),
        parts={"judges": sorted({score.judge for score in scores if score.judge})},
        seeds=dict.fromkeys(there, 1),
        notes=notes,
    )


def _chosen(where: str, wanted: Sequence[str | None], there: Sequence[str]) -> tuple[str, ...]:
    stranger = next((model for model in wanted if model is not None and model not in there), None)
    if stranger is not None:
        raise RefBenchError(f"{where}: there is no model {stranger}; the models are {', '.join(there)}")
    named = [model for model in wanted if model is not None]
    # A run given whole as well as by model stands for all of its models, those named first.
    return tuple(dict.fromkeys([*named, *(there if None in wanted else [])]))


def joined(sources: Sequence[ScoreSource], judge: str | None, refusals: str) -> tuple[Systems, list[dict[str, str]]]:
    """All systems over all cases that any source has, and of each source the names that tell its models apart.

    Cases are the same when their ids are; those whose content differs between runs take no part.
    """
    labels = _labels(sources)
    changed = _changed(sources)
    cases = _all_cases(sources, changed)
    chosen = _judges(sources, judge)
    seeds = {labels[i][model]: source.seeds[model] for i, source in enumerate(sources) for model in source.models}
    shown = [_short(source, sources) for source in sources]
    differences = [
        line
        for a, b in combinations(range(len(sources)), 2)
        for line in differences_of((sources[a], shown[a], chosen[a]), (sources[b], shown[b], chosen[b]))
    ]
    if changed:
        differences.append(
            f"{len(changed)} cases have the same id but other content, and take no part (first: {sorted(changed)[0]})"
        )
    notes = dict.fromkeys(note for source in sources if source.released for note in source.notes)
    # A run's own benchmark counts refusals as it was asked to.
    bench = next((source.bench for source in sources if not source.released), sources[0].bench)
    systems = Systems.of(
        bench,
        sources[0].protocol,
        _stacked(sources, labels, chosen, cases),
        cases,
        seeds=seeds,
        differences=tuple(dict.fromkeys(differences)),
        notes=tuple(notes),
        stopped={
            names[model]: n
            for s, names in zip(sources, labels, strict=True)
            for model, n in s.stopped.items()
            if model in names
        },
        refusals=refusals,
    )
    return systems, labels


def shown_models(sources: Sequence[ScoreSource], labels: Sequence[Mapping[str, str]]) -> list[str]:
    """The models of all sources by the names that tell them apart."""
    return [names[model] for names, source in zip(labels, sources, strict=True) for model in source.models]


def _labels(sources: Sequence[ScoreSource]) -> list[dict[str, str]]:
    """Names that tell all models apart: a model of the same name in two runs carries its run, and beside runs a
    released one says so."""
    count: dict[str, int] = {}
    for source in sources:
        for model in source.models:
            count[model] = count.get(model, 0) + 1
    mixed = any(not source.released for source in sources)
    return [
        {
            model: f"{model} ({_short(source, sources)})" if count[model] > 1 or (source.released and mixed) else model
            for model in source.models
        }
        for source in sources
    ]


def _short(source: ScoreSource, sources: Sequence[ScoreSource]) -> str:
    """The run's own directory name, where no other run has it."""
    short = Path(source.name).name
    return short if sum(Path(other.name).name == short for other in sources) == 1 else source.name


def _changed(sources: Sequence[ScoreSource]) -> set[str]:
    """Ids of cases that are not the same in all runs. Released figures know cases by their ids alone."""
    runs = [source for source in sources if not source.released]
    if len({source.parts["cases"] for source in runs}) <= 1:
        return set()
    keys: dict[str, str] = {}
    changed = set()
    for source in runs:
        for case in source.cases:
            if keys.setdefault(case.id, key := case.key) != key:
                changed.add(case.id)
    return changed


def _all_cases(sources: Sequence[ScoreSource], changed: set[str]) -> tuple[AnyCase, ...]:
    by_id: dict[str, AnyCase] = {}
    for source in sorted(sources, key=lambda source: source.released):  # whole cases before ids
        for case in source.cases:
            if case.id not in changed:
                by_id.setdefault(case.id, case)
    return tuple(by_id.values())


def _judges(sources: Sequence[ScoreSource], judge: str | None) -> list[tuple[str | None, ...]]:
    """Who judged the chosen models of each source; the one asked for, where a source has it."""
    there = [
        tuple(dict.fromkeys(score.judge for score in source.scores if score.model in source.models))
        for source in sources
    ]
    if judge is None:
        return there
    known = sorted({name or "none" for names in there for name in names})
    if judge.casefold() not in [name.casefold() for name in known]:
        raise RefBenchError(f"--judge {judge}: the judges are {', '.join(known)}")
    asked = [tuple(name for name in names if (name or "none").casefold() == judge.casefold()) for names in there]
    return [mine or names for mine, names in zip(asked, there, strict=True)]


def _stacked(
    sources: Sequence[ScoreSource],
    labels: Sequence[Mapping[str, str]],
    judges: Sequence[Sequence[str | None]],
    cases: Sequence[AnyCase],
) -> Columns:
    """All systems over all cases; a case, a metric or a seed that a source does not have is in no state there."""
    parts, places = [], []
    for source, chosen in zip(sources, judges, strict=True):
        scores = [score for score in source.scores if score.model in source.models and score.judge in chosen]
        parts.append(columns_of(scores, source.cases))
        position = {case.id: i for i, case in enumerate(source.cases)}
        here = [i for i, case in enumerate(cases) if case.id in position]
        places.append((here, [position[cases[i].id] for i in here]))
    systems: list[System] = [
        (names[model], judge) for names, part in zip(labels, parts, strict=True) for model, judge in part.systems
    ]
    metrics = sorted({metric for part in parts for metric in part.drawn})
    n_seeds = max(column.shape[2] for part in parts for column in part.drawn.values())

    def stack(name: str, metric: str, empty: float | bool) -> np.ndarray[Any, Any]:
        kind = np.int8 if name == "kinds" else np.asarray(empty).dtype
        wide = np.full((len(systems), len(cases), n_seeds), empty, dtype=kind)
        start = 0
        for part, (here, there) in zip(parts, places, strict=True):
            column = getattr(part, name).get(metric)
            if column is not None:
                wide[start : start + len(part.systems), here, : column.shape[2]] = column[:, there]
            start += len(part.systems)
        return wide

    columns = Columns(
        tuple(systems),
        **{name: {metric: stack(name, metric, empty) for metric in metrics} for name, empty in EMPTY.items()},
    )
    if not any(source.released for source in sources):
        return columns
    rounded = {metric: np.round(column, RELEASED_DIGITS) for metric, column in columns.drawn.items()}
    return replace(columns, drawn=rounded)


Named = tuple[ScoreSource, str, Sequence[str | None]]
"""A source, what it is called, and its judges."""


def differences_of(first: Named, second: Named) -> list[str]:
    """What two sources do not share, each as words after "not the same: "."""
    (a, name_a, judges_a), (b, name_b, judges_b) = first, second
    lines = []

    def unlike(what: str, mine: object, theirs: object) -> None:
        if mine != theirs:
            lines.append(f"{what}: {name_a} {_said(mine)}, {name_b} {_said(theirs)}")

    same = {_folded(j) for j in judges_a} & {_folded(j) for j in judges_b}
    if not same:
        unlike("judge", ", ".join(map(_said, judges_a)), ", ".join(map(_said, judges_b)))
    unlike("cases", len(a.cases), len(b.cases))
    if a.released or b.released:
        run = b if a.released else a
        aggregate = run.bench.scoring.protocols[run.protocol].aggregate
        left = "is left out"
        if aggregate.imputed or aggregate.worst is not None:
            left = "is left out unless the protocol or --refusals gives it a value"
        lines.append("content of the cases: released figures name cases by id only, so it cannot be checked")
        lines.append(
            f"readers: released figures are as the release scored them, failed replies as 0; {_short(run, [run])} is "
            f"read anew, and what failed in it {left}"
        )
        return lines
    unlike("subset", a.parts.get("subset"), b.parts.get("subset"))
    for judge in sorted(same - {""}):
        unlike(f"how judge {judge} was asked", _asked(a, judge), _asked(b, judge))
    for part in ("settings", "measured"):
        mine, theirs = a.parts.get(part, {}), b.parts.get(part, {})
        for key in sorted({*mine, *theirs}):
            unlike(key if part == "settings" else f"how {key} was measured", mine.get(key), theirs.get(key))
    unlike("versions of the protocol", a.parts["protocols"][a.protocol], b.parts["protocols"][b.protocol])
    both = {*a.pictures} & {*b.pictures}
    if repainted := sorted(name for name in both if a.pictures[name] != b.pictures[name]):
        lines.append(
            f"pictures of the cases: {len(repainted)} of {len(both)} that both opened have other content "
            f"(first: {repainted[0]})"
        )
    unlike("code of the benchmark", a.parts.get("code"), b.parts.get("code"))
    texts = a.bench.source, b.bench.source
    other = [file for file in sorted({*texts[0], *texts[1]}) if texts[0].get(file) != texts[1].get(file)]
    lines += [f"{file}: {name_a} and {name_b} were run with different texts" for file in other]
    if lines:
        unlike("fingerprint", a.fingerprint, b.fingerprint)
    return lines


def _asked(source: ScoreSource, judge: str) -> object:
    asked = {name.casefold(): who for name, who in source.parts.get("asked", {}).items()}
    return asked.get(judge)


def _folded(judge: str | None) -> str:
    return (judge or "").casefold()


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(item)}" for key, item in value.items()) or "nothing"
    return "not recorded" if value is None else str(value)


def compare(
    operands: Sequence[str | Path],
    *,
    metric: str | None = None,
    protocol: str | None = None,
    judge: str | None = None,
    against: str | None = None,
    refusals: str = REFUSALS[0],
    data: Path | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
    margin: float | None = None,
    over_measures: bool = False,
) -> Comparison:
    """Compare `RUN_DIR:MODEL`, `RUN_DIR` (all its models) and `BENCHMARK:MODEL` (released figures) in pairs.

    Cases meet by their ids; what else is not the same on the sources is in `differences`. `refusals` says how a model's
    own failures count; released figures hold none. `margin` and `over_measures` are those of `Further`.
    """
    words = [str(operand) for operand in operands]
    further = Further(margin=margin, over_measures=over_measures)

    def make() -> Comparison:
        sources = load_sources(words, protocol, data, refusals)
        systems, labels = joined(sources, judge, refusals)
        models = shown_models(sources, labels)
        one = None if against is None else _named(against, models)
        return compare_columns(
            systems, models=models, against=one, metric=metric, draws=draws, seed=seed, further=further
        )

    if protocol == "both" or data is not None:
        return make()
    derived = _derived_of(words)
    if not derived:
        return make()
    asked = [metric, protocol, judge, against, refusals, draws, seed, asdict(further)]
    states = [one.state for one in derived]
    return derived[0].remembered(make, _packed, Comparison.model_validate_json, "comparison", words, asked, states)


def _derived_of(words: Sequence[str]) -> list[Derived]:
    """What was derived from each of the runs, all of them at rest; nothing where that cannot be said of one, or one is
    made again from what was published."""
    places = [Path(place) for place in dict.fromkeys(split_operand(word)[0] for word in words) if _is_run(place)]
    if any(map(is_published, places)):
        return []
    runs = [Run.open(place) for place in places]
    found = [derived_of(run, run.derived) for run in runs]
    return [one for one in found if one is not None and one.state] if all(one and one.state for one in found) else []


def _packed(comparison: Comparison) -> bytes | None:
    data = comparison.model_dump_json().encode()
    return data if Comparison.model_validate_json(data) == comparison else None


def _named(against: str, models: Sequence[str]) -> str:
    """The model that `--against` means: by its whole name, or without the run that tells it from its namesakes."""
    meant = [model for model in models if model == against] or [m for m in models if m.startswith(f"{against} (")]
    if len(meant) != 1:
        raise RefBenchError(f"--against {against}: the models are {', '.join(models)}")
    return meant[0]
