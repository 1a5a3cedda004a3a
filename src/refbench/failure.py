"""Failure: why there is no value. A failure is a state that is carried along, never a number."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator

from refbench.record import Record, clean_text

TransientKind = Literal[
    "api_error",  # the endpoint answered with an error, or could not be reached
    "timeout",
    "worker_died",
    "missing_output",  # the model under test has given no picture for this case
    "missing_reply",  # nobody has judged this part yet
    "not_measured",  # the metric has not run: its network is not here, or it was not asked for
    "budget",
]
FinalKind = Literal[
    "refused",  # the judge or the model declined
    "empty_reply",
    "unparsable",  # the reply is there, but an answer that was asked for cannot be read from it
    "unreadable_picture",  # empty, cut off, too large, or no picture at all
    "out_of_range",
    "no_detection",
    "unsupported",  # the model cannot take such a request: it lowers what is expected of it
    "undefined",  # the measure has no value here (nothing left to average, a division by zero)
]
FailureKind = TransientKind | FinalKind

TRANSIENT: frozenset[str] = frozenset(get_args(TransientKind))
CIRCUMSTANCES: frozenset[str] = frozenset({"api_error", "timeout", "worker_died", "budget"})
"""Kinds that say nothing about the model that was asked for a picture: the road to it was shut."""
KINDS: tuple[str, ...] = (*get_args(TransientKind), *get_args(FinalKind))

# What API keys look like in the error bodies of providers and gateways.
_SECRET = re.compile(r"\b(?:sk|pk|rk|hf|gsk|xai|AIza)[-_]?[A-Za-z0-9_\-*]{8,}|(?i:bearer|api[-_ ]?key)[\s:=]+\S{8,}")


def redact(text: str) -> str:
    """The text without anything that looks like a key: error bodies of providers quote them."""
    return _SECRET.sub("[redacted]", clean_text(text))


class Failure(Record):
    """Why a picture, reply or score is not there.

    Transient kinds are tried again by the next run, final kinds only when asked.
    """

    kind: FailureKind
    detail: Annotated[str, AfterValidator(redact)] = ""
    by_model: bool = False
    """Whether the model under test failed, not a judge or a metric: it is an outcome, theirs is missing data."""

    @property
    def transient(self) -> bool:
        return self.kind in TRANSIENT

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind
