"""What is asked of writer and checker about a design task, how their replies become briefs, questions and verdicts, and
what makes one of these unfit to ship."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from refbench.benchmarks.ideabench.cases import COUNT_MARK
from refbench.builders.ideabench.item import LEVELS, DesignTask, GradedQuestion, Item
from refbench.builders.kit.replies import (
    Prompts,
    is_one_question,
    is_yes_or_no,
    line,
    lines,
    numbered,
    package_text,
    reads,
    same_question,
    text_fault,
    unusable,
)
from refbench.failure import Failure
from refbench.models.wrappers.wrapper import is_refusal, wording

WRITTEN = (40, 400)
"""Words of a brief that the writer writes; those of the release have 139 on average."""
GIVEN = (3, 2000)
_QUESTION = (4, 70)
_STANDARD = (2, 80)

_TASTE = re.compile(
    r"(?i)\b(?:beautiful(?:ly)?|pretty|attractive(?:ly)?|appealing|pleasing|nice(?:ly)?|impressive|stunning|elegant(?:ly)?|"
    r"interesting|creative(?:ly)?)\b"
)
_HALVES = re.compile(
    r"\b(?:half (?:a )?points?|0\.5|partial(?:ly)? credit|between 0 and 1|[2-9] points)\b", re.IGNORECASE
)


def instruction_fault(text: str, limits: tuple[int, int] = GIVEN) -> str:
    """What is wrong with a brief, "" when nothing is."""
    if fault := text_fault(re.sub(r"[\n\t\r]", " ", text), *limits):
        return fault[1]
    if is_refusal(text):
        return "it declines instead of instructing"
    return mark_fault(text)


def question_fault(asked: GradedQuestion, task: DesignTask) -> str:
    """What is wrong with a question by itself, "" when nothing is."""
    for name, text, limits in (
        ("question", asked.question, _QUESTION),
        ("zero", asked.zero, _STANDARD),
        ("one", asked.one, _STANDARD),
    ):
        if fault := text_fault(text, *limits, what=f'its "{name}"'):
            return fault[1]
        if wrong := mark_fault(text):
            return wrong
        if found := _HALVES.search(text):
            return f"it speaks of {found[0]!r}, but only 0 and 1 can be earned"
    if not is_one_question(asked.question):
        return "it is not one sentence that ends in one question mark"
    if not is_yes_or_no(asked.question):
        return "Yes or No does not answer it"
    if found := _TASTE.search(asked.question):
        return f"{found[0]!r} is a matter of taste: say what one sees"
    if same_question(asked.zero) == same_question(asked.one):
        return "the standards for 0 and for 1 say the same"
    if not asked.results or not set(asked.results) <= set(range(1, task.outputs + 1)):
        return f'its "results" are not numbers from 1 to {task.outputs}'
    if not set(asked.references) <= set(range(1, len(task.pictures) + 1)):
        count = len(task.pictures)
        return f'its "references" are not numbers from 1 to {count}' if count else "there are no references to look at"
    return ""


def set_faults(questions: Sequence[GradedQuestion], keywords: Sequence[str]) -> list[str]:
    """What is wrong with the questions of a case together."""
    found: list[str] = []
    seen: dict[frozenset[str], int] = {}
    for number, asked in enumerate(questions, 1):
        first = seen.setdefault(same_question(asked.question), number)
        if first != number:
            found.append(f"question {number} asks what question {first} asks")
    tested = {asked.capability for asked in questions}
    found += [f"no question tests {keyword}" for keyword in keywords if keyword not in tested]
    return found


def mark_fault(text: str) -> str:
    """Whether the text would make the released scripts take a question for the one about the number of outputs."""
    # With these words anywhere in a question, the released stitching shows a number in place of the pictures.
    return "it asks for the number of pictures, which is counted" if COUNT_MARK.casefold() in text.casefold() else ""


PROMPTS = Prompts(
    "refbench.builders.ideabench",
    ("instruction", "capabilities", "questions", "already", "keyword_rule", "again", "check", "judge", "count"),
)
_CHECKS = ("objective", "standards", "level")
_MOST_CAPABILITIES = 3


def _shown(task: DesignTask, text: str) -> list[str | Path]:
    """The references, each by its number, then the text."""
    return [*numbered("Reference {}:", [picture.path for picture in task.pictures]), text]


# --- the brief -----------------------------------------------------------------------------------------------


def instruction_parts(task: DesignTask) -> list[str | Path]:
    return _shown(task, PROMPTS("instruction", **_facts(task, "")))


@reads("thinking", "instruction")
def read_instruction(said: dict[str, Any]) -> str | Failure:
    text = line(said["instruction"])
    wrong = instruction_fault(text, WRITTEN)
    return unusable(wrong) if wrong else text


# --- capability keywords -------------------------------------------------------------------------------------


def fitting_capabilities(task: DesignTask) -> dict[str, str]:
    """The keywords that a task of so many pictures can be about, with what they mean."""
    needs = {"references": len(task.pictures) > 1, "results": task.outputs > 1}
    return {name: said["means"] for name, said in capabilities().items() if needs[said["needs"]]}


def capabilities_parts(task: DesignTask, instruction: str) -> list[str | Path]:
    listed = "\n".join(f"- {name}: {means}" for name, means in fitting_capabilities(task).items())
    return _shown(task, PROMPTS("capabilities", **_facts(task, instruction), capabilities=listed))


@reads("capabilities")
def read_capabilities(said: dict[str, Any], task: DesignTask) -> tuple[str, ...] | Failure:
    chosen = tuple(dict.fromkeys(lines(said["capabilities"])))
    known = fitting_capabilities(task)
    if strange := [name for name in chosen if name not in known]:
        return unusable(f"{strange[0][:60]!r} is none of {', '.join(known)}")
    if not 1 <= len(chosen) <= _MOST_CAPABILITIES:
        return unusable(f"{len(chosen)} keywords were chosen, not 1 to {_MOST_CAPABILITIES}")
    return chosen


# --- the questions -------------------------------------------------------------------------------------------


def questions_prompt(task: DesignTask, instruction: str, keywords: Sequence[str]) -> str:
    levels = LEVELS[task.first_level :]
    known = fitting_capabilities(task)
    listed = "\n".join(f"  {name}: {known[name]}" for name in keywords)
    return PROMPTS(
        "questions",
        **_facts(task, instruction),
        count=str(len(levels)),
        levels=", ".join(levels),
        **{level: _times(levels.count(level)) for level in set(LEVELS)},
        already=PROMPTS("already", **_facts(task, "")) if task.first_level else "",
        keyword_rule=PROMPTS("keyword_rule", capabilities=listed) if keywords else "",
        first_reference="1" if task.pictures else "",
        capability_key=', "capability": "..."' if keywords else "",
    )


def questions_parts(item: Item, complaints: Sequence[str]) -> list[str | Path]:
    """What is asked for the questions of a case; once more where there are complaints about those that it has."""
    text = questions_prompt(item.task, item.instruction, item.capabilities)
    if complaints:
        listed = "\n".join(f"- {complaint}" for complaint in complaints)
        count = str(len(item.questions))
        text += "\n\n" + PROMPTS("again", questions=listed_questions(item), complaints=listed, count=count)
    return _shown(item.task, text)


@reads("thinking", "questions")
def read_questions(
    said: dict[str, Any], task: DesignTask, keywords: Sequence[str]
) -> tuple[GradedQuestion, ...] | Failure:
    """All the questions, each fit by itself and all together; one that is not makes all be asked for again."""
    levels = LEVELS[task.first_level :]
    entries = said["questions"]
    if not isinstance(entries, list) or len(entries) != len(levels):
        many = len(entries) if isinstance(entries, list) else "no list of"
        return unusable(f"{many} questions, not {len(levels)}")
    found: list[GradedQuestion] = []
    faults: list[str] = []
    for number, (entry, level) in enumerate(zip(entries, levels, strict=True), 1):
        asked = graded(entry, task)
        if isinstance(asked, str):
            faults.append(f"question {number}: {asked}")
        elif line(entry.get("level")).casefold() != level:
            faults.append(f"question {number}: its level is not {level}")
        elif asked.capability and asked.capability not in keywords:
            faults.append(f"question {number}: its capability is none of {', '.join(keywords) or 'these'}")
        else:
            found.append(asked)
    faults = faults or set_faults(found, keywords)
    return unusable("; ".join(faults[:6])) if faults else tuple(found)


def graded(entry: Any, task: DesignTask) -> GradedQuestion | str:
    """A question of a reply or a review, or what is wrong with it."""
    if not isinstance(entry, Mapping):
        return "it is no object with the keys question, zero and one"
    results = _numbers(entry.get("results", list(range(1, task.outputs + 1))))
    references = _numbers(entry.get("references", list(range(1, len(task.pictures) + 1))))
    if results is None or references is None:
        return '"references" and "results" are lists of numbers'
    asked = GradedQuestion(
        question=line(entry.get("question")),
        zero=line(entry.get("zero")),
        one=line(entry.get("one")),
        references=references,
        results=results,
        capability=line(entry.get("capability")),
    )
    return question_fault(asked, task) or asked


# --- the check -----------------------------------------------------------------------------------------------


def check_parts(item: Item) -> list[str | Path]:
    values = {"questions": listed_questions(item), "first": str(item.task.first_level + 1)}
    return _shown(item.task, PROMPTS("check", **_facts(item.task, item.instruction), **values))


@reads("verdicts")
def read_check(said: dict[str, Any], item: Item) -> tuple[str, ...] | Failure:
    """The complaints of the checker; none where every question passed every check."""
    first = item.task.first_level + 1
    numbers = list(range(first, first + len(item.questions)))
    entries = said["verdicts"] if isinstance(said["verdicts"], list) else []
    if [entry.get("number") if isinstance(entry, Mapping) else None for entry in entries] != numbers:
        return unusable(f"not one verdict for each of the questions {numbers}, in order")
    complaints: list[str] = []
    for entry in entries:
        verdicts = {name: line(entry.get(name)).casefold() for name in _CHECKS}
        if strange := [name for name, verdict in verdicts.items() if verdict not in ("yes", "no")]:
            return unusable(f'question {entry["number"]}: "{strange[0]}" is not "Yes" or "No"')
        if failed := [name for name, verdict in verdicts.items() if verdict == "no"]:
            complaints.append(f"question {entry['number']}, {' and '.join(failed)}: {line(entry.get('reason'))}"[:400])
    return tuple(complaints)


def listed_questions(item: Item) -> str:
    return "\n".join(
        f"{number}. ({LEVELS[number - 1]}) {asked.question}\n   0 points: {asked.zero}\n   1 point: {asked.one}"
        for number, asked in enumerate(item.questions, item.task.first_level + 1)
    )


# --- rephrasing ----------------------------------------------------------------------------------------------


def rephrasing_parts(task: DesignTask, instruction: str) -> list[str | Path]:
    """The question that the rephrase wrapper asks, word for word, so that both give prompts of one kind."""
    values = {"count": str(task.outputs), "shown": str(len(task.pictures)), "size": "not fixed"}
    text = wording("refbench.models.wrappers", "rephrase.txt", instruction=instruction, **values)
    return [text, *numbered("Picture {} (reference):", [picture.path for picture in task.pictures])]


def _facts(task: DesignTask, instruction: str) -> dict[str, str]:
    return {
        "task": task.name,
        "keywords": ", ".join(task.keywords) or "none",
        "instruction": instruction,
        "references": str(len(task.pictures) or "none"),
        "outputs": str(task.outputs),
    }


def _times(count: int) -> str:
    return "1 question" if count == 1 else f"{count} questions"


def _numbers(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        return None
    return tuple(sorted(set(value)))


@cache
def capabilities() -> Mapping[str, Mapping[str, str]]:
    """What each capability keyword means, and what of a task it needs several of."""
    return tomllib.loads(package_text("refbench.builders.ideabench", "capabilities.toml"))
