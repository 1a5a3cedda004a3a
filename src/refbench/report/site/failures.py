"""Outputs of a board that are nearly a source or a reference, looked at through the thumbnails."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from refbench.analysis.copies import Copy, flag_of
from refbench.analysis.failures import failure_test
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.report.site.boards import Board
from refbench.report.site.contract import FLAGS, FailuresChunk
from refbench.report.site.pictures import Album
from refbench.tables.table import Row, names_of


@dataclass(frozen=True)
class Copies:
    """Bits of FLAGS for each model and case id, the same as rows of the failures page, and what was not looked at."""

    bits: Sequence[Mapping[str, int]]
    rows: Sequence[Mapping[str, Any]] = ()
    unchecked: str = ""


def not_yet(board: Board) -> Copies:
    """What a live page says while the pictures are still being looked at."""
    said = "" if not any(board.outputs) else "The pictures are still being compared: load the page again in a while."
    return Copies([{} for _ in board.models], (), said)


def find_copies(board: Board, album: Album, stopped: Callable[[], bool] = lambda: False) -> Copies:
    """Compare every final output with the pictures that its model was given; `stopped` ends it early."""
    bits: list[dict[str, int]] = [{} for _ in board.models]
    counts: list[Counter[str]] = [Counter() for _ in board.models]
    cases: dict[tuple[int, str], dict[str, None]] = {}
    problems: list[str] = []
    concerned = [case for case in board.cases if case.request.pictures and case.id in board.outputs_by_case]

    def look(case: AnyCase) -> list[tuple[int, Copy | Failure | None]]:
        return [] if stopped() else _of_case(board, album, case)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, found in zip(concerned, pool.map(look, concerned), strict=True):
            for model, said in found:
                if isinstance(said, Failure):
                    problems.append(said.detail)
                    continue
                counts[model]["checked"] += 1
                if said is not None:
                    counts[model][said.flag] += 1
                    bits[model][case.id] = bits[model].get(case.id, 0) | 1 << FLAGS.index(said.flag)
                    cases.setdefault((model, said.flag), {})[case.id] = None
    rows = [
        {"model": model, "flag": flag, "n": counts[model][flag], "of": counts[model]["checked"], "cases": list(ids)}
        for (model, flag), ids in sorted(cases.items())
    ]
    unchecked = f"{len(problems)} outputs could not be checked (first: {problems[0]})." if problems else ""
    return Copies(bits, rows, unchecked)


def _of_case(board: Board, album: Album, case: AnyCase) -> list[tuple[int, Copy | Failure | None]]:
    """What each final output of the case is nearly equal to; a Failure where that cannot be said."""
    given: dict[bool, list[Any]] = {True: [], False: []}
    missing: str | None = None
    for picture in case.request.pictures:
        shot = album.input_shot(picture, board.picture_root, board.inputs)
        if shot is None:
            missing = f"{picture.name} cannot be opened, or is another picture than was used"
        else:
            given[picture.role == "source"].append(album.small(shot))
    found: list[tuple[int, Copy | Failure | None]] = []
    for model, output in board.outputs_by_case[case.id]:
        if output.step is not None or not output.pictures:
            continue
        said: list[Copy | Failure | None] = []
        for stored in output.pictures:
            shot = album.output_shot(stored, board.runs[board.models[model].run])
            if shot is None:
                said.append(Failure(kind="unreadable_picture", detail=f"{case.id}: the output cannot be opened"))
            else:
                said.append(flag_of(album.small(shot), given[True], given[False]))
        copies = [one for one in said if isinstance(one, Copy)]
        failures = [one for one in said if isinstance(one, Failure)]
        if missing is not None and not copies:
            failures.append(Failure(kind="unreadable_picture", detail=missing))
        found.append((model, copies[0] if copies else failures[0] if failures else None))
    return found


# Chunk `<board>/failures`: what failed, where, whether it depends on the model, and what to look at.

_MOST_EXAMPLES = 300


def failures_chunk(
    board: Board, rows: Sequence[Row], summary: Mapping[str, str], copies: Copies, *, seed: int
) -> FailuresChunk:
    """Failures by kind and by slice, whether they depend on the model, near copies, and examples to look at."""
    return FailuresChunk(
        by_kind=_by_kind(board, rows),
        by_slice=_by_slice(board, rows, summary),
        test=_tests(board, seed),
        flags=copies.rows,
        unchecked=copies.unchecked,
        examples=_examples(board),
    )


def _tests(board: Board, seed: int) -> list[dict[str, Any]]:
    found = []
    for protocol in board.protocols:
        for judge in board.judges:
            test = failure_test(board.result, protocol, judge, seed=seed)
            number = board.judge_numbers[judge]
            # The test is about the summary measure: other measures may have failures where it has none.
            statement = f"in {test.measure}, {test.statement}"
            found.append({"protocol": protocol, "judge": number, "statement": statement, "p": test.p})
    return found


def _by_kind(board: Board, rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "model": board.model_numbers[row.model],
            "judge": board.judge_numbers[row.judge],
            "protocol": row.protocol,
            "metric": row.metric,
            "kind": kind,
            "n": count,
            "n_expected": row.n_expected,
        }
        for row in rows
        if row.slice["level"] == "overall"
        for kind, count in row.failures.items()
    ]


def _by_slice(board: Board, rows: Sequence[Row], summary: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "model": board.model_numbers[row.model],
            "judge": board.judge_numbers[row.judge],
            "protocol": row.protocol,
            "level": row.slice["level"],
            "name": " / ".join(names_of(row.slice)),
            "n_expected": row.n_expected,
            "n_scored": row.n_scored,
            "n_not_asked": row.n_not_asked,
            "failures": row.failures,
        }
        for row in rows
        if row.slice["level"] != "overall" and row.metric == summary[row.protocol]
    ]


def _examples(board: Board) -> list[dict[str, Any]]:
    """Failures in turn from every protocol, kind and model, so that a common one does not hide a rare one; one line for
    all the measures that one picture has lost to it."""
    found: dict[tuple[str, str, str], dict[tuple[object, ...], dict[str, Any]]] = {}
    for score in board.result.scores:
        failure = score.failure
        if failure is None:
            continue
        alike = found.setdefault((score.protocol, failure.kind, score.model), {})
        place = score.case, score.seed, score.judge, failure.detail
        if place in alike:
            alike[place]["metrics"].append(score.metric)
        elif len(alike) < _MOST_EXAMPLES:
            alike[place] = {
                "case": score.case,
                "model": board.model_numbers[score.model],
                "judge": board.judge_numbers[score.judge],
                "protocol": score.protocol,
                "metrics": [score.metric],
                "seed": score.seed,
                "kind": failure.kind,
                "detail": failure.detail,
            }
    listed = [list(alike.values()) for alike in found.values()]
    turns = [alike[turn] for turn in range(_MOST_EXAMPLES) for alike in listed if turn < len(alike)]
    return turns[: _MOST_EXAMPLES * len(board.protocols)]
