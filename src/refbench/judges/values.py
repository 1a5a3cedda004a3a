"""Values in a reply: a mark, a choice or a text, read from a JSON value or from the words at one place; and the JSON
objects in it, decoded where a decoder takes them.

Every repetition in the expressions is bounded or cannot overlap its neighbour: no reply makes them backtrack
for long. Digits are the ten of ASCII.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from refbench.failure import Failure
from refbench.judges.criteria import Kind, Reading, Scale, Text, YesNo, letters
from refbench.record import clean_text

_MOST_DIGITS = 15
"""Longer numbers are not marks, and cost more than their length to convert."""

_OPEN = r"[ \t_\"'“‘<\[(]{0,8}"
_CLOSE = r"[ \t_\"'”’>\])]{0,8}"
_NUMBER = re.compile(rf"{_OPEN}([-+−]?[0-9]+(?:\.[0-9]+)?)(?![0-9])")
_OUT_OF = re.compile(r"[ \t]{0,4}(?:/|out of|of)[ \t]{0,4}([0-9]{1,6}(?:\.[0-9]{1,6})?)", re.IGNORECASE)
# What may follow a value: nothing, a full stop, a remark behind a comma, bracket or dash. A word or another
# number makes it something else: "2 of 3 subjects", "6-7", "7, 8", "no visible change".
_END = re.compile(
    rf"(?:[ \t]{{0,4}}points?\b)?{_CLOSE}"
    r"(?:$|[\r\n]|[.!}](?!\w)|[,;|](?![ \t]{0,8}[-+−]?[0-9])|[(\[{]|[-–—](?=[ \t])(?![ \t]{1,8}[0-9]))",
    re.IGNORECASE,
)
_CHOICE = re.compile(rf"{_OPEN}(yes|no|true|false|[01])(?!\w)", re.IGNORECASE)
# A digit is a choice only when nothing comes behind it: "1. The hat is red" is a list.
_DIGIT_END = re.compile(rf"{_CLOSE}(?:$|[\r\n]|\.?\s{{0,20}}$|[,;|}}](?![ \t]{{0,8}}[-+−]?[0-9]))")
_CHOICES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_LINE = re.compile(r"[^\r\n]{0,8000}")
_INSIDE = frozenset({"score", "value", "rating", "mark", "answer", "verdict"})


def value_at(text: str, at: int, kind: Kind) -> tuple[Reading, int] | None:
    """The value that begins at a place of the text, and where it ends; None where none does."""
    if isinstance(kind, Text):
        line = _LINE.match(text, at)
        words = line[0].strip(" \t\"'“”,") if line else ""
        return (clean_text(words), line.end()) if line and words else None
    if isinstance(kind, YesNo):
        choice = _CHOICE.match(text, at)
        if choice is None:
            return None
        if not (_DIGIT_END if choice[1] in "01" else _END).match(text, choice.end()):
            return None
        return _CHOICES[choice[1].lower()], choice.end()
    number = _NUMBER.match(text, at)
    if number is None:
        return None
    end = number.end()
    if scale := _OUT_OF.match(text, end):
        if float(scale[1]) != kind.high:  # 3/5 on a scale to 10 is not a mark: whether it means 3 or 6 is not said
            return None
        end = scale.end()
    if not _END.match(text, end):
        return None
    if len(number[1]) > _MOST_DIGITS:
        return Failure(kind="out_of_range", detail=f"a number of {len(number[1])} digits"), end
    return in_range(float(number[1].replace("−", "-")), kind), end


def read_item(item: Any, kind: Kind) -> Reading:
    """A decoded JSON value as an answer; an object is looked into for its score or answer."""
    if isinstance(item, Pairs):
        inside = [value for key, value in item if letters(key) in _INSIDE and not isinstance(value, Pairs)]
        if len(inside) == 1:
            return read_item(inside[0], kind)
        return Failure(kind="unparsable", detail="an object without one score")
    if isinstance(item, str) and isinstance(kind, Text):
        return clean_text(item.strip()) or Failure(kind="unparsable", detail="an empty text")
    if isinstance(item, str):
        value = value_at(item.strip().translate(MARKDOWN), 0, kind)
        return value[0] if value else Failure(kind="unparsable", detail=f"no {_what(kind)} in {item[:60]!r}")
    if isinstance(kind, YesNo) and isinstance(item, bool | int) and item in (0, 1):
        return bool(item)
    if isinstance(kind, Scale) and isinstance(item, int | float) and not isinstance(item, bool):
        return in_range(item, kind)
    return Failure(kind="unparsable", detail=f"no {_what(kind)} but {type(item).__name__}")


class Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written: a key may be there twice, and both count."""


MARKDOWN = str.maketrans("", "", "*`")
"""Emphasis and code marks, which never belong to a value."""


def in_range(value: float, kind: Scale) -> float | Failure:
    """The value, or the Failure that says why it is not a mark on this scale."""
    if not kind.low <= value <= kind.high:
        return Failure(kind="out_of_range", detail=f"{str(value)[:20]} is not from {kind.low:g} to {kind.high:g}")
    if kind.whole and value != int(value):
        return Failure(kind="out_of_range", detail=f"{str(value)[:20]} is not a whole number")
    return float(value)


def _what(kind: Kind) -> str:
    return {Scale: "mark", YesNo: "yes or no", Text: "text"}[type(kind)]


_FAILED_DECODINGS = 200
"""Attempts at decoding an object, so that a reply of unclosed braces costs linear and not quadratic time."""

_DECODER = json.JSONDecoder(object_pairs_hook=Pairs, strict=False)


def decoded_places(reply: str) -> Iterator[tuple[int, int, Pairs]]:
    """The outermost decodable objects with their places in the reply, strings and nesting respected."""
    at, failed = 0, 0
    while failed < _FAILED_DECODINGS and (start := reply.find("{", at)) >= 0:
        try:
            value, end = _DECODER.raw_decode(reply, start)
        except (ValueError, RecursionError):
            failed += 1
            at = start + 1
            continue
        at = end
        yield start, end, value


def decoded(reply: str) -> tuple[list[Pairs], list[str]]:
    """The outermost decodable objects, and the pieces of text between them."""
    values: list[Pairs] = []
    around: list[str] = []
    seen_to = 0
    for start, end, value in decoded_places(reply):
        values.append(value)
        around.append(reply[seen_to:start])
        seen_to = end
    around.append(reply[seen_to:])
    return values, around


def entries(value: Any) -> Iterator[tuple[str, Any]]:
    """The keys of an object with what is behind them, and those inside, in the order of the text."""
    waiting: list[Any] = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, tuple):
            yield here
            here = [here[1]]
        if isinstance(here, list):  # an object is a list of pairs
            waiting.extend(reversed(here))


def objects(value: Any) -> Iterator[Pairs]:
    """The object itself, then those inside it."""
    waiting: list[Any] = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, Pairs):
            yield here
            waiting.extend(item for _, item in reversed(here))
        elif isinstance(here, list):
            waiting.extend(reversed(here))


# Replies that hold no answer: empty ones, endless ones, and refusals, told from replies that merely cannot be read.

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
