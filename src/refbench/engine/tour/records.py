"""What a tour finds out, as records with a JSON form; no key and no address of one's own is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from refbench.record import Record

State: TypeAlias = Literal["works", "does not", "not tried"]
Place: TypeAlias = Literal["the provider", "a server of one's own", "this machine"]


class Step(Record):
    """One thing that was tried: its state, and what was seen, or why it was not tried."""

    name: str
    state: State
    said: str = ""


class JudgeTour(Record):
    """One judge. `at` says whether it is the provider's own address, never which other one."""

    judge: str
    kind: str
    model: str
    at: Place
    parameters: Mapping[str, str] = {}
    told: Mapping[str, str] = {}
    """What its server tells of the model: the name in its replies, its entry in the list of models."""
    steps: tuple[Step, ...]
    calls: int
    spent_usd: float | None
    """None where the price is not known."""

    @property
    def reachable(self) -> bool:
        return any(step.name == "reachable" and step.state == "works" for step in self.steps)


class Tour(Record):
    """A whole tour: where it ran, what it was allowed to spend, what it spent."""

    format: int = 1
    made: str
    """When, in UTC."""
    versions: Mapping[str, str]
    budget: str
    calls: int
    spent_usd: float | None
    stopped: Literal["", "budget", "interrupt"] = ""
    judges: tuple[JudgeTour, ...]
