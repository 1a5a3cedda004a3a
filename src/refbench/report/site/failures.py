"""Chunk `<board>/failures`: what failed, where, whether it depends on the model, what to look at; and which outputs are
nearly a source or a reference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from refbench.analysis.copies import Copy, Given, Look, aspects_of, look_at, nearest_copy
from refbench.analysis.failures import failure_test
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.machine import cores
from refbench.output import StoredPicture
from refbench.pictures import read_pixels
from refbench.report.site.boards import Board
from refbench.report.site.contract import FLAGS, FailuresChunk
from refbench.report.site.pictures import PictureFile, PictureStore
from refbench.tables.table import names_of

_MOST_LOOKS = 20_000
"""Pictures whose looks are remembered, of about 1 kB each."""
_MOST_CAUSES = 100
_CAUSE = 200
_LINE = 2000
# Numbers, hashes, paths and quoted texts: what two failures of one cause do not share; an error's own number stays.
_CHANGES = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|\b[0-9a-fA-F]{8,}\b|(?:/[^\s/:]+)+"""
    r"""|(?<!status )(?<!HTTP )(?<!error )(?<![\d.])\d+(?:\.\d+)?"""
)


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

    looks = _Looks(store)

    def compare(case: AnyCase) -> list[tuple[int, Copy | Failure | None]]:
        return [] if stopped() else _of_case(board, looks, case)

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


class _Looks:
    """How pictures look, each opened once for an aspect, however many cases and models have it."""

    def __init__(self, store: PictureStore) -> None:
        self.store = store
        self._known: dict[str, Look | Failure] = {}

    def of(self, file: PictureFile, aspects: Collection[float] = ()) -> Look | Failure:
        known = self._known.get(file.sha256)
        if known is None or (isinstance(known, Look) and not known.aspects.issuperset(aspects)):
            further = known.aspects if isinstance(known, Look) else ()
            known = look_at(read_pixels(self.store.small(file)), {*further, *aspects})
            if len(self._known) < _MOST_LOOKS:
                self._known[file.sha256] = known
        return known


def _of_case(board: Board, seen: _Looks, case: AnyCase) -> list[tuple[int, Copy | Failure | None]]:
    """What each final output of the case is nearly equal to; a Failure where that cannot be said."""
    store = seen.store
    outputs = [
        (model, [_output_look(board, seen, case, model, stored) for stored in output.pictures])
        for model, output in board.outputs_by_case[case.id]
        if output.step is None and output.pictures
    ]
    aspects = aspects_of(look for _, looks in outputs for look in looks)
    sources: list[Given] = []
    references: list[Given] = []
    missing: list[Failure] = []
    for picture in case.request.pictures:
        file = store.input_file(picture, board.picture_root, board.inputs)
        if file is None:
            detail = f"{picture.name} cannot be opened, or is another picture than was used"
            missing = [Failure(kind="unreadable_picture", detail=detail)]
        else:
            look = seen.of(file, aspects)
            if picture.role == "source":
                sources.append(("near_source", picture.name, look))
            else:
                references.append(("near_reference", picture.name, look))
    found: list[tuple[int, Copy | Failure | None]] = []
    for model, looks in outputs:
        nearest = [nearest_copy(look, [*sources, *references]) for look in looks]
        copies = [one for one in nearest if isinstance(one, Copy)]
        failures = [one for one in nearest if isinstance(one, Failure)]
        found.append((model, copies[0] if copies else next(iter([*failures, *missing]), None)))
    return found


def _output_look(board: Board, seen: _Looks, case: AnyCase, model: int, stored: StoredPicture) -> Look | Failure:
    file = seen.store.output_file(stored, board.runs[board.models[model].run])
    if file is None:
        return Failure(kind="unreadable_picture", detail=f"{case.id}: the output cannot be opened")
    return seen.of(file)


def failures_chunk(board: Board, copies: Copies) -> FailuresChunk:
    """Failures by kind, by slice and by cause, whether they depend on the model, and near copies."""
    causes, n_causes = _causes(board)
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
        causes=causes,
        n_causes=n_causes,
    )


def _of(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _test(board: Board, protocol: str, judge: str | None) -> dict[str, Any]:
    test = failure_test(board.result, protocol, judge, seed=board.seed)
    # The test is about the summary measure: other measures may have failures where it has none.
    statement = f"in {test.measure}, {test.statement}"
    return {"protocol": protocol, "judge": board.judge_numbers[judge], "statement": statement, "p": test.p}


def _causes(board: Board) -> tuple[list[dict[str, Any]], int]:
    """Failures that are alike together, with how many pictures they cost and one of them, most first; and how many such
    groups there are. One picture counts once, however many measures it has lost."""
    found: dict[tuple[str, int, str, str], dict[str, Any]] = {}
    for score in board.result.scores:
        if (failure := score.failure) is None:
            continue
        numbers = board.numbers(score)
        cause = cause_of(failure.detail, score.case, score.metric)
        group = found.setdefault((score.protocol, numbers["judge"], failure.kind, cause), {})
        if not group:
            first = {"case": score.case, **numbers, "seed": score.seed, "protocol": score.protocol}
            group |= {**first, **_of(failure, "kind", "detail"), "cause": _said(failure.detail)[:_CAUSE]}
            group |= {"metrics": {}, "places": set()}
        group["metrics"][score.metric] = None
        group["places"].add((numbers["model"], score.case, score.seed))
    told: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for (protocol, judge, kind, _), group in found.items():
        places = group.pop("places")
        models = Counter(model for model, _, _ in places)
        group |= {
            "n": len(places),
            "models": sorted(models.items(), key=lambda one: (-one[1], one[0])),
            "metrics": list(group["metrics"]),
        }
        told.setdefault((protocol, judge, kind), []).append(group)
    most = [sorted(alike, key=lambda group: -group["n"])[:_MOST_CAUSES] for alike in told.values()]
    return sorted((group for alike in most for group in alike), key=lambda group: -group["n"]), len(found)


def _said(detail: str) -> str:
    """The line that says what happened: the last of a traceback, else the first."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1] if any(line.startswith("Traceback (") for line in lines) else lines[0]


def cause_of(detail: str, case: str, metric: str = "") -> str:
    """The same for failures of one cause: without case and measure, and without what changes from one to the next."""
    line = _said(detail)[:_LINE]
    for name, stands in ((case, "CASE"), (metric, "MEASURE")):
        if name:
            line = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", stands, line)
    return _CHANGES.sub("#", line)[:_CAUSE]
