"""Chunk `<board>/failures`: what failed, where, whether it depends on the model, what to look at; and which outputs are
nearly a source or a reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.analysis.copies import Copy, flag_of
from refbench.analysis.failures import failure_test
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.machine import cores
from refbench.report.site.boards import Board
from refbench.report.site.contract import FLAGS, FailuresChunk
from refbench.report.site.pictures import PictureStore
from refbench.tables.table import names_of

_MOST_EXAMPLES = 300


@dataclass(frozen=True)
class Copies:
    """Bits of FLAGS for each model and case id, the same as rows of the failures page, and what was not looked at."""

    bits: Sequence[Mapping[str, int]]
    rows: Sequence[Mapping[str, Any]] = ()
    unchecked: str = ""


def not_yet(board: Board) -> Copies:
    """What a live page says while the pictures are still being looked at."""
    waiting = "The pictures are still being compared: load the page again in a while." if any(board.outputs) else ""
    return Copies([{} for _ in board.models], (), waiting)


def find_copies(board: Board, store: PictureStore, stopped: Callable[[], bool] = lambda: False) -> Copies:
    """Compare every final output with the pictures that its model was given; `stopped` ends it early."""
    bits: list[dict[str, int]] = [{} for _ in board.models]
    counts: list[Counter[str]] = [Counter() for _ in board.models]
    cases: dict[tuple[int, str], dict[str, None]] = {}
    problems: list[str] = []
    concerned = [case for case in board.cases if case.request.pictures and case.id in board.outputs_by_case]

    def compare(case: AnyCase) -> list[tuple[int, Copy | Failure | None]]:
        return [] if stopped() else _of_case(board, store, case)

    with ThreadPoolExecutor(cores()) as pool:
        for case, found in zip(concerned, pool.map(compare, concerned), strict=True):
            for model, look in found:
                if isinstance(look, Failure):
                    problems.append(look.detail)
                    continue
                counts[model]["checked"] += 1
                if look is not None:
                    counts[model][look.flag] += 1
                    bits[model][case.id] = bits[model].get(case.id, 0) | 1 << FLAGS.index(look.flag)
                    cases.setdefault((model, look.flag), {})[case.id] = None
    rows = [
        {"model": model, "flag": flag, "n": counts[model][flag], "of": counts[model]["checked"], "cases": list(ids)}
        for (model, flag), ids in sorted(cases.items())
    ]
    unchecked = f"{len(problems)} outputs could not be checked (first: {problems[0]})." if problems else ""
    return Copies(bits, rows, unchecked)


def _of_case(board: Board, store: PictureStore, case: AnyCase) -> list[tuple[int, Copy | Failure | None]]:
    """What each final output of the case is nearly equal to; a Failure where that cannot be said."""
    sources: list[Path] = []
    references: list[Path] = []
    missing: list[Failure] = []
    for picture in case.request.pictures:
        file = store.input_file(picture, board.picture_root, board.inputs)
        if file is None:
            detail = f"{picture.name} cannot be opened, or is another picture than was used"
            missing = [Failure(kind="unreadable_picture", detail=detail)]
        else:
            (sources if picture.role == "source" else references).append(store.small(file))
    found: list[tuple[int, Copy | Failure | None]] = []
    for model, output in board.outputs_by_case[case.id]:
        if output.step is not None or not output.pictures:
            continue
        looks: list[Copy | Failure | None] = []
        for stored in output.pictures:
            file = store.output_file(stored, board.runs[board.models[model].run])
            if file is None:
                looks.append(Failure(kind="unreadable_picture", detail=f"{case.id}: the output cannot be opened"))
            else:
                looks.append(flag_of(store.small(file), sources, references))
        copies = [look for look in looks if isinstance(look, Copy)]
        failures = [look for look in looks if isinstance(look, Failure)]
        found.append((model, copies[0] if copies else next(iter([*failures, *missing]), None)))
    return found


def failures_chunk(board: Board, copies: Copies) -> FailuresChunk:
    """Failures by kind and by slice, whether they depend on the model, near copies, and examples to look at."""
    return FailuresChunk(
        by_kind=[
            {**board.numbers(row), **_of(row, "protocol", "metric"), "kind": kind, "n": n, "n_expected": row.n_expected}
            for row in board.rows
            if row.slice["level"] == "overall"
            for kind, n in row.failures.items()
        ],
        by_slice=[
            {
                **board.numbers(row),
                "protocol": row.protocol,
                "level": row.slice["level"],
                "name": " / ".join(names_of(row.slice)),
                **_of(row, "n_expected", "n_scored", "n_not_asked", "failures"),
            }
            for row in board.rows
            if row.slice["level"] != "overall" and row.metric == board.summary[row.protocol]
        ],
        test=[_test(board, protocol, judge) for protocol in board.protocols for judge in board.judges],
        flags=copies.rows,
        unchecked=copies.unchecked,
        examples=_examples(board),
    )


def _of(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _test(board: Board, protocol: str, judge: str | None) -> dict[str, Any]:
    test = failure_test(board.result, protocol, judge, seed=board.seed)
    # The test is about the summary measure: other measures may have failures where it has none.
    statement = f"in {test.measure}, {test.statement}"
    return {"protocol": protocol, "judge": board.judge_numbers[judge], "statement": statement, "p": test.p}


def _examples(board: Board) -> list[dict[str, Any]]:
    """Failures in turn from every protocol, kind and model, so that a common one does not hide a rare one; one line for
    all the measures that one picture has lost to it."""
    found: dict[tuple[str, str, str], dict[tuple[object, ...], dict[str, Any]]] = {}
    for score in board.result.scores:
        if (failure := score.failure) is None:
            continue
        alike = found.setdefault((score.protocol, failure.kind, score.model), {})
        place = score.case, score.seed, score.judge, failure.detail
        if place in alike:
            alike[place]["metrics"].append(score.metric)
        elif len(alike) < _MOST_EXAMPLES:
            alike[place] = {
                "case": score.case,
                **board.numbers(score),
                "protocol": score.protocol,
                "metrics": [score.metric],
                "seed": score.seed,
                **_of(failure, "kind", "detail"),
            }
    listed = [list(alike.values()) for alike in found.values()]
    turns = [alike[turn] for turn in range(_MOST_EXAMPLES) for alike in listed if turn < len(alike)]
    return turns[: _MOST_EXAMPLES * len(board.protocols)]
