"""The value of a single case is what the benchmark's table would say of it alone."""

from __future__ import annotations

import numpy as np
import pytest

from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.benchmarks.multiref.cases import MultiRefCase, MultiRefDetails, Reference
from refbench.case import Request
from refbench.score import Score
from refbench.stats import SingleMeans, WeightedMeans
from refbench.tables.scoring import released_result
from refbench.tables.table import case_values, columns_of, summaries, tabulate


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


def test_means_of_single_cases_are_those_under_weights_of_one_case_each() -> None:
    rng = np.random.default_rng(4)
    columns = {"a": rng.random((3, 20)), "b": np.where(rng.random((3, 20)) < 0.3, np.nan, rng.random((3, 20)))}
    under = WeightedMeans(columns, np.concatenate([np.eye(20), np.ones((1, 20))]))
    for members in (np.ones(20, dtype=np.bool_), np.arange(20) % 3 == 0):
        for metric in columns:
            found, wanted = SingleMeans(columns)(metric, members), under(metric, members)
            assert np.array_equal(found[:, :-1], wanted[:, :-1], equal_nan=True)
            assert found[:, -1] == pytest.approx(wanted[:, -1])


@pytest.mark.parametrize("measure", ["IF", "avg"])
def test_a_measure_alone_is_the_number_that_it_is_among_all(measure: str) -> None:
    aggregate = benchmark("creval").scoring.protocols["paper"].aggregate
    result = released_result("creval", draws=0)
    columns = result.columns("paper")
    assert result.columns("paper") is columns, "arranged once"
    values = aggregate.filled(columns)
    weights = np.random.default_rng(1).random((4, len(result.cases)))
    slices = aggregate.slices(result.cases)
    whole = summaries(aggregate, values, weights, slices)
    alone = summaries(aggregate, values, weights, slices, measure)
    assert alone.keys() == {place for place in whole if place[1] == measure} != set()
    assert all(np.array_equal(value, whole[place], equal_nan=True) for place, value in alone.items())
