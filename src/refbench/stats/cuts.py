"""Where to cut a score so that what lies beyond it is right as often as promised, from some answers known to be right
or wrong."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array
from refbench.stats.quantiles import beta_quantile

SHARE, BOUND, LEVEL = 0.95, 0.90, 0.95
"""Of what is beyond the cut so many are right in the sample, and at least so many in truth, at this one-sided level."""


class Cut(NamedTuple):
    """A cut that holds: scores at `at` and beyond are taken."""

    at: float
    n: int
    """Independent answers beyond it."""
    wrong: int
    bound: float
    """The least share of right ones in truth (one-sided)."""


@cache
def lower_bound(wrong: int, n: int, level: float = LEVEL) -> float:
    """Clopper and Pearson's one-sided lower end for the share of right answers."""
    return beta_quantile(1 - level, n - wrong, wrong + 1) if n else 0.0


@cache
def least_n(wrong: int, bound: float = BOUND, level: float = LEVEL) -> int:
    """How many answers, so many of them wrong, it takes to be sure of the bound: 29, 46, 61, ..."""
    n = wrong + 1
    while lower_bound(wrong, n, level) < bound:
        n += 1
    return n


def highest(score: Array, right: NDArray[np.bool_], group: NDArray[np.intp], *, share: float = SHARE) -> Cut | None:
    """The lowest cut that holds for what scores at least as much; None where none does. What shares a group is one
    answer, wrong where any of it is.

    Cuts are tried from the top, each only if all before it held, so that trying many promises no more than trying one.
    Where they lie is settled by the scores alone: where one more wrong answer could be borne.
    """
    order = np.argsort(-score, kind="stable")
    score, right, group = score[order], right[order], group[order]
    ends = np.flatnonzero(np.append(score[1:] != score[:-1], True)) if len(score) else np.zeros(0, np.intp)
    groups, wrongs = _distinct(group), _distinct(np.where(right, -1, group), leave=-1)
    found, bearable = None, 0
    for end in ends:
        n = int(groups[end])
        if n < least_n(bearable) and not (end == ends[-1] and n >= least_n(0)):
            continue
        while n >= least_n(bearable):
            bearable += 1
        wrong = int(wrongs[end])
        if lower_bound(wrong, n) < BOUND or right[: end + 1].mean() < share:
            break
        found = Cut(float(score[end]), n, wrong, lower_bound(wrong, n))
    return found


def _distinct(values: NDArray[np.intp], leave: int | None = None) -> NDArray[np.intp]:
    """How many different values there are up to each place, one of them not counted."""
    first = np.zeros(len(values), dtype=np.intp)
    names, at = np.unique(values, return_index=True)
    first[at[names != leave] if leave is not None else at] = 1
    return np.cumsum(first)
