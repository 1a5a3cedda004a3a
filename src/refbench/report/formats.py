"""Tables for programs and documents: one JSON object, CSV rows, Markdown."""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson

from refbench.report.leaderboard import JUDGE, direction, leaderboards, left_out, size
from refbench.tables.result import Result
from refbench.tables.table import OVERALL


def to_json(result: Result) -> str:
    """One object: benchmark, fingerprint and rows, then what else there is to know about them."""
    content: dict[str, Any] = {
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
    return orjson.dumps(content).decode()


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
    for board in leaderboards(result, "category" if by == "overall" else by):
        overall = board.where == OVERALL
        rules = ["---" if heading in ("model", JUDGE) else "---:" for heading in board.headings]
        rows = [board.headings, rules, *board.rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
        notes = board.not_ranked()
        if overall:
            notes = [*direction(result, board), *notes, *left_out(result, board)]
        below = "".join(f"\n- {note}" for note in notes)
        blocks.append(f"### {'Overall' if overall else board.title}\n\n{table}\n" + (f"{below}\n" if below else ""))
    stamp = f"fingerprint `{result.table.fingerprint}`, digest `{result.table.digest}`"
    return "\n".join([*blocks, f"{result.bench.title}: {size(result)}; {stamp}"])
