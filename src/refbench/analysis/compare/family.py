"""Many pairs as one family: gaps, intervals, flips, Holm, effects, drivers and sentences from columns of scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from refbench.analysis.compare.draws import (
    Bounds,
    Estimate,
    Interval,
    PairDraws,
    Resampling,
    bound_pairs,
    draw_pairs,
    with_zero,
)
from refbench.analysis.compare.pairing import Pairing, Pairings, measured_alone, who_meets
from refbench.analysis.compare.records import Comparison, Driver, Pair, holds_zero, sentence
from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.judges.panel import MEAN
from refbench.record import RefBenchError, counted
from refbench.score import digits_of
from refbench.stats import Array, Design, clusters_needed, detectable, effective_n, holm, smallest_p
from refbench.stats.effect import FEWEST_APART, LEVEL
from refbench.stats.interval import SYMMETRIC_BELOW
from refbench.tables.table import (
    DRAWS,
    SEED,
    Aggregate,
    Columns,
    Measure,
    case_values,
    ends_of,
    summaries,
    summary_measure,
)

FLIPS_PER_DRAW = 5
"""A p of 28 corrected pairs needs finer steps than an interval: 2,000 draws go with 9,999 flips."""
_FLIPS_PER_PAIR = 25
"""And of more pairs with more, so that a p that no flip reaches is below the level after correction."""
MOST_FLIPS = 100_000
_TIE = 1e-6
"""Two scores of a case that differ by less than this share of the largest are a tie."""


@dataclass(frozen=True)
class Systems:
    """The scores of the systems to be compared, and what is known about how they were made."""

    aggregate: Aggregate
    columns: Columns
    cases: Sequence[AnyCase]
    benchmark: str
    title: str
    protocol: str
    lower: Collection[str] = ()
    """Measures of which less is better."""
    measured: Collection[str] = ()
    """Metrics that no judge gives."""
    mean_of_judges: str | None = None
    """The judge that is the mean of all, where that is the benchmark's number: its pairs are what is asked, and those
    of single judges are supplementary, a family of their own."""
    refusals: str = "conditional"
    """How the aggregate counts a model's own failures."""
    seeds: Mapping[str, int] = field(default_factory=dict)
    """With how many seeds each model has painted, where that is known."""
    differences: Sequence[str] = ()
    """What is not the same on the sides of a pair."""
    notes: Sequence[str] = ()
    stopped: Mapping[str, int] = field(default_factory=dict)
    """Models that were asked no more because a pair was resolved, each with the cases that it was asked about."""

    def stopped_of(self, pair: Pair) -> str:
        """That p and interval of a pair do not allow for the stop; "" where neither side was stopped."""
        counts = [self.stopped[name] for name in (pair.first, pair.second) if name in self.stopped]
        if not counts:
            return ""
        return f"stopped when resolved after {counted(min(counts), 'case')}: this p and interval do not allow for it"

    @classmethod
    def of(cls, bench: Benchmark, protocol: str, columns: Columns, cases: Sequence[AnyCase], **changes: Any) -> Systems:
        """With what the benchmark itself says about its measures and judges."""
        facts: dict[str, Any] = {
            "aggregate": bench.scoring.protocols[protocol].aggregate,
            "lower": bench.scoring.lower,
            "measured": bench.asking.measured,
            "mean_of_judges": MEAN if bench.scoring.judges_mean else None,
        }
        return cls(
            columns=columns,
            cases=cases,
            benchmark=bench.name,
            title=bench.title,
            protocol=protocol,
            **{**facts, **changes},
        )


@dataclass(frozen=True)
class Further:
    """What else is asked of a comparison: slices, a margin within which models count as equal, and whether p is
    corrected over all measures of the table, for whoever looks at them all."""

    by_slice: bool = True
    margin: float | None = None
    over_measures: bool = False

    def __post_init__(self) -> None:
        if self.margin is not None and not (self.margin > 0 and np.isfinite(self.margin)):
            raise RefBenchError(f"--margin {self.margin:g}: give a difference above 0, in points of the measure")


