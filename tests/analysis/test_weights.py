"""Weights of criteria: the benchmark's own are found, given ones are tried, and tau is scipy's."""

from __future__ import annotations

from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr

from refbench.analysis.agree.people import read_scores
from refbench.analysis.precision.weights import WeightSweep, weight_sweep
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.benchmarks.kit import Call, Total
from refbench.benchmarks.kit import benchmark as declared
from refbench.benchmarks.multibanana.cases import CRITERIA, MultiBananaDetails
from refbench.case import AnyCase, Request
from refbench.failure import Failure
from refbench.judges.panel import Rule
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.tables.result import Result
from refbench.tables.scoring import result_of


@pytest.fixture(scope="module")
def creval() -> Result:
    cases, scores = released_scores("paper874")
    return result_of(benchmark("creval"), cases, scores, draws=0)


def swept(result: Result, *given: str, protocol: str = "paper", judge: str | None = "gpt-4o") -> WeightSweep:
    found = weight_sweep(result, protocol, judge, given)
    assert isinstance(found, WeightSweep)
    return found


def multibanana() -> Result:
    """Three models on two tasks, marks from 1 to 10."""
    rng = np.random.default_rng(1)
    cases = [
        AnyCase(
            id=f"{task}/{n}",
            request=Request(instruction="Put them together."),
            groups={"group": "two", "task": task, "n_refs": "2", "source": "unknown"},
            cluster=f"{task}/{n}",
            stratum=task,
            details=MultiBananaDetails(task_dir=task, number=str(n)),
        )
        for task in ("add", "replace")
        for n in range(20)
    ]
    scores = [
        Score(
            case=case.id, model=model, judge="j", metric=metric, protocol="corrected", value=float(rng.integers(1, 11))
        )
        for case in cases
        for model in ("a", "b", "c")
        for metric in CRITERIA
    ]
    return result_of(benchmark("multibanana"), cases, scores, draws=0)


def test_the_papers_weights_are_read_off_the_cases(creval: Result) -> None:
    assert dict(swept(creval).default.weights) == {"IF": 0.4, "VC": 0.4, "VQ": 0.2}
    assert swept(creval).default.label == "4:4:2"
    found = swept(multibanana(), "3:3:1:1:1", protocol="corrected", judge="j")
    assert list(found.default.weights) == list(CRITERIA)
    assert list(found.default.weights.values()) == pytest.approx([1 / 3, 1 / 3, 1 / 9, 1 / 9, 1 / 9], abs=1e-5)
    assert dict(found.given[0].values) == pytest.approx(dict(found.default.values))
    assert found.n_grid == comb(14, 4)


def test_under_the_benchmarks_own_weights_the_table_stands(creval: Result) -> None:
    own = swept(creval).default
    for model, value in own.values.items():
        assert value == pytest.approx(creval.value(model=model, metric="avg", level="overall", protocol="paper"))
    assert own.tau == 1


def test_all_weight_on_one_criterion_gives_its_ranking(creval: Result) -> None:
    found = swept(creval, "0:1:0").given[0]
    rows = {row.model: row.value or 0 for row in creval.rows(metric="VC", level="overall", protocol="paper")}
    assert list(found.ranking) == sorted(rows, key=lambda model: -rows[model])
    own = swept(creval).default.values
    assert found.tau == pytest.approx(kendalltau([own[m] for m in rows], list(rows.values())).statistic)


def test_the_grid_says_how_often_each_model_wins(creval: Result) -> None:
    """Counted again by hand: 66 weightings in steps of a tenth."""
    found = swept(creval)
    values = {
        model: [
            creval.value(model=model, metric=metric, level="overall", protocol="paper") or 0
            for metric in found.criteria
        ]
        for model in found.default.values
    }
    wins: dict[str, int] = {}
    for i in range(11):
        for j in range(11 - i):
            weights = i / 10, j / 10, (10 - i - j) / 10
            totals = {m: sum(w * v for w, v in zip(weights, of, strict=True)) for m, of in values.items()}
            best = max(totals, key=lambda m: totals[m])
            wins[best] = wins.get(best, 0) + 1
    assert found.n_grid == sum(wins.values()) == 66
    assert dict(found.winners) == pytest.approx({m: n / 66 for m, n in wins.items()}, abs=1e-6)
    assert found.tau_lowest is not None
    assert found.tau_lowest < 1


@pytest.mark.parametrize("text", ["4:4", "4:4:-2", "0:0:0", "four", "1:nan:1", ""])
def test_weights_that_are_none_are_refused_in_a_sentence(creval: Result, text: str) -> None:
    with pytest.raises(RefBenchError, match="IF:VC:VQ"):
        weight_sweep(creval, "paper", "gpt-4o", [text])


