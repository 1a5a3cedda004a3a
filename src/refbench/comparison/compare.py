"""Many pairs as one family: gaps, intervals, flips, Holm, effects, drivers and sentences from columns of scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from refbench.case import AnyCase
from refbench.case_values import case_values
from refbench.columns import Columns
from refbench.comparison.drawing import Drawn, Estimate, Interval, draw_pairs
from refbench.comparison.pairing import Pairing, pair_up, who_meets
from refbench.comparison.records import Comparison, Driver, Pair
from refbench.comparison.words import sentence
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.score import digits_of
from refbench.stats import Array, Design, detectable, holm, paired_effect
from refbench.stats.effect import LEVEL
from refbench.table import DRAWS, SEED, Aggregate, summaries, summary_measure

FLIPS_PER_DRAW = 5
"""A p of 28 corrected pairs needs finer steps than an interval: 2,000 draws go with 9,999 flips."""
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
) -> Comparison:
    """Compare the models of the columns with each other, or `against` with each of them.

    `lower` names the measures of which less is better, which the sentence then says. A pair without two shared cases,
    or without a value, is in the result with its reason, and in no family.
    """
    points = _points(aggregate, columns, cases)
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
    pairings = [pair_up(columns, of, a, b) for a, b in couples]
    whole = [pairing for pairing in pairings if pairing.shared.sum() >= 2]
    permutations = FLIPS_PER_DRAW * draws - 1
    drawn = dict(
        zip(
            map(id, whole),
            draw_pairs(aggregate, columns, cases, whole, name, draws=draws, permutations=permutations, seed=seed),
            strict=True,
        )
    )
    singles = case_values(aggregate, columns, cases).get(name)
    tested = [p for p in whole if np.isfinite(drawn[id(p)].gap.value)]
    adjusted = dict(zip(map(id, tested), holm([drawn[id(p)].p or 0.0 for p in tested]), strict=True))
    digits = _digits(points.get(name, np.zeros(0)), [drawn[i].gap.value for i, p in adjusted.items() if p <= LEVEL])
    on = f"{title} {name}{' (lower is better)' if name in lower else ''}"
    pairs = []
    for pairing in pairings:
        pair = _blank(columns, pairing, seeds or {})
        if id(pairing) in adjusted:
            pair = _filled(pair, drawn[id(pairing)], adjusted[id(pairing)], len(tested))
            pair = pair.model_copy(update=_case_by_case(singles, pairing, cases))
        words = sentence(pair, on=on, protocol=protocol, family=len(tested), digits=digits)
        pairs.append(pair.model_copy(update={"sentence": words}))
    return Comparison(
        benchmark=benchmark,
        title=title,
        protocol=protocol,
        metric=name,
        lower_is_better=name in lower,
        digits=digits,
        draws=draws,
        permutations=permutations,
        seed=seed,
        family=len(tested),
        pairs=tuple(pairs),
        differences=tuple(differences),
        notes=tuple(notes),
    )


def _digits(values: Array, claimed: Sequence[float]) -> int:
    """As on the leaderboard, and as many more as it takes that no gap that is claimed is printed as zero."""
    digits = digits_of(values)
    smallest = min((abs(gap) for gap in claimed if gap), default=1.0)
    while digits < 9 and smallest < 0.5 * 10**-digits:
        digits += 1
    return digits


def _points(aggregate: Aggregate, columns: Columns, cases: Sequence[AnyCase]) -> dict[str, Array]:
    """Each measure's overall value for each system, as the table has it."""
    overall = aggregate.overall(cases)
    values = aggregate.filled(columns)
    found = summaries(aggregate, values, np.ones((1, len(cases))), overall)
    return {measure: value[:, 0] for (_, measure), value in found.items()}


def _blank(columns: Columns, pairing: Pairing, seeds: Mapping[str, int]) -> Pair:
    (first, judge), (second, other) = columns.systems[pairing.first], columns.systems[pairing.second]
    n = int(pairing.shared.sum())
    why = f"they share {n} scored case{'' if n == 1 else 's'}" if n < 2 else f"no value on the {n} cases they share"
    return Pair(
        first=first,
        second=second,
        judge=judge,
        second_judge=other,
        n_cases=n,
        left_out=pairing.left_out,
        seeds=(seeds[first], seeds[second]) if first in seeds and second in seeds else None,
        failure=Failure(kind="undefined", detail=why),
    )


def _filled(pair: Pair, drawn: Drawn, adjusted: float, family: int) -> Pair:
    ci95 = _rounded(drawn.gap.ci95)
    resolved = adjusted <= LEVEL and not (ci95 is not None and ci95[0] <= 0 <= ci95[1])
    drivers = [_driver(pair.n_cases, drawn, i, drawn.gap.value if resolved else None) for i in range(len(drawn.slices))]
    return pair.model_copy(
        update={
            "failure": None,
            "values": (round(drawn.values[0], 9), round(drawn.values[1], 9)),
            "gap": round(drawn.gap.value, 9),
            "ci95": ci95,
            "p": drawn.p,
            "p_adjusted": adjusted,
            "resolved": resolved,
            "detectable": round(detectable((ci95[1] - ci95[0]) / 2, family), 9) if ci95 else None,
            "n_clusters": drawn.n_clusters,
            "drivers": tuple(sorted((d for d in drivers if d), key=lambda d: -abs(d.contribution))),
        }
    )


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


def _case_by_case(singles: Array | None, pairing: Pairing, cases: Sequence[AnyCase]) -> dict[str, object]:
    """Wins, ties and losses, and the effect where every shared case has a value of its own."""
    if singles is None:
        return {}
    apart = (singles[pairing.first] - singles[pairing.second])[pairing.shared]
    level = _TIE * max(float(np.nanmax(np.abs(singles))), 1e-12) if np.isfinite(singles).any() else 0.0
    kept = [case for case, keep in zip(cases, pairing.shared, strict=True) if keep]
    design = Design.of([case.cluster for case in kept], [case.stratum for case in kept])
    effect = None if np.isnan(apart).any() else paired_effect(apart, design.cluster)
    return {
        "wins": int((apart > level).sum()),
        "ties": int((np.abs(apart) <= level).sum()),
        "losses": int((apart < -level).sum()),
        "effect": None if effect is None else round(effect, 6),
    }


def _number(estimate: Estimate) -> float | None:
    return round(estimate.value, 9) if np.isfinite(estimate.value) else None


def _rounded(interval: Interval) -> Interval:
    return None if interval is None else (round(interval[0], 9), round(interval[1], 9))
