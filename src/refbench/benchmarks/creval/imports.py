"""The released judge replies (`answer_*/{IF,VC,VQ}/<model>/<stem>.txt`) as evidence."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from refbench.benchmarks.creval.cases import METRICS, nfc
from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.definition import ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, place_in, reply_in
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError

JUDGES = {"answer_gpt": "gpt-4o", "answer_qwen": "qwen3-vl"}
"""Who wrote the replies in the released folders; other folders go by their own name."""


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """Find the replies of the wanted models (all by default) and check the folder before anything is read."""
    if not folder.is_dir():
        raise RefBenchError(f"{folder} is not there: give --replies a folder with IF, VC and VQ inside")
    there = [metric for metric in METRICS if (folder / metric).is_dir()]
    if not there:
        inside = [name for name in JUDGES if (folder / name).is_dir()]
        hint = f"did you mean {folder / inside[0]}?" if inside else "give --replies a folder with IF, VC and VQ inside"
        raise RefBenchError(f"{folder} holds no replies: {hint}")
    found = sorted({path.name for metric in there for path in (folder / metric).iterdir() if path.is_dir()})
    if not found:
        raise RefBenchError(f"{folder} holds no model folders inside {', '.join(there)}")
    for wanted in models or ():
        if wanted not in found:
            near = difflib.get_close_matches(wanted, found, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(found)}"
            raise RefBenchError(f"--model {wanted}: {folder} has no such model; {hint}")
    chosen = tuple(dict.fromkeys(models)) if models else tuple(found)
    name = judge or JUDGES.get(folder.name) or folder.name.removeprefix("answer_")
    ids = {nfc(case.id): case.id for case in dataset.cases}
    files = {(metric, model): _files(folder / metric / model) for metric in there for model in chosen}
    left_out = {nfc(name) for name in dataset.outside}
    strangers = [
        (f"{m}/{model}/{stem}", stem) for (m, model), stems in files.items() for stem in stems if stem not in ids
    ]
    unknown = tuple(reply for reply, stem in strangers if stem not in left_out)
    outside = tuple(reply for reply, stem in strangers if stem in left_out)
    if not any(stem in ids for stems in files.values() for stem in stems):
        raise RefBenchError(
            f"none of the replies in {folder} is for an item of {dataset.root}: is --data the right one?"
        )

    def replies() -> Iterator[tuple[Purpose, Evidence]]:
        for (metric, model), stems in files.items():
            for stem, path in stems.items():
                if stem in ids:
                    purpose = Purpose(case=ids[stem], model=model, judge=name, part=metric)
                    origin = place_in(folder, path)
                    yield imported_reply("creval", purpose, _read(path), origin, metric=metric)

    return ImportedReplies(judge=name, models=chosen, replies=replies, unknown=unknown, outside=outside)


def _files(folder: Path) -> dict[str, Path]:
    """Stem to the reply's text, or to the result file where only that is there."""
    if not folder.is_dir():
        return {}
    names = sorted(name for name in os.listdir(folder) if name.endswith((".txt", ".json")) and name[0] != ".")
    found: dict[str, Path] = {}
    for path in (folder / name for name in names):
        if path.suffix == ".txt" or nfc(path.stem) not in found:
            found[nfc(path.stem)] = path
    return found


def _read(path: Path) -> str | Failure:
    """The reply, or the Failure that the result file beside it tells of."""
    text = reply_in(path) if path.suffix == ".txt" else ""
    if isinstance(text, Failure) or text.strip():
        return text
    result = path.with_suffix(".json")
    try:
        said = orjson.loads(result.read_bytes()) if result.exists() else {}
    except OSError as error:
        return Failure(kind="missing_reply", detail=f"{path.name} cannot be read: {error.strerror}")
    except orjson.JSONDecodeError:
        return Failure(kind="missing_reply", detail=f"{result.name} is not valid JSON and has no text beside it")
    if isinstance(said, dict) and said.get("error"):
        return Failure(kind="api_error", detail=str(said["error"])[:500])
    if path.suffix == ".txt":
        return text
    return Failure(kind="missing_reply", detail=f"{path.name} is a result without the reply it was made from")
