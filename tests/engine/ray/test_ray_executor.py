"""The Ray executor on a real cluster of several nodes: the outcomes are those of one machine, whatever is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from refbench.engine.ray.executor import RayExecutor
from refbench.engine.workers.engines import make_executor
from refbench.engine.workers.executor import EmbeddedExecutor
from refbench.engine.workers.task import Outcome, Resources, Task
from refbench.machine import threads
from refbench.record import RefBenchError
from support.engine_workers import Item, gathered, kinds, numbers
from support.ray_nodes import SMALL, ray_cluster

pytest.importorskip("ray.cluster_utils")  # not `ray`: without it, the folder of these tests has that name


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes: the head with one core, another with one core and two (pretended) GPUs."""
    with ray_cluster({"num_cpus": 1, "num_gpus": 2}) as made:
        yield made


@pytest.fixture(scope="module")
def connected(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayExecutor]:
    executor = make_executor("ray", cluster.address, tmp_path_factory.mktemp("shared"))
    assert isinstance(executor, RayExecutor)
    yield executor
    executor.close()


def task(factory: str = "engine_workers:Worker", **settings: Any) -> Task:
    return Task(**{"name": "square", "factory": f"support.{factory}", "chunk": 4, **settings})


async def started(folder: Path, total: int) -> None:
    """Wait until so many rows stand at the gate."""
    while len(list(folder.glob("started-*"))) < total:
        await asyncio.sleep(0.02)


async def lose(cluster: Any, node: Any, folder: Path, total: int) -> None:
    """Kill a node while rows stand at the gate on all nodes; open the gate when those of the lost node are gone."""
    await started(folder, total)
    cluster.remove_node(node, allow_graceful=False)
    pids = [mark.name.rpartition("-")[2] for mark in folder.glob("started-*")]
    while all(running(pid) for pid in pids):
        await asyncio.sleep(0.02)
    (folder / "gate").touch()


def forgotten(executor: RayExecutor) -> None:
    """Wait until the cluster, too, has noticed that a node is lost."""

    async def noticed() -> None:
        while len(executor.nodes()) > 2:
            await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(noticed(), 60))


def running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_nasty_set_of_rows_with_a_node_lost_on_the_way_has_the_outcomes_of_one_machine(
    cluster: Any, connected: RayExecutor, pictures: Sequence[Item], tmp_path: Path
) -> None:
    odd = {3: "raise", 12: "leave", 14: "exit", 18: "segfault", 20: "memory", 25: "pair", 26: "pair", 28: "unsendable"}
    odd |= {9: "break_device", 31: "last_words"}
    gates = {0: "wait", 4: "wait", 8: "wait"}
    rows = [*numbers(36, gates | odd), *pictures]
    work = task("ray_workers:Gated", isolated=True, chunk=4, retries=0, args={"gate": str(tmp_path / "gate")})
    extra = cluster.add_node(num_cpus=1, **SMALL)

    async def on_ray() -> dict[str, Outcome]:
        # One on each of the three cores, so one on the node that is lost.
        losing = asyncio.create_task(lose(cluster, extra, tmp_path, 3))
        found = {outcome.key: outcome async for outcome in connected.run(work, rows)}
        await losing
        return found

    found = asyncio.run(on_ray())
    forgotten(connected)
    assert len(list(tmp_path.glob("started-*"))) > 3  # what was lost was begun again
    expected = gathered(EmbeddedExecutor(processes=2), work, rows)
    assert found == expected
    assert len(found) == 40
    assert kinds(found) == {
        **dict.fromkeys(["3", "12", "28"], "undefined"),
        **dict.fromkeys(["9", "14", "18", "20", "31"], "worker_died"),
        **dict.fromkeys(["empty", "cut", "text"], "unreadable_picture"),
    }
    assert found["8"].value == 64


def test_a_row_that_is_late_is_late_alone_and_its_node_is_kept(connected: RayExecutor) -> None:
    work = task(isolated=True, chunk=2, timeout=5.0, resources=Resources(workers=1))
    found = gathered(connected, work, numbers(4, {2: "hang"}))
    assert found == gathered(EmbeddedExecutor(), work, numbers(4, {2: "hang"}))
    assert kinds(found) == {"2": "timeout"}


