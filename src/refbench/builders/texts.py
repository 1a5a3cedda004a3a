"""When two texts say the same: instructions that share most of their words, questions that share all that matter."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TOO_ALIKE = 0.8
"""Share of common words above which two instructions count as one. Of 123 released ones no two reach 0.3."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SMALL_WORDS = frozenset(
    word
    for words in (
        ("a", "an", "the", "is", "are", "was", "were", "does", "do", "did", "has", "have", "had", "can", "could"),
        ("will", "would", "in", "of", "on", "at", "to", "and", "with", "its", "it", "this", "that", "there", "be"),
        ("been", "image", "picture", "edited", "still"),
    )
    for word in words
)


def same_question(text: str) -> frozenset[str]:
    """Questions with the same words, small ones apart, ask the same."""
    return frozenset(words(text)) - _SMALL_WORDS or frozenset(words(text))


def repeats(text: str, others: Iterable[str]) -> str:
    """The one of the others that this instruction repeats, "" when it is of its own."""
    return next((other for other in others if alike(text, other) >= _TOO_ALIKE), "")


def alike(one: str, other: str) -> float:
    """The words that two texts share, as a share of all their words."""
    mine, theirs = set(words(one)), set(words(other))
    return len(mine & theirs) / len(mine | theirs) if mine or theirs else 1.0


def words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
