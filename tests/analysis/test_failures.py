"""Failures by slice and by model, against exact tests."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import refbench
from refbench.analysis.failures import coverage, failure_test
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.failure import Failure, FailureKind
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.stats.permutation import depends_on_system
from refbench.tables.result import Result
from refbench.tables.scoring import result_of


def some_cases(count: int) -> tuple[list[object], list[Score]]:
    """The first released CREval items, all scored, by two models."""
    cases, scores = released_scores()
    ids = {case.id for case in cases[:count]}
    return list(cases[:count]), [s for s in scores if s.case in ids and s.model in ("Bagel", "OmniGen2")]


def failing(share: dict[str, set[int]], kind: FailureKind = "refused", count: int = 40, cluster: int = 1) -> Result:
    """A result in which each model's VC failed on the cases of the given numbers."""
    cases, scores = some_cases(count)
    clustered = [case.model_copy(update={"cluster": f"k{n // cluster}"}) for n, case in enumerate(cases)]  # type: ignore[attr-defined]
    gone = {(model, clustered[n].id) for model, numbers in share.items() for n in numbers}
    found = [
        s.model_copy(update={"value": None, "failure": Failure(kind=kind, detail="no")})
        if (s.model, s.case) in gone and s.metric == "VC"
        else s
        for s in scores
    ]
    return result_of(benchmark("creval"), clustered, found, draws=0)


def test_for_two_models_the_p_is_that_of_the_exact_sign_test() -> None:
    happened = np.zeros((2, 50), dtype=np.bool_)
    happened[0, :9] = True
    happened[1, 8:10] = True  # eight cases in the first alone, one in the second alone, one in both
    found = depends_on_system(happened, np.arange(50), draws=20_000, seed=1)
    assert found is not None
    assert found.p == pytest.approx(binomtest(1, 9).pvalue, abs=0.005)
    assert found.p_each.tolist() == [found.p, found.p]


def test_for_three_models_the_p_is_that_of_all_exchanges() -> None:
    """Cochran's Q is a monotone function of the squared column sums, as rows keep their totals."""
    happened = np.array([[1, 1, 1, 1, 0], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]], dtype=np.bool_)
    exchanged = [[list(order) for order in permutations(column)] for column in happened.T.astype(int).tolist()]
    sums = [np.sum(rows, axis=0) for rows in product(*exchanged)]
    statistic = np.array([np.sum((total - total.mean()) ** 2) for total in sums])
    observed = happened.sum(axis=1)
    exact = np.mean(statistic >= np.sum((observed - observed.mean()) ** 2) - 1e-9)
    found = depends_on_system(happened, np.arange(5), draws=20_000, seed=2)
    assert found is not None
    assert found.p == pytest.approx(exact, abs=0.01)


