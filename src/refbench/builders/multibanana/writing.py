"""Sets written and checked: what the writer is asked for, and the instruction in its reply, checked to the letter; then
whether it makes sense, would only give broken pictures, or asks for next to nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from refbench.builders.kit.replies import line, numbered, read_object, unusable
from refbench.builders.multibanana.classify import PROMPTS, read_contract
from refbench.builders.multibanana.filters import Filters
from refbench.builders.multibanana.tasks import Candidate, Member, recipe_of
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, Text, YesNo
from refbench.models.wrappers.wrapper import is_refusal
from refbench.record import Record

MOST_WORDS = 120
_NAMED = re.compile(r"\bimages?[ \t]*#?([0-9]{1,4})\b", re.IGNORECASE)
_LISTED = re.compile(r"\bimages[ \t]+[0-9]", re.IGNORECASE)
_FILE = re.compile(r"\w\.(?:jpe?g|png|webp|gif|bmp)\b", re.IGNORECASE)
_PLACES = re.compile(r"[<>{}\[\]]")


class Written(Record):
    """What the writer decided and wrote; numbers of references count from 1."""

    instruction: str
    thinking: str = ""
    modified: int | None = None
    giver: int | None = None


def write_request(candidate: Candidate) -> list[str | Path]:
    """The references by their names, then the task."""
    recipe = recipe_of(candidate.task)
    count = len(candidate.references)
    decide = []
    if recipe.modified:
        decide.append('- "modified": the number of the reference whose content is changed.')
    if recipe.giver:
        decide.append('- "giver": the number of the reference that gives what is taken over.')
    text = PROMPTS(
        "write",
        count="one reference" if count == 1 else f"{count} references",
        names=_names(candidate),
        says=recipe.says,
        decide="\n".join(decide) or "- how everything comes together.",
        examples="\n".join(f"- {example}" for example in recipe.examples),
        keys=", ".join(f'"{key}"' for key in _keys(candidate)),
    )
    return [*_shown(candidate), text]


def read_written(reply: str, candidate: Candidate) -> Written | Failure:
    """The instruction and the decisions, or what is wrong with them. Nothing is mended here."""
    recipe = recipe_of(candidate.task)
    said = read_object(reply, _keys(candidate))
    if isinstance(said, Failure):
        return said
    chosen: dict[str, int] = {}
    for key, wanted in (("modified", recipe.base), ("giver", recipe.giver)):
        if key not in said:
            continue
        number = _reference(said[key])
        if number is None or not 1 <= number <= len(candidate.references):
            return unusable(f'"{key}" is not the number of a reference')
        if not candidate.references[number - 1].fits(wanted):
            return unusable(f'"{key}" is Image {number}, which does not show such a thing')
        chosen[key] = number
    if len(chosen) == 2 and chosen["modified"] == chosen["giver"]:
        return unusable('"modified" and "giver" are the same reference')
    text = line(said["instruction"])
    if wrong := instruction_fault(text, candidate.references):
        return Failure(kind="refused" if wrong == _REFUSES else "unparsable", detail=wrong)
    return Written(instruction=text, thinking=line(said["thinking"])[:1000], **chosen)


_REFUSES = "the instruction is a refusal"


def instruction_fault(text: str, references: tuple[Member, ...]) -> str:
    """What makes the text no instruction for these references, "" when nothing does."""
    if not text:
        return "the instruction is empty"
    if is_refusal(text):
        return _REFUSES
    if len(text.split()) > MOST_WORDS:
        return f"the instruction has {len(text.split())} words, at most {MOST_WORDS} are allowed"
    if _PLACES.search(text):
        return "the instruction has brackets of a template in it"
    if _FILE.search(text):
        return "the instruction names a file"
    if any(not sign.isprintable() for sign in text):
        return "the instruction has characters that cannot be shown"
    if _LISTED.search(text):
        return 'write "Image 1 and Image 2", each with its own name, not "Images 1 and 2"'
    named = {int(number) for number in _NAMED.findall(text)}
    wanted = set(range(1, len(references) + 1))
    if missing := sorted(wanted - named):
        return f"the instruction does not mention {', '.join(f'Image {k}' for k in missing)}"
    if surplus := sorted(named - wanted):
        return f"the instruction mentions Image {surplus[0]}, which is not there"
    return ""


def _names(candidate: Candidate) -> str:
    return ", ".join(f"Image {number}" for number in range(1, len(candidate.references) + 1))


def _shown(candidate: Candidate) -> list[str | Path]:
    return numbered("Image {}:", [member.picture.path for member in candidate.references])


def _keys(candidate: Candidate) -> list[str]:
    recipe = recipe_of(candidate.task)
    chosen = ["modified"] * recipe.modified + ["giver"] * bool(recipe.giver)
    return ["thinking", *chosen, "instruction"]


def _reference(value: object) -> int | None:
    """3, "3" and "Image 3" are the same reference."""
    if isinstance(value, str):
        match = re.fullmatch(r"(?:image\s*)?([0-9]{1,3})", value.strip(), re.IGNORECASE)
        return int(match[1]) if match else None
    return value if type(value) is int else None


# --- the check -----------------------------------------------------------------------------------------------


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
    contract = {"criteria": CHECK.criteria_text(), "format": CHECK.format_text()}
    text = PROMPTS("check", names=_names(candidate), instruction=instruction, **contract)
    return [*_shown(candidate), text]


def read_check(reply: str) -> Checked | Failure:
    said = read_contract(CHECK, reply)
    if isinstance(said, Failure):
        return said
    return Checked.model_validate({**said, "reason": " ".join(str(said["reason"]).split())[:500]})


@dataclass(frozen=True)
class FinishedSet:
    """A set as it is shipped."""

    candidate: Candidate
    written: Written
    tags: tuple[str, ...]
    checked: Checked | None
    """None where a person decided."""
    problem: str = ""
    """What the checker has against it: then it is not shipped, but offered for review."""

    @property
    def id(self) -> str:
        return self.candidate.id
