"""The names of IDEA-Bench: its categories, questions and calls, and what only scorers see of a case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from refbench.case import Case
from refbench.record import Record

Category = Literal["T2I", "I2I", "Is2I", "T2Is", "I(s)2Is"]

CATEGORIES: Mapping[Category, str] = {
    "T2I": "text to picture",
    "I2I": "picture to picture",
    "Is2I": "several pictures to one",
    "T2Is": "text to several pictures",
    "I(s)2Is": "one or more pictures to several",
}

QUESTIONS = 6
CALLS = 3
"""Each question is put to the judge three times, independently."""

COUNT_MARK = "Is the number in the image the digit"
"""What the question about the number of outputs contains: the released stitching looks for these words."""

LISTED: Mapping[Category, frozenset[str]] = {
    "T2I": frozenset({"0024", "0026", "0028"}),
    "I2I": frozenset({"0063", "0072"}),
    "Is2I": frozenset({"0064", "0065", "0073"}),
    "T2Is": frozenset({"0014", "0015", "0016", "0017"}),
    "I(s)2Is": frozenset({"0044", "0045", "0046", "0049"}),
}
"""The 16 tasks, by uid, that the released scorer averages; the documentation says 18."""


def part(question: int, call: int) -> str:
    """One question in one of the three calls. Calls stay apart: the gates apply to each before they are averaged."""
    return f"q{question}#{call}"


PARTS: Mapping[str, tuple[int, int]] = {
    part(question, call): (question, call) for call in range(1, CALLS + 1) for question in range(1, QUESTIONS + 1)
}
"""All questions of all calls, with their numbers from 1."""


class Question(Record):
    """One question of auto_eval.jsonl, in the words of the official file."""

    text: str
    inputs: tuple[str, ...] = ()
    """Files of the case that it is about."""
    outputs: tuple[str, ...] = ()
    """Files of the model that it is about."""
    counts: int | None = None
    """How many outputs there must be, where that is what the question asks."""


class HumanQuestion(Record):
    """One question of eval.json, for people. The field names of that file are not documented: `raw` has them all."""

    text: str
    zero: str = ""
    one: str = ""
    raw: str = ""
    """The entry as JSON."""


class IdeaDetails(Record):
    """What a case is, beyond what the model sees."""

    uid: str
    task_name: str = ""
    leaf: str = ""
    """The leaf of the taxonomy, where the task's name tells it."""
    auto: tuple[Question, ...] = ()
    human: tuple[HumanQuestion, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether a judge can score the case: the gates need all six questions."""
        return len(self.auto) == QUESTIONS


IdeaCase: TypeAlias = Case[IdeaDetails]


def category_of(*, reference: bool, several_references: bool, several_outputs: bool) -> Category:
    """The category by meta.json's three flags."""
    if several_outputs:
        return "I(s)2Is" if reference or several_references else "T2Is"
    if several_references:
        return "Is2I"
    return "I2I" if reference else "T2I"
