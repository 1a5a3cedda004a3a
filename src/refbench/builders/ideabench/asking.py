"""Machine checks of briefs and graded questions: what makes one unfit to ship, in words that its writer can act on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from refbench.benchmarks.ideabench.cases import COUNT_MARK
from refbench.builders.ideabench.item import LEVELS, Graded, Sought
from refbench.builders.kit.replies import line, lines, same_question, told, words
from refbench.failure import Failure
from refbench.judges.prompts import filled
from refbench.models.wrappers.shared import wording
from refbench.models.wrappers.vlm import is_refusal
from refbench.record import content_key

WRITTEN = (40, 400)
"""Words of a brief that the writer writes; those of the release have 139 on average."""
GIVEN = (3, 2000)
_QUESTION = (4, 70)
_STANDARD = (2, 80)

_OPEN_QUESTION = re.compile(r"(?:what|which|who|whom|whose|where|when|why|how)\b", re.IGNORECASE)
_AUXILIARY = re.compile(
    r"\b(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should|may|might|must)\b", re.IGNORECASE
)
_TASTE = re.compile(
    r"\b(?:beautiful(?:ly)?|pretty|attractive(?:ly)?|appealing|pleasing|nice(?:ly)?|impressive|stunning|elegant(?:ly)?|"
    r"interesting|creative(?:ly)?)\b",
    re.IGNORECASE,
)
_HALVES = re.compile(
    r"\b(?:half (?:a )?points?|0\.5|partial(?:ly)? credit|between 0 and 1|[2-9] points)\b", re.IGNORECASE
)


def instruction_fault(text: str, limits: tuple[int, int] = GIVEN) -> str:
    """What is wrong with a brief, "" when nothing is."""
    count = len(words(text))
    if not limits[0] <= count <= limits[1]:
        return f"the instruction has {count} words, not {limits[0]} to {limits[1]}"
    if not text.replace("\n", " ").replace("\t", " ").replace("\r", " ").isprintable():
        return "the instruction has characters that cannot be shown"
    if is_refusal(text):
        return "it declines instead of instructing"
    return mark_fault(text)


def question_fault(asked: Graded, task: Sought) -> str:
    """What is wrong with a question by itself, "" when nothing is."""
    for name, text, limits in (
        ("question", asked.question, _QUESTION),
        ("zero", asked.zero, _STANDARD),
        ("one", asked.one, _STANDARD),
    ):
        count = len(words(text))
        if not limits[0] <= count <= limits[1]:
            return f'its "{name}" has {count} words, not {limits[0]} to {limits[1]}'
        if not text.isprintable():
            return f'its "{name}" has characters that cannot be shown'
        if wrong := mark_fault(text):
            return wrong
        if found := _HALVES.search(text):
            return f"it speaks of {found[0]!r}, but only 0 and 1 can be earned"
    if asked.question.count("?") != 1 or not asked.question.endswith("?"):
        return "it is not one sentence that ends in one question mark"
    if _OPEN_QUESTION.match(asked.question) or not _AUXILIARY.search(asked.question):
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


def set_faults(questions: Sequence[Graded], capabilities: Sequence[str]) -> list[str]:
    """What is wrong with the questions of a case together."""
    found: list[str] = []
    seen: dict[frozenset[str], int] = {}
    for number, asked in enumerate(questions, 1):
        first = seen.setdefault(same_question(asked.question), number)
        if first != number:
            found.append(f"question {number} asks what question {first} asks")
    tested = {asked.capability for asked in questions}
    found += [f"no question tests {keyword}" for keyword in capabilities if keyword not in tested]
    return found


def mark_fault(text: str) -> str:
    """Whether the text would make the released scripts take a question for the one about the number of outputs."""
    # With these words anywhere in a question, the released stitching shows a number in place of the pictures.
    return "it asks for the number of pictures, which is counted" if COUNT_MARK.casefold() in text.casefold() else ""


# What is asked of writer and checker about a design task, and how their replies become briefs, questions, verdicts.

TOKENS = {"instruction": 2000, "capabilities": 800, "questions": 4000, "check": 3000, "rephrasing": 4000}
"""Most that a reply may have; `?max_tokens=` in a spec overrides it."""
_PROMPTS = ("instruction", "capabilities", "questions", "already", "keyword_rule", "again", "check", "judge", "count")
_CHECKS = ("objective", "standards", "level")
_MOST_CAPABILITIES = 3


def prompts_key() -> str:
    """Of the words as they are shipped: other words make another dataset."""
    return content_key([*(prompt(name) for name in _PROMPTS), dict(_capabilities())])[:16]


def shown(task: Sought, text: str) -> list[str | Path]:
    """The references, each by its number, then the text."""
    parts: list[str | Path] = []
    for number, picture in enumerate(task.pictures, 1):
        parts += [f"Reference {number}:", picture.path]
    return [*parts, text]


# --- the brief -----------------------------------------------------------------------------------------------


def instruction_prompt(task: Sought) -> str:
    return filled(prompt("instruction"), _facts(task, ""))


def read_instruction(reply: str) -> str | Failure:
    said = told(reply, ("thinking", "instruction"))
    if isinstance(said, Failure):
        return said
    text = line(said["instruction"])
    if wrong := instruction_fault(text, WRITTEN):
        return Failure(kind="unparsable", detail=wrong)
    return text


# --- capability keywords -------------------------------------------------------------------------------------


def fitting_capabilities(task: Sought) -> dict[str, str]:
    """The keywords that a task of so many pictures can be about, with what they mean."""
    needs = {"references": len(task.pictures) > 1, "results": task.outputs > 1}
    return {name: said["means"] for name, said in _capabilities().items() if needs[said["needs"]]}


def capabilities_prompt(task: Sought, instruction: str) -> str:
    listed = "\n".join(f"- {name}: {means}" for name, means in fitting_capabilities(task).items())
    return filled(prompt("capabilities"), {**_facts(task, instruction), "capabilities": listed})


def read_capabilities(reply: str, task: Sought) -> tuple[str, ...] | Failure:
    said = told(reply, ("capabilities",))
    if isinstance(said, Failure):
        return said
    chosen = tuple(dict.fromkeys(lines(said["capabilities"])))
    known = fitting_capabilities(task)
    if strange := [name for name in chosen if name not in known]:
        return Failure(kind="unparsable", detail=f"{strange[0][:60]!r} is none of {', '.join(known)}")
    if not 1 <= len(chosen) <= _MOST_CAPABILITIES:
        detail = f"{len(chosen)} keywords were chosen, not 1 to {_MOST_CAPABILITIES}"
        return Failure(kind="unparsable", detail=detail)
    return chosen


# --- the questions -------------------------------------------------------------------------------------------


def questions_prompt(task: Sought, instruction: str, capabilities: Sequence[str]) -> str:
    levels = LEVELS[task.first_level :]
    known = fitting_capabilities(task)
    listed = "\n".join(f"  {name}: {known[name]}" for name in capabilities)
    values = {
        "count": str(len(levels)),
        "levels": ", ".join(levels),
        **{level: _times(levels.count(level)) for level in set(LEVELS)},
        "already": filled(prompt("already"), _facts(task, "")) if task.first_level else "",
        "keyword_rule": filled(prompt("keyword_rule"), {"capabilities": listed}) if capabilities else "",
        "first_reference": "1" if task.pictures else "",
        "capability_key": ', "capability": "..."' if capabilities else "",
    }
    return filled(prompt("questions"), {**_facts(task, instruction), **values})


def again_prompt(questions: Sequence[Graded], complaints: Sequence[str], task: Sought) -> str:
    values = {
        "questions": listed_questions(questions, task),
        "complaints": "\n".join(f"- {complaint}" for complaint in complaints),
        "count": str(len(questions)),
    }
    return filled(prompt("again"), values)


def read_questions(reply: str, task: Sought, capabilities: Sequence[str]) -> tuple[Graded, ...] | Failure:
    """All the questions, each fit by itself and all together; one that is not makes all be asked for again."""
    levels = LEVELS[task.first_level :]
    said = told(reply, ("thinking", "questions"))
    if isinstance(said, Failure):
        return said
    entries = said["questions"]
    if not isinstance(entries, list) or len(entries) != len(levels):
        many = len(entries) if isinstance(entries, list) else "no list of"
        return Failure(kind="unparsable", detail=f"{many} questions, not {len(levels)}")
    found: list[Graded] = []
    faults: list[str] = []
    for number, (entry, level) in enumerate(zip(entries, levels, strict=True), 1):
        asked = graded(entry, task)
        if isinstance(asked, str):
            faults.append(f"question {number}: {asked}")
        elif line(entry.get("level")).casefold() != level:
            faults.append(f"question {number}: its level is not {level}")
        elif asked.capability and asked.capability not in capabilities:
            faults.append(f"question {number}: its capability is none of {', '.join(capabilities) or 'these'}")
        else:
            found.append(asked)
    faults = faults or set_faults(found, capabilities)
    if faults:
        return Failure(kind="unparsable", detail="; ".join(faults[:6]))
    return tuple(found)


def graded(entry: Any, task: Sought) -> Graded | str:
    """A question of a reply or a review, or what is wrong with it."""
    if not isinstance(entry, Mapping):
        return "it is no object with the keys question, zero and one"
    results = _numbers(entry.get("results", list(range(1, task.outputs + 1))))
    references = _numbers(entry.get("references", list(range(1, len(task.pictures) + 1))))
    if results is None or references is None:
        return '"references" and "results" are lists of numbers'
    asked = Graded(
        question=line(entry.get("question")),
        zero=line(entry.get("zero")),
        one=line(entry.get("one")),
        references=references,
        results=results,
        capability=line(entry.get("capability")),
    )
    return question_fault(asked, task) or asked


# --- the check -----------------------------------------------------------------------------------------------


def check_prompt(task: Sought, instruction: str, questions: Sequence[Graded]) -> str:
    values = {"questions": listed_questions(questions, task), "first": str(task.first_level + 1)}
    return filled(prompt("check"), {**_facts(task, instruction), **values})


def read_check(reply: str, task: Sought, count: int) -> tuple[str, ...] | Failure:
    """The complaints of the checker; none where every question passed every check."""
    said = told(reply, ("verdicts",))
    if isinstance(said, Failure):
        return said
    numbers = list(range(task.first_level + 1, task.first_level + 1 + count))
    entries = said["verdicts"] if isinstance(said["verdicts"], list) else []
    if [entry.get("number") if isinstance(entry, Mapping) else None for entry in entries] != numbers:
        return Failure(kind="unparsable", detail=f"not one verdict for each of the questions {numbers}, in order")
    complaints: list[str] = []
    for entry in entries:
        verdicts = {name: line(entry.get(name)).casefold() for name in _CHECKS}
        if strange := [name for name, verdict in verdicts.items() if verdict not in ("yes", "no")]:
            return Failure(kind="unparsable", detail=f'question {entry["number"]}: "{strange[0]}" is not "Yes" or "No"')
        if failed := [name for name, verdict in verdicts.items() if verdict == "no"]:
            complaints.append(f"question {entry['number']}, {' and '.join(failed)}: {line(entry.get('reason'))}"[:400])
    return tuple(complaints)


def listed_questions(questions: Sequence[Graded], task: Sought) -> str:
    first = task.first_level
    return "\n".join(
        f"{number}. ({LEVELS[number - 1]}) {asked.question}\n   0 points: {asked.zero}\n   1 point: {asked.one}"
        for number, asked in enumerate(questions, first + 1)
    )


# --- rephrasing ----------------------------------------------------------------------------------------------


def rephrasing_parts(task: Sought, instruction: str) -> list[str | Path]:
    """The question that the rephrase wrapper asks, word for word, so that both give prompts of one kind."""
    values = {"count": str(task.outputs), "shown": str(len(task.pictures)), "size": "not fixed"}
    parts: list[str | Path] = [wording("refbench.models.wrappers", "rephrase.txt", instruction=instruction, **values)]
    for number, picture in enumerate(task.pictures, 1):
        parts += [f"Picture {number} (reference):", picture.path]
    return parts


def prompt(name: str) -> str:
    return resources.files("refbench.builders.ideabench").joinpath(f"prompts/{name}.txt").read_text("utf-8").strip()


def _facts(task: Sought, instruction: str) -> dict[str, str]:
    return {
        "task": task.task,
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
def _capabilities() -> Mapping[str, Mapping[str, str]]:
    text = resources.files("refbench.builders.ideabench").joinpath("capabilities.toml").read_text("utf-8")
    return tomllib.loads(text)
