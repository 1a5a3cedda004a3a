"""How a result leaves a command: printed in one format or written to a file, and its items to another."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from refbench.report import print_result, to_csv, to_json, to_markdown
from refbench.report.terminal import check_level
from refbench.result import Result
from refbench.runs import write_rows
from refbench.runs.disk import disk_error

Format = Literal["terminal", "json", "csv", "markdown"]


def write_result(
    result: Result, format_name: Format, *, by: str = "overall", items: Path | None = None, out: Path | None = None
) -> None:
    """Print the result, or write it to `out`; what is for the eye is always printed."""
    if format_name == "json":
        write_text(to_json(result) + "\n", out, result, items)
    elif format_name == "csv":
        write_text(to_csv(result), out, result, items)
    elif format_name == "markdown":
        check_level(result, by)
        write_text(to_markdown(result, by=by) + "\n", out, result, items)
    else:
        _write_items(result, items)
        print_result(result, by=by)


def write_text(text: str, out: Path | None, result: Result, items: Path | None) -> None:
    """Write the items first: when they cannot be written, nothing half-done is printed."""
    _write_items(result, items)
    if out is None:
        print(text, end="")
        return
    write_file(out, text.encode())


def write_file(path: Path, data: bytes, *, quiet: bool = False) -> None:
    """Write a whole file and say where it is."""
    part = path.with_name(f".part-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        part.unlink(missing_ok=True)
    if not quiet:
        print(f"written: {path}")


def _write_items(result: Result, items: Path | None) -> None:
    if items is not None:
        write_rows(result.items(), items)
