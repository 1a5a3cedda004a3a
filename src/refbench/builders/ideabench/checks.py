"""Machine checks of briefs and graded questions: what makes one unfit to ship, in words that its writer can act on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from refbench.benchmarks.ideabench.details import COUNT_MARK
from refbench.builders.ideabench.item import Graded, Sought
from refbench.builders.texts import same_question, words
from refbench.models.asking import is_refusal

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
