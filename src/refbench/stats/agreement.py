"""All figures of agreement between two raters at once, for the marks as they are and for every bootstrap draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from refbench.stats.alpha import AlphaLevel, alpha_draws
from refbench.stats.bootstrap import Array
from refbench.stats.correlation import Values, kendall_draws, once, pearson_draws, spearman_draws
from refbench.stats.icc import IccForm, icc_draws
from refbench.stats.kappa import Bins, kappa_draws, quadratic_kappa_draws

CORRELATIONS = ("pearson", "spearman", "kendall")
SAME_SCALE = ("kappa", "qwk", "alpha", "icc", "mse", "mae")
"""Figures that compare the marks themselves: meaningless unless both raters use one scale."""
FIGURES = CORRELATIONS + SAME_SCALE


@dataclass(frozen=True)
class Forms:
    """Which of several forms of a figure is meant; said wherever the figure is shown."""

    alpha: AlphaLevel = "interval"
    icc: IccForm = "2,1"


def mean_squared_error(x: Values, y: Values) -> float | None:
    """Mean squared difference of the marks; None without any."""
    return once(mse_draws, x, y)


def mean_absolute_error(x: Values, y: Values) -> float | None:
    """Mean absolute difference of the marks; None without any."""
    return once(mae_draws, x, y)


def mse_draws(x: Array, y: Array, weights: Array) -> Array:
    return _mean((np.atleast_2d(x) - np.atleast_2d(y)) ** 2, weights)


def mae_draws(x: Array, y: Array, weights: Array) -> Array:
    return _mean(np.abs(np.atleast_2d(x) - np.atleast_2d(y)), weights)


def _mean(apart: Array, weights: Array) -> Array:
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Array = np.where(total > 0, (weights * apart).sum(axis=1) / total, np.nan)
    return mean


def agreement_draws(
    x: Array, y: Array, weights: Array, *, same_scale: bool, bins: Bins | None, forms: Forms
) -> dict[str, Array]:
    """Every figure for every weight vector; those that the scale or the bins do not allow are not there."""
    if x.ndim == 1 and len(x):
        x, y, weights = _distinct(x, y, weights)
    found = {
        "pearson": pearson_draws(x, y, weights),
        "spearman": spearman_draws(x, y, weights),
        "kendall": kendall_draws(x, y, weights),
    }
    if not same_scale:
        return found
    both = np.stack([x, y], axis=-2)
    found |= {
        "qwk": quadratic_kappa_draws(x, y, weights),
        "alpha": alpha_draws(both, weights, forms.alpha),
        "icc": icc_draws(both, weights, forms.icc),
        "mse": mse_draws(x, y, weights),
        "mae": mae_draws(x, y, weights),
    }
    return found if bins is None else {**found, "kappa": kappa_draws(bins)(x, y, weights)}


def _distinct(x: Array, y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Equal pairs of marks become one point with their weights summed: all figures depend on no more than that, and
    marks of a few levels have a few hundred pairs, however many cases there are."""
    pairs, place = np.unique(np.stack([x, y], axis=1), axis=0, return_inverse=True)
    if len(pairs) == len(x):
        return x, y, weights
    place = place.ravel()
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(pairs)))
    return pairs[:, 0], pairs[:, 1], np.add.reduceat(weights[:, order], starts, axis=1)