def test_kin_count_once() -> None:
    """Twenty cases that fail together are no more evidence than one."""
    happened = np.zeros((2, 40), dtype=np.bool_)
    happened[0, :20] = True
    alone = depends_on_system(happened, np.arange(40), draws=999, seed=3)
    kin = depends_on_system(happened, np.arange(40) // 20, draws=999, seed=3)
    assert alone is not None
    assert kin is not None
    assert alone.p == pytest.approx(0.001)
    assert kin.p == 1


def test_models_that_fail_alike_give_no_test() -> None:
    happened = np.zeros((3, 10), dtype=np.bool_)
    happened[:, 4] = True
    assert depends_on_system(happened, np.arange(10), draws=99, seed=4) is None


def test_the_model_that_refuses_more_often_stands_out() -> None:
    found = failure_test(failing({"Bagel": set(range(12))}), "paper", "gpt-4o")
    assert found.p is not None
    assert found.p < 0.01
    assert [(s.model, s.failed) for s in found.models] == [("Bagel", 12), ("OmniGen2", 0)]
    assert "depends on the model" in found.statement
    assert "Bagel failed more often than the others (12 of 40 pictures, 6.0 if all were alike" in found.statement
    assert found.n_left_out == 0


def test_of_several_pictures_each_that_failed_counts() -> None:
    once = failing({"Bagel": set(range(12))})
    other = failing({})
    twice = [*once.scores, *(score.model_copy(update={"seed": 1}) for score in other.scores)]
    found = failure_test(result_of(once.bench, once.cases, twice, draws=0), "paper", "gpt-4o")
    assert "Bagel failed more often than the others (12 of 80 pictures, 6.0 if" in found.statement


def test_failures_here_and_there_show_nothing() -> None:
    found = failure_test(failing({"Bagel": {0, 1, 2}, "OmniGen2": {7, 8}}), "paper", "gpt-4o")
    assert found.p is not None
    assert found.p > 0.5
    assert "has not been shown to depend on the model" in found.statement


def test_cases_that_nobody_has_judged_yet_are_no_failures() -> None:
    found = failure_test(failing({"Bagel": set(range(12))}, kind="missing_reply"), "paper", "gpt-4o")
    assert (found.n_cases, found.n_left_out) == (28, 12)
    assert found.statement == "none of the 28 cases failed for any model"


def test_clusters_reach_the_test() -> None:
    found = failure_test(failing({"Bagel": set(range(12))}, cluster=20), "paper", "gpt-4o")
    assert found.p == 1


def test_coverage_is_the_tables_own() -> None:
    result = failing({"Bagel": set(range(12)), "OmniGen2": {3}})
    found = coverage(result, "paper", "gpt-4o")
    assert {(c.model, c.n_expected, c.n_scored) for c in found if c.slice["level"] == "overall"} == {
        ("Bagel", 40, 28),
        ("OmniGen2", 40, 39),
    }
    by_level = [c for c in found if c.model == "Bagel" and c.slice["level"] == "dimension"]
    assert sum(c.n_expected - c.n_scored for c in by_level) == 12
    assert sum(n for c in by_level for n in c.failures.values()) == 12


def test_every_failed_score_is_a_row(checkout: Path) -> None:
    (checkout / "answer_gpt/VC/alpha").joinpath("item_003.3.txt").write_text("I cannot say.")
    result = refbench.rescore("creval", data=checkout, replies=checkout / "answer_gpt", draws=0)
    rows = result.failures()
    assert {(r["case"], r["model"], r["metric"], r["protocol"]) for r in rows} == {
        ("item_003.3", "alpha", "VC", "corrected"),
        ("item_003.3", "alpha", "VC", "paper"),
    }
    assert list(rows[0]) == ["case", "model", "judge", "protocol", "metric", "seed", "kind", "detail"]
    assert rows[0]["kind"] in ("unparsable", "refused")


def test_trackers_get_a_flat_dictionary() -> None:
    result = failing({})
    flat = result.flat()
    assert flat["creval/Bagel/gpt-4o/paper/avg"] == result.value(
        model="Bagel", metric="avg", level="overall", protocol="paper"
    )
    assert {key.count("/") for key in flat} == {4}
    cases, scores = some_cases(10)
    slashed = [s.model_copy(update={"model": "a/b"}) for s in scores if s.model == "Bagel"]
    assert "creval/a_b/gpt-4o/paper/avg" in result_of(benchmark("creval"), cases, slashed, draws=0).flat()  # type: ignore[arg-type]
    both = slashed + [s.model_copy(update={"model": "a_b"}) for s in slashed]
    with pytest.raises(RefBenchError, match="rename one of them"):
        result_of(benchmark("creval"), cases, both, draws=0).flat()  # type: ignore[arg-type]


def test_what_has_no_value_is_not_in_the_flat_dictionary() -> None:
    flat = failing({"Bagel": set(range(40))}, kind="timeout").flat()
    assert "creval/Bagel/gpt-4o/paper/VC" in flat  # the paper's aggregate gives a failure a zero
    cases, scores = some_cases(3)
    failed = [
        s.model_copy(update={"value": None, "failure": Failure(kind="timeout"), "protocol": "corrected"})
        for s in scores
    ]
    assert result_of(benchmark("creval"), cases, failed, draws=0).flat() == {}  # type: ignore[arg-type]


def test_a_lost_seed_is_a_failure_and_a_case_that_was_not_asked_for_is_none() -> None:
    cases, scores = some_cases(10)
    again = [s.model_copy(update={"seed": 1}) for s in scores]
    lost = {"value": None, "failure": Failure(kind="refused", detail="no")}
    waits = {"value": None, "not_asked": True}
    ids = [case.id for case in cases]  # type: ignore[attr-defined]
    seeds = [s.model_copy(update=lost) if (s.model, s.case) == ("Bagel", ids[0]) else s for s in again]
    late = [s.model_copy(update=waits) if (s.model, s.case) == ("OmniGen2", ids[9]) else s for s in [*scores, *seeds]]
    found = failure_test(result_of(benchmark("creval"), cases, late, draws=0), "paper", "gpt-4o")  # type: ignore[arg-type]
    assert {one.model: one.failed for one in found.models} == {"Bagel": 1, "OmniGen2": 0}
    assert (found.n_cases, found.n_left_out) == (9, 1)


def test_a_model_with_more_seeds_does_not_fail_more_often() -> None:
    """Ten percent of the pictures of each fail, four seeds of one and one of the other."""
    cases, scores = some_cases(100)
    lost = {"value": None, "failure": Failure(kind="refused", detail="no")}
    ids = [case.id for case in cases]  # type: ignore[attr-defined]
    rng = np.random.default_rng(6)
    found = []
    for model, seeds in (("Bagel", 4), ("OmniGen2", 1)):
        for seed in range(seeds):
            gone = {ids[i] for i in rng.choice(100, 10, replace=False)}
            mine = [s.model_copy(update={"seed": seed}) for s in scores if s.model == model]
            found += [s.model_copy(update=lost) if s.case in gone else s for s in mine]
    test = failure_test(result_of(benchmark("creval"), cases, found, draws=0), "paper", "gpt-4o")  # type: ignore[arg-type]
    assert [(one.failed, one.n_pictures, one.expected_if_alike) for one in test.models] == [
        (40, 400, 40),
        (10, 100, 10),
    ]
    assert test.p is not None
    assert test.p > 0.5
