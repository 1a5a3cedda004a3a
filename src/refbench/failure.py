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
    "machine_error",  # this machine could not read it just now: no file handle, no memory, a disk that failed
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
CIRCUMSTANCES: frozenset[str] = frozenset({"api_error", "timeout", "worker_died", "budget", "machine_error"})
"""Kinds that say nothing about the model that was asked for a picture: the road to it was shut."""
KINDS: tuple[str, ...] = (*get_args(TransientKind), *get_args(FinalKind))

CUT = "[redacted]"
"""What stands in the place of a secret."""
# What keys look like in the error bodies of providers and gateways, where their value is not known: by their beginning,
# as a word behind "API key" that is no word of a language, and before the host of an address.
_KEY = re.compile(r"\b(?:(?:sk|pk|rk|hf|gsk|xai)[-_]|AIza)[A-Za-z0-9_\-*]{8,}")
_NAMED = re.compile(
    r"(?i)(\b(?:bearer|api[-_ ]?key(?:\s+(?:provided|given|used|supplied|is|was))?)[\"']?[\s:=]+[\"']?)"
    r"([^\s\"',;<>]{8,})"
)
_PASSWORD = re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]+(?=@)")
_A_WORD = re.compile(r"[A-Za-z]+[.:!?)]*|\[redacted\].*")


def redact(text: str) -> str:
    """The text without anything that looks like a key: error bodies of providers quote them."""
    text = _PASSWORD.sub(CUT, _KEY.sub(CUT, clean_text(text)))
    return _NAMED.sub(lambda match: match[0] if _A_WORD.fullmatch(match[2]) else match[1] + CUT, text)


# A run of letters and digits that no word, size or model's name has, and the form of a UUID.
_RUN = re.compile(r"[A-Za-z0-9]{16,}+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def without_keys(text: str) -> str:
    """What a user typed, for a sentence about it: keys are typed in wrong places too, and messages are logged."""
    return _RUN.sub(lambda match: match[0] if match[0].isalpha() or match[0].isdigit() else CUT, redact(text))


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
