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
from refbench.judges.criteria import Criterion, Reading, Text, letters
from refbench.judges.dialects import DIALECTS
from refbench.judges.refusals import is_refusal
from refbench.record import RefBenchError

LONGEST_REPLY = 262_144
"""Characters: many times what a judge may write. More than this is not read."""

Which = Literal["all", "last"]

_THINKING_ENDS = "</think>"


@dataclass(frozen=True)
class Contract:
    """What a judge is asked for, and in which dialect.

    A reply that states a criterion several times must not contradict itself; with `which="last"` the last statement
    counts, for judges that are asked to weigh their marks before they give them.
    """

    dialect: str
    criteria: tuple[Criterion, ...]
    which: Which = "all"

    def __post_init__(self) -> None:
        if self.dialect not in DIALECTS:
            raise RefBenchError(f"no dialect is called {self.dialect!r}: there are {', '.join(DIALECTS)}")
        if not self.criteria:
            raise RefBenchError("a contract needs at least one criterion")
        names = [letters(criterion.name) for criterion in self.criteria]
        if len(set(names)) < len(names):
            twice = next(c.name for c in self.criteria if names.count(letters(c.name)) > 1)
            raise RefBenchError(f"two criteria are called {twice!r}, spelling aside: give one another name")
        if self.which not in get_args(Which):
            raise RefBenchError(f"which={self.which!r}: choose {' or '.join(get_args(Which))}")
        if self.which == "last" and DIALECTS[self.dialect].in_order is None:
            able = ", ".join(name for name, dialect in DIALECTS.items() if dialect.in_order)
            raise RefBenchError(f"the dialect {self.dialect} knows no last statement: choose one of {able}")
        if wrong := DIALECTS[self.dialect].fits(self.criteria):
            raise RefBenchError(f"the dialect {self.dialect} cannot ask for these criteria: {wrong}")

    def format_text(self) -> str:
        """The part of a prompt that says how to reply."""
        dialect = DIALECTS[self.dialect]
        return _format(self.dialect).replace("{fields}", dialect.fields(self.criteria)).strip()

    def criteria_text(self) -> str:
        """The part of a prompt that says what is asked for."""
        return "\n".join(
            f"- {c.label}: {c.description.strip() or c.kind.words()}" for c in self.criteria if not _is_text(c)
        )

    def json_schema(self) -> dict[str, Any] | None:
        """The schema for providers that can enforce one; None for dialects that are not JSON."""
        schema = DIALECTS[self.dialect].schema
        return None if schema is None else schema(self.criteria)

    def read(self, reply: str) -> dict[str, Reading]:
        """What the reply says to each criterion, or why it says nothing."""
        text = reply.rpartition(_THINKING_ENDS)[2]  # drafts of a reasoning model are not its answer
        if not text.strip():
            return self._all(Failure(kind="empty_reply"))
        if len(text) > LONGEST_REPLY:
            return self._all(Failure(kind="unparsable", detail=f"the reply has {len(text):,} characters"))
        said: dict[str, list[Reading]] = {criterion.name: [] for criterion in self.criteria}
        dialect = DIALECTS[self.dialect]
        read = dialect.in_order if self.which == "last" and dialect.in_order else dialect.read
        for name, value in read(text, self.criteria):
            said[name].append(value)
        if not any(said.values()) and is_refusal(text):
            return self._all(Failure(kind="refused", detail=text.strip()[:200]))
        if self.which == "last":
            said = {name: values[-1:] for name, values in said.items()}
        return {criterion.name: _settle(criterion, said[criterion.name]) for criterion in self.criteria}

    def _all(self, failure: Failure) -> dict[str, Reading]:
        return {criterion.name: failure for criterion in self.criteria}


def _settle(criterion: Criterion, said: Sequence[Reading]) -> Reading:
    """One reading of everything said: repeats are fine, contradictions are no answer."""
    clear = [v for v in said if not (isinstance(v, Failure) and v.kind == "unparsable")]
    if not clear:
        if criterion.optional:
            return None
        return said[0] if said else Failure(kind="unparsable", detail=f"no value for {criterion.name}")
    if _is_text(criterion) or all(value == clear[0] for value in clear):
        return clear[0]
    shown = " and ".join(dict.fromkeys(v.kind if isinstance(v, Failure) else str(v) for v in clear[:4]))
    return Failure(kind="unparsable", detail=f"contradicting values for {criterion.name}: {shown}")


def _is_text(criterion: Criterion) -> bool:
    return isinstance(criterion.kind, Text)


@cache
def _format(dialect: str) -> str:
    return resources.files("refbench.judges").joinpath(f"formats/{dialect}.txt").read_text("utf-8")
