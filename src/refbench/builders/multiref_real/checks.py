"""Machine checks of rewritten instructions: the form, every input mentioned, nothing that is not there."""

from __future__ import annotations

import re

from refbench.builders.texts import words
from refbench.models.asking import is_refusal

LIMITS = (7, 300)
"""Words of an instruction, tokens among them."""
_BEGINS = re.compile(r"Edit image <image[1-9]> by \S")
_BRACKETS = re.compile(r"<[^<>]*>")
_UNSEEN = re.compile(
    r"\b(?:(?:the|an?) (?:output|golden|after|target) (?:image|picture|photo)|(?:output|golden) image|"
    r"as (?:seen|shown) in the (?:output|result))\b",
    re.IGNORECASE,
)
_BARE = re.compile(r"(?<!<)\bimage ?[0-9]\b(?!>)", re.IGNORECASE)


def instruction_fault(text: str, inputs: int) -> tuple[str, str] | None:
    """The kind of what is wrong with an instruction (to count by) and what it is; None when nothing is."""
    if not text:
        return "unusable reply", "there is no instruction"
    if is_refusal(text):
        return "refused", "it declines instead of instructing"
    count = len(words(text))
    if not LIMITS[0] <= count <= LIMITS[1]:
        return "length", f"the instruction has {count} words, not {LIMITS[0]} to {LIMITS[1]}"
    if not text.isprintable():
        return "unprintable", "the instruction has characters that cannot be shown"
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
