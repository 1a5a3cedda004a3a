"""The gap of two systems on the cases they share, with an interval and nothing more; and what further seeds and repeats
would take from its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refbench.case import AnyCase
from refbench.case_values import case_values
from refbench.columns import System, columns_of
from refbench.comparison.drawing import draw_pairs
from refbench.comparison.pairing import Pairs
from refbench.record import Record, RefBenchError
from refbench.score import Score
from refbench.stats import Array, mean_of_those_there
from refbench.stats.components import Components, Labels, variance_components
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
    pairs = Pairs(aggregate, columns, values, of, cases)
    pairing = pairs.of(columns.systems.index(first), columns.systems.index(second))
    n = int(pairing.shared.sum())
    if n < 2:
        raise RefBenchError(f"{first[0]} and {second[0]} share {n} scored cases: too few to compare")
    (drawn,) = draw_pairs(
        aggregate, values, cases, [pairing], measure, draws=draws, permutations=0, seed=seed, by_slice=False
    )
    return Gap(first=first[0], second=second[0], measure=measure, gap=drawn.gap.value, ci95=drawn.gap.ci95, n_cases=n)


@dataclass(frozen=True)
class Panel:
    """One model's marks by judge, and the components of their variance."""

    model: str
    found: Components
    counts: tuple[int, int, float]
    """Judges, seeds, and repeats on average."""
    by_judge: Mapping[str | None, Array]
    """Each judge's mean mark of each case."""

    def of_case(self, seeds: float = 0, repeats: float = 0) -> float:
        """Variance of a case's mean mark, with so many more of each."""
        return self.found.of_case_mean(self.counts[1] + seeds, self.counts[0], self.counts[2] + repeats)


def panel_of(aggregate: Aggregate, cases: Sequence[AnyCase], scores: Sequence[Score], measure: str) -> Panel | None:
    """From the scores of one model by seed and repeat: each draw (judge, seed, repeat) is tabled like a system of its
    own, case by case. None where they do not vary."""
    firsts = {(score.judge or "", score.seed, score.repeat): score for score in scores}
    draws = {
        (s.judge, s.seed, s.repeat): f"{n:06d}" for n, (_, s) in enumerate(sorted(firsts.items(), key=lambda x: x[0]))
    }
    renamed = [s.model_copy(update={"judge": draws[s.judge, s.seed, s.repeat]}) for s in scores]
    values = case_values(aggregate, columns_of(renamed, cases), cases)[measure]
    system, case = np.nonzero(~np.isnan(values))
    if len(case) == 0:
        return None
    # `draws` and the sorted systems of the columns are in the same order.
    judges, seeds = (numbered([draw[k] for draw in draws]) for k in (0, 1))
    strata = numbered([one.stratum for one in cases])
    found = variance_components(values[system, case], case, judges[system], seeds[system], strata[case])
    if found is None or found.total == 0:
        return None
    n_judges, n_seeds = (len(set(numbers.tolist())) for numbers in (judges, seeds))
    names = [draw[0] for draw in draws]
    by_judge = {
        name: mean_of_those_there(values[[i for i, one in enumerate(names) if one == name]])
        for name in dict.fromkeys(names)
    }
    return Panel(scores[0].model, found, (n_judges, n_seeds, len(draws) / len({draw[:2] for draw in draws})), by_judge)


def gain_of(panels: Sequence[Panel], *, seeds: float = 0, repeats: float = 0) -> float | None:
    """By how much the variance of a case's mark would shrink, over all models, with so many more seeds or repeats;
    None where the scores do not tell."""
    needed = [source for source, more in (("seed", seeds), ("repeat", repeats)) if more]
    if any(source in panel.found.merged for panel in panels for source in needed):
        return None
    return sum(panel.of_case() - panel.of_case(seeds, repeats) for panel in panels)


def numbered(names: Sequence[object]) -> Labels:
    """Equal names as equal numbers."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.intp)
