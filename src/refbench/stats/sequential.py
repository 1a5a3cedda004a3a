"""Following a paired difference case by case: evidence and intervals that hold at every look, so that one may stop as
soon as they say enough.

The clusters' parts of a gap come in a fixed order that is drawn without regard to their scores. A bet that the gap is
above m wins a stake times how far a part is above m's. Where the scale has ends, so that no part can lose more than is
staked, such wealth is expected never to grow as long as the gap is m or less, however differences are distributed; that
it ever reaches 1 / level has at most that chance (Ville), however often one looks. Where the scale has no ends, nothing
limits what one part can lose: then bets are on the sign of each part only, and hold if differences are symmetric about
zero when there is no gap. That tells above from below, but says nothing about any gap other than zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from refbench.stats.interval import Array

STAKES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95)
"""Parts of the wealth that are staked, averaged: it need not be known how large the gap is. Below 1, so that no single
part loses everything."""
SIGN_STAKES = (0.03, 0.05, 0.08, 0.12, 0.2, 0.35, 0.6)
"""Without ends: bets for differences of that many standard deviations, averaged."""
_HALVINGS = 40

Verdict: TypeAlias = Literal["above", "below", "within", "open"]


@dataclass(frozen=True)
class Followed:
    """What a gap was found to be: above or below zero, within the margin, or none of it so far ("open").

    `clusters` is after how many that was known, or how many there were. `interval` is the confidence sequence then: it
    holds the gap at every look together with the level's chance. Its ends are infinite where the scale has none.
    """

    verdict: Verdict
    clusters: int
    interval: tuple[float, float]


@dataclass(frozen=True)
class Parts:
    """The parts of a gap that clusters have, in the order they are followed.

    `low` and `high` are equal but where something failed: then they are what the part would be at the least and the
    most, and no claim is made that not both allow. `share` is what part of the whole each cluster is, so that parts of
    a constant gap m are m times it, and `largest` that of the largest cluster, followed so far or not. `scale` is how
    large a gap can be, None where there is no end.
    """

    low: Array
    high: Array
    share: Array
    largest: float
    scale: float | None

    def logs_above(self, gap: float) -> Array:
        """The log of the wealth, after each cluster, of betting that the gap is larger than this one."""
        return self._logs(self.low, gap)

    def logs_below(self, gap: float) -> Array:
        """The same for betting that it is smaller."""
        return self._logs(-self.high, -gap)

    def first(self, clusters: int) -> Parts:
        """Those of the first clusters alone."""
        return Parts(self.low[:clusters], self.high[:clusters], self.share[:clusters], self.largest, self.scale)

    def _logs(self, parts: Array, gap: float) -> Array:
        if self.scale is None:
            if gap:
                raise ValueError("on a scale without ends only a gap of zero can be bet against")
            return _mixed(self._sign_wins(parts))
        # The most that a part can be below that of the gap: what is lost is never more than the stake.
        reach = (self.scale + gap) * self.largest
        if reach <= 0:
            raise ValueError(f"a gap of {gap:g} is not inside a scale of {self.scale:g}")
        units = (parts - gap * self.share) / reach
        with np.errstate(divide="ignore"):
            return _mixed(np.log(np.maximum(1 + np.asarray(STAKES)[:, None] * units[None, :], 0.0)))

    def _sign_wins(self, parts: Array) -> Array:
        with np.errstate(invalid="ignore"):
            units = np.where(
                np.isfinite(self._spreads), parts / self._spreads, np.where(parts == -np.inf, -np.inf, 0.0)
            )
        # A stake on a part wins 1 + tanh of it; the log of that without cancelling.
        wins: Array = np.log(2) - np.logaddexp(0, -2 * np.asarray(SIGN_STAKES)[:, None] * units[None, :])
        return wins

    @property
    def _spreads(self) -> Array:
        """The root mean square of the parts before each one, of those without failures; infinite where none is."""
        whole = self.low == self.high
        squares = np.concatenate([[0.0], np.cumsum(np.where(whole, self.low, 0.0)[:-1] ** 2)])[: len(self.low)]
        seen = np.concatenate([[0.0], np.cumsum(whole[:-1])])[: len(self.low)]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(squares > 0, np.sqrt(squares / seen), np.inf)


def _mixed(wins: Array) -> Array:
    """The log of the mean wealth of all stakes, from what each wins on each cluster."""
    logs: Array = np.logaddexp.reduce(np.cumsum(wins, axis=1), axis=0) - np.log(len(wins))
    return logs


def follow(parts: Parts, *, level: float, margin: float | None = None) -> Followed:
    """Follow a gap until it is above or below zero, or, with a margin, within it on both sides of zero.

    All of it is read off one confidence sequence, so the chance that anything wrong is ever said is at most the level.
    """
    enough = np.log(2 / level)
    when: dict[Verdict, int | None] = {
        "above": _first(parts.logs_above(0.0) >= enough),
        "below": _first(parts.logs_below(0.0) >= enough),
    }
    if margin is not None:
        both = _first(parts.logs_above(-margin) >= enough), _first(parts.logs_below(margin) >= enough)
        when["within"] = None if None in both else max(place for place in both if place is not None)
    told = {verdict: place for verdict, place in when.items() if place is not None}
    verdict: Verdict = min(told, key=lambda one: told[one]) if told else "open"
    n = told[verdict] if told else len(parts.low)
    return Followed(verdict, n, confidence_sequence(parts.first(n), level=level))


def confidence_sequence(parts: Parts, *, level: float) -> tuple[float, float]:
    """All gaps that no bet so far, at any look, has ruled out at the level; infinite on a scale without ends."""
    if parts.scale is None:
        return -np.inf, np.inf
    enough = np.log(2 / level)
    widest = parts.scale

    def ruled_out(gap: float, above: bool) -> bool:
        logs = parts.logs_above(gap) if above else parts.logs_below(gap)
        return bool(len(logs) and logs.max() >= enough)

    def end(above: bool) -> float:
        """Bisected between the end of the scale and a gap that is not ruled out: wealth falls with the gap that is bet
        on."""
        out, kept = (-widest, widest) if above else (widest, -widest)
        if not ruled_out(out * (1 - 1e-9), above):
            return out
        for _ in range(_HALVINGS):
            middle = (out + kept) / 2
            out, kept = (middle, kept) if ruled_out(middle, above) else (out, middle)
        return out

    return end(True), end(False)


def _first(there: Array) -> int | None:
    """How many it took until it was there."""
    places = np.flatnonzero(there)
    return int(places[0]) + 1 if len(places) else None
