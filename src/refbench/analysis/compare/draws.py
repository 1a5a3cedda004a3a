"""The numbers of many pairs at once: gaps and what slices contribute to them, under bootstrap weights and flips.

Pairs on the same cases share every draw. What a slice contributes needs the whole aggregate with the slice's scores
replaced; as further rows beside the two systems, replaced scores go through the same products of matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.compare.pairing import Pairing, Pairings
from refbench.case import AnyCase
from refbench.failure import KINDS
from refbench.record import Record, RefBenchError
from refbench.score import Score
from refbench.stats import (
    Array,
    Contrast,
    Design,
    FlipP,
    OneSwapMeans,
    bounds_interval,
    draws_of,
    error_and_skew,
    flip_p,
    flips,
    interval_for,
    is_exhaustive,
    mean_of_those_there,
    sum_flip_p,
)
from refbench.stats.components import Components, Labels, variance_components
from refbench.stats.effect import LEVEL, smallest_p
from refbench.tables.table import (
    DRAWS,
    SEED,
    Aggregate,
    Columns,
    Mean,
    Slice,
    System,
    case_values,
    columns_of,
    summaries,
)

_MOST_NUMBERS = 20_000_000
"""Scores (rows x cases x metrics) and values (rows x draws x measures) held at a time: 160 MB each."""
_MOST_WITH_SLICES = 66
"""Pairs (12 models) up to which what slices contribute has intervals: each slice costs as much as the gap itself."""
_BOUND_DRAWS = 500
"""Enough for a standard error, which is all that an interval of bounds needs."""
_CHECKED = 32
"""Flips that are carried out in full to see whether a gap is the sum of its clusters' parts."""
_ROUNDING = 1e-9

Interval = tuple[float, float] | None


class Estimate(NamedTuple):
    """A number with its interval."""

    value: float
    ci95: Interval


@dataclass(frozen=True)
class PairDraws:
    """What the draws say about one pair; slices in the order of the aggregate, without the overall one.

    `p_is_bound`: no flip drawn reaches the gap, so p is below this. `is_sum`: the gap is the sum of its clusters'
    parts, so that p has no floor. `n_apart` counts the clusters in which the two differ.
    """

    gap: Estimate
    p: float | None
    p_is_bound: bool
    p_flips: float | None
    contrast: Contrast
    values: tuple[float, float]
    n_apart: int
    is_sum: bool
    slices: tuple[Slice, ...]
    contributions: tuple[Estimate, ...]
    gaps: tuple[Estimate, ...]
    gap_ps: tuple[float | None, ...]
    """Of the gap within each slice, the larger of Student's p and that of flips of its clusters; None where it has no
    error, and where slices have no intervals."""


@dataclass(frozen=True)
class Resampling:
    """How often cases are drawn anew and clusters flipped, from which seed."""

    draws: int
    permutations: int = 0
    seed: int = SEED
    level: float = 1 - LEVEL
    """Of the intervals of gaps and of bounds."""


