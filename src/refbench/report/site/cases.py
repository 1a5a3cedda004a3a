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
    LookAt,
    LookView,
    OutputView,
    PictureView,
    QuestionView,
    ReplyView,
    ScoreView,
    as_view,
)
from refbench.report.site.pictures import PictureStore
from refbench.stats import Array
from refbench.tables.table import Columns, Measure, case_values

_INSTRUCTION = 160
_WORDS = 600

Grid = list[list[Any]]
"""For each model, each case."""


class CaseValues:
    """The summary measure of every case and model, by protocol and judge, what failed, and what is still to ask."""

    def __init__(self, board: Board) -> None:
        self.values: dict[str, Grid] = {}
        self.failed: dict[str, Grid] = {}
        self.waiting: dict[str, Grid] = {}
        for protocol in board.protocols:
            aggregate = board.bench.scoring.protocols[protocol].aggregate
            measure = next((m for m in aggregate.measures if m.name == board.summary[protocol]), None)
            if measure is None:
                continue
            for number in range(len(board.judges)):
                for grids in (self.values, self.failed, self.waiting):
                    grids[f"{protocol}/{number}"] = [[None] * len(board.cases) for _ in board.models]
            columns = board.result.columns(protocol)
            values = case_values(aggregate, columns, board.cases).get(measure.name)
            for system, (name, judge) in enumerate(columns.systems):
                key, model = f"{protocol}/{board.judge_numbers[judge]}", board.model_numbers[name]
                if values is not None:
                    self.values[key][model] = [_number(value) for value in values[system]]
                self.failed[key][model] = _failed(columns, measure, system)
                waits = np.any([columns.waiting[part][system].any(axis=-1) for part in measure.parts], axis=0)
                self.waiting[key][model] = [
                    bool(wait) and value is None and kind is None
                    for wait, value, kind in zip(waits, self.values[key][model], self.failed[key][model], strict=True)
                ]


def _failed(columns: Columns, measure: Measure, system: int) -> list[str | None]:
    """The kind of failure of each case, by its first failed part, as in the table."""
    kinds = np.full(len(columns.values[measure.parts[0]][system]), -1, dtype=np.int8)
    for part in measure.parts:
        kinds = np.where(kinds >= 0, kinds, columns.failures[part][system])
    if measure.any_part:
        kinds[np.any([~np.isnan(columns.values[part][system]) for part in measure.parts], axis=0)] = -1
    return [None if kind < 0 else KINDS[kind] for kind in kinds]


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


def index_chunk(board: Board, grids: CaseValues, flags: Sequence[Mapping[str, int]], number: int) -> IndexChunk:
    """What is needed to filter, sort and search cases `number * INDEX_SIZE` and on; `flags` by model and case id."""
    start = number * INDEX_SIZE
    cases = board.cases[start : start + INDEX_SIZE]
    here = slice(start, start + INDEX_SIZE)
    return IndexChunk(
        start=start,
        ids=[case.id for case in cases],
        instructions=[_beginning(case.request.instruction) for case in cases],
        groups=_groups(cases),
        n_references=[len(case.request.references) for case in cases],
        values={key: [row[here] for row in rows] for key, rows in grids.values.items()},
        failed={key: [row[here] for row in rows] for key, rows in grids.failed.items()},
        waiting={
            key: [[i for i, wait in enumerate(row[here]) if wait] for row in rows]
            for key, rows in grids.waiting.items()
        },
        flags=[[of_model.get(case.id, 0) for case in cases] for of_model in flags],
        words=[_words(board, case) for case in cases],
    )


def _beginning(instruction: str) -> str:
    return instruction if len(instruction) <= _INSTRUCTION else f"{instruction[: _INSTRUCTION - 1].rstrip()}…"


_MOST_LOOKED = 6
"""Models whose pictures of a case are shown on the overview, the first on the board."""


def looks(board: Board, grids: CaseValues, store: PictureStore) -> dict[str, list[LookView]]:
    """By protocol and judge: the best, the worst and the most disputed case, with what the first models made of them.

    Cases that more of these models have a value for come first; best and worst are by the models' mean, disputed is
    where the best and the worst of them are furthest apart.
    """
    if not any(board.outputs):
        return {}
    order = sorted(range(len(board.models)), key=board.places.__getitem__)[:_MOST_LOOKED]
    found = {}
    for key, rows in grids.values.items():
        protocol = key.partition("/")[0]
        lower = board.summary[protocol] in board.bench.scoring.lower
        values = np.array([[np.nan if v is None else v for v in rows[model]] for model in order], dtype=np.float64)
        chosen = _chosen(-values if lower else values)
        found[key] = [_look(board, store, why, place, order, grids, key) for why, place in chosen.items()]
    return {key: some for key, some in found.items() if some}