@pytest.mark.parametrize("rule", ["minimum", "weighted_mean"])
def test_only_a_weighted_mean_has_weights(rule: Rule) -> None:
    cases = [AnyCase(id=str(n), request=Request(instruction=""), cluster=str(n), details=None) for n in range(20)]
    ends = {"look": (1.0, 5.0), "fit": (1.0, 5.0)}
    bench = declared(
        name="mine",
        load=lambda path: cases,
        judge=[Call("verdict", ends, lambda case, material: [], lambda case, reply: {})],
        total=Total(rule, weights={"look": 3.0, "fit": 1.0} if rule == "weighted_mean" else {}),
    )
    rng = np.random.default_rng(3)
    scores = [
        Score(case=c.id, model=m, judge="j", metric=n, protocol="corrected", value=float(rng.integers(1, 6)))
        for c in cases
        for m in ("a", "b", "c")
        for n in ends
    ]
    found = weight_sweep(result_of(bench, cases, scores, draws=0), "corrected", "j")
    if rule == "minimum":
        assert isinstance(found, str)
        assert "not a weighted mean" in found
    else:
        assert isinstance(found, WeightSweep)
        assert dict(found.default.weights) == {"look": 0.75, "fit": 0.25}


def test_one_model_has_no_ranking_to_change(creval: Result) -> None:
    only = [s for s in creval.scores if s.model == "Bagel"]
    said = weight_sweep(result_of(creval.bench, creval.cases, only, draws=0), "paper", "gpt-4o")
    assert isinstance(said, str)
    assert "fewer than two models" in said


def test_failures_do_not_bend_the_weights(creval: Result) -> None:
    rng = np.random.default_rng(2)
    scores = [
        s.model_copy(update={"value": None, "failure": Failure(kind="refused"), "protocol": "corrected"})
        if rng.random() < 0.1
        else s.model_copy(update={"protocol": "corrected"})
        for s in creval.scores
    ]
    found = swept(result_of(creval.bench, creval.cases, scores, draws=0), protocol="corrected")
    assert dict(found.default.weights) == {"IF": 0.4, "VC": 0.4, "VQ": 0.2}


def test_correlation_with_people_comes_from_their_file(creval: Result, tmp_path: Path) -> None:
    """People who care about VC alone: more weight on VC goes better with them, and the grid finds that."""
    vc = {(s.case, s.model): s.value for s in creval.scores if s.metric == "VC"}
    chosen = [case.id for case in creval.cases[:60]]
    models = sorted({model for _, model in vc})
    lines = [f"{c},{m},{5 * (vc[c, m] or 0) + 1}" for c in chosen for m in models]
    (tmp_path / "people.csv").write_text("case,model,score\n" + "\n".join(lines) + "\n")
    found = weight_sweep(creval, "paper", "gpt-4o", ["0:1:0"], read_scores(tmp_path / "people.csv"))
    assert isinstance(found, WeightSweep)
    own, only_vc = found.default.human, found.given[0].human
    assert own is not None
    assert only_vc is not None
    assert (only_vc.n_models, only_vc.n_items) == (8, 480)
    assert only_vc.item_pearson == pytest.approx(1)
    assert own.item_pearson is not None
    assert own.item_pearson < 0.99
    means = [np.mean([vc[c, m] for c in chosen]) for m in models]  # type: ignore[misc]
    assert own.pearson == pytest.approx(pearsonr([found.default.values[m] for m in models], means).statistic)
    assert found.human_best is not None
    assert found.human_best.human is not None
    assert (found.human_best.human.pearson or 0) >= max(own.pearson or 0, only_vc.pearson or 0) - 1e-12


def test_a_file_without_people_is_said_to_be_one(creval: Result, tmp_path: Path) -> None:
    (tmp_path / "judges.csv").write_text("case,model,gpt,qwen\n" + "c,Bagel,1,2\n")
    with pytest.raises(RefBenchError, match="no scores of people"):
        weight_sweep(creval, "paper", "gpt-4o", [], read_scores(tmp_path / "judges.csv"))


def test_equal_models_share_the_first_place(creval: Result) -> None:
    twin = [s.model_copy(update={"model": "Bagel twin"}) for s in creval.scores if s.model == "Bagel"]
    both = [s for s in creval.scores if s.model == "Bagel"] + twin
    found = swept(result_of(creval.bench, creval.cases, both, draws=0))
    assert dict(found.winners) == {"Bagel": 0.5, "Bagel twin": 0.5}
    assert found.same_order == 1


def test_scores_that_are_all_alike_cannot_tell_the_weights() -> None:
    cases, scores = released_scores("paper874")
    few = {case.id for case in cases[:40]}
    alike = [s.model_copy(update={"value": 0.5}) for s in scores if s.case in few]
    result = result_of(benchmark("creval"), cases[:40], alike, draws=0)
    said = weight_sweep(result, "paper", "gpt-4o")
    assert isinstance(said, str)
    assert "too much alike" in said
