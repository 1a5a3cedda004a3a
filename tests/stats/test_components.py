"""Variance components, against published mean squares, closed forms and data whose components are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from refbench.stats.components import SOURCES, Components, variance_components

Array = NDArray[np.float64]

TRUE = {"case": 9.0, "judge": 1.0, "case_by_judge": 2.25, "seed": 4.0, "seed_by_judge": 0.64, "repeat": 0.25}


def simulated(rng: np.random.Generator, cases: int, judges: int, seeds: int, repeats: int) -> Array:
    """Marks as cases x seeds x judges x repeats, with the components of TRUE."""
    shapes = {
        "case": (cases, 1, 1, 1),
        "judge": (1, 1, judges, 1),
        "case_by_judge": (cases, 1, judges, 1),
        "seed": (cases, seeds, 1, 1),
        "seed_by_judge": (cases, seeds, judges, 1),
        "repeat": (cases, seeds, judges, repeats),
    }
    marks = np.zeros((cases, seeds, judges, repeats))
    for source, shape in shapes.items():
        marks = marks + rng.normal(0, TRUE[source] ** 0.5, shape)
    return marks


def components(marks: Array, keep: NDArray[np.bool_] | None = None, **more: NDArray[np.intp]) -> Components:
    case, seed, judge, _ = (index.ravel() for index in np.indices(marks.shape))
    kept = np.ones(marks.size, dtype=np.bool_) if keep is None else keep
    found = variance_components(marks.ravel()[kept], case[kept], judge[kept], seed[kept], **more)
    assert found is not None
    return found


def test_shrout_and_fleiss_their_six_targets_and_four_judges() -> None:
    """Shrout and Fleiss (1979), Table 2; their Table 3 has BMS 11.24, JMS 32.49 and EMS 1.02."""
    marks = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], dtype=float)
    found = components(marks[:, None, :, None])
    assert found.variance["case"] == pytest.approx((11.24 - 1.02) / 4, abs=0.005)
    assert found.variance["judge"] == pytest.approx((32.49 - 1.02) / 6, abs=0.005)
    assert found.variance["case_by_judge"] == pytest.approx(1.02, abs=0.005)
    assert found.merged == {"seed": "case", "seed_by_judge": "case_by_judge", "repeat": "case_by_judge"}


def test_a_balanced_design_gives_the_anova_estimates() -> None:
    """Case x judge with seeds nested in cases: mean squares by the textbook's sums, expected mean squares solved."""
    c, s, j, r = 12, 3, 4, 2
    y = simulated(np.random.default_rng(3), c, j, s, r)
    grand = y.mean()
    case, judge = y.mean((1, 2, 3)), y.mean((0, 1, 3))
    by_judge, seed, both = y.mean((1, 3)), y.mean((2, 3)), y.mean(3)
    ms_case = s * j * r * np.sum((case - grand) ** 2) / (c - 1)
    ms_judge = c * s * r * np.sum((judge - grand) ** 2) / (j - 1)
    ms_case_judge = s * r * np.sum((by_judge - case[:, None] - judge + grand) ** 2) / ((c - 1) * (j - 1))
    ms_seed = j * r * np.sum((seed - case[:, None]) ** 2) / (c * (s - 1))
    inner = both - seed[:, :, None] - by_judge[:, None, :] + case[:, None, None]
    ms_inner = r * np.sum(inner**2) / (c * (s - 1) * (j - 1))
    ms_repeat = np.sum((y - both[..., None]) ** 2) / (c * s * j * (r - 1))
    expected = {
        "repeat": ms_repeat,
        "seed_by_judge": (ms_inner - ms_repeat) / r,
        "seed": (ms_seed - ms_inner) / (j * r),
        "case_by_judge": (ms_case_judge - ms_inner) / (s * r),
        "judge": (ms_judge - ms_case_judge) / (c * s * r),
        "case": (ms_case - ms_seed - ms_case_judge + ms_inner) / (s * j * r),
    }
    found = components(y)
    assert set(found.variance) == set(SOURCES)
    assert {**found.variance, **found.negative} == pytest.approx(expected)
    assert not found.merged


@pytest.mark.parametrize("share", [1.0, 0.7], ids=["balanced", "with marks missing at random"])
def test_known_components_are_found_without_bias(share: float) -> None:
    rng = np.random.default_rng(5)
    trials = []
    for _ in range(150):
        y = simulated(rng, 30, 4, 3, 2)
        keep = rng.random(y.size) < share
        case, seed, judge, _ = (index.ravel()[keep] for index in np.indices(y.shape))
        found = variance_components(y.ravel()[keep], case, judge, seed)
        assert found is not None
        trials.append({**found.variance, **found.negative})
    for source, true in TRUE.items():
        values = np.array([trial[source] for trial in trials])
        assert abs(values.mean() - true) < 4 * values.std() / len(values) ** 0.5, source


def test_what_a_design_cannot_tell_apart_is_counted_where_it_says() -> None:
    y = simulated(np.random.default_rng(1), 4000, 1, 1, 1)
    found = components(y)
    assert set(found.variance) == {"case"}
    assert found.merged["seed"] == found.merged["repeat"] == found.merged["case_by_judge"] == "case"
    assert found.variance["case"] == pytest.approx(sum(TRUE.values()) - TRUE["judge"], rel=0.1)
    found = components(simulated(np.random.default_rng(1), 4000, 1, 2, 1))
    assert found.merged["repeat"] == "seed"
    assert found.variance["seed"] == pytest.approx(TRUE["seed"] + TRUE["seed_by_judge"] + TRUE["repeat"], rel=0.1)
    assert found.variance["case"] == pytest.approx(TRUE["case"] + TRUE["case_by_judge"], rel=0.1)


def test_an_estimate_below_zero_is_given_as_zero_and_kept() -> None:
    marks = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])  # judges that contradict each other
    found = components(marks[:, None, :, None])
    assert found.variance["case"] == 0
    assert found.negative["case"] < 0


def test_differences_between_strata_are_no_error() -> None:
    rng = np.random.default_rng(2)
    marks = rng.normal(0, 1, (2000, 1, 1, 1))
    stratum = np.arange(2000) % 4
    shifted = marks + 10.0 * stratum[:, None, None, None]
    assert components(shifted, stratum=stratum).variance["case"] == pytest.approx(1.0, rel=0.1)
    assert components(shifted).variance["case"] > 50


def test_the_level_of_the_marks_does_not_matter() -> None:
    y = simulated(np.random.default_rng(4), 20, 2, 2, 2)
    assert dict(components(y + 1e7).variance) == pytest.approx(dict(components(y).variance), rel=1e-6)


def test_one_case_in_each_stratum_tells_nothing() -> None:
    cases = np.arange(3)
    zero = np.zeros(3, dtype=np.intp)
    assert variance_components(np.array([1.0, 2.0, 3.0]), cases, zero, zero, cases) is None


def test_the_variance_of_a_case_mean_is_what_simulation_gives() -> None:
    """With the judges' levels left out, which are the same for all cases."""
    found = Components(TRUE, {}, {}, 0)
    y = simulated(np.random.default_rng(6), 20_000, 3, 2, 2)
    y = y - y.mean((0, 1, 3), keepdims=True)
    assert found.of_case_mean(seeds=2, judges=3, repeats=2) == pytest.approx(y.mean((1, 2, 3)).var(), rel=0.03)
