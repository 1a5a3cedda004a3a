"""Normal and Student quantiles without scipy, whose import costs more than a whole table."""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()


def normal_cdf(z: float) -> float:
    return _NORMAL.cdf(z)


def normal_quantile(p: float) -> float:
    return _NORMAL.inv_cdf(p)


def t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t with a whole number of degrees of freedom, to about six digits."""
    if df < 1:
        raise ValueError(f"t needs at least one degree of freedom, not {df}")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    if df >= 30:
        return _t_expansion(normal_quantile(p), df)
    low, high = 0.0, 1.0
    while _t_cdf(high, df) < p:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def _t_expansion(z: float, df: int) -> float:
    """Cornish-Fisher expansion in 1/df (Abramowitz and Stegun 26.7.5)."""
    z2 = z * z
    terms = (
        z * (z2 + 1) / 4,
        z * ((5 * z2 + 16) * z2 + 3) / 96,
        z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
        z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
    )
    return z + sum(term / float(df) ** power for power, term in enumerate(terms, 1))


def _t_cdf(t: float, df: int) -> float:
    """Closed form for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4), t >= 0."""
    angle = math.atan(t / math.sqrt(df))
    cos, sin = math.cos(angle), math.sin(angle)
    if df == 1:
        return 0.5 + angle / math.pi
    odd = df % 2
    term = total = cos if odd else 1.0
    for k in range(3 if odd else 2, df - 1, 2):
        term *= cos * cos * (k - 1) / k
        total += term
    inside = 2 / math.pi * (angle + sin * total) if odd else sin * total
    return 0.5 + inside / 2
