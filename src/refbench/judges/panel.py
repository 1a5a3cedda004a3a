"""Several marks made one: of several judges, of one judge asked several times, and of several criteria of a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.specs import nearest

MEAN = "mean"
"""The name that the mean of the judges has in a table."""


def mean_of_repeats(scores: Sequence[Score]) -> list[Score]:
    """One score for each judge: the mean over its repeats. A repeat that failed says nothing about the value, so
    the others stand for it; only when all failed is the score a failure."""
    grouped: dict[tuple[object, ...], list[Score]] = {}
    for score in scores:
        place = (score.protocol, score.model, score.judge, score.case, score.metric, score.seed)
        grouped.setdefault(place, []).append(score)
    return [_mean(group, group[0].judge, all_needed=False) for group in grouped.values()]


def mean_of_judges(scores: Sequence[Score]) -> list[Score]:
    """The mean over judges for each model that several judges have seen. Judges differ in level, so a case counts
    only when all of them scored it; otherwise it fails as the first that failed."""
    judges: dict[tuple[str, str], set[str | None]] = {}
    grouped: dict[tuple[object, ...], list[Score]] = {}
    for score in scores:
        judges.setdefault((score.protocol, score.model), set()).add(score.judge)
        grouped.setdefault((score.protocol, score.model, score.case, score.metric, score.seed), []).append(score)
    return [
        _mean(group, MEAN, all_needed=True)
        for group in grouped.values()
        if len(judges[group[0].protocol, group[0].model]) > 1
    ]


def _mean(group: Sequence[Score], judge: str | None, *, all_needed: bool) -> Score:
    if len(group) == 1 and not all_needed:
        return group[0]
    values = [score.value for score in group if score.value is not None]
    failures = [score.failure for score in group if score.failure is not None]
    waiting = any(score.not_asked for score in group)
    state: dict[str, object] = {"value": None, "failure": None, "not_applicable": None, "not_asked": False}
    if values and not (all_needed and (failures or waiting)):
        state |= {"value": sum(values) / len(values), "lost_repeats": 0 if all_needed else len(failures)}
    elif failures:
        state["failure"] = failures[0]
    elif waiting:
        state["not_asked"] = True
    else:
        state["not_applicable"] = group[0].not_applicable
    return group[0].model_copy(update={"judge": judge, "repeat": 0, "answers": (), **state})


# Totals: several marks of one case to one, for a single case or for whole columns of cases.

Rule = Literal["mean", "weighted_mean", "geometric_mean", "minimum"]
RULES: tuple[Rule, ...] = get_args(Rule)
WEIGHING: tuple[Rule, ...] = ("weighted_mean", "geometric_mean")
"""The rules in which weights count."""

Array = NDArray[np.float64]


def check_rule(rule: object) -> None:
    """Raises where no such rule is known; without this, a misspelt one would be some other."""
    if rule not in RULES:
        raise RefBenchError(f"there is no rule {rule!r}: {nearest(str(rule), RULES)}")


def combine(rule: Rule, marks: Sequence[Any], weights: Sequence[float] | None = None) -> float | Failure:
    """One mark from several; the first failure among them when there is one."""
    for mark in marks:
        if isinstance(mark, Failure):
            return mark
    if not marks or None in marks:
        return Failure(kind="undefined", detail="there is no mark to combine")
    column = np.array(marks, dtype=np.float64).reshape(-1, 1)
    return float(combine_columns(rule, column, weights, np.ones_like(column, dtype=np.bool_))[0])


def combine_columns(rule: Rule, marks: Array, weights: Sequence[float] | None, applies: NDArray[np.bool_]) -> Array:
    """Combine over the first axis. Marks that do not apply take no part; NaN where one that applies is missing."""
    check_rule(rule)
    shares = np.ones(len(marks)) if weights is None or rule == "mean" else np.asarray(weights, dtype=np.float64)
    weight = np.where(applies, shares.reshape(-1, *[1] * (marks.ndim - 1)), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        if rule == "minimum":
            least = np.where(applies, marks, np.inf).min(axis=0)
            # min passes NaN on, and infinity is left where nothing applies.
            return np.where(np.isfinite(least), least, np.nan)
        values = np.where(applies, marks, 1.0)
        if rule == "geometric_mean":
            # Zero to the power of its weight is zero: no logarithm, which would turn it into -inf.
            product: Array = np.prod(np.power(values, weight / weight.sum(axis=0)), axis=0)
            # Roots are rounded: of 10 and 10 the product is a little more than 10, which no scale of 10 has.
            product = np.clip(
                product,
                values.min(axis=0, initial=np.inf, where=applies),
                values.max(axis=0, initial=-np.inf, where=applies),
            )
            # 1 to any power is 1, also to that of no weight at all.
            return np.where(weight.sum(axis=0) > 0, product, np.nan)
        average: Array = (values * weight).sum(axis=0) / weight.sum(axis=0)
        return average
