"""What is asked of writer and checker about a request, how their replies become instructions and verdicts, and what
makes an instruction unfit to ship."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.benchmarks.multiref.cases import CATEGORIES, Category
from refbench.builders.kit.pictures import SourcePicture
from refbench.builders.kit.replies import Prompts, line, numbered, read_object, reads, text_fault, unusable
from refbench.builders.multiref_real.item import EditRequest, Item
from refbench.failure import Failure
from refbench.models.wrappers.wrapper import is_refusal

LIMITS = (7, 300)
"""Words of an instruction, tokens among them."""
_BEGINS = re.compile(r"Edit image <image[1-9]> by \S")
_BRACKETS = re.compile(r"<[^<>]*>")
_UNSEEN = re.compile(
    r"(?i)\b(?:(?:the|an?) (?:output|golden|after|target) (?:image|picture|photo)|(?:output|golden) image|"
    r"as (?:seen|shown) in the (?:output|result))\b"
)
_BARE = re.compile(r"(?<!<)\bimage ?[0-9]\b(?!>)", re.IGNORECASE)


def instruction_fault(text: str, inputs: int) -> tuple[str, str] | None:
    """The kind of what is wrong with an instruction (to count by) and what it is; None when nothing is."""
    if not text:
        return "unusable reply", "there is no instruction"
    if is_refusal(text):
        return "refused", "it declines instead of instructing"
    if fault := text_fault(text, *LIMITS):
        return fault
    wanted = [f"<image{number}>" for number in range(1, inputs + 1)]
    if strange := [token for token in _BRACKETS.findall(text) if token not in wanted]:
        return "unknown token", f"{strange[0][:40]} is none of the pictures {', '.join(wanted)}"
    if missing := [token for token in wanted if token not in text]:
        return "missing token", f"the instruction does not mention {', '.join(missing)}"
    if not _BEGINS.match(text):
        return "form", 'the instruction does not begin with "Edit image <imageN> by ..."'
    if found := _BARE.search(text):
        return "form", f"{found[0]!r} is no token: write pictures as <imageN>"
    if found := _UNSEEN.search(text):
        return "unseen picture", f"the editor does not have what {found[0]!r} speaks of"
    return None


PROMPTS = Prompts("refbench.builders.multiref_real", ("rewrite", "again", "choose", "accept", "category"))
MARKS = ("clarity", "fidelity", "quality")
_WHOLE = {
    "coherent": "instruction not coherent",
    "relevant": "instruction not relevant",
    "follows": "output does not follow",
}
_EACH = {"necessary": "input not necessary", "appropriate": "input not appropriate"}


@dataclass(frozen=True)
class Verdict:
    """What the checker has against an entry: kinds to count by, and its words."""

    against: tuple[str, ...]
    reason: str

    @property
    def wording(self) -> bool:
        """Whether it is the instruction alone that is wrong: another one may mend it."""
        return bool(self.against) and set(self.against) <= {_WHOLE["coherent"], _WHOLE["relevant"]}

    def __str__(self) -> str:
        return ": ".join(part for part in (", ".join(self.against), self.reason) if part)


def _shown(request: EditRequest, outputs: Sequence[SourcePicture], text: str) -> list[str | Path]:
    """The inputs by their tokens, the outputs, then the text."""
    label = "Result {}:" if len(outputs) > 1 else "The result:"
    inputs = numbered("<image{}>:", [picture.path for picture in request.inputs])
    return [*inputs, *numbered(label, [picture.path for picture in outputs]), text]


# --- one of several outputs ----------------------------------------------------------------------------------


def choose_parts(request: EditRequest) -> list[str | Path]:
    text = PROMPTS("choose", **_facts(request), count=str(len(request.outputs)))
    return _shown(request, request.outputs, text)


@reads("results")
def read_choice(said: dict[str, Any], count: int) -> tuple[tuple[int, ...], ...] | Failure:
    """Clarity, fidelity and quality of each output."""
    entries = said["results"] if isinstance(said["results"], list) else []
    if [entry.get("result") if isinstance(entry, Mapping) else None for entry in entries] != list(range(1, count + 1)):
        return unusable(f"not one entry for each of the {count} results, in order")
    marks = tuple(tuple(entry.get(name) for name in MARKS) for entry in entries)
    if any(type(mark) is not int or not 1 <= mark <= 5 for row in marks for mark in row):
        return unusable(f"{', '.join(MARKS)} are not all whole numbers from 1 to 5")
    return marks


def best(marks: Sequence[Sequence[int]]) -> int:
    """The place of the output to keep: the highest sum, then the most faithful, then the first."""
    return max(range(len(marks)), key=lambda place: (sum(marks[place]), marks[place][1], -place))


# --- the instruction -----------------------------------------------------------------------------------------


def rewrite_parts(item: Item, complaint: str = "") -> list[str | Path]:
    """What is asked for the instruction; once more where there is a complaint about the one that it has."""
    text = PROMPTS("rewrite", **_facts(item.request))
    if complaint:
        text += "\n\n" + PROMPTS("again", instruction=item.instruction, complaint=complaint)
    return _shown(item.request, [item.output], text)


@reads("instruction")
def read_rewrite(said: dict[str, Any], inputs: int, drafts: list[tuple[str, str, str]]) -> str | Failure:
    """The instruction. One that is at fault is put on the drafts with its fault: a person may mend it."""
    text = line(said["instruction"])
    if fault := instruction_fault(text, inputs):
        drafts.append((text, *fault))
        return Failure(kind="refused" if fault[0] == "refused" else "unparsable", detail=fault[1])
    return text


# --- acceptance ----------------------------------------------------------------------------------------------


def accept_parts(item: Item) -> list[str | Path]:
    text = PROMPTS("accept", **_facts(item.request), instruction=item.instruction)
    return _shown(item.request, [item.output], text)


@reads("pictures", *_WHOLE)
def read_verdict(said: dict[str, Any], inputs: int) -> Verdict | Failure:
    """Every answer must be there; one that is neither Yes nor No makes all be asked for again."""
    entries = said["pictures"] if isinstance(said["pictures"], list) else []
    wanted = [f"image{number}" for number in range(1, inputs + 1)]
    names = [line(entry.get("picture")).strip("<>") if isinstance(entry, Mapping) else "" for entry in entries]
    if names != wanted:
        return unusable(f"not one entry for each picture {', '.join(wanted)}, in order")
    asked: list[tuple[str, str, Any]] = [(name, kind, said[name]) for name, kind in _WHOLE.items()]
    asked += [(name, kind, entry.get(name)) for entry in entries for name, kind in _EACH.items()]
    against: list[str] = []
    for name, kind, answer in asked:
        verdict = line(answer).casefold()
        if verdict not in ("yes", "no"):
            return unusable(f'"{name}" is not "Yes" or "No"')
        if verdict == "no":
            against.append(kind)
    return Verdict(tuple(dict.fromkeys(against)), line(said.get("reason"))[:400])


# --- the taxonomy --------------------------------------------------------------------------------------------


def category_parts(item: Item) -> list[str | Path]:
    return [PROMPTS("category", count=str(len(item.request.inputs)), instruction=item.instruction)]


def read_category(reply: str) -> Category | Failure:
    said = read_object(reply, ("category",))
    if isinstance(said, Failure):
        return said
    return category_of(said["category"]) or unusable('"category" is no whole number from 1 to 5')


def category_of(value: Any) -> Category | None:
    """By its number, or the text of it."""
    number = int(value) if isinstance(value, str) and value.strip() in ("1", "2", "3", "4", "5") else value
    if type(number) is not int:
        return None
    return next((name for name, (place, _, _) in CATEGORIES.items() if place == number), None)


def _facts(request: EditRequest) -> dict[str, str]:
    tokens = [f"<image{number}>" for number in range(1, len(request.inputs) + 1)]
    return {"request": request.text, "tokens": ", ".join(tokens)}
