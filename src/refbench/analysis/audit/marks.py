"""The marks of an audit, as they are handed in and as arrays; the criteria and perturbations that they are about."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.record import Record, RefBenchError
from refbench.stats import Array

Ability: TypeAlias = Literal["IA", "RC", "BM", "PR", "VQ", "pair"]
"""Instruction, references, background match, realism, quality; and which of two pictures is better."""
CLEAN = "clean"
FEWEST = 20
"""Cases below which a perturbation has no number."""


class AuditMark(NamedTuple):
    """One mark of one criterion for one variant of a case's output; without a mark, the kind of failure.

    Of a pair judge (ability `pair`) the mark is 1 where the picture shown first is better, 0 where the second is.
    `model` tells apart several outputs of one case.
    """

    case: str
    variant: str
    criterion: str
    repeat: int
    mark: float | None
    failure: str = ""
    model: str = ""


class Criterion(Record):
    """What a benchmark or rubric declares of a criterion: the ability that it is about, and its scale."""

    name: str
    ability: Ability
    low: float = 1.0
    high: float = 10.0
    step: float = 1.0
    better: Literal["higher", "lower"] = "higher"

    @property
    def range(self) -> float:
        return self.high - self.low

    @property
    def floor(self) -> float:
        """How far above the worst mark a clean output has something to lose: a step; less on scales of few steps."""
        return min(self.step, self.range / 4)


class Perturbation(NamedTuple):
    """One line of the table: which abilities' marks should fall under it and which should stay."""

    number: int
    name: str
    kind: Literal["damage", "nuisance", "attack", "control"]
    presets: tuple[str, ...]
    falls: tuple[Ability, ...]
    stays: tuple[Ability, ...]
    stays_at: str
    """The only strength at which they stay, where that is not all."""
    may_not_rise: tuple[Ability, ...]
    """Of a damage that some judge might like: references shown as a grid are not better kept references."""
    said: str


@cache
def perturbations() -> Mapping[int, Perturbation]:
    """The 34 perturbations by number."""
    text = (files(__package__) / "perturbations.csv").read_text("utf-8")
    return {
        int(row["number"]): Perturbation(
            int(row["number"]),
            row["name"],
            row["kind"],  # type: ignore[arg-type]
            tuple(row["presets"].split()),
            tuple(row["falls"].split()),  # type: ignore[arg-type]
            tuple(row["stays"].split()),  # type: ignore[arg-type]
            row["stays_at"],
            tuple(row["may_not_rise"].split()),  # type: ignore[arg-type]
            row["said"],
        )
        for row in csv.DictReader(text.splitlines())
    }


class Variant(NamedTuple):
    """A variant's name taken apart: `16:blur@3`. `at` is a strength, a position or another choice; clean is 0."""

    number: int
    name: str
    at: str = ""

    @classmethod
    def of(cls, name: str) -> Variant:
        if name == CLEAN:
            return cls(0, CLEAN)
        number, colon, rest = name.partition(":")
        if not colon or not number.isdigit() or int(number) not in perturbations():
            raise RefBenchError(f"{name}: no variant of an audit; they are named clean, 4:subject_gone@2, 16:blur@3")
        what, _, at = rest.partition("@")
        return cls(int(number), what, at)

    @property
    def strength(self) -> float:
        """Its place on a ladder; 1 where the name has none."""
        return float(self.at) if self.at.replace(".", "", 1).isdigit() else 1.0


@dataclass(frozen=True)
class Marks:
    """The marks as arrays of outputs x repeats, turned so that 0 is the worst mark and higher is better; NaN where
    there is none."""

    criteria: tuple[Criterion, ...]
    outputs: tuple[tuple[str, str], ...]
    """Case and model."""
    case: NDArray[np.intp]
    """The case of each output, by number."""
    cases: tuple[str, ...]
    arrays: Mapping[str, Mapping[Variant, Array]]
    """Criterion, variant."""
    failures: Mapping[tuple[Variant, str], Counter[str]]
    """By variant and criterion, kinds counted."""

    @classmethod
    def of(cls, marks: Iterable[AuditMark], criteria: Sequence[Criterion]) -> Marks:
        """Marks outside a criterion's scale are failures of their own kind."""
        known = {criterion.name: criterion for criterion in criteria}
        variants: dict[str, Variant] = {}
        outputs: dict[tuple[str, str], int] = {}
        cells: dict[tuple[str, Variant], list[tuple[int, int, float]]] = {}
        failures: dict[tuple[Variant, str], Counter[str]] = {}
        for one in marks:
            criterion = known.get(one.criterion)
            if criterion is None:
                raise RefBenchError(f"{one.criterion}: a mark of a criterion that was not declared")
            variant = variants.get(one.variant) or variants.setdefault(one.variant, Variant.of(one.variant))
            place = outputs.setdefault((one.case, one.model), len(outputs))
            mark, failure = one.mark, one.failure
            if mark is not None and not criterion.low <= mark <= criterion.high:
                mark, failure = None, "out_of_range"
            if mark is None:
                failures.setdefault((variant, one.criterion), Counter())[failure or "no mark"] += 1
                continue
            merit = mark - criterion.low if criterion.better == "higher" else criterion.high - mark
            cells.setdefault((one.criterion, variant), []).append((place, one.repeat, merit))
        arrays: dict[str, dict[Variant, Array]] = {name: {} for name in known}
        for (name, variant), found in cells.items():
            rows, repeats, values = zip(*found, strict=True)
            array = np.full((len(outputs), max(repeats) + 1), np.nan)
            array[list(rows), list(repeats)] = values
            arrays[name][variant] = array
        numbers: dict[str, int] = {}
        case = np.array([numbers.setdefault(name, len(numbers)) for name, _ in outputs], dtype=np.intp)
        return cls(tuple(criteria), tuple(outputs), case, tuple(numbers), arrays, failures)

    def clean(self, criterion: str) -> Array:
        found = self.arrays[criterion].get(Variant(0, CLEAN))
        return np.full((len(self.outputs), 1), np.nan) if found is None else found

    def of_number(self, criterion: str, number: int) -> dict[Variant, Array]:
        """The variants of a perturbation, each with its strength or position, in their order."""
        found = {v: array for v, array in self.arrays[criterion].items() if v.number == number}
        return dict(sorted(found.items(), key=lambda one: (one[0].strength, one[0].at)))

    def numbers(self, criterion: str, *kinds: str) -> list[int]:
        """The perturbations of these kinds that were asked about, with or without success."""
        asked = {v.number for v in self.arrays[criterion]} | {
            v.number for v, name in self.failures if name == criterion
        }
        return sorted(n for n in asked if n and perturbations()[n].kind in kinds)

    def attacks(self, criterion: Criterion) -> list[int]:
        """Under which the criterion's mark may not rise."""
        liked = [
            n for n in self.numbers(criterion.name, "damage") if criterion.ability in perturbations()[n].may_not_rise
        ]
        return liked + self.numbers(criterion.name, "attack")

    def extreme(self, values: Array, how_many: int = 5) -> tuple[tuple[str, str], ...]:
        """The outputs with the largest values, as case and model: the pictures to look at."""
        there = np.flatnonzero(np.isfinite(values))
        order = there[np.argsort(-values[there], kind="stable")][:how_many]
        return tuple(self.outputs[place] for place in order.tolist())

    def failed(self, criterion: str, number: int) -> dict[str, int]:
        """Refusals, unreadable replies and others under a perturbation, by kind."""
        total: Counter[str] = Counter()
        for (variant, name), kinds in self.failures.items():
            if variant.number == number and name == criterion:
                total += kinds
        return dict(sorted(total.items()))
