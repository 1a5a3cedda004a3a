"""Why two numbers differ: the way from the first to the second in steps, each with its share of the difference, the
cases that moved most, and one sentence.

Every stop on the way is a number of the benchmark's own aggregate, so the steps add up to the difference exactly,
whatever macro averages and gates are in it. The order of the steps is fixed and part of what is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase
from refbench.record import Record, RefBenchError
from refbench.score import digits_of
from refbench.stats import Array
from refbench.tables.table import Aggregate, Columns, case_values, summaries, summary_measure

_UNIT = 1_000_000_000
"""Numbers are taken to nine decimals, as in tables; steps are differences of whole units, so that they add up."""
_ROUNDING = 1e-4
"""Scores nearer to each other than this are the same: released ones have six digits."""
MOST_MOVERS = 5
_TOGETHER = {
    "only_first": "cases that only the first has",
    "only_second": "cases that only the second has",
    "failures": "failed cases",
    "same_output": "other scores of the same outputs",
    "unknown_output": "other scores",
    "some_outputs": "other scores of outputs that both have in part",
    "other_output": "other outputs",
    "aggregation": "the aggregate of the protocol",
}


class CauseStep(Record):
    """One cause of the difference with its share. Several causes where they cannot be told apart."""

    causes: tuple[str, ...]
    delta: float
    n: int
    """Cases that it concerns, of `of`."""
    of: int


class Mover(Record):
    """A case whose value is not the same on both sides. `output`: same, some (the same as far as both sides have them),
    other, or unknown."""

    case: str
    first: float
    second: float
    output: str


class ProtocolFix(Record):
    """What one correction of the released code did to the number, and to how many of the scores."""

    name: str
    what: str
    delta: float
    items: int


class Why(Record):
    """Two numbers and the way from the first to the second; the steps add up to the difference."""

    first: str
    second: str
    """Names that tell the two apart."""
    measure: str
    judge: str | None
    """Whose marks both numbers are of; None where they have none, or not the same."""
    first_value: float
    second_value: float
    difference: float
    n_shared: int
    steps: tuple[CauseStep, ...]
    movers: tuple[Mover, ...]
    differences: tuple[str, ...]
    """What was not the same when the numbers were made."""
    sentence: str
    fixes: tuple[ProtocolFix, ...] = ()
    """From the paper's number to the corrected one, fix by fix, where the benchmark can say so."""

    def words(self, step: CauseStep) -> str:
        """The step's cause in words."""
        return cause_words(step, self.first, self.second)

    @property
    def digits(self) -> int:
        return digits_of((self.first_value, self.second_value))

    @property
    def printed(self) -> list[str]:
        """The steps as they are printed, so that they add up to the difference as it is printed."""
        return _added_up(self.difference, self.steps, self.digits)

    def number(self, value: float) -> str:
        return f"{value:.{self.digits}f}"

    def signed(self, value: float) -> str:
        return _signed(value, self.digits)


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def _added_up(difference: float, steps: Sequence[CauseStep], digits: int) -> list[str]:
    """The steps as they are printed: where their roundings do not add up to that of the difference, the steps that lose
    least by it are rounded the other way. The difference itself is the one that `refbench compare` prints."""
    unit = 10**digits
    apart = round(float(f"{difference:.{digits}f}") * unit)
    units = [round(step.delta * unit) for step in steps]
    while any(step.delta for step in steps) and (left := apart - sum(units)):
        way = 1 if left > 0 else -1
        free = [i for i, step in enumerate(steps) if step.delta]
        units[max(free, key=lambda i: way * (steps[i].delta * unit - units[i]))] += way
    return [_signed(n / unit, digits) for n in units]