def _chosen(values: Array) -> dict[str, int]:
    """Which case is shown and why; none twice."""
    there = (~np.isnan(values)).sum(axis=0)
    if not there.size or not there.max():
        return {}
    full = np.flatnonzero(there == there.max())
    means = np.nanmean(values[:, full], axis=0)
    spreads = np.nanmax(values[:, full], axis=0) - np.nanmin(values[:, full], axis=0)
    wanted = {"best": means, "worst": -means} | ({"disputed": spreads} if there.max() > 1 else {})
    found: dict[str, int] = {}
    for why, figure in wanted.items():
        left = [n for n in np.argsort(-figure, kind="stable") if int(full[n]) not in found.values()]
        if left and not (why == "disputed" and spreads[left[0]] <= 0):
            found[why] = int(full[left[0]])
    return found


def _look(
    board: Board, store: PictureStore, why: str, place: int, order: Sequence[int], grids: CaseValues, key: str
) -> LookView:
    case = board.cases[place]
    given = (
        store.glance(store.input_file(picture, board.picture_root, board.inputs), picture.role, picture.name)
        for picture in case.request.pictures
    )
    first: dict[int, PictureView | None] = {}
    for model, output in board.outputs_by_case.get(case.id, ()):
        if model in order and model not in first and output.step is None and output.pictures:
            of_model = board.models[model]
            first[model] = store.glance(
                store.output_file(output.pictures[0], board.runs[of_model.run]), "output", of_model.name
            )
    return LookView(
        why=why,
        case=case.id,
        instruction=_beginning(case.request.instruction),
        given=next(filter(None, given), None),
        n_given=len(case.request.pictures),
        models=[
            LookAt(
                model=model,
                picture=first.get(model),
                value=grids.values[key][model][place],
                failed=grids.failed[key][model][place],
            )
            for model in order
        ],
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
    texts = [case.id, *case.groups.values(), *case.tags, case.request.instruction]
    texts += [replies.words(case.id) for replies in board.replies]
    return " ".join(filter(None, texts)).lower()[:_WORDS]


def cases_chunk(board: Board, store: PictureStore, number: int) -> CasesChunk:
    """What is needed to show cases `number * CASES_SIZE` and on."""
    start = number * CASES_SIZE
    cases = board.cases[start : start + CASES_SIZE]
    store.warm(_files(board, cases))
    replies = [of_run.of([case.id for case in cases]) for of_run in board.replies]
    return CasesChunk(
        start=start,
        cases=[_case(board, store, case, [of_run[case.id] for of_run in replies]) for case in cases],
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


def _case(board: Board, store: PictureStore, case: AnyCase, replies: Sequence[Sequence[Mapping[str, Any]]]) -> CaseView:
    return CaseView(
        id=case.id,
        instruction=case.request.instruction,
        references=store.inputs(case.request.pictures, board.picture_root, board.inputs),
        targets=store.inputs(case.targets, board.picture_root, board.inputs),
        groups=case.groups,
        tags=case.tags,
        questions=[as_view(QuestionView, question) for question in board.bench.asking.questions(case)],
        outputs=_outputs(board, store, case),
        scores=[
            as_view(ScoreView, score, **board.numbers(score), failure=_reason(score.failure))
            for score in board.scores_by_case.get(case.id, ())
        ],
        replies=[
            as_view(
                ReplyView,
                reply,
                model=board.numbers_by_run[run, reply["model"]],
                judge=board.judge_numbers[reply["judge"]],
            )
            for run, of_run in enumerate(replies)
            for reply in of_run
        ],
    )


def _outputs(board: Board, store: PictureStore, case: AnyCase) -> list[OutputView]:
    found = []
    for number, output in board.outputs_by_case.get(case.id, ()):
        model = board.models[number]
        name = model.name if output.step is None else f"{model.name}, step {output.step + 1}"
        pictures = store.outputs(output.pictures, board.runs[model.run], name)
        used = board.references.get((model.run, case.id, model.of_run, output.seed), {}) if output.step is None else {}
        found.append(
            as_view(
                OutputView,
                output,
                model=number,
                pictures=pictures,
                failure=_reason(output.failure),
                references=used,
            )
        )
    return found


def _reason(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else {"kind": failure.kind, "detail": failure.detail}