@dataclass
class _Candidate:
    """A pair on its way through the test: blank, then with draws, then with bounds where something failed."""

    pairing: Pairing
    pair: Pair
    drawn: PairDraws | None = None
    bounds: Bounds | None = None


def compare_columns(
    systems: Systems,
    *,
    models: Sequence[str] | None = None,
    against: str | None = None,
    metric: str | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
    further: Further | None = None,
) -> Comparison:
    """Compare the models of the columns with each other, or `against` with each of them.

    A pair without two shared cases, or without a value, is in the result with its reason, and in no family.
    """
    further = further or Further()
    aggregate, columns, cases = systems.aggregate, systems.columns, systems.cases
    values = aggregate.filled(columns)
    points = overall_values(aggregate, values, cases)
    measure = measure_of(systems, points, metric)
    lower = measure.name in systems.lower
    candidates = _candidates(systems, values, measure, models, against)
    drawing = Resampling(draws, seed=seed)
    resampling, tested = _tested(systems, values, candidates, measure.name, drawing, further.by_slice)
    scale = scale_of(aggregate, columns, cases, measure.name)
    main = [c for c in tested if not c.pair.supplementary]
    others = (
        _of_other_measures(systems, values, measure, points, (models, against), drawing)
        if further.over_measures
        else []
    )
    for family, beside in ((main, others), ([c for c in tested if c.pair.supplementary], [])):
        _test_family(systems, family, beside, scale, further.margin)
        _correct_slices(family)
    singles = case_values(aggregate, columns, cases).get(measure.name)
    for candidate in tested:
        counts = _case_by_case(singles, candidate.pairing, lower)
        candidate.pair = candidate.pair.model_copy(update=counts)
    pairs = sorted((c.pair for c in candidates), key=lambda pair: pair.supplementary)
    digits = _digits(points.get(measure.name, np.zeros(0)), pairs)
    sentences, stops = _said(systems, pairs, measure.name, digits)
    return Comparison(
        benchmark=systems.benchmark,
        title=systems.title,
        protocol=systems.protocol,
        metric=measure.name,
        lower_is_better=lower,
        refusals=systems.refusals,
        digits=digits,
        draws=draws,
        permutations=resampling.permutations,
        seed=seed,
        family=len(main) + len([p for of_one in others for p in of_one]),
        pairs=tuple(p.model_copy(update={"sentence": words}) for p, words in zip(pairs, sentences, strict=True)),
        differences=tuple(systems.differences),
        notes=(*systems.notes, *stops, *_floor(main, resampling.permutations)),
    )


def _said(systems: Systems, pairs: Sequence[Pair], measure: str, digits: int) -> tuple[list[str], list[str]]:
    """The sentence of each pair, and notes on the pairs of models that were stopped on their scores."""
    told = {"on": f"{systems.title} {measure}", "protocol": systems.protocol, "refusals": systems.refusals}
    sentences, notes = [], []
    for pair in pairs:
        said = sentence(pair, digits=digits, lower=measure in systems.lower, **told)
        if pair.gap is not None and (stop := systems.stopped_of(pair)):
            said = f"{said.removesuffix('.')}; {stop}."
            notes.append(f"{pair.first} and {pair.second}: {stop}")
        sentences.append(said)
    return sentences, list(dict.fromkeys(notes))


def _tested(
    systems: Systems,
    values: Mapping[str, Array],
    candidates: Sequence[_Candidate],
    measure: str,
    resampling: Resampling,
    by_slice: bool,
) -> tuple[Resampling, list[_Candidate]]:
    """The pairs that have a gap, with draws, and with bounds where something failed; and how often it was drawn."""
    aggregate, columns, cases = systems.aggregate, systems.columns, systems.cases
    testable = [c for c in candidates if c.pairing.shared.sum() >= 2 and not _endless(aggregate, c.pairing)]
    flips = max(FLIPS_PER_DRAW * resampling.draws - 1, min(_FLIPS_PER_PAIR * len(testable), MOST_FLIPS))
    resampling = replace(resampling, permutations=flips)
    pairings = [c.pairing for c in testable]
    drawn = draw_pairs(aggregate, values, cases, pairings, measure, resampling, by_slice=by_slice)
    for candidate, draws in zip(testable, drawn, strict=True):
        candidate.drawn = draws
    tested = [c for c, draws in zip(testable, drawn, strict=True) if np.isfinite(draws.gap.value)]
    broken = [c for c in tested if not c.pairing.whole]
    bounds = bound_pairs(aggregate, columns, cases, [c.pairing for c in broken], measure, resampling)
    for candidate, between in zip(broken, bounds, strict=True):
        candidate.bounds = between
    return resampling, tested