def cause_words(step: CauseStep, first: str, second: str) -> str:
    """What a step is about."""
    if len(step.causes) > 1:
        parts = [_TOGETHER.get(cause, cause) for cause in step.causes]
        return f"{' and '.join(parts)}, which cannot be told apart here"
    many = "case" if step.n == 1 else "cases"
    if step.n == 0 and step.causes[0].endswith(("_output", "_outputs")):
        return "scores that differ in their rounding only"
    changed = f"{step.n} of {step.of} cases"
    return {
        "only_first": f"{step.n} {many} that only {first} has",
        "only_second": f"{step.n} {many} that only {second} has",
        "failures": f"{step.n} {many} that failed on one side or both",
        "same_output": f"{changed} with the same output and another score",
        "some_outputs": f"{changed} with the same outputs as far as both have them and another score",
        "unknown_output": f"{changed} with another score (for the same output or not is not recorded)",
        "other_output": f"{changed} with another output and another score",
        "aggregation": "how scores become a number (the aggregate of the protocol)",
    }[step.causes[0]]


def _sentence(
    names: tuple[str, str],
    measure: str,
    values: tuple[float, float],
    difference: float,
    steps: Sequence[CauseStep],
    n_shared: int,
) -> str:
    digits = digits_of(values)
    head = f"{measure} is {values[0]:.{digits}f} for {names[0]} and {values[1]:.{digits}f} for {names[1]}"
    if not difference:
        return f"{head}: there is no difference to explain."
    apart, printed = _signed(difference, digits), _added_up(difference, steps, digits)
    ordered = sorted(zip(steps, printed, strict=True), key=lambda one: -abs(one[0].delta))
    shares = [f"{delta} from {cause_words(step, *names)}" for step, delta in ordered if float(delta)]
    if not n_shared:
        return f"{head}, a difference of {apart}: they share no cases, so nothing else can be said."
    parts = "; ".join(shares) or "in parts too small to print"
    return f"{head}, a difference of {apart}: {parts}."


@dataclass(frozen=True)
class ScoredNumber:
    """One of the two numbers, with everything it is made of."""

    name: str
    model: str
    judge: str | None
    protocol: str
    aggregate: Aggregate
    cases: Sequence[AnyCase]
    columns: Columns
    """Of one system."""
    outputs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """A hash for the model's output by case and seed; a case whose pictures are not recorded is not in it."""
    ids_only: bool = False
    """Whether its cases are known by id alone, so that their content cannot be compared."""

    def values(self) -> dict[str, Array]:
        """Each metric over the cases, with what the aggregate puts in place of failures."""
        return {m: values[0] for m, values in self.aggregate.filled(self.columns).items()}

    def failed(self, measure: str) -> NDArray[np.bool_]:
        """Cases of which some part of the measure failed."""
        parts = next(m for m in self.aggregate.measures if m.name == measure).parts
        some_failed = np.zeros(len(self.cases), dtype=np.bool_)
        for part in parts:
            if part in self.columns.failures:
                some_failed |= self.columns.failures[part][0] >= 0
        return some_failed


def default_measure(first: ScoredNumber, second: ScoredNumber) -> str:
    """The last measure that both have a value of: the one that tables are sorted by."""
    valued = [
        measure.name
        for measure in first.aggregate.measures
        if all(_of(one.aggregate, one.cases, one.values(), measure.name) is not None for one in (first, second))
    ]
    if not valued:
        raise RefBenchError(
            f"{first.name}: {first.model} and {second.name}: {second.model} have no measure with a value on both sides"
        )
    return summary_measure(first.aggregate.measures, valued)


def explain(
    first: ScoredNumber, second: ScoredNumber, measure: str | None = None, differences: Sequence[str] = ()
) -> Why:
    """The way from the first number to the second."""
    measure = measure or default_measure(first, second)
    known = [m.name for m in first.aggregate.measures]
    if measure not in known:
        raise RefBenchError(f"--metric {measure}: there are {', '.join(known)}")
    ends = [_of(one.aggregate, one.cases, one.values(), measure) for one in (first, second)]
    if ends[0] is None or ends[1] is None:
        without = first if ends[0] is None else second
        raise RefBenchError(f"{without.name}: {without.model} has no {measure} to explain, nothing of it is scored")
    way = _Way(first, second, measure)
    if way.changed:
        differences = [*differences, f"{way.changed} cases have the same id but other content: not the same cases"]
    steps = way.steps(ends[1])
    names = _names(first, second)
    judge = first.judge if first.judge == second.judge else None
    values = ends[0] / _UNIT, ends[1] / _UNIT
    difference = round(values[1] - values[0], 9)
    on = f"{measure} by {judge}" if judge else measure
    return Why(
        first=names[0],
        second=names[1],
        measure=measure,
        judge=judge,
        first_value=values[0],
        second_value=values[1],
        difference=difference,
        n_shared=len(way.shared),
        steps=tuple(steps),
        movers=tuple(way.movers()),
        differences=tuple(differences),
        sentence=_sentence(names, on, values, difference, steps, len(way.shared)),
    )


