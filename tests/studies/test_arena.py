"""Strengths from pairs, against maximum likelihood by another library, and what is said where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from refbench.studies.export import arena
from refbench.studies.reading import Preference

MODELS = ("apple", "birch", "cedar", "daisy")
TRUE = dict(zip(MODELS, (0.8, 0.3, -0.2, -0.9), strict=True))


def preferences(n: int, seed: int = 3, cases: int = 40, raters: int = 6) -> list[Preference]:
    rng = np.random.default_rng(seed)
    found = []
    for k in range(n):
        first, second = rng.choice(MODELS, 2, replace=False)
        chance = 1 / (1 + np.exp(TRUE[second] - TRUE[first]))
        said = "tie" if rng.random() < 0.15 else "first" if rng.random() < chance else "second"
        said = "both_bad" if rng.random() < 0.05 else said
        case, rater = f"case{k % cases}", f"r{rng.integers(raters)}"
        found.append(Preference(f"{k}", case, str(first), str(second), said, rater, 1))
    return found


def test_strengths_are_those_of_scipys_maximum_likelihood() -> None:
    given = preferences(600)
    found = arena(given, draws=0)

    def loss(free: np.ndarray) -> float:
        strength = dict(zip(MODELS, [*free, -free.sum()], strict=True))
        total = 0.0
        for one in given:
            share = {"first": 1.0, "second": 0.0, "tie": 0.5}.get(one.said)
            if share is not None:  # both bad says nothing about which is better
                ahead = strength[one.first] - strength[one.second]
                total += share * np.log1p(np.exp(-ahead)) + (1 - share) * np.log1p(np.exp(ahead))
        return float(total)

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    assert found.strengths == pytest.approx([*best, -best.sum()], abs=1e-5)
    assert sum(found.both_bad) == 2 * sum(one.said == "both_bad" for one in given)
    assert sum(found.wins) == sum(found.losses)


def test_intervals_cover_the_truth_and_need_more_than_one_case() -> None:
    """Ties as halves draw strengths together; the truth that intervals are held to is that of the marks' own model."""
    limit = dict(zip(MODELS, arena(preferences(10_000, 99), draws=0).strengths, strict=True))
    inside = []
    for seed in range(6):
        found = arena(preferences(300, seed), draws=100)
        for name, ends in zip(found.models, found.intervals, strict=True):
            true = limit[name]
            assert ends is not None and true is not None
            inside.append(ends[0] <= true <= ends[1])
    assert np.mean(inside) >= 0.85
    one_case = [one._replace(case="c") for one in preferences(300)]
    assert arena(one_case, draws=100).intervals == (None,) * 4


def test_there_is_no_rank_where_the_graph_falls_apart() -> None:
    never_lost = [Preference(f"{k}", f"c{k}", "apple", "birch", "first", "r1", 1) for k in range(5)]
    found = arena(never_lost)
    assert not found.connected and found.strengths == (None, None) and found.intervals == (None, None)
    apart = [
        Preference(f"{k}", f"c{k}", *pair, said, "r1", 1)
        for k, (pair, said) in enumerate(
            (pair, said) for pair in (("apple", "birch"), ("cedar", "daisy")) for said in ("first", "second")
        )
    ]
    found = arena(apart)
    assert not found.connected and len(set(found.groups)) == 2


def test_order_of_the_outputs_does_not_matter() -> None:
    given = preferences(200)
    other = {"first": "second", "second": "first"}
    turned = [p._replace(first=p.second, second=p.first, said=other.get(p.said, p.said)) for p in given]
    assert arena(given, draws=0) == arena(turned, draws=0)
