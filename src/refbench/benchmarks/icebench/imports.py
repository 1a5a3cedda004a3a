"""The released code's result file (`eval_result.txt`) as evidence: metrics and answers of the judge, item by item."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from refbench.benchmarks.icebench.cases import ICECase, picture, task_of
from refbench.benchmarks.icebench.replies import SEPARATOR, read_result_line
from refbench.benchmarks.icebench.tasks import QA
from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.definition import ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, only_model
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError, clean_text

RESULT = "eval_result.txt"
JUDGE = "Qwen2.5-VL-72B-Instruct"
"""Whom the released code asks; the paper names Qwen2-VL-72B."""

_DIFFERENT = frozenset({"colorfulness", "l1_canny", "l1_pose", "face_ref"})
"""Parts that the released code measures in another way than `corrected`."""


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """The values of one result file. It does not name the model: it is `models`' only name, else the folder's."""
    path = folder / RESULT if folder.is_dir() else folder
    model = only_model(models, path.resolve().parent.name, f"an {RESULT} of ICE-Bench is")
    try:
        lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: give --replies an {RESULT} or its folder") from error
    name = judge or JUDGE
    cases = dataset.by_id()
    values: dict[str, dict[str, float]] = {}
    unknown: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        said = read_result_line(line)
        if isinstance(said, Failure):
            unknown.append(f"line {number}: {said.detail}")
            continue
        item, code, found = said
        if item not in cases:
            unknown.append(clean_text(item))
        elif task_of(cases[item]).code != code:
            unknown.append(clean_text(f"{item}: {code!r} here, {task_of(cases[item]).code!r} in the data"))
        else:
            values[item] = found
    if not values:
        raise RefBenchError(
            f"{path} has no result of an item of {dataset.root}: lines are ItemID{SEPARATOR}Task{SEPARATOR}{{...}}"
        )

    def replies() -> Iterator[tuple[Purpose, Evidence]]:
        for item, found in values.items():
            for part in task_of(cases[item]).parts:
                if part in found:
                    yield _evidence(cases[item], part, found[part], model=model, judge=name, origin=path.name)

    return ImportedReplies(judge=name, models=(model,), replies=replies, unknown=tuple(unknown))


def measured_otherwise(case: ICECase, part: str) -> bool:
    """Whether `corrected` measures a part of this case in another way than the released code."""
    return part in _DIFFERENT or (part == "dino_ref" and picture(case, "mask") is not None)


def _evidence(
    case: ICECase, part: str, value: float, *, model: str, judge: str, origin: str
) -> tuple[Purpose, Evidence]:
    if part == QA:
        purpose = Purpose(case=case.id, model=model, judge=judge, part=part)
        return imported_reply("icebench", purpose, repr(value), origin, part=part)
    provenance = clean_text(origin)
    protocol = "paper" if measured_otherwise(case, part) else ""
    purpose = Purpose(case=case.id, model=model, judge="", part=part, protocol=protocol)
    request = {"imported": "icebench", "case": case.id, "model": model, "part": part}
    request |= {"metric": f"{part} of {RESULT}", "protocol": protocol}
    if not math.isfinite(value):  # the released code divides by zero under a mask that covers everything
        failure = Failure(kind="undefined", detail=f"the released code gave {value}")
        return purpose, Evidence(kind="measure", request=request, failure=failure, provenance=provenance)
    reply = orjson.dumps({"value": value}).decode()
    return purpose, Evidence(kind="measure", request=request, reply=reply, provenance=provenance)
