"""Panels: several judges, or one judge asked several times, made one score."""

from __future__ import annotations

from collections.abc import Sequence

from refbench.score import Score

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
