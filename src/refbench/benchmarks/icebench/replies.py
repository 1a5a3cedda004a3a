"""The judge's replies: their readers, one for each protocol, and the released code's result file as evidence.

A reply is hostile text: no reader raises, and none takes more than time linear in its length.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from refbench.benchmarks.icebench.cases import ICECase, picture, task_of
from refbench.benchmarks.icebench.tasks import QA, task_called
from refbench.benchmarks.kit.definition import Dataset, ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, only_model
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, YesNo
from refbench.record import RefBenchError, clean_text
from refbench.text.files import file_bytes

_MOST_CHARACTERS = 40
"""A longer number is not an answer."""

_CONTRACT = Contract("binary", (Criterion(QA, YesNo()),))

KEYS: Mapping[str, str] = {"aes_v2.5": "aes", "musiq_koniq": "img", "vllmqa": QA}
"""Names of the released result file that differ from ours."""

SEPARATOR = "#;#"


def read_paper(reply: str) -> float | Failure:
    """The whole reply as a number, of any size: "10" is 10. Where the released code would stop, a failure."""
    text = reply.replace(" ", "").replace("\n", "").strip()
    if not text:
        return Failure(kind="empty_reply")
    if len(text) > _MOST_CHARACTERS:
        return Failure(kind="unparsable", detail="the reply is not a number")
    try:
        value = float(text)
    except ValueError:
        return Failure(kind="unparsable", detail="the reply is not a number")
    if not math.isfinite(value):
        return Failure(kind="out_of_range", detail=f"{text} is not a number that a mean can be taken of")
    return value


def read_corrected(reply: str) -> float | Failure:
    """1 or 0, also as yes or no; another number is out of range, and anything else cannot be read."""
    answer = _CONTRACT.read(reply)[QA]
    if isinstance(answer, bool):
        return float(answer)
    # "0 1" is not a number here: without its space it would be one.
    number = read_paper(reply) if len(reply.split()) == 1 else None
    if isinstance(number, float):
        return number if number in (0.0, 1.0) else Failure(kind="out_of_range", detail=f"{number:g} is neither 1 nor 0")
    return answer if isinstance(answer, Failure) else Failure(kind="unparsable", detail="no answer")


def read_result_line(line: str) -> tuple[str, str, dict[str, float]] | Failure:
    """One line of eval_result.txt: the item, its task as the code calls it, and the metrics under our names."""
    pieces = line.strip().split(SEPARATOR, 2)
    if len(pieces) != 3:
        return Failure(kind="unparsable", detail=f"not ItemID{SEPARATOR}Task{SEPARATOR}{{...}}")
    try:
        metrics = json.loads(pieces[2])  # Python's own: the released code writes NaN
    except (ValueError, RecursionError):
        return Failure(kind="unparsable", detail="its metrics are not JSON")
    if not isinstance(metrics, dict) or not all(isinstance(v, int | float) for v in metrics.values()):
        return Failure(kind="unparsable", detail="its metrics are not numbers")
    return pieces[0], pieces[1], {KEYS.get(key, key): float(value) for key, value in metrics.items()}


# --- replies given elsewhere ---------------------------------------------------------------------------------


RESULT = "eval_result.txt"
JUDGE = "Qwen2.5-VL-72B-Instruct"
"""Whom the released code asks; the paper names Qwen2-VL-72B."""

_DIFFERENT = frozenset({"colorfulness", "l1_canny", "l1_pose", "face_ref"})
"""Parts that the released code measures in another way than `corrected`."""


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """The values of one result file. It does not name the model: it is `models`' only name, else the folder's."""
    path = folder / RESULT if folder.is_dir() else folder
    model = only_model(models, path.resolve().parent.name, f"an {RESULT} of ICE-Bench is")
    lines = file_bytes(path, f"give --replies an {RESULT} or its folder").decode("utf-8-sig", "replace").splitlines()
    name = judge or JUDGE
    cases = dataset.by_id()
    values: dict[str, dict[str, float]] = {}
    unknown: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        read = read_result_line(line)
        if isinstance(read, Failure):
            unknown.append(f"line {number}: {read.detail}")
            continue
        item, code, of_item = read
        if item not in cases:
            unknown.append(clean_text(item))
        elif task_called(code) != task_of(cases[item]):
            unknown.append(clean_text(f"{item}: {code!r} here, {task_of(cases[item]).code!r} in the data"))
        else:
            values[item] = of_item
    if not values:
        raise RefBenchError(
            f"{path} has no result of an item of {dataset.root}: lines are ItemID{SEPARATOR}Task{SEPARATOR}{{...}}"
        )

    def replies() -> Iterator[tuple[Purpose, Evidence]]:
        for item, of_item in values.items():
            for part in task_of(cases[item]).parts:
                if part in of_item:
                    yield _evidence(cases[item], part, of_item[part], model=model, judge=name, origin=path.name)

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