def measure_of(systems: Systems, points: Mapping[str, Array], metric: str | None) -> Measure:
    """The measure to compare: the one asked for, else what tables are sorted by."""
    measures = systems.aggregate.measures
    tried = {name for name, point in points.items() if np.isfinite(point).any()}
    tried |= {m.name for m in measures if all(systems.columns.tried(part) for part in m.parts)}
    name = metric or summary_measure(measures, tried)
    for measure in measures:
        if measure.name == name:
            return measure
    known = ", ".join(measure.name for measure in measures)
    raise RefBenchError(f"--metric {name}: {systems.title} ({systems.protocol}) has {known}")


def _candidates(
    systems: Systems, values: Mapping[str, Array], measure: Measure, models: Sequence[str] | None, against: str | None
) -> list[_Candidate]:
    """All pairs that are asked for, with the cases they share and nothing tested yet."""
    columns = systems.columns
    models = list(dict.fromkeys(models or [model for model, _ in columns.systems]))
    couples = who_meets(columns.systems, models, against)
    if not couples:
        raise RefBenchError(f"there is one model to compare ({', '.join(models)}): name at least two")
    pairs = Pairings(systems.aggregate, columns, values, measure, systems.cases)
    judgeless = set(measure.parts) <= set(systems.measured)
    if judgeless:
        couples = measured_alone(columns.systems, couples, pairs.there)
    mean = systems.mean_of_judges
    judges = [{columns.systems[i][1] for i in couple} for couple in couples]
    of_mean = mean is not None and not judgeless and any(mean in both for both in judges)
    candidates = []
    for couple, both in zip(couples, judges, strict=True):
        pairing = pairs.of(*couple)
        blank = _blank(systems, pairing, judgeless, pairs.n_seeds)
        candidates.append(_Candidate(pairing, blank.model_copy(update={"supplementary": of_mean and mean not in both})))
    return candidates


def _of_other_measures(
    systems: Systems,
    values: Mapping[str, Array],
    measure: Measure,
    points: Mapping[str, Array],
    who: tuple[Sequence[str] | None, str | None],
    resampling: Resampling,
) -> list[list[float]]:
    """The p values of the same pairs in every other measure that has a value."""
    found = []
    for other in systems.aggregate.measures:
        if other.name != measure.name and np.isfinite(points.get(other.name, np.zeros(0))).any():
            candidates = _candidates(systems, values, other, *who)
            _, tested = _tested(systems, values, candidates, other.name, resampling, by_slice=False)
            of_one = [_known(c.drawn.p) for c in tested if c.drawn is not None and not c.pair.supplementary]
            found += [of_one] if of_one else []
    return found


