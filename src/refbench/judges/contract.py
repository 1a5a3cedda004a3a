"""Contract: the one owner of both ends of a judgement, so that what is asked and what is read cannot drift apart.

A reply is hostile text: reading it never raises, takes time linear in its length, and gives no value that is
not written there for that criterion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from refbench.failure import Failure
from refbench.judges.criteria import Criterion, Reading, Text
from refbench.judges.dialects import DIALECTS, Dialect
from refbench.judges.values import answer_text, refusal
from refbench.record import RefBenchError

Which = Literal["all", "last"]


@dataclass(frozen=True)
class Contract:
    """What a judge is asked for, and in which dialect.

    A reply that states a criterion several times must not contradict itself; with `which="last"` the last statement
    counts, for judges that are asked to weigh their marks before they give them.
    """

    dialect: str | Dialect
    """The name of one of ours, or a benchmark's own."""
    criteria: tuple[Criterion, ...]
    which: Which = "all"

    def __post_init__(self) -> None:
        if isinstance(self.dialect, str) and self.dialect not in DIALECTS:
            raise RefBenchError(f"no dialect is called {self.dialect!r}: there are {', '.join(DIALECTS)}")
        if not self.criteria:
            raise RefBenchError("a contract needs at least one criterion")
        names = [criterion.spelled for criterion in self.criteria]
        if len(set(names)) < len(names):
            twice = next(c.name for c in self.criteria if names.count(c.spelled) > 1)
            raise RefBenchError(f"two criteria are called {twice!r}, spelling aside: give one another name")
        if self.which not in get_args(Which):
            raise RefBenchError(f"which={self.which!r}: choose {' or '.join(get_args(Which))}")
        if self.which == "last" and self._form.in_order is None:
            able = ", ".join(name for name, dialect in DIALECTS.items() if dialect.in_order)
            raise RefBenchError(
                f"the dialect {self._form.name} cannot tell which statement is the last: choose one of {able}"
            )
        if wrong := self._form.fits(self.criteria):
            raise RefBenchError(f"the dialect {self._form.name} cannot ask for these criteria: {wrong}")

    @property
    def _form(self) -> Dialect:
        return self.dialect if isinstance(self.dialect, Dialect) else DIALECTS[self.dialect]

    def format_text(self) -> str:
        """The part of a prompt that says how to reply."""
        return _format(self._form.name).replace("{fields}", self._form.fields(self.criteria)).strip()

    def criteria_text(self) -> str:
        """The part of a prompt that says what is asked for."""
        return "\n".join(
            f"- {c.label}: {c.description.strip() or c.kind.words()}" for c in self.criteria if not _is_text(c)
        )

    def json_schema(self) -> dict[str, Any] | None:
        """The schema for providers that can enforce one; None for dialects that are not JSON."""
        schema = self._form.schema
        return None if schema is None else schema(self.criteria)

    def example(self) -> str:
        """A made-up reply in the form that is asked for."""
        return self._form.example(self.criteria)

    def read(self, reply: str) -> dict[str, Reading]:
        """What the reply says to each criterion, or why it says nothing."""
        statements = self.statements(reply)
        if isinstance(statements, Failure):
            return {criterion.name: statements for criterion in self.criteria}
        return {criterion.name: settled(criterion, statements[criterion.name]) for criterion in self.criteria}

    def marks(self, reply: str) -> dict[str, float | Failure]:
        """The readings as numbers, yes as 1 and no as 0; texts are left out."""
        readings = self.read(reply)
        return {c.name: _mark(readings[c.name]) for c in self.criteria if not _is_text(c)}

    def statements(self, reply: str) -> dict[str, list[Reading]] | Failure:
        """Everything that the reply says to each criterion; a Failure when it is empty, endless or a refusal."""
        text = answer_text(reply, self._form.reads_drafts)
        if isinstance(text, Failure):
            return text
        statements: dict[str, list[Reading]] = {criterion.name: [] for criterion in self.criteria}
        in_order = self._form.in_order if self.which == "last" else None
        for name, value in (in_order or self._form.read)(text, self.criteria):
            statements[name].append(value)
        if not any(statements.values()) and (refused := refusal(text)):
            return refused
        if self.which == "last":
            return {name: values[-1:] for name, values in statements.items()}
        return statements


def settled(criterion: Criterion, statements: Sequence[Reading]) -> Reading:
    """One reading of everything said: repeats are fine, contradictions are not an answer. Other words do not contradict
    each other: the first stand."""
    clear = [v for v in statements if not (isinstance(v, Failure) and v.kind == "unparsable")]
    if not clear:
        if criterion.optional:
            return None
        return statements[0] if statements else Failure(kind="unparsable", detail=f"no value for {criterion.name}")
    meant = [None if isinstance(value, str) else value for value in clear]
    if all(value == meant[0] for value in meant):
        return clear[0]
    shown = " and ".join(dict.fromkeys(v.kind if isinstance(v, Failure) else str(v) for v in clear[:4]))
    return Failure(kind="unparsable", detail=f"contradicting values for {criterion.name}: {shown}")


def _mark(reading: Reading) -> float | Failure:
    if reading is None or isinstance(reading, str):
        return Failure(kind="unparsable", detail="the judge gave no mark")
    return reading if isinstance(reading, Failure) else float(reading)


def _is_text(criterion: Criterion) -> bool:
    return isinstance(criterion.kind, Text)


@cache
def _format(dialect: str) -> str:
    return resources.files("refbench.judges").joinpath(f"formats/{dialect}.txt").read_text("utf-8")
