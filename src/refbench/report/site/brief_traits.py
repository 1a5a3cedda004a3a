"""Strengths and weaknesses: where a model is above or below the others, and further so than over all cases.

Against its own mean every model would be weak at what is hard for all of them; against the others alone the best model
would be strong at everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from refbench.report.site.brief_view import Part, View, summary_of
from refbench.stats import Array, Design, resample
from refbench.stats.effect import LEVEL
from refbench.stats.quantiles import t_quantile

_DEFINED = 0.95
"""The share of draws with a value that a standard error needs."""


@dataclass(frozen=True)
class Trait:
    """A part at which a model stands out: how far it is above (or, negative, below) the mean of the others there,
    and by how much that is more than over all cases. A single model stands against its own overall value."""

    part: Part
    model: str
    distance: float
    more: float
    errors: tuple[float, float]
    """Standard errors of both."""


@dataclass(frozen=True)
class Traits:
    """Those of whom both are beyond noise, the furthest out first, of so many that were looked at."""

    found: tuple[Trait, ...]
    looked_at: int
    alone: bool
    """Whether there was one model only, so that its own mean is what it is held against."""

    def of(self, model: str) -> list[Trait]:
        return [trait for trait in self.found if trait.model == model]


def traits(view: View, parts: Sequence[Part]) -> Traits:
    """Look at every ranked model on every part that is marked on the scale of the summary measure.

    Intervals are Student's on the bootstrap's standard error, and Bonferroni's for all of them together: the chance
    of naming anything where nothing is different stays below one in twenty.
    """
    comparable = [
        part for part in parts if _same_scale(view, part) and (part.measure != view.measure or not part.members.all())
    ]
    design = Design.of([case.cluster for case in view.cases], [case.stratum for case in view.cases])
    overall, *of_parts = _values(view, [view.overall, *comparable], design)
    with_rank = {row.model for row in view.ranked}
    ranked = [s for s, (model, _) in enumerate(view.columns.systems) if model in with_rank]
    seen: list[tuple[Trait, int]] = []
    for part, here in zip(comparable, of_parts, strict=True):
        there = [s for s in ranked if np.isfinite([here[s, 0], overall[s, 0]]).all()]
        for system in there:
            others = [other for other in there if other != system]
            more = _distance(here, system, others) - _distance(overall, system, others)
            apart = _distance(here, system, others) if others else more
            errors = _spread(apart[1:]), _spread(more[1:])
            if errors[0] is not None and errors[1] is not None:
                sign, model = view.sign(part.measure), view.columns.systems[system][0]
                trait = Trait(part, model, sign * float(apart[0]), sign * float(more[0]), (errors[0], errors[1]))
                seen.append((trait, design.degrees_of_freedom(part.members)))
    tail = LEVEL / 2 / max(1, len(seen))
    beyond = [trait for trait, df in seen if df > 0 and _stands_out(trait, t_quantile(1 - tail, df))]
    beyond.sort(key=lambda trait: -abs(trait.more) / trait.errors[1])
    return Traits(tuple(beyond), len(seen), alone=len(ranked) == 1)


def _stands_out(trait: Trait, reach: float) -> bool:
    apart, more = trait.distance / trait.errors[0], trait.more / trait.errors[1]
    return min(apart, more) > reach or max(apart, more) < -reach


def _same_scale(view: View, part: Part) -> bool:
    """A criterion can be held against the summary measure only where both go over the same range, the same way."""
    ranges = {measure.name: (measure.low, measure.high) for measure in view.aggregate.measures}
    return part.measure == view.measure or (
        None not in ranges[part.measure]
        and ranges[part.measure] == ranges[view.measure]
        and view.sign(part.measure) == view.sign(view.measure)
    )


def _values(view: View, parts: Sequence[Part], design: Design) -> list[Array]:
    """For each part, systems x (the value, then each draw of it)."""
    weights = chain([np.ones((1, len(view.cases)))], resample(design, view.draws, view.seed))
    blocks = [summary_of(view, parts, some) for some in weights]
    return [np.concatenate(of_part, axis=1) for of_part in zip(*blocks, strict=True)]


def _distance(values: Array, system: int, others: Sequence[int]) -> Array:
    """To the mean of the others; the value itself where there are none."""
    mine: Array = values[system]
    return mine - values[list(others)].mean(axis=0) if others else mine


def _spread(drawn: Array) -> float | None:
    """The bootstrap's standard error; None where too few draws have a value, or all have the same."""
    defined = drawn[np.isfinite(drawn)]
    if len(defined) == 0 or len(defined) < _DEFINED * len(drawn):
        return None
    spread = float(np.std(defined))
    return spread if spread > 1e-12 else None
