"""What is odd in a CREval checkout, kind by kind, with what it does to the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from refbench.benchmarks.creval.cases import METRICS, CREvalCase, Metric, Question
from refbench.benchmarks.creval.replies import read_choice
from refbench.benchmarks.kit.dataset import Anomaly, Dataset
from refbench.failure import Failure
from refbench.pictures import PictureFacts, read_facts

KINDS = {
    "markdown_reference": "the reference is '** Yes': no answer can equal it, so the paper's item score is 0",
    "fenced_reference": "the reference ends in a code fence: no answer can equal it",
    "free_text_reference": "the reference is a sentence: no answer can equal it",
    "blank_question": "question, choices and reference are empty: always wrong in the paper",
    "duplicate_question": "a second copy of the question list: graded twice in the paper",
    "lost_question": "the list starts behind Q1: a question was lost in the release's conversion",
    "lost_weight": "the writer's weight was lost in the release's conversion",
    "braces_in_question": "braces in the question break the paper's reader for every model",
    "few_questions": "fewer than the five questions the paper promises",
    "lower_case_choice": "harmless: compared without regard to case",
    "missing_picture": "the source picture is not in the checkout: cannot be judged anew",
    "unreadable_picture": "the source picture cannot be read: cannot be judged anew",
    "wrong_extension": "harmless: the format is taken from the bytes",
    "other_size": "the picture has another size than instruction.json says",
    "unusual_pixels": "palette, greyscale, alpha or CMYK: read as docs/pictures.md says",
    "rotated_picture": "an EXIF rotation is applied in corrected, not in paper",
    "colour_profile": "an ICC profile is ignored",
}


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity, in the order of the cases; the pictures' headers are read."""
    found: list[Anomaly] = []
    for case in dataset.cases:
        for metric in METRICS:
            found.extend(
                Anomaly(kind=kind, case=case.id, part=metric, detail=detail)
                for kind, detail in _question_oddities(metric, case.details.questions[metric])
            )
        found.extend(
            Anomaly(kind=kind, case=case.id, detail=detail) for kind, detail in _picture_oddities(dataset, case)
        )
    return found


def _question_oddities(metric: Metric, questions: Sequence[Question]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    if questions[0].id != "Q1":
        yield "lost_question", f"starts at {questions[0].id}"
    if len(questions) < 5:
        yield "few_questions", f"{len(questions)} questions"
    for question in questions:
        if not question.text.strip():
            yield "blank_question", question.id
            continue
        if question.id in seen:
            yield "duplicate_question", question.id
        seen.add(question.id)
        reference = question.reference.strip()
        if reference.lower() not in ("yes", "no"):
            if "**" in reference:
                yield "markdown_reference", f"{question.id}: {reference!r}"
            elif "```" in reference:
                yield "fenced_reference", f"{question.id}: {reference!r}"
            else:
                read = read_choice(reference)
                meaning = f"read as {read}" if read else "not scored"
                yield "free_text_reference", f"{question.id}: {reference!r}, {meaning}"
        elif reference not in ("Yes", "No") or any(c in ("yes", "no") for c in question.choices):
            yield "lower_case_choice", question.id
        if question.written_weight is not None:
            yield "lost_weight", f"{question.id}: {question.weight}, written {question.written_weight}"
        if "{" in question.text or "}" in question.text:
            yield "braces_in_question", question.id


def _picture_oddities(dataset: Dataset, case: CREvalCase) -> Iterator[tuple[str, str]]:
    picture = case.request.pictures[0]
    path = dataset.path(picture)
    if not path.exists():
        yield "missing_picture", picture.name
        return
    facts = read_facts(path)
    if isinstance(facts, Failure):
        yield "unreadable_picture", f"{picture.name}: {facts.detail}"
        return
    yield from _facts_oddities(facts, picture.name, case.details.source_size)


def _facts_oddities(facts: PictureFacts, name: str, stated: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    extension = PurePosixPath(name).suffix.lower().lstrip(".")
    if {"jpg": "jpeg", "tif": "tiff"}.get(extension, extension) != facts.format:
        yield "wrong_extension", f"{name} is {facts.format}"
    if stated and stated not in ((facts.width, facts.height), (facts.height, facts.width)):
        yield "other_size", f"{name}: {facts.width}x{facts.height}, stated {stated[0]}x{stated[1]}"
    if facts.mode != "RGB":
        yield "unusual_pixels", f"{name}: {facts.mode}"
    if facts.orientation != 1:
        yield "rotated_picture", f"{name}: orientation {facts.orientation}"
    if facts.icc:
        yield "colour_profile", name
