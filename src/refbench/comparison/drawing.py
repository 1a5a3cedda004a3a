"""The numbers of many pairs at once: gaps and what slices contribute to them, under bootstrap weights and flips.

Pairs on the same cases share every draw. What a slice contributes needs the whole aggregate with the slice's scores
replaced; as further rows beside the two systems, replaced scores go through the same products of matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refbench.case import AnyCase
from refbench.columns import Columns
from refbench.comparison.pairing import Pairing
from refbench.stats import (
    Array,
    Design,
    bca_interval,
    draws_of,
    flip_p,
    flips,
    is_exhaustive,
)
from refbench.table import Aggregate, Slice, summaries

_MOST_NUMBERS = 20_000_000
"""Scores (rows x cases x metrics) held at a time: 160 MB."""

Interval = tuple[float, float] | None


@dataclass(frozen=True)
class Estimate:
    """A number with its interval."""

    value: float
    ci95: Interval


@dataclass(frozen=True)
class Drawn:
    """What the draws say about one pair; slices in the order of the aggregate, without the overall one."""

    values: tuple[float, float]
    gap: Estimate
    p: float | None
    n_clusters: int
    slices: tuple[Slice, ...]
    contributions: tuple[Estimate, ...]
    gaps: tuple[Estimate, ...]


def draw_pairs(
    aggregate: Aggregate,
    columns: Columns,
    cases: Sequence[AnyCase],
    pairings: Sequence[Pairing],
    measure: str,
    *,
    draws: int,
    permutations: int,
    seed: int,
    by_slice: bool = True,
) -> list[Drawn]:
    """Everything about every pair, in order. The gap is NaN where the aggregate has no value for it; there is no p
    without permutations."""
    groups: dict[bytes, list[int]] = {}
    for number, pairing in enumerate(pairings):
        groups.setdefault(pairing.shared.tobytes(), []).append(number)
    found: dict[int, Drawn] = {}
    for numbers in groups.values():
        kept = [case for case, keep in zip(cases, pairings[numbers[0]].shared, strict=True) if keep]
        slices = aggregate.slices(kept)
        rows = 2 + (len(slices) if by_slice else 0)
        at_once = max(1, _MOST_NUMBERS // (rows * len(kept) * len(columns.values)))
        for start in range(0, len(numbers), at_once):
            batch = numbers[start : start + at_once]
            group = _Group(aggregate, columns, kept, slices, [pairings[i] for i in batch], measure, by_slice)
            found |= dict(zip(batch, group.drawn(draws, permutations, seed), strict=True))
    return [found[number] for number in range(len(pairings))]


class _Group:
    """Pairs on the same cases: for each, the two systems, and the second with each slice's scores of the first."""

    def __init__(
        self,
        aggregate: Aggregate,
        columns: Columns,
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
        """pairs x 2 x cases of each metric; a value that one side lacks is no value of the pair."""
        for metric, values in aggregate.filled(columns).items():
            couple = np.stack([values[[p.first, p.second]][:, p.shared] for p in pairings])
            couple[np.broadcast_to(np.isnan(couple).any(axis=1, keepdims=True), couple.shape)] = np.nan
            self.couples[metric] = couple

    def drawn(self, draws: int, permutations: int, seed: int) -> list[Drawn]:
        design, n = self.design, len(self.kept)
        systems = self._overall({m: c.reshape(-1, n) for m, c in self.couples.items()}, np.ones((1, n)))[:, 0]
        rows = self._rows()
        point = self._statistics(rows, np.ones((1, n)))[:, :, 0]
        drawn, influence = draws_of(lambda weights: self._statistics(rows, weights), design, draws, seed)
        everything = np.ones(n, dtype=np.bool_)
        members = [everything, *(where.members for where in self.slices), *(where.members for where in self.slices)]
        freedom = [design.degrees_of_freedom(chosen) for chosen in members]
        p_values = self._p_values(point[:, 0], permutations, seed)
        found = []
        for pair in range(self.n_pairs):
            estimates = [
                Estimate(float(value), bca_interval(value, drawn[pair, k], influence[pair, k], freedom[k]))
                for k, value in enumerate(point[pair])
            ]
            found.append(
                Drawn(
                    values=(float(systems[2 * pair]), float(systems[2 * pair + 1])),
                    gap=estimates[0],
                    p=p_values[pair],
                    n_clusters=design.n_clusters,
                    slices=tuple(self.slices),
                    contributions=tuple(estimates[1 : 1 + len(self.slices)]),
                    gaps=tuple(estimates[1 + len(self.slices) :]),
                )
            )
        return found

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
        for (i, measure), found in summaries(self.aggregate, couples, weights, self.slices).items():
            if measure == self.measure:
                both = found.reshape(self.n_pairs, 2, -1)
                within[:, i] = both[:, 0] - both[:, 1]
        return np.concatenate([gap, contributions, within], axis=1)

    def _p_values(self, gaps: Array, permutations: int, seed: int) -> list[float | None]:
        """Flips of whole clusters, for all pairs at once: see refbench.stats.permutation."""
        if not permutations:
            return [None] * self.n_pairs
        twice = next(w for w in self.aggregate.slices([*self.kept, *self.kept]) if w.level == "overall")
        rows = {
            metric: np.concatenate([couple, couple[:, ::-1]], axis=2).reshape(-1, 2 * len(self.kept))
            for metric, couple in self.couples.items()
        }
        blocks: list[Array] = []
        for weights in flips(self.design, permutations, seed):
            value = self._overall(rows, weights, twice).reshape(self.n_pairs, 2, -1)
            blocks.append(value[:, 0] - value[:, 1])
        drawn = np.concatenate(blocks, axis=1)
        exhaustive = is_exhaustive(self.design.n_clusters, permutations)
        return [flip_p(float(gaps[i]), drawn[i], exhaustive=exhaustive) for i in range(self.n_pairs)]

    def _overall(self, rows: Mapping[str, Array], weights: Array, where: Slice | None = None) -> Array:
        found = summaries(self.aggregate, rows, weights, [where or self.overall])
        nothing = np.full((len(next(iter(rows.values()))), len(weights)), np.nan)
        return found.get((0, self.measure), nothing)
