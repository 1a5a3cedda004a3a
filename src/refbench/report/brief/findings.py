"""Which model for what: the best of each part of the cases, and those that cannot be told from it. Strengths and
weaknesses: where a model is above or below the others, and further so than over all cases.

Against its own mean every model would be weak at what is hard for all of them; against the others alone the best model
would be strong at everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import Any

import numpy as np

from refbench.analysis.compare import Pair
from refbench.analysis.compare.family import FLIPS_PER_DRAW
from refbench.analysis.compare.records import holds_zero
from refbench.report.brief.view import Part, View
from refbench.stats import Array, Design, resample
from refbench.stats.effect import LEVEL
from refbench.stats.quantiles import t_quantile
from refbench.tables.table import summaries

_DEFINED = 0.95
"""The share of draws with a value that the standard error of a trait needs."""


class Lead(Pair):
    """The first of a part beside another model: gaps and intervals are positive where the first is better, also in
    measures of which less is better, and `p_adjusted` is corrected for all pairs that were looked at together."""

    @property
    def sure(self) -> float:
        """The gap where chance is an unlikely cause, else 0. It may be negative: failures can leave another set of
        cases to the pair than to the table."""
        tested = self.p_adjusted is not None and self.p_adjusted <= LEVEL and not self.hopeless
        return self.gap if tested and self.gap is not None and not holds_zero(self.ci95) else 0.0

    @property
    def clear(self) -> bool:
        return self.sure > 0 and not self.undone

    @property
    def behind(self) -> bool:
        """Whether on the shared cases it is the other that is ahead, by more than chance explains."""
        return self.sure < 0 and not self.undone

    @property
    def doubt(self) -> str:
        """What could undo a lead that is more than chance explains: what failed, or that and chance together."""
        return self.undone_by if self.sure > 0 else ""


@dataclass(frozen=True, eq=False)
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
        return tuple(lead.second for lead in self.leads if not lead.clear)

    @property
    def settled(self) -> bool:
        return bool(self.leads) and not self.rivals

    @property
    def open(self) -> bool:
        """Whether the cases tell no model from the first."""
        return len(self.rivals) == len(self.leads)

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
    pairs = [(pair, 1.0 if pair.p_adjusted is None else pair.p_adjusted) for pair in view.compare(view.overall)]
    overall = _verdict(view, view.overall, _best_first(view, view.overall), pairs)
    orders = [_best_first(view, part) for part in parts]
    family = sum(max(0, len(order) - 1) for order in orders)
    # Flips enough that the smallest p there can be, times the family, is below the level.
    draws = max(view.board.draws, ceil(1.25 * family / LEVEL / FLIPS_PER_DRAW))
    found = []
    for part, order in zip(parts, orders, strict=True):
        of_part = view.compare(part, next(iter(order)), draws) if len(order) > 1 else ()
        corrected = [(pair, 1.0 if pair.p is None else min(1.0, family * pair.p)) for pair in of_part]
        found.append(_verdict(view, part, order, corrected))
    return Verdicts(
        overall=overall,
        parts=tuple(verdict for verdict in found if verdict is not None),
        n_pairs=sum(pair.p is not None for pair, _ in pairs),
        n_of_parts=family,
    )


def _best_first(view: View, part: Part) -> dict[str, float]:
    """Models that are ranked on the part, with their values as the tables have them."""
    rows = [place.row for place in view.places(part) if place.rank is not None]
    return {row.model: row.value for row in rows if row.value is not None}


def _verdict(
    view: View, part: Part, values: Mapping[str, float], pairs: Sequence[tuple[Pair, float]]
) -> Verdict | None:
    """The verdict from the values of the ranked models, best first, and the pairs with their corrected p."""
    if not values:
        return None
    first, *others = values
    sign = view.sign(part.measure)
    seen = [_lead(pair, first, sign, p) for pair, p in pairs if first in (pair.first, pair.second)]
    leads = {lead.second: lead for lead in seen}
    return Verdict(part, first, values[first], tuple(leads[other] for other in others if other in leads))


def _lead(pair: Pair, first: str, sign: int, p: float) -> Lead:
    """The pair seen from the first."""
    swapped = pair.first != first
    turn = -sign if swapped else sign
    seen: dict[str, Any] = {**dict(pair), "p_adjusted": p, "gap": None if pair.gap is None else turn * pair.gap}
    seen |= {"ci95": _turned(pair.ci95, turn), "bounds_ci95": _turned(pair.bounds_ci95, turn)}
    if swapped:
        seen |= {"first": pair.second, "second": pair.first, "wins": pair.losses, "losses": pair.wins}
    return Lead(**seen)


def _turned(interval: tuple[float, float] | None, turn: int) -> list[float] | None:
    return None if interval is None else sorted(turn * end for end in interval)


@dataclass(frozen=True)
class Trait:
    """A part at which a model stands out: how far it is above (or, negative, below) the mean of the others there. A
    single model stands against its own overall value."""

    part: Part
    model: str
    distance: float
    apart: float
    """The distance in its standard errors."""
    more: float
    """By how much the distance is more than over all cases, in its standard errors."""

    def beyond(self, reach: float) -> bool:
        return min(self.apart, self.more) > reach or max(self.apart, self.more) < -reach


@dataclass(frozen=True)
class Traits:
    """Those of whom both are beyond noise, the furthest out first, of so many that were looked at."""

    found: tuple[Trait, ...]
    looked_at: int
    alone: bool
    """Whether there was one model only, so that its own mean is what it is held against."""

    def of(self, model: str, most: int | None = None) -> list[Trait]:
        """Strengths of a model before its weaknesses, at most so many of either."""
        mine = [trait for trait in self.found if trait.model == model]
        up, down = ([trait for trait in mine if way * trait.distance > 0] for way in (1, -1))
        return [*up[:most], *down[:most]]


def traits(view: View, parts: Sequence[Part]) -> Traits:
    """Look at every ranked model on every part that is marked on the scale of the summary measure.

    Intervals are Student's on the bootstrap's standard error, and Bonferroni's for all of them together: the chance
    of naming anything where nothing is different stays below one in twenty.
    """
    comparable = [part for part in parts if _comparable(view, part)]
    design = Design.of([case.cluster for case in view.cases], [case.stratum for case in view.cases])
    overall, *of_parts = _values(view, [view.overall, *comparable], design)
    with_rank = {row.model for row in view.ranked}
    ranked = [s for s, (model, _) in enumerate(view.columns.systems) if model in with_rank]
    seen: list[tuple[Trait, int]] = []
    for part, here in zip(comparable, of_parts, strict=True):
        sign, df = view.sign(part.measure), design.degrees_of_freedom(part.slice.members)
        there = [s for s in ranked if np.isfinite([here[s, 0], overall[s, 0]]).all()]
        for system in there:
            others = [other for other in there if other != system]
            more = sign * (_distance(here, system, others) - _distance(overall, system, others))
            apart = sign * _distance(here, system, others) if others else more
            model, in_errors = view.columns.systems[system][0], (_in_errors(apart), _in_errors(more))
            if np.isfinite(in_errors).all():
                seen.append((Trait(part, model, float(apart[0]), *in_errors), df))
    tail = LEVEL / 2 / max(1, len(seen))
    beyond = [trait for trait, df in seen if df > 0 and trait.beyond(t_quantile(1 - tail, df))]
    return Traits(tuple(sorted(beyond, key=lambda trait: -abs(trait.more))), len(seen), alone=len(ranked) == 1)


def _comparable(view: View, part: Part) -> bool:
    """Some of the cases, or a criterion that goes over the same range as the summary measure, the same way."""
    if part.measure == view.measure:
        return not part.slice.members.all()
    ranges = {measure.name: (measure.low, measure.high, view.sign(measure.name)) for measure in view.aggregate.measures}
    return None not in ranges[part.measure] and ranges[part.measure] == ranges[view.measure]


def _values(view: View, parts: Sequence[Part], design: Design) -> list[Array]:
    """For each part, systems x (the value, then each draw of it); NaN where there is no value."""
    weights = chain([np.ones((1, len(view.cases)))], resample(design, view.board.draws, view.board.seed))
    slices = [part.slice for part in parts]
    blocks = []
    for some in weights:
        values = summaries(view.aggregate, view.filled, some, slices)
        missing = np.full((len(view.columns.systems), len(some)), np.nan)
        blocks.append([values.get((i, part.measure), missing) for i, part in enumerate(parts)])
    return [np.concatenate(of_part, axis=1) for of_part in zip(*blocks, strict=True)]


def _distance(values: Array, system: int, others: Sequence[int]) -> Array:
    """To the mean of the others; the value itself where there are none."""
    mine: Array = values[system]
    return mine - values[list(others)].mean(axis=0) if others else mine


def _in_errors(values: Array) -> float:
    """The value in standard errors of the bootstrap; NaN where too few draws have a value, or all have the same."""
    defined = values[1:][np.isfinite(values[1:])]
    if len(defined) == 0 or len(defined) < _DEFINED * len(values[1:]):
        return float("nan")
    spread = float(np.std(defined))
    return float(values[0]) / spread if spread > 1e-12 else float("nan")
