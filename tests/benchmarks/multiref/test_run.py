"""MultiRef-Bench run on loopback: the truth as a model, edges measured without a network, marks by a judge."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from refbench.benchmarks.multiref.cases import load
from refbench.benchmarks.multiref.measures import ratio_to_truth
from refbench.engine import evaluate
from refbench.tables.table import Row
from support.judge_server import JudgeServer
from support.multiref import truth_outputs

REPLY = '{"reason": "As asked.", "image_quality": 4, "instruction_following": 3, "source_fidelity": 5}'


@pytest.fixture
def outputs(data: Path, tmp_path: Path) -> Path:
    """Folders of two models: one gives the targets themselves, one gives every case the first of its pictures."""
    dataset = load(data)
    for case, path in truth_outputs(dataset):
        place = tmp_path / f"out/truth/{case}{path.suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    for case in dataset.cases:
        path = dataset.path(case.request.pictures[0])
        place = tmp_path / f"out/copy/{case.id}{path.suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return tmp_path / "out"


def value(rows: list[Row], metric: str, model: str, protocol: str, **where: str) -> float | None:
    (found,) = [
        r for r in rows if (r.metric, r.model, r.protocol) == (metric, model, protocol) and dict(r.slice) == where
    ]
    return found.value


def test_the_truth_has_no_edge_error_and_is_what_others_are_a_share_of(
    data: Path, outputs: Path, tmp_path: Path
) -> None:
    with JudgeServer(reply=lambda text: REPLY) as judge:
        found = evaluate(
            "multiref",
            data=data,
            models=[f"truth=folder:{outputs / 'truth'}", f"copy=folder:{outputs / 'copy'}"],
            judges=[f"gpt=openai:gpt-4o-mini?base_url={judge.url}/v1"],
            metrics=["canny"],
            out=tmp_path / "run",
        )
        assert len(judge.requests) == 2 * 17, "one call for each output"
    assert found.result.published() == [], "the paper's numbers are about all cases of a split"
    apart = {said for said, value in found.result.published_apart() if dict(value.slice).get("split") == "synthetic"}
    assert any("of 990 here" in said for said in apart)
    rows = list(found.result.table.rows)
    synthetic = {"level": "split", "split": "synthetic"}
    for protocol in ("paper", "corrected"):
        assert value(rows, "canny", "truth", protocol, **synthetic) == 0
        error = value(rows, "canny", "copy", protocol, **synthetic)
        assert error is not None
        assert 0 < error < 1
        assert value(rows, "IQ", "truth", protocol, level="overall") == pytest.approx(0.8)
        assert value(rows, "SF", "copy", protocol, level="split", split="real-world") == pytest.approx(1)
        assert value(rows, "avg", "truth", protocol, **synthetic) is None, "nine types are not measured"
        share = value(ratio_to_truth(rows), "canny / truth", "copy", protocol, **synthetic)
        assert share == pytest.approx(1 - error)
