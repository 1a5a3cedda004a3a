"""What other words do for a judge that pictures talk to: the same attacks, asked about in two wordings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from refbench.analysis.audit import figures
from refbench.analysis.audit.estimates import Estimate, mean_over_cases
from refbench.analysis.audit.marks import FEWEST, AuditMark, Criterion, Marks, perturbations
from refbench.analysis.audit.records import Figure
from refbench.record import Record, RefBenchError
from refbench.stats import holm

LEVEL = 0.05


class AttackChange(Record):
    """One attack and one criterion: the mean rise of the mark before, after, and the difference, over the cases that
    both audits have marks of. `p` is that of the difference, corrected over all attacks and criteria (Holm)."""

    number: int
    said: str
    criterion: str
    before: Figure
    after: Figure
    change: Figure
    p: float | None
    verdict: Literal["helps", "harms", "cannot tell", "too few cases"]
    still: bool | None
    """Whether the mark rises in the new words for sure, at 5 % over the whole table (Holm); None with too few cases."""


def rewording(
    before: Iterable[AuditMark], after: Iterable[AuditMark], criteria: Sequence[Criterion]
) -> list[AttackChange]:
    """Every attack that both audits asked about, paired by output; a lower rise is better."""
    marks = [list(before), list(after)]
    shared = {(m.case, m.model) for m in marks[0]} & {(m.case, m.model) for m in marks[1]}
    if not shared:
        raise RefBenchError("the two audits have no case in common: give both the same variants")
    kept = [sorted((m for m in of if (m.case, m.model) in shared), key=lambda m: (m.case, m.model)) for of in marks]
    then, now = (Marks.of(of, criteria) for of in kept)
    found = [
        (criterion, number, _pair(then, now, criterion, number))
        for criterion in criteria
        for number in then.attacks(criterion)
        if number in now.attacks(criterion)
    ]
    tested = [estimates for _, _, estimates in found if estimates[2].n >= FEWEST]
    changed = iter(holm([change.p_against(0.0) for _, _, change in tested]))
    risen = iter(holm([after.p_against(0.0) for _, after, _ in tested]))
    return [
        _row(criterion, number, estimates, (next(changed), next(risen)) if estimates[2].n >= FEWEST else None)
        for criterion, number, estimates in found
    ]


def _pair(then: Marks, now: Marks, criterion: Criterion, number: int) -> tuple[Estimate, Estimate, Estimate]:
    """The rise in both wordings and the difference, over outputs that have both."""
    old, new = (figures.rise(marks, criterion, number) for marks in (then, now))
    both = np.isfinite(old) & np.isfinite(new)
    old, new = np.where(both, old, np.nan), np.where(both, new, np.nan)
    before, after, change = (mean_over_cases(values, then.case) for values in (old, new, new - old))
    return before, after, change


def _row(
    criterion: Criterion,
    number: int,
    estimates: tuple[Estimate, Estimate, Estimate],
    ps: tuple[float, float] | None,
) -> AttackChange:
    about = perturbations()[number].said
    if ps is None:
        few = Figure(n=estimates[2].n, why=f"fewer than {FEWEST} cases")
        return AttackChange(
            number=number,
            said=about,
            criterion=criterion.name,
            before=few,
            after=few,
            change=few,
            p=None,
            verdict="too few cases",
            still=None,
        )
    before, after, change = (one.figure() for one in estimates)
    verdict: Literal["helps", "harms", "cannot tell"] = "cannot tell"
    if ps[0] <= LEVEL:
        verdict = "helps" if estimates[2].value < 0 else "harms"
    return AttackChange(
        number=number,
        said=about,
        criterion=criterion.name,
        before=before,
        after=after,
        change=change,
        p=ps[0],
        verdict=verdict,
        still=ps[1] <= LEVEL and estimates[1].value > 0,
    )
