"""The frontier against its definition, pair by pair."""

from __future__ import annotations

import numpy as np

from refbench.stats.frontier import frontier


def test_a_point_is_on_the_frontier_unless_another_is_as_good_in_all_and_better_in_one() -> None:
    draw = np.random.default_rng(5)
    for _ in range(200):
        points = {n: tuple(map(float, draw.integers(0, 4, 3))) for n in range(draw.integers(1, 8))}
        beaten = {
            n
            for n, mine in points.items()
            for other in points.values()
            if all(b >= a for a, b in zip(mine, other, strict=True))
            and any(b > a for a, b in zip(mine, other, strict=True))
        }
        assert frontier(points) == set(points) - beaten
        unpriced = {n: (*point[:2], None) for n, point in points.items()}
        assert frontier(unpriced) == frontier({n: point[:2] for n, point in points.items()})


def test_what_is_unknown_of_one_keeps_that_one_off() -> None:
    assert frontier({"a": (1.0, -2.0), "b": (9.0, None)}) == {"a"}
    assert frontier({"a": (None, -2.0)}) == {"a"} and frontier({}) == frontier({"a": (None,)}) == set()
