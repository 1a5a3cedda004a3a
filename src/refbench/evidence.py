"""Evidence: one paid or costly act with its raw result; Purpose: what it was gathered for.

Evidence is keyed by the act alone, so that equal requests are paid for once, whoever needs the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from pydantic import model_validator

from refbench.failure import Failure
from refbench.record import Record, content_key

PEOPLE = "people"
"""The judge whose replies are people's marks, one repeat a rater; in their requests the key that names the study."""


class Purpose(Record):
    """The place in the evaluation that a piece of Evidence fills."""

    case: str
    model: str
    judge: str
    part: str
    """Which of the judge's tasks: a metric, a criterion, a turn."""
    seed: int = 0
    repeat: int = 0
    protocol: str = ""
    """The protocol that asks this way, where the protocols ask differently; empty for all."""
    output: str = ""
    """Content of the output that it is about (`content_of`); empty where that is not known, as of imported replies."""


class Attempt(Record):
    """One try at the act: what came back and what it cost, kept also when a later try succeeded."""

    status: str
    seconds: float | None = None
    cost_usd: float | None = None


class Evidence(Record):
    """The raw result of one act, or its Failure.

    `request` is the canonical request (endpoint and model, parameters, text, ordered picture hashes,
    repeat or seed; never a key) and `id` its hash. What happened on the way is not part of the id.
    """

    kind: Literal["chat", "image", "measure"]
    request: Mapping[str, Any]
    reply: str | None = None
    failure: Failure | None = None
    attempts: tuple[Attempt, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    worst_usd: float | None = None
    """The most that it can have cost, where some of that is not known: a reply without a readable usage, a try that was
    given up and may be charged all the same."""
    provenance: str = ""

    @model_validator(mode="after")
    def _one_state(self) -> Evidence:
        if (self.reply is None) == (self.failure is None):
            raise ValueError("Evidence has a reply or a failure, exactly one of them")
        return self

    @property
    def charged_usd(self) -> float:
        """What it counts for a budget: never less than nothing, whatever a record from elsewhere says."""
        return max(0.0, self.worst_usd if self.worst_usd is not None else self.cost_usd or 0.0)

    @property
    def asked(self) -> dict[str, Any] | None:
        """Provider, model and parameters that really answered; None where nobody was asked, or nobody could say.

        The address is not among them: a judge that moved is the same judge.
        """
        if "endpoint" not in self.request or (self.failure is not None and self.failure.transient):
            return None
        kind = str(self.request["endpoint"]).partition(" ")[0]
        return {
            "kind": kind,
            "model": self.request.get("model"),
            "parameters": dict(self.request.get("parameters", {})),
        }

    @cached_property
    def id(self) -> str:
        return content_key({"kind": self.kind, **self.request})
