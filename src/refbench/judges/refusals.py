"""Replies that hold no answer: empty ones, endless ones, and refusals, told from replies that merely cannot be read."""

from __future__ import annotations

import re

from refbench.failure import Failure

LONGEST_REPLY = 262_144
"""Characters: many times what a judge may write. More than this is not read."""

_THINKING_ENDS = "</think>"
_REFUSAL = re.compile(
    r"(?:i['’]?m|i am) (?:very |really )?(?:sorry|unable|not able)|sorry|i (?:can['’]?t|cannot|won['’]?t)|"
    r"(?:as an ai|unfortunately)\b",
    re.IGNORECASE,
)


def answer_text(reply: str, drafts: bool = False) -> str | Failure:
    """The part of a reply that may hold answers: the drafts of a reasoning model do not. A Failure where there is
    none, or more than any judge has to say."""
    text = reply if drafts else reply.rpartition(_THINKING_ENDS)[2]
    if not text.strip():
        return Failure(kind="empty_reply", detail="the reply is empty")
    if len(text) > LONGEST_REPLY:
        return Failure(kind="unparsable", detail=f"the reply has {len(text):,} characters")
    return text


def refusal(text: str) -> Failure | None:
    """The refusal that the text begins with, if it is one. Ask only about replies in which no answer was found."""
    text = text.strip()
    return Failure(kind="refused", detail=text[:200]) if _REFUSAL.match(text) else None
