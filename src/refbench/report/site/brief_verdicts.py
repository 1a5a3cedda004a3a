"""Which model for what: the best of each part of the cases, and those that cannot be told from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refbench.comparison import Comparison, Pair
from refbench.report.site.brief_view import Part, View
from refbench.stats import holm
from refbench.stats.effect import LEVEL


@dataclass(frozen=True)
class Lead:
    """How far the first of a part is above another model, on the cases that both have scores for."""

    over: str
    gap: float | None
    """Positive where it is better, also in measures of which less is better."""
    ci95: tuple[float, float] | None
    detectable: float | None
    clear: bool
    """Whether chance is an unlikely cause, after correction for all pairs that were looked at together."""
    n_cases: int


@dataclass(frozen=True)
class Verdict:
    """The model with the best value of a part, what it is ahead by, and who may well be as good."""

    part: Part
    first: str
    value: float
    leads: tuple[Lead, ...]
    """Over each other model with a value, the next best first."""

    @property
    def rivals(self) -> tuple[str, ...]:
        """Models that the cases do not tell from the first."""
        return tuple(lead.over for lead in self.leads if not lead.clear)

    @property
    def settled(self) -> bool:
        return bool(self.leads) and not self.rivals

    @property
    def closest(self) -> Lead | None:
        return self.leads[0] if self.leads else None


@dataclass(frozen=True)
class Verdicts:
    """The overall verdict with its own family of pairs, and those of the parts, whose pairs are one family."""

    overall: Verdict | None
    parts: tuple[Verdict, ...]
    n_pairs: int
    n_pairs_of_parts: int


def verdicts(view: View, parts: Sequence[Part]) -> Verdicts:
    """What can be said about the best of all cases and of each part. None where no model has a value.

    The overall family is that of `refbench compare`. A sheet is read as a whole, so all pairs of all its parts are
    corrected together: a false "best for X" anywhere on it happens in one of twenty sheets at most.
    """
    whole = view.compare()
    found = [(part, view.compare(part)) for part in parts]
    tested = [pair for _, one in found if one is not None for pair in one.pairs if pair.p is not None]
    adjusted = dict(zip(map(id, tested), holm([pair.p or 0.0 for pair in tested]), strict=True))
    of_whole = {id(pair): pair.p_adjusted for pair in (whole.pairs if whole else ()) if pair.p_adjusted is not None}
    said = [_verdict(view, part, one, adjusted) for part, one in found]
    return Verdicts(
        overall=_verdict(view, view.overall, whole, of_whole),
        parts=tuple(verdict for verdict in said if verdict is not None),
        n_pairs=len(of_whole),
        n_pairs_of_parts=len(tested),
    )


def _verdict(view: View, part: Part, compared: Comparison | None, adjusted: Mapping[int, float]) -> Verdict | None:
    sign = view.sign(part.measure)
    values = {model: value for model, _ in view.columns.systems if (value := view.value(model, part)) is not None}
    if not values:
        return None
    order = sorted(values, key=lambda model: (-sign * values[model], model))
    pairs = {frozenset((pair.first, pair.second)): pair for pair in (compared.pairs if compared else ())}
    leads = [_lead(pairs[frozenset((order[0], other))], order[0], sign, adjusted) for other in order[1:]]
    return Verdict(part, order[0], values[order[0]], tuple(leads))


def _lead(pair: Pair, first: str, sign: int, adjusted: Mapping[int, float]) -> Lead:
    """The pair seen from the first. A gap that is clear the other way round (failures have left another set of cases
    to the pair than to the table) is no lead."""
    over = pair.second if pair.first == first else pair.first
    turn = sign if pair.first == first else -sign
    gap = None if pair.gap is None else turn * pair.gap
    ci95 = None
    if pair.ci95 is not None:
        low, high = sorted((turn * pair.ci95[0], turn * pair.ci95[1]))
        ci95 = low, high
    clear = (
        gap is not None
        and gap > 0
        and adjusted.get(id(pair), 1.0) <= LEVEL
        and not (ci95 is not None and ci95[0] <= 0 <= ci95[1])
    )
    return Lead(over, gap, ci95, pair.detectable, clear, pair.n_cases)
