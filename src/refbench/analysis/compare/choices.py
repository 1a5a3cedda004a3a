"""How robust a gap is: the same two models under every sensible combination of protocol, judge, weights, subset and
treatment of failures, each computed by the table code that the ordinary number is computed by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.compare.draws import Resampling
from refbench.analysis.compare.family import Further, Systems, compare_columns
from refbench.analysis.compare.records import Comparison, Pair, signed
from refbench.analysis.compare.runs import ScoreSource, joined, load_sources, shown_models
from refbench.analysis.precision.weights import criteria_of, own_weights
from refbench.benchmarks import Benchmark, resolve_data
from refbench.case import AnyCase
from refbench.judges.panel import MEAN, mean_of_judges
from refbench.record import Record, RefBenchError, counted
from refbench.runs import Run
from refbench.score import digits_of
from refbench.tables.scoring import REFUSALS
from refbench.tables.table import DRAWS, Aggregate, Mean, Slice, Summary, case_values

DIMENSIONS = ("protocol", "judge", "weights", "subset", "failures")
WHOLE = "whole"
BY_PROTOCOL = "by protocol"
_TREATMENTS = {REFUSALS[0]: "left out", REFUSALS[1]: "as worst"}


class Combination(Record):
    """One way to compute the gap. `choices` has an option for each of DIMENSIONS; `same` are further combinations that
    give the same numbers, and so are not counted."""

    choices: Mapping[str, str]
    gap: float
    ci95: tuple[float, float] | None
    p: float | None
    resolved: bool
    bounds: tuple[float, float] | None
    n_cases: int
    same: tuple[Mapping[str, str], ...] = ()


class Option(Record):
    """All combinations that take one option, those with the same numbers as another included."""

    dimension: str
    option: str
    n: int
    better: int
    """In how many the first is better."""
    resolved: int
    median: float


class Robustness(Record):
    """The gap of `first` over `second` under every combination, the best for `first` first."""

    benchmark: str
    title: str
    metric: str
    first: str
    second: str
    lower_is_better: bool
    digits: int
    draws: int
    seed: int
    combinations: tuple[Combination, ...]
    options: tuple[Option, ...]
    n_tried: int
    """Combinations that have a gap, those with the same numbers as another included."""
    better: int
    worse: int
    resolved_better: int
    resolved_worse: int
    without_value: tuple[str, ...] = ()
    """Combinations that have no gap, with the reason."""
    left_out: tuple[str, ...] = ()
    """Combinations that would mean nothing, or could not be made, and why."""
    differences: tuple[str, ...] = ()
    sentence: str = ""

    def sign(self, gap: float) -> float:
        """The gap turned so that more speaks for the first."""
        return -gap if self.lower_is_better else gap


@dataclass(frozen=True)
class _Frame:
    """One protocol, judge and pair of models, before anything else is chosen."""

    bench: Benchmark
    systems: Systems
    models: Sequence[str]
    choices: Mapping[str, str]


def all_choices(
    operands: Sequence[str],
    *,
    metric: str | None = None,
    protocol: str | None = None,
    judge: str | None = None,
    leave_out: str | None = None,
    data: Path | None = None,
    resampling: Resampling | None = None,
) -> Robustness:
    """The gap of two models under all choices; `protocol` and `judge` fix one of theirs, and `leave_out` is a level
    (category, task) whose slices are left out one at a time."""
    resampling = resampling or Resampling(DRAWS)
    left_out: list[str] = []
    found: list[tuple[Mapping[str, str], Comparison]] = []
    differences: dict[str, None] = {}
    for frame in _frames(operands, protocol, judge, data, left_out):
        differences |= dict.fromkeys(frame.systems.differences)
        base = partial(compare_columns, models=frame.models, seed=resampling.seed, further=Further(by_slice=False))
        name = metric or base(frame.systems, draws=1).metric
        for choices, systems in _variants(frame, name, leave_out, data, operands, left_out):
            found.append((choices, base(systems, metric=name, draws=resampling.draws)))
    if not found:
        raise RefBenchError("there is nothing to compare under any choice: " + "; ".join(left_out))
    return _told(found, resampling, tuple(dict.fromkeys(left_out)), tuple(differences))


def _frames(
    operands: Sequence[str], protocol: str | None, judge: str | None, data: Path | None, left_out: list[str]
) -> Iterator[_Frame]:
    """Each protocol and judge with the models' scores under it."""
    given = partial(load_sources, operands)
    released = protocol is None and any(source.released for source in given(None, None))
    first = given(protocol, None)
    protocols = [protocol] if protocol else list(first[0].bench.scoring.protocols)
    if released:
        protocols = [first[0].protocol]
        left_out.append(f"other protocols than {first[0].protocol}: released figures are of that one alone")
    for name in protocols:
        sources = [_with_mean(source, left_out) for source in given(name, None)]
        if sum(len(source.models) for source in sources) != 2:
            names = ", ".join(model for source in sources for model in source.models)
            raise RefBenchError(f"--all-choices is about two models, and these are {names}: write RUN_DIR:MODEL twice")
        for one in _common_judges(sources, judge, left_out):
            systems, labels = joined(sources, one, REFUSALS[0])
            said = one or ", ".join(dict.fromkeys(j or "none" for _, j in systems.columns.systems))
            models = shown_models(sources, labels)
            yield _Frame(sources[0].bench, systems, models, {"protocol": name, "judge": said})


