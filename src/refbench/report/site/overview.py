"""Chunks `site`, which boards there are and what can be chosen on them, and `<board>/board`, the rows of the table with
all that the overview and the methods page say about them.
"""

from __future__ import annotations

import contextlib
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from refbench import __version__
from refbench.analysis.precision.variance import Rank, ranking
from refbench.benchmarks.kit.bibliography import arxiv_address, bibtex_of
from refbench.metrics import find_metric
from refbench.output import Painting, painting, paintings
from refbench.record import RefBenchError
from refbench.report.figures.palette import Style
from refbench.report.site.boards import Board
from refbench.report.site.contract import (
    BoardChunk,
    BoardHead,
    BoardRow,
    LookView,
    MeasureHead,
    ModelHead,
    PublishedRow,
    PublishedSource,
    RowsChunk,
    SiteHead,
    as_view,
)
from refbench.report.site.figures import families
from refbench.score import digits_of
from refbench.tables.table import Aggregate, Columns, Measure, Ranked, Row, ends_of, ranked

_ASKED = 50
"""Cases that are looked at for questions that are the same for all."""


def site_head(boards: Sequence[Board], *, live: bool) -> SiteHead:
    """The head of a site."""
    heads = [board_head(board) for board in boards]
    return SiteHead(version=__version__, live=live, boards=heads, failure_kinds=failure_kinds())


def failure_kinds() -> dict[str, str]:
    """Every kind of failure, in one sentence for a reader of the pages."""
    return tomllib.loads((resources.files("refbench.report.site") / "failure_kinds.toml").read_text("utf-8"))


def board_head(board: Board) -> BoardHead:
    """What can be chosen on a board."""
    return as_view(
        BoardHead,
        board,
        benchmark=board.bench.name,
        title=board.bench.title,
        paper=board.bench.paper,
        address=arxiv_address(board.bench.paper),
        bibtex=bibtex_of(board.bench.paper),
        subset=board.runs[0].info.subset,
        n_cases=len(board.cases),
        models=[
            model_head(model.name, board.run_names[model.run], board.places[number], board.styles[model.name])
            for number, model in enumerate(board.models)
        ],
        judge_titles=[board.judge_title(judge) for judge in board.judges],
        measures={protocol: _measures(board, protocol) for protocol in board.protocols},
        judge={protocol: board.judge_numbers[board.judge_for(protocol)] for protocol in board.protocols},
        levels=list(dict.fromkeys(row.slice["level"] for row in board.rows)),
        fingerprint=board.result.table.fingerprint,
        has_pictures=any(board.outputs) or board.picture_root is not None,
        figures=[(protocol, board.judge_numbers[judge]) for protocol, judge in families(board)],
    )


def model_head(name: str, run: str, place: int, style: Style) -> ModelHead:
    """A model of a board, with what it is drawn by."""
    return ModelHead(name=name, run=run, place=place, letter=style.letter, colour=style.number, mark=style.shape)


def _measures(board: Board, protocol: str) -> list[MeasureHead]:
    """Those that have a value somewhere, in the benchmark's order; further ones behind them, the summary always."""
    values: dict[str, list[float]] = {}
    for row in board.rows:
        if row.protocol == protocol and row.value is not None:
            values.setdefault(row.metric, []).append(row.value)
    aggregate = board.bench.scoring.protocols[protocol].aggregate
    declared = {measure.name: measure for measure in aggregate.measures}
    names = [name for name in declared if name in values or name == board.summary[protocol]]
    names += [name for name in values if name not in declared]
    ranges = _ranges(board, aggregate)
    said = tomllib.loads((resources.files("refbench.report.site") / "measures.toml").read_text("utf-8"))
    told = {**_asked(board), **_metrics_said(board, protocol), **said.get(board.bench.name, {})}
    return [
        MeasureHead(
            name=name,
            low=ranges.get(name, (None, None))[0],
            high=ranges.get(name, (None, None))[1],
            better="lower" if name in board.bench.scoring.lower else "higher",
            digits=digits_of(values.get(name, ())),
            factor=_factor(declared.get(name), ranges.get(name)),
            about=told.get(name) or _made_of(declared.get(name)),
        )
        for name in names
    ]


def _factor(measure: Measure | None, tabled: tuple[float, float] | None) -> float:
    """What a score of 1 is in the table; 1 where score and table are not on scales that both begin at 0."""
    if measure is None or tabled is None or measure.parts != (measure.name,) or not measure.high:
        return 1.0
    return tabled[1] / measure.high if measure.low == tabled[0] == 0.0 else 1.0


def _asked(board: Board) -> dict[str, str]:
    """Measures that are the answer to one question, the same for every case: the question."""
    found: dict[str, set[str]] = {}
    for case in board.cases[:_ASKED]:
        asked = board.bench.asking.questions(case)
        count = Counter(question.metric for question in asked)
        for question in asked:
            if count[question.metric] == 1:
                found.setdefault(question.metric, set()).add(question.text)
    return {metric: next(iter(texts)) for metric, texts in found.items() if len(texts) == 1}


def _metrics_said(board: Board, protocol: str) -> dict[str, str]:
    """What the metrics say about themselves, by the part that they measure."""
    found = {}
    for name, how in board.result.table.parts.get("measured", {}).items():
        part, _, of = name.rpartition(" ")  # both, or the protocol that it was measured for
        if of in ("both", protocol):
            with contextlib.suppress(RefBenchError):  # one that was installed where the run was made
                found[part] = find_metric(str(how.get("metric", part)), protocol).summary
    return found


