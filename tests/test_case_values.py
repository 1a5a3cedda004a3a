"""The value of a single case is what the benchmark's table would say of it alone."""

from __future__ import annotations

import numpy as np
import pytest

from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.published import released_scores
from refbench.case_values import case_values
from refbench.columns import columns_of
from refbench.table import tabulate


def test_a_case_has_the_value_that_a_table_of_it_alone_would_have() -> None:
    aggregate = benchmark("creval").protocols["paper"].aggregate
    cases, scores = released_scores("paper874")
    columns = columns_of(scores, cases)
    found = case_values(aggregate, columns, cases)["avg"]
    assert found.shape == (len(columns.systems), len(cases))
    for i in (0, 255, 256, len(cases) - 1):
        alone = [score for score in scores if score.case == cases[i].id]
        rows = tabulate("paper", aggregate, alone, [cases[i]], draws=0)
        wanted = {(r.model, r.judge): r.value for r in rows if r.metric == "avg" and r.slice["level"] == "overall"}
        assert [wanted[system] for system in columns.systems] == pytest.approx(list(found[:, i]))
    assert not np.isnan(found).any()
