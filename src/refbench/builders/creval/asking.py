"""What is asked of writer and checker, and how their replies become screenings, instructions and questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from refbench.benchmarks.creval.details import DIMENSIONS, Metric
from refbench.builders.creval.checks import instruction_fault, question_fault, tidy
from refbench.builders.creval.dimensions import Dimension
from refbench.builders.creval.item import LEAST, MOST, ItemQuestion
from refbench.builders.replies import line, lines, told
from refbench.builders.texts import same_question
from refbench.failure import Failure
from refbench.judges.placeholders import filled
from refbench.record import Record, content_key

TOKENS = {"screen": 1000, "instruction": 2000, "questions": 4000, "audit": 3000}
"""Most that a reply may have; `?max_tokens=` in a spec overrides it."""

_PROMPTS = ("screen", "instruction", "questions_if", "questions_vc", "questions_vq", "form", "replace")
_LISTED = {
    "IF": ("requirements", "a requirement"),
    "VC": ("may_change", "something that may change"),
    "VQ": ("places", "a place where the edit shows"),
}


class Screening(Record):
    """What the writer makes of a picture."""

    seen: str
    usable: bool
    reason: str
    suits: tuple[int, ...]


@dataclass(frozen=True)
class Written:
    """Questions that passed the checks, and (question, kind, what is wrong) of those that did not."""

    listed: tuple[str, ...]
    questions: tuple[ItemQuestion, ...]
    faults: tuple[tuple[str, str, str], ...]


def prompts_key() -> str:
    """Of the words as they are shipped: other words make another dataset."""
    return content_key([_prompt(name) for name in _PROMPTS])[:16]


# --- the picture ---------------------------------------------------------------------------------------------


def screen_prompt(dimensions: Mapping[int, Dimension]) -> str:
    listed = "\n".join(f"{d.id}. {d.name}: {d.definition}" for d in dimensions.values())
    return filled(_prompt("screen"), {"dimensions": listed})


def read_screening(reply: str) -> Screening | Failure:
    said = told(reply, ("seen", "usable", "reason", "suits"))
    if isinstance(said, Failure):
        return said
    usable = (
        said["usable"]
        if isinstance(said["usable"], bool)
        else {"yes": True, "no": False}.get(line(said["usable"]).casefold())
    )
    if usable is None:
        return Failure(kind="unparsable", detail='"usable" is neither "Yes" nor "No"')
    suits = said["suits"]
    if not isinstance(suits, list) or any(type(one) is not int or one not in DIMENSIONS for one in suits):
        return Failure(kind="unparsable", detail='"suits" is no list of numbers from 1 to 9')
    return Screening(
        seen=line(said["seen"]), usable=usable, reason=line(said["reason"]), suits=tuple(sorted(set(suits)))
    )


# --- the instruction -----------------------------------------------------------------------------------------


def instruction_prompt(dimension: Dimension, examples: Sequence[str]) -> str:
    return filled(
        _prompt("instruction"),
        {
            "dimension": dimension.name,
            "definition": dimension.definition,
            "examples": "\n".join(f"- {example}" for example in examples),
        },
    )


def read_instruction(reply: str, examples: Sequence[str]) -> str | Failure:
    said = told(reply, ("thinking", "instruction"))
    if isinstance(said, Failure):
        return said
    text = line(said["instruction"])
    if wrong := instruction_fault(text, examples):
        return Failure(kind="unparsable", detail=wrong)
    return text


# --- the questions -------------------------------------------------------------------------------------------


def questions_prompt(metric: Metric, instruction: str) -> str:
    """Reason first: the list, then for each question what it rests on, then the question."""
    listed, item = _LISTED[metric]
    form = filled(
        _prompt("form"),
        {
            "least": str(LEAST),
            "most": str(MOST),
            "list": listed,
            "item": item,
            "weight": ', "weight": <1, 2 or 3>' if metric == "VC" else "",
        },
    )
    return filled(_prompt(f"questions_{metric.lower()}"), {"instruction": instruction}) + "\n\n" + form


def replacing_prompt(metric: Metric, flagged: Sequence[str], kept: Sequence[str]) -> str:
    """What is said besides, when the audit has turned questions down."""
    wrong = "answered Yes" if metric == "IF" else "did not answer Yes"
    return filled(
        _prompt("replace"),
        {
            "complaint": wrong,
            "questions": "\n".join(f"- {text}" for text in flagged),
            "wanted": "No" if metric == "IF" else "Yes too",
            "kept": "\n".join(f"- {text}" for text in kept) or "- (none)",
        },
    )


def read_questions(reply: str, metric: Metric, *, least: int = LEAST, taken: Sequence[str] = ()) -> Written | Failure:
    """The questions that pass the checks, if they are enough; `taken` ones count as duplicates."""
    key = _LISTED[metric][0]
    said = told(reply, (key, "questions"))
    if isinstance(said, Failure):
        return said
    listed = lines(said[key])
    if not listed:
        return Failure(kind="unparsable", detail=f'"{key}" lists nothing: it comes before the questions')
    if not isinstance(said["questions"], list):
        return Failure(kind="unparsable", detail='"questions" is no list')
    seen = {same_question(text) for text in taken}
    good: list[ItemQuestion] = []
    faults: list[tuple[str, str, str]] = []
    for entry in said["questions"]:
        read = _read_question(entry, metric)
        if isinstance(read, ItemQuestion) and same_question(read.question) in seen:
            read = (read.question, "duplicate", "it is there already in other words")
        elif isinstance(read, ItemQuestion) and len(good) == MOST:
            read = (read.question, "surplus", f"more than {MOST} questions")
        if isinstance(read, ItemQuestion):
            seen.add(same_question(read.question))
            good.append(read)
        else:
            faults.append(read)
    if len(good) < least:
        shown = "; ".join(f"{text[:80]!r}: {wrong}" for text, _, wrong in faults[:6])
        detail = f"{len(good)} questions can be used, at least {least} are needed" + (f" ({shown})" if shown else "")
        return Failure(kind="unparsable", detail=detail)
    return Written(listed, tuple(good), tuple(faults))


def _read_question(entry: object, metric: Metric) -> ItemQuestion | tuple[str, str, str]:
    if not isinstance(entry, dict):
        return str(entry)[:80], "no object", "it is no object with the keys thinking, question, answer"
    text = tidy(line(entry.get("question")))
    if fault := question_fault(text):
        return text, *fault
    thinking = line(entry.get("thinking"))
    if not thinking:
        return text, "no reason", "it does not say what it rests on"
    if line(entry.get("answer")).casefold() != "yes":
        return text, "reference", 'the answer of a perfect edit must be "Yes"'
    weight = entry.get("weight") if metric == "VC" else 1
    if type(weight) is not int or weight not in (1, 2, 3):
        return text, "weight", "its weight is not 1, 2 or 3"
    return ItemQuestion(question=text, thinking=thinking, weight=weight)


def _prompt(name: str) -> str:
    return resources.files("refbench.builders.creval").joinpath(f"prompts/{name}.txt").read_text("utf-8").strip()
