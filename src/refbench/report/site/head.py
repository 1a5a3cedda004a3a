"""Chunk `site`: which boards there are, and what can be chosen on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refbench.columns import Columns
from refbench.report.site.boards import Board
from refbench.report.site.contract import BoardHead, MeasureHead, ModelHead, SiteHead
from refbench.score import digits_of
from refbench.table import Aggregate, Row, summaries
from refbench.version import __version__

MOST_ROWS = 2500
"""Rows that a first view can hold: about 250 bytes each, and all of it is to stay under 1 MB."""

FAILURE_KINDS = {
    "api_error": "The endpoint answered with an error or could not be reached; the next run tries again.",
    "timeout": "No answer came in time; the next run tries again.",
    "worker_died": "The process that worked on it died; the next run tries again.",
    "missing_output": "The model has given no picture for this case.",
    "missing_reply": "Nobody has judged this yet.",
    "not_measured": "The metric has not run: its network is not installed, or it was not asked for.",
    "budget": "The run's budget was spent before.",
    "refused": "The judge or the model declined.",
    "empty_reply": "The judge's reply was empty.",
    "unparsable": "There is a reply, but an answer that was asked for cannot be read from it.",
    "unreadable_picture": "The picture is empty, cut off, too large, or no picture at all.",
    "out_of_range": "The value lies outside of its scale.",
    "no_detection": "What was to be measured was not found in the picture.",
    "unsupported": "The model cannot take such a request; it lowers what is expected of it.",
    "undefined": "The measure has no value here: nothing is left to average.",
}
"""Every kind of failure, in one sentence for a reader of the pages."""


def site_head(boards: Sequence[Board], rows: Sequence[Sequence[Row]], *, live: bool) -> SiteHead:
    """The head of a site, from its boards and all rows of each."""
    return SiteHead(
        version=__version__,
        live=live,
        boards=[board_head(board, of_board) for board, of_board in zip(boards, rows, strict=True)],
        failure_kinds=FAILURE_KINDS,
    )


def board_head(board: Board, rows: Sequence[Row]) -> BoardHead:
    """What can be chosen on a board."""
    summary = {protocol: board.result.summary(protocol) for protocol in board.protocols}
    return BoardHead(
        id=board.id,
        benchmark=board.bench.name,
        title=board.bench.title,
        paper=board.bench.paper,
        subset=board.runs[0].info.subset,
        n_cases=len(board.cases),
        models=[ModelHead(name=model.name, run=board.run_names[model.run]) for model in board.models],
        judges=board.judges,
        judge_titles=[board.judge_title(judge) for judge in board.judges],
        protocols=board.protocols,
        measures={protocol: _measures(board, protocol, rows, summary[protocol]) for protocol in board.protocols},
        summary=summary,
        judge={protocol: board.judge_numbers[board.judge_for(protocol)] for protocol in board.protocols},
        wording=board.wording,
        rows_apart=len(rows) > MOST_ROWS,
        levels=list(dict.fromkeys(row.slice["level"] for row in rows)),
        fingerprint=board.result.table.fingerprint,
        has_pictures=any(board.outputs) or board.picture_root is not None,
    )


def _measures(board: Board, protocol: str, rows: Sequence[Row], summary: str) -> list[MeasureHead]:
    """Those that have a value somewhere, in the benchmark's order; further ones behind them, the summary always."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.protocol == protocol and row.value is not None:
            values.setdefault(row.metric, []).append(row.value)
    aggregate = board.bench.protocols[protocol].aggregate
    declared = {measure.name: measure for measure in aggregate.measures}
    names = [name for name in declared if name in values or name == summary]
    names += [name for name in values if name not in declared]
    ranges = _ranges(board, aggregate)
    return [
        MeasureHead(
            name=name,
            low=ranges.get(name, (None, None))[0],
            high=ranges.get(name, (None, None))[1],
            better="lower" if name in board.bench.lower else "higher",
            digits=digits_of(values.get(name, ())),
        )
        for name in names
    ]


def _ranges(board: Board, aggregate: Aggregate) -> dict[str, tuple[float, float]]:
    """Lowest and highest value that each measure can have in the table: the aggregate of the worst and best scores.

    A measure's own ends are those of one score (0 to 1), which the table may scale (to per cent).
    """
    metrics = {score.metric for score in board.result.scores}
    overall = aggregate.overall(board.cases)
    ends = []
    for side in ("low", "high"):
        known = aggregate.ends(side)
        values = {m: np.full((1, len(board.cases)), 0.0 if m in known else np.nan) for m in metrics}
        filled = aggregate.filled(Columns.of_values([("", None)], values), side, scored_too=True)
        ends.append(summaries(aggregate, filled, np.ones((1, len(board.cases))), overall))
    found = {}
    for measure in aggregate.measures:
        place = 0, measure.name
        if measure.low is None or measure.high is None or place not in ends[0]:
            continue
        pair = sorted(float(end[place][0, 0]) for end in ends)
        if np.isfinite(pair).all():
            found[measure.name] = pair[0], pair[1]
    return found
