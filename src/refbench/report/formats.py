"""Tables for programs and documents: one JSON object, CSV rows, Markdown."""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson

from refbench.report.leaderboard import JUDGE, cells, headings, leaderboard, slice_titles, slices_of
from refbench.result import Result


def to_json(result: Result) -> str:
    """One object: benchmark, fingerprint and rows, then what else there is to know about them."""
    said: dict[str, Any] = {
        "benchmark": result.table.benchmark,
        "fingerprint": result.table.fingerprint,
        "rows": [row.model_dump(mode="json") for row in result.table.rows],
        "wording": result.wording,
        "fingerprint_parts": result.table.parts,
        "published": [value.model_dump(mode="json") for value in result.published()],
        "published_apart": [
            {**value.model_dump(mode="json"), "differs": differs} for differs, value in result.published_apart()
        ],
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
    titles = [
        "fingerprint",
        "model",
        "judge",
        "wording",
        "protocol",
        "metric",
        *names,
        "value",
        "ci95_low",
        "ci95_high",
    ]
    titles += ["n_expected", "n_scored", "n_imputed", *(f"failed_{kind}" for kind in kinds)]
    writer.writerow([*titles, "bound_low", "bound_high", "remark"])
    for row in result.table.rows:
        writer.writerow(
            [result.table.fingerprint, row.model, row.judge, result.wording, row.protocol, row.metric]
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
        slices = slices_of(result.table.rows, level)
        for title, where in zip(slice_titles(slices, level), slices, strict=True):
            lines = leaderboard(result, where)
            titles = headings(lines)
            rules = ["---" if heading in ("model", JUDGE) else "---:" for heading in titles]
            rows = [titles, rules, *(cells(line, lines) for line in lines)]
            body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
            blocks.append(f"### {'Overall' if level == 'overall' else title}\n\n{body}\n")
    subset = f", subset {result.table.parts['subset']}" if result.table.parts.get("subset") else ""
    said = f"{result.bench.title}: {len(result.cases)} cases{subset}; {result.measured_by()}"
    return "\n".join([*blocks, f"{said}; fingerprint `{result.table.fingerprint}`"])
