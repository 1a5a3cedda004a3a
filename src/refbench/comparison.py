"""Whether two systems differ: the gap on the cases they share, with an interval from the same draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refbench.case import AnyCase
from refbench.columns import System, columns_of
from refbench.record import Record, RefBenchError
from refbench.score import Score
from refbench.stats import Design, bca_interval, leave_one_out, resample
from refbench.table import DRAWS, SEED, Aggregate, summaries


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
    first: System,
    second: System,
    measure: str,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Gap:
    """The overall gap of two systems. Cases that either failed take no part: the pair stays a pair."""
    parts = next(m.parts for m in aggregate.measures if m.name == measure)
    columns = columns_of([s for s in scores if (s.model, s.judge) in (first, second)], cases)
    there = [~np.isnan(columns.values[part]) for part in parts]
    apart = [columns.inapplicable[part] for part in parts]
    shared = (np.all(np.logical_or(there, apart), axis=0) & np.any(there, axis=0)).all(axis=0)
    if shared.sum() < 2:
        raise RefBenchError(f"{first[0]} and {second[0]} share {int(shared.sum())} scored cases: too few to compare")
    kept = [case for case, keep in zip(cases, shared, strict=True) if keep]
    values = {metric: column[:, shared] for metric, column in columns.values.items()}
    a, b = columns.systems.index(first), columns.systems.index(second)
    overall = [where for where in aggregate.slices(kept) if where.level == "overall"]
    design = Design.of([case.cluster for case in kept], [case.stratum for case in kept])

    def gaps(
        weights: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        value = summaries(aggregate, values, weights, overall)[0, measure]
        difference: np.ndarray[tuple[int], np.dtype[np.float64]] = value[a] - value[b]
        return difference

    point = float(gaps(np.ones((1, len(kept))))[0])
    drawn = np.concatenate([gaps(weights) for weights in resample(design, draws, seed)])
    left = np.concatenate([gaps(weights) for _, weights in leave_one_out(design)])
    everything = np.ones(len(kept), dtype=np.bool_)
    interval = bca_interval(point, drawn, point - left, design.degrees_of_freedom(everything))
    return Gap(first=first[0], second=second[0], measure=measure, gap=point, ci95=interval, n_cases=len(kept))
