"""Which systems meet, and on which cases: only those that both have a score for, with the others accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.compare.records import ABSENT, NOT_ASKED, OUT_OF_SCOPE
from refbench.case import AnyCase
from refbench.failure import KINDS
from refbench.record import RefBenchError
from refbench.stats import Array
from refbench.tables.table import Aggregate, Columns, Measure, System, has_value

Bools = NDArray[np.bool_]

OTHER_PARTS = "other metrics than the other side"
OWN = " (its own)"
BY_JUDGE = " by the judge"
"""After the kind of a failure that is the model's, not the judge's or the metric's."""


@dataclass(frozen=True)
class Pairing:
    """Two systems by their rows, and the cases they share.

    `expected` are the shared cases and those that only failures keep from being shared. `lost` counts pictures of
    shared cases (some of their seeds) that failed on either side: the others stand for them. `imputed` counts failed
    pictures of either side that have a value all the same. `own` says whether a failure without a value is a model's
    own: it is no accident which cases those are.
    """

    first: int
    second: int
    left_out: dict[str, int]
    shared: Bools
    expected: Bools
    own: bool
    lost: tuple[int, int]
    imputed: tuple[int, int]

    @property
    def whole(self) -> bool:
        """Whether no failure leaves anything out."""
        return bool((self.shared == self.expected).all()) and not any(self.lost)


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


def measured_alone(systems: Sequence[System], rows: Sequence[tuple[int, int]], there: Bools) -> list[tuple[int, int]]:
    """Of pairs that differ in their judges only, one: a measure that no judge gave is the same under each. `there` says
    which systems have which cases."""
    best: dict[tuple[str, str], tuple[int, int]] = {}
    for i, j in rows:
        couple = systems[i][0], systems[j][0]
        before = best.setdefault(couple, (i, j))
        if (there[i] & there[j]).sum() > (there[before[0]] & there[before[1]]).sum():
            best[couple] = i, j
    return list(best.values())


def _folded(judge: str | None) -> str:
    return (judge or "").casefold()


class Pairings:
    """Pairs up the systems of some columns in one measure, `values` being what the aggregate makes of them.

    A case that the overall number is not made of (a task outside of the official list) is none of a pair's.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        columns: Columns,
        values: Mapping[str, Array],
        measure: Measure,
        cases: Sequence[AnyCase],
    ) -> None:
        self.systems = columns.systems
        counted = np.any([where.members for where in aggregate.overall(cases)], axis=0)
        self.there = has_value(values, measure) & counted
        self._parts = [~np.isnan(values.get(measure.whole(part), values[part])) & counted for part in measure.parts]
        self._reasons = np.full(self.there.shape, ABSENT, dtype=object)
        waiting, away = np.zeros_like(self.there), np.ones_like(self.there)
        lost = np.zeros(next(iter(columns.drawn.values())).shape, dtype=np.bool_)
        some, own, imputed = np.zeros_like(lost), np.zeros_like(lost), np.zeros_like(lost)
        for part in measure.parts:
            aside = measure.aside(part, columns.away)
            failed, stands_in = (columns.kinds[part] >= 0) & ~aside, aggregate.stands_in(columns, part)
            without_value = failed & ~stands_in
            lost |= without_value
            imputed |= failed & stands_in
            own |= without_value & columns.own[part]
            some |= ~np.isnan(columns.drawn[part]) & ~aside
            waiting |= (columns.waiting[part] & ~aside).any(axis=2)
            away &= columns.inapplicable[part]
        drawn = some | lost | imputed | np.any([columns.waiting[part] for part in measure.parts], axis=0)
        self.n_seeds: list[int] = drawn.any(axis=1).sum(axis=1).tolist()
        """With how many seeds each system was asked for the measure."""
        if measure.any_part:
            lost &= ~some
        lost &= counted[:, None]
        self._lost = lost.sum(axis=2)
        """Pictures that failed and have no value, for each system and case."""
        self._imputed = (imputed & ~lost).sum(axis=2)
        self._own: Bools = np.any(lost & own, axis=2)
        self._reasons[away] = OUT_OF_SCOPE
        self._reasons[waiting] = NOT_ASKED
        # Each picture fails as its first failed part did.
        kinds, by_model = np.full(lost.shape, -1, dtype=np.int8), np.zeros_like(lost)
        for part in reversed(measure.parts):
            of_part = np.where(measure.aside(part, columns.away), np.int8(-1), columns.kinds[part])
            by_model = np.where(of_part >= 0, columns.own[part], by_model)
            kinds = np.where(of_part >= 0, of_part, kinds)
        for s, i in np.argwhere(np.any(kinds >= 0, axis=2) & ~self.there):
            pictures = zip(kinds[s, i], by_model[s, i], strict=True)
            judge = self.systems[s][1]
            different = sorted(
                {_reason(KINDS[kind], own=own, judged=bool(judge)) for kind, own in pictures if kind >= 0}
            )
            self._reasons[s, i] = different[0] if len(different) == 1 else f"mixed ({', '.join(different)})"
        self._reasons[:, ~counted] = OUT_OF_SCOPE
        self._reasons[self.there] = ""

    def of(self, first: int, second: int) -> Pairing:
        """The shared cases of two systems; failures of either leave a case out, so the pair stays a pair."""
        a, b = self.there[first], self.there[second]
        shared: Bools = np.any([part[first] & part[second] for part in self._parts], axis=0)
        failed_a, failed_b = self._lost[first] > 0, self._lost[second] > 0
        expected: Bools = shared | ((a | failed_a) & (b | failed_b))
        names = _names(self.systems[first], self.systems[second])
        left_out: Counter[str] = Counter()
        for i in np.flatnonzero(~shared):
            why = self._reasons[first, i], self._reasons[second, i]
            if why[0] == why[1] == OUT_OF_SCOPE:
                continue  # neither was expected to score there
            side = 0 if why[0] else 1
            left_out[f"{names[side]}: {why[side] or OTHER_PARTS}"] += 1
        lost, imputed = (
            (int(counts[first][shared].sum()), int(counts[second][shared].sum()))
            for counts in (self._lost, self._imputed)
        )
        own = bool((self._own[[first, second]] & expected).any())
        return Pairing(first, second, dict(left_out), shared, expected, own, lost, imputed)


def _reason(kind: str, *, own: bool, judged: bool) -> str:
    """A failure in words that tell a model's own from a judge's."""
    return kind + (OWN if own else BY_JUDGE if judged and kind == "refused" else "")


def _names(first: System, second: System) -> tuple[str, str]:
    if first[0] != second[0]:
        return first[0], second[0]
    return f"{first[0]} ({first[1]})", f"{second[0]} ({second[1]})"
