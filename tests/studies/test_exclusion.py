"""Planted bad raters are found, honest ones are not; chances are those that the design promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from refbench.studies.design import Exclusion
from refbench.studies.exclusion import Answer, facts_of, fallen
from support.campaigns import size, slow


def simulated(
    rng: np.random.Generator, honest: int, random: int, straight: int, n: int = 100
) -> dict[str, tuple[str, ...]]:
    """Who falls to which rules in one study of n items with three raters each, 8 gold items, and marks of 1 to 5 by
    honest raters who agree with an alpha of about .5 and get 95 % of gold right."""
    names = [f"honest{k}" for k in range(honest)] + [f"random{k}" for k in range(random)]
    names += [f"straight{k}" for k in range(straight)]
    truth = rng.normal(3.2, 0.9, n)
    answers, gold, seconds = [], {}, {}
    for name in names:
        bias = rng.normal(0, 0.3)
        mine = rng.choice(n, size=max(30, 3 * n // len(names)), replace=False)
        right, pace = (0.95, 15) if name.startswith("honest") else (0.4 if name.startswith("random") else 0.0, 5)
        for k, item in enumerate(mine):
            value = float(np.clip(np.rint(truth[item] + bias + rng.normal(0, 0.8)), 1, 5))
            again = float(np.clip(np.rint(truth[item] + bias + rng.normal(0, 0.8)), 1, 5))
            if name.startswith("random"):
                value, again = (float(v) for v in rng.integers(1, 6, 2))
            if name.startswith("straight"):
                value = again = 4.0
            answers.append(Answer(name, str(item), "IF", value))
            if k % 15 == 14:
                answers.append(Answer(name, str(item), "IF", again, occasion=1))
        gold[name] = [bool(one) for one in rng.random(8) < right]
        seconds[name] = list(rng.lognormal(np.log(pace), 0.4, len(mine)))
    return {one.rater: one.rules for one in fallen(facts_of(answers, gold, seconds), Exclusion())}


@pytest.mark.parametrize("runs", [40, slow(size(250, 1000))])
def test_planted_raters_are_found_and_honest_ones_are_left(runs: int) -> None:
    rng = np.random.default_rng(20)
    found = wrong = 0
    for _ in range(runs):
        out = simulated(rng, 10, 2, 1)
        found += sum(not name.startswith("honest") for name in out)
        wrong += sum(name.startswith("honest") for name in out)
    assert found / (3 * runs) >= 0.95
    assert wrong / (10 * runs) <= 0.05


def test_the_gold_rule_has_the_chances_that_the_design_promises() -> None:
    clicker, clicker10, honest = (float(binom.cdf(5, 8, p)) for p in (2 / 5, 3 / 10, 0.95))
    assert clicker == pytest.approx(0.95, abs=0.005)
    assert clicker10 == pytest.approx(0.99, abs=0.005)
    assert honest == pytest.approx(0.006, abs=0.001)
    for right, out in ((5, True), (6, False)):
        facts = facts_of([], {"r": [True] * right + [False] * (8 - right)}, {})
        assert bool(fallen(facts, Exclusion())) is out


def test_each_rule_says_what_it_found_and_can_be_switched_off() -> None:
    rng = np.random.default_rng(1)
    truth = {str(k): float(rng.integers(1, 6)) for k in range(40)}
    answers = [Answer(name, item, "IF", value) for name in ("a", "b") for item, value in truth.items()]
    answers += [Answer("contrary", item, "IF", 6 - value) for item, value in truth.items()]
    answers += [Answer("same", item, "IF", 4.0) for item in truth]
    answers += [Answer("unsteady", item, "IF", value) for item, value in truth.items()]
    answers += [Answer("unsteady", item, "IF", (value + 2) % 5 + 1, occasion=1) for item, value in truth.items()]
    seconds = {"a": [12.0] * 9, "b": [10.0] * 9, "contrary": [11.0] * 9, "same": [9.0] * 9, "unsteady": [2.0] * 9}
    facts = facts_of(answers, {}, seconds)
    found = {one.rater: [rule.partition(":")[0] for rule in one.rules] for one in fallen(facts, Exclusion())}
    assert found == {"contrary": ["correlation"], "same": ["same"], "unsteady": ["time", "repeats"]}
    none = Exclusion(gold=None, time=None, same=None, repeats=None, correlation=None)
    assert fallen(facts, none) == []
