"""Pairs followed case by case: on the released CREval scores, and at the edges of what can be followed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from refbench.analysis.compare import Further, Systems, compare_columns
from refbench.analysis.compare.stopping import Decision, check_is_sum, follow_pairs
from refbench.benchmarks.creval.table import CORRECTED, PAPER, released_scores
from refbench.case import AnyCase
from refbench.failure import KINDS
from refbench.record import RefBenchError
from refbench.runs.run import fair_order_of_clusters
from refbench.tables.table import Aggregate, Columns, Mean, Slice, Summary, columns_of

N = 80


def systems(
    values: np.ndarray, *, aggregate: Aggregate = CORRECTED, lower: tuple[str, ...] = (), judges: int = 1
) -> Systems:
    released, _ = released_scores()
    cases: list[AnyCase] = [*released][: values.shape[1]]
    names = [(f"m{k // judges}", f"j{k % judges}") for k in range(len(values))]
    columns = Columns.of_values(names, dict.fromkeys(("IF", "VC", "VQ"), values))
    return Systems(aggregate, columns, cases, "creval", "CREval", "corrected", lower=lower)


def clear(seed: int = 1, n: int = N, gap: float = 0.15) -> np.ndarray:
    rng = np.random.default_rng(seed)
    second = rng.uniform(0.2, 0.6, n)
    return np.stack([np.clip(second + gap + rng.normal(0, 0.1, n), 0, 1), second])


def followed(of: Systems, **choices: float) -> Decision:
    (decision,) = follow_pairs(of, [("m0", "m1")], **choices)  # type: ignore[arg-type]
    return decision


def with_state(of: Systems, name: str, where: np.ndarray, *, kind: str = "refused") -> Systems:
    """The same with the first system's scores of some cases failed, or not asked for yet."""
    columns = of.columns
    changed = {m: getattr(columns, name)[m].copy() for m in columns.drawn}
    drawn = {m: d.copy() for m, d in columns.drawn.items()}
    for metric in drawn:
        drawn[metric][0, where] = np.nan
        changed[metric][0, where] = KINDS.index(kind) if name == "kinds" else True
    away = {m: np.zeros_like(a) for m, a in columns.away.items()}
    return replace(of, columns=replace(columns, drawn=drawn, away=away, **{name: changed}))


def test_the_better_model_is_named_also_where_less_is_better() -> None:
    plain, turned = followed(systems(clear())), followed(systems(clear(), lower=("avg",)))
    assert (plain.verdict, plain.better) == ("above", "m0")
    assert (turned.verdict, turned.better) == ("above", "m1")
    assert "CREval avg (lower is better), decided after" in turned.sentence


def test_a_larger_family_makes_each_decision_later() -> None:
    one, many = followed(systems(clear())), followed(systems(clear()), family=28)
    assert many.family == 28
    assert one.n_cases < many.n_cases
    assert "Bonferroni over 28 pairs" in many.sentence


def test_what_is_not_asked_for_yet_ends_what_is_followed() -> None:
    whole = systems(clear(gap=0.02))
    order = [case.id for case in whole.cases]
    assert followed(whole).n_cases == N
    waiting = np.zeros(N, dtype=np.bool_)
    waiting[order.index(order[40])] = True
    part = followed(with_state(whole, "waiting", waiting))
    assert part.verdict == "open"
    assert part.n_cases < N == part.n_all


def test_a_decision_does_not_depend_on_what_is_on_record_behind_it() -> None:
    whole = systems(clear())
    decision = followed(whole)
    places = {case.id: i for i, case in enumerate(whole.cases)}
    behind = np.zeros(N, dtype=np.bool_)
    behind[[places[case.id] for case in fair_order_of_clusters(whole.cases)[decision.n_cases :]]] = True
    assert followed(with_state(whole, "waiting", behind)) == decision


def test_failures_of_a_measure_without_ends_leave_it_undecided_and_that_is_said() -> None:
    endless = replace(CORRECTED, measures=tuple(replace(m, low=None, high=None) for m in CORRECTED.measures))
    of = systems(clear(), aggregate=endless)
    assert followed(of).verdict == "above"
    failed = np.zeros(N, dtype=np.bool_)
    failed[::9] = True
    broken = followed(with_state(of, "kinds", failed))
    assert (broken.verdict, broken.gap) == ("open", None)
    assert "what they could be has no bounds, so nothing can be decided" in broken.sentence


def test_only_without_ends_are_differences_taken_to_be_symmetric_and_a_margin_is_refused_there() -> None:
    endless = replace(CORRECTED, measures=tuple(replace(m, low=None, high=None) for m in CORRECTED.measures))
    of = systems(clear(), aggregate=endless)
    said = followed(of).sentence
    assert "no confidence sequence, as the scale has no ends" in said
    assert "differences taken to be symmetric" in said
    assert "symmetric" not in followed(systems(clear())).sentence
    with pytest.raises(RefBenchError, match="has no largest possible difference"):
        followed(of, margin=1.0)
    with pytest.raises(RefBenchError, match="give a smaller margin"):
        followed(systems(clear()), margin=100.0)


def test_a_margin_is_printed_as_it_was_given() -> None:
    equal = np.repeat(np.random.default_rng(2).uniform(0.2, 0.6, (1, 300)), 2, axis=0)
    decision = followed(systems(equal), margin=12.125)
    assert decision.verdict == "within"
    assert "are equal within 12.125 points on CREval avg" in decision.sentence


def test_more_pairs_than_the_level_was_shared_among_are_refused() -> None:
    with pytest.raises(RefBenchError, match="shared among 1 pair under their judges, and now there are 2"):
        follow_pairs(systems(np.repeat(clear(), 2, axis=0), judges=2), [("m0", "m1")], family=1)


def test_a_number_that_is_no_sum_over_cases_is_refused() -> None:
    def product(mean: Mean, where: Slice) -> Summary:
        return {"avg": 100 * mean("IF", where.members) * mean("VC", where.members)}

    check_is_sum(systems(clear()))
    with pytest.raises(RefBenchError, match="no sum over cases"):
        check_is_sum(systems(clear(), aggregate=replace(CORRECTED, summarise=product)))


def test_each_judge_is_a_pair_of_its_own_and_the_mean_of_judges_is_one() -> None:
    values = np.repeat(clear(), 2, axis=0)
    assert [d.judge for d in follow_pairs(systems(values, judges=2), [("m0", "m1")])] == ["j0", "j1"]
    mean = replace(systems(values, judges=2), mean_of_judges="j1")
    assert [(d.judge, d.family) for d in follow_pairs(mean, [("m0", "m1")])] == [("j1", 1)]


@pytest.mark.slow
def test_what_all_released_items_resolve_is_decided_after_a_third_of_them_and_no_other_way() -> None:
    cases, scores = released_scores()
    of = Systems(PAPER, columns_of(scores, cases), cases, "creval", "CREval", "paper")
    models = [model for model, _ in of.columns.systems]
    decisions = follow_pairs(of, list(combinations(models, 2)))
    pairs = compare_columns(of, draws=200, further=Further(by_slice=False)).pairs
    clear_ones = [(d, p) for d, p in zip(decisions, pairs, strict=True) if p.resolved]
    assert len(clear_ones) == 23
    assert np.mean([d.n_cases for d, _ in clear_ones]) <= 0.33 * len(cases)
    assert all(d.better == (p.first if (p.gap or 0) > 0 else p.second) for d, p in clear_ones)
