"""Pairs followed case by case in the fair order until they are resolved: what `refbench run --stop-when-resolved` asks
after every few cases, and what it says in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.compare.draws import Swaps, settled
from refbench.analysis.compare.family import Systems, measure_of, overall_values, scale_of
from refbench.analysis.compare.pairing import measured_alone, who_meets
from refbench.analysis.compare.records import as_given, between, judges_said, signed
from refbench.case import AnyCase
from refbench.record import Record, RefBenchError, counted
from refbench.runs.run import fair_order_of_clusters
from refbench.score import digits_of
from refbench.stats import Array, Design
from refbench.stats.effect import LEVEL
from refbench.stats.sequential import Followed, Parts, Verdict, follow
from refbench.tables.table import Aggregate, Bools, Columns, Measure, has_value

_SEED = 0


class Rule(Record):
    """Which pairs are followed until they are resolved, and within what margin two models count as equal."""

    pairs: tuple[tuple[str, str], ...]
    margin: float | None = None
    judges: tuple[str, ...] = ()
    """Those that were asked when pairs were first followed in this run."""
    family: int
    """Pairs (and judges, where each has its own number) that share the level: as many as were first named."""

    @property
    def said(self) -> str:
        names = ", ".join(f"{a} and {b}" for a, b in self.pairs)
        return names + (f", equal within {self.margin:.12g}" if self.margin is not None else "")


class Decision(Record):
    """What following one pair under one judge came to, the first less the second."""

    first: str
    second: str
    judge: str | None
    second_judge: str | None
    verdict: Verdict
    """The gap is above or below zero or within the margin, or that is not known yet ("open")."""
    better: str | None
    """The model that was found to be better."""
    gap: tuple[float, float] | None
    """Over the cases that it took: from the least to the most, whatever those that failed had scored."""
    interval: tuple[float | None, float | None]
    """The confidence sequence: holds at every look, for all pairs together; None where the scale has no ends."""
    n_cases: int
    """That it took to decide; of an open pair, that were followed so far."""
    n_clusters: int
    n_all: int
    """Cases that the gap is about, asked for or not."""
    n_failed: int
    """Of the cases that it took, those in which something failed."""
    family: int
    sentence: str


@dataclass(frozen=True)
class _Gap:
    """The parts of one pair's gap on the clusters that are settled, in the order they are followed."""

    parts: Parts
    cases: Sequence[int]
    """Cases that each cluster has."""
    failed: Sequence[int]
    n_all: int


def follow_pairs(
    systems: Systems,
    pairs: Sequence[tuple[str, str]],
    *,
    margin: float | None = None,
    family: int | None = None,
    order: Sequence[AnyCase] = (),
) -> tuple[Decision, ...]:
    """Follow each pair of models, under each judge that both have (or the mean of judges, where that is the
    benchmark's number), at a level divided by their number, or by that of the larger `family` they are part of.

    A case in which something failed counts as the least it could be for one claim and as the most for the other, so
    that no claim rests on leaving it out. What is not asked for yet ends what is followed. `order` is that in which the
    cases are asked, the fair order of their clusters by default.
    """
    aggregate, columns, cases = systems.aggregate, systems.columns, systems.cases
    measure = measure_of(systems, overall_values(aggregate, aggregate.filled(columns), cases), None)
    rows = [row for pair in pairs for row in _rows(systems, measure, pair)]
    states = _states(aggregate, columns, measure)
    scale = scale_of(aggregate, states.whole, cases, measure.name)
    family = len(rows) if family is None else family
    if len(rows) > family:
        raise RefBenchError(
            f"--stop-when-resolved: the level of this run was shared among {counted(family, 'pair')} under their "
            f"judges, and now there are {len(rows)}: give another --out"
        )
    _check_margin(systems, measure.name, margin, scale)
    ids = [case.id for case in order or fair_order_of_clusters(cases)]
    found = []
    for first, second in rows:
        gap = _gap(systems, states, measure, (first, second), scale, ids)
        followed = follow(gap.parts, level=LEVEL / family, margin=margin)
        found.append(_decision(systems, measure.name, (first, second), gap, followed, family, (margin, scale)))
    return tuple(found)