def test_what_kills_the_actor_itself_neither_ends_the_driver_nor_blames_its_neighbours(connected: RayExecutor) -> None:
    rows = numbers(12, {2: "exit", 5: "break_device", 7: "raise", 9: "unsendable"})
    found = gathered(connected, task(chunk=6, retries=0), rows)
    assert kinds(found) == {"2": "worker_died", "5": "worker_died", "7": "undefined", "9": "undefined"}
    assert found["3"].value == 9


def test_the_last_worker_dies_and_those_who_wait_for_it_get_another(connected: RayExecutor) -> None:
    work = task(chunk=1, retries=0, resources=Resources(workers=1))
    assert kinds(gathered(connected, work, numbers(4, {0: "exit", 3: "exit"}))) == {
        "0": "worker_died",
        "3": "worker_died",
    }


def test_a_lone_row_is_not_blamed_for_its_lost_node(cluster: Any, connected: RayExecutor, tmp_path: Path) -> None:
    extra = cluster.add_node(num_cpus=1, **SMALL)
    work = task("ray_workers:Gated", chunk=1, retries=0, args={"gate": str(tmp_path / "gate")})

    async def on_ray() -> dict[str, Outcome]:
        losing = asyncio.create_task(lose(cluster, extra, tmp_path, 3))
        found = {
            outcome.key: outcome async for outcome in connected.run(work, numbers(3, dict.fromkeys(range(3), "wait")))
        }
        await losing
        return found

    assert asyncio.run(on_ray()) == {str(n): Outcome(str(n), n**2) for n in range(3)}
    assert len(list(tmp_path.glob("started-*"))) == 4
    forgotten(connected)


@pytest.mark.parametrize("isolated", [False, True], ids=["actors", "processes"])
def test_the_object_is_made_once_in_each_worker_and_all_nodes_work(
    connected: RayExecutor, tmp_path: Path, isolated: bool
) -> None:
    async def seen() -> tuple[set[Any], set[Any]]:
        """Two rows stand at the gate at once, so two workers are there; the others go to either."""
        work = task("ray_workers:Gated", chunk=1, isolated=isolated, args={"gate": str(tmp_path / "gate")})

        async def rows() -> AsyncIterator[Item]:
            yield Item("a", do="wait")
            yield Item("b", do="wait")
            await started(tmp_path, 2)
            (tmp_path / "gate").touch()
            for n in range(20):
                yield Item(str(n), do="who")

        found = {outcome.key: outcome.value async for outcome in connected.run(work, rows())}
        raylets = [
            outcome.value["RAY_RAYLET_PID"] async for outcome in connected.run(task("ray_workers:Seen"), numbers(1))
        ]
        return {tuple(found[str(n)]) for n in range(20)}, set(raylets)

    makers, raylets = asyncio.run(seen())
    assert 1 <= len(makers) <= 2
    assert os.getpid() not in {pid for _, pid in makers}
    assert len(raylets) == 1