def draw_pairs(
    aggregate: Aggregate,
    values: Mapping[str, Array],
    cases: Sequence[AnyCase],
    pairings: Sequence[Pairing],
    measure: str,
    resampling: Resampling,
    *,
    by_slice: bool = True,
) -> list[PairDraws]:
    """Everything about every pair, in order, from the columns that the aggregate has filled. The gap is NaN where the
    aggregate has no value for it; without permutations p is None."""
    groups: dict[bytes, list[int]] = {}
    for number, pairing in enumerate(pairings):
        groups.setdefault(pairing.shared.tobytes(), []).append(number)
    by_number: dict[int, PairDraws] = {}
    for numbers in groups.values():
        kept = [case for case, keep in zip(cases, pairings[numbers[0]].shared, strict=True) if keep]
        slices = aggregate.slices(kept)
        in_slices = by_slice and len(pairings) <= _MOST_WITH_SLICES
        rows = 2 + (len(slices) if in_slices else 0)
        # Scores of all metrics, or every measure under every draw, whichever is more.
        numbers_of_row = max(len(kept) * len(values), resampling.draws * (2 + len(aggregate.measures)))
        at_once = max(1, _MOST_NUMBERS // (rows * numbers_of_row))
        for start in range(0, len(numbers), at_once):
            batch = numbers[start : start + at_once]
            group = _Group(aggregate, values, kept, slices, [pairings[i] for i in batch], measure, by_slice)
            by_number |= dict(zip(batch, group.drawn(resampling, in_slices), strict=True))
    return [by_number[number] for number in range(len(pairings))]


def contrast_of(
    value: float, drawn: Array, influence: Array, design: Design, sizes: tuple[int, int] | None = None
) -> Contrast:
    """A difference. With more clusters than are left out one by one, the error is that of the draws and skew no matter.
    `sizes` are the clusters and degrees of freedom, of all cases where they are not given."""
    defined = drawn[np.isfinite(drawn)]
    spread = float(np.std(defined)) if len(defined) else np.nan
    error, skew = error_and_skew(influence, design) if len(influence) else (spread, 0.0)
    everything = np.ones(len(design.cluster), dtype=np.bool_)
    n, df = sizes or (design.n_clusters, design.degrees_of_freedom(everything))
    return Contrast(value, error, skew, n, df)


class _Group:
    """Pairs on the same cases: for each, the two systems, and the second with each slice's scores of the first."""

    def __init__(
        self,
        aggregate: Aggregate,
        values: Mapping[str, Array],
        kept: Sequence[AnyCase],
        slices: Sequence[Slice],
        pairings: Sequence[Pairing],
        measure: str,
        by_slice: bool,
    ) -> None:
        self.aggregate, self.kept, self.measure, self.n_pairs = aggregate, kept, measure, len(pairings)
        self.overall = next(where for where in slices if where.level == "overall")
        self.slices = [where for where in slices if where.level != "overall"] if by_slice else []
        self.design = Design.of([case.cluster for case in kept], [case.stratum for case in kept])
        self.couples: dict[str, Array] = {}
        """pairs x 2 x cases of each metric; a value that one side lacks does not count for the pair."""
        for metric, column in values.items():
            couple = np.stack([column[[p.first, p.second]][:, p.shared] for p in pairings])
            couple[np.broadcast_to(np.isnan(couple).any(axis=1, keepdims=True), couple.shape)] = np.nan
            self.couples[metric] = couple

    def drawn(self, resampling: Resampling, in_slices: bool) -> list[PairDraws]:
        design, n = self.design, len(self.kept)
        permutations, seed = resampling.permutations, resampling.seed
        systems = self._overall({m: c.reshape(-1, n) for m, c in self.couples.items()}, np.ones((1, n)))[:, 0]
        rows = self._rows()
        point = self._statistics(rows, np.ones((1, n)))[:, :, 0]
        couples = {m: c.reshape(-1, n) for m, c in self.couples.items()}
        statistics = partial(self._statistics, rows) if in_slices else partial(self._gaps, couples)
        drawn, influence = draws_of(statistics, design, resampling.draws, seed)
        members = [where.members for where in (*self.slices, *self.slices)]
        sizes = [(len(design.clusters_of(chosen)), design.degrees_of_freedom(chosen)) for chosen in members]
        flipped, sums, apart = self._flipped(point[:, 0], permutations, seed)
        within = point[:, 1 + len(self.slices) :]
        slices_flipped = self._slices_flipped(within, permutations, seed) if in_slices else within
        pairs = []
        for pair in range(self.n_pairs):
            estimates = [
                Estimate(
                    float(value),
                    interval_for(value, drawn[pair, k], influence[pair, k], n=clusters, df=df) if in_slices else None,
                )
                for k, (value, (clusters, df)) in enumerate(zip(point[pair, 1:], sizes, strict=True), 1)
            ]
            contrast = contrast_of(float(point[pair, 0]), drawn[pair, 0], influence[pair, 0], design)
            students = [
                contrast_of(float(point[pair, k]), drawn[pair, k], influence[pair, k], design, sizes[k - 1]).p
                for k in (range(len(self.slices) + 1, 2 * len(self.slices) + 1) if in_slices else ())
            ]
            p, bound = _larger(flipped[pair], contrast.p) if permutations else (None, False)
            pairs.append(
                PairDraws(
                    values=(float(systems[2 * pair]), float(systems[2 * pair + 1])),
                    gap=Estimate(contrast.value, with_zero(contrast.interval(resampling.level), p, resampling.level)),
                    contrast=contrast,
                    p=p,
                    p_flips=flipped[pair].p if permutations else None,
                    p_is_bound=bound,
                    is_sum=bool(sums[pair]),
                    n_apart=int(apart[pair]),
                    slices=tuple(self.slices),
                    contributions=tuple(estimates[: len(self.slices)]),
                    gaps=tuple(estimates[len(self.slices) :]),
                    gap_ps=tuple(
                        None if student is None else max(student, by_flips)
                        for student, by_flips in zip(students, slices_flipped[pair], strict=True)
                    )
                    if in_slices
                    else (None,) * len(self.slices),
                )
            )
        return pairs

    def _rows(self) -> dict[str, Array]:
        """For each pair: first, second, and the second as the first on each slice."""
        rows = {}
        for metric, couple in self.couples.items():
            first, second = couple[:, :1], couple[:, 1:]
            lent = [np.where(where.members, first, second) for where in self.slices]
            rows[metric] = np.concatenate([couple, *lent], axis=1).reshape(-1, len(self.kept))
        return rows

    def _statistics(self, rows: Mapping[str, Array], weights: Array) -> Array:
        """pairs x (gap, each slice's contribution, the gap within each slice) x draws."""
        value = self._overall(rows, weights).reshape(self.n_pairs, 2 + len(self.slices), -1)
        gap = value[:, :1] - value[:, 1:2]
        contributions = value[:, 2:] - value[:, 1:2]
        couples = {m: c.reshape(-1, len(self.kept)) for m, c in self.couples.items()}
        within = np.full_like(contributions, np.nan)
        for (i, _), of_slice in summaries(self.aggregate, couples, weights, self.slices, self.measure).items():
            both = of_slice.reshape(self.n_pairs, 2, -1)
            within[:, i] = both[:, 0] - both[:, 1]
        return np.concatenate([gap, contributions, within], axis=1)

    def _gaps(self, couples: Mapping[str, Array], weights: Array) -> Array:
        """pairs x 1 x draws."""
        value = self._overall(couples, weights).reshape(self.n_pairs, 2, -1)
        return value[:, :1] - value[:, 1:]

    def _flipped(
        self, gaps: Array, permutations: int, seed: int
    ) -> tuple[list[FlipP], NDArray[np.bool_], NDArray[np.intp]]:
        """Flips of whole clusters, for all pairs at once (refbench.stats.permutation), which gaps are sums over
        clusters, and in how many clusters the two differ. Sums are flipped as such; of others the aggregate is
        repeated under each flip."""
        if not permutations:
            no = np.zeros(self.n_pairs, dtype=np.intp)
            return [FlipP(1.0)] * self.n_pairs, no.astype(np.bool_), no
        swaps = Swaps(self.aggregate, self.kept, self.design, self.couples, self.measure)
        parts = swaps.parts(gaps)
        sums = swaps.are_sums(gaps, parts, seed)
        tests = dict(zip(np.flatnonzero(sums), sum_flip_p(parts[sums], permutations, seed), strict=True))
        if not sums.all():
            flipped = [swaps.gaps_under(weights) for weights in flips(self.design, permutations, seed)]
            drawn = np.concatenate(flipped, axis=1)
            all_tried = is_exhaustive(self.design.n_clusters, permutations)
            for i in np.flatnonzero(~sums):
                tests[i] = flip_p(float(gaps[i]), drawn[i], exhaustive=all_tried)
        apart = np.abs(parts) > _ROUNDING * np.abs(parts).max(axis=1, keepdims=True)
        return [tests[np.intp(i)] for i in range(self.n_pairs)], sums, apart.sum(axis=1)

    def _slices_flipped(self, gaps: Array, permutations: int, seed: int) -> Array:
        """p of flips of the clusters of each slice, pairs x slices. Of a gap that is no sum over clusters it is the
        smallest that so many clusters can give."""
        clusters = [self.design.clusters_of(where.members) for where in self.slices]
        floors = np.array([smallest_p(len(of_slice)) for of_slice in clusters])
        found: Array = np.tile(floors, (self.n_pairs, 1))
        if not permutations or not self.slices:
            return found
        swaps = Swaps(self.aggregate, self.kept, self.design, self.couples, self.measure, self.slices)
        parts = swaps.parts(gaps.ravel())
        sums = swaps.are_sums(gaps.ravel(), parts, seed).reshape(gaps.shape)
        parts = parts.reshape(*gaps.shape, -1)
        for k, of_slice in enumerate(clusters):
            tests = sum_flip_p(parts[sums[:, k], k][:, of_slice], permutations, seed)
            found[sums[:, k], k] = np.maximum([test.p for test in tests], floors[k])
        return found

    def _overall(self, rows: Mapping[str, Array], weights: Array) -> Array:
        return _overall(self.aggregate, rows, weights, self.overall, self.measure)


def _overall(aggregate: Aggregate, rows: Mapping[str, Array], weights: Array, where: Slice, measure: str) -> Array:
    """A measure on a slice, systems x draws; NaN where the aggregate does not give it."""
    values = summaries(aggregate, rows, weights, [where], measure)
    nothing = np.full((len(next(iter(rows.values()))), len(weights)), np.nan)
    found: Array = values.get((0, measure), nothing)
    return found


class Swaps:
    """The gaps of pairs on the same cases when the two systems' scores are swapped in some clusters, overall or within
    `slices` (those of a pair one after another). `couples` are pairs x 2 x cases of each metric."""

    def __init__(
        self,
        aggregate: Aggregate,
        kept: Sequence[AnyCase],
        design: Design,
        couples: Mapping[str, Array],
        measure: str,
        slices: Sequence[Slice] | None = None,
    ) -> None:
        self.design, self._aggregate, self._measure, self._n = design, aggregate, measure, len(kept)
        twice = aggregate.slices([*kept, *kept])
        by_label = {tuple(where.label.items()): where for where in twice}
        overall = [where for where in twice if where.level == "overall"][:1]
        self._twice = overall if slices is None else [by_label[tuple(where.label.items())] for where in slices]
        self._rows = {
            metric: np.concatenate([couple, couple[:, ::-1]], axis=2).reshape(-1, 2 * self._n)
            for metric, couple in couples.items()
        }

    def gaps_under(self, weights: Array) -> Array:
        """pairs (times slices) x draws, from weights over the cases twice: as they are, and swapped."""
        return self._gaps(weights, len(weights))

    def _gaps(self, weights: Array | Mean, n_draws: int) -> Array:
        values = summaries(self._aggregate, self._rows, weights, self._twice, self._measure)
        n_systems = len(next(iter(self._rows.values())))
        nothing = np.full((n_systems, n_draws), np.nan)
        of_each = [values.get((i, self._measure), nothing) for i in range(len(self._twice))]
        value = np.stack(of_each, axis=1).reshape(n_systems // 2, 2, len(of_each), n_draws)
        gaps: Array = value[:, 0] - value[:, 1]
        return gaps.reshape(n_systems // 2 * len(of_each), n_draws)  # there may be no draws

    def parts(self, gaps: Array, chosen: NDArray[np.intp] | None = None) -> Array:
        """What each cluster (or each of those chosen) contributes, pairs x clusters, where gaps are sums of that."""
        those = np.arange(self.design.n_clusters, dtype=np.intp) if chosen is None else chosen
        means = OneSwapMeans(self._rows, self.design.cluster, those)
        parts: Array = (gaps[:, None] - self._gaps(means, len(those))) / 2
        return parts

    def are_sums(self, gaps: Array, parts: Array, seed: int) -> NDArray[np.bool_]:
        """Whether each gap is the sum of its clusters' parts, tried on a few random swaps."""
        some = np.concatenate(list(flips(self.design, _CHECKED, seed)))
        swapped = some[:, self._n + np.unique(self.design.cluster, return_index=True)[1]]
        off = np.abs(gaps[:, None] - 2 * parts @ swapped.T - self.gaps_under(some)).max(axis=1)
        return np.asarray(off <= _ROUNDING * np.abs(parts).sum(axis=1))


def _larger(flipped: FlipP, student: float | None) -> tuple[float, bool]:
    """Flips are exact where differences are symmetric, Student's t corrected for skew holds where they are not: the
    larger p holds in both."""
    if student is None or student <= flipped.p:
        return flipped.p, flipped.bound
    return student, False


def with_zero(interval: Interval, p: float | None, level: float = 1 - LEVEL) -> Interval:
    """The interval holds all differences that the test does not reject at the level: no difference as well, where only
    the flips do not reject it."""
    if interval is None or p is None or p <= (1 - level) * (1 + _ROUNDING):
        return interval
    return min(interval[0], 0.0), max(interval[1], 0.0)


Bounds = tuple[tuple[float, float], Interval]


def bound_pairs(
    aggregate: Aggregate,
    columns: Columns,
    cases: Sequence[AnyCase],
    pairings: Sequence[Pairing],
    measure: str,
    resampling: Resampling,
) -> list[Bounds | None]:
    """Between what each gap lies, whatever the failures would have scored, over all cases that both were asked for:
    [lowest first - highest second, highest first - lowest second], and Imbens and Manski's interval for the gap.

    Failures that the aggregate gives a value are not unknown. None for a measure without a finite range.
    """
    of = next(m for m in aggregate.measures if m.name == measure)
    ends = {(end, part) for end in ("low", "high") for part in of.parts if part not in aggregate.ends(end)}
    if of.low is None or of.high is None or ends:
        return [None] * len(pairings)
    official = settled(aggregate, columns)
    low, high = (aggregate.filled(official, end) for end in ("low", "high"))
    fewer = replace(resampling, draws=min(resampling.draws, _BOUND_DRAWS))
    return [_bound(aggregate, (low, high), cases, pairing, measure, fewer) for pairing in pairings]


def _bound(
    aggregate: Aggregate,
    ends: tuple[Mapping[str, Array], Mapping[str, Array]],
    cases: Sequence[AnyCase],
    pairing: Pairing,
    measure: str,
    resampling: Resampling,
) -> Bounds | None:
    low, high = ends
    kept = [case for case, keep in zip(cases, pairing.expected, strict=True) if keep]
    overall = aggregate.overall(kept)
    first, second = pairing.first, pairing.second
    rows = {}
    for metric in low:
        four = low[metric][first], high[metric][second], high[metric][first], low[metric][second]
        rows[metric] = np.stack(four)[:, pairing.expected]
        rows[metric][:, np.isnan(rows[metric]).any(axis=0)] = np.nan
    design = Design.of([case.cluster for case in kept], [case.stratum for case in kept])

    def gaps(weights: Array) -> Array:
        value = summaries(aggregate, rows, weights, overall, measure).get((0, measure))
        return np.full((2, len(weights)), np.nan) if value is None else value[[0, 2]] - value[[1, 3]]

    point = gaps(np.ones((1, len(kept))))[:, 0]
    if not np.isfinite(point).all():
        return None
    least, most = sorted(float(end) for end in point)
    drawn, _ = draws_of(gaps, design, resampling.draws, resampling.seed, most_left_out=0)
    df = design.degrees_of_freedom(np.ones(len(kept), dtype=np.bool_))
    if df < 1 or not drawn.size or not np.isfinite(drawn).all():
        return (least, most), None
    errors = float(np.std(drawn[0])), float(np.std(drawn[1]))
    if point[0] > point[1]:
        errors = errors[::-1]
    return (least, most), bounds_interval(least, most, errors, df, resampling.level)


def settled(aggregate: Aggregate, columns: Columns) -> Columns:
    """The columns with the official values as if they were scores: what has a value is not bounded."""
    drawn, kinds = dict(columns.drawn), dict(columns.kinds)
    for metric in drawn:
        for kind, value in aggregate.imputed.items():
            failed = columns.kinds[metric] == KINDS.index(kind)
            drawn[metric] = np.where(failed, value, drawn[metric])
            kinds[metric] = np.where(failed, np.int8(-1), kinds[metric])
    return replace(columns, drawn=drawn, kinds=kinds)


# The gap of two systems on the cases they share, with an interval and nothing more; and what further seeds and repeats
# would take from its error.


class Gap(Record):
    """How much `first` is ahead of `second` in one measure, over cases that both have."""

    first: str
    second: str
    measure: str
    gap: float
    ci95: tuple[float, float] | None
    n_cases: int

    @property
    def resolved(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.ci95 is not None and not self.ci95[0] <= 0 <= self.ci95[1]


def paired_gap(
    aggregate: Aggregate,
    scores: Sequence[Score],
    cases: Sequence[AnyCase],
    systems: tuple[System, System],
    measure: str,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Gap:
    """The overall gap of two systems. Cases that either failed take no part: the pair stays a pair."""
    (gap,) = paired_gaps(aggregate, scores, cases, [systems], measure, draws=draws, seed=seed)
    return gap


def paired_gaps(
    aggregate: Aggregate,
    scores: Sequence[Score],
    cases: Sequence[AnyCase],
    couples: Sequence[tuple[System, System]],
    measure: str,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[Gap]:
    """The overall gap of each couple, all drawn together."""
    if not couples:
        return []
    concerned = {system for couple in couples for system in couple}
    of = next(m for m in aggregate.measures if m.name == measure)
    columns = columns_of([s for s in scores if (s.model, s.judge) in concerned], cases)
    values = aggregate.filled(columns)
    pairs = Pairings(aggregate, columns, values, of, cases)
    place = columns.systems.index
    pairings = [pairs.of(place(first), place(second)) for first, second in couples]
    sizes = [int(pairing.shared.sum()) for pairing in pairings]
    for ((first, _), (second, _)), n in zip(couples, sizes, strict=True):
        if n < 2:
            raise RefBenchError(f"{first} and {second} share {n} scored cases: too few to compare")
    drawn = draw_pairs(aggregate, values, cases, pairings, measure, Resampling(draws, seed=seed), by_slice=False)
    return [
        Gap(first=first, second=second, measure=measure, gap=pair.gap.value, ci95=pair.gap.ci95, n_cases=n)
        for ((first, _), (second, _)), n, pair in zip(couples, sizes, drawn, strict=True)
    ]


@dataclass(frozen=True)
class Panel:
    """One model's marks by judge, and the components of their variance."""

    model: str
    components: Components
    counts: tuple[int, int, float]
    """Judges, seeds, and repeats on average."""
    by_judge: Mapping[str | None, Array]
    """Each judge's mean mark of each case."""

    def of_case(self, seeds: float = 0, repeats: float = 0) -> float:
        """Variance of a case's mean mark, with so many more of each."""
        return self.components.of_case_mean(self.counts[1] + seeds, self.counts[0], self.counts[2] + repeats)


def panel_of(aggregate: Aggregate, cases: Sequence[AnyCase], scores: Sequence[Score], measure: str) -> Panel | None:
    """From the scores of one model by seed and repeat: each draw (judge, seed, repeat) is tabled like a system of its
    own, case by case. None where they do not vary."""
    firsts = {(score.judge or "", score.seed, score.repeat): score for score in scores}
    draws = {
        (s.judge, s.seed, s.repeat): f"{n:06d}" for n, (_, s) in enumerate(sorted(firsts.items(), key=lambda x: x[0]))
    }
    if len(draws) > 1:
        scores = [s.model_copy(update={"judge": draws[s.judge, s.seed, s.repeat]}) for s in scores]
    values = case_values(aggregate, columns_of(scores, cases), cases)[measure]
    system, case = np.nonzero(~np.isnan(values))
    if len(case) == 0:
        return None
    # `draws` and the sorted systems of the columns are in the same order.
    judges, seeds = (numbered([draw[k] for draw in draws]) for k in (0, 1))
    strata = numbered([one.stratum for one in cases])
    components = variance_components(values[system, case], case, judges[system], seeds[system], strata[case])
    if components is None or components.total == 0:
        return None
    n_judges, n_seeds = (len(set(numbers.tolist())) for numbers in (judges, seeds))
    names = [draw[0] for draw in draws]
    by_judge = {
        name: mean_of_those_there(values[[i for i, one in enumerate(names) if one == name]])
        for name in dict.fromkeys(names)
    }
    return Panel(
        scores[0].model, components, (n_judges, n_seeds, len(draws) / len({draw[:2] for draw in draws})), by_judge
    )


def gain_of(panels: Sequence[Panel], *, seeds: float = 0, repeats: float = 0) -> float | None:
    """By how much the variance of a case's mark would shrink, over all models, with so many more seeds or repeats;
    None where the scores do not tell."""
    needed = [source for source, more in (("seed", seeds), ("repeat", repeats)) if more]
    if any(source in panel.components.merged for panel in panels for source in needed):
        return None
    return sum(panel.of_case() - panel.of_case(seeds, repeats) for panel in panels)


def numbered(names: Sequence[object]) -> Labels:
    """Equal names as equal numbers."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.intp)
