"""Reading what writers and checkers reply: one JSON object with the keys that were asked for, or a complaint.

Nothing is repaired: what is cut off or broken is asked for once more, for a text that is nearly there would be shipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from refbench.failure import Failure
from refbench.judges.refusals import answer_text, refusal
from refbench.judges.values import Pairs, decoded, objects
from refbench.record import clean_text


def told(reply: str, keys: Sequence[str]) -> dict[str, Any] | Failure:
    """The object that has all the keys. Two that differ, or a key that is there twice, are no answer."""
    text = answer_text(reply)
    if isinstance(text, Failure):
        return text
    values, _ = decoded(text)
    found = [pairs for value in values for pairs in objects(value) if set(keys) <= {key for key, _ in pairs}]
    if not found:
        if not values and (refused := refusal(text)):
            return refused
        wanted = ", ".join(f'"{key}"' for key in keys)
        return Failure(kind="unparsable", detail=f"no complete JSON object with the keys {wanted} is in it")
    if any(other != found[0] for other in found[1:]):
        return Failure(kind="unparsable", detail="several JSON objects are in it, and they differ")
    names = [key for key, _ in found[0]]
    if len(set(names)) < len(names):
        return Failure(kind="unparsable", detail="a key is there twice")
    return _plain(found[0])


def reason_of(why: Failure) -> str:
    """What dropped.jsonl and the card count a failure under."""
    return {"unparsable": "unusable reply"}.get(why.kind, why.kind.replace("_", " "))


def line(value: Any) -> str:
    """A text in one line; empty for anything that is no text."""
    return " ".join(clean_text(value).split()) if isinstance(value, str) else ""


def lines(value: Any) -> tuple[str, ...]:
    """The texts of a list, each in one line; those that are no text or empty are left out."""
    return tuple(said for item in value if (said := line(item))) if isinstance(value, list) else ()


def _plain(pairs: Pairs) -> dict[str, Any]:
    return {key: _value(item) for key, item in pairs}


def _value(item: Any) -> Any:
    if isinstance(item, Pairs):
        return _plain(item)
    return [_value(one) for one in item] if isinstance(item, list) else item


# When two texts say the same: instructions that share most of their words, questions that share all that matter.

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
