"""The questions of a case: those for a judge (auto_eval.jsonl) and those for people (eval.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from refbench.benchmarks.ideabench.details import COUNT_MARK, HumanQuestion, Question

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def read_auto(data: bytes) -> list[Question] | str:
    """The lines of auto_eval.jsonl in their order, which is the order of the gates; a text says what is wrong."""
    found = []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            item = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            return f"line {number} is not valid JSON ({error})"
        text = item.get("question") if isinstance(item, dict) else None
        if not isinstance(text, str) or not text.strip():
            return f"line {number} has no question"
        inputs, outputs = _names(item.get("input_images")), _names(item.get("output_images"))
        if inputs is None or outputs is None:
            return f"line {number}: input_images or output_images is no list of file names"
        counts = _counted(text, len(outputs)) if COUNT_MARK in text else None
        found.append(Question(text=text, inputs=inputs, outputs=outputs, counts=counts))
    return found


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    return tuple(value)


def _counted(text: str, listed: int) -> int:
    """The number that the question asks for: a digit or word right behind its mark, else as many as it lists."""
    behind = text.partition(COUNT_MARK)[2].lstrip(" \t\n\"'“‘*`(:<[")
    digits = ""
    for letter in behind[:3]:
        if not ("0" <= letter <= "9"):
            break
        digits += letter
    if digits:
        return int(digits)
    word = behind[:8].casefold()
    return next((value for value, name in reversed(list(enumerate(_NUMBERS))) if word.startswith(name)), listed)


def read_human(data: bytes) -> list[HumanQuestion] | str:
    """The questions of eval.json, whatever its fields are called; a text says why there are none."""
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return f"not valid JSON ({error})"
    entries = _entries(said)
    if not entries:
        return "no list of questions in it"
    return [_human(entry) for entry in entries]


def _entries(said: Any) -> Sequence[Any]:
    """The list of questions: the file itself, a list inside it, or an object whose values are the questions."""
    if isinstance(said, list):
        return said if all(isinstance(item, str | dict) for item in said) else []
    if not isinstance(said, dict):
        return []
    values = list(said.values())
    if len(values) > 1 and all(isinstance(value, dict) for value in values):
        return values
    inside: list[Any] = [value for value in values if isinstance(value, list)]
    inside += [value for value in values if isinstance(value, dict)]
    for value in inside:
        if found := _entries(value):
            return found
    return values if values and all(isinstance(value, str) for value in values) else []


def _human(entry: Any) -> HumanQuestion:
    raw = orjson.dumps(entry).decode()
    if not isinstance(entry, dict):
        return HumanQuestion(text=str(entry), raw=raw)
    texts = dict(_texts(entry))
    asked = [text for name, text in texts.items() if "question" in name or "query" in name]
    zero, one = _standard(texts, "0", "zero"), _standard(texts, "1", "one")
    others = [text for text in texts.values() if text not in (zero, one)]
    return HumanQuestion(text=(asked or others or [""])[0], zero=zero, one=one, raw=raw)


def _texts(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in entry.items():
        if isinstance(value, str):
            yield key.casefold(), value
        elif isinstance(value, dict):
            yield from _texts(value)


def _standard(texts: Mapping[str, str], digit: str, word: str) -> str:
    """What earns the mark: the field whose name has the digit and no other, or the word."""
    for name, text in texts.items():
        digits = [letter for letter in name if letter.isdigit()]
        if digits == [digit] or (not digits and word in name.replace("-", "_").split("_")):
            return text
    return ""
