"""What is odd in a copy of IDEA-Bench, kind by kind, with what it does to cases and scores."""

from __future__ import annotations

from collections.abc import Iterator

from refbench.benchmarks.ideabench.cases import IdeaCase, read_release
from refbench.benchmarks.kit.anomalies import (
    Oddity,
    common_kinds,
    instruction_oddities,
    list_anomalies,
    picture_facts,
    picture_oddities,
)
from refbench.benchmarks.kit.dataset import Anomaly, Dataset

N_TASKS, N_CASES, N_JUDGED = 100, 275, 51

KINDS = {
    "unreadable_meta": "the case is left out: its meta.json cannot be read",
    "missing_instruction": "the case is left out: it has no instruction.txt",
    "undecodable_name": "the case is left out: the folder's name is not UTF-8",
    "empty_instruction": "the case stays, but the model is told nothing",
    "undecodable_instruction": "the instruction is not UTF-8: the wrong bytes are replaced",
    "missing_flags": "the category comes from the number of pictures in and out",
    "flag_conflict": "the flags of meta.json decide the category, not the files",
    "category_conflict": "the flags of meta.json decide, not the task's name or the released scorer's list",
    "task_conflict": "each case counts in its own category, under the same task name",
    "id_conflict": "harmless: the folder's name is the case",
    "missing_uid": "the case is in no mean of the paper protocol above its task",
    "output_count": "one picture is expected back",
    "unknown_task": "the task is a group of its own",
    "case_count": "the task is the mean over the cases that are there",
    "stray_picture": "not shown to a model: references are numbered files",
    "reference_numbers": "references are taken in the order of their numbers, gaps are closed",
    "unreadable_questions": "no judge can score the case: its questions cannot be read",
    "question_count": "no judge can score the case: the gates need six questions",
    "missing_input": "paper stitches without it, as the released script does; corrected cannot ask the question",
    "no_outputs_asked": "the question cannot be asked: the released script skips it",
    "count_conflict": "the number in the question counts",
    "missing_human": "the case has no questions for people",
    "unreadable_human": "the case has no questions for people that can be read",
    "human_count": "the questions for people are not six: they are loaded as they are",
    "release_size": "the release that was published has another number; means are over what is there",
    "missing_picture": "the reference is gone: the case cannot be judged",
    "unreadable_picture": "the reference cannot be read: the case cannot be judged",
    "rotated_picture": "an EXIF rotation is applied in corrected, not in paper's stitched pictures",
    **common_kinds("animated_picture", "colour_profile"),
}


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity: of the files, of the release as a whole, then of each case; all pictures are opened."""
    release = read_release(dataset.root)
    sizes = (
        ("tasks", N_TASKS, len({case.groups["task"] for case in release.cases})),
        ("cases", N_CASES, len(release.cases)),
        ("cases for a judge", N_JUDGED, sum(case.details.judged for case in release.cases)),
    )
    of_the_whole = [
        ("release_size", "*", f"{there} {what}, {expected} were published")
        for what, expected, there in sizes
        if there != expected
    ]

    def of_case(case: IdeaCase) -> Iterator[Oddity]:
        yield from instruction_oddities(case, "instruction")
        for number, picture in enumerate(case.request.pictures, 1):
            yield from picture_oddities(picture.name, picture_facts(dataset, picture), KINDS, part=str(number))

    return list_anomalies(dataset, [*release.oddities, *of_the_whole], of_case)
