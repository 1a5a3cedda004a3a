"""What is said where Ray is not installed, not reachable, or not asked for."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from refbench.engine.ray.cluster import Node, Nonce, check_answer, clear_nonce, leave_nonce, look
from refbench.engine.ray.executor import RayExecutor
from refbench.engine.workers.engines import make_executor
from refbench.engine.workers.executor import EmbeddedExecutor
from refbench.record import RefBenchError


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RefBenchError, match=r"^--engine ray needs Ray: pip install 'refbench\[ray\]'$"):
        make_executor("ray", None, tmp_path)
    with pytest.raises(RefBenchError, match=r"^--engine ray needs Ray .*: pip install 'refbench\[ray\]'$"):
        asyncio.run(RayExecutor(None, shared=tmp_path).connect())


def test_engines_have_names_and_only_ray_has_an_address(tmp_path: Path) -> None:
    assert isinstance(make_executor("embedded", None, tmp_path), EmbeddedExecutor)
    with pytest.raises(RefBenchError, match=r"^--engine dask: choose embedded or ray$"):
        make_executor("dask", None, tmp_path)
    with pytest.raises(RefBenchError, match=r"^--address auto: .* add --engine ray$"):
        make_executor("embedded", "auto", tmp_path)


@pytest.mark.parametrize(("gpus", "room"), [(0, 12), (1, 3), (0.5, 6), (0.3, 9), (1 / 3, 9), (2, 1), (4, 0)])
def test_a_node_holds_as_many_workers_as_fit_on_its_gpus(gpus: float, room: int) -> None:
    """Parts of two GPUs make no worker: 0.3 of a GPU fits three times on each, not ten times on three."""
    assert Node("id", "name", cpus=12, gpus=3).fits(gpus) == room


def test_a_node_answers_for_the_directory_that_it_shares(tmp_path: Path) -> None:
    nonce = leave_nonce(tmp_path, [tmp_path])
    assert look(nonce, "n1") == ""
    check_answer(nonce, "n1", "host", "")
    clear_nonce(nonce)
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_writes_elsewhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refbench.engine.ray.cluster._PATIENCE_S", 0.0)
    nonce = leave_nonce(tmp_path)
    with pytest.raises(RefBenchError, match=r"^node host of the Ray cluster writes in another "):
        check_answer(nonce, "n1", "host", "")


def test_a_node_with_another_version_is_told_so(tmp_path: Path) -> None:
    told = look(Nonce(str(tmp_path), "name", "content", version="0.0.0"), "n1")
    assert told.startswith("has RefBench ")
    assert "and this machine 0.0.0" in told


def test_a_directory_that_cannot_be_made_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RefBenchError, match="choose another --out"):
        leave_nonce(tmp_path / "file" / "run")


def test_an_address_where_nobody_listens_is_said_at_once(tmp_path: Path) -> None:
    pytest.importorskip("ray.cluster_utils")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RefBenchError, match=rf"^--address: no Ray cluster answers at {address} \(nobody listens"):
            asyncio.run(RayExecutor(address, shared=tmp_path).connect())
    with pytest.raises(RefBenchError, match=r"^--address ray://host:1: run on a node "):
        asyncio.run(RayExecutor("ray://host:1", shared=tmp_path).connect())
