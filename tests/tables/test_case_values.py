"""The value of a single case is what the benchmark's table would say of it alone."""

from __future__ import annotations

import numpy as np
import pytest

from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.benchmarks.multiref.cases import MultiRefCase, MultiRefDetails, Reference
from refbench.case import Request
from refbench.score import Score
from refbench.tables.table import case_values, columns_of, tabulate


def test_a_case_has_the_value_that_a_table_of_it_alone_would_have() -> None:
    aggregate = benchmark("creval").scoring.protocols["paper"].aggregate
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


def test_a_case_without_a_reference_of_some_type_still_has_an_average() -> None:
    """MultiRef's avg is over ten types, of which a case has two or three; blocks of cases may lack a type altogether."""
    bench = benchmark("multiref")
    aggregate = bench.scoring.protocols["corrected"].aggregate
    kinds = ("canny", "mask")
    cases = [
        MultiRefCase(
            id=f"c{i:03}",
            request=Request(instruction="x"),
            cluster=f"c{i:03}",
            groups={"split": "synthetic", "combination": kinds[i // 300], "n_refs": "1"},
            details=MultiRefDetails(split="synthetic", entry=i, references=(Reference(type=kinds[i // 300]),)),
        )
        for i in range(600)
    ]
    metrics = [metric for of_part in bench.asking.parts.values() for metric in of_part]
    scores = [
        Score(
            case=case.id,
            model="m",
            metric=metric,
            protocol="corrected",
            **({"value": 0.5} if metric == case.groups["combination"] else {"not_applicable": "no such reference"}),
        )
        for case in cases
        for metric in metrics
    ]
    found = case_values(aggregate, columns_of(scores, cases), cases)["avg"]
    assert not np.isnan(found).any()
