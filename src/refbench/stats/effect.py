"""What a comparison of so many clusters can show: how large a difference must be, and how many clusters it takes."""

from __future__ import annotations

from refbench.stats.quantiles import normal_quantile

LEVEL = 0.05
POWER = 0.80


def detectable(half_width: float, family: int = 1) -> float:
    """The true difference that a test finds at least four times in five, from the half-width of a 95 % interval.

    In a family of several tests the level that the first of them must reach is the family's divided by their number.
    """
    one = normal_quantile(1 - LEVEL / 2)
    return half_width / one * (normal_quantile(1 - LEVEL / 2 / max(family, 1)) + normal_quantile(POWER))


def smallest_p(clusters: int) -> float:
    """The smallest two-sided p that swapping the sides of so many clusters can give: all of them one way."""
    return min(1.0, 2.0 ** (1 - clusters))


def clusters_needed(family: int = 1) -> int:
    """How many clusters it takes that some data at least could be told apart, in a family of so many tests."""
    found = 1
    while smallest_p(found) * family > LEVEL:
        found += 1
    return found
