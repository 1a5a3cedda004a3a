"""What the owner looks at while a study runs: coverage, raters, agreement. Never shown to raters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from refbench.record import Record
from refbench.studies.adjudication import disputed
from refbench.studies.marks import Mark
from refbench.studies.raters import Rater
from refbench.studies.reading import alphas, answers_of, read

if TYPE_CHECKING:
    from refbench.studies.study import Study


class RaterRow(Record):
    """One rater's part."""

    rater: str
    name: str = ""
    done: int
    total: int
    gold_right: int = 0
    gold_seen: int = 0
    median_seconds: float | None = None
    drift: float | None = None
    """Mean mark of the later half less that of the earlier, in steps of the scale."""
    training: str = ""
    comments: int = 0
    reported: int = 0
    revoked: bool = False
    finished: bool = False
    full: bool = False
    """Whether nothing is left for this rater, who has marked nothing."""
    rules: tuple[str, ...] = ()
    """Exclusion rules that the rater falls to as things stand."""


class AlphaRow(Record):
    """Krippendorff's alpha of a criterion, of interval distance; None until enough items are marked twice."""

    criterion: str
    items: int
    """Items with two marks or more."""
    alpha: float | None = None
    low: float | None = None
    high: float | None = None


class Status(Record):
    """Everything about a study that is running."""

    name: str
    version: int
    items: int
    covered: dict[int, int]
    """How many items have so many raters who are neither left out nor withdrawn."""
    overlap: int
    raters: tuple[RaterRow, ...]
    agreement: tuple[AlphaRow, ...] = ()
    notes: tuple[str, ...] = ()


def status_of(study: Study) -> Status:
    """The study as it is now; exclusion rules are looked at and take nothing away."""
    reading = read(study)
    items = [item.id for item in study.items.values() if item.use == "item"]
    counts = dict.fromkeys(items, 0)
    for mark in study.marks.given():
        if mark.item in counts and mark.occasion == 0 and study.fills(mark.rater):
            counts[mark.item] += 1
    rules = {one.rater: one.rules for one in reading.fallen}
    raters = [rater for rater in study.raters.all.values() if rater.role != "owner"]
    return Status(
        name=study.design.name,
        version=study.versions.number,
        items=len(items),
        covered=dict(sorted(Counter(counts.values()).items())),
        overlap=study.design.overlap,
        raters=tuple(_row(study, rater, rules.get(rater.id, ())) for rater in raters),
        agreement=tuple(
            AlphaRow(
                criterion=one.metric,
                items=one.items,
                alpha=one.alpha,
                low=one.interval[0] if one.interval else None,
                high=one.interval[1] if one.interval else None,
            )
            for one in alphas(reading.kept())
        ),
        notes=tuple(_notes(study)),
    )


def _notes(study: Study) -> Iterator[str]:
    if study.marks.broken:
        yield f"{study.marks.broken} lines of marks.jsonl cannot be read; a server that was killed tears its last one"
    marked = [rater for rater in study.raters.all if study.counts(rater) and study.marks.history.get(rater)]
    if out := sum(not study.fills(rater) for rater in marked):
        yield (
            f"{len(marked) - out} of {len(marked)} raters count: the others are left out or withdrawn, and their items "
            "are given to somebody else"
        )
    if waiting := len(disputed(study)):
        yield f"{waiting} items are in dispute: refbench study adjudicate gives them to one person"


def _row(study: Study, rater: Rater, rules: tuple[str, ...]) -> RaterRow:
    progress = study.progress(rater)
    given = [mark for mark in study.marks.of(rater.id) if mark.state == "given" and mark.item in study.items]
    of_items = [mark for mark in given if study.items[mark.item].use == "item" and mark.occasion == 0]
    gold = [mark for mark in given if study.items[mark.item].use == "gold"]
    times = [mark.active or mark.wall for mark in of_items]
    return RaterRow(
        rater=rater.id,
        name=rater.name,
        done=progress.done,
        total=progress.total,
        gold_right=sum(study.items[mark.item].right(mark.values) for mark in gold),
        gold_seen=len(gold),
        median_seconds=float(np.median(times)) if times else None,
        drift=_drift(study, of_items),
        training=progress.training,
        comments=sum(bool(mark.comment) for mark in given),
        reported=sum(bool(mark.reported) for mark in given),
        revoked=rater.revoked,
        finished=rater.finished > 0,
        full=progress.full,
        rules=rules,
    )


_LEAST = 10
"""Items in each half from which drift is told."""


def _drift(study: Study, marks: list[Mark]) -> float | None:
    """The mean mark of the later half less that of the earlier half, in steps of the scale."""
    ordered = sorted(marks, key=lambda mark: mark.time)
    halves = ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]
    if len(halves[0]) < _LEAST:
        return None
    means = []
    for half in halves:
        values = [a.value / a.step for mark in half for a in answers_of(study, mark) if a.value is not None]
        means.append(float(np.mean(values)) if values else np.nan)
    drift = means[1] - means[0]
    return drift if np.isfinite(drift) else None
