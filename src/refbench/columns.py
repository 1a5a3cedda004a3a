"""Columns: the scores of one protocol as arrays over systems and cases, each score in its one state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase
from refbench.failure import KINDS
from refbench.score import Score
from refbench.stats import Array

System: TypeAlias = tuple[str, str | None]
"""Model and judge."""


@dataclass(frozen=True)
class Columns:
    """Scores of one protocol as arrays, systems x cases for each metric."""

    systems: tuple[System, ...]
    values: Mapping[str, Array]
    """NaN where there is no value."""
    failures: Mapping[str, NDArray[np.int8]]
    """Index into KINDS where the score failed, -1 elsewhere."""
    inapplicable: Mapping[str, NDArray[np.bool_]]


def columns_of(scores: Sequence[Score], cases: Sequence[AnyCase]) -> Columns:
    """Arrange scores by system and case. Every system must have a score, in some state, for every case."""
    position = {case.id: i for i, case in enumerate(cases)}
    systems = tuple(sorted({(s.model, s.judge) for s in scores}, key=lambda system: (system[0], system[1] or "")))
    row = {system: i for i, system in enumerate(systems)}
    metrics = sorted({s.metric for s in scores})
    shape = (len(systems), len(cases))
    values = {m: np.full(shape, np.nan) for m in metrics}
    failures = {m: np.full(shape, -1, dtype=np.int8) for m in metrics}
    inapplicable = {m: np.zeros(shape, dtype=np.bool_) for m in metrics}
    seen = {m: np.zeros(shape, dtype=np.bool_) for m in metrics}
    for score in scores:
        at = row[score.model, score.judge], position[score.case]
        if seen[score.metric][at]:
            raise ValueError(f"two scores of {score.metric} for {score.model} on {score.case}")
        seen[score.metric][at] = True
        if score.value is not None:
            values[score.metric][at] = score.value
        elif score.failure is not None:
            failures[score.metric][at] = KINDS.index(score.failure.kind)
        else:
            inapplicable[score.metric][at] = True
    for metric, there in seen.items():
        if not there.all():
            system, case = np.argwhere(~there)[0]
            raise ValueError(f"no score of {metric} for {systems[system][0]} on {cases[case].id}, not even a failure")
    return Columns(systems, values, failures, inapplicable)