def _test_family(
    systems: Systems,
    family: Sequence[_Candidate],
    beside: Sequence[Sequence[float]],
    scale: float | None,
    margin: float | None,
) -> None:
    """Fill in what the draws say about each pair, p corrected over the family; `beside` are the p values of the same
    pairs in other measures."""
    drawn = [c.drawn for c in family if c.drawn is not None]
    others = [p for of_one in beside for p in of_one]
    adjusted = holm([*(_known(draws.p) for draws in drawn), *others])
    within = [1.0 if margin is None else _p_within(systems, candidate, scale, margin) for candidate in family]
    equal = holm([_known(p) for p in within] + [1.0] * len(others))
    size = len(family) + len(others)
    for i, (candidate, hopeless) in enumerate(zip(family, _hopeless(drawn, len(others)), strict=True)):
        filled = _filled(candidate, adjusted[i], size, hopeless, scale)
        interval = drawn[i].contrast.interval(1 - LEVEL / size)
        interval = with_zero(_within(interval, scale), adjusted[i]) if size > 1 else filled.ci95
        changes: dict[str, Any] = {"measures": 1 + len(beside), "ci95_family": _rounded(interval), "margin": margin}
        if margin is not None and within[i] is not None:
            known = candidate.bounds is not None or candidate.pairing.whole
            reach = candidate.bounds[1] or candidate.bounds[0] if candidate.bounds else (0.0, 0.0)
            changes["p_equal"] = equal[i]
            changes["equal"] = equal[i] <= LEVEL and known and max(-reach[0], reach[1]) < margin
        candidate.pair = filled.model_copy(update=changes)


def _p_within(systems: Systems, candidate: _Candidate, scale: float | None, margin: float) -> float | None:
    """The p of two one-sided tests. Where the difference is the same in every cluster, so that it has no error: the
    chance that so many clusters show none of those that would bring the gap to the margin."""
    assert candidate.drawn is not None
    contrast, gap = candidate.drawn.contrast, abs(candidate.drawn.gap.value)
    p = contrast.p_within(margin)
    if p is not None or scale is None or candidate.drawn.gap.ci95 is not None or contrast.df < 1:
        return p
    if gap >= margin:
        return 1.0
    alike = max(1 - (margin - gap) / (scale - gap), 0.0)
    return float(alike ** equal_clusters(systems, candidate.pairing))


def equal_clusters(systems: Systems, pairing: Pairing) -> float:
    """How many clusters of equal weight the shared cases of a pair are worth in the number of all cases."""
    kept = [case for case, keep in zip(systems.cases, pairing.shared, strict=True) if keep]
    design = Design.of([case.cluster for case in kept], [case.stratum for case in kept])
    (overall,) = systems.aggregate.overall(kept)
    return effective_n(design.weights_of(overall.weights(np.ones(len(kept), dtype=np.bool_))))


def _known(p: float | None) -> float:
    """What was not tested is not found."""
    return 1.0 if p is None else p


def _correct_slices(family: Sequence[_Candidate]) -> None:
    """Holm over all slices of a level and all pairs, for whoever looks at them all."""
    levels: dict[str, list[tuple[int, int, float]]] = {}
    for i, candidate in enumerate(family):
        for k, driver in enumerate(candidate.pair.drivers):
            if driver.p is not None:
                levels.setdefault(driver.slice["level"], []).append((i, k, driver.p))
    drivers = [list(candidate.pair.drivers) for candidate in family]
    for tests in levels.values():
        for (i, k, _), adjusted in zip(tests, holm([p for *_, p in tests]), strict=True):
            drivers[i][k] = drivers[i][k].model_copy(update={"p_adjusted": adjusted})
    for candidate, of_pair in zip(family, drivers, strict=True):
        candidate.pair = candidate.pair.model_copy(update={"drivers": tuple(of_pair)})


def _endless(aggregate: Aggregate, pairing: Pairing) -> bool:
    """Whether a model's own failures should count as the worst value of a measure that has none."""
    return aggregate.worst is not None and pairing.own


def _hopeless(family: Sequence[PairDraws], others: int = 0) -> list[str | None]:
    """For each pair why nothing could be resolved with its clusters, whatever the data: flips of so few clusters have
    no p small enough, alone or after correction for the family and for tests in other measures."""
    size, what = len(family) + others, "tests" if others else "pairs"
    none = all(smallest_p(d.contrast.n) * size > LEVEL for d in family)
    n, words = (size, f" in a family of {size} {what}") if none and size > 1 else (1, "")
    return [
        f"{counted(d.contrast.n, 'cluster')} cannot show a difference whatever the data: it takes at least "
        f"{clusters_needed(n)}{words}"
        if smallest_p(d.contrast.n) * n > LEVEL
        else None
        for d in family
    ]


