"""What a comparison of so many clusters can show: how large a difference must be, and how many clusters it takes."""

from __future__ import annotations

from refbench.stats.quantiles import normal_quantile, t_quantile

LEVEL = 0.05
POWER = 0.80

_UNCOUNTABLE = 1e-12
"""A smallest p below which flips attain any level to all digits."""

FEWEST_APART = 6
"""Clusters that must differ: fewer say nothing about how far differences spread."""


def detectable(half_width: float, *, clusters: int, df: int, family: int = 1) -> float | None:
    """The true difference that a test finds at least four times in five, from the half-width of a 95 % interval.

    In a family of several tests the level that the first of them must reach is the family's divided by their number.
    None where flips of so few clusters can never reach it. The power is that of Student's t (its noncentral
    distribution as a normal one), at the level that flips attain; the share of one in `clusters` that is added is what
    both tests together miss beside it (tests/stats/test_permutation.py).
    """
    level, step = LEVEL / max(family, 1), smallest_p(clusters)
    if step > level * (1 + 1e-9):
        return None
    # How many steps of the smallest p reach the level; of a thousand clusters a step is too small to count by.
    reaching = int(level / step + 1e-9) if step > _UNCOUNTABLE else None
    error = half_width / t_quantile(1 - LEVEL / 2, df)
    attained = level if reaching is None else min(level, reaching * step)
    reach = t_quantile(1 - attained / 2, df)
    errors_away = reach * (1 - 0.25 / df) + normal_quantile(POWER) * (1 + reach**2 / (2 * df)) ** 0.5
    if reaching == 1:  # all clusters must point the same way
        errors_away = max(errors_away, clusters**0.5 * normal_quantile(POWER ** (1 / clusters)))
    return float(error * errors_away * (1 + 1 / clusters))


def smallest_p(clusters: int) -> float:
    """The smallest two-sided p that swapping the sides of so many clusters can give: all of them one way."""
    return min(1.0, 2.0 ** (1 - clusters))


def clusters_needed(family: int = 1) -> int:
    """How many clusters it takes that some data at least could be told apart, in a family of so many tests."""
    clusters = 1
    while smallest_p(clusters) * family > LEVEL:
        clusters += 1
    return clusters
