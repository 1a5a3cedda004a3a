"""Normal, Student and beta distributions without scipy, whose import costs more than a whole table."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()


def normal_cdf(z: float) -> float:
    return _NORMAL.cdf(z)


def normal_quantile(p: float) -> float:
    return _NORMAL.inv_cdf(p)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t with a whole number of degrees of freedom, to about six digits.

    A table asks for the same few thousands of times, and each takes eighty evaluations of the distribution.
    """
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


def t_tails(t: float, df: float) -> float:
    """Two-sided p of Student's t, accurate also where it is far below rounding error."""
    return beta_cdf(df / (df + t * t), df / 2, 0.5) if math.isfinite(t) else 0.0


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The continued fraction converges on the near side of the mean; the other side is one minus its mirror image.
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(1 - x, b, a)
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(logs) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of DLMF 8.17.22, evaluated from the front (Lentz)."""
    value, upper, lower = 1.0, 1.0, 0.0
    for j in range(1, 5000):
        m = j // 2
        term = -(a + m) * (a + b + m) if j % 2 else m * (b - m)
        term *= x / ((a + j - 1) * (a + j))
        lower = 1 / (1 + term * lower)
        upper = 1 + term / upper
        factor = upper * lower
        value *= factor
        if -1e-14 < factor - 1 < 1e-14:
            break
    return 1 / value


@lru_cache(maxsize=4096)
def beta_quantile(p: float, a: float, b: float) -> float:
    """Where the beta distribution reaches p; its ends (0 and 1) where a or b is 0.

    A table asks for the same ones under both protocols wherever they read alike.
    """
    if a <= 0 or b <= 0:
        return float(b <= 0)
    low, high = 0.0, 1.0
    x = a / (a + b)
    spread = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    for _ in range(200):
        reached = beta_cdf(x, a, b)
        low, high = (x, high) if reached < p else (low, x)
        # Newton's step where it stays within what is known, else the middle.
        density = math.exp(spread + (a - 1) * math.log(x) + (b - 1) * math.log1p(-x))
        step = x - (reached - p) / density if density > 0 else low
        following = step if low < step < high else (low + high) / 2
        if abs(following - x) <= 1e-13 * following:
            return following
        x = following
    return x
