"""Chunks `<board>/index/<k>` and `<board>/cases/<k>`: what the case browser filters by, and what it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refbench.case import AnyCase
from refbench.failure import KINDS, Failure
from refbench.report.site.boards import Board
from refbench.report.site.contract import (
    CASES_SIZE,
    INDEX_SIZE,
    CasesChunk,
    CaseView,
    IndexChunk,
    OutputView,
    QuestionView,
    ReplyView,
    ScoreView,
)
from refbench.report.site.pictures import Album
from refbench.tables.columns import columns_of
from refbench.tables.table import case_values

_INSTRUCTION = 160
_WORDS = 600

Grid = list[list[Any]]
"""For each model, each case."""


class CaseGrid:
    """The summary measure of every case and model, by protocol and judge, what failed, and what is still to ask."""

    def __init__(self, board: Board, summary: Mapping[str, str]) -> None:
        self.values: dict[str, Grid] = {}
        self.failed: dict[str, Grid] = {}
        self.waiting: dict[str, Grid] = {}
        for protocol in board.protocols:
            aggregate = board.bench.scoring.protocols[protocol].aggregate
            measure = next((m for m in aggregate.measures if m.name == summary[protocol]), None)
            if measure is None:
                continue
            scores = [score for score in board.result.scores if score.protocol == protocol]
            columns = columns_of(scores, board.cases)
            values = case_values(aggregate, columns, board.cases).get(measure.name)
            blank: Grid = [[None] * len(board.cases) for _ in board.models]
            for number, judge in enumerate(board.judges):
                grid, failed, waiting = ([list(row) for row in blank] for _ in range(3))
                for place, (model, of_judge) in enumerate(columns.systems):
                    if of_judge != judge:
                        continue
                    at = board.model_numbers[model]
                    if values is not None:
                        grid[at] = [_number(value) for value in values[place]]
                    kinds = np.full(len(board.cases), -1, dtype=np.int8)
                    some = np.zeros(len(board.cases), dtype=np.bool_)
                    for part in measure.parts:  # a case counts once, by its first failed part, as in the table
                        kinds = np.where(kinds >= 0, kinds, columns.failures[part][place])
                        some |= ~np.isnan(columns.values[part][place])
                    if measure.any_part:
                        kinds[some] = -1
                    failed[at] = [None if kind < 0 else KINDS[kind] for kind in kinds]
                    still = np.any([columns.waiting[part][place].any(axis=-1) for part in measure.parts], axis=0)
                    waiting[at] = [
                        bool(wait) and value is None and kind is None
                        for wait, value, kind in zip(still, grid[at], failed[at], strict=True)
                    ]
                self.values[f"{protocol}/{number}"] = grid
                self.failed[f"{protocol}/{number}"] = failed
                self.waiting[f"{protocol}/{number}"] = waiting


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


def index_chunk(board: Board, grid: CaseGrid, flags: Sequence[Mapping[str, int]], number: int) -> IndexChunk:
    """What is needed to filter, sort and search cases `number * INDEX_SIZE` and on; `flags` by model and case id."""
    start = number * INDEX_SIZE
    cases = board.cases[start : start + INDEX_SIZE]
    here = slice(start, start + INDEX_SIZE)
    return IndexChunk(
        start=start,
        ids=[case.id for case in cases],
        instructions=[case.request.instruction[:_INSTRUCTION] for case in cases],
        groups=_groups(cases),
        n_references=[len(case.request.pictures) for case in cases],
        values={key: [row[here] for row in rows] for key, rows in grid.values.items()},
        failed={key: [row[here] for row in rows] for key, rows in grid.failed.items()},
        waiting={
            key: [[i for i, wait in enumerate(row[here]) if wait] for row in rows] for key, rows in grid.waiting.items()
        },
        flags=[[of_model.get(case.id, 0) for case in cases] for of_model in flags],
        words=[_words(board, case) for case in cases],
    )


def _groups(cases: Sequence[AnyCase]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name for case in cases for name in case.groups):
        names = list(dict.fromkeys(case.groups[name] for case in cases if name in case.groups))
        place = {value: i for i, value in enumerate(names)}
        found[name] = {"names": names, "of": [place.get(case.groups.get(name, ""), -1) for case in cases]}
    return found


def _words(board: Board, case: AnyCase) -> str:
    """Lower-cased text that a case is found by: what it is first, then what judges said."""
    said = [case.id, *case.groups.values(), *case.tags, case.request.instruction]
    said += [replies.words(case.id) for replies in board.replies]
    return " ".join(filter(None, said)).lower()[:_WORDS]


def cases_chunk(board: Board, album: Album, number: int) -> CasesChunk:
    """What is needed to show cases `number * CASES_SIZE` and on."""
    start = number * CASES_SIZE
    cases = board.cases[start : start + CASES_SIZE]
    album.warm(_files(board, cases))
    replies = [said.of([case.id for case in cases]) for said in board.replies]
    return CasesChunk(
        start=start,
        cases=[_case(board, album, case, [of_run[case.id] for of_run in replies]) for case in cases],
    )


def _files(board: Board, cases: Sequence[AnyCase]) -> list[Path]:
    found: list[Path] = []
    for case in cases:
        if board.picture_root is not None:
            named = [board.picture_root / picture.name for picture in (*case.request.pictures, *case.targets)]
            found += [path for path in named if path.is_file()]
        for model, output in board.outputs_by_case.get(case.id, ()):
            blobs = board.runs[board.models[model].run].blobs
            found += [blobs.path(picture.sha256, picture.format) for picture in output.pictures]
    return found


def _case(board: Board, album: Album, case: AnyCase, replies: Sequence[Sequence[Mapping[str, Any]]]) -> CaseView:
    return CaseView(
        id=case.id,
        instruction=case.request.instruction,
        references=album.inputs(case.request.pictures, board.picture_root, board.inputs),
        targets=album.inputs(case.targets, board.picture_root, board.inputs),
        groups=case.groups,
        tags=case.tags,
        questions=[
            QuestionView(metric=q.metric, text=q.text, expected=q.expected, weight=q.weight, gate=q.gate)
            for q in board.bench.asking.questions(case)
        ],
        outputs=_outputs(board, album, case),
        scores=[
            ScoreView(
                model=board.model_numbers[score.model],
                judge=board.judge_numbers[score.judge],
                protocol=score.protocol,
                metric=score.metric,
                seed=score.seed,
                value=score.value,
                failure=_said(score.failure),
                not_applicable=score.not_applicable,
                not_asked=score.not_asked,
                answers=score.answers,
            )
            for score in board.scores_by_case.get(case.id, ())
        ],
        replies=[
            ReplyView(
                model=board.numbers_by_run[run, said["model"]],
                judge=board.judge_numbers[said["judge"]],
                part=said["part"],
                protocol=said["protocol"],
                seed=said["seed"],
                repeat=said["repeat"],
                reply=said["reply"],
                failure=said["failure"],
            )
            for run, of_run in enumerate(replies)
            for said in of_run
        ],
    )


def _outputs(board: Board, album: Album, case: AnyCase) -> list[OutputView]:
    found = []
    for model, output in board.outputs_by_case.get(case.id, ()):
        of_board = board.models[model]
        name = of_board.name if output.step is None else f"{of_board.name}, step {output.step + 1}"
        found.append(
            OutputView(
                model=model,
                seed=output.seed,
                step=output.step,
                pictures=album.outputs(output.pictures, board.runs[of_board.run], name),
                failure=_said(output.failure),
                seconds=output.seconds,
                cost_usd=output.cost_usd,
                provenance=output.provenance,
            )
        )
    return found


def _said(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else {"kind": failure.kind, "detail": failure.detail}
