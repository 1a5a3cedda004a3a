"""The judge's replies: the released ones as evidence, and their readers, one for each protocol.

A reply is hostile text: no reader raises, none takes more than time linear in the length of the reply, and
none gives an answer that is not written there for that question.

`read_paper` does what the released script does, quirks included, so that its results can be reproduced.
`read_corrected` also reads what that script loses: other spellings of the keys, ids as keys, nested lists,
braces inside strings, and objects with a broken quote or a missing comma.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from refbench.benchmarks.creval.cases import METRICS, Question, nfc
from refbench.benchmarks.kit.definition import Dataset, ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, place_in, reply_in
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Reading, YesNo
from refbench.judges.contract import settled
from refbench.judges.dialects import Dialect, Statement, begun_objects, plain_words
from refbench.judges.values import Pairs, decoded, objects
from refbench.record import RefBenchError
from refbench.specs import nearest
from refbench.text.files import json_file

NOT_FOUND = "未找到对应回答"
"""What the released script stores for a question that no object answers; kept so that results compare equal."""

Verdict = Literal["yes", "no"]

Answers: TypeAlias = tuple[str | None, ...]
"""What the judge said to each question: Yes or No, other words, or None (or the paper's marker) for nothing."""


def read_choice(words: str) -> Verdict | None:
    """Yes or no, if the words are one of them, alone or before a comma, full stop or bracket.

    "No visible change" is not read as no: to "is it unchanged?" it would mean yes.
    """
    if words in _PLAIN_CHOICES:
        return _PLAIN_CHOICES[words]
    match = _CHOICE.match(words)
    return None if match is None else ("yes" if match[1].lower() == "yes" else "no")


_PLAIN_CHOICES: dict[str, Verdict] = {"Yes": "yes", "No": "no"}
_CHOICE = re.compile(r"[\s*`\"'“”‘’.]*(yes|no)[\s*`\"'“”‘’]*(?:[,.;:!(].*)?$", re.IGNORECASE | re.DOTALL)


# --- the released script's way -------------------------------------------------------------------------------


def read_paper(reply: str, questions: Sequence[Question]) -> Answers | Failure:
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
    for decoded_object in objects:
        asked = decoded_object.get("Question", "")
        if isinstance(asked, str) and asked.startswith(question_id):
            answer = decoded_object.get("answer", "")
            return answer.strip() if isinstance(answer, str) else ""
    return NOT_FOUND


# --- ours ----------------------------------------------------------------------------------------------------


def read_corrected(reply: str, questions: Sequence[Question]) -> Answers | Failure:
    """What the reply says to each question, or why it says nothing at all."""
    texts = {question.id: question.text for question in reversed(questions)}  # of two copies the first
    contract = _contract(tuple(texts.items()))
    statements = contract.statements(reply)
    if isinstance(statements, Failure):
        return statements
    if not any(statements.values()):
        return Failure(kind="unparsable", detail=f"no answer in {reply.strip()[:80]!r}")
    answers = {
        criterion.name: _words(settled(criterion, statements[criterion.name])) for criterion in contract.criteria
    }
    return tuple(answers.get(question.id) for question in questions)


@lru_cache(maxsize=1024)  # the replies of all models to an item are read one after the other
def _contract(texts: tuple[tuple[str, str], ...]) -> Contract:
    asked = [Criterion(name, YesNo(), text) for name, text in sorted(texts) if _PLAIN_ID.fullmatch(name)]
    return Contract(_DIALECT, tuple(asked) or (Criterion("Q1", YesNo()),))


@lru_cache(maxsize=1024)
def _names_by_text(criteria: tuple[Criterion, ...]) -> dict[str, str]:
    """The question ids by the words of the questions, spelling aside."""
    return {text: c.name for c in criteria if (text := plain_words(c.description))}


def _words(reading: Reading) -> str | None:
    if isinstance(reading, bool):
        return "Yes" if reading else "No"
    return reading if isinstance(reading, str) else None


def _statements(reply: str, criteria: Sequence[Criterion]) -> Iterator[Statement]:
    """(question id, answer) for every answer written in the reply: yes or no, or other words as they are."""
    texts = _names_by_text(tuple(criteria))
    names = {criterion.name for criterion in criteria}
    values, around = decoded(reply)
    answers = [answer for value in values for pairs in objects(value) for answer in _in_object(pairs, texts)]
    answers += [answer for text in around if not text.isspace() for answer in _in_broken_text(text)]
    for name, words in answers:
        if name in names:
            choice = read_choice(words)
            yield name, choice == "yes" if choice else words or Failure(kind="unparsable", detail="an empty answer")


_DIALECT = Dialect("creval", _statements, reads_drafts=True)


def _in_object(pairs: Pairs, texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The answers of one object. An object that names no question, or several, answers none."""
    fields = [(key.strip().casefold(), item) for key, item in pairs]
    answers = [item for name, item in fields if name == "answer" and isinstance(item, str)]
    asked: set[str] = set()
    for name, item in fields:
        if name[:1] not in ("q", "i"):  # most keys: none of these forms begins otherwise
            continue
        if name in ("question", "question_id", "id") and isinstance(item, str):
            if match := _ID.match(item.strip()):
                asked.add(f"Q{int(match[1])}")
            elif plain_words(item) in texts:
                asked.add(texts[plain_words(item)])
        elif match := _NUMBERED_KEY.fullmatch(name):
            asked.add(f"Q{int(match[1])}")
            if isinstance(item, str) and (inside := _ID.match(item.strip())):
                asked.add(f"Q{int(inside[1])}")
        elif match := _ID_KEY.fullmatch(name):
            question = f"Q{int(match[1])}"
            if isinstance(item, Pairs):  # {"Q1": {"explanation": ..., "answer": "Yes"}}
                for inner, value in item:
                    if inner.strip().casefold() == "answer" and isinstance(value, str):
                        yield question, value
            elif not answers and isinstance(item, str) and read_choice(item):  # {"Q1": "Yes", "Q2": "No"}
                yield question, item
            else:
                asked.add(question)
    if len(asked) == 1:
        yield from ((next(iter(asked)), words.strip()) for words in answers)


# Every repetition below is bounded or cannot overlap its neighbour: no reply makes these backtrack for long.
_PLAIN_ID = re.compile(r"Q(?:0|[1-9][0-9]*)")
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


def _in_broken_text(text: str) -> Iterator[tuple[str, str]]:
    """Answers in text that no decoder takes: from the name of a question to the end of its object."""
    for head, behind in begun_objects(text, _HEAD):
        question = f"Q{int(head[1] or head[2] or head[3])}"
        yield from ((question, answer[1].strip()) for answer in _ANSWER.finditer(behind))


# --- replies given elsewhere ---------------------------------------------------------------------------------


JUDGES = {"answer_gpt": "gpt-4o", "answer_qwen": "qwen3-vl"}
"""Who wrote the replies in the released folders; other folders go by their own name."""


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """Find the replies of the wanted models (all by default) and check the folder before anything is read."""
    if not folder.is_dir():
        raise RefBenchError(f"{folder} is not there: give --replies a folder with IF, VC and VQ inside")
    there = [metric for metric in METRICS if (folder / metric).is_dir()]
    if not there:
        inside = [name for name in JUDGES if (folder / name).is_dir()]
        hint = f"did you mean {folder / inside[0]}?" if inside else "give --replies a folder with IF, VC and VQ inside"
        raise RefBenchError(f"{folder} holds no replies: {hint}")
    model_names = sorted({path.name for metric in there for path in (folder / metric).iterdir() if path.is_dir()})
    if not model_names:
        raise RefBenchError(f"{folder} holds no model folders inside {', '.join(there)}")
    for wanted in models or ():
        if wanted not in model_names:
            raise RefBenchError(f"--model {wanted}: {folder} has no such model; {nearest(wanted, model_names)}")
    chosen = tuple(dict.fromkeys(models)) if models else tuple(model_names)
    name = judge or JUDGES.get(folder.name) or folder.name.removeprefix("answer_")
    ids = {nfc(case.id): case.id for case in dataset.cases}
    files = {(metric, model): _files(folder / metric / model) for metric in there for model in chosen}
    left_out = {nfc(name) for name in dataset.outside}
    strangers = [
        (f"{m}/{model}/{stem}", stem) for (m, model), stems in files.items() for stem in stems if stem not in ids
    ]
    unknown = tuple(reply for reply, stem in strangers if stem not in left_out)
    outside = tuple(reply for reply, stem in strangers if stem in left_out)
    if not any(stem in ids for stems in files.values() for stem in stems):
        raise RefBenchError(
            f"none of the replies in {folder} is for an item of {dataset.root}: is --data the right one?"
        )

    def replies() -> Iterator[tuple[Purpose, Evidence]]:
        for (metric, model), stems in files.items():
            for stem, path in stems.items():
                if stem in ids:
                    purpose = Purpose(case=ids[stem], model=model, judge=name, part=metric)
                    origin = place_in(folder, path)
                    yield imported_reply("creval", purpose, _read(path), origin, metric=metric)

    return ImportedReplies(judge=name, models=chosen, replies=replies, unknown=unknown, outside=outside)


def _files(folder: Path) -> dict[str, Path]:
    """Stem to the reply's text, or to the result file where only that is there."""
    if not folder.is_dir():
        return {}
    names = sorted(name for name in os.listdir(folder) if name.endswith((".txt", ".json")) and name[0] != ".")
    by_stem: dict[str, Path] = {}
    for path in (folder / name for name in names):
        if path.suffix == ".txt" or nfc(path.stem) not in by_stem:
            by_stem[nfc(path.stem)] = path
    return by_stem


def _read(path: Path) -> str | Failure:
    """The reply, or the Failure that the result file beside it tells of."""
    text = reply_in(path) if path.suffix == ".txt" else ""
    if isinstance(text, Failure) or text.strip():
        return text
    result = path.with_suffix(".json")
    try:
        stored = json_file(result, "it has no text beside it") if result.exists() else {}
    except RefBenchError as error:
        return Failure(kind="missing_reply", detail=str(error).replace(str(result), result.name))
    if isinstance(stored, dict) and stored.get("error"):
        return Failure(kind="api_error", detail=str(stored["error"])[:500])
    if path.suffix == ".txt":
        return text
    return Failure(kind="missing_reply", detail=f"{path.name} is a result without the reply it was made from")
