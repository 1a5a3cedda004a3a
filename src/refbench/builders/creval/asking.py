"""What is asked of writer, checker and auditor, how their replies become screenings, instructions, questions and flags,
and what makes an instruction or a question unfit to ship."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refbench.benchmarks.creval.cases import DIMENSIONS, Metric, Question
from refbench.benchmarks.creval.judge import PLACEHOLDER, own_wording, question_block
from refbench.benchmarks.creval.replies import read_choice, read_corrected
from refbench.builders.creval.dimensions import Dimension
from refbench.builders.creval.item import LEAST, MOST, ItemQuestion
from refbench.builders.kit.replies import (
    Prompts,
    is_one_question,
    is_yes_or_no,
    line,
    lines,
    read_object,
    reads,
    repeats,
    same_question,
    text_fault,
    unusable,
    words,
)
from refbench.failure import Failure
from refbench.models.wrappers.wrapper import is_refusal
from refbench.record import Record

SHORTEST, LONGEST = 8, 250
"""Words of an instruction; the release has 6 to 249."""
_QUESTION_WORDS = (4, 60)

_TWO_IN_ONE = re.compile(
    r"(?i)(?:,|;)\s*(?:and|or)\s+(?:is|are|does|do|did|has|have|can|was|were)\b|\band\s+(?:is|are|does|do|did)\s+the\b"
)
_LEAK = re.compile(
    r"(?i)\byes\b|\b(?:correct|right|expected|reference) answer\b|\banswer(?:ed)? (?:is|should|must)\b|"
    r",\s*(?:right|correct|true|yes|no|agreed?)\s*\?$|"
    r"\b(?:is|are|does|do|has|have)n['’]t (?:it|they|he|she|that|this)\s*\?$"
)
_NOT_SHOWN = re.compile(
    r"(?i)\b(?:instructions?|instructed|prompt(?:ed|s)?|"
    r"as (?:requested|asked|described|specified|required|told|intended)|requested|"
    r"(?:the )?(?:user|writer)(?:'s|’s)? (?:request|wish|wants?))\b"
)
_OUR_TALK = re.compile(
    r"\b(?:as an ai|json|this dimension|the rules above|image[ _]?\d|<image|image (?:a|b)\b|input image)", re.I
)
_NUMBERING = re.compile(r"^(?:Q?\d{1,2}\s*[.):]\s*|[-•]\s+)", re.IGNORECASE)


def tidy(text: str) -> str:
    """A question without the dress that writers give it: numbers, mark-up, double quotation marks.

    Judges repeat the question inside JSON, where a double quotation mark that they do not escape loses the answer:
    44 answers of the release were lost so.
    """
    plain = _NUMBERING.sub("", text.replace("*", "").replace("`", "").strip())
    for mark in '"“”„«»':
        plain = plain.replace(mark, "'")
    return plain.strip()


def instruction_fault(text: str, examples: Sequence[str] = ()) -> str:
    """What is wrong with an instruction, "" when nothing is."""
    if fault := text_fault(text, SHORTEST, LONGEST):
        return fault[1]
    if "{" in text or "}" in text:
        return "the instruction has braces"
    if is_refusal(text):
        return "it declines instead of instructing"
    if found := _OUR_TALK.search(text):
        return f"the instruction says {found[0]!r}, which an editor with one picture does not understand"
    if text.rstrip().endswith("?"):
        return "the instruction is a question"
    if repeats(text, examples):
        return "the instruction repeats one of the examples"
    return ""


def question_fault(text: str) -> tuple[str, str] | None:
    """The kind of what is wrong with a question (to count by) and what it is; None when nothing is."""
    count = len(words(text))
    if not count:
        return "blank", "it is empty"
    if "{" in text or "}" in text or "\\" in text:
        return "braces", "braces or backslashes break the released reader of replies"
    if not text.isprintable():
        return "unprintable", "it has characters that cannot be shown"
    if not is_one_question(text):
        return "not one question", "it is not one sentence that ends in one question mark"
    if not _QUESTION_WORDS[0] <= count <= _QUESTION_WORDS[1]:
        return "length", f"it has {count} words, not {_QUESTION_WORDS[0]} to {_QUESTION_WORDS[1]}"
    if found := _NOT_SHOWN.search(text):
        return "unanswerable", f"the reviewer does not know the instruction, and it says {found[0]!r}"
    if _LEAK.search(text):
        return "leaking answer", "it hints at its answer"
    if not is_yes_or_no(text):
        return "unanswerable", "Yes or No does not answer it"
    if _TWO_IN_ONE.search(text):
        return "two in one", "it asks about two things"
    return None


PROMPTS = Prompts(
    "refbench.builders.creval",
    ("screen", "instruction", "questions_if", "questions_vc", "questions_vq", "form", "replace"),
)
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


# --- the picture ---------------------------------------------------------------------------------------------


def screen_prompt(dimensions: Mapping[int, Dimension]) -> str:
    listed = "\n".join(f"{number}. {one.name}: {one.definition}" for number, one in dimensions.items())
    return PROMPTS("screen", dimensions=listed)


@reads("seen", "usable", "reason", "suits")
def read_screening(said: dict[str, Any]) -> Screening | Failure:
    usable = said["usable"]
    if not isinstance(usable, bool):
        usable = {"yes": True, "no": False}.get(line(usable).casefold())
    if usable is None:
        return unusable('"usable" is neither "Yes" nor "No"')
    suits = said["suits"]
    if not isinstance(suits, list) or any(type(one) is not int or one not in DIMENSIONS for one in suits):
        return unusable('"suits" is no list of numbers from 1 to 9')
    return Screening(
        seen=line(said["seen"]), usable=usable, reason=line(said["reason"]), suits=tuple(sorted(set(suits)))
    )


# --- the instruction -----------------------------------------------------------------------------------------


def instruction_prompt(dimension: Dimension, examples: Sequence[str]) -> str:
    listed = "\n".join(f"- {example}" for example in examples)
    return PROMPTS("instruction", dimension=dimension.name, definition=dimension.definition, examples=listed)


@reads("thinking", "instruction")
def read_instruction(said: dict[str, Any], examples: Sequence[str]) -> str | Failure:
    text = line(said["instruction"])
    wrong = instruction_fault(text, examples)
    return unusable(wrong) if wrong else text


# --- the questions -------------------------------------------------------------------------------------------


def questions_prompt(metric: Metric, instruction: str) -> str:
    """Reason first: the list, then for each question what it rests on, then the question."""
    listed, item = _LISTED[metric]
    weight = ', "weight": <1, 2 or 3>' if metric == "VC" else ""
    asked = PROMPTS(f"questions_{metric.lower()}", instruction=instruction)
    form = PROMPTS("form", least=str(LEAST), most=str(MOST), list=listed, item=item, weight=weight)
    return f"{asked}\n\n{form}"


def replacing_prompt(metric: Metric, flagged: Sequence[str], kept: Sequence[str]) -> str:
    """What is said besides, when the audit has turned questions down."""
    return PROMPTS(
        "replace",
        complaint="answered Yes" if metric == "IF" else "did not answer Yes",
        questions="\n".join(f"- {text}" for text in flagged),
        wanted="No" if metric == "IF" else "Yes too",
        kept="\n".join(f"- {text}" for text in kept) or "- (none)",
    )


def read_questions(reply: str, metric: Metric, least: int = LEAST, taken: Sequence[str] = ()) -> Written | Failure:
    """The questions that pass the checks, if they are enough; `taken` ones count as duplicates."""
    key = _LISTED[metric][0]
    said = read_object(reply, (key, "questions"))
    if isinstance(said, Failure):
        return said
    listed = lines(said[key])
    if not listed:
        return unusable(f'"{key}" lists nothing: it comes before the questions')
    if not isinstance(said["questions"], list):
        return unusable('"questions" is no list')
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
        why = f" ({shown})" if shown else ""
        return unusable(f"{len(good)} questions can be used, at least {least} are needed{why}")
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


# --- the audit -----------------------------------------------------------------------------------------------
# The questions asked of the unedited source, as a judge would get them for a model that did nothing. An IF question
# that is answered Yes there cannot tell an edit from none; a VC question that is not answered Yes asks for something
# that the original does not have.

AUDITED: tuple[Metric, ...] = ("IF", "VC")
"""Quality questions are about the edit's workmanship: of a picture without one they tell nothing."""


def audit_prompt(questions: Sequence[ItemQuestion]) -> str:
    """The words of our own rubric: the audit is a judgement of the copy that edits nothing."""
    wording = own_wording()
    return f"{wording['system']}\n\n{wording['answer'].replace(PLACEHOLDER, question_block(_asked(questions)))}"


def read_audit(reply: str, metric: Metric, questions: Sequence[ItemQuestion]) -> tuple[bool, ...] | Failure:
    """For each question whether it is flagged; a question without an answer makes the audit be asked for again."""
    answers = read_corrected(reply, _asked(questions))
    if isinstance(answers, Failure):
        return answers
    missing = [f"Q{n}" for n, answer in enumerate(answers, 1) if answer is None]
    if missing:
        return unusable(f"no one answer to {', '.join(missing)}")
    said_yes = tuple(read_choice(answer or "") == "yes" for answer in answers)
    return said_yes if metric == "IF" else tuple(not yes for yes in said_yes)  # "not applicable" is no thing to be kept


def _asked(questions: Sequence[ItemQuestion]) -> list[Question]:
    return [
        Question(id=f"Q{n}", text=one.question, choices=("Yes", "No"), reference="Yes", weight=one.weight)
        for n, one in enumerate(questions, 1)
    ]
