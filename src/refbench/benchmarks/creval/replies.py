"""Reading the judge's replies, the only place where that happens, in both protocols.

A reply is hostile text: no reader raises, none takes more than time linear in the length of the reply, and
none gives an answer that is not written there for that question.

`read_paper` does what the released script does, quirks included, so that its results can be reproduced.
`read_corrected` also reads what that script loses: other spellings of the keys, ids as keys, nested lists,
braces inside strings, and objects with a broken quote or a missing comma.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from refbench.benchmarks.creval.cases import Question
from refbench.failure import Failure
from refbench.judges.refusals import is_refusal
from refbench.judges.values import Pairs, decoded_places, objects

NOT_FOUND = "未找到对应回答"
"""What the released script stores for a question that no object answers; kept so that results compare equal."""

LONGEST_REPLY = 262_144
"""Characters. The longest reply in the release has 8,000; more than this is no answer to twenty questions."""

How = Literal["exact", "key_spelling", "id_as_key", "numbered_key", "nested", "braces", "broken_object", "text_match"]
"""By which way an answer was found; `exact` is what the released script reads too."""

Verdict = Literal["yes", "no"]


@dataclass(frozen=True)
class Reading:
    """What a reply says to one question: the words, and the choice they make, if any.

    `said` is None when the reply has no answer to this question, or contradicting ones.
    """

    said: str | None
    choice: Verdict | None
    how: How = "exact"


# --- the released script's way -------------------------------------------------------------------------------


def read_paper(reply: str, questions: Sequence[Question]) -> tuple[str, ...] | Failure:
    """The answers as the released script stores them, one for each question."""
    objects = [value for value in map(_loads, _flat_objects(reply)) if isinstance(value, dict)]
    if not objects:
        kind: Literal["unparsable", "empty_reply"] = "unparsable" if reply.strip() else "empty_reply"
        return Failure(kind=kind, detail="no JSON object can be decoded")
    return tuple(_first_with_prefix(question.id, objects) for question in questions)


def _flat_objects(reply: str) -> Iterator[str]:
    r"""What the regular expression `\{.*?\}` finds: from a brace to the next closing one, never nested.

    Not done by that expression, which takes quadratic time on a reply of opening braces.
    """
    end = 0
    while (start := reply.find("{", end)) >= 0 and (close := reply.find("}", start)) >= 0:
        end = close + 1
        yield reply[start:end].replace("\n", "").replace("\r", "")


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _first_with_prefix(question_id: str, objects: Iterable[dict[str, Any]]) -> str:
    """The first object whose question starts with the id: "Q1" also takes "Q10" when Q1 is missing."""
    for found in objects:
        asked = found.get("Question", "")
        if isinstance(asked, str) and asked.startswith(question_id):
            answer = found.get("answer", "")
            return answer.strip() if isinstance(answer, str) else ""
    return NOT_FOUND


# --- ours ----------------------------------------------------------------------------------------------------


def read_corrected(reply: str, questions: Sequence[Question]) -> tuple[Reading, ...] | Failure:
    """What the reply says to each question, or why it says nothing at all."""
    if not reply.strip():
        return Failure(kind="empty_reply")
    if len(reply) > LONGEST_REPLY:
        return Failure(kind="unparsable", detail=f"the reply has {len(reply):,} characters")
    found: dict[str, list[tuple[str, How]]] = {}
    texts = {text: q.id for q in questions if (text := _plain(q.text))}
    for question_id, said, how in _statements(reply, texts):
        found.setdefault(question_id, []).append((said, how))
    if not found:
        if is_refusal(reply):
            return Failure(kind="refused", detail=reply.strip()[:200])
        return Failure(kind="unparsable", detail=f"no answer in {reply.strip()[:80]!r}")
    return tuple(_settle(found.get(question.id, [])) for question in questions)


def read_choice(said: str) -> Verdict | None:
    """Yes or no, if the words are one of them, alone or before a comma, full stop or bracket.

    "No visible change" is not read as no: to "is it unchanged?" it would mean yes.
    """
    if said in _PLAIN_CHOICES:
        return _PLAIN_CHOICES[said]
    match = _CHOICE.match(said)
    return None if match is None else ("yes" if match[1].lower() == "yes" else "no")


_PLAIN_CHOICES: dict[str, Verdict] = {"Yes": "yes", "No": "no"}
_CHOICE = re.compile(r"[\s*`\"'“”‘’.]*(yes|no)[\s*`\"'“”‘’]*(?:[,.;:!(].*)?$", re.IGNORECASE | re.DOTALL)


def _settle(statements: list[tuple[str, How]]) -> Reading:
    """One reading of everything said to a question: repeats are fine, contradictions are no answer."""
    statements = [(said, how) for said, how in statements if said]
    if not statements:
        return Reading(None, None)
    choices = {read_choice(said) for said, _ in statements}
    if len(choices) > 1:
        return Reading(None, None)
    said, how = statements[0]
    return Reading(said, choices.pop(), how)


def _statements(reply: str, texts: dict[str, str]) -> Iterator[tuple[str, str, How]]:
    """(question id, words of the answer, how found) for every answer written in the reply."""
    seen_to = 0
    broken: list[str] = []
    for start, end, value in decoded_places(reply):
        broken.append(reply[seen_to:start])
        seen_to = end
        flat = "{" not in reply[start + 1 : end]
        yield from _in_value(value, texts, "exact" if flat else ("nested" if _holds_objects(value) else "braces"))
    broken.append(reply[seen_to:])
    for text in broken:
        yield from _in_broken_text(text)


def _holds_objects(value: Pairs) -> bool:
    return any(isinstance(item, Pairs | list) for _, item in value)


def _in_value(value: Pairs, texts: dict[str, str], how: How) -> Iterator[tuple[str, str, How]]:
    """Answers in a decoded value: its own, then those of the objects inside it."""
    for here in objects(value):
        yield from _in_object(here, texts, how)


def _in_object(pairs: Pairs, texts: dict[str, str], how: How) -> Iterator[tuple[str, str, How]]:
    fields = [(key.strip().casefold(), key, item) for key, item in pairs]
    answers = [item for name, _, item in fields if name == "answer" and isinstance(item, str)]
    ids: set[str] = set()
    ways: set[How] = set()
    for name, key, item in fields:
        if name in ("question", "question_id", "id") and isinstance(item, str):
            if match := _ID.match(item.strip()):
                ids.add(f"Q{int(match[1])}")
            elif _plain(item) in texts:
                ids.add(texts[_plain(item)])
                ways.add("text_match")
            if key != "Question":
                ways.add("key_spelling")
        elif match := _NUMBERED_KEY.fullmatch(name):
            ids.add(f"Q{int(match[1])}")
            ways.add("numbered_key")
            if isinstance(item, str) and (inside := _ID.match(item.strip())):
                ids.add(f"Q{int(inside[1])}")
        elif match := _ID_KEY.fullmatch(name):
            question_id = f"Q{int(match[1])}"
            if isinstance(item, Pairs):  # {"Q1": {"explanation": ..., "answer": "Yes"}}
                for inner, value in item:
                    if inner.strip().casefold() == "answer" and isinstance(value, str):
                        yield question_id, value, "id_as_key"
            elif not answers and isinstance(item, str) and read_choice(item):  # {"Q1": "Yes", "Q2": "No"}
                yield question_id, item, "id_as_key"
            else:
                ids.add(question_id)
                ways.add("id_as_key")
    if len(ids) != 1:  # no question named, or several: the answer belongs to none
        return
    if not any(key == "answer" for _, key, _ in fields):
        ways.add("key_spelling")
    way: How = next((w for w in ("numbered_key", "id_as_key", "text_match", "key_spelling") if w in ways), how)
    for said in answers:
        yield next(iter(ids)), said.strip(), way


# Every repetition below is bounded or cannot overlap its neighbour: no reply makes these backtrack for long.
_ID = re.compile(r"\W{0,3}Q(?:uestion)?\s{0,2}(\d{1,3})(?!\d)", re.IGNORECASE)
_ID_KEY = re.compile(r"q\s?(\d{1,3})")
_NUMBERED_KEY = re.compile(r"question[ _]?(\d{1,3})")

_QUOTE = "[\"'“”]"
_GAP = r"\s{0,8}"
_HEAD = re.compile(
    rf"(?<!\\){_QUOTE}(?:(?:question(?:_id)?|id){_QUOTE}{_GAP}[:：]?{_GAP}{_QUOTE}?{_GAP}Q(\d{{1,3}})(?!\d)"
    rf"|question[ _]?(\d{{1,3}}){_QUOTE}{_GAP}[:：]|Q(\d{{1,3}}){_QUOTE}{_GAP}[:：])",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    rf"(?<!\\){_QUOTE}answer{_QUOTE}{_GAP}[:：]{_GAP}{_QUOTE}([^\"“”{{}}\n]{{0,200}}?){_QUOTE}"
    rf"{_GAP}[,;)\]]{{0,3}}{_GAP}(?:\}}|,|$|\n)",
    re.IGNORECASE,
)
# Where one object ends and the next begins; an answer behind it belongs to somebody else.
_BOUNDARY = re.compile(r"[}\]][\s,;)]*\{|\n[ \t]*\{")


def _in_broken_text(text: str) -> Iterator[tuple[str, str, How]]:
    """Answers in text that no decoder takes: from the name of a question to the end of its object."""
    heads = list(_HEAD.finditer(text))
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        segment = text[head.end() : end]
        if boundary := _BOUNDARY.search(segment):
            segment = segment[: boundary.start() + 1]
        question_id = f"Q{int(head[1] or head[2] or head[3])}"
        for answer in _ANSWER.finditer(segment):
            yield question_id, answer[1].strip(), "broken_object"


def _plain(text: str) -> str:
    return " ".join(text.replace("*", " ").split()).casefold()
