"""What an audit comes to, as records with a JSON form: figures, cells of the matrix, the judge's card, the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from refbench.record import Record

NOT_VALIDATED = "method not yet validated on real judges"


class Figure(Record):
    """A number with its 95 % interval, clustered by case, or the reason why there is none (`why`)."""

    value: float | None = None
    ci95: tuple[float, float] | None = None
    n: int = 0
    """Cases behind it."""
    why: str = ""


DamageVerdict: TypeAlias = Literal["seen", "blind", "cannot tell", "too few cases"]
NuisanceVerdict: TypeAlias = Literal["unmoved", "moved", "cannot tell", "too few cases"]
AttackVerdict: TypeAlias = Literal["fooled", "not fooled", "too few cases"]
CriterionVerdict: TypeAlias = Literal["usable", "ranks only", "not usable", "cannot tell"]


class Cell(Record):
    """One perturbation and one criterion. `p` is that of the verdict: of accusations corrected over the judge's whole
    table (Holm), of "seen" and "unmoved" not, which make a criterion usable only all together."""

    number: int
    name: str
    said: str
    criterion: str
    failures: Mapping[str, int] = {}
    """Refusals, unreadable replies and others, by kind."""
    worst: tuple[tuple[str, str], ...] = ()
    """Up to five outputs (case, model) that show it best: seen least, moved most, risen most; fallen most where the
    damage does not aim at the criterion, marked most alike without seeing."""
    p: float | None = None
    more_cases: int | None = None
    """Cases that would decide it four times in five; None where it is decided, or more than 5,000 are needed."""


class DamageCell(Cell):
    """`aimed`: the damage should lower this criterion. `stays`: it should not. Others are shown without a verdict."""

    aimed: bool
    stays: bool
    sees: Figure
    ties: float | None = None
    """Share of pairs of marks that are equal."""
    drop: Figure
    """Mean fall in steps of the scale."""
    at_floor: int = 0
    """Cases left out because their clean mark has nothing to lose."""
    verdict: DamageVerdict | None = None


class NuisanceCell(Cell):
    shift: Figure
    excess: Figure
    flips: Figure
    alike: bool | None = None
    """Of a nuisance that moves marks: whether it moves all alike, as far as can be told."""
    verdict: NuisanceVerdict


class AttackCell(Cell):
    rise: Figure
    share_rising: Figure
    """Cases whose mark rises by a tenth of the range or more."""
    verdict: AttackVerdict


class ControlCell(Cell):
    """Marks given without seeing: their rank correlation with those of the clean pictures, and their mean."""

    blind: Figure
    mean: Figure
    guesses: bool = False


class PairCell(Cell):
    """Of a pair judge: how much more often than half the first shown wins, and how often the winner changes with the
    sides beyond its changing when asked again."""

    first_side: Figure
    flips: Figure
    favours: Literal["first", "second", ""] = ""


class Rung(Record):
    strength: str
    sees: Figure
    drop: Figure


class LadderRow(Record):
    number: int
    name: str
    criterion: str
    rungs: tuple[Rung, ...]
    tau: Figure
    """Kendall's tau-b of strength and fall within a case; 1 where every step lowers the mark."""
    never_rises: Figure
    n_flat: int
    """Cases with one and the same mark at all strengths, which have no tau."""


class PositionRow(Record):
    """Whether a swapped reference is seen, by its place."""

    criterion: str
    place: Literal["first", "middle", "last", "after the first"]
    sees: Figure
    p: float | None = None
    verdict: DamageVerdict | None = None
    """None of the places among those after the first, which are shown only."""


class Spread(Record):
    """Which marks are used: how many values, the shares of the commonest and of the best; `narrow` where two values are
    98 % of all on a scale of five or more."""

    n_marks: int
    values_used: int
    commonest: Figure
    at_top: Figure
    narrow: bool


class CriterionCard(Record):
    name: str
    ability: str
    verdict: CriterionVerdict
    why: tuple[str, ...]
    """What keeps it from being usable, or from being told."""
    sees: Figure
    ties: float | None
    drop: Figure
    selective: Figure
    sd: Figure
    identical: Figure
    """Share of pairs of repeats with the same mark."""
    icc: Figure
    auc: Figure
    spread: Spread
    sees_verdict: DamageVerdict | None
    more_cases: int | None = None


class Flag(Record):
    """Something that is wrong with the judge, at 5 % for the whole card. `criterion` is "" where it is the judge's."""

    kind: Literal["blind to", "fooled by", "moved by", "halo", "few marks", "guesses", "one reference", "side"]
    criterion: str = ""
    number: int = 0
    said: str


class JudgeCard(Record):
    """What a judge sees and what fools it, for one wording of one rubric."""

    judge: str
    wording: str
    rubric: str
    preset: str = ""
    n_cases: int
    n_marks: int
    n_failures: int
    n_waiting: int = 0
    """Outputs that the judge was not asked about yet: the audit is not finished."""
    usd_per_call: float | None = None
    criteria: tuple[CriterionCard, ...]
    flags: tuple[Flag, ...]
    n_claims: int
    """Accusations that Holm's correction is over."""
    note: str = NOT_VALIDATED


class WithPeople(Record):
    """A criterion's marks on people's scale: mean absolute error as they are and after the isotonic map, out of fold,
    and half the width of the band that holds nine of ten people's marks."""

    criterion: str
    n: int
    before: Figure
    after: Figure
    half_width: float | None
    map: tuple[tuple[float, float], ...]
    """Judge's mark, people's."""


class AuditReport(Record):
    """Everything that the marks of an audit say."""

    card: JudgeCard
    damages: tuple[DamageCell, ...]
    nuisances: tuple[NuisanceCell, ...]
    attacks: tuple[AttackCell, ...]
    controls: tuple[ControlCell, ...]
    pairs: tuple[PairCell, ...]
    ladders: tuple[LadderRow, ...]
    positions: tuple[PositionRow, ...]
    people: tuple[WithPeople, ...] = ()