def _with_mean(source: ScoreSource, left_out: list[str]) -> ScoreSource:
    """The source with the mean of its judges, where the benchmark itself has none."""
    judges = {score.judge for score in source.scores if score.model in source.models and score.judge}
    if source.bench.scoring.judges_mean or len(judges) < 2:
        return source
    seen = {
        model: {score.judge for score in source.scores if score.model == model and score.judge}
        for model in source.models
    }
    if len({frozenset(names) for names in seen.values()}) > 1:
        left_out.append("the mean of the judges: the two models were not judged by the same ones")
        return source
    mine = [score for score in source.scores if score.model in source.models and score.judge]
    return replace(source, scores=[*source.scores, *mean_of_judges(mine)])


def _common_judges(sources: Sequence[ScoreSource], judge: str | None, left_out: list[str]) -> list[str | None]:
    """The judges that both models have. Without a common one all that there is, if each has one alone."""
    of_model = [
        {score.judge.casefold(): score.judge for score in source.scores if score.model == model and score.judge}
        for source in sources
        for model in source.models
    ]
    common = [name for key, name in of_model[0].items() if key in of_model[1]]
    if judge is not None:
        chosen = [name for name in common if name.casefold() == judge.casefold()]
        if not chosen:
            raise RefBenchError(f"--judge {judge}: both models were judged by {', '.join(common) or 'nobody'}")
        return [*chosen]
    apart = sorted({name for key, name in {**of_model[0], **of_model[1]}.items() if name not in common})
    if common:
        left_out += [f"judge {name}: it judged only one of the two" for name in apart if name != MEAN]
        return [*common]
    if max(map(len, of_model)) > 1:
        raise RefBenchError(f"the two models have no judge in common ({', '.join(apart)}): name models of one judge")
    return [None]


def _variants(
    frame: _Frame,
    metric: str,
    leave_out: str | None,
    data: Path | None,
    operands: Sequence[str],
    left_out: list[str],
) -> Iterator[tuple[Mapping[str, str], Systems]]:
    """The frame under each weighting, subset and treatment of failures."""
    whole = frame.systems
    subsets = list(_subsets(frame, leave_out, _roots(operands, data), left_out))
    for weights, aggregate in _weightings(frame, metric, left_out):
        for failures, counting in _treatments(frame, aggregate, left_out):
            for subset, keep in subsets:
                cases = [case for case, kept in zip(whole.cases, keep, strict=True) if kept]
                said = _TREATMENTS.get(failures, failures)
                yield (
                    {**frame.choices, "weights": weights, "subset": subset, "failures": said},
                    replace(
                        whole,
                        aggregate=counting,
                        columns=whole.columns.of_cases(keep),
                        cases=cases,
                        refusals=failures if failures in REFUSALS else REFUSALS[0],
                    ),
                )


