"""From the marks of an audit to everything that they say: cells, verdicts corrected over the whole table, the card.

Accusations (blind, moved, fooled, halo, guessing, one reference, a side) stand alone: Holm's correction is over all of
them, so that a judge without fault is accused of anything in one audit of twenty. "Seen" and "unmoved" reassure: a
criterion is usable only when all of them hold, and such an intersection keeps its level when each is tested at 5 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from refbench.analysis.audit import figures
from refbench.analysis.audit.estimates import Estimate, mean_of, mean_over_cases, ratio_off_one
from refbench.analysis.audit.marks import FEWEST, AuditMark, Criterion, Marks, perturbations
from refbench.analysis.audit.people import PeopleMark, with_people
from refbench.analysis.audit.records import (
    AttackCell,
    AuditReport,
    ControlCell,
    CriterionCard,
    CriterionVerdict,
    DamageCell,
    DamageVerdict,
    Figure,
    Flag,
    JudgeCard,
    LadderRow,
    NuisanceCell,
    NuisanceVerdict,
    PairCell,
    PositionRow,
    Rung,
    Spread,
)
from refbench.record import RefBenchError
from refbench.stats import holm

MARGIN = 0.05
"""Of the range: shifts within it are none."""
GUESSING = 0.5
"""Correlation with marks given without seeing from which on pictures add little."""
HALO = 0.5
LEVEL = 0.05
RISING = 0.1


@dataclass(frozen=True)
class Audited:
    """What an audit was of. `references` says how many a case has, which tells the last from a middle one; `waiting`
    how many outputs the judge was not asked about yet."""

    judge: str = "judge"
    wording: str = ""
    rubric: str = ""
    preset: str = ""
    usd_per_call: float | None = None
    references: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0


def audit_report(
    marks: Iterable[AuditMark],
    criteria: Sequence[Criterion],
    audited: Audited | None = None,
    people: Iterable[PeopleMark] = (),
) -> AuditReport:
    """The card, the matrix of perturbations and criteria, ladders and places. `people` gives their marks of the clean
    outputs."""
    if not criteria:
        raise RefBenchError("an audit needs the criteria that the judge marks, each with its ability")
    found = Marks.of(marks, criteria)
    about = audited or Audited()
    table = _Table(found, about)
    table.correct()
    return AuditReport(
        card=table.card(),
        damages=tuple(table.damages),
        nuisances=tuple(table.nuisances),
        attacks=tuple(table.attacks),
        controls=tuple(table.controls),
        pairs=tuple(table.pairs),
        ladders=tuple(_ladders(found)),
        positions=tuple(table.positions),
        people=tuple(with_people(found, people)),
    )


_CLAIMED = ("first", "after the first")
"""Places of which a claim is made; the others are parts of the second, and shown."""


class _Told(NamedTuple):
    verdict: DamageVerdict | None
    p: float | None
    more_cases: int | None


class _Claims:
    """The p of every claim of one table, to be corrected together."""

    def __init__(self) -> None:
        self._p: dict[tuple[str, str, object], float] = {}
        self._corrected: dict[tuple[str, str, object], float] = {}

    def add(self, what: str, criterion: str, which: object, p: float) -> None:
        self._p[what, criterion, which] = p

    def correct(self) -> None:
        self._corrected = dict(zip(self._p, holm(list(self._p.values())), strict=True))

    def p(self, what: str, criterion: str, which: object) -> float:
        return self._corrected[what, criterion, which]

    def __len__(self) -> int:
        return len(self._p)


class _Table:
    """Estimates of all cells first, since every verdict needs the whole family's correction; then the cells."""

    def __init__(self, marks: Marks, about: Audited) -> None:
        self.marks, self.about, self.claims = marks, about, _Claims()
        self.aimed: dict[tuple[str, int], tuple[figures.Pairs, Estimate]] = {}
        self.sees: dict[str, Estimate] = {}
        self.shifts: dict[tuple[str, int], Estimate] = {}
        self.rises: dict[tuple[str, int], Estimate] = {}
        self.blind: dict[tuple[str, int], tuple[Estimate, Estimate]] = {}
        self.selective: dict[str, Estimate] = {}
        self.places: dict[tuple[str, str], Estimate] = {}
        self.sides: dict[tuple[str, int], tuple[Estimate, Estimate]] = {}
        for criterion in marks.criteria:
            if criterion.ability == "pair":
                self._sides(criterion)
            else:
                self._damages(criterion)
                self._others(criterion)
        for criterion in marks.criteria:
            if criterion.ability != "pair":
                self._selective(criterion)

    @property
    def single(self) -> list[Criterion]:
        return [criterion for criterion in self.marks.criteria if criterion.ability != "pair"]

    def _damages(self, criterion: Criterion) -> None:
        name = criterion.name
        for number in self.marks.numbers(name, "damage"):
            pairs = figures.pairs(self.marks, criterion, number)
            self.aimed[name, number] = pairs, figures.sees(self.marks, pairs)
        counted = [self.aimed[name, n][1] for n in self.counted(criterion)]
        self.sees[name] = mean_of(counted) if counted else Estimate.nothing(self.marks.case)
        for number in self.counted(criterion):
            self.claims.add("blind", name, number, _below(self.aimed[name, number][1]))
        if counted:
            self.claims.add("blind", name, "all", _below(self.sees[name]))
        if criterion.ability == "RC":
            for place, one in figures.places(self.marks, criterion, self.about.references).items():
                self.places[name, place] = one
                if one.n >= FEWEST and place in _CLAIMED:
                    self.claims.add("place", name, place, _below(one))

    def counted(self, criterion: Criterion) -> list[int]:
        """The damages aimed at a criterion that have enough cases."""
        return [
            number
            for (name, number), (_, one) in self.aimed.items()
            if name == criterion.name and criterion.ability in perturbations()[number].falls and one.n >= FEWEST
        ]

    def _others(self, criterion: Criterion) -> None:
        name, marks = criterion.name, self.marks
        for number in marks.numbers(name, "nuisance"):
            one = mean_over_cases(figures.change(marks, criterion, number), marks.case)
            self.shifts[name, number] = one
            if one.n >= FEWEST:
                self.claims.add("moved", name, number, _beyond(one, MARGIN * criterion.range))
        for number in marks.attacks(criterion):
            one = mean_over_cases(figures.rise(marks, criterion, number), marks.case)
            self.rises[name, number] = one
            if one.n >= FEWEST:
                self.claims.add("fooled", name, number, one.p_against(0.0))
        for number in (31, 32):
            if number in marks.numbers(name, "control"):
                one, mean = figures.blind(marks, criterion, number)
                self.blind[name, number] = one, mean
                if one.n >= FEWEST and (number == 31 or criterion.ability == "RC"):
                    self.claims.add("guesses", name, number, one.p_against(GUESSING))

    def _selective(self, criterion: Criterion) -> None:
        """Falls of the criteria that should stay over those of the aimed one, all in shares of their range."""
        own, others = [], []
        for number in self.counted(criterion):
            about = perturbations()[number]
            aimed = self._fall(criterion, number)
            stays = [self._fall(other, number) for other in self.single if other.ability in about.stays]
            stays = [fall for fall in stays if fall.n >= FEWEST]
            if stays and aimed.n >= FEWEST:
                own.append(aimed)
                others.append(mean_of(stays))
        if not own or not mean_of(own).value > 0:
            self.selective[criterion.name] = Estimate.nothing(self.marks.case)
            return
        one = ratio_off_one(mean_of(others), mean_of(own))
        self.selective[criterion.name] = one
        self.claims.add("halo", criterion.name, "", one.p_against(HALO))

    def _fall(self, criterion: Criterion, number: int) -> Estimate:
        """At the strength at which other marks stay: what a stronger damage also spoils says nothing about halo."""
        only = perturbations()[number].stays_at
        at = [v for v in self.marks.of_number(criterion.name, number) if not only or v.at == only]
        fall = figures.pairs(self.marks, criterion, number, at).fall / criterion.range
        return mean_over_cases(fall, self.marks.case)

    def _sides(self, criterion: Criterion) -> None:
        for number in (33, 34):
            if number in self.marks.numbers(criterion.name, "control"):
                bias, flips = figures.first_side(self.marks, criterion, number)
                self.sides[criterion.name, number] = bias, flips
                if bias.n >= FEWEST:
                    self.claims.add("side", criterion.name, number, bias.p_against(0.0))

    # The cells, once every p is corrected.

    def correct(self) -> None:
        self.claims.correct()
        self.damages = [self._damage_cell(c, n) for c in self.single for n in self.marks.numbers(c.name, "damage")]
        self.nuisances = [
            self._nuisance_cell(c, n) for c in self.single for n in self.marks.numbers(c.name, "nuisance")
        ]
        self.attacks = [self._attack_cell(c, n) for c in self.single for n in self.marks.attacks(c)]
        self.controls = [self._control_cell(c, n) for c in self.single for n in (31, 32) if (c.name, n) in self.blind]
        self.pairs = [self._pair_cell(name, number) for name, number in self.sides]
        self.positions = [self._position(name, place) for name, place in self.places]

    def _head(self, criterion: Criterion, number: int) -> dict[str, object]:
        one = perturbations()[number]
        failures = self.marks.failed(criterion.name, number)
        return {"number": number, "name": one.name, "said": one.said, "criterion": criterion.name, "failures": failures}

    def _told(self, one: Estimate, what: str, criterion: str, which: object) -> _Told:
        if one.n < FEWEST:
            return _Told("too few cases", None, FEWEST - one.n)
        above = one.value > figures.SEEN
        p = one.p_against(figures.SEEN) if above else self.claims.p(what, criterion, which)
        if p <= LEVEL:
            return _Told("seen" if above else "blind", p, None)
        level = LEVEL if above else LEVEL / len(self.claims)
        return _Told("cannot tell", p, one.further_cases(abs(one.value - figures.SEEN), level))

    def _damage_cell(self, criterion: Criterion, number: int) -> DamageCell:
        pairs, one = self.aimed[criterion.name, number]
        about = perturbations()[number]
        aimed = criterion.ability in about.falls
        told = self._told(one, "blind", criterion.name, number) if aimed else _Told(None, None, None)
        ties = mean_over_cases(pairs.tied, self.marks.case)
        drop = mean_over_cases(pairs.fall / criterion.step, self.marks.case)
        return DamageCell(
            **self._head(criterion, number),
            worst=self.marks.extreme(-pairs.higher if aimed else pairs.fall),
            aimed=aimed,
            stays=criterion.ability in about.stays and not about.stays_at,
            sees=_shown(one),
            ties=ties.value if one.n >= FEWEST else None,
            drop=_shown(drop),
            at_floor=pairs.at_floor,
            verdict=told.verdict,
            p=told.p,
            more_cases=told.more_cases,
        )

    def _nuisance_cell(self, criterion: Criterion, number: int) -> NuisanceCell:
        one, margin = self.shifts[criterion.name, number], MARGIN * criterion.range
        verdict: NuisanceVerdict = "cannot tell"
        p, more, alike = None, None, None
        if one.n < FEWEST:
            verdict, more = "too few cases", FEWEST - one.n
        elif one.p_within(margin) <= LEVEL:
            verdict, p = "unmoved", one.p_within(margin)
        elif self.claims.p("moved", criterion.name, number) <= LEVEL:
            verdict, p = "moved", self.claims.p("moved", criterion.name, number)
            uneven = figures.uneven(self.marks, criterion, number)
            alike = not uneven.there or uneven.p_against(0.0) > LEVEL or uneven.value <= 0
        else:
            more = one.further_cases(margin - abs(one.value), LEVEL, one_sided=True)
        return NuisanceCell(
            **self._head(criterion, number),
            worst=self.marks.extreme(np.abs(figures.change(self.marks, criterion, number))),
            shift=_shown(one),
            excess=_shown(figures.excess(self.marks, criterion, number)),
            flips=_shown(figures.flips(self.marks, criterion, number)),
            alike=alike,
            verdict=verdict,
            p=p,
            more_cases=more,
        )

    def _attack_cell(self, criterion: Criterion, number: int) -> AttackCell:
        one = self.rises[criterion.name, number]
        p = self.claims.p("fooled", criterion.name, number) if one.n >= FEWEST else None
        fooled = p is not None and p <= LEVEL and one.value > 0
        rises = figures.rise(self.marks, criterion, number)
        high = np.where(np.isfinite(rises), (rises >= RISING * criterion.range - 1e-9) * 1.0, np.nan)
        return AttackCell(
            **self._head(criterion, number),
            worst=self.marks.extreme(rises),
            rise=_shown(one),
            share_rising=_shown(mean_over_cases(high, self.marks.case, "share")),
            verdict="too few cases" if p is None else "fooled" if fooled else "not fooled",
            p=p,
            more_cases=FEWEST - one.n if p is None else None,
        )

    def _control_cell(self, criterion: Criterion, number: int) -> ControlCell:
        one, mean = self.blind[criterion.name, number]
        counted = one.n >= FEWEST and (number == 31 or criterion.ability == "RC")
        p = self.claims.p("guesses", criterion.name, number) if counted else None
        shown = _shown(one)
        if shown.why == "undefined":
            shown = Figure(n=one.n, why="marks without seeing are all the same")
        return ControlCell(
            **self._head(criterion, number),
            worst=self.marks.extreme(-np.abs(figures.change(self.marks, criterion, number))),
            blind=shown,
            mean=_shown(mean),
            guesses=p is not None and p <= LEVEL and one.value > GUESSING,
            p=p,
        )

    def _pair_cell(self, name: str, number: int) -> PairCell:
        bias, flips = self.sides[name, number]
        p = self.claims.p("side", name, number) if bias.n >= FEWEST else None
        told = p is not None and p <= LEVEL
        return PairCell(
            **self._head(next(c for c in self.marks.criteria if c.name == name), number),
            first_side=_shown(bias),
            flips=_shown(flips),
            favours="" if not told else "first" if bias.value > 0 else "second",
            p=p,
        )

    def _position(self, name: str, place: str) -> PositionRow:
        one = self.places[name, place]
        told = self._told(one, "place", name, place) if place in _CLAIMED else _Told(None, None, None)
        return PositionRow(criterion=name, place=place, sees=_shown(one), p=told.p, verdict=told.verdict)

    # The card.

    def card(self) -> JudgeCard:
        cards = [self._criterion(criterion) for criterion in self.single]
        flags = [flag for criterion in self.single for flag in self._flags(criterion.name, cards)]
        flags += [
            Flag(kind="side", criterion=pair.criterion, number=pair.number, said=f"favours the {pair.favours} side")
            for pair in self.pairs
            if pair.favours
        ]
        arrays = [array for by_variant in self.marks.arrays.values() for array in by_variant.values()]
        return JudgeCard(
            judge=self.about.judge,
            wording=self.about.wording,
            rubric=self.about.rubric,
            preset=self.about.preset,
            usd_per_call=self.about.usd_per_call,
            n_cases=len(self.marks.cases),
            n_marks=int(sum(np.isfinite(array).sum() for array in arrays)),
            n_failures=sum(sum(kinds.values()) for kinds in self.marks.failures.values()),
            n_waiting=self.about.waiting,
            criteria=tuple(cards),
            flags=tuple(flags),
            n_claims=len(self.claims),
        )

    def _criterion(self, criterion: Criterion) -> CriterionCard:
        name, marks, damages = criterion.name, self.marks, self.counted(criterion)
        sees = self.sees[name]
        told = self._told(sees, "blind", name, "all") if damages else _Told("too few cases", None, None)
        spread = figures.spread(marks, criterion, damages)
        verdict, why = self._verdict(name, told.verdict, spread.narrow)
        drops = [mean_over_cases(self.aimed[name, n][0].fall / criterion.step, marks.case) for n in damages]
        further = [cell.more_cases for cell in self.nuisances if cell.criterion == name] + [told.more_cases]
        return CriterionCard(
            name=name,
            ability=criterion.ability,
            verdict=verdict,
            why=why,
            sees=_shown(sees),
            ties=float(np.mean([np.nanmean(self.aimed[name, n][0].tied) for n in damages])) if damages else None,
            drop=_shown(mean_of(drops) if drops else Estimate.nothing(marks.case)),
            selective=_shown(self.selective[name], "nothing that it aims at fell"),
            sd=_shown(figures.repeat_sd(marks, criterion)),
            identical=_shown(figures.identical(marks, criterion)),
            icc=_shown(figures.icc(marks, criterion)),
            auc=_shown(figures.auc(marks, criterion, damages)),
            spread=Spread(
                n_marks=spread.n_marks,
                values_used=spread.values_used,
                commonest=_shown(spread.commonest),
                at_top=_shown(spread.at_top),
                narrow=spread.narrow,
            ),
            sees_verdict=told.verdict,
            more_cases=max(filter(None, further), default=None)
            if verdict == "cannot tell" and why != ("it gave no marks",)
            else None,
        )

    def _verdict(self, name: str, told: DamageVerdict | None, narrow: bool) -> tuple[CriterionVerdict, tuple[str, ...]]:
        """Usable where everything is shown, not usable where a fault is, and else nobody can tell yet."""
        if not self.marks.arrays[name]:
            return "cannot tell", ("it gave no marks",)
        nuisances = [cell for cell in self.nuisances if cell.criterion == name]
        faults = [f"fooled by {cell.said}" for cell in self.attacks if _is(cell.verdict == "fooled", cell, name)]
        faults += [f"gives the same marks without seeing ({c.said})" for c in self.controls if _is(c.guesses, c, name)]
        faults += [f"moved by {cell.said}" for cell in nuisances if cell.verdict == "moved" and not cell.alike]
        if told == "blind":
            faults.insert(0, "does not see damage")
        if self._one_reference(name):
            faults.append("does not see references after the first")
        if self._halo(name):
            faults.append("falls with other criteria (halo)")
        if faults:
            return "not usable", tuple(faults)
        open_ = [] if told == "seen" else ["too few damages" if told == "too few cases" else "sees: cannot tell"]
        open_ += [
            f"{cell.said}: {cell.verdict}" for cell in nuisances if cell.verdict in ("cannot tell", "too few cases")
        ]
        tried: dict[str, Sequence[NuisanceCell | AttackCell | ControlCell]] = {
            "nuisance": self.nuisances,
            "attack": self.attacks,
            "control without seeing": self.controls,
        }
        open_ += [f"no {kind} was tried" for kind, cells in tried.items() if name not in {c.criterion for c in cells}]
        open_ += self._untold_controls(name)
        shifted = [f"shifted alike by {cell.said}" for cell in nuisances if cell.verdict == "moved"]
        shifted += ["uses two marks only"] if narrow else []
        if told == "seen" and shifted:
            return "ranks only", tuple(shifted)
        return ("cannot tell", tuple(open_)) if open_ else ("usable", ())

    def _untold_controls(self, name: str) -> list[str]:
        """Guessing that cannot be ruled out: the interval of the correlation reaches 0.5."""
        cells = [cell for cell in self.controls if cell.criterion == name and cell.p is not None]
        return [f"{cell.said}: cannot tell" for cell in cells if cell.blind.ci95 and cell.blind.ci95[1] >= GUESSING]

    def _halo(self, name: str) -> bool:
        one = self.selective[name]
        return one.there and one.value < HALO and self.claims.p("halo", name, "") <= LEVEL

    def _one_reference(self, name: str) -> bool:
        rows = [row for row in self.positions if row.criterion == name and row.place == "after the first"]
        return any(row.verdict == "blind" for row in rows)

    def _flags(self, name: str, cards: Sequence[CriterionCard]) -> list[Flag]:
        flags = [_flag("blind to", c) for c in self.damages if _is(c.verdict == "blind", c, name)]
        flags += [_flag("fooled by", c) for c in self.attacks if _is(c.verdict == "fooled", c, name)]
        flags += [_flag("moved by", c) for c in self.nuisances if _is(c.verdict == "moved", c, name)]
        flags += [_flag("guesses", c) for c in self.controls if _is(c.guesses, c, name)]
        if self._one_reference(name):
            flags.append(
                Flag(kind="one reference", criterion=name, said="does not see references after the first", number=3)
            )
        if self._halo(name):
            flags.append(Flag(kind="halo", criterion=name, said="falls with other criteria"))
        if next(card for card in cards if card.name == name).spread.narrow:
            flags.append(Flag(kind="few marks", criterion=name, said="uses two marks only"))
        return flags


