"""Chunk `<board>/board`: the rows of the table with all that the overview and the methods page say about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from refbench.analysis.precision import Rank
from refbench.output import Painting, paintings
from refbench.report.site.boards import Board
from refbench.report.site.contract import BoardChunk, BoardRow, PublishedRow, PublishedSource, RowsChunk
from refbench.report.site.head import MOST_ROWS
from refbench.table import Ranked, Row, ranked

Ranks = Mapping[tuple[str, str | None, str], Rank]
"""By protocol, judge and model: the ranks it could hold, and how often it comes first."""


def board_chunk(board: Board, rows: Sequence[Row], summary: Mapping[str, str], ranks: Ranks) -> BoardChunk:
    """Everything of the overview and the methods page, but for the rows that a first view can do without."""
    first = rows if len(rows) <= MOST_ROWS else [row for row in rows if _is_first(row, summary)]
    places = _places(board, first)
    published, sources = _published(board)
    return BoardChunk(
        rows=[_row(board, row, summary, ranks, places.get(id(row))) for row in first],
        published=published,
        sources=sources,
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
    return RowsChunk(rows=[_row(board, row, summary, {}, None) for row in rows if not _is_first(row, summary)])


def _is_first(row: Row, summary: Mapping[str, str]) -> bool:
    return row.slice["level"] == "overall" or row.metric == summary[row.protocol]


def _places(board: Board, rows: Sequence[Row]) -> dict[int, Ranked]:
    """Where each overall row stands among those of its measure, protocol and judge."""
    together: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.slice["level"] == "overall":
            together.setdefault((row.protocol, row.metric), []).append(row)
    return {id(place.row): place for alike in together.values() for place in ranked(alike, board.bench.lower)}


def _row(board: Board, row: Row, summary: Mapping[str, str], ranks: Ranks, place: Ranked | None) -> BoardRow:
    is_summary = row.slice["level"] == "overall" and row.metric == summary[row.protocol]
    drawn = ranks.get((row.protocol, row.judge, row.model)) if is_summary else None
    return BoardRow(
        model=board.model_numbers[row.model],
        judge=board.judge_numbers[row.judge],
        protocol=row.protocol,
        metric=row.metric,
        slice=row.slice,
        value=row.value,
        ci95=row.ci95,
        bounds=row.bounds,
        rank=place.rank if place else None,
        unranked=place.why_not if place else None,
        rank95=drawn.rank95 if drawn else None,
        first=drawn.best if drawn else None,
        n_cases=row.n_cases,
        n_seeds=row.n_seeds,
        n_expected=row.n_expected,
        n_scored=row.n_scored,
        n_not_asked=row.n_not_asked,
        n_not_applicable=row.n_not_applicable,
        n_imputed=row.n_imputed,
        failures=row.failures,
        remark=row.remark,
    )


def _published(board: Board) -> tuple[list[PublishedRow], list[PublishedSource]]:
    """All of the papers' numbers, with the model of the board that one is about, where it has the released name; and
    how they were measured, with what that differs in from each judge and protocol of the board."""
    by_name = {model.of_run: number for number, model in enumerate(board.models)}
    values = board.bench.published()
    alike = {(value.judge, value.subset): value for value in values}
    sources = [
        PublishedSource(
            judge=judge,
            differs={
                f"{protocol}/{number}": board.result.differs(one, protocol, [by])
                for protocol in board.protocols
                for number, by in enumerate(board.judges)
            },
        )
        for (judge, _), one in alike.items()
    ]
    numbers = {place: number for number, place in enumerate(alike)}
    rows = [
        PublishedRow(
            label=value.label,
            model=by_name.get(value.model) if value.model is not None else None,
            source=numbers[value.judge, value.subset],
            metric=value.metric,
            slice=value.slice,
            value=value.value,
            table=value.table,
        )
        for value in values
    ]
    return rows, sources


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
