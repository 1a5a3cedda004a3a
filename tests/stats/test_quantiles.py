"""Quantiles against scipy."""

from __future__ import annotations

import pytest
from scipy import stats

from refbench.stats.quantiles import normal_cdf, normal_quantile, t_quantile


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 8, 11, 12, 29, 30, 31, 50, 120, 895, 100_000])
@pytest.mark.parametrize("p", [0.005, 0.025, 0.2, 0.5, 0.9, 0.975, 0.995])
def test_t_quantiles_are_scipys(df: int, p: float) -> None:
    assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=2e-6, abs=1e-9)


def test_normal_functions_are_scipys() -> None:
    for z in (-3.0, -1.0, 0.0, 0.5, 2.5):
        assert normal_cdf(z) == pytest.approx(stats.norm.cdf(z), abs=1e-12)
        assert normal_quantile(normal_cdf(z)) == pytest.approx(z, abs=1e-9)


def test_no_degree_of_freedom_is_an_error() -> None:
    with pytest.raises(ValueError, match="degree of freedom"):
        t_quantile(0.975, 0)
