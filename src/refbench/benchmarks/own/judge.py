"""What is asked of the judge about a user's own case: pictures as the rubric shows them, then its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refbench.benchmarks.kit.asks import request_of
from refbench.benchmarks.kit.definition import Material
from refbench.benchmarks.own.cases import OwnCase
from refbench.chat import ChatRequest
from refbench.chat.pictures import SentPicture
from refbench.judges import Rubric
from refbench.judges.rubric import RubricPart
from refbench.record import RefBenchError

Shown = tuple[str, SentPicture]

LABELS = "image 1, image 2"
"""How pictures are announced. Recorded, because a judge that is told otherwise gives other marks."""


def check_questions(rubric: Rubric, cases: Sequence[OwnCase]) -> None:
    """A rubric that asks the case's questions cannot judge a case without any."""
    without = [case.id for case in cases if rubric.needs_questions and not case.details.questions]
    if without:
        count = "1 case has" if len(without) == 1 else f"{len(without)} cases have"
        raise RefBenchError(
            f"the rubric {rubric.name} asks each case's questions, and {count} none (first: {without[0]}): "
            "add a column questions"
        )


def request(rubric: Rubric, part: RubricPart, case: OwnCase, material: Material) -> ChatRequest:
    """What the judge is asked for one part of the rubric."""
    check_questions(rubric, [case])
    shown = [one for what in part.shows for announced in _shown(what, case, material) for one in announced]
    questions = case.details.questions
    text = rubric.prompt(part, case.request.instruction, questions)
    return request_of([*shown, text], rubric.contract(part, questions), rubric.max_tokens)


def _shown(what: str, case: OwnCase, material: Material) -> Iterator[Shown]:
    """The pictures of one kind, each with the words that announce it."""
    if what == "output":
        yield from _counted("Output", material.outputs)
        return
    if what == "targets":
        yield from _counted("Target", material.targets)
        return
    # Numbered as the model gets them, whichever of them are shown: instructions speak of image 1, image 2.
    for number, (picture, sent) in enumerate(zip(case.request.pictures, material.inputs, strict=True), 1):
        if (picture.role == "source") == (what == "source"):
            role = "" if picture.role == "reference" else f" ({picture.role})"
            yield f"Image {number}{role}:", sent


def _counted(name: str, pictures: Sequence[SentPicture]) -> Iterator[Shown]:
    for number, picture in enumerate(pictures, 1):
        yield f"{name}:" if len(pictures) == 1 else f"{name} {number}:", picture