def _check_margin(systems: Systems, measure: str, margin: float | None, scale: float | None) -> None:
    if margin is None:
        return
    if scale is None:
        raise RefBenchError(
            f"--margin {margin:g}: {systems.title} {measure} has no largest possible difference, so that no number of "
            "cases shows that two models are equal within a margin at every look: leave --margin out"
        )
    if margin >= scale:
        raise RefBenchError(
            f"--margin {margin:g}: no two models can be further than {scale:g} apart on {systems.title} {measure}: "
            "give a smaller margin"
        )


def _rows(systems: Systems, measure: Measure, pair: tuple[str, str]) -> list[tuple[int, int]]:
    known = systems.columns.systems
    rows = who_meets(known, pair)
    if set(measure.parts) <= set(systems.measured):
        everything = np.ones((len(known), 1), dtype=np.bool_)
        return measured_alone(known, rows, everything)
    of_mean = [row for row in rows if systems.mean_of_judges in {known[i][1] for i in row}]
    return (of_mean or rows) if systems.mean_of_judges is not None else rows


@dataclass(frozen=True)
class _States:
    """Of each system and case: what is waited for, what failed, and what of that has no bounds; and its scores with
    what failed at the least and at the most."""

    waiting: Bools
    failed: Bools
    endless: Bools
    low: dict[str, Array]
    high: dict[str, Array]
    whole: Columns
    """The scores with something in place of all that is not there."""


def _states(aggregate: Aggregate, columns: Columns, measure: Measure) -> _States:
    """What is waited for has the same value on both sides, and so no part in a gap, but its weight in it."""
    official = settled(aggregate, columns)
    ends = aggregate.ends("low"), aggregate.ends("high")
    bounded = measure.low is not None and measure.high is not None
    shape = next(iter(columns.drawn.values())).shape[:2]
    waiting, failed, endless = (np.zeros(shape, dtype=np.bool_) for _ in range(3))
    drawn, kinds = dict(official.drawn), dict(official.kinds)
    for part in measure.parts:
        aside = measure.aside(part, columns.away)
        without = (official.kinds[part] >= 0) & ~aside
        if aggregate.worst is not None:  # a model's own failures have a value, if there is a worst
            without &= ~(columns.own[part] & np.isfinite(aggregate.worst.get(part, np.nan)))
        no_end = without & (not bounded or any(part not in end for end in ends))
        waiting |= (columns.waiting[part] & ~aside).any(axis=2)
        failed |= without.any(axis=2)
        endless |= no_end.any(axis=2)
        fill = columns.waiting[part] | no_end
        drawn[part] = np.where(fill, ends[0].get(part, 0.0), drawn[part])
        kinds[part] = np.where(fill, np.int8(-1), kinds[part])
    whole = replace(official, drawn=drawn, kinds=kinds)
    return _States(waiting, failed, endless, aggregate.filled(whole, "low"), aggregate.filled(whole, "high"), whole)


def _gap(
    systems: Systems,
    states: _States,
    measure: Measure,
    row: tuple[int, int],
    scale: float | None,
    ids: Sequence[str],
) -> _Gap:
    aggregate, cases = systems.aggregate, systems.cases
    both = list(row)
    shared = has_value(states.low, measure)[both].all(axis=0)
    shared &= np.any([where.members for where in aggregate.overall(cases)], axis=0)
    kept = [case for case, keep in zip(cases, shared, strict=True) if keep]
    if not kept:
        nothing = np.zeros(0)
        return _Gap(Parts(nothing, nothing, nothing, 1.0, scale), [], [], 0)
    design = Design.of([case.cluster for case in kept], [case.stratum for case in kept])
    waiting, failed, endless = (
        np.any(mask[both], axis=0)[shared] for mask in (states.waiting, states.failed, states.endless)
    )
    order = _followed_clusters(ids, kept, design, waiting)
    couples = {}
    for metric, low in states.low.items():
        least = np.stack([low[row[0]], states.high[metric][row[1]]])[:, shared]
        most = np.stack([states.high[metric][row[0]], low[row[1]]])[:, shared]
        couple = np.stack([least, most])
        couple[np.broadcast_to(np.isnan(couple).any(axis=(0, 1)), couple.shape)] = np.nan
        couples[metric] = couple
    swaps = Swaps(aggregate, kept, design, couples, measure.name)
    unflipped = swaps.gaps_under(np.repeat([[1.0, 0.0]], len(kept), axis=1))[:, 0]
    parts = np.sort(swaps.parts(unflipped, order), axis=0)
    endless_here = design.weights_of(endless.astype(np.float64))[order] > 0
    parts[0, endless_here], parts[1, endless_here] = -np.inf, np.inf
    weights = design.weights_of(aggregate.overall(kept)[0].weights(np.ones(len(kept), dtype=np.bool_)))
    sizes, broken = (design.weights_of(of.astype(np.float64))[order] for of in (np.ones(len(kept)), failed))
    return _Gap(
        Parts(parts[0], parts[1], weights[order], float(weights.max()), scale),
        [int(n) for n in sizes],
        [int(n) for n in broken],
        len(kept),
    )