def _made_of(measure: Measure | None) -> str:
    """What a measure of several parts is made of; nothing to say of one that is its only part."""
    if measure is None or measure.parts == (measure.name,):
        return ""
    return f"Made of {', '.join(part.replace('_', ' ') for part in measure.parts)}."


def _ranges(board: Board, aggregate: Aggregate) -> dict[str, tuple[float, float]]:
    """Lowest and highest value that each measure can have in the table: the aggregate of the worst and best scores.

    A measure's own ends are those of one score (0 to 1), which the table may scale (to per cent).
    """
    metrics = {score.metric for score in board.result.scores}
    ends = []
    for side in ("low", "high"):
        known = aggregate.ends(side)
        values = {m: np.full((1, len(board.cases)), 0.0 if m in known else np.nan) for m in metrics}
        ends.append(ends_of(aggregate, Columns.of_values([("", None)], values), aggregate.overall(board.cases), side))
    found = {}
    for place in ends[0].keys() & ends[1].keys():
        low, high = sorted(float(end[place][0, 0]) for end in ends)
        if place[0] == 0 and np.isfinite([low, high]).all():
            found[place[1]] = low, high
    return found


def board_chunk(board: Board, looks: Mapping[str, Sequence[LookView]]) -> BoardChunk:
    """Everything of the overview and the methods page, but for the rows that a first view can do without; `looks` are
    the cases to look at first."""
    rows = [row for row in board.rows if not board.rows_apart or _is_first(board, row)]
    places, ranks = _places(board, rows), _ranks(board)
    published, sources = _published(board)
    return BoardChunk(
        rows=[_row(board, row, places.get(id(row)), ranks) for row in rows],
        published=published,
        sources=sources,
        changes=board.result.changes,
        notes=notes_of(board),
        fingerprint_parts=board.result.table.parts,
        prompts=_prompts(board),
        faults=[
            {"fault": fault.fault, "effect": fault.corrected, "paper": fault.paper}
            for fault in board.bench.reporting.faults()
        ],
        cards=[card._asdict() for card in board.result.cards],
        painting=painting_rows(board),
        looks=looks,
    )


def rows_chunk(board: Board) -> RowsChunk:
    """The rows that `board_chunk` leaves out."""
    return RowsChunk(rows=[_row(board, row) for row in board.rows if not _is_first(board, row)])


def _is_first(board: Board, row: Row) -> bool:
    return row.slice["level"] == "overall" or row.metric == board.summary[row.protocol]


def _places(board: Board, rows: Sequence[Row]) -> dict[int, Ranked]:
    """Where each overall row stands among those of its measure, protocol and judge."""
    together: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.slice["level"] == "overall":
            together.setdefault((row.protocol, row.metric), []).append(row)
    lower, judges = board.bench.scoring.lower, bool(board.bench.data.outputs)
    return {id(place.row): place for alike in together.values() for place in ranked(alike, lower, together=judges)}


def _ranks(board: Board) -> dict[tuple[object, ...], Rank]:
    """By protocol, measure, judge and model: the ranks that each ranked model could hold."""
    return {
        (protocol, board.summary[protocol], judge, rank.model): rank
        for protocol in (board.protocols if board.draws else ())
        for judge in board.judges
        for rank in ranking(
            board.result,
            protocol,
            judge,
            draws=board.draws,
            seed=board.seed,
            compared=board.compared.get((protocol, judge)),
        )
    }


def _row(
    board: Board, row: Row, place: Ranked | None = None, ranks: Mapping[tuple[object, ...], Rank] | None = None
) -> BoardRow:
    """A row of the table; one with a place, which is an overall one, has ranks too."""
    drawn = ranks.get((row.protocol, row.metric, row.judge, row.model)) if place and ranks else None
    return as_view(
        BoardRow,
        row,
        **board.numbers(row),
        rank=place and place.rank,
        unranked=place and place.why_not,
        rank95=drawn and drawn.rank95,
        first=drawn and drawn.best,
    )


def _published(board: Board) -> tuple[list[PublishedRow], list[PublishedSource]]:
    """All of the papers' numbers, with the model of the board that one is about, where it has the released name; and
    how they were measured, with what that differs in from each judge and protocol of the board."""
    by_name = {model.of_run: number for number, model in enumerate(board.models)}
    values = board.bench.reporting.published()
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
        as_view(
            PublishedRow,
            value,
            model=by_name.get(value.model) if value.model is not None else None,
            source=numbers[value.judge, value.subset],
        )
        for value in values
    ]
    return rows, sources


def notes_of(board: Board) -> list[str]:
    """The notes of the result, and where pictures of the cases are missing altogether; what a picture took and cost has
    a table of its own."""
    tabled = tuple(note for outputs in board.outputs for note in painting(outputs) if note.endswith(" a case"))
    notes = [note for note in board.result.notes if not (tabled and note.endswith(tabled))]
    asked = any(case.request.pictures or case.targets for case in board.cases)
    if asked and board.picture_root is None:
        notes.append("the pictures of the cases are not at hand: give --data the directory of the data")
    return [*notes, *(f"judge card of {card.judge}: {card.said} ({card.path})" for card in board.result.cards)]


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
