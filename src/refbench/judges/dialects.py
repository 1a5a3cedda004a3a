"""Dialects: the forms a reply may be asked for in, each with both its ends: how it is asked for and how it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import orjson

from refbench.judges.criteria import Criterion, Reading, Scale, Text, YesNo, letters
from refbench.judges.labels import labelled, quoted
from refbench.judges.values import MARKDOWN, Pairs, decoded, entries, objects, read_item, value_at

Statement: TypeAlias = tuple[str, Reading]
"""The name of a criterion, and what a reply says to it. Repeats are statements too: the contract settles them."""
Read: TypeAlias = Callable[[str, Sequence[Criterion]], Iterable[Statement]]


def _nothing(criteria: Sequence[Criterion]) -> str:
    return ""


@dataclass(frozen=True)
class Dialect:
    """One form of reply: `read` finds what a reply says, `fields` fills the format text in formats/<name>.txt.

    A benchmark that asks in words of its own declares a dialect that only reads.
    """

    name: str
    read: Read
    fields: Callable[[Sequence[Criterion]], str] = _nothing
    fits: Callable[[Sequence[Criterion]], str] = _nothing
    """What is wrong with asking for these criteria so; empty when nothing is."""
    schema: Callable[[Sequence[Criterion]], dict[str, Any]] | None = None
    """The JSON schema of a reply, for dialects that are JSON."""
    example: Callable[[Sequence[Criterion]], str] = _nothing
    """A made-up reply in this form; empty where a benchmark asks in words of its own."""
    in_order: Read | None = None
    """Reads as well, in the order of the reply and with what was begun and cannot be read, so that one is the last."""
    reads_drafts: bool = False
    """What stands before a reasoning model's `</think>` is read too, as the marks of some benchmarks always were."""


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with these keys, all of them and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _made_up(criterion: Criterion) -> float | str:
    """An answer that may stand in a reply: the middle of a scale, as a whole number where that is on it."""
    kind = criterion.kind
    if isinstance(kind, Scale):
        middle = (kind.low + kind.high) // 2
        return int(middle) if middle >= kind.low else kind.high
    return "Yes" if isinstance(kind, YesNo) else "What the judge saw."


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _with_unsaid(statements: list[Statement], others: Iterable[Statement]) -> list[Statement]:
    """The statements, and others to the criteria that have none yet."""
    stated = {name for name, _ in statements}
    return statements + [(name, value) for name, value in others if name not in stated]


# --- json_object: one JSON object with a key for each criterion -----------------------------------------------------


def _object_fields(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f'"{c.name}": {_words(c)}{" or null" if c.optional else ""}' for c in criteria)


def _words(criterion: Criterion) -> str:
    """What stands behind the key; what a text is to say is not among the criteria, so it is said here."""
    about = f" ({criterion.description})" if isinstance(criterion.kind, Text) and criterion.description else ""
    return f"{criterion.kind.words()}{about}"


def _object_schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    return closed_object({c.name: _value_schema(c) for c in criteria})


def _value_schema(criterion: Criterion) -> dict[str, Any]:
    """The schema of one answer. Optional ones may be null: providers want every key to be required."""
    kind = criterion.kind
    if isinstance(kind, Scale):
        schema: dict[str, Any] = {"type": "integer" if kind.whole else "number"}
        schema |= {"minimum": kind.low, "maximum": kind.high}
    elif isinstance(kind, YesNo):
        schema = {"type": "string", "enum": ["Yes", "No"]}
    else:
        schema = {"type": "string"}
    if criterion.optional:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return schema


def _read_object(reply: str, criteria: Sequence[Criterion], *, unread: bool = False) -> list[Statement]:
    """From decoded objects and broken ones; where neither says anything, from labelled lines around them."""
    keys = {c.spelled: c for c in criteria}
    values, around = decoded(reply)
    statements: list[Statement] = []
    # Text and objects take turns, so that the statements are in the order of the reply.
    for text, value in zip(around, [*values, Pairs()], strict=True):
        statements += quoted(text, criteria, unread=unread)
        for key, item in entries(value):
            criterion = keys.get(letters(key))
            if criterion and not (item is None and criterion.optional):
                statements.append((criterion.name, read_item(item, criterion.kind)))
    return _with_unsaid(statements, (s for text in around for s in labelled(text, criteria, unread=unread)))


JSON_OBJECT = Dialect(
    "json_object",
    _read_object,
    fields=_object_fields,
    schema=_object_schema,
    example=lambda criteria: _json({c.name: _made_up(c) for c in criteria}),
    in_order=partial(_read_object, unread=True),
)


# --- labelled_lines: a line for each criterion: its label, a colon, its value ---------------------------------------


def _line_fields(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f"{c.label}: <{_words(c)}{', if there is one' if c.optional else ''}>" for c in criteria)