def _followed_clusters(ids: Sequence[str], kept: Sequence[AnyCase], design: Design, waiting: Bools) -> NDArray[np.intp]:
    """The clusters in the order of the cases, up to the first with a case that is not asked for yet."""
    number = {case.id: int(cluster) for case, cluster in zip(kept, design.cluster, strict=True)}
    order = list(dict.fromkeys(number[name] for name in ids if name in number))
    not_yet = set(design.cluster[waiting].tolist())
    end = next((place for place, cluster in enumerate(order) if cluster in not_yet), len(order))
    return np.array(order[:end], dtype=np.intp)


def check_is_sum(systems: Systems) -> None:
    """Refuse a number that is no sum over cases: it cannot be followed case by case. Tried on scores that are made up,
    so that it is said before anything is paid for."""
    aggregate, cases = systems.aggregate, systems.cases
    measure = measure_of(systems, overall_values(aggregate, aggregate.filled(systems.columns), cases), None)
    rng = np.random.default_rng(_SEED)
    states = _states(aggregate, systems.columns, measure)
    there = has_value(states.low, measure).any(axis=0)
    there &= np.any([where.members for where in aggregate.overall(cases)], axis=0)
    kept = [case for case, keep in zip(cases, there, strict=True) if keep]
    if not kept:
        return
    made_up = replace(systems.columns, drawn={m: rng.random(d.shape) for m, d in systems.columns.drawn.items()})
    made_up = replace(made_up, kinds={m: np.full_like(k, -1) for m, k in made_up.kinds.items()})
    values = aggregate.filled(made_up)
    design = Design.of([case.cluster for case in kept], [case.stratum for case in kept])
    sizes = {metric: 1 + float(np.nan_to_num(np.abs(of_cases)).max()) for metric, of_cases in values.items()}
    first = {metric: rng.random((1, 2, len(kept))) * size for metric, size in sizes.items()}
    # A part must not depend on the scores of other cases either: those of later ones are not known yet.
    later = rng.random(design.n_clusters) < 0.5
    second = {
        metric: np.where(later[design.cluster], rng.random(couple.shape) * sizes[metric], couple)
        for metric, couple in first.items()
    }
    parts, sums = [], []
    for couples in (first, second):
        swaps = Swaps(aggregate, kept, design, couples, measure.name)
        gaps = swaps.gaps_under(np.repeat([[1.0, 0.0]], len(kept), axis=1))[:, 0]
        parts.append(swaps.parts(gaps)[0])
        sums.append(bool(np.isfinite(gaps).all()) and bool(swaps.are_sums(gaps, parts[-1][None], _SEED).all()))
    same = np.allclose(parts[0][~later], parts[1][~later], rtol=1e-6, atol=1e-9 * float(np.abs(parts[0]).max()))
    if not all(sums) or not same or not _is_within_shares(systems, measure, kept, there, design):
        raise RefBenchError(
            f"--stop-when-resolved: {systems.title} {measure.name} is no sum over cases, so that it cannot be followed "
            "case by case: leave it out, and compare when the run is complete"
        )


def _is_within_shares(
    systems: Systems, measure: Measure, kept: Sequence[AnyCase], there: Bools, design: Design
) -> bool:
    """Whether no cluster's part of a gap can be larger than its share of the scale: bets rely on it."""
    aggregate, columns = systems.aggregate, systems.columns
    scale = scale_of(aggregate, columns, systems.cases, measure.name)
    if scale is None:
        return True
    ends = []
    for side in ("high", "low"):
        end = {m: np.full_like(d, aggregate.ends(side).get(m, 0.0)) for m, d in columns.drawn.items()}
        scored = {m: np.full_like(k, -1) for m, k in columns.kinds.items()}
        ends.append(aggregate.filled(replace(columns, drawn=end, kinds=scored)))
    couples = {m: np.stack([end[m][0] for end in ends])[None, :, there] for m in ends[0]}
    swaps = Swaps(aggregate, kept, design, couples, measure.name)
    parts = swaps.parts(swaps.gaps_under(np.repeat([[1.0, 0.0]], len(kept), axis=1))[:, 0])[0]
    shares = design.weights_of(aggregate.overall(kept)[0].weights(np.ones(len(kept), dtype=np.bool_)))
    return bool((np.abs(parts) <= scale * shares * (1 + 1e-6)).all())


