"""Tables for programs and documents: one JSON object, CSV rows, Markdown."""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson

from refbench.report.leaderboard import (
    JUDGE,
    cells,
    headings,
    leaderboard,
    left_out,
    lower_said,
    not_ranked,
    slice_titles,
    slices_of,
)
from refbench.tables.result import Result


def to_json(result: Result) -> str:
    """One object: benchmark, fingerprint and rows, then what else there is to know about them."""
    said: dict[str, Any] = {
        "benchmark": result.table.benchmark,
        "fingerprint": result.table.fingerprint,
        "digest": result.table.digest,
        "rows": [row.model_dump(mode="json") for row in result.table.rows],
        "wording": result.wording,
        "refusals": result.refusals,
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
    rows = [
        {
            "fingerprint": result.table.fingerprint,
            "model": row.model,
            "judge": row.judge,
            "wording": result.wording,
            "protocol": row.protocol,
            "refusals": result.refusals,
            "metric": row.metric,
            **{name: row.slice.get(name, "") for name in names},
            "value": row.value,
            **_ends("ci95", row.ci95),
            **{count: getattr(row, count) for count in _COUNTS},
            **{f"failed_{kind}": row.failures.get(kind, 0) for kind in kinds},
            "failed_by_model": sum(row.own_failures.values()),
            **_ends("bound", row.bounds),
            "remark": row.remark,
        }
        for row in result.table.rows
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


_COUNTS = ("n_cases", "n_seeds", "n_expected", "n_scored", "n_not_asked", "n_not_applicable", "n_imputed")


def _ends(name: str, pair: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = pair or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def to_markdown(result: Result, *, by: str = "overall") -> str:
    """The leaderboard overall and for each slice of the level `by` (each category unless one is named), to paste."""
    blocks = []
    for level in ("overall", "category" if by == "overall" else by):
        slices = slices_of(result.table.rows, level)
        for title, where in zip(slice_titles(slices, level), slices, strict=True):
            lines = leaderboard(result, where)
            if not lines:
                continue
            titles = headings(lines)
            rules = ["---" if heading in ("model", JUDGE) else "---:" for heading in titles]
            rows = [titles, rules, *(cells(line, lines) for line in lines)]
            body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
            said = not_ranked(lines)
            if level == "overall":
                said = [*lower_said(result, lines), *said, *left_out(result, lines)]
            below = "".join(f"\n- {sentence}" for sentence in said)
            name = "Overall" if level == "overall" else title
            blocks.append(f"### {name}\n\n{body}\n" + (f"{below}\n" if below else ""))
    subset = f", subset {result.table.parts['subset']}" if result.table.parts.get("subset") else ""
    what = f"{result.bench.title}: {len(result.cases)} cases{subset}; {result.measured_by()}"
    return "\n".join([*blocks, f"{what}; fingerprint `{result.table.fingerprint}`, digest `{result.table.digest}`"])
