"""Rows by number of references and by tag, for benchmarks that do not table these themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase
from refbench.report.site.boards import Board
from refbench.table import DRAWS, SEED, Row, Slice, tabulate

REFERENCES, TAG = "n_refs", "tag"


def all_rows(board: Board, *, draws: int = DRAWS, seed: int = SEED) -> list[Row]:
    """The rows of the board's table, then those of the further levels; without those of measures that concern none
    of a slice's cases."""
    rows = list(board.result.table.rows)
    levels = {row.slice["level"] for row in rows}
    for protocol in board.protocols:
        aggregate = board.bench.protocols[protocol].aggregate
        overall = next(where for where in aggregate.slices(board.cases) if where.level == "overall")
        further = _further(overall, board.cases, levels)
        if further:
            rows += tabulate(
                protocol,
                replace(aggregate, slices=partial(_given, further)),
                [score for score in board.result.scores if score.protocol == protocol],
                board.cases,
                draws=draws,
                seed=seed,
            )
    return [row for row in rows if row.value is not None or row.n_expected]


def _given(slices: list[Slice], cases: Sequence[AnyCase]) -> list[Slice]:
    return slices


def _further(overall: Slice, cases: Sequence[AnyCase], levels: set[str]) -> list[Slice]:
    """The overall slice kept to the cases with so many references, or with a tag; levels of one slice tell nothing."""
    found: list[Slice] = []
    counts = np.array([len(case.request.pictures) for case in cases])
    numbers = sorted(set(counts.tolist()))
    if REFERENCES not in levels and len(numbers) > 1:
        found += [_within(overall, counts == n, REFERENCES, {REFERENCES: str(n)}) for n in numbers]
    if TAG not in levels:
        for tag in sorted({tag for case in cases for tag in case.tags}):
            members = np.array([tag in case.tags for case in cases], dtype=np.bool_)
            found.append(_within(overall, members, TAG, {TAG: tag}))
    return [where for where in found if where.members.any()]


def _within(where: Slice, members: NDArray[np.bool_], level: str, names: dict[str, str]) -> Slice:
    """The slice with all slices that it is averaged over, kept to some cases; what is left without any goes."""
    changes: dict[str, Any] = {"members": where.members & members, "level": level, "names": names}
    for field in fields(where):
        value = getattr(where, field.name)
        if isinstance(value, tuple) and value and all(isinstance(part, Slice) for part in value):
            kept = (_within(part, members, part.level, dict(part.names)) for part in value)
            changes[field.name] = tuple(part for part in kept if part.members.any())
    return replace(where, **changes)