def _read_lines(reply: str, criteria: Sequence[Criterion], *, unread: bool = False) -> list[Statement]:
    """From the lines; what they lack, from JSON, for the judge that gave that instead."""
    statements = list(labelled(reply, criteria, final=True, unread=unread))
    return _with_unsaid(statements, _read_object(reply, criteria, unread=unread))


LABELLED_LINES = Dialect(
    "labelled_lines",
    _read_lines,
    fields=_line_fields,
    example=lambda criteria: "\n".join(f"{c.label}: {_made_up(c)}" for c in criteria),
    in_order=partial(_read_lines, unread=True),
)


# --- json_per_question: one JSON object for each question, with the keys question, explanation and answer -----------


_QUESTION_KEYS = frozenset({"question", "questionid", "id", "criterion", "name"})
_ANSWER_KEYS = frozenset({"answer", "score", "verdict", "choice", "rating"})

_NUMBERED = re.compile(r"\W{0,3}Q(?:uestion)?[ _]{0,2}([0-9]{1,3})(?![0-9])", re.IGNORECASE)
_QUOTE = "[\"'“”]"
_HEADING = re.compile(
    rf"(?<!\\){_QUOTE}(?:question|question_id|id){_QUOTE}\s{{0,8}}[:：]\s{{0,8}}{_QUOTE}?([^\"“”\n:：]{{1,80}})",
    re.IGNORECASE,
)
_ANSWER_KEY = re.compile(rf"(?<!\\){_QUOTE}(?:answer|score){_QUOTE}\s{{0,8}}[:：]\s{{0,8}}", re.IGNORECASE)
# Where one object ends and the next begins; an answer behind it belongs to somebody else.
_BOUNDARY = re.compile(r"[}\]][\s,;)]{0,20}\{|\n[ \t]{0,20}\{")


def _questions_fit(criteria: Sequence[Criterion]) -> str:
    return "a text cannot answer a question" if any(isinstance(c.kind, Text) for c in criteria) else ""


def _question_fields(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f'"{c.name}": {c.kind.words()}' for c in criteria)


def _question_schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    """The list stands in an object, because providers enforce a schema only for an object."""
    kinds = [_value_schema(Criterion(c.name, c.kind, optional=c.optional)) for c in criteria]
    distinct = [kind for i, kind in enumerate(kinds) if kind not in kinds[:i]]
    answer = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    question = {"type": "string", "enum": [c.name for c in criteria]}
    item = closed_object({"question": question, "explanation": {"type": "string"}, "answer": answer})
    return closed_object({"answers": {"type": "array", "items": item}})


def _read_answers(reply: str, criteria: Sequence[Criterion]) -> list[Statement]:
    questions = _Questions(criteria)
    values, around = decoded(reply)
    statements = [answer for value in values for pairs in objects(value) for answer in questions.answers(pairs)]
    statements += [answer for text in around for answer in questions.broken(text)]
    return _with_unsaid(statements, (s for text in around for s in labelled(text, criteria)))


