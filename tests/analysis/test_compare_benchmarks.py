"""Every shipped aggregate, compared: a flip is what really swapping the scores gives, whatever the aggregate does."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import refbench
from refbench import Score
from refbench.analysis.compare import Systems, compare_columns
from refbench.analysis.compare.runs import compare
from refbench.analysis.compare.stopping import check_is_sum, follow_pairs
from refbench.benchmarks import benchmark
from refbench.case import AnyCase
from refbench.runs.run import fair_order_of_clusters
from refbench.tables.table import Aggregate, columns_of, summaries
from support import checkout, icebench, ideabench, multibanana, multiref

CLUSTERS = 4


def written(name: str, root: Path) -> Path:
    if name == "creval":
        return checkout.write_checkout(root, checkout.plain_items(18))
    if name == "multibanana":
        return multibanana.write_dataset(root, multibanana.every_task(1))
    if name == "ideabench":
        return ideabench.write_checkout(root, ideabench.designs(2))
    if name == "icebench":
        return icebench.write_dataset(root, icebench.every_task(1))
    return multiref.write_checkout(root, multiref.blends(2), multiref.requests(6))


def drawn(name: str, cases: list[AnyCase], protocol: str) -> list[Score]:
    bench = benchmark(name)
    rng = np.random.default_rng(6)
    aggregate = bench.scoring.protocols[protocol].aggregate
    metrics = dict.fromkeys(
        [m for p in bench.asking.parts.values() for m in p] + [m for a in aggregate.measures for m in a.parts]
    )
    found = []
    for case in cases:
        away = bench.asking.not_applicable(case)
        for model, shift in (("a", 0.2), ("b", 0.0)):
            for metric in metrics:
                value = float(rng.random() * 0.8 + shift)
                state = {"not_applicable": away[metric]} if metric in away else {"value": value}
                found.append(Score(case=case.id, model=model, metric=metric, protocol=protocol, **state))  # type: ignore[arg-type]
    return found


def gap(aggregate: Aggregate, scores: list[Score], cases: list[AnyCase], measure: str) -> float:
    columns = columns_of(scores, cases)
    values = aggregate.filled(columns)
    overall = [where for where in aggregate.slices(cases) if where.level == "overall"]
    value = summaries(aggregate, values, np.ones((1, len(cases))), overall)[0, measure][:, 0]
    return float(value[0] - value[1])


@pytest.mark.parametrize("protocol", ["corrected", "paper"])
@pytest.mark.parametrize("name", ["creval", "multibanana", "ideabench", "icebench", "multiref"])
def test_p_of_every_shipped_aggregate_is_that_of_really_swapped_scores(
    name: str, protocol: str, tmp_path: Path
) -> None:
    loaded = refbench.load(name, written(name, tmp_path / name)).cases
    cases = [case.model_copy(update={"cluster": str(i % CLUSTERS), "stratum": ""}) for i, case in enumerate(loaded)]
    scores = drawn(name, cases, protocol)
    aggregate = benchmark(name).scoring.protocols[protocol].aggregate
    found = compare_columns(Systems(aggregate, columns_of(scores, cases), cases, name, name, protocol), draws=100)
    (pair,) = found.pairs
    assert pair.gap is not None, pair.sentence
    cluster = {case.id: case.cluster for case in cases}
    swap = {"a": "b", "b": "a"}
    gaps = []
    for flips in product([False, True], repeat=CLUSTERS):
        flipped = {str(i) for i, flip in enumerate(flips) if flip}
        there = [s.model_copy(update={"model": swap[s.model]}) if cluster[s.case] in flipped else s for s in scores]
        gaps.append(gap(aggregate, there, cases, found.metric))
    assert pair.gap == pytest.approx(gaps[0])
    assert pair.p_flips == pytest.approx(np.mean(np.abs(gaps) >= abs(gaps[0]) - 1e-9))
    assert pair.p is not None
    assert pair.p >= pair.p_flips
    assert len(set(np.round(np.abs(gaps), 9))) == 2 ** (CLUSTERS - 1)
    for driver in pair.drivers:
        assert np.isfinite(driver.contribution)


@pytest.mark.parametrize("name", ["creval", "multibanana", "ideabench", "icebench", "multiref"])
def test_every_shipped_aggregate_can_be_followed_case_by_case(name: str, tmp_path: Path) -> None:
    """The gap so far, of all cases, is the gap; of half of them nothing that waits has a say."""
    cases = refbench.load(name, written(name, tmp_path / name)).cases
    scores = drawn(name, [*cases], "corrected")
    bench = benchmark(name)
    systems = Systems.of(bench, "corrected", columns_of(scores, cases), cases, mean_of_judges=None)
    check_is_sum(systems)
    (whole,) = follow_pairs(systems, [("a", "b")])
    found = compare_columns(systems, draws=100)
    assert whole.n_cases <= whole.n_all == found.pairs[0].n_cases
    order = [case.id for case in fair_order_of_clusters(cases)]
    late = set(order[len(order) // 2 :])
    asked = [
        s
        if s.case not in late or s.not_applicable
        else Score(case=s.case, model=s.model, metric=s.metric, protocol=s.protocol, not_asked=True)
        for s in scores
    ]
    (half,) = follow_pairs(replace(systems, columns=columns_of(asked, cases)), [("a", "b")])
    assert half.n_all == whole.n_all
    if whole.verdict == "open":
        assert whole.gap == pytest.approx((found.pairs[0].gap, found.pairs[0].gap))
        assert half.n_cases < whole.n_cases


@pytest.mark.slow
def test_the_sentences_that_the_docs_quote_are_those_that_are_printed() -> None:
    page = Path(__file__).parents[2] / "docs/compare.md"
    quoted = {line.removeprefix("> ") for line in page.read_text().splitlines() if re.match("> .*Holm over", line)}
    models = ("seedream4-0", "gpt-image-1", "qwen-image-edit_output_edit-2509")
    found = compare([f"creval:{model}" for model in models])
    assert quoted
    assert quoted <= {pair.sentence for pair in found.pairs}
