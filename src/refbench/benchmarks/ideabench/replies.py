"""Reading the judge's replies, the only place where that happens, in both protocols; no reader raises.

`read_paper` does what the released script does, quirks included: one digit of any size behind the key. The contract
of `corrected` takes 0 and 1 and nothing else.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, Text
from refbench.judges.refusals import refusal

Answer: TypeAlias = float | Failure

CONTRACT = Contract(
    "json_object",
    (
        Criterion("reason", Text(), "two or three sentences, written before you decide", optional=True),
        Criterion("score", Scale(0, 1, whole=True)),
    ),
)

_FENCES = re.compile(r"```(?:json)?")
_PAPER = re.compile(r"""["']score["']\s*:\s*(\d)""")


def read_paper(reply: str) -> Answer:
    """The first digit behind a quoted `score`: 10 is 1, 5 is 5, a digit in quotes or another spelling is nothing."""
    if not reply.strip():
        return Failure(kind="empty_reply")
    found = _PAPER.search(_FENCES.sub("", reply))
    if found is not None:
        return float(int(found[1]))
    return refusal(reply) or Failure(kind="unparsable", detail="no 'score': <digit>")


def read_corrected(reply: str) -> Answer:
    """0 or 1, however it is dressed up; anything else is a failure."""
    return CONTRACT.marks(reply)["score"]
