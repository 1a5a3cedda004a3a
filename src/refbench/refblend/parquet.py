"""The dataset as Parquet, a row a sample: texts and paths, not the pictures, which lie beside it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from refbench.record import RefBenchError
from refbench.refblend.writing import whole_file

_ROWS = 1000


def parquet_is_here() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def need_parquet() -> None:
    """Say what is missing before anything is computed."""
    if not parquet_is_here():
        raise RefBenchError("--formats parquet needs an extra: pip install 'refbench[parquet]'")


def write_parquet(path: Path, entries: Iterable[Mapping[str, Any]]) -> int:
    """Write the rows, some at a time; returns how many."""
    pyarrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    texts, text = pyarrow.list_(pyarrow.string()), pyarrow.string()
    schema = pyarrow.schema(
        [
            ("id", text),
            ("file_name", text),
            ("types", texts),
            ("combination", text),
            ("instruction", text),
            ("enhanced", texts),
            ("caption", text),
            ("reference_tokens", texts),
            ("reference_types", texts),
            ("reference_file_names", texts),
            ("extractors", pyarrow.map_(text, text)),
            ("boxes", pyarrow.list_(pyarrow.list_(pyarrow.float64()))),
            ("judge", pyarrow.map_(text, pyarrow.int64())),
            ("persona", text),
            ("review", text),
            ("source", text),
            ("licence", text),
        ]
    )
    count = 0
    with whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        rows: list[dict[str, Any]] = []
        for row in _rows(entries):
            rows.append(row)
            count += 1
            if len(rows) >= _ROWS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows = []
        if rows:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    return count


def _rows(entries: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    from refbench.benchmarks.multiref.entries import type_of_token

    for entry in entries:
        told, conditions = entry["instructions"], entry["conditions"]
        mapping = told["image_path_mapping"]
        yield {
            "id": entry["id"],
            "file_name": entry["original_image_path"],
            "types": list(told["conditions"]),
            "combination": "+".join(sorted(told["conditions"])),
            "instruction": told["original_prompts"],
            "enhanced": list(told["enhance_prompts"]),
            "caption": conditions.get("caption"),
            "reference_tokens": list(mapping),
            "reference_types": [type_of_token(token) for token in mapping],
            "reference_file_names": list(mapping.values()),
            "extractors": sorted(entry["extractors"].items()),
            "boxes": [list(box) for box in conditions.get("bbox_value", ())],
            "judge": sorted(entry["judge"].items()),
            "persona": entry["persona"],
            "review": entry["review"],
            "source": entry["source"],
            "licence": entry["licence"],
        }
