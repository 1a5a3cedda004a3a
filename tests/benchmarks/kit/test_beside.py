"""Metrics beside a benchmark's own measures: columns of their own, which change no other number."""

from __future__ import annotations

from pathlib import Path

import pytest

import refbench
from refbench.benchmarks import benchmark
from refbench.benchmarks.kit.beside import with_measures
from refbench.failure import Failure
from refbench.score import Score
from refbench.tables.scoring import result_of
from support.checkout import plain_items, write_checkout


@pytest.mark.parametrize("name", ["creval", "multibanana", "ideabench", "multiref"])
def test_an_aesthetic_score_can_be_named_beside_any_benchmark(name: str) -> None:
    plain = benchmark(name)
    bench = with_measures(plain, ["aesthetic@siglip_aesthetic_v25", "ssim", "no such metric"])
    assert bench.asking.measured - plain.asking.measured == {"aesthetic@siglip_aesthetic_v25"}
    for protocol, usual in plain.scoring.protocols.items():
        first, *others = bench.scoring.protocols[protocol].aggregate.measures
        assert first.name == "aesthetic@siglip_aesthetic_v25"
        assert others == list(usual.aggregate.measures), "the last is still the one that models are ranked by"
    assert with_measures(plain, ["ssim", "none"]) is plain


def test_nothing_stands_in_for_what_could_not_be_measured(tmp_path: Path) -> None:
    """The released script of CREval scores a refused item 0. That is no aesthetic score of 0."""
    dataset = refbench.load("creval", write_checkout(tmp_path, plain_items(9)))
    bench = with_measures(benchmark("creval"), ["colorfulness"])
    refused = Failure(kind="refused", by_model=True)
    scores = [
        Score(
            case=case.id,
            model="m",
            judge="j",
            metric=metric,
            protocol="paper",
            value=None if lost else 0.5 if metric != "colorfulness" else 0.25,
            failure=refused if lost else None,
        )
        for number, case in enumerate(dataset.cases)
        for lost in [number < 3]
        for metric in ("IF", "VC", "VQ", "colorfulness")
    ]
    result = result_of(bench, dataset.cases, scores, draws=0)
    beside, judged = (result.rows(level="overall", metric=name)[0] for name in ("colorfulness", "IF"))
    assert (beside.value, beside.n_imputed, beside.failures) == (0.25, 0, {"refused": 3})
    assert (judged.value, judged.n_imputed) == (pytest.approx(100 * 0.5 * 6 / 9), 3)
