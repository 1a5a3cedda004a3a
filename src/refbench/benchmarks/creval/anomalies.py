"""What is odd in a CREval checkout; anomalies.toml says what each kind does to the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refbench.benchmarks.creval.cases import METRICS, CREvalCase, Question
from refbench.benchmarks.creval.replies import read_choice
from refbench.benchmarks.kit.anomalies import Oddity, anomaly_kinds, list_anomalies, picture_facts, picture_oddities
from refbench.benchmarks.kit.definition import Anomaly, Dataset
from refbench.pictures import PictureFacts

KINDS = anomaly_kinds(__package__)


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity, in the order of the cases; the pictures' headers are read."""

    def of_case(case: CREvalCase) -> Iterator[Oddity]:
        for metric in METRICS:
            yield from ((kind, metric, detail) for kind, detail in _question_oddities(case.details.questions[metric]))
        yield from _picture_oddities(dataset, case)

    return list_anomalies(dataset, (), of_case)


def _question_oddities(questions: Sequence[Question]) -> Iterator[tuple[str, str]]:
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


def _picture_oddities(dataset: Dataset, case: CREvalCase) -> Iterator[Oddity]:
    picture, stated = case.request.pictures[0], case.details.source_size
    facts = picture_facts(dataset, picture)
    yield from picture_oddities(picture.name, facts, KINDS)
    if isinstance(facts, PictureFacts) and stated:
        sizes = (facts.width, facts.height), (facts.height, facts.width)
        if stated not in sizes:
            detail = f"{picture.name}: {facts.width}x{facts.height}, stated {stated[0]}x{stated[1]}"
            yield "other_size", "", detail
