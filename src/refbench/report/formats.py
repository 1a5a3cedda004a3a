"""Tables for programs and documents: one JSON object, CSV rows, Markdown."""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson

from refbench.report.leaderboard import JUDGE, direction, leaderboards, left_out, size
from refbench.tables.result import Result
from refbench.tables.table import OVERALL, Row
from refbench.text.console import as_markdown, csv_cell


def to_json(result: Result) -> str:
    """One object: benchmark, fingerprint and rows, then what else there is to know about them."""
    content: dict[str, Any] = {
        "benchmark": result.table.benchmark,
        "fingerprint": result.table.fingerprint,
        "digest": result.table.digest,
        "rows": [_row(row) for row in result.table.rows],
        "wording": result.wording,
        "refusals": result.refusals,
        "served": {name: dict(told) for name, told in result.served.items()},
        "fingerprint_parts": result.table.parts,
        "published": [value.model_dump(mode="json") for value in result.published()],
        "published_apart": [
            {**value.model_dump(mode="json"), "differs": differs} for differs, value in result.published_apart()
        ],
        "changes": list(result.changes),
        "notes": list(result.notes),
        "cards": [card._asdict() for card in result.cards],
    }
    return orjson.dumps(content).decode()


def _row(row: Row) -> dict[str, Any]:
    """The row; what is said of a part of the calls only where a part was judged."""
    return row.model_dump(mode="json", exclude=None if row.sampled else {"sampled", "estimate"})


def to_csv(result: Result) -> str:
    """Every row of the table, as `table_rows` has them."""
    rows = table_rows(result)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(map(csv_cell, row) for row in (rows[:1] and rows[0].keys(), *(row.values() for row in rows)))
    return text.getvalue()


def table_rows(result: Result) -> list[dict[str, Any]]:
    """Every row of the table by column; slice names, failures and pairs have columns of their own."""
    part = any(row.sampled for row in result.table.rows)
    names = list(dict.fromkeys(name for row in result.table.rows for name in row.slice))
    kinds = sorted({kind for row in result.table.rows for kind in row.failures})
    return [
        {
            "fingerprint": result.table.fingerprint,
            "model": row.model,
            "judge": row.judge,
            "wording": result.wording,
            "weights": result.weights(row.judge or ""),
            "protocol": row.protocol,
            "refusals": result.refusals,
            "metric": row.metric,
            **{name: row.slice.get(name, "") for name in names},
            "value": row.value,
            **_ends("ci95", row.ci95),
            **(_ends("ci99", row.ci99) if any(row.ci99 for row in result.table.rows) else {}),
            **(_estimate(row) if part else {}),
            **{count: getattr(row, count) for count in _COUNTS},
            **{f"failed_{kind}": row.failures.get(kind, 0) for kind in kinds},
            "failed_by_model": sum(row.own_failures.values()),
            **_ends("bound", row.bounds),
            "remark": "; ".join(filter(None, (row.remark, result.stopped_said([row.model])))),
        }
        for row in result.table.rows
    ]


_COUNTS = ("n_cases", "n_seeds", "n_expected", "n_scored", "n_not_asked", "n_not_applicable", "n_imputed")


def _estimate(row: Row) -> dict[str, Any]:
    told = row.estimate
    return {
        "estimated_from": (told.share if told else 0.0) if row.sampled else "",
        **_ends("all_calls95", told.all_calls95 if told else None),
        "effective_n": told.effective_n if told else "",
    }


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
        table = "\n".join("| " + " | ".join(as_markdown(cell) for cell in row) + " |" for row in rows)
        notes = board.not_ranked()
        if overall:
            notes = [*direction(result, board), *notes, *left_out(result, board)]
        below = "".join(f"\n- {as_markdown(note)}" for note in notes)
        title = "Overall" if overall else as_markdown(board.title)
        blocks.append(f"### {title}\n\n{table}\n" + (f"{below}\n" if below else ""))
    stamp = f"fingerprint `{result.table.fingerprint}`, digest `{result.table.digest}`"
    return "\n".join([*blocks, f"{result.bench.title}: {size(result)}; {stamp}"])
