"""Machine checks of instructions and questions: what makes one unfit to ship, in words that its writer can act on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from refbench.builders.texts import repeats, words
from refbench.models.asking import is_refusal

SHORTEST, LONGEST = 8, 250
"""Words of an instruction; the release has 6 to 249."""
_QUESTION_WORDS = (4, 60)

_OPEN_QUESTION = re.compile(r"(?:what|which|who|whom|whose|where|when|why|how)\b", re.IGNORECASE)
_AUXILIARY = re.compile(
    r"\b(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should|may|might|must)(?:n['’]t)?\b",
    re.IGNORECASE,
)
_TWO_IN_ONE = re.compile(
    r"(?:,|;)\s*(?:and|or)\s+(?:is|are|does|do|did|has|have|can|was|were)\b|\band\s+(?:is|are|does|do|did)\s+the\b",
    re.IGNORECASE,
)
_LEAK = re.compile(
    r"\byes\b|\b(?:correct|right|expected|reference) answer\b|\banswer(?:ed)? (?:is|should|must)\b|"
    r",\s*(?:right|correct|true|yes|no|agreed?)\s*\?$|"
    r"\b(?:is|are|does|do|has|have)n['’]t (?:it|they|he|she|that|this)\s*\?$",
    re.IGNORECASE,
)
_NOT_SHOWN = re.compile(
    r"\b(?:instructions?|instructed|prompt(?:ed|s)?|as (?:requested|asked|described|specified|required|told|intended)|"
    r"requested|(?:the )?(?:user|writer)(?:'s|’s)? (?:request|wish|wants?))\b",
    re.IGNORECASE,
)
_OUR_TALK = re.compile(
    r"\b(?:as an ai|json|this dimension|the rules above|image[ _]?\d|<image|image (?:a|b)\b|input image)", re.I
)
_NUMBERING = re.compile(r"^(?:Q?\d{1,2}\s*[.):]\s*|[-•]\s+)", re.IGNORECASE)


def tidy(text: str) -> str:
    """A question without the dress that writers give it: numbers, mark-up, double quotation marks.

    Judges repeat the question inside JSON, where a double quotation mark that they do not escape loses the answer:
    44 answers of the release were lost so.
    """
    plain = _NUMBERING.sub("", text.replace("*", "").replace("`", "").strip())
    for mark in '"“”„«»':
        plain = plain.replace(mark, "'")
    return plain.strip()


def instruction_fault(text: str, examples: Sequence[str] = ()) -> str:
    """What is wrong with an instruction, "" when nothing is."""
    count = len(words(text))
    if not SHORTEST <= count <= LONGEST:
        return f"the instruction has {count} words, not {SHORTEST} to {LONGEST}"
    if "{" in text or "}" in text:
        return "the instruction has braces"
    if not text.isprintable():
        return "the instruction has characters that cannot be shown"
    if is_refusal(text):
        return "it declines instead of instructing"
    if found := _OUR_TALK.search(text):
        return f"the instruction says {found[0]!r}, which an editor with one picture does not understand"
    if text.rstrip().endswith("?"):
        return "the instruction is a question"
    if repeats(text, examples):
        return "the instruction repeats one of the examples"
    return ""


def question_fault(text: str) -> tuple[str, str] | None:
    """The kind of what is wrong with a question (to count by) and what it is; None when nothing is."""
    count = len(words(text))
    if not count:
        return "blank", "it is empty"
    if "{" in text or "}" in text or "\\" in text:
        return "braces", "braces or backslashes break the released reader of replies"
    if not text.isprintable():
        return "unprintable", "it has characters that cannot be shown"
    if text.count("?") != 1 or not text.endswith("?"):
        return "not one question", "it is not one sentence that ends in one question mark"
    if not _QUESTION_WORDS[0] <= count <= _QUESTION_WORDS[1]:
        return "length", f"it has {count} words, not {_QUESTION_WORDS[0]} to {_QUESTION_WORDS[1]}"
    if found := _NOT_SHOWN.search(text):
        return "unanswerable", f"the reviewer does not know the instruction, and it says {found[0]!r}"
    if _LEAK.search(text):
        return "leaking answer", "it hints at its answer"
    if _OPEN_QUESTION.match(text) or not _AUXILIARY.search(text):
        return "unanswerable", "Yes or No does not answer it"
    if _TWO_IN_ONE.search(text):
        return "two in one", "it asks about two things"
    return None