def _decision(
    systems: Systems,
    measure: str,
    row: tuple[int, int],
    gap: _Gap,
    followed: Followed,
    family: int,
    limits: tuple[float | None, float | None],
) -> Decision:
    _, scale = limits
    (first, judge), (second, other) = (systems.columns.systems[i] for i in row)
    if set(next(m for m in systems.aggregate.measures if m.name == measure).parts) <= set(systems.measured):
        judge = other = None
    n, share = followed.clusters, gap.parts.share[: followed.clusters].sum()
    ends = [float(part[:n].sum() / share) for part in (gap.parts.low, gap.parts.high)] if share else [np.nan]
    low, high = (round(end, 9) if np.isfinite(end) else None for end in followed.interval)
    lower = measure in systems.lower
    ahead = {"above": second if lower else first, "below": first if lower else second}
    decision = Decision(
        first=first,
        second=second,
        judge=judge,
        second_judge=other,
        verdict=followed.verdict,
        better=ahead.get(followed.verdict),
        gap=(round(ends[0], 9), round(ends[1], 9)) if np.isfinite(ends).all() else None,
        interval=(low, high),
        n_cases=sum(gap.cases[:n]),
        n_clusters=n,
        n_all=gap.n_all,
        n_failed=sum(gap.failed[:n]),
        family=family,
        sentence="",
    )
    # As on the leaderboard: marks and percentages have two digits.
    digits = digits_of([scale] if scale is not None else (decision.gap or ()))
    return decision.model_copy(update={"sentence": _sentence(decision, systems, measure, digits, limits)})


def _sentence(
    decision: Decision, systems: Systems, measure: str, digits: int, limits: tuple[float | None, float | None]
) -> str:
    """What may be said of the pair: when it was decided, what holds, and under which rule."""
    on = f"{systems.title} {measure}" + (" (lower is better)" if measure in systems.lower else "")
    a, b = decision.first, decision.second
    margin, scale = limits
    claims = {
        "above": f"{a} scores above {b} on {on}",
        "below": f"{a} scores below {b} on {on}",
        "within": f"{a} and {b} are equal within {as_given(margin or 0.0, digits)} on {on}",
        "open": f"Not decided between {a} and {b} on {on}",
    }
    facts = [systems.protocol, *_interval_said(decision, digits, scale), *_failures_said(decision)]
    facts.append(
        "followed case by case in the fair order"
        + (f", Bonferroni over {decision.family} pairs" if decision.family > 1 else "")
        + (", differences taken to be symmetric" if scale is None else "")
    )
    facts.append(judges_said(decision.judge, decision.second_judge))
    every = "all " if decision.n_cases == decision.n_all else f"{decision.n_cases} of "
    counts = f"{every}{counted(decision.n_all, 'case')}"
    if decision.n_clusters != decision.n_cases:
        counts += f" in {counted(decision.n_clusters, 'cluster')}"
    when = f"after {counts}" if decision.verdict == "open" else f"decided after {counts}, valid at every look"
    return f"{claims[decision.verdict]}, {when} ({'; '.join(facts)})."


def _interval_said(decision: Decision, digits: int, scale: float | None) -> list[str]:
    said = []
    if decision.gap is not None:
        least, most = decision.gap
        same = signed(least, digits) == signed(most, digits)
        said.append(f"gap so far {signed(least, digits) if same else between(decision.gap, digits)}")
    low, high = decision.interval
    if scale is None or low is None or high is None:
        said.append("no confidence sequence, as the scale has no ends")
    else:
        said.append(f"95 % confidence sequence {between((low, high), digits)}")
    return said


def _failures_said(decision: Decision) -> list[str]:
    if not decision.n_failed:
        return []
    how = "counted as the least and the most it could be"
    if decision.gap is None:
        how = "what they could be has no bounds, so nothing can be decided"
    return [f"{counted(decision.n_failed, 'case')} with a failure, {how}"]
