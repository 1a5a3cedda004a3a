"""The judge's replies: the released script's CSV file as evidence, and their readers, one for each protocol.

`read_paper` does what the released script does, quirks included: one digit of any size behind the key. The contract
of `corrected` takes 0 and 1 and nothing else. Neither raises.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from refbench.benchmarks.ideabench.cases import CALLS, QUESTIONS, part
from refbench.benchmarks.kit.definition import Dataset, ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, only_model
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, Text
from refbench.judges.values import refusal
from refbench.record import RefBenchError, clean_text
from refbench.text.files import csv_table, file_bytes

Answer: TypeAlias = float | Failure

CONTRACT = Contract(
    "json_object",
    (
        Criterion("reason", Text(), "two or three sentences, written before you decide", optional=True),
        Criterion("score", Scale(0, 1, whole=True)),
    ),
)

_FENCES = re.compile(r"```(?:json)?")
_PAPER = re.compile(r"""["']score["']\s*:\s*(\d)""")


def read_paper(reply: str) -> Answer:
    """The first digit behind a quoted `score`: 10 is 1, 5 is 5, a digit in quotes or another spelling is nothing."""
    if not reply.strip():
        return Failure(kind="empty_reply")
    digit = _PAPER.search(_FENCES.sub("", reply))
    if digit is not None:
        return float(int(digit[1]))
    return refusal(reply) or Failure(kind="unparsable", detail="no 'score': <digit>")


def read_corrected(reply: str) -> Answer:
    """0 or 1, however it is dressed up; anything else is a failure."""
    return CONTRACT.marks(reply)["score"]


# --- replies given elsewhere ---------------------------------------------------------------------------------


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
    files = sorted(folder.glob("*.csv")) if folder.is_dir() else []
    if len(files) != 1:
        what = "is not there" if not folder.exists() else f"holds {len(files)} CSV files"
        raise RefBenchError(f"{folder} {what}: give --replies one file that the released gemini_eval.py has written")
    return files[0]


def _rows(path: Path) -> list[dict[str, str]]:
    columns, lines = csv_table(file_bytes(path).decode("utf-8-sig", "replace"), str(path), verbatim=True, restval="")
    rows = [{key: value for key, value in row.items() if isinstance(key, str)} for _, row in lines]
    absent = [name for name in _COLUMNS if name not in columns]
    if absent:
        raise RefBenchError(f"{path} has no column {', '.join(absent)}: give the file that gemini_eval.py has written")
    return rows
