"""Strengths and weaknesses: where a model's distance to the others is not what it is over all cases, beyond noise.

Against its own mean alone every model would be weak at what is hard for all of them.
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
    """A part at which a model stands out: by how much its distance to the others is better (or, negative, worse)
    there than over all cases. Of a single model, the distance to its own overall value."""

    part: Part
    model: str
    distance: float
    error: float


@dataclass(frozen=True)
class Traits:
    """Those beyond noise, the furthest out (in standard errors) first, of so many that were looked at."""

    found: tuple[Trait, ...]
    looked_at: int
    alone: bool
    """Whether there was one model only, so that its own mean is what it is held against."""

    def of(self, model: str) -> list[Trait]:
        return [trait for trait in self.found if trait.model == model]


def traits(view: View, parts: Sequence[Part]) -> Traits:
    """Look at every model on every part that is marked on the scale of the summary measure.

    Intervals are Student's on the bootstrap's standard error, and Bonferroni's for all of them together: the chance
    of naming anything where nothing is different stays below one in twenty.
    """
    comparable = [
        part for part in parts if _same_scale(view, part) and (part.measure != view.measure or not part.members.all())
    ]
    design = Design.of([case.cluster for case in view.cases], [case.stratum for case in view.cases])
    overall, *of_parts = _values(view, [view.overall, *comparable], design)
    seen: list[tuple[Trait, int]] = []
    for part, here in zip(comparable, of_parts, strict=True):
        there = [s for s in range(len(here)) if np.isfinite([here[s, 0], overall[s, 0]]).all()]
        for system in there:
            others = [other for other in there if other != system]
            moved = _distance(here, system, others) - _distance(overall, system, others)
            spread = _spread(moved[1:])
            if spread is not None:
                model = view.columns.systems[system][0]
                trait = Trait(part, model, view.sign(part.measure) * float(moved[0]), spread)
                seen.append((trait, design.degrees_of_freedom(part.members)))
    tail = LEVEL / 2 / max(1, len(seen))
    beyond = [trait for trait, df in seen if df > 0 and abs(trait.distance) > t_quantile(1 - tail, df) * trait.error]
    beyond.sort(key=lambda trait: -abs(trait.distance) / trait.error)
    return Traits(tuple(beyond), len(seen), alone=len(view.columns.systems) == 1)


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
    if not others:
        return values[system]
    mean: Array = values[list(others)].mean(axis=0)
    return values[system] - mean


def _spread(drawn: Array) -> float | None:
    """The bootstrap's standard error; None where too few draws have a value, or all have the same."""
    defined = drawn[np.isfinite(drawn)]
    if len(defined) == 0 or len(defined) < _DEFINED * len(drawn):
        return None
    spread = float(np.std(defined))
    return spread if spread > 1e-12 else None