def _floor(family: Sequence[_Candidate], permutations: int) -> list[str]:
    """Said where the number of flips, not the data, may keep pairs from being resolved."""
    drawn = [c.drawn for c in family if c.drawn is not None]
    if not any(d.p_is_bound and not d.is_sum for d in drawn) or len(family) <= LEVEL * (permutations + 1):
        return []
    return [
        f"the family of {len(family)} pairs is too large for {permutations} flips, and the number is no sum over "
        "cases, so that its p cannot be bounded further: compare fewer models, or ask for more --draws"
    ]


def _digits(values: Array, pairs: Sequence[Pair]) -> int:
    """As on the leaderboard, and as many more as it takes that no gap or end of an interval that is claimed to be
    apart from zero is printed as zero."""
    digits = digits_of(values)
    claimed = [
        abs(end)
        for pair in pairs
        if pair.resolved
        for end in (pair.gap or 0.0, *(pair.ci95 or ()), *(pair.bounds or ()))
        if end
    ]
    smallest = min(claimed, default=1.0)
    while digits < 9 and smallest < 0.5 * 10**-digits:
        digits += 1
    return digits


def overall_values(aggregate: Aggregate, values: Mapping[str, Array], cases: Sequence[AnyCase]) -> dict[str, Array]:
    """Each measure's overall value for each system, as the table has it."""
    overall = summaries(aggregate, values, np.ones((1, len(cases))), aggregate.overall(cases))
    return {measure: value[:, 0] for (_, measure), value in overall.items()}


def _blank(systems: Systems, pairing: Pairing, judgeless: bool, drawn: Sequence[int]) -> Pair:
    """A pair without a gap; `drawn` is how many seeds each system has."""
    (first, judge), (second, other) = (systems.columns.systems[i] for i in (pairing.first, pairing.second))
    seeds = systems.seeds
    n = int(pairing.shared.sum())
    why = f"they share {n} scored case{'' if n == 1 else 's'}" if n < 2 else f"no value on the {n} cases they share"
    if _endless(systems.aggregate, pairing):
        why = "a model's own failures count as the worst value, and the measure has none"
    return Pair(
        first=first,
        second=second,
        judge=None if judgeless else judge,
        second_judge=None if judgeless else other,
        n_cases=n,
        left_out=pairing.left_out,
        lost=pairing.lost,
        imputed=pairing.imputed,
        seeds=(
            (max(seeds[first], drawn[pairing.first]), max(seeds[second], drawn[pairing.second]))
            if first in seeds and second in seeds
            else None
        ),
        failure=Failure(kind="undefined", detail=why),
    )


def _filled(candidate: _Candidate, adjusted: float, family: int, hopeless: str | None, scale: float | None) -> Pair:
    pair, pairing, drawn, bounds = candidate.pair, candidate.pairing, candidate.drawn, candidate.bounds
    assert drawn is not None
    ci95 = _rounded(_within(drawn.gap.ci95 or _of_full_gaps(drawn, scale), scale))
    between, around = (_rounded(bounds[0]), _rounded(_within(bounds[1], scale))) if bounds else (None, None)
    # What failed without bounds is taken as missing data, but for a model's own failures: those are no accident.
    undone = pairing.own if bounds is None else holds_zero(between) or holds_zero(around)
    resolved = adjusted <= LEVEL and not holds_zero(ci95) and not undone and not hopeless
    drivers = [_driver(pair.n_cases, drawn, i, drawn.gap.value if resolved else None) for i in range(len(drawn.slices))]
    effect = drawn.contrast.effect
    return pair.model_copy(
        update={
            "failure": None,
            "family": family,
            "values": (round(drawn.values[0], 9), round(drawn.values[1], 9)),
            "gap": round(drawn.gap.value, 9),
            "ci95": ci95,
            "p": drawn.p,
            "p_flips": drawn.p_flips,
            "p_adjusted": adjusted,
            "p_is_bound": drawn.p_is_bound,
            "resolved": resolved,
            "hopeless": hopeless,
            "effect": None if effect is None else round(effect, 6),
            "detectable": None if hopeless else _detectable(candidate, drawn, family, scale),
            "n_clusters": drawn.contrast.n,
            "symmetric": drawn.contrast.n < SYMMETRIC_BELOW,
            "bounds": between,
            "bounds_ci95": around,
            "undone": undone,
            "drivers": tuple(sorted((d for d in drivers if d), key=lambda d: -abs(d.contribution))),
        }
    )


