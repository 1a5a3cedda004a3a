"""Checking: whether a written set makes sense, would only give broken pictures, or asks for next to nothing."""

from __future__ import annotations

from pathlib import Path

from refbench.builders.multibanana.filters import Filters
from refbench.builders.multibanana.tasks import Candidate
from refbench.builders.multibanana.words import prompt
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, Text, YesNo
from refbench.judges.placeholders import filled
from refbench.record import Record


class Checked(Record):
    """The checker's marks."""

    reason: str
    sensible: bool
    needed: bool
    breakdown: int
    difficulty: int

    def fault(self, filters: Filters) -> str:
        """Why the set is not used, "" when it is."""
        if not self.sensible:
            return "nonsensical"
        if not self.needed:
            return "a reference is not needed"
        for name in ("breakdown", "difficulty"):
            if filters[name].use and (fault := filters[name].fault(name, getattr(self, name))):
                return fault
        return ""


CHECK = Contract(
    "json_object",
    (
        Criterion("reason", Text(), "how the picture would have to look, and what is wrong with the task if anything"),
        Criterion("sensible", YesNo(), "Do the references show what the instruction says, and is it clear what to do?"),
        Criterion("needed", YesNo(), "Is every reference needed to do it?"),
        Criterion(
            "breakdown",
            Scale(1, 5, whole=True),
            "How surely would even a careful result look broken: something floats, sizes or views cannot fit, a body "
            "has to be cut? 1 is not at all, 3 is only if done badly, 5 is in any case",
        ),
        Criterion(
            "difficulty",
            Scale(1, 5, whole=True),
            "How much skill does it take? 1 is trivial: copying a reference or a plain recolouring does it; 5 is hard "
            "for the best models",
        ),
    ),
)


def check_request(candidate: Candidate, instruction: str) -> list[str | Path]:
    names = ", ".join(f"Image {k}" for k in range(1, len(candidate.references) + 1))
    values = {"names": names, "instruction": instruction}
    values |= {"criteria": CHECK.criteria_text(), "format": CHECK.format_text()}
    shown: list[str | Path] = []
    for number, member in enumerate(candidate.references, 1):
        shown += [f"Image {number}:", member.picture.path]
    return [*shown, filled(prompt("check"), values)]


def read_check(reply: str) -> Checked | Failure:
    said = CHECK.read(reply)
    for name, value in said.items():
        if isinstance(value, Failure):
            return value if value.kind == "refused" else Failure(kind=value.kind, detail=f"{name}: {value.detail}")
    marks = {**said, "reason": " ".join(str(said["reason"]).split())[:500]}
    return Checked.model_validate(marks)
