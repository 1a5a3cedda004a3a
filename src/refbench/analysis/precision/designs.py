"""What the error of a gap is made of, read off a pilot, and what it would be in another design: other numbers of cases,
seeds, judges and repeats, and with people's marks beside a judge's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from refbench.analysis.compare.draws import Panel, paired_gap
from refbench.analysis.precision.variance import components_of_gap
from refbench.case import AnyCase
from refbench.judges.panel import MEAN
from refbench.record import Record
from refbench.score import Score
from refbench.stats import effective_n
from refbench.stats.quantiles import t_quantile
from refbench.tables.table import Aggregate, System

_LEAST_LEFT = 0.01
"""Share of an error's square that seeds, judges and repeats leave at the least: their parts are estimates."""
_DRAWS = 500


class GapNoise(Record):
    """The error of the gap between two models in a pilot, and its parts that more seeds, judges or repeats shrink.

    The parts are variances of the gap of a single case. What the pilot cannot tell from the cases themselves is in
    `fixed`, and has no part.
    """

    first: str
    second: str
    error: float
    clusters: int
    worth: float
    """How many cases of equal weight the pilot's are worth."""
    judges: int
    seeds: int
    repeats: float
    case_by_judge: float
    seed: float
    seed_by_judge: float
    repeat: float
    fixed: tuple[str, ...]
    """Of seeds, judges and repeats, those whose effect the pilot does not show."""

    def of_case(self, seeds: float, judges: float, repeats: float) -> float:
        """The variance of a case's gap that goes with the design."""
        by_judge = self.case_by_judge + (self.seed_by_judge + self.repeat / repeats) / seeds
        return self.seed / seeds + by_judge / judges

    def error_with(self, clusters: int, seeds: int, judges: int, repeats: int) -> float:
        """The standard error of the gap in another design, as many clusters as the pilot's being worth as much."""
        less = self.of_case(self.seeds, self.judges, self.repeats) - self.of_case(seeds, judges, repeats)
        square = max(self.error**2 - less / self.worth, _LEAST_LEFT * self.error**2)
        return float((square * self.clusters / clusters) ** 0.5)


def corrected_error(error: float, clusters: int, by_people: int, agreement: float) -> float:
    """The standard error of a gap in people's marks, where they have marked some of the clusters that a judge has
    marked all of (prediction-powered, with the best weight): the judge's marks correlate with theirs by `agreement`,
    and gaps are taken to vary as much in people's marks as in the judge's."""
    of_one = error**2 * clusters
    return float((of_one * ((1 - agreement**2) / by_people + agreement**2 / clusters)) ** 0.5)


def gap_noise(
    aggregate: Aggregate,
    cases: Sequence[AnyCase],
    scores: Sequence[Score],
    systems: tuple[System, System],
    measure: str,
    panels: Mapping[str, Panel],
    counts: tuple[int, int],
) -> GapNoise | None:
    """From the pilot's scores of two models; `counts` are its clusters and degrees of freedom. None where their gap has
    no error."""
    (first, _), (second, _) = systems
    found = paired_gap(aggregate, scores, cases, systems, measure, draws=_DRAWS)
    if found.ci95 is None:
        return None
    both = [panels[name] for name in (first, second) if name in panels]
    judges, seeds, repeats = both[0].counts if len(both) == 2 else (1, 1, 1.0)
    judges = judges if systems[0][1] == MEAN else 1
    parts = dict.fromkeys(("seed", "seed_by_judge", "repeat"), 0.0)
    fixed = {"seeds", "judges", "repeats"}
    by_judge = 0.0
    if len(both) == 2:
        for panel in both:
            for source in parts:
                parts[source] += panel.components.variance.get(source, 0.0)
        fixed -= {f"{s}s" for s in ("seed", "repeat") if all(s not in p.components.merged for p in both)}
        common = [judge for judge in both[0].by_judge if judge in both[1].by_judge]
        apart = components_of_gap(cases, both[0], both[1], common)
        if apart is not None and "case_by_judge" in apart.variance:
            fixed -= {"judges"}
            # What judges differ about single pictures, and in asking again, is in the marks of each judge, too.
            within = parts["seed_by_judge"] / seeds + parts["repeat"] / (seeds * repeats)
            by_judge = max(apart.variance["case_by_judge"] - within, 0.0)
    clusters, df = counts
    (overall,) = aggregate.overall(cases)
    return GapNoise(
        first=first,
        second=second,
        error=(found.ci95[1] - found.ci95[0]) / 2 / t_quantile(0.975, df),
        clusters=clusters,
        worth=effective_n(overall.weights(np.ones(len(cases), dtype=np.bool_))),
        judges=judges,
        seeds=seeds,
        repeats=repeats,
        case_by_judge=by_judge,
        fixed=tuple(sorted(fixed)),
        **parts,
    )
