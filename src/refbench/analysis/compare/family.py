"""Many pairs as one family: gaps, intervals, flips, Holm, effects, drivers and sentences from columns of scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from refbench.analysis.compare.draws import Bounds, Drawn, Estimate, Interval, bound_pairs, draw_pairs
from refbench.analysis.compare.pairing import Pairing, Pairs, measured_alone, who_meets
from refbench.analysis.compare.records import Comparison, Driver, Pair, counted, holds_zero, sentence
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.score import digits_of
from refbench.stats import Array, clusters_needed, detectable, holm, smallest_p
from refbench.stats.effect import FEWEST_APART, LEVEL
from refbench.stats.interval import SYMMETRIC_BELOW
from refbench.tables.columns import Columns
from refbench.tables.table import DRAWS, SEED, Aggregate, case_values, ends_of, summaries, summary_measure

FLIPS_PER_DRAW = 5
"""A p of 28 corrected pairs needs finer steps than an interval: 2,000 draws go with 9,999 flips."""
_FLIPS_PER_PAIR = 25
"""And of more pairs with more, so that a p that no flip reaches is below the level after correction."""
_MOST_FLIPS = 100_000
_TIE = 1e-6
"""Two scores of a case that differ by less than this share of the largest are a tie."""


def compare_columns(
    aggregate: Aggregate,
    columns: Columns,
    cases: Sequence[AnyCase],
    *,
    benchmark: str,
    title: str,
    protocol: str,
    models: Sequence[str] | None = None,
    against: str | None = None,
    metric: str | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
    seeds: Mapping[str, int] | None = None,
    differences: Sequence[str] = (),
    notes: Sequence[str] = (),
    lower: Collection[str] = (),
    measured: Collection[str] = (),
    mean_of_judges: str | None = None,
    refusals: str = "conditional",
    by_slice: bool = True,
) -> Comparison:
    """Compare the models of the columns with each other, or `against` with each of them.

    `lower` names the measures of which less is better, `measured` the metrics that no judge gives, `mean_of_judges` the
    judge that is the mean of all where that is the benchmark's number: its pairs are what is asked, and those of single
    judges are supplementary, a family of their own. `refusals` says how the aggregate counts a model's own failures.
    A pair without two shared cases, or without a value, is in the result with its reason, and in no family.
    """
    values = aggregate.filled(columns)
    points = _points(aggregate, values, cases)
    valued = [measure for measure, point in points.items() if np.isfinite(point).any()]
    name = metric or summary_measure(aggregate.measures, valued)
    of = next((m for m in aggregate.measures if m.name == name), None)
    if of is None:
        raise RefBenchError(
            f"--metric {name}: {title} ({protocol}) has {', '.join(m.name for m in aggregate.measures)}"
        )
    models = list(dict.fromkeys(models or [model for model, _ in columns.systems]))
    couples = who_meets(columns.systems, models, against)
    if not couples:
        raise RefBenchError(f"there is one model to compare ({', '.join(models)}): name at least two")
    pairs = Pairs(aggregate, columns, values, of, cases)
    judgeless = set(of.parts) <= set(measured)
    if judgeless:
        couples = measured_alone(columns.systems, couples, pairs.there)
    pairings = [pairs.of(a, b) for a, b in couples]
    whole = [pairing for pairing in pairings if pairing.shared.sum() >= 2 and not _endless(aggregate, pairing)]
    permutations = max(FLIPS_PER_DRAW * draws - 1, min(_FLIPS_PER_PAIR * len(whole), _MOST_FLIPS))
    found = draw_pairs(
        aggregate, values, cases, whole, name, draws=draws, permutations=permutations, seed=seed, by_slice=by_slice
    )
    drawn = {id(p): d for p, d in zip(whole, found, strict=True) if np.isfinite(d.gap.value)}
    judges = {id(p): {columns.systems[p.first][1], columns.systems[p.second][1]} for p in pairings}
    of_mean = any(mean_of_judges in both for both in judges.values()) and mean_of_judges is not None and not judgeless
    beside = {one: of_mean and mean_of_judges not in both for one, both in judges.items()}
    families = {which: [p for p in whole if id(p) in drawn and beside[id(p)] == which] for which in (False, True)}
    singles = case_values(aggregate, columns, cases).get(name)
    blank = {
        id(p): _blank(columns, p, seeds or {}, aggregate, beside[id(p)], judgeless, pairs.n_seeds) for p in pairings
    }
    broken = [p for p in whole if id(p) in drawn and not p.whole]
    between = bound_pairs(aggregate, columns, cases, broken, name, draws=draws, seed=seed)
    bounds = {id(p): found for p, found in zip(broken, between, strict=True)}
    filled, scale = dict(blank), _scale(aggregate, columns, cases, name)
    for family in families.values():
        adjusted = holm([drawn[id(p)].p or 0.0 for p in family])
        hopeless = _hopeless([drawn[id(p)] for p in family])
        for pairing, p, why in zip(family, adjusted, hopeless, strict=True):
            of_pair = drawn[id(pairing)]
            pair = _filled(blank[id(pairing)], of_pair, p, len(family), why, pairing, bounds.get(id(pairing)), scale)
            filled[id(pairing)] = pair.model_copy(update=_case_by_case(singles, pairing, name in lower))
    ready = sorted((filled[id(p)] for p in pairings), key=lambda pair: pair.supplementary)
    digits = _digits(points.get(name, np.zeros(0)), ready)
    sentences = [
        sentence(pair, on=f"{title} {name}", protocol=protocol, digits=digits, lower=name in lower, refusals=refusals)
        for pair in ready
    ]
    return Comparison(
        benchmark=benchmark,
        title=title,
        protocol=protocol,
        metric=name,
        lower_is_better=name in lower,
        refusals=refusals,
        digits=digits,
        draws=draws,
        permutations=permutations,
        seed=seed,
        family=len(families[False]),
        pairs=tuple(p.model_copy(update={"sentence": s}) for p, s in zip(ready, sentences, strict=True)),
        differences=tuple(differences),
        notes=(*notes, *_floor([drawn[id(p)] for p in families[False]], permutations)),
    )


def _endless(aggregate: Aggregate, pairing: Pairing) -> bool:
    """Whether a model's own failures should count as the worst value of a measure that has none."""
    return aggregate.worst is not None and pairing.own


