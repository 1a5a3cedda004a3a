"""Forms of reply that public benchmarks ask for, as contracts, and what releases make of replies, for `paper`.

A contract writes the form into our prompts and reads replies strictly: bounds, length, a typed failure. What stands
below the line does as released scripts do, quirks included, but never what they do at random: a mark that a release
draws by lot is a failure that says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, YesNo
from refbench.judges.criteria import Reading, letters
from refbench.judges.dialects import NUMBER_LIST, Dialect, Statement, closed_object
from refbench.judges.values import LONGEST_REPLY, MARKDOWN, decoded, entries, read_item, value_at


def score_object(names: Sequence[str], low: float, high: float, *, whole: bool = False) -> Contract:
    """`{"reasoning": "...", "score": [8, 7]}`: one number for each name, in their order; of one name a number alone."""
    return Contract(SCORE_OBJECT, _criteria(names, low, high, whole))


def mark_lines(names: Sequence[str], low: float, high: float) -> Contract:
    """Exactly as many lines `Label: 4` as there are names, in their order, whatever their labels are."""
    return Contract(MARK_LINES, _criteria(names, low, high, whole=True))


def number_pair(names: Sequence[str], low: float, high: float) -> Contract:
    """`[8, 7]`: one number for each name, in their order."""
    return Contract("number_list", _criteria(names, low, high, whole=False))


def yes_or_no(name: str) -> Contract:
    """One word."""
    return Contract("binary", (Criterion(name, YesNo(), "Answer with one word, Yes or No."),))


def _criteria(names: Sequence[str], low: float, high: float, whole: bool) -> tuple[Criterion, ...]:
    return tuple(Criterion(name, Scale(low, high, whole)) for name in names)


# --- score_object ---------------------------------------------------------------------------------------------------

_KEYS = frozenset({"score", "scores"})
_BROKEN = re.compile(
    r"(?<![\\\w])[\"'“”]?scores?[\"'“”]?\s{0,8}[:：]\s{0,8}(\[[^\[\]{}]{1,200}\]|[^\s,\[\]{}]{1,20})", re.I
)
_PLAIN = re.compile(r"\s{0,40}(?:[-+]?[0-9.]{1,9}|\[[^\[\]]{1,200}\])\s{0,40}")


def _read_scores(reply: str, criteria: Sequence[Criterion]) -> Iterator[Statement]:
    """From every key `score` of an object, decodable or broken, else from a reply that is numbers and nothing else."""
    values, around = decoded(reply)
    given: list[Any] = [item for value in values for key, item in entries(value) if letters(key) in _KEYS]
    given += [_numbers(match[1]) for text in around for match in _BROKEN.finditer(text)]
    if not given and (plain := _PLAIN.fullmatch(reply)):
        given = [_numbers(plain[0])]
    for item in given:
        marks = item if isinstance(item, list) else [item]
        if len(marks) == len(criteria):
            yield from ((one.name, read_item(mark, one.kind)) for one, mark in zip(criteria, marks, strict=True))
        else:
            wrong = Failure(kind="unparsable", detail=f"{_count(marks, 'number')} where {len(criteria)} are asked for")
            yield from ((one.name, wrong) for one in criteria)


def _numbers(text: str) -> list[str]:
    return [item.strip() for item in text.strip().strip("[]").split(",") if item.strip()]


def _count(things: Sequence[object], what: str) -> str:
    return f"{len(things)} {what}" + ("" if len(things) == 1 else "s")


def _score_schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    kind = cast("Scale", criteria[0].kind)
    number = {"type": "integer" if kind.whole else "number", "minimum": kind.low, "maximum": kind.high}
    several = {"type": "array", "items": number, "minItems": len(criteria), "maxItems": len(criteria)}
    return closed_object({"reasoning": {"type": "string"}, "score": number if len(criteria) == 1 else several})


def _score_fields(criteria: Sequence[Criterion]) -> str:
    told = [f"{c.label.lower()}, {c.kind.words()}" for c in criteria]
    return told[0] if len(told) == 1 else f"[{'; '.join(told)}]"


SCORE_OBJECT = Dialect(
    "score_object",
    _read_scores,
    fields=_score_fields,
    fits=NUMBER_LIST.fits,
    schema=_score_schema,
    example=lambda criteria: json.dumps({"reasoning": "What the judge saw.", "score": _middles(criteria)}),
)


def _middles(criteria: Sequence[Criterion]) -> Any:
    marks = [int((c.range[0] + c.range[1]) // 2) for c in criteria]
    return marks[0] if len(marks) == 1 else marks


# --- mark_lines -----------------------------------------------------------------------------------------------------

_LABEL = re.compile(r"[^:：\n]{0,12}[^\W\d_][^:：\n]{0,80}[:：][ \t]{0,8}")


def _read_lines(reply: str, criteria: Sequence[Criterion]) -> Iterator[Statement]:
    marks: list[Reading] = []
    for line in reply.translate(MARKDOWN).splitlines():
        label = _LABEL.match(line)
        if label and (value := value_at(line, label.end(), criteria[0].kind)):
            marks.append(value[0])
    if len(marks) == len(criteria):
        yield from ((one.name, mark) for one, mark in zip(criteria, marks, strict=True))
    elif marks:
        wrong = Failure(kind="unparsable", detail=f"{_count(marks, 'marked line')} where {len(criteria)} are asked for")
        yield from ((one.name, wrong) for one in criteria)


MARK_LINES = Dialect(
    "mark_lines",
    _read_lines,
    fields=lambda criteria: "\n".join(f"{c.label}: <{c.kind.words()}>" for c in criteria),
    fits=NUMBER_LIST.fits,
    example=lambda criteria: "\n".join(f"{c.label}: {int((c.range[0] + c.range[1]) // 2)}" for c in criteria),
)


# --- as released scripts read -----------------------------------------------------------------------------------------

BY_LOT = "the release draws a mark at random here; none is drawn"
_DELIMITER = "||V^=^V||"
_MOST_DIGITS = 40


def unread(detail: str) -> Failure:
    return Failure(kind="unparsable", detail=detail)


def no_reply(reply: str) -> Failure | None:
    """Why nothing can be read of a reply at all: it is empty, or longer than anything that a judge has to say."""
    if not reply.strip():
        return Failure(kind="empty_reply")
    return unread(f"the reply has {len(reply):,} characters") if len(reply) > LONGEST_REPLY else None


def found_by(pattern: str, reply: str) -> list[tuple[str, ...]]:
    """What a release finds by a regular expression of its own, group by group; nothing in an endless reply. Write its
    repetitions so that they give nothing back (`\\s*+`): a reply of blanks must not cost the square of its length."""
    return [] if no_reply(reply) else [match.groups() for match in re.finditer(pattern, reply)]


def flat_object(reply: str, names: Sequence[str]) -> dict[str, Any]:
    """What the first object without objects in it that has the first of these names says to all of them: whole numbers,
    cut off and of any size, or why there is none. Nothing where there is no such object, or it cannot be decoded."""
    found = next((one[0] for one in re.finditer(r"\{[^{}]*+\}", reply) if names[0] in one[0]), "")
    try:
        said = json.loads(found)
        return {name: unread("no mark") if said.get(name) is None else int(said[name]) for name in names}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def object_of(marks: Mapping[str, Any]) -> str:
    """The reply that these marks would have been read from, where a release keeps marks alone."""
    return json.dumps(marks)


def numbers_behind(reply: str, key: str, count: int) -> list[float] | None:
    """The first numbers, `count` at most, behind a key of an object that need not be one; None where there is none."""
    inside = reply[reply.find("{") : reply.rfind("}") + 1]
    behind = re.split(rf"(?i){re.escape(key)}\"?\s{{0,9}}[:：]", inside, maxsplit=1)[-1]
    numbers = re.findall(r"-?\d{1,40}(?:\.\d{1,40})?", behind)[:count]
    return [float(number) for number in numbers] if inside else None


def viescore_marks(reply: str, *, delimited: bool = True, bare_list: bool = True) -> list[float] | Failure:
    """The `score` as VIEScore's readers and those after them take it: whatever numbers, of whatever size and however
    many, stand in the text from the first brace to the last. `delimited` are readers that know VIEScore's delimiter,
    `bare_list` such that take `[8, 7]` without braces."""
    if failure := no_reply(reply):
        return failure
    if delimited and reply.count(_DELIMITER) == 2:
        inside = reply.split(_DELIMITER)[1]
    elif "{" in reply and "}" in reply:
        inside = reply[reply.find("{") : reply.rfind("}") + 1]
    elif bare_list and re.fullmatch(r"\[\d+, ?\d+\]", listed := reply[reply.find("[") : reply.rfind("]") + 1]):
        return _as_marks(json.loads(listed))
    else:
        return _whole_reply(reply)
    text = inside.strip().replace("\n", "")
    found = _loaded(text)
    if found is None:
        found = _mended(text)
    if not isinstance(found, dict) or "score" not in found:
        return unread("no object with a score can be decoded")
    return _as_marks(found["score"])


def _whole_reply(reply: str) -> list[float] | Failure:
    try:
        number = int(reply) if len(reply.strip()) < _MOST_DIGITS else -1
    except ValueError:
        number = -1
    return [float(number)] if 0 <= number <= 10 else unread("neither an object nor a number from 0 to 10")


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_MEMBER = re.compile(r'\s*(?:"(\w+)"|(\w+))\s*:([^"{}\[\]:]+)')


def _mended(text: str) -> dict[str, Any] | None:
    """What VIEScore's repair can mend: keys and values without quotes, none of them with a comma, colon or bracket; a
    number becomes a list of one. Nothing else."""
    found: dict[str, Any] = {}
    for member in text.strip().removeprefix("{").removesuffix("}").split(","):
        match = _MEMBER.fullmatch(member)
        if match is None or not (value := match[3].strip()):
            return None
        found[match[1] or match[2]] = [float(value)] if re.fullmatch(r"-?\d{1,40}(\.\d{1,40})?", value) else value
    return found


def _as_marks(score: Any) -> list[float] | Failure:
    """Numbers as they are; what arithmetic would raise with (texts, nothing at all) is no score there either."""
    marks = score if isinstance(score, list) else [score]
    if not marks or not all(isinstance(mark, int | float) for mark in marks):
        return unread(f"the score is {str(score)[:60]!r}: the release cannot compute with it")
    try:
        numbers = [float(mark) for mark in marks]
    except OverflowError:
        numbers = [math.inf]
    return numbers if all(map(math.isfinite, numbers)) else Failure(kind="out_of_range", detail=str(score)[:60])


def no_root(mark: float) -> Failure:
    """Of a mark below zero, which readers of releases let pass and their totals end with."""
    return Failure(kind="out_of_range", detail=f"{mark:g}: the release cannot take its root")


def is_json(reply: str) -> bool:
    """Whether what stands from the first brace to the last can be decoded as it is."""
    return _loaded(reply[reply.find("{") : reply.rfind("}") + 1]) is not None


_GUESSED = "guess_if_cannot_parse"
"""How VIEScore and those after it begin the reason of a mark that they have drawn."""


def recorded_marks(score: Any, reasoning: Any) -> str | Failure:
    """A reply of which a release has kept score and reason alone, as the object that it was; one that the release has
    drawn is a failure, and so is one that it has not read."""
    if str(reasoning).startswith(_GUESSED):
        return unread("the release drew this mark at random")
    if score is None or score == "":
        return Failure(kind="missing_reply", detail="the release has kept no score")
    return json.dumps({"reasoning": str(reasoning or ""), "score": score}, ensure_ascii=False)
