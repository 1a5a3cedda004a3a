"""Reading the judge's replies, the only place where that happens. No prompt and no reader of this judge were released,
so both protocols ask in our words and read by the contract; nothing is given that is not in the reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refbench.benchmarks.multiref.cases import AXES, HIGHEST, LOWEST, WORDS, Type
from refbench.benchmarks.multiref.measures import JUDGEABLE, judged
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, Text

DIALECT = "json_object"
_MARK = Scale(LOWEST, HIGHEST, whole=True)
_REASON = Criterion("reason", Text(), "two or three sentences, written before you decide", optional=True)

LABELS: Mapping[str, str] = {
    "image_quality": "IQ",
    "instruction_following": "IF",
    "source_fidelity": "SF",
}
"""What the judge calls each axis."""
assert tuple(LABELS.values()) == AXES

OVERALL = Contract(DIALECT, (_REASON, *(Criterion(label, _MARK) for label in LABELS)))


def references_contract(types: Sequence[Type]) -> Contract:
    """One mark for the references of each type."""
    criteria = (Criterion(_label(kind), _MARK) for kind in types)
    return Contract(DIALECT, (_REASON, *criteria))


def read_overall(reply: str) -> dict[str, float | Failure]:
    """The marks on the three axes, each in a state of its own."""
    marks = OVERALL.marks(reply)
    return {axis: marks[label] for label, axis in LABELS.items()}


def read_references(reply: str, types: Sequence[Type]) -> dict[str, float | Failure]:
    """The marks for the types that were asked about."""
    marks = references_contract(types).marks(reply)
    return {judged(kind): marks[_label(kind)] for kind in types}


def asked_types(request: Mapping[str, Any], there: Sequence[Type]) -> list[Type]:
    """Which of the case's types a recorded request asked about; all of them where the request is not on record."""
    schema = request.get("json_schema") or {}
    named = schema.get("properties")
    return [kind for kind in JUDGEABLE if kind in there and (named is None or _label(kind) in named)]


def _label(kind: Type) -> str:
    return WORDS[kind].replace(" ", "_")