def scale_of(aggregate: Aggregate, columns: Columns, cases: Sequence[AnyCase], measure: str) -> float | None:
    """How far apart two systems can be in a measure; None where it has no two ends."""
    overall = aggregate.overall(cases)
    least, most = (ends_of(aggregate, columns, overall, side).get((0, measure)) for side in ("low", "high"))
    if least is None or most is None or not np.isfinite(most - least).any():
        return None
    return float(np.nanmax(np.abs(most - least)))


def _within(interval: Interval, scale: float | None) -> Interval:
    """No gap is larger than the scale."""
    return interval if interval is None or scale is None else (max(interval[0], -scale), min(interval[1], scale))


def _of_full_gaps(drawn: PairDraws, scale: float | None) -> Interval:
    """Where one has the most and the other the least in every cluster, so that differences do not spread: as many
    clusters do not exclude that some are the other way round (Clopper and Pearson)."""
    if scale is None or not np.isclose(abs(drawn.gap.value), scale) or drawn.contrast.df < 1:
        return None
    least = scale * (2 * (LEVEL / 2) ** (1 / drawn.contrast.n) - 1)
    return (least, scale) if drawn.gap.value > 0 else (-scale, -least)


def _detectable(candidate: _Candidate, drawn: PairDraws, family: int, scale: float | None) -> float | None:
    """The true difference that would be found: larger by all that failures could change, and nothing where that is not
    known, where too few clusters differ to tell, or where no difference on the scale is large enough."""
    interval, bounds = drawn.gap.ci95, candidate.bounds
    if interval is None or drawn.n_apart < FEWEST_APART or (bounds is None and not candidate.pairing.whole):
        return None
    contrast = drawn.contrast
    difference = detectable((interval[1] - interval[0]) / 2, clusters=contrast.n, df=contrast.df, family=family)
    if difference is None:
        return None
    difference += bounds[0][1] - bounds[0][0] if bounds else 0.0
    return None if scale is not None and difference > scale else round(difference, 9)


def _driver(n_cases: int, drawn: PairDraws, i: int, gap: float | None) -> Driver | None:
    """None for a slice that is all the cases, or in which the measure has no value."""
    where, contribution, within = drawn.slices[i], drawn.contributions[i], drawn.gaps[i]
    n = int(where.members.sum())
    if n == n_cases or not np.isfinite(contribution.value):
        return None
    return Driver(
        slice=where.label,
        n_cases=n,
        gap=_number(within),
        gap_ci95=_rounded(within.ci95),
        p=drawn.gap_ps[i],
        contribution=round(contribution.value, 9),
        ci95=_rounded(contribution.ci95),
        share=round(contribution.value / gap, 6) if gap else None,
    )


def _case_by_case(singles: Array | None, pairing: Pairing, lower: bool) -> dict[str, object]:
    """In how many cases the first is better, level and worse."""
    if singles is None:
        return {}
    ahead = (singles[pairing.first] - singles[pairing.second])[pairing.shared] * (-1 if lower else 1)
    level = _TIE * max(float(np.nanmax(np.abs(singles))), 1e-12) if np.isfinite(singles).any() else 0.0
    return {
        "wins": int((ahead > level).sum()),
        "ties": int((np.abs(ahead) <= level).sum()),
        "losses": int((ahead < -level).sum()),
    }


def _number(estimate: Estimate) -> float | None:
    return round(estimate.value, 9) if np.isfinite(estimate.value) else None


def _rounded(interval: Interval) -> Interval:
    return None if interval is None else (round(interval[0], 9), round(interval[1], 9))