def _is(fault: bool, cell: AttackCell | ControlCell | DamageCell | NuisanceCell, name: str) -> bool:
    return fault and cell.criterion == name


def _flag(kind: str, cell: AttackCell | ControlCell | DamageCell | NuisanceCell) -> Flag:
    return Flag(kind=kind, criterion=cell.criterion, number=cell.number, said=cell.said)


def _below(one: Estimate) -> float:
    """p that less is seen than counts as seen."""
    return one.p_against(figures.SEEN) if one.value < figures.SEEN else 1.0


def _beyond(one: Estimate, margin: float) -> float:
    """p that a number lies further from zero than the margin."""
    if not one.there or abs(one.value) <= margin:
        return 1.0
    return one.p_against(margin if one.value > 0 else -margin)


def _shown(one: Estimate, why: str = "") -> Figure:
    if 0 < one.n < FEWEST:
        return Figure(n=one.n, why=f"fewer than {FEWEST} cases")
    return one.figure() if one.n or not why else Figure(why=why)


def _ladders(marks: Marks) -> list[LadderRow]:
    """Of damages with strengths, for the criteria that they aim at."""
    rows = []
    for criterion in marks.criteria:
        for number in marks.numbers(criterion.name, "damage"):
            about = perturbations()[number]
            if criterion.ability not in about.falls or number == 3:
                continue
            one = figures.ladder(marks, criterion, number)
            if one is None:
                continue
            rungs = []
            for variant in one.strengths:
                pairs = figures.pairs(marks, criterion, number, [variant])
                drop = mean_over_cases(pairs.fall / criterion.step, marks.case)
                rungs.append(Rung(strength=variant.at, sees=_shown(figures.sees(marks, pairs)), drop=_shown(drop)))
            rows.append(
                LadderRow(
                    number=number,
                    name=about.name,
                    criterion=criterion.name,
                    rungs=tuple(rungs),
                    tau=_shown(one.tau),
                    never_rises=_shown(one.never_rises),
                    n_flat=one.n_flat,
                )
            )
    return rows
