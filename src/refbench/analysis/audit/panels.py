"""Which two or three cheap judges together see what an expensive one sees, and for what price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from refbench.analysis.audit import figures
from refbench.analysis.audit.estimates import Estimate, mean_of, mean_over_cases
from refbench.analysis.audit.marks import FEWEST, AuditMark, Criterion, Marks, perturbations
from refbench.analysis.audit.records import Figure
from refbench.record import Record, RefBenchError
from refbench.stats import holm

MARGIN = 0.05
"""A panel sees as much when it sees at most this share of pairs less."""
LEVEL = 0.05


class PanelRow(Record):
    """One panel (or single judge) against the judge that it might replace. `gap` is the panel's `sees` less that
    judge's, over all criteria; `p` is the largest over criteria that the gap is not below -5 points, corrected over
    all panels."""

    judges: tuple[str, ...]
    usd_per_call: float | None
    sees: Mapping[str, Figure]
    gap: Figure
    p: float | None
    verdict: Literal["sees as much", "sees less", "cannot tell", "too few cases"]
    misses: tuple[str, ...]
    """Damages of which the other judge sees three quarters, and the panel does not."""


class _Audit:
    """One judge's or panel's values for each output."""

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.higher = {
            (criterion.name, number): figures.pairs(marks, criterion, number).higher
            for criterion in marks.criteria
            for number in marks.numbers(criterion.name, "damage")
            if criterion.ability in perturbations()[number].falls
        }


def panels(
    marks: Mapping[str, Iterable[AuditMark]],
    criteria: Sequence[Criterion],
    *,
    instead_of: str,
    usd_per_call: Mapping[str, float] | None = None,
    largest: int = 3,
) -> list[PanelRow]:
    """Every panel of the other judges, the cheapest that sees as much first. A panel's mark is the mean of its judges'
    marks; where one of them gave none, it has none. All judges were audited on the same variants."""
    if instead_of not in marks or len(marks) < 2:
        raise RefBenchError(f"{instead_of}: a panel is compared with a judge that was audited, among others")
    prices = usd_per_call or {}
    by_judge = {name: {(*m[:4], m.model): m for m in of} for name, of in marks.items()}
    shared = set.intersection(*({(key[0], key[4]) for key in of} for of in by_judge.values()))
    if not shared:
        raise RefBenchError("these audits have no case in common: judges are compared on the same cases")
    places = sorted(
        {key for of in by_judge.values() for key in of if (key[0], key[4]) in shared}, key=lambda k: (k[0], k[4])
    )
    target = _Audit(_of_panel([by_judge[instead_of]], places, criteria))
    others = [name for name in marks if name != instead_of]
    chosen = [names for size in range(1, largest + 1) for names in combinations(others, size)]
    return _ranked(
        [
            _row(names, _Audit(_of_panel([by_judge[n] for n in names], places, criteria)), target, prices)
            for names in chosen
        ]
    )


_Place = tuple[str, str, str, int, str]


def _of_panel(
    members: Sequence[Mapping[_Place, AuditMark]], places: Sequence[_Place], criteria: Sequence[Criterion]
) -> Marks:
    marks = []
    for place in places:
        given = [member.get(place) for member in members]
        values = [one.mark for one in given if one is not None and one.mark is not None]
        whole = len(values) == len(members)
        failure = next((one.failure for one in given if one is not None and one.failure), "no mark")
        case, variant, criterion, repeat, model = place
        mark = float(np.mean(values)) if whole else None
        marks.append(AuditMark(case, variant, criterion, repeat, mark, "" if whole else failure, model))
    return Marks.of(marks, criteria)


def _row(
    names: tuple[str, ...], panel: _Audit, target: _Audit, prices: Mapping[str, float]
) -> tuple[PanelRow, float, float]:
    """The row, and the p of both claims: that every criterion is not far below, and that some criterion is."""
    cases, gaps, sees, misses = panel.marks.case, [], {}, []
    for criterion in panel.marks.criteria:
        of_criterion, own = [], []
        for (name, number), higher in panel.higher.items():
            other = target.higher.get((name, number))
            if name != criterion.name or other is None:
                continue
            apart = mean_over_cases(higher - other, cases)
            if apart.n < FEWEST:
                continue
            of_criterion.append(apart)
            own.append(mean_over_cases(higher, cases, "share"))
            if own[-1].value < figures.SEEN <= mean_over_cases(other, cases).value:
                misses.append(f"{criterion.name}: {perturbations()[number].said}")
        if of_criterion:
            gaps.append(mean_of(of_criterion))
            sees[criterion.name] = mean_of(own).figure()
    above = [_above(gap) for gap in gaps]
    as_much, less = max(above, default=1.0), min(1.0, len(gaps) * (1 - max(above, default=0.0)))
    price = sum(prices[name] for name in names) if all(name in prices for name in names) else None
    gap = mean_of(gaps).figure() if gaps else Figure(why=f"fewer than {FEWEST} cases")
    row = PanelRow(
        judges=names, usd_per_call=price, sees=sees, gap=gap, p=None, verdict="too few cases", misses=tuple(misses)
    )
    return row, as_much, less


def _above(gap: Estimate) -> float:
    """One-sided p that the gap is above minus the margin."""
    p = gap.p_against(-MARGIN)
    return p / 2 if gap.value > -MARGIN else 1 - p / 2


def _ranked(found: Sequence[tuple[PanelRow, float, float]]) -> list[PanelRow]:
    as_much, below = holm([p for _, p, _ in found]), holm([p for _, _, p in found])
    rows = []
    for (row, _, _), p, less in zip(found, as_much, below, strict=True):
        if row.sees:
            verdict = "sees as much" if p <= LEVEL else "sees less" if less <= LEVEL else "cannot tell"
            row = row.model_copy(update={"p": p, "verdict": verdict})
        rows.append(row)
    order = ("sees as much", "cannot tell", "sees less", "too few cases")
    return sorted(
        rows, key=lambda r: (order.index(r.verdict), r.usd_per_call is None, r.usd_per_call or 0.0, len(r.judges))
    )