class _Questions:
    """The questions by every way a reply may name them: id, number, or their own words."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._names = {c.spelled: c for c in criteria}
        self._texts = {plain_words(c.description): c for c in criteria if c.description.strip()}

    def named(self, item: Any) -> Criterion | None:
        if isinstance(item, int) and not isinstance(item, bool):
            return self._names.get(f"q{item}") if abs(item) < 1000 else None
        if not isinstance(item, str):
            return None
        if match := _NUMBERED.match(item.strip()):
            return self._names.get(f"q{int(match[1])}")
        return self._names.get(letters(item.partition(":")[0])) or self._texts.get(plain_words(item))

    def answers(self, pairs: Pairs) -> Iterator[Statement]:
        """The answers of one object. An object that names no question, or several, answers none."""
        answers = [item for key, item in pairs if letters(key) in _ANSWER_KEYS and not isinstance(item, list)]
        asked: set[str] = set()
        for key, item in pairs:
            if letters(key) in _QUESTION_KEYS:
                if criterion := self.named(item):
                    asked.add(criterion.name)
            elif letters(key) not in _ANSWER_KEYS and (criterion := self.named(key)):
                if isinstance(item, Pairs) or not answers:  # {"Q1": {"answer": "Yes"}} or {"Q1": "Yes", "Q2": "No"}
                    yield criterion.name, read_item(item, criterion.kind)
                else:  # {"Q1": "Is it so?", "answer": "Yes"}
                    asked.add(criterion.name)
        if len(asked) == 1:
            criterion = self._names[letters(next(iter(asked)))]
            for item in answers:
                yield criterion.name, read_item(item, criterion.kind)

    def broken(self, text: str) -> Iterator[Statement]:
        """Answers in text that no decoder takes: from the name of a question to the end of its object."""
        for head, behind in begun_objects(text, _HEADING):
            criterion = self.named(head[1])
            for key in _ANSWER_KEY.finditer(behind) if criterion else ():
                if criterion and (value := value_at(behind, key.end(), criterion.kind)):
                    yield criterion.name, value[0]


def begun_objects(text: str, heading: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
    """Each heading in text that no decoder takes, with what stands behind it in the same object."""
    heads = list(heading.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=False):  # without a heading there is one end
        behind = text[head.end() : end]
        boundary = _BOUNDARY.search(behind)
        yield head, behind[: boundary.start() + 1] if boundary else behind


def plain_words(text: str) -> str:
    """One spelling for a text with other spaces, capitals or emphasis."""
    return " ".join(text.replace("*", " ").split()).casefold()


def _question_example(criteria: Sequence[Criterion]) -> str:
    answers = [{"question": c.name, "explanation": "What the judge saw.", "answer": _made_up(c)} for c in criteria]
    return _json({"answers": answers})


JSON_PER_QUESTION = Dialect(
    "json_per_question",
    _read_answers,
    fields=_question_fields,
    fits=_questions_fit,
    schema=_question_schema,
    example=_question_example,
)


# --- number_list: one list of numbers in square brackets, one for each criterion in their order ---------------------


_LIST = re.compile(r"\[([^\[\]]{1,2000})\]")
_LONGEST_BARE = 2000
"""A whole reply may be the numbers alone, `7, 8`; nothing longer is tried."""


def _numbers_fit(criteria: Sequence[Criterion]) -> str:
    return "" if all(isinstance(c.kind, Scale) for c in criteria) else "a list of numbers has only marks on a scale"


def _number_fields(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f"{n}. {c.label}: {c.kind.words()}" for n, c in enumerate(criteria, 1))


def _read_numbers(reply: str, criteria: Sequence[Criterion]) -> list[Statement]:
    """From every list that has as many numbers as were asked for; other lists are talk."""
    text = reply.translate(MARKDOWN)
    inside = [match[1] for match in _LIST.finditer(text)]
    if not inside and len(text.strip()) <= _LONGEST_BARE:
        inside = [text.strip()]
    statements = [mark for numbers in inside for mark in _numbers_in(numbers, criteria)]
    return statements or list(labelled(reply, criteria))


def _numbers_in(text: str, criteria: Sequence[Criterion]) -> list[Statement]:
    items = [item.strip() for item in text.strip().removesuffix(",").split(",")]
    if len(items) != len(criteria):
        return []
    marks: list[Statement] = []
    for item, criterion in zip(items, criteria, strict=True):
        value = value_at(item, 0, criterion.kind)
        if value is None or item[value[1] :].strip("\"'”’ "):
            return []
        marks.append((criterion.name, value[0]))
    return marks


NUMBER_LIST = Dialect(
    "number_list",
    _read_numbers,
    fields=_number_fields,
    fits=_numbers_fit,
    example=lambda criteria: str([_made_up(c) for c in criteria]),
    in_order=_read_numbers,
)


# --- binary: one criterion, answered by one word or by 1 or 0 -------------------------------------------------------


_VERDICT_KEYS = frozenset({"answer", "verdict", "score", "result", "finalanswer"})
_LEAD = re.compile(
    r"[ \t>#+•\-]{0,8}(?:the )?(?:final )?(?:answer|verdict|score|result)(?: is)?[ \t]{0,4}[:：=]?[ \t]{0,4}",
    re.IGNORECASE,
)
_ALONE = re.compile(r"[\s\"'“”.!]{0,20}(yes|no|true|false|[01])[\s\"'“”.!]{0,20}", re.IGNORECASE)


def _binary_fits(criteria: Sequence[Criterion]) -> str:
    one = len(criteria) == 1 and isinstance(criteria[0].kind, YesNo) and not criteria[0].optional
    return "" if one else "a single yes or no answers exactly one criterion of the kind yes_no"


def _binary_fields(criteria: Sequence[Criterion]) -> str:
    return criteria[0].description


def _read_binary(reply: str, criteria: Sequence[Criterion]) -> Iterator[Statement]:
    """The word the reply begins with, and every line that is an answer and nothing else."""
    name, kind = criteria[0].name, criteria[0].kind
    values, around = decoded(reply)
    keys = _VERDICT_KEYS | {letters(name)}
    for pairs in (pairs for outer in values for pairs in objects(outer)):
        yield from ((name, read_item(item, kind)) for key, item in pairs if letters(key) in keys)
    lines = [line for text in around for line in text.translate(MARKDOWN).splitlines() if line.strip()]
    for number, line in enumerate(lines):
        lead = _LEAD.match(line)
        if _ALONE.fullmatch(line) or lead or number == 0:
            start = lead.end() if lead else len(line) - len(line.lstrip(" \t\"'“.>#"))
            if value := value_at(line, start, kind):
                yield name, value[0]


BINARY = Dialect(
    "binary",
    _read_binary,
    fields=_binary_fields,
    fits=_binary_fits,
    example=lambda criteria: str(_made_up(criteria[0])),
)


DIALECTS = {d.name: d for d in (JSON_OBJECT, JSON_PER_QUESTION, LABELLED_LINES, NUMBER_LIST, BINARY)}
