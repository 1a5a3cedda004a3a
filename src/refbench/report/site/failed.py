"""Chunk `<board>/failures`: what failed, where, whether it depends on the model, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refbench.analysis.failures import failure_test
from refbench.report.site.boards import Board
from refbench.report.site.contract import FailuresChunk
from refbench.report.site.copies import Copies
from refbench.table import Row, names_of

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
