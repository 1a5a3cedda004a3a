"""Columns: the scores of one protocol as arrays over systems, cases and seeds, each score in its one state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase
from refbench.failure import KINDS
from refbench.score import Score
from refbench.stats import Array, mean_of_those_there

System: TypeAlias = tuple[str, str | None]
"""Model and judge."""
Bools: TypeAlias = NDArray[np.bool_]
Kinds: TypeAlias = NDArray[np.int8]

EMPTY: Mapping[str, float | bool] = {"drawn": np.nan, "kinds": -1, "away": False, "waiting": False, "own": False}
"""The arrays of Columns, and what each holds where a score is in no state."""


@dataclass(frozen=True)
class Columns:
    """Scores of one protocol as arrays, systems x cases x seeds for each metric.

    A seed that a system was never to draw is in no state there. What has no seeds (`values`, `failures`,
    `inapplicable`) is systems x cases: a case has failed when none of its seeds has a value.
    """

    systems: tuple[System, ...]
    drawn: Mapping[str, Array]
    """NaN where there is no value."""
    kinds: Mapping[str, Kinds]
    """Index into KINDS where the score failed, -1 elsewhere."""
    away: Mapping[str, Bools]
    """Not applicable."""
    waiting: Mapping[str, Bools]
    """Not asked for yet."""
    own: Mapping[str, Bools]
    """Failures of the model itself."""

    @classmethod
    def of_values(cls, systems: Sequence[System], values: Mapping[str, Array]) -> Columns:
        """Columns of values alone, systems x cases, one seed each; NaN stands for what does not apply."""
        no = {metric: np.zeros((*column.shape, 1), dtype=np.bool_) for metric, column in values.items()}
        return cls(
            tuple(systems),
            {metric: column[:, :, None] for metric, column in values.items()},
            {metric: np.full((*column.shape, 1), -1, dtype=np.int8) for metric, column in values.items()},
            {metric: np.isnan(column)[:, :, None] for metric, column in values.items()},
            no,
            no,
        )

    def of_seed(self, place: int) -> Columns:
        """One seed alone, by its place among all."""
        arrays: dict[str, Any] = {
            name: {metric: column[:, :, place : place + 1] for metric, column in getattr(self, name).items()}
            for name in EMPTY
        }
        return replace(self, **arrays)

    @cached_property
    def values(self) -> dict[str, Array]:
        """The mean over the seeds that have a value, NaN where none has."""
        return {metric: mean_of_those_there(drawn, axis=2) for metric, drawn in self.drawn.items()}

    @cached_property
    def failures(self) -> dict[str, Kinds]:
        """Index into KINDS where no seed has a value and one has failed (the first), -1 elsewhere."""
        found = {}
        for metric, kinds in self.kinds.items():
            first = np.take_along_axis(kinds, (kinds >= 0).argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
            found[metric] = np.where(np.isnan(self.values[metric]), first, np.int8(-1))
        return found

    @cached_property
    def inapplicable(self) -> dict[str, Bools]:
        """Where the metric concerns no seed of the case."""
        found: dict[str, Bools] = {}
        for metric, away in self.away.items():
            concerned = self.waiting[metric] | (self.kinds[metric] >= 0) | ~np.isnan(self.drawn[metric])
            found[metric] = np.logical_and(np.any(away, axis=2), ~np.any(concerned, axis=2))
        return found


def columns_of(scores: Sequence[Score], cases: Sequence[AnyCase]) -> Columns:
    """Arrange scores by system, case and seed. Every system must have a score, in some state, for every case and
    each of its seeds."""
    position = {case.id: i for i, case in enumerate(cases)}
    systems = tuple(sorted({(s.model, s.judge) for s in scores}, key=lambda system: (system[0], system[1] or "")))
    row = {system: i for i, system in enumerate(systems)}
    metrics = sorted({s.metric for s in scores})
    seeds = {seed: i for i, seed in enumerate(sorted({s.seed for s in scores}))}
    shape = (len(systems), len(cases), len(seeds))
    drawn = {m: np.full(shape, np.nan) for m in metrics}
    kinds = {m: np.full(shape, -1, dtype=np.int8) for m in metrics}
    away, waiting, own, seen = ({m: np.zeros(shape, dtype=np.bool_) for m in metrics} for _ in range(4))
    for score in scores:
        at = row[score.model, score.judge], position[score.case], seeds[score.seed]
        metric = score.metric
        if seen[metric][at]:
            raise ValueError(f"two scores of {metric} for {score.model} on {score.case}, seed {score.seed}")
        seen[metric][at] = True
        if score.value is not None:
            drawn[metric][at] = score.value
        elif score.failure is not None:
            kinds[metric][at] = KINDS.index(score.failure.kind)
            own[metric][at] = score.failure.by_model
        elif score.not_asked:
            waiting[metric][at] = True
        else:
            away[metric][at] = True
    wanted = np.zeros(shape, dtype=np.bool_)
    for there in seen.values():
        wanted |= there.any(axis=1, keepdims=True)
    for metric, there in seen.items():
        if not there[wanted].all():
            system, case, _ = np.argwhere(wanted & ~there)[0]
            raise ValueError(f"no score of {metric} for {systems[system][0]} on {cases[case].id}, not even a failure")
    return Columns(systems, drawn, kinds, away, waiting, own)
