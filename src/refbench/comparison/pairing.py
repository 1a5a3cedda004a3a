"""Which systems meet, and on which cases: only those that both have a score for, with the others accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.columns import Columns, System
from refbench.failure import KINDS
from refbench.record import RefBenchError
from refbench.table import Measure

Bools = NDArray[np.bool_]

ABSENT = "not among its cases"
OUT_OF_SCOPE = "not applicable"


@dataclass(frozen=True)
class Pairing:
    """Two systems by their rows, and the cases they share."""

    first: int
    second: int
    shared: Bools
    left_out: dict[str, int]


def who_meets(systems: Sequence[System], models: Sequence[str], against: str | None = None) -> list[tuple[int, int]]:
    """All pairs of models (or `against` with each other one), by rows. A judge meets the same judge; only where two
    models have no judge in common do different ones meet."""
    if against is not None:
        if against not in models:
            raise RefBenchError(f"--against {against}: the models are {', '.join(models)}")
        couples = [(against, other) for other in models if other != against]
    else:
        couples = [(a, b) for i, a in enumerate(models) for b in models[i + 1 :]]
    rows: list[tuple[int, int]] = []
    for a, b in couples:
        both = [(i, j) for i, (m, _) in enumerate(systems) if m == a for j, (n, _) in enumerate(systems) if n == b]
        alike = [(i, j) for i, j in both if _folded(systems[i][1]) == _folded(systems[j][1])]
        rows += alike or both
    return rows


def _folded(judge: str | None) -> str:
    return (judge or "").casefold()


def pair_up(columns: Columns, measure: Measure, first: int, second: int) -> Pairing:
    """The shared cases of two systems in a measure; failures of either leave a case out, so the pair stays a pair."""
    there = np.stack([~np.isnan(columns.values[part][[first, second]]) for part in measure.parts])
    apart = np.stack([columns.inapplicable[part][[first, second]] for part in measure.parts])
    together = there.all(axis=1)  # parts x cases: both have a value
    whole = np.logical_or(there, apart).all(axis=0).all(axis=0)
    shared: Bools = np.logical_and(np.any(together, axis=0), np.logical_or(whole, measure.any_part))
    reasons = [_reasons(columns, measure, row) for row in (first, second)]
    names = _names(columns.systems[first], columns.systems[second])
    left_out: Counter[str] = Counter()
    for i in np.flatnonzero(~shared):
        why = [reason[i] for reason in reasons]
        if why[0] == why[1] == OUT_OF_SCOPE:
            continue  # neither was expected to score there
        side = 0 if why[0] else 1
        left_out[f"{names[side]}: {why[side] or 'other metrics than the other side'}"] += 1
    return Pairing(first, second, shared, dict(left_out))


def _reasons(columns: Columns, measure: Measure, row: int) -> list[str]:
    """For each case why it has no whole score: the first failure, or that nothing was expected; empty where it has."""
    there = np.stack([~np.isnan(columns.values[part][row]) for part in measure.parts])
    apart = np.stack([columns.inapplicable[part][row] for part in measure.parts])
    kinds = np.stack([columns.failures[part][row] for part in measure.parts])
    found = []
    for i in range(there.shape[1]):
        failed = kinds[:, i][kinds[:, i] >= 0]
        if there[:, i].any() and (measure.any_part or (there | apart)[:, i].all()):
            found.append("")
        elif len(failed):
            found.append(KINDS[failed[0]])
        else:
            found.append(OUT_OF_SCOPE if apart[:, i].all() else ABSENT)
    return found


def _names(first: System, second: System) -> tuple[str, str]:
    if first[0] != second[0]:
        return first[0], second[0]
    return f"{first[0]} ({first[1]})", f"{second[0]} ({second[1]})"
