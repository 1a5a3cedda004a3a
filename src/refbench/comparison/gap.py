"""Whether two systems differ: the gap on the cases they share, with an interval, and nothing more."""

from __future__ import annotations

from collections.abc import Sequence

from refbench.case import AnyCase
from refbench.columns import System, columns_of
from refbench.comparison.drawing import draw_pairs
from refbench.comparison.pairing import Pairs
from refbench.record import Record, RefBenchError
from refbench.score import Score
from refbench.stats import detectable
from refbench.table import DRAWS, SEED, Aggregate


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

    @property
    def detectable(self) -> float | None:
        """The true difference that would be found at least four times in five."""
        return None if self.ci95 is None else detectable((self.ci95[1] - self.ci95[0]) / 2)


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
    of = next(m for m in aggregate.measures if m.name == measure)
    columns = columns_of([s for s in scores if (s.model, s.judge) in (first, second)], cases)
    values = aggregate.filled(columns)
    pairing = Pairs(aggregate, columns, values, of).of(columns.systems.index(first), columns.systems.index(second))
    n = int(pairing.shared.sum())
    if n < 2:
        raise RefBenchError(f"{first[0]} and {second[0]} share {n} scored cases: too few to compare")
    (drawn,) = draw_pairs(
        aggregate, values, cases, [pairing], measure, draws=draws, permutations=0, seed=seed, by_slice=False
    )
    return Gap(first=first[0], second=second[0], measure=measure, gap=drawn.gap.value, ci95=drawn.gap.ci95, n_cases=n)
