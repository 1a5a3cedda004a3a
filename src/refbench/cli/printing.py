"""How a result leaves a command: printed in one format, and its items written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from refbench.report import print_result, to_csv, to_json, to_markdown
from refbench.result import Result
from refbench.runs import write_rows

Format = Literal["terminal", "json", "csv", "markdown"]


def write_result(result: Result, format_name: Format, *, by: str = "overall", items: Path | None = None) -> None:
    """Write the items first: when they cannot be written, nothing half-done is printed."""
    if items is not None:
        write_rows(result.items(), items)
    if format_name == "terminal":
        print_result(result, by=by)
    elif format_name == "json":
        print(to_json(result))
    elif format_name == "csv":
        print(to_csv(result), end="")
    else:
        print(to_markdown(result))
