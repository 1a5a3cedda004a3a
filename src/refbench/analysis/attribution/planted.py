"""How well somebody finds references that are known to be missing: attribution of an audit's outputs, whose damages say
which one is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from refbench.analysis.attribution.read import seen_by
from refbench.analysis.attribution.records import OutputUse
from refbench.analysis.audit.estimates import mean_over_cases
from refbench.analysis.audit.marks import CLEAN, FEWEST, Variant
from refbench.analysis.audit.records import Figure
from refbench.record import Record

SWAPPED, GONE = 3, 4


class Planted(Record):
    """One judge or the networks, on the outputs of an audit. What is unknown is in none of the shares but `known`.

    recall: of the references that were exchanged (3), the share called missing.
    precision: of all references called missing in clean outputs and under 3, the share that was exchanged.
    false_alarms: of the references of clean outputs, which are all there, the share called missing.
    gone: of the outputs whose subject was cut out (4), the share in which some reference is called missing. Nobody has
    written down which reference the subject is of; `gone_clean` is the same share of their clean outputs.
    known: of all references asked about, the share with a state.
    """

    by: str
    recall: Figure
    precision: Figure
    false_alarms: Figure
    gone: Figure
    gone_clean: Figure
    known: Figure


def planted(found: Iterable[OutputUse], references: Mapping[str, Sequence[int]]) -> list[Planted]:
    """For each way and judge; `references` has the numbers of the images of each case that are references."""
    groups: dict[str, list[OutputUse]] = {}
    for one in found:
        groups.setdefault(seen_by(one), []).append(one)
    return [_row(by, outputs, references) for by, outputs in groups.items()]


def _row(by: str, outputs: Sequence[OutputUse], references: Mapping[str, Sequence[int]]) -> Planted:
    recall, precision, alarms, known = _Share(), _Share(), _Share(), _Share()
    any_gone: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for one in outputs:
        variant = Variant.of(one.model)
        swapped = references[one.case][int(variant.at) - 1] if variant.number == SWAPPED else None
        for use in one.references:
            known.add(one.case, use.state is not None)
            if use.state is None:
                continue
            if use.image == swapped:
                recall.add(one.case, use.state == "missing")
            if one.model == CLEAN:
                alarms.add(one.case, use.state == "missing")
            if use.state == "missing" and variant.number in (0, SWAPPED):
                precision.add(one.case, use.image == swapped)
        if variant.number in (0, GONE) and one.known:
            any_gone[variant.number == GONE][one.case] = float(bool(one.images("missing")))
    gone, gone_clean = _Share(), _Share()
    for case in any_gone[True].keys() & any_gone[False].keys():
        gone.add(case, any_gone[True][case])
        gone_clean.add(case, any_gone[False][case])
    shares = (recall, precision, alarms, gone, gone_clean, known)
    figures = [share.figure() for share in shares]
    names = ("recall", "precision", "false_alarms", "gone", "gone_clean", "known")
    return Planted(by=by, **dict(zip(names, figures, strict=True)))


class _Share:
    """A share over answers that hang together by case."""

    def __init__(self) -> None:
        self._cases: dict[str, int] = {}
        self._of: list[int] = []
        self._values: list[float] = []

    def add(self, case: str, value: float) -> None:
        self._of.append(self._cases.setdefault(case, len(self._cases)))
        self._values.append(float(value))

    def figure(self) -> Figure:
        if len(self._cases) < FEWEST:
            return Figure(n=len(self._cases), why=f"fewer than {FEWEST} cases")
        return mean_over_cases(np.array(self._values), np.array(self._of, dtype=np.intp), "share").figure()
