"""One JSON object for each question, with the keys question, explanation and answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from refbench.judges.criteria import Criterion, Reading, Text, letters
from refbench.judges.dialects.dialect import Dialect, closed_object
from refbench.judges.dialects.json_object import value_schema
from refbench.judges.labels import labelled
from refbench.judges.values import Pairs, decoded, objects, read_item, value_at

_QUESTION = frozenset({"question", "questionid", "id", "criterion", "name"})
_ANSWER = frozenset({"answer", "score", "verdict", "choice", "rating"})

_NUMBERED = re.compile(r"\W{0,3}Q(?:uestion)?[ _]{0,2}([0-9]{1,3})(?![0-9])", re.IGNORECASE)
_QUOTE = "[\"'“”]"
_HEADING = re.compile(
    rf"(?<!\\){_QUOTE}(?:question|question_id|id){_QUOTE}\s{{0,8}}[:：]\s{{0,8}}{_QUOTE}?([^\"“”\n:：]{{1,80}})",
    re.IGNORECASE,
)
_ANSWER_KEY = re.compile(rf"(?<!\\){_QUOTE}(?:answer|score){_QUOTE}\s{{0,8}}[:：]\s{{0,8}}", re.IGNORECASE)
# Where one object ends and the next begins; an answer behind it belongs to somebody else.
_BOUNDARY = re.compile(r"[}\]][\s,;)]{0,20}\{|\n[ \t]{0,20}\{")


def _fits(criteria: Sequence[Criterion]) -> str:
    return "a text is no answer to a question" if any(isinstance(c.kind, Text) for c in criteria) else ""


def _fields(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f'"{c.name}": {c.kind.words()}' for c in criteria)


def _schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    """The list stands in an object, because providers enforce a schema only for an object."""
    kinds = [value_schema(Criterion(c.name, c.kind, optional=c.optional)) for c in criteria]
    distinct = [kind for i, kind in enumerate(kinds) if kind not in kinds[:i]]
    answer = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    question = {"type": "string", "enum": [c.name for c in criteria]}
    item = closed_object({"question": question, "explanation": {"type": "string"}, "answer": answer})
    return closed_object({"answers": {"type": "array", "items": item}})


def _read(reply: str, criteria: Sequence[Criterion]) -> list[tuple[str, Reading]]:
    known = _Questions(criteria)
    values, around = decoded(reply)
    found = [said for value in values for pairs in objects(value) for said in known.answers(pairs)]
    for text in around:
        found += known.broken(text)
    heard = {name for name, _ in found}
    for text in around:
        found += [(name, value) for name, value in labelled(text, criteria) if name not in heard]
    return found


class _Questions:
    """The questions by every way a reply may name them: id, number, or their own words."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._names = {letters(c.name): c for c in criteria}
        self._texts = {_plain(c.description): c for c in criteria if c.description.strip()}

    def named(self, item: Any) -> Criterion | None:
        if isinstance(item, int) and not isinstance(item, bool):
            return self._names.get(f"q{item}") if abs(item) < 1000 else None
        if not isinstance(item, str):
            return None
        if match := _NUMBERED.match(item.strip()):
            return self._names.get(f"q{int(match[1])}")
        return self._names.get(letters(item.partition(":")[0])) or self._texts.get(_plain(item))

    def answers(self, pairs: Pairs) -> Iterator[tuple[str, Reading]]:
        """The answers of one object. An object that names no question, or several, answers none."""
        answers = [item for key, item in pairs if letters(key) in _ANSWER and not isinstance(item, list)]
        asked: set[str] = set()
        for key, item in pairs:
            if letters(key) in _QUESTION:
                if criterion := self.named(item):
                    asked.add(criterion.name)
            elif letters(key) not in _ANSWER and (criterion := self.named(key)):
                if isinstance(item, Pairs) or not answers:  # {"Q1": {"answer": "Yes"}} or {"Q1": "Yes", "Q2": "No"}
                    yield criterion.name, read_item(item, criterion.kind)
                else:  # {"Q1": "Is it so?", "answer": "Yes"}
                    asked.add(criterion.name)
        if len(asked) == 1:
            criterion = self._names[letters(next(iter(asked)))]
            for item in answers:
                yield criterion.name, read_item(item, criterion.kind)

    def broken(self, text: str) -> Iterator[tuple[str, Reading]]:
        """Answers in text that no decoder takes: from the name of a question to the end of its object."""
        heads = list(_HEADING.finditer(text))
        for number, head in enumerate(heads):
            criterion = self.named(head[1])
            segment = text[head.end() : heads[number + 1].start() if number + 1 < len(heads) else len(text)]
            if boundary := _BOUNDARY.search(segment):
                segment = segment[: boundary.start() + 1]
            for key in _ANSWER_KEY.finditer(segment) if criterion else ():
                if criterion and (found := value_at(segment, key.end(), criterion.kind)):
                    yield criterion.name, found[0]


def _plain(text: str) -> str:
    return " ".join(text.replace("*", " ").split()).casefold()


JSON_PER_QUESTION = Dialect("json_per_question", _fields, _read, _fits, _schema)
