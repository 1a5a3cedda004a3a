"""Chunk `<board>/board`: the rows of the table with all that the overview and the methods page say about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from refbench.output import Painting, paintings
from refbench.report.site.boards import Board
from refbench.report.site.contract import BoardChunk, BoardRow, PublishedRow, RowsChunk
from refbench.report.site.head import MOST_ROWS
from refbench.table import Row

Ranks = Mapping[tuple[str, str | None, str], tuple[int, int]]
"""By protocol, judge and model: the ranks held in 95 % of resamples."""


def board_chunk(board: Board, rows: Sequence[Row], summary: Mapping[str, str], ranks: Ranks) -> BoardChunk:
    """Everything of the overview and the methods page, but for the rows that a first view can do without."""
    first = rows if len(rows) <= MOST_ROWS else [row for row in rows if _is_first(row, summary)]
    return BoardChunk(
        rows=[_row(board, row, summary, ranks) for row in first],
        published=_published(board),
        changes=board.result.changes,
        notes=notes_of(board),
        fingerprint_parts=board.result.table.parts,
        prompts=_prompts(board),
        faults=[
            {"fault": fault.fault, "effect": fault.corrected, "paper": fault.paper} for fault in board.bench.faults()
        ],
        painting=painting_rows(board),
    )


def rows_chunk(board: Board, rows: Sequence[Row], summary: Mapping[str, str]) -> RowsChunk:
    """The rows that `board_chunk` leaves out."""
    return RowsChunk(rows=[_row(board, row, summary, {}) for row in rows if not _is_first(row, summary)])


def _is_first(row: Row, summary: Mapping[str, str]) -> bool:
    return row.slice["level"] == "overall" or row.metric == summary[row.protocol]


def _row(board: Board, row: Row, summary: Mapping[str, str], ranks: Ranks) -> BoardRow:
    ranked = row.slice["level"] == "overall" and row.metric == summary[row.protocol]
    return BoardRow(
        model=board.model_numbers[row.model],
        judge=board.judge_numbers[row.judge],
        protocol=row.protocol,
        metric=row.metric,
        slice=row.slice,
        value=row.value,
        ci95=row.ci95,
        bounds=row.bounds,
        rank95=ranks.get((row.protocol, row.judge, row.model)) if ranked else None,
        n_expected=row.n_expected,
        n_scored=row.n_scored,
        failures=row.failures,
        remark=row.remark,
    )


def _published(board: Board) -> list[PublishedRow]:
    """All of the papers' numbers; the model of the board that one is about, where it has the released name."""
    by_name = {model.of_run: number for number, model in enumerate(board.models)}
    return [
        PublishedRow(
            label=value.label,
            model=by_name.get(value.model) if value.model is not None else None,
            judge=value.judge,
            metric=value.metric,
            slice=value.slice,
            value=value.value,
            table=value.table,
        )
        for value in board.bench.published()
    ]


def notes_of(board: Board) -> list[str]:
    """The notes of the result, and where pictures of the cases are missing altogether."""
    notes = list(board.result.notes)
    asked = any(case.request.pictures or case.targets for case in board.cases)
    if asked and board.picture_root is None:
        notes.append("the pictures of the cases are not at hand: give --data the directory of the data")
    return notes


def _prompts(board: Board) -> list[dict[str, str]]:
    found: dict[tuple[str, str, str], str] = {}
    for replies in board.replies:
        found = {**replies.prompts, **found}
    return [
        {"title": f"{judge}: {part}" + (f" ({protocol})" if protocol else ""), "text": text}
        for (judge, part, protocol), text in sorted(found.items())
    ]


def painting_rows(board: Board) -> list[dict[str, Any]]:
    """For each model: how many pictures, what one took and cost where that is known, and how often it declined."""
    of_runs = [paintings(outputs) for outputs in board.outputs]
    declined = Counter(
        (run, output.model)
        for run, outputs in enumerate(board.outputs)
        for output in outputs
        if output.step is None and output.failure is not None and output.failure.kind == "refused"
    )
    found = []
    for number, model in enumerate(board.models):
        took = of_runs[model.run].get(model.of_run, Painting(n=0, seconds=None, cost_usd=None))
        found.append({"model": number, **took.model_dump(), "refusals": declined[model.run, model.of_run]})
    return found