def _weightings(frame: _Frame, metric: str, left_out: list[str]) -> Iterator[tuple[str, Aggregate]]:
    """The benchmark's own weights; its criteria weighted alike; every case alike; and formulas that it declares."""
    own = frame.systems.aggregate
    yield "own", own
    criteria = criteria_of(own, metric)
    known: NDArray[np.float64] | str = ""
    if criteria:
        columns = frame.systems.columns
        known = own_weights(own, columns, case_values(own, columns, frame.systems.cases), criteria, metric)
    if criteria and not isinstance(known, str):
        yield "criteria alike", replace(own, summarise=partial(_alike, own, metric, criteria))
    else:
        left_out.append(f"equal weights of criteria: {metric} is not known to be a weighted mean of like criteria")
    if own.plain and any(where.parts for where in own.overall(frame.systems.cases)):
        yield "cases alike", replace(own, slices=partial(_without_parts, own))
    for name, formulas in frame.bench.scoring.protocols[frame.systems.protocol].formulas.items():
        yield f"formulas {name}", formulas


def _alike(own: Aggregate, metric: str, criteria: Sequence[str], mean: Mean, where: Slice) -> Summary:
    values = own.summarise(mean, where)
    return {**values, metric: np.mean([values[name] for name in criteria], axis=0)}


def _without_parts(own: Aggregate, cases: Sequence[AnyCase]) -> list[Slice]:
    return [replace(where, parts=()) if where.level == "overall" else where for where in own.slices(cases)]


def _treatments(frame: _Frame, aggregate: Aggregate, left_out: list[str]) -> Iterator[tuple[str, Aggregate]]:
    """Failures left out with bounds, and the models' own as the worst value; under `paper` as it counts them."""
    if frame.systems.protocol == "paper" or aggregate.imputed:
        left_out.append("paper with failures as the worst value: the paper's numbers have a treatment of their own")
        yield BY_PROTOCOL, aggregate
        return
    yield REFUSALS[0], aggregate
    if any(own.any() for own in frame.systems.columns.own.values()):
        yield REFUSALS[1], aggregate.counting_refusals(frame.bench.scoring.lower)
    else:
        left_out.append("failures as the worst value: none of these failures is a model's own")


