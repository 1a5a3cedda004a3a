"""Files of the released evaluation: its input names the output of each entry (`results.image_path`), and its result
has the values as well (`evaluations`), which are those of `paper`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from refbench.benchmarks.kit.definition import Dataset, ImportedReplies
from refbench.benchmarks.kit.imports import only_model
from refbench.benchmarks.multiref.cases import Entry, MultiRefCase, read_entry, read_release
from refbench.benchmarks.multiref.measures import WAYS
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError, clean_text
from refbench.text.files import json_file

_QUALITY = {"fid": "inception_mean", "aesthetics": "aesthetics"}
"""What the release calls the values of the picture alone, and the parts that they are here."""
_MOST = 1e9
"""What no value of a picture alone comes near to."""
_NO_PICTURE = "Generated image not found"


def listed_outputs(path: Path, cases: Sequence[MultiRefCase]) -> dict[str, str] | None:
    """The path of each case's output, as written; None for a file that is no list of entries."""
    entries = _entries(path)
    if entries is None:
        return None
    found = {}
    for case, entry in _matched(entries, cases):
        results = entry.get("results")
        place = results.get("image_path") if isinstance(results, Mapping) else None
        if case is not None and isinstance(place, str) and place:
            found[case.id] = place
    if not found:
        raise RefBenchError(
            f"{path}: none of its {len(entries)} entries is a case of the data with a results.image_path"
        )
    return found


def import_values(dataset: Dataset, path: Path, models: Sequence[str] | None) -> ImportedReplies:
    """The values of one model: `models`' only name, else the one that all entries have (`results.model_name`), else
    the file's."""
    entries = _entries(path)
    model = only_model(models, _named(entries or ()) or path.stem, "a result of the released evaluation is")
    if entries is None or not any("evaluations" in entry for entry in entries):
        raise RefBenchError(f"{path} is no result of the released evaluation: a list of entries with `evaluations`")
    every = dataset.cases if dataset.subset is None else read_release(dataset.root).cases
    matched = [(case, entry, number) for number, (case, entry) in enumerate(_matched(entries, every))]
    mine = {case.id for case in dataset.cases}

    def values() -> Iterator[tuple[Purpose, Evidence]]:
        for case, entry, number in matched:
            if case is None or case.id not in mine or not isinstance(entry.get("evaluations"), Mapping):
                continue
            for part, value in _values(case, entry["evaluations"]):
                purpose = Purpose(case=case.id, model=model, judge="", part=part, protocol="paper")
                request = {"imported": "multiref", "case": case.id, "model": model, "metric": part, "protocol": "paper"}
                failure = value if isinstance(value, Failure) else None
                reply = orjson.dumps({"value": value}).decode() if failure is None else None
                origin = clean_text(f"{path.name}[{number}]")
                yield (
                    purpose,
                    Evidence(kind="measure", request=request, reply=reply, failure=failure, provenance=origin),
                )

    if not any(case is not None and case.id in mine for case, _, _ in matched):
        raise RefBenchError(f"{path}: none of its {len(entries)} entries is a case of the data")
    unknown = tuple(f"{path.name}[{number}]" for case, _, number in matched if case is None)
    outside = tuple(case.id for case, _, _ in matched if case is not None and case.id not in mine)
    return ImportedReplies(None, (model,), values, unknown, outside, protocol="paper")


def _named(entries: Sequence[Mapping[str, Any]]) -> str:
    """The model that all entries name; empty where one names none or another."""
    results = [entry.get("results") for entry in entries]
    said = [one.get("model_name") if isinstance(one, Mapping) else None for one in results]
    names = {clean_text(name.strip()) if isinstance(name, str) else "" for name in said}
    return names.pop() if len(names) == 1 else ""


def _values(case: MultiRefCase, said: Mapping[str, Any]) -> Iterator[tuple[str, float | Failure]]:
    """A value or a failure for every part that concerns the case and that the release says anything about. A file that
    was missing is skipped there without a word, and stays unmeasured here."""
    parts: dict[str, str] = {**_QUALITY, **{str(kind): str(kind) for kind in case.details.types}}
    whole = said.get("error") or said.get("warning")
    for key, part in parts.items():
        error = said.get(f"{key}_error") or (whole if key not in said else None)
        if key in said:
            yield part, _number(part, said[key])
        elif error:
            kind = "missing_output" if str(error).startswith(_NO_PICTURE) else "undefined"
            yield part, Failure(kind=kind, detail=f"the released evaluation: {clean_text(str(error))[:300]}")


def _number(part: str, value: Any) -> float | Failure:
    """NaN is what the release leaves of a failed metric, and counts as done when it goes on."""
    said = f"the released evaluation gave {'NaN' if value is None else repr(value)[:60]}"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return Failure(kind="undefined", detail=said)
    low, high = (WAYS[part].low, WAYS[part].high) if part in WAYS else (-_MOST, _MOST)
    return float(value) if low <= value <= high else Failure(kind="out_of_range", detail=said)


def _matched(
    entries: Sequence[Mapping[str, Any]], cases: Sequence[MultiRefCase]
) -> Iterator[tuple[MultiRefCase | None, Mapping[str, Any]]]:
    """Every entry with the case that has the same prompt and, where several cases or entries do, the same pictures.
    Names of original pictures are not enough: they come again in other folders."""
    by_prompt: dict[str, list[MultiRefCase]] = {}
    for case in cases:
        by_prompt.setdefault(case.details.structured, []).append(case)
    read = [(read_entry(item, number), item) for number, item in enumerate(entries)]
    told = Counter(entry.prompt for entry, _ in read if isinstance(entry, Entry))
    for entry, item in read:
        alike = by_prompt.get(entry.prompt, []) if isinstance(entry, Entry) else []
        if isinstance(entry, Entry) and (len(alike) > 1 or told[entry.prompt] > 1):
            shown = sorted(Path(place.replace("\\", "/")).name for place in entry.mapping.values())
            alike = [c for c in alike if sorted(Path(p.name).name for p in c.request.pictures) == shown]
        yield (alike[0] if len(alike) == 1 else None), item


def _entries(path: Path) -> list[Mapping[str, Any]] | None:
    """The entries of a JSON list, None for a file in another form."""
    said = json_file(path, nan=True)
    if not isinstance(said, list) or not said:
        return None
    return [item if isinstance(item, Mapping) else {} for item in said]
