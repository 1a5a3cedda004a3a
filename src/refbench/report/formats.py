"""Tables for programs and documents: one JSON object, CSV rows, Markdown."""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson

from refbench.report.leaderboard import JUDGE, cells, headings, leaderboard, slices_of
from refbench.result import Result


def to_json(result: Result) -> str:
    """One object: benchmark, fingerprint and rows, then what else there is to know about them."""
    said: dict[str, Any] = {
        "benchmark": result.table.benchmark,
        "fingerprint": result.table.fingerprint,
        "rows": [row.model_dump(mode="json") for row in result.table.rows],
        "fingerprint_parts": result.table.parts,
        "published": [value.model_dump(mode="json") for value in result.published()],
        "changes": list(result.changes),
        "notes": list(result.notes),
    }
    return orjson.dumps(said).decode()


def to_csv(result: Result) -> str:
    """Every row of the table; slice names, failures and pairs have columns of their own."""
    names = list(dict.fromkeys(name for row in result.table.rows for name in row.slice))
    kinds = sorted({kind for row in result.table.rows for kind in row.failures})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    titles = ["fingerprint", "model", "judge", "protocol", "metric", *names, "value", "ci95_low", "ci95_high"]
    titles += ["n_expected", "n_scored", "n_imputed", *(f"failed_{kind}" for kind in kinds)]
    writer.writerow([*titles, "bound_low", "bound_high", "remark"])
    for row in result.table.rows:
        writer.writerow(
            [result.table.fingerprint, row.model, row.judge, row.protocol, row.metric]
            + [row.slice.get(name, "") for name in names]
            + [row.value, *(row.ci95 or ("", "")), row.n_expected, row.n_scored, row.n_imputed]
            + [row.failures.get(kind, 0) for kind in kinds]
            + [*(row.bounds or ("", "")), row.remark]
        )
    return text.getvalue()


def to_markdown(result: Result, *, by: str = "overall") -> str:
    """The leaderboard overall and for each slice of the level `by` (each category unless one is named), to paste."""
    blocks = []
    for level in ("overall", "category" if by == "overall" else by):
        for where in slices_of(result.table.rows, level):
            lines = leaderboard(result, where)
            titles = headings(lines)
            title = where.get(level, "Overall")
            rules = ["---" if title in ("model", JUDGE) else "---:" for title in titles]
            rows = [titles, rules, *(cells(line, titles) for line in lines)]
            body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
            blocks.append(f"### {title}\n\n{body}\n")
    return "\n".join([*blocks, f"{result.bench.title}, fingerprint `{result.table.fingerprint}`"])
