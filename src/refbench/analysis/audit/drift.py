"""Whether the judge behind a name is still the one that was audited: its clean items asked again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from refbench.analysis.audit.estimates import mean_over_cases
from refbench.analysis.audit.marks import CLEAN, FEWEST, AuditMark, Criterion, Marks
from refbench.analysis.audit.records import Figure
from refbench.record import Record, RefBenchError
from refbench.stats import detectable, holm, mean_of_those_there

LEVEL = 0.05


class AuditDrift(Record):
    """One criterion: the mean mark of the clean items now less that of then. `moved` at 5 % over all criteria (Holm).
    `unseen` is the shift that this check finds four times in five."""

    criterion: str
    then: float | None
    now: float | None
    shift: Figure
    p: float | None
    unseen: float | None
    moved: bool


def drift_of_audits(
    then: Iterable[AuditMark], now: Iterable[AuditMark], criteria: Sequence[Criterion]
) -> list[AuditDrift]:
    """Over the clean items that both audits have marks of."""
    clean = [[mark for mark in marks if mark.variant == CLEAN] for marks in (then, now)]
    shared = {(m.case, m.model) for m in clean[0]} & {(m.case, m.model) for m in clean[1]}
    if not shared:
        raise RefBenchError("the two audits have no clean item in common: --again takes the audit of the same cases")
    kept = [
        sorted((m for m in marks if (m.case, m.model) in shared), key=lambda m: (m.case, m.model)) for marks in clean
    ]
    before, after = (Marks.of(marks, criteria) for marks in kept)
    family = []
    for criterion in criteria:
        merits = [mean_of_those_there(one.clean(criterion.name), axis=1) for one in (before, after)]
        sign = 1.0 if criterion.better == "higher" else -1.0
        base = criterion.low if criterion.better == "higher" else criterion.high
        both = np.isfinite(merits[0]) & np.isfinite(merits[1])
        means = [base + sign * float(m[both].mean()) if both.any() else None for m in merits]
        family.append((criterion, mean_over_cases(sign * (merits[1] - merits[0]), before.case), means))
    counted = [one for one in family if one[1].n >= FEWEST]
    ps = iter(holm([one.p_against(0.0) for _, one, _ in counted]))
    rows = []
    for criterion, one, (mean_then, mean_now) in family:
        enough = one.n >= FEWEST
        p = next(ps) if enough else None
        interval = one.interval()
        unseen = None
        if enough and interval is not None:
            half = (interval[1] - interval[0]) / 2
            unseen = detectable(half, clusters=one.n, df=one.n - 1, family=len(counted))
        shift = one.figure() if enough else Figure(n=one.n, why=f"fewer than {FEWEST} cases")
        moved = p is not None and p <= LEVEL
        rows.append(
            AuditDrift(
                criterion=criterion.name, then=mean_then, now=mean_now, shift=shift, p=p, unseen=unseen, moved=moved
            )
        )
    return rows
