"""Rows out of a run, in the formats other tools read: CSV, JSON lines, and Parquet behind an extra."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.runs.disk import whole_file
from refbench.runs.run import Run, fair_order
from refbench.text.console import csv_cell

Row = Mapping[str, Any]


def case_rows(run: Run) -> Iterator[Row]:
    """The cases of the run in their order, targets and details included; `wanted` says whether the run has been asked
    for the case so far (`--limit`)."""
    cases = run.cases(AnyCase)
    wanted = {case.id for case in fair_order(cases)[: run.wanted()]}
    for case in cases:
        yield {**case.model_dump(mode="json"), "wanted": case.id in wanted}


def write_rows(rows: Iterable[Row], path: Path) -> int:
    """Write the rows in the format that the extension names; returns how many. Nested values become JSON text
    where the format has no place for them."""
    writers = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise RefBenchError(f"{path} has no format that is written: name it .csv, .jsonl or .parquet")
    with whole_file(path) as file:
        return writer(rows, file)


def _jsonl(rows: Iterable[Row], file: BinaryIO) -> int:
    count = 0
    for row in rows:
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        count += 1
    return count


def _csv(rows: Iterable[Row], file: BinaryIO) -> int:
    count = 0
    writer = None
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    for row in map(_flat, rows):
        if writer is None:
            writer = csv.DictWriter(text, list(row))
            writer.writerow({name: csv_cell(name) for name in row})
        writer.writerow({name: csv_cell(value) for name, value in row.items()})
        count += 1
    text.detach()  # with all of it written; the file is closed by who opened it
    return count


def _parquet(rows: Iterable[Row], file: BinaryIO) -> int:
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise RefBenchError("Parquet needs an extra: pip install 'refbench[parquet]', or name the file .csv") from error
    flat = [_flat(row) for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(flat), file)
    return len(flat)


def _flat(row: Row) -> dict[str, Any]:
    return {
        name: orjson.dumps(value).decode() if isinstance(value, dict | list | tuple) else value
        for name, value in row.items()
    }
