"""The engine and the metrics agree: original pictures scored against their own references are as good as can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from refbench.engine import evaluate
from refbench.networks import why_not
from support.blend import built, tree

NETWORKS = ("yolov4_tiny", "u2netp", "blazepose")
pytestmark = pytest.mark.slow
PARTS = {"canny": 0.0, "sketch@sketch_dodge": 0.0, "bbox@yolov4_tiny": 1.0, "mask@u2netp": 1.0, "pose@blazepose": 1.0}


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory, creval_mini: Path) -> Path:
    """Six photographs and renderings, some of them with people, as links."""
    missing = [reason for name in NETWORKS if (reason := why_not(name)) is not None]
    if missing:
        pytest.skip(f"{missing[0]} (refbench fetch local)")
    folder = tmp_path_factory.mktemp("six")
    images = sorted((creval_mini / "bench/image").iterdir())
    for path in images[4::20]:
        (folder / path.name).symlink_to(path)
    return folder


def test_originals_score_perfectly_against_their_own_references(six: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = built(
        six, out, types=("canny", "sketch_dodge", "bbox", "mask", "pose", "caption"), samples="all", captions="objects"
    )
    assert done.failed_share == 0
    found = evaluate(
        "multiref",
        data=out,
        models=["truth=baseline:truth"],
        metrics=list(PARTS),
        out=tmp_path / "run",
        protocol="corrected",
    )
    means = {
        row.metric: row.value
        for row in found.result.table.rows
        if dict(row.slice) == {"level": "split", "split": "synthetic"}
    }
    for part, perfect in PARTS.items():
        assert means[part] == pytest.approx(perfect, abs=1e-3), part
    assert means["fidelity@local"] == pytest.approx(1.0, abs=1e-3)
    kinds = done.statistics["types"]
    assert all(kinds[kind] for kind in ("canny", "sketch", "bbox", "mask", "pose"))
    assert not any(name.endswith(".jpg") for name in tree(out / "images")), "references are lossless"
