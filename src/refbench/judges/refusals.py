"""Refusals: what judges say when they decline, told from replies that merely cannot be read."""

from __future__ import annotations

import re

_REFUSAL = re.compile(
    r"(?:i['’]?m|i am) (?:very |really )?(?:sorry|unable|not able)|sorry|i (?:can['’]?t|cannot|won['’]?t)|"
    r"(?:as an ai|unfortunately)\b",
    re.IGNORECASE,
)


def is_refusal(reply: str) -> bool:
    """Whether the reply begins as refusals do. Ask only about replies in which no answer was found."""
    return _REFUSAL.match(reply.strip()) is not None