def _subsets(
    frame: _Frame, leave_out: str | None, roots: Sequence[Path], left_out: list[str]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """All cases, the subsets that the benchmark declares, and all but each slice of a level."""
    cases = frame.systems.cases
    yield WHOLE, np.ones(len(cases), dtype=np.bool_)
    for name in frame.bench.data.subsets:
        ids = _ids_of(frame.bench, name, roots)
        if ids is None:
            left_out.append(f"subset {name}: its cases are not known without the data (give --data DIR)")
            continue
        keep = np.array([case.id in ids for case in cases], dtype=np.bool_)
        if keep.any():
            yield name, keep
        else:
            left_out.append(f"subset {name}: none of its cases is here")
    if leave_out is None:
        return
    slices = [where for where in frame.systems.aggregate.slices(cases) if where.level == leave_out]
    if not slices:
        levels = dict.fromkeys(w.level for w in frame.systems.aggregate.slices(cases) if w.level != "overall")
        raise RefBenchError(f"--leave-out {leave_out}: the levels are {', '.join(levels) or 'none'}")
    for where in slices:
        if not where.members.all():
            yield f"without {list(where.names.values())[-1]}", ~where.members


def _ids_of(bench: Benchmark, subset: str, roots: Sequence[Path]) -> frozenset[str] | None:
    """The cases of a declared subset; None where nothing here tells them."""
    if bench.reporting.released is not None:
        return frozenset(case.id for case in bench.reporting.released(subset)[0])
    for root in roots:
        try:
            return frozenset(case.id for case in bench.data.load(root, subset).cases)
        except RefBenchError:
            continue
    try:
        return frozenset(case.id for case in bench.data.load(resolve_data(bench, None), subset).cases)
    except RefBenchError:
        return None


def _roots(operands: Sequence[str], data: Path | None) -> list[Path]:
    """Where the data may lie: as given, or as runs have noted it."""
    from refbench.analysis.compare.runs import split_operand

    places = [Path(split_operand(word)[0]) for word in operands]
    noted = [Run.open(place).notes("data").get("") for place in places if (place / "run.json").is_file()]
    return [data] if data is not None else [Path(place) for place in noted if place]


def _told(
    found: Sequence[tuple[Mapping[str, str], Comparison]],
    resampling: Resampling,
    left_out: tuple[str, ...],
    differences: tuple[str, ...],
) -> Robustness:
    """Count what was found: combinations with the same numbers once."""
    first = found[0][1]
    pairs = [(choices, comparison.pairs[0]) for choices, comparison in found]
    valued = [(choices, pair) for choices, pair in pairs if pair.gap is not None]
    without = tuple(
        f"{words(choices)}: {pair.failure.detail if pair.failure else 'no value'}"
        for choices, pair in pairs
        if pair.gap is None
    )
    by_numbers: dict[tuple[object, ...], list[tuple[Mapping[str, str], Pair]]] = {}
    for choices, pair in valued:
        numbers = pair.values, pair.gap, pair.ci95, pair.n_cases, pair.bounds, pair.resolved
        by_numbers.setdefault(numbers, []).append((choices, pair))
    lower = first.lower_is_better
    combinations = [_combination(group) for group in by_numbers.values()]
    combinations.sort(key=lambda one: one.gap if lower else -one.gap)
    better = [one for one in combinations if one.gap and (one.gap < 0) == lower]
    worse = [one for one in combinations if one.gap and (one.gap < 0) != lower]
    told = Robustness(
        benchmark=first.benchmark,
        title=first.title,
        metric=first.metric,
        first=pairs[0][1].first,
        second=pairs[0][1].second,
        lower_is_better=lower,
        digits=max(digits_of([v for _, pair in valued for v in pair.values or ()]), *(c.digits for _, c in found)),
        draws=resampling.draws,
        seed=resampling.seed,
        combinations=tuple(combinations),
        options=tuple(_options(valued, lower)),
        n_tried=len(valued),
        better=len(better),
        worse=len(worse),
        resolved_better=sum(one.resolved for one in better),
        resolved_worse=sum(one.resolved for one in worse),
        without_value=without,
        left_out=left_out,
        differences=differences,
    )
    return told.model_copy(update={"sentence": _sentence(told)})


def _combination(group: Sequence[tuple[Mapping[str, str], Pair]]) -> Combination:
    choices, pair = group[0]
    assert pair.gap is not None
    return Combination(
        choices=choices,
        gap=pair.gap,
        ci95=pair.ci95,
        p=pair.p,
        resolved=pair.resolved,
        bounds=pair.bounds,
        n_cases=pair.n_cases,
        same=tuple(other for other, _ in group[1:]),
    )


def _options(valued: Sequence[tuple[Mapping[str, str], Pair]], lower: bool) -> Iterator[Option]:
    for dimension in DIMENSIONS:
        for option in dict.fromkeys(choices[dimension] for choices, _ in valued):
            mine = [pair for choices, pair in valued if choices[dimension] == option]
            gaps = [pair.gap for pair in mine if pair.gap is not None]
            yield Option(
                dimension=dimension,
                option=option,
                n=len(mine),
                better=sum(gap != 0 and (gap < 0) == lower for gap in gaps),
                resolved=sum(pair.resolved for pair in mine),
                median=median(gaps),
            )


def words(choices: Mapping[str, str]) -> str:
    """A combination in one line."""
    return ", ".join(choices[dimension] for dimension in DIMENSIONS)


def _sentence(told: Robustness) -> str:
    n = len(told.combinations)
    if not n:
        return f"{told.first} and {told.second} have no gap on {told.title} {told.metric} under any choice."
    varied = [name for name in DIMENSIONS if sum(one.dimension == name for one in told.options) > 1]
    over = f"of {', '.join(varied)}" if varied else "(there is but one)"
    other = f", in {told.resolved_worse} the other way" if told.resolved_worse else ""
    gaps = [one.gap for one in told.combinations]
    middle, least, most = (signed(gap, told.digits) for gap in (median(gaps), min(gaps), max(gaps)))
    spread = f"the gap is {middle} in the middle, {least} to {most}" if n > 1 else f"the gap is {middle}"
    return (
        f"{told.first} is better than {told.second} on {told.title} {told.metric} in {told.better} of "
        f"{counted(n, 'choice')} {over}, resolved in {told.resolved_better}{other}; {spread} (gaps "
        "as measured; resolved at 95 %, each choice tested alone)."
    )
