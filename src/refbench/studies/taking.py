"""Reading back what a rater without network has marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refbench.record import Record, RefBenchError
from refbench.studies.shown import Acknowledgement
from refbench.studies.study import Study
from refbench.text.files import json_file


class Taken(Record):
    """What became of a file of marks."""

    new: int
    again: int
    refused: tuple[str, ...]


def take_file(study: Study, file: Path) -> Taken:
    """Take the marks that a package has saved: a JSON object with a list `marks`, each as a browser sends it. Whose
    they are is told by the names of their items, which no other rater has."""
    said = json_file(file, "give the file that the package's page has saved")
    marks: Any = said.get("marks") if isinstance(said, dict) else said
    if not isinstance(marks, list):
        raise RefBenchError(f"{file}: it holds no list of marks: give the file that the package's page has saved")
    new = again = 0
    refused = []
    for number, mark in enumerate(marks, 1):
        rater = study.rater_of(str(mark.get("item"))) if isinstance(mark, dict) else None
        if rater is None:
            refused.append(f"mark {number} is about no item of this study")
            continue
        if isinstance(said, dict) and said.get("consented") and not study.withdrawn(rater):
            study.consent(rater)
        answer = study.take(rater, mark)
        if isinstance(answer, Acknowledgement):
            new += not answer.again
            again += answer.again
        else:
            refused.append(f"mark {number}: {answer.sentence}")
    return Taken(new=new, again=again, refused=tuple(refused))
