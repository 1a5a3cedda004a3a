"""People's scores beside a run's: the same cases, models and metrics found, and what found no match said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refbench.analysis.human_scores import ONLY_METRIC
from refbench.analysis.ratings import Item, Mark, Ratings, is_panel
from refbench.record import RefBenchError


def with_humans(judged: Ratings, humans: Ratings, where: str) -> Ratings:
    """The judges' ratings and the people's on the items that the judges have; `where` names the people's file."""
    notes = list(judged.notes)
    marks = _named(judged, humans, notes)
    if humans.summaries:
        judged = _means(judged.of_cases(), humans.group_names)
    known = {mark.item._replace(seed=None) for mark in judged.marks}
    there = [mark for mark in marks if mark.item in known]
    if not there:
        raise RefBenchError(_why_none(marks, known, where))
    lost = {mark.item for mark in marks} - known
    if lost:
        notes.append(
            f"{len(lost)} items of {where} are not in the run (first: {', '.join(filter(None, min(lost)[:3]))})"
        )
    clash = set(judged.raters) & set(humans.raters)
    if clash:
        there = [mark._replace(rater=f"{mark.rater} (human)") if mark.rater in clash else mark for mark in there]
    metrics = {mark.item.metric for mark in there}
    without = [metric for metric in judged.metrics if metric not in metrics]
    if without:
        notes.append(f"no human scores of {', '.join(without)}: compared between judges only")
    people = frozenset(mark.rater for mark in there)
    return judged.with_marks([*judged.marks, *there], humans=people, notes=tuple(notes))


def _named(judged: Ratings, humans: Ratings, notes: list[str]) -> Sequence[Mark]:
    """The people's marks with metrics by the run's names; a file without metrics is about the summary measure."""
    if humans.metrics != (ONLY_METRIC,) or ONLY_METRIC in judged.metrics:
        return humans.marks
    judges = [mark for mark in judged.marks if not is_panel(mark.rater)]
    summary = (judges or judged.marks)[-1].item.metric
    notes.append(f"the human scores name no metric: they are compared with {summary}")
    return [mark._replace(item=mark.item._replace(metric=summary)) for mark in humans.marks]


def _means(judged: Ratings, names: Sequence[str]) -> Ratings:
    """The judges' means over the cases of each model, or of each model and group that the people's figures are of."""
    values: dict[tuple[Item, str], list[float]] = {}
    groups: dict[str, dict[str, str]] = {}
    for mark in judged.marks:
        said = {name: judged.group(mark.item.case, name) or "" for name in names}
        case = ", ".join(f"{name} {value}" for name, value in said.items()) or "all"
        groups[case] = said
        if mark.value is not None:
            values.setdefault((mark.item._replace(case=case), mark.rater), []).append(mark.value)
    marks = [Mark(item, rater, float(np.mean(found))) for (item, rater), found in values.items()]
    return judged.with_marks(marks, groups=groups, summaries=True)


def _why_none(marks: Sequence[Mark], known: set[Item], where: str) -> str:
    for kind in ("metric", "model", "case"):
        there = sorted({getattr(item, kind) for item in known})
        said = sorted({getattr(mark.item, kind) for mark in marks})
        if not set(there) & set(said):
            return (
                f"{where}: none of its {kind}s is in the run; it has {', '.join(said[:3]) or 'none'}, "
                f"the run {', '.join(there[:6])}"
            )
    return f"{where}: no case of it was judged for the same model and metric in the run"
