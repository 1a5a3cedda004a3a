"""What is said about the difference of two numbers: its steps, the cases that moved most, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from refbench.record import Record
from refbench.score import digits_of

Told = tuple[str, str, str | None, str]
"""Where a number comes from: the run, the model, the judge, the protocol."""

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


class Step(Record):
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


class Fix(Record):
    """What one correction of the released code did to the number, and to how many of the scores."""

    name: str
    what: str
    delta: float
    items: int


class Why(Record):
    """Two numbers and the way from the first to the second; the steps add up to the difference."""

    first: str
    second: str
    measure: str
    judge: str | None
    """Whose marks both numbers are of; None where they have none, or not the same."""
    first_value: float
    second_value: float
    difference: float
    n_shared: int
    steps: tuple[Step, ...]
    movers: tuple[Mover, ...]
    differences: tuple[str, ...]
    """What was not the same when the numbers were made."""
    sentence: str
    fixes: tuple[Fix, ...] = ()
    """From the paper's number to the corrected one, fix by fix, where the benchmark can say so."""

    def words(self, step: Step) -> str:
        """The step's cause in words."""
        return cause_words(step, self.first, self.second)

    @property
    def digits(self) -> int:
        return digits_of((self.first_value, self.second_value))

    @property
    def printed(self) -> list[str]:
        """The steps as they are printed, so that they add up to the difference of the numbers as printed."""
        return _added_up((self.first_value, self.second_value), self.steps, self.digits)[1]

    def number(self, value: float) -> str:
        return f"{value:.{self.digits}f}"

    def signed(self, value: float) -> str:
        return _signed(value, self.digits)


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def _added_up(values: tuple[float, float], steps: Sequence[Step], digits: int) -> tuple[str, list[str]]:
    """The difference of two numbers as they are printed, and steps that add up to it: where roundings do not, the steps
    that lose least by it are rounded the other way."""
    unit = 10**digits
    first, second = (round(float(f"{value:.{digits}f}") * unit) for value in values)
    units = [round(step.delta * unit) for step in steps]
    while any(step.delta for step in steps) and (left := second - first - sum(units)):
        way = 1 if left > 0 else -1
        free = [i for i, step in enumerate(steps) if step.delta]
        units[max(free, key=lambda i: way * (steps[i].delta * unit - units[i]))] += way
    return _signed((second - first) / unit, digits), [_signed(n / unit, digits) for n in units]


def told(
    *,
    first: Told,
    second: Told,
    measure: str,
    values: tuple[float, float],
    steps: Sequence[Step],
    movers: Sequence[Mover],
    differences: Sequence[str],
    n_shared: int,
) -> Why:
    """Names that tell the two apart, and the sentence."""
    names = _names(first, second)
    judge = first[2] if first[2] == second[2] else None
    difference = round(values[1] - values[0], 9)
    on = f"{measure} by {judge}" if judge else measure
    sentence = _sentence(names, on, values, difference, steps, n_shared)
    return Why(
        first=names[0],
        second=names[1],
        measure=measure,
        judge=judge,
        first_value=values[0],
        second_value=values[1],
        difference=difference,
        n_shared=n_shared,
        steps=tuple(steps),
        movers=tuple(movers),
        differences=tuple(differences),
        sentence=sentence,
    )


def _names(first: Told, second: Told) -> tuple[str, str]:
    """The model, and of run, judge and protocol what is not the same on both sides."""
    unlike = [n for n in (0, 2, 3) if first[n] != second[n]]

    def name(one: Told) -> str:
        extra = [f"judge {one[2] or 'none'}" if n == 2 else str(one[n]) for n in unlike]
        return f"{one[1]} ({', '.join(extra)})" if extra else one[1]

    return name(first), name(second)


def cause_words(step: Step, first: str, second: str) -> str:
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
    steps: Sequence[Step],
    n_shared: int,
) -> str:
    digits = digits_of(values)
    head = f"{measure} is {values[0]:.{digits}f} for {names[0]} and {values[1]:.{digits}f} for {names[1]}"
    if not difference:
        return f"{head}: there is no difference to explain."
    apart, printed = _added_up(values, steps, digits)
    ordered = sorted(zip(steps, printed, strict=True), key=lambda one: -abs(one[0].delta))
    said = [f"{delta} from {cause_words(step, *names)}" for step, delta in ordered if float(delta)]
    if not n_shared:
        return f"{head}, a difference of {apart}: they share no cases, so nothing else can be said."
    parts = "; ".join(said) or "in parts too small to print"
    return f"{head}, a difference of {apart}: {parts}."
