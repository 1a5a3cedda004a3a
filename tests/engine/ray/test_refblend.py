"""A dataset built on a Ray cluster of two nodes, one of them lost on the way, is that of one machine to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.blend import built, tree, write_drawings
from support.ray_nodes import SMALL, ray_cluster

pytest.importorskip("ray.cluster_utils")
PICTURES = 64


def test_a_build_on_two_nodes_with_one_lost_is_that_of_one_machine(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", PICTURES)
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    more = {"types": ("canny", "sketch", "caption"), "samples": "all"}
    built(folder, tmp_path / "one", **more)
    told: list[str] = []
    with ray_cluster() as cluster:
        other = cluster.add_node(num_cpus=1, **SMALL)

        def tell(line: str) -> None:
            told.append(line)
            if sum(one.startswith("references: ") for one in told) == 2 and line.startswith("references: "):
                cluster.remove_node(other, allow_graceful=False)

        built(folder, tmp_path / "two", tell, engine="ray", address=cluster.address, **more)
    assert f"references: {PICTURES} of {PICTURES}" in told
    assert tree(tmp_path / "two") == tree(tmp_path / "one")
