"""Outputs of a board that are nearly a source or a reference, looked at through the thumbnails."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from refbench.analysis.flags import Copy, flag_of
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.report.site.album import Album
from refbench.report.site.boards import Board
from refbench.report.site.contract import FLAGS


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
