"""The CSV file that the released judge script writes (three replies a row) as evidence."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from refbench.benchmarks.ideabench.cases import CALLS, QUESTIONS, part
from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.definition import ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, only_model
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError, clean_text

JUDGE = "gemini-1.5-pro"
"""The only judge that the released script knows."""
_COLUMNS = ("task_id", "case_id", "question_id", "gemini_result_1")

csv.field_size_limit(1 << 24)


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """Read one such file, or the only one in a folder. It does not name the model: that is `models`' only name, else
    the file's."""
    path = _file(folder)
    model = only_model(models, path.stem, "a file of IDEA-Bench replies is")
    rows = _rows(path)
    who = judge or JUDGE
    known = {(case.details.uid, case.id[-4:]): case.id for case in dataset.cases if case.details.judged}
    matched: dict[tuple[str, int], Mapping[str, str]] = {}
    unknown = []
    for number, row in enumerate(rows, 2):
        case = known.get((row["task_id"].strip().zfill(4), row["case_id"].strip().zfill(4)))
        question = row["question_id"].strip()
        wrong = case is None or not question.isdecimal() or not 1 <= int(question) <= QUESTIONS
        if case is None or wrong or (case, int(question)) in matched:
            unknown.append(clean_text(f"row {number}: task {row['task_id']}, case {row['case_id']}, {question}"))
        else:
            matched[case, int(question)] = row
    if not matched:
        raise RefBenchError(f"none of the {len(rows)} rows of {path} is for a case of {dataset.root}")

    def replies() -> Iterator[tuple[Purpose, Evidence]]:
        for (case, question), row in matched.items():
            for call in range(1, CALLS + 1):
                purpose = Purpose(case=case, model=model, judge=who, part=part(question, call))
                # The text as it is; the script saves nothing of calls that it gave up.
                lost = Failure(kind="missing_reply", detail=f"no gemini_result_{call}")
                reply = row.get(f"gemini_result_{call}") or lost
                yield imported_reply("ideabench", purpose, reply, path.name, part=purpose.part)

    return ImportedReplies(judge=who, models=(model,), replies=replies, unknown=tuple(unknown))


def _file(folder: Path) -> Path:
    if folder.is_file():
        return folder
    found = sorted(folder.glob("*.csv")) if folder.is_dir() else []
    if len(found) != 1:
        what = "is not there" if not folder.exists() else f"holds {len(found)} CSV files"
        raise RefBenchError(f"{folder} {what}: give --replies one file that the released gemini_eval.py has written")
    return found[0]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.DictReader(file, restval="")
            rows = [{key: value for key, value in row.items() if isinstance(key, str)} for row in reader]
    except (OSError, csv.Error) as error:
        raise RefBenchError(f"{path} cannot be read: {error}") from error
    absent = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if absent:
        raise RefBenchError(f"{path} has no column {', '.join(absent)}: give the file that gemini_eval.py has written")
    return rows