def _hopeless(family: Sequence[Drawn]) -> list[str | None]:
    """For each pair why nothing could be resolved with its clusters, whatever the data: flips of so few clusters have
    no p small enough, alone or after correction for the family."""
    none = all(smallest_p(d.contrast.n) * len(family) > LEVEL for d in family)
    n, words = (len(family), f" in a family of {len(family)} pairs") if none and len(family) > 1 else (1, "")
    return [
        f"{counted(d.contrast.n, 'cluster')} cannot show a difference whatever the data: it takes at least "
        f"{clusters_needed(n)}{words}"
        if smallest_p(d.contrast.n) * n > LEVEL
        else None
        for d in family
    ]


def _floor(family: Sequence[Drawn], permutations: int) -> list[str]:
    """Said where the number of flips, not the data, may keep pairs from being resolved."""
    if not any(d.p_is_bound and not d.is_sum for d in family) or len(family) <= LEVEL * (permutations + 1):
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


def _points(aggregate: Aggregate, values: Mapping[str, Array], cases: Sequence[AnyCase]) -> dict[str, Array]:
    """Each measure's overall value for each system, as the table has it."""
    found = summaries(aggregate, values, np.ones((1, len(cases))), aggregate.overall(cases))
    return {measure: value[:, 0] for (_, measure), value in found.items()}


def _blank(
    columns: Columns,
    pairing: Pairing,
    seeds: Mapping[str, int],
    aggregate: Aggregate,
    supplementary: bool,
    judgeless: bool,
    drawn: Sequence[int],
) -> Pair:
    (first, judge), (second, other) = columns.systems[pairing.first], columns.systems[pairing.second]
    n = int(pairing.shared.sum())
    why = f"they share {n} scored case{'' if n == 1 else 's'}" if n < 2 else f"no value on the {n} cases they share"
    if _endless(aggregate, pairing):
        why = "a model's own failures count as the worst value, and the measure has none"
    return Pair(
        first=first,
        second=second,
        judge=None if judgeless else judge,
        second_judge=None if judgeless else other,
        supplementary=supplementary,
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


def _filled(
    pair: Pair,
    drawn: Drawn,
    adjusted: float,
    family: int,
    hopeless: str | None,
    pairing: Pairing,
    bounds: Bounds | None,
    scale: float | None,
) -> Pair:
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
            "detectable": None if hopeless else _detectable(drawn, family, pairing, bounds, scale),
            "n_clusters": drawn.contrast.n,
            "symmetric": drawn.contrast.n < SYMMETRIC_BELOW,
            "bounds": between,
            "bounds_ci95": around,
            "undone": undone,
            "drivers": tuple(sorted((d for d in drivers if d), key=lambda d: -abs(d.contribution))),
        }
    )


def _scale(aggregate: Aggregate, columns: Columns, cases: Sequence[AnyCase], measure: str) -> float | None:
    """How far apart two systems can be in a measure; None where it has no two ends."""
    overall = aggregate.overall(cases)
    least, most = (ends_of(aggregate, columns, overall, side).get((0, measure)) for side in ("low", "high"))
    if least is None or most is None or not np.isfinite(most - least).any():
        return None
    return float(np.nanmax(np.abs(most - least)))


def _within(interval: Interval, scale: float | None) -> Interval:
    """No gap is larger than the scale."""
    return interval if interval is None or scale is None else (max(interval[0], -scale), min(interval[1], scale))


def _of_full_gaps(drawn: Drawn, scale: float | None) -> Interval:
    """Where one has the most and the other the least in every cluster, so that differences do not spread: as many
    clusters do not exclude that some are the other way round (Clopper and Pearson)."""
    if scale is None or not np.isclose(abs(drawn.gap.value), scale) or drawn.contrast.df < 1:
        return None
    least = scale * (2 * (LEVEL / 2) ** (1 / drawn.contrast.n) - 1)
    return (least, scale) if drawn.gap.value > 0 else (-scale, -least)


def _detectable(
    drawn: Drawn, family: int, pairing: Pairing, bounds: Bounds | None, scale: float | None
) -> float | None:
    """The true difference that would be found: larger by all that failures could change, and nothing where that is not
    known, where too few clusters differ to tell, or where no difference on the scale is large enough."""
    interval = drawn.gap.ci95
    if interval is None or drawn.n_apart < FEWEST_APART or (bounds is None and not pairing.whole):
        return None
    contrast = drawn.contrast
    found = detectable((interval[1] - interval[0]) / 2, clusters=contrast.n, df=contrast.df, family=family)
    if found is None:
        return None
    found += bounds[0][1] - bounds[0][0] if bounds else 0.0
    return None if scale is not None and found > scale else round(found, 9)


def _driver(n_cases: int, drawn: Drawn, i: int, gap: float | None) -> Driver | None:
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
