"""Strengths of systems from pairs in which one was preferred (Bradley and Terry), with ties, and intervals over
clusters of marks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array, Design, Interval, resample

_STEPS = 2000
_CLOSE = 1e-10
_LEVEL = 0.95
_MOST_UNDEFINED = 0.05
"""Above this share of resamples in which not all systems can be placed there are no intervals."""


@dataclass(frozen=True)
class Strengths:
    """The log strength of each system, of mean zero: the chance that i is preferred to j is 1 / (1 + exp(s_j - s_i)).

    Where some systems never lost to the others, or never met them, no strengths fit: `groups` then numbers the systems
    that can be placed among each other, and `values` is NaN. A higher number does not mean better.
    """

    values: Array
    groups: NDArray[np.intp]
    intervals: tuple[Interval, ...] = ()
    left_out: float = 0.0
    """The share of resamples in which the systems could not all be placed."""

    @property
    def connected(self) -> bool:
        return bool(len(self.groups)) and int(self.groups.max()) == 0


def wins_of(first: NDArray[np.intp], second: NDArray[np.intp], share: Array, weights: Array, systems: int) -> Array:
    """How often each system was preferred to each other one (systems x systems) under each weight vector (draws x
    marks). `share` is the first's of each mark: 1 preferred, 0 not, 1/2 a tie, which counts half for either."""
    wins = np.zeros((len(weights), systems * systems))
    for place, part in ((first * systems + second, share), (second * systems + first, 1 - share)):
        order = np.argsort(place, kind="stable")
        if len(order):
            starts = np.unique(place[order], return_index=True)
            wins[:, starts[0]] += np.add.reduceat((weights * part)[:, order], starts[1], axis=1)
    return wins.reshape(len(weights), systems, systems)


def groups_of(wins: Array) -> NDArray[np.intp]:
    """Which systems can be placed among each other: each reaches each by a chain of preferences. All alike where the
    maximum of the likelihood exists (Ford)."""
    n = len(wins)
    if n == 0:
        return np.zeros(0, np.intp)
    reach = (wins > 0) | np.eye(n, dtype=np.bool_)
    for via in range(n):
        reach |= reach[:, via, None] & reach[None, via]
    both = reach & reach.T
    _, groups = np.unique(both.argmax(axis=1), return_inverse=True)
    return groups.astype(np.intp)


def fit(wins: Array) -> Array:
    """Log strengths of mean zero by maximum likelihood, where all systems are connected (Hunter's minorisation, then
    Newton's steps); NaN where they are not."""
    n = len(wins)
    if n == 0 or groups_of(wins).max() > 0:
        return np.full(n, np.nan)
    met = wins + wins.T
    won = wins.sum(axis=1)
    strength = np.zeros(n)
    for step in range(_STEPS):
        chance = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
        gradient = won - (met * chance).sum(axis=1)
        if np.abs(gradient).max() <= _CLOSE * max(float(won.sum()), 1.0):
            break
        if step < 20:
            powers = np.exp(strength)
            strength = np.log(won / (met / (powers[:, None] + powers[None, :])).sum(axis=1))
        else:
            spread = met * chance * (1 - chance)
            curvature = np.diag(spread.sum(axis=1)) - spread + 1 / n  # the mean is free: held at zero
            move = np.linalg.solve(curvature, gradient)
            strength = strength + move / max(1.0, float(np.abs(move).max()))
        strength = strength - strength.mean()
    return strength


def bradley_terry(
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    share: Array,
    systems: int,
    *,
    clusters: Design | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Strengths:
    """Fit strengths to marks of pairs, with percentile intervals from clusters of marks (of one case, or one person)
    drawn anew, each mark alone where none are given."""
    wins = wins_of(first, second, share, np.ones((1, len(share))), systems)[0]
    groups, values = groups_of(wins), fit(wins)
    if not draws or np.isnan(values).any():
        return Strengths(values, groups)
    alone = np.arange(len(share), dtype=np.intp)
    design = clusters or Design(alone, np.zeros(len(share), dtype=np.intp))
    found = np.concatenate(
        [
            np.stack([fit(one) for one in wins_of(first, second, share, weights, systems)])
            for weights in resample(design, draws, seed)
        ]
    )
    defined = found[~np.isnan(found).any(axis=1)]
    left_out = 1 - len(defined) / len(found)
    if design.n_clusters < 2 or left_out > _MOST_UNDEFINED:
        return Strengths(values, groups, (None,) * systems, left_out)
    ends = np.quantile(defined, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return Strengths(values, groups, tuple((float(low), float(high)) for low, high in ends.T), left_out)
