"""Which model for what: the best of each part of the cases, and those that cannot be told from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite

from refbench.comparison import Comparison, Pair
from refbench.comparison.compare import FLIPS_PER_DRAW
from refbench.report.site.brief_view import Part, View
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
    """Whether it is ahead, and chance is an unlikely cause, after correction for all pairs that were looked at
    together."""
    behind: bool
    """Whether on the shared cases it is the other that is ahead, by more than chance explains."""
    undone: str
    """What could undo a lead that is more than chance explains: what failed, or that and chance together; else ""."""
    together: tuple[float, float] | None
    """What the lead could be with what failed and chance together, where something failed."""
    n_cases: int
    cases: tuple[int, int, int]
    """In how many of them it is above, level and below."""


@dataclass(frozen=True)
class Verdict:
    """The ranked model with the best value of a part, what it is ahead by, and who may well be as good."""

    part: Part
    first: str
    value: float
    leads: tuple[Lead, ...]
    """Over each other ranked model, the next best first."""

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
    """The overall verdict with its own family of pairs, and those of the parts, whose comparisons are one family."""

    overall: Verdict | None
    parts: tuple[Verdict, ...]
    n_pairs: int
    n_of_parts: int


def verdicts(view: View, parts: Sequence[Part]) -> Verdicts:
    """What can be said about the best of all cases and of each part; no verdict where no model is ranked.

    Overall the family is that of `refbench compare`. The parts are comparisons with the best (Hsu): a part's truly
    best model is left out of its line only if some other wrongly beats it, which are as many tests as there are
    other models, whoever comes out first. A sheet is read as a whole, so those of all parts are corrected together:
    in 19 of 20 sheets every line names its truly best model, as the first or as one that cannot be told from it.
    """
    whole = view.compare(view.overall)
    adjusted = {frozenset((p.first, p.second)): p.p_adjusted or 0.0 for p in (whole.pairs if whole else ()) if p.p}
    orders = {id(part): _best_first(view, part) for part in parts}
    family = sum(max(0, len(order) - 1) for order in orders.values())
    said = []
    for part in parts:
        order = orders[id(part)]
        # Flips enough that the smallest p there can be, times the family, is below the level.
        draws = max(view.draws, ceil(1.25 * family / LEVEL / FLIPS_PER_DRAW))
        found = view.compare(part, next(iter(order)), draws) if len(order) > 1 else None
        of_part = {
            frozenset((p.first, p.second)): min(1.0, family * p.p) for p in (found.pairs if found else ()) if p.p
        }
        said.append(_verdict(view, part, order, found, of_part))
    everyone = _best_first(view, view.overall)
    return Verdicts(
        overall=_verdict(view, view.overall, everyone, whole, adjusted),
        parts=tuple(verdict for verdict in said if verdict is not None),
        n_pairs=len(adjusted),
        n_of_parts=family,
    )


def _best_first(view: View, part: Part) -> dict[str, float]:
    """Models that are ranked on the part, with their values as the tables have them."""
    sign = view.sign(part.measure)
    values = {model: float(v) for (model, _), v in zip(view.columns.systems, view.points(part), strict=True)}
    with_rank = [place.row.model for place in view.places(part) if place.rank is not None]
    order = sorted((model for model in with_rank if isfinite(values[model])), key=lambda m: (-sign * values[m], m))
    return {model: values[model] for model in order}


def _verdict(
    view: View,
    part: Part,
    values: Mapping[str, float],
    compared: Comparison | None,
    adjusted: Mapping[frozenset[str], float],
) -> Verdict | None:
    if not values:
        return None
    first, *others = values
    pairs = {frozenset((pair.first, pair.second)): pair for pair in (compared.pairs if compared else ())}
    sign = view.sign(part.measure)
    leads = [
        _lead(pairs[couple], first, sign, adjusted.get(couple, 1.0))
        for other in others
        if (couple := frozenset((first, other))) in pairs
    ]
    return Verdict(part, first, values[first], tuple(leads))


def _lead(pair: Pair, first: str, sign: int, adjusted: float) -> Lead:
    """The pair seen from the first. A gap that is clear the other way round (failures have left another set of cases
    to the pair than to the table) is no lead."""
    over = pair.second if pair.first == first else pair.first
    turn = sign if pair.first == first else -sign
    gap = None if pair.gap is None else turn * pair.gap
    ci95, together = _turned(pair.ci95, turn), _turned(pair.bounds_ci95, turn)
    chance = adjusted > LEVEL or (ci95 is not None and ci95[0] <= 0 <= ci95[1])
    sure = not (gap is None or chance or pair.hopeless)
    ahead, behind = (sure and gap is not None and way * gap > 0 for way in (1, -1))
    clear, undone, behind = ahead and not pair.undone, pair.undone_by if ahead else "", behind and not pair.undone
    cases = (pair.wins, pair.ties, pair.losses) if pair.first == first else (pair.losses, pair.ties, pair.wins)
    return Lead(over, gap, ci95, pair.detectable, clear, behind, undone, together, pair.n_cases, cases)


def _turned(interval: tuple[float, float] | None, turn: int) -> tuple[float, float] | None:
    if interval is None:
        return None
    low, high = sorted((turn * interval[0], turn * interval[1]))
    return low, high