def test_workers_share_the_drivers_folder_and_places_of_weights_but_no_token(
    connected: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFBENCH_TEST", "yes")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    seen = gathered(connected, task("ray_workers:Seen", isolated=True), numbers(1))["0"].value
    own = os.nice(0)  # Ray would add 15, and the workers would starve beside other load
    assert (seen["folder"], seen["REFBENCH_TEST"], seen["HF_TOKEN"], seen["nice"]) == (str(tmp_path), "yes", None, own)


@pytest.mark.parametrize("isolated", [False, True], ids=["actors", "processes"])
@pytest.mark.parametrize("variable", [None, "1", "3"])
def test_a_worker_computes_with_as_many_threads_as_it_would_on_the_driver(
    connected: RayExecutor, monkeypatch: pytest.MonkeyPatch, variable: str | None, isolated: bool
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    work = task("ray_workers:Seen", isolated=isolated)
    assert str(work.threads) == (variable or str(threads()))
    there = gathered(connected, work, numbers(1))["0"].value
    here = gathered(EmbeddedExecutor(threads=1, processes=1), task("ray_workers:Seen", isolated=True), numbers(1))
    assert there["threads"] == here["0"].value["threads"] == work.threads


def test_parts_of_gpus_are_shared_out_and_what_is_not_there_is_refused(connected: RayExecutor) -> None:
    half = task("ray_workers:Seen", chunk=1, resources=Resources(gpus=0.5))
    assert connected.workers(half) == 4
    assert connected.workers(task(resources=Resources(gpus=1))) == 2
    assert connected.workers(task(resources=Resources(gpus=2))) == 1
    assert connected.workers(task(resources=Resources(gpus=0.5, workers=3))) == 3
    seen = gathered(connected, half, numbers(8))
    assert {outcome.value["CUDA_VISIBLE_DEVICES"] for outcome in seen.values()} <= {"0", "1"}
    with pytest.raises(RefBenchError, match=r"task square asks for 3 GPU, which the Ray cluster does not have$"):
        gathered(connected, task(resources=Resources(gpus=3)), numbers(1))


def test_without_a_gpu_there_is_one_worker_a_core(connected: RayExecutor) -> None:
    assert connected.workers(task()) == 2
    assert connected.workers(task(resources=Resources(workers=9))) == 2
    assert connected.workers(task(resources=Resources(workers=1))) == 1


def test_a_run_that_feeds_another_does_not_wait_for_the_cores_that_it_holds_itself(connected: RayExecutor) -> None:
    async def piped() -> list[int]:
        async def squares() -> AsyncIterator[Item]:
            async for outcome in connected.run(task(chunk=1), numbers(6)):
                yield Item(outcome.key, outcome.value)

        return sorted([outcome.value async for outcome in connected.run(task(chunk=1), squares())])

    assert asyncio.run(piped()) == [n**4 for n in range(6)]


def test_stopping_early_pulls_no_more_than_is_in_flight_and_leaves_no_process(connected: RayExecutor) -> None:
    pulled = 0

    def endless() -> Iterator[Item]:
        nonlocal pulled
        for n in count():
            pulled += 1
            yield Item(str(n), n, "who" if n < 8 else "hang" if n > 40 else "square")

    async def take() -> set[int]:
        pids = set()
        async with aclosing(connected.run(task(isolated=True), endless())) as found:
            received = 0
            async for outcome in found:
                assert pulled - received <= 3 * 4
                received += 1
                if isinstance(outcome.value, tuple):
                    pids.add(outcome.value[1])
                if received == 32:
                    break
        return pids

    async def all_gone(pids: set[int]) -> None:
        while any(running(str(pid)) for pid in pids):
            await asyncio.sleep(0.02)

    pids = asyncio.run(take())
    assert pids
    asyncio.run(asyncio.wait_for(all_gone(pids), 30))


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        ("engine_workers:Refusing", r"^weights\.bin is corrupt: refbench fetch weights$"),
        ("engine_workers:Crashing", r"Crashing cannot be made: the worker ended with exit status 9; .* bad library"),
    ],
)
def test_a_task_that_cannot_be_made_says_so_once(connected: RayExecutor, factory: str, sentence: str) -> None:
    with pytest.raises(RefBenchError, match=sentence):
        gathered(connected, task(factory, isolated=True), numbers(100))


def test_what_only_the_user_can_mend_ends_the_run(connected: RayExecutor) -> None:
    with pytest.raises(RefBenchError, match="refbench fetch weights"):
        gathered(connected, task(), numbers(20, {10: "refuse"}))


def test_no_rows_no_outcomes(connected: RayExecutor) -> None:
    assert gathered(connected, task("engine_workers:Refusing"), []) == {}


def test_a_directory_that_is_another_one_on_a_node_is_refused_with_its_name(
    cluster: Any, connected: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/proc/self/cwd is each process's own folder: the same name for other directories, as on nodes that do not share."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("refbench.engine.ray.cluster._PATIENCE_S", 0.1)
    mine = RayExecutor(cluster.address, shared=Path("/proc/self/cwd/shared"))
    with pytest.raises(
        RefBenchError, match=r"^node \S+ of the Ray cluster does not see what .* /proc/self/cwd/shared: "
    ):
        asyncio.run(mine.connect())
    assert list((tmp_path / "shared").iterdir()) == []
    (tmp_path / "pictures").mkdir()
    mine = RayExecutor(cluster.address, shared=tmp_path / "shared", visible=[Path("/proc/self/cwd/pictures")])
    with pytest.raises(RefBenchError, match=r"^node \S+ of the Ray cluster does not see /proc/self/cwd/pictures: "):
        asyncio.run(mine.connect())
    assert list((tmp_path / "shared").iterdir()) == []


def test_nothing_is_left_in_a_directory_that_all_nodes_share(connected: RayExecutor) -> None:
    asyncio.run(connected.connect())
    assert list(connected._shared.iterdir()) == []