def _names(first: ScoredNumber, second: ScoredNumber) -> tuple[str, str]:
    """The model, and of run, judge and protocol what is not the same on both sides."""

    def name(one: ScoredNumber) -> str:
        extra = [one.name] if first.name != second.name else []
        extra += [f"judge {one.judge or 'none'}"] if first.judge != second.judge else []
        extra += [one.protocol] if first.protocol != second.protocol else []
        return f"{one.model} ({', '.join(extra)})" if extra else one.model

    return name(first), name(second)


def _of(aggregate: Aggregate, cases: Sequence[AnyCase], values: Mapping[str, Array], measure: str) -> int | None:
    """The measure over the cases in whole units; None where it has no value."""
    if not cases:
        return None
    overall = aggregate.overall(cases)
    overall_values = summaries(aggregate, {m: v[None, :] for m, v in values.items()}, np.ones((1, len(cases))), overall)
    value = float(overall_values[0, measure][0, 0]) if (0, measure) in overall_values else math.nan
    return round(value * _UNIT) if math.isfinite(value) else None


class _Way:
    """The stops between two accounts."""

    def __init__(self, first: ScoredNumber, second: ScoredNumber, measure: str) -> None:
        self.first, self.second, self.measure = first, second, measure
        self.at_first = {case.id: i for i, case in enumerate(first.cases)}
        self.at_second = {case.id: i for i, case in enumerate(second.cases)}
        by_id = first.ids_only or second.ids_only
        both = [case.id for case in first.cases if case.id in self.at_second]
        self.shared = [
            i for i in both if by_id or first.cases[self.at_first[i]].key == second.cases[self.at_second[i]].key
        ]
        self.changed = len(both) - len(self.shared)
        failed_first, failed_second = first.failed(measure), second.failed(measure)
        self.failed = [i for i in self.shared if failed_first[self.at_first[i]] or failed_second[self.at_second[i]]]
        gone = set(self.failed)
        self.clean = [i for i in self.shared if i not in gone]
        self.same = [i for i in self.clean if self._output(i) == "same"]
        self.unknown = [i for i in self.clean if self._output(i) == "unknown"]
        self.some = [i for i in self.clean if self._output(i) == "some"]
        self.other = [i for i in self.clean if self._output(i) == "other"]
        mine, theirs = first.values(), second.values()
        # Where all pictures of one side are whole, it has no columns of its own for those.
        for key, part in ((m.whole(part), part) for m in first.aggregate.measures for part in m.parts):
            if key in mine or key in theirs:
                mine.setdefault(key, mine[part])
                theirs.setdefault(key, theirs[part])
        self.values = {m: (mine[m], theirs[m]) for m in mine if m in theirs}

    def _output(self, case: str) -> str:
        mine, theirs = self.first.outputs.get(case), self.second.outputs.get(case)
        if mine is None or theirs is None:
            return "unknown"
        if mine == theirs:
            return "same"
        both = mine.keys() & theirs.keys()
        return "some" if both and all(mine[seed] == theirs[seed] for seed in both) else "other"

    def steps(self, end: int) -> list[CauseStep]:
        """Differences between the stops, by cause. A stop without a value joins the steps before and after it."""
        taken: set[str] = set()
        stops: list[tuple[str, int | None]] = [("only_first", self._mixed(self.shared, set()))]
        stops.append(("failures", self._mixed(self.clean, set())))
        for cause, cases in (
            ("same_output", self.same),
            ("some_outputs", self.some),
            ("unknown_output", self.unknown),
            ("other_output", self.other),
        ):
            taken |= set(cases)
            stops.append((cause, self._mixed(self.clean, taken)))
        stops.append(("failures", self._mixed(self.shared, set(self.shared))))
        second = self.second
        stops.append(("only_second", _of(self.first.aggregate, second.cases, second.values(), self.measure)))
        stops.append(("aggregation", end))
        before = _of(self.first.aggregate, self.first.cases, self.first.values(), self.measure)
        assert before is not None
        counts = self.counts()
        shares: dict[tuple[str, ...], int] = {}
        waiting: list[str] = []
        for cause, value in stops:
            waiting.append(cause)
            if value is not None:
                # Causes that concern no case explain nothing, unless there is no other.
                causes = tuple(dict.fromkeys(c for c in waiting if counts[c][0])) or (cause,)
                shares[causes] = shares.get(causes, 0) + value - before
                before, waiting = value, []
        return [
            CauseStep(
                causes=causes,
                delta=units / _UNIT,
                n=sum(counts[c][0] for c in causes),
                of=max(counts[c][1] for c in causes),
            )
            for causes, units in shares.items()
            if units or any(counts[c][0] for c in causes if c != "aggregation")
        ]

    def counts(self) -> dict[str, tuple[int, int]]:
        """For each cause: how many cases it concerns, and of how many."""
        first, second = len(self.first.cases), len(self.second.cases)
        moved = {i for i in self.clean if self._differs(i)}
        return {
            "only_first": (first - len(self.shared), first),
            "failures": (len(self.failed), len(self.shared)),
            "same_output": (len(moved & set(self.same)), len(self.same)),
            "some_outputs": (len(moved & set(self.some)), len(self.some)),
            "unknown_output": (len(moved & set(self.unknown)), len(self.unknown)),
            "other_output": (len(moved & set(self.other)), len(self.other)),
            "only_second": (second - len(self.shared), second),
            "aggregation": (int(self.first.aggregate is not self.second.aggregate), 1),
        }

    def _differs(self, case: str) -> bool:
        i, j = self.at_first[case], self.at_second[case]
        return any(not _equal(mine[i], theirs[j]) for mine, theirs in self.values.values())

    def _mixed(self, cases: Sequence[str], taken: set[str]) -> int | None:
        """The first's aggregate over the cases, with the second's values of those that are taken."""
        values = {
            m: np.array([theirs[self.at_second[i]] if i in taken else mine[self.at_first[i]] for i in cases])
            for m, (mine, theirs) in self.values.items()
        }
        chosen = [
            self.second.cases[self.at_second[i]] if i in taken else self.first.cases[self.at_first[i]] for i in cases
        ]
        return _of(self.first.aggregate, chosen, values, self.measure)

    def movers(self) -> list[Mover]:
        """The cases whose own value changed most, among those that both sides scored."""
        if not self.clean:
            return []
        cases = [self.first.cases[self.at_first[i]] for i in self.clean]
        rows, columns = [self.at_first[i] for i in self.clean], [self.at_second[i] for i in self.clean]
        stacked = {m: np.stack([mine[rows], theirs[columns]]) for m, (mine, theirs) in self.values.items()}
        both = Columns.of_values((("first", None), ("second", None)), stacked)
        case_by_case = case_values(self.first.aggregate, both, cases).get(self.measure)
        if case_by_case is None:
            return []
        change = np.nan_to_num(case_by_case[1] - case_by_case[0])
        order = sorted(range(len(cases)), key=lambda n: (-abs(change[n]), cases[n].id))[:MOST_MOVERS]
        return [
            Mover(
                case=cases[n].id,
                first=round(float(case_by_case[0, n]), 9),
                second=round(float(case_by_case[1, n]), 9),
                output=self._output(cases[n].id),
            )
            for n in order
            if abs(change[n]) > _ROUNDING
        ]


def _equal(mine: float, theirs: float) -> bool:
    return abs(mine - theirs) <= _ROUNDING or (math.isnan(mine) and math.isnan(theirs))
