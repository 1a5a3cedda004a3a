"""The embedded executor: every row has one outcome, whatever raises, crashes, hangs or is stopped."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from refbench.engine.workers.executor import EmbeddedExecutor
from refbench.engine.workers.task import Outcome, Resources, Rows, Task
from refbench.record import RefBenchError
from support.engine_workers import Item, gathered, kinds, numbers
from support.processes import late_when_written

TWO = EmbeddedExecutor(threads=2, processes=2)
BOTH = pytest.mark.parametrize("isolated", [False, True], ids=["threads", "processes"])


def task(factory: str = "Worker", **settings: Any) -> Task:
    place = factory if ":" in factory else f"support.engine_workers:{factory}"
    return Task(**{"name": "square", "factory": place, "chunk": 4, **settings})


def outcomes(work: Task, rows: Rows, executor: EmbeddedExecutor = TWO) -> dict[str, Outcome]:
    """The outcome of each row; none comes twice, and nothing is left running."""
    found = gathered(executor, work, rows)
    assert not working_threads()
    return found


def working_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("refbench-")]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_thousand_rows_with_killers_among_them_have_one_outcome_each(pictures: Sequence[Item]) -> None:
    odd = {17: "raise", 18: "raise", 500: "leave", 999: "raise", 250: "exit", 640: "segfault"}
    found = outcomes(task(isolated=True, chunk=16), [*numbers(1000, odd), *pictures])
    assert len(found) == 1004
    assert kinds(found) == {
        **dict.fromkeys(["17", "18", "500", "999"], "undefined"),
        **dict.fromkeys(["250", "640"], "worker_died"),
        **dict.fromkeys(["empty", "cut", "text"], "unreadable_picture"),
    }
    assert all(found[str(n)].value == n**2 for n in range(1000) if n not in odd)
    assert found["good"].value == 7.0
    assert "exit status 7" in str(found["250"].failure)
    assert "signal 11" in str(found["640"].failure)


def test_threads_and_processes_give_the_same_outcomes_for_any_chunk(pictures: Sequence[Item]) -> None:
    odd = {3: "raise", 4: "raise", 20: "leave", 41: "memory", 50: "pair", 51: "pair"}
    rows = [*numbers(60, odd), *pictures]
    expected = outcomes(task(chunk=1, args={"offset": 5}), rows, EmbeddedExecutor(threads=1))
    assert expected["7"].value == 54
    assert str(expected["3"].failure).startswith("undefined: ValueError: no root of 3 (engine_workers.py:")
    for chunk in (1, 7, 64):
        for isolated in (False, True):
            assert outcomes(task(chunk=chunk, isolated=isolated, args={"offset": 5}), rows) == expected


def test_memory_that_suffices_for_half_a_chunk_costs_no_row_and_the_row_it_never_suffices_for_is_tried_next_run() -> (
    None
):
    found = outcomes(task(chunk=8), numbers(8, {1: "pair", 2: "pair", 5: "memory"}))
    assert kinds(found) == {"5": "worker_died"}
    assert found["5"].failure is not None
    assert found["5"].failure.transient
    assert found["1"].value == 1


def test_a_row_that_breaks_the_device_does_not_take_others_along() -> None:
    found = outcomes(task(isolated=True, chunk=4), numbers(12, {5: "break_device"}))
    assert kinds(found) == {"5": "worker_died"}
    assert "illegal memory access" in str(found["5"].failure)


def test_in_threads_rows_on_a_broken_device_are_left_for_the_next_run() -> None:
    found = outcomes(task(), numbers(4, {1: "break_device"}), EmbeddedExecutor(threads=1))
    assert set(kinds(found).values()) == {"worker_died"}


@BOTH
def test_the_object_is_made_once_in_each_worker(isolated: bool) -> None:
    rows = [Item(str(n), do="who") for n in range(100)]
    found = outcomes(task(isolated=isolated), rows)
    assert len({outcome.value for outcome in found.values()}) <= 2
    assert all((pid == os.getpid()) is not isolated for _, pid in (outcome.value for outcome in found.values()))


@BOTH
@pytest.mark.parametrize("asynchronous", [False, True], ids=["iterable", "async iterable"])
def test_no_more_rows_are_pulled_than_may_be_in_flight(isolated: bool, asynchronous: bool) -> None:
    pulled, closed = 0, False

    def endless() -> Iterator[Item]:
        nonlocal pulled
        for n in count():
            pulled += 1
            yield Item(str(n), n)

    async def endless_async() -> AsyncIterator[Item]:
        nonlocal closed
        try:
            for item in endless():
                yield item
        finally:
            closed = True

    async def take() -> None:
        rows: Rows = endless_async() if asynchronous else endless()
        async with aclosing(TWO.run(task(isolated=isolated), rows)) as found:
            received = 0
            async for _ in found:
                assert pulled - received <= 3 * 4
                received += 1
                if received == 100:
                    break
        assert not working_threads()

    asyncio.run(take())
    assert pulled <= 100 + 3 * 4
    assert closed is asynchronous


@BOTH
def test_a_consumer_that_takes_one_outcome_has_three_chunks_pulled_for_two_workers(isolated: bool) -> None:
    pulled = 0

    def endless() -> Iterator[Item]:
        nonlocal pulled
        for n in count():
            pulled += 1
            yield Item(str(n), n)

    async def take() -> None:
        async with aclosing(TWO.run(task(isolated=isolated), endless())) as found:
            await anext(found)
            for _ in range(1000):  # the loop goes on without the consumer
                await asyncio.sleep(0)
            assert pulled <= 3 * 4

    asyncio.run(take())


@BOTH
def test_rows_that_wait_for_outcomes_are_not_waited_for(isolated: bool) -> None:
    """A chunk of 4 never fills: the next row comes when the last one is done."""
    done: asyncio.Queue[int] = asyncio.Queue()

    async def one_by_one() -> AsyncIterator[Item]:
        for n in range(3):
            yield Item(str(n), n)
            assert await done.get() == n**2

    async def gathered() -> list[int]:
        values = []
        async for outcome in TWO.run(task(isolated=isolated), one_by_one()):
            values.append(outcome.value)
            done.put_nowait(outcome.value)
        return values

    assert asyncio.run(gathered()) == [0, 1, 4]


@BOTH
def test_the_loop_goes_on_while_workers_work(isolated: bool, tmp_path: Path) -> None:
    """Workers wait for what only the loop can give them: two tasks side by side, both blocked in native reads."""
    for name in "ab":
        os.mkfifo(tmp_path / name)

    async def read(name: str) -> str:
        rows = [Item(name, do="read", path=str(tmp_path / name))]
        return "".join([outcome.value async for outcome in TWO.run(task(isolated=isolated), rows)])

    async def both() -> list[str]:
        readers = [asyncio.create_task(read(name)) for name in "ab"]
        for name in "ba":
            await give(tmp_path / name, name.upper())
        return await asyncio.gather(*readers)

    async def give(fifo: Path, text: str) -> None:
        while True:
            try:
                pipe = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody reads yet
                await asyncio.sleep(0.001)
                continue
            os.write(pipe, text.encode())
            os.close(pipe)
            return

    assert asyncio.run(both()) == ["A", "B"]


@pytest.mark.parametrize("how", ["close", "cancel", "error in rows"])
def test_stopping_early_ends_workers_that_hang(how: str) -> None:
    pids: list[int] = []

    async def rows() -> AsyncIterator[Item]:
        for n in range(2):
            yield Item(f"who{n}", do="who")
        while not pids:
            await asyncio.sleep(0.001)
        for n in range(10):
            yield Item(f"hang{n}", do="hang")
            if how == "error in rows" and n == 1:
                raise LookupError("the list ends here")

    async def consume() -> None:
        async with aclosing(TWO.run(task(isolated=True, chunk=1), rows())) as found:
            async for outcome in found:
                pids.append(outcome.value[1])
                if len(pids) == 2 and how == "close":
                    return

    async def stop() -> None:
        consumer = asyncio.create_task(consume())
        while len(pids) < 2:
            await asyncio.sleep(0.001)
        if how == "cancel":
            consumer.cancel()
        await asyncio.wait([consumer])
        if how == "error in rows":
            assert isinstance(consumer.exception(), LookupError)
        assert not working_threads()

    asyncio.run(stop())
    assert not any(is_there(pid) for pid in pids)


def test_a_worker_that_hangs_is_killed_and_its_row_alone_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_when_written(monkeypatch, tmp_path / "hangs")
    work = task(isolated=True, chunk=2, timeout=600.0, resources=Resources(workers=1))
    rows = [Item(str(n), n, do="hang" if n == 2 else "square", path=str(tmp_path / "hangs")) for n in range(4)]
    found = outcomes(work, rows)
    assert kinds(found) == {"2": "timeout"}
    assert found["3"].value == 9


def test_a_worker_that_died_while_idle_is_nobodys_fault() -> None:
    async def gathered() -> list[Outcome]:
        pids: asyncio.Queue[int] = asyncio.Queue()

        async def rows() -> AsyncIterator[Item]:
            yield Item("first", do="who")
            watched = os.pidfd_open(pid := await pids.get())
            os.kill(pid, signal.SIGKILL)
            await asyncio.to_thread(select.select, [watched], [], [])
            os.close(watched)
            yield Item("second", 3)

        found = []
        async for outcome in TWO.run(task(isolated=True, retries=0), rows()):
            found.append(outcome)
            if outcome.key == "first":
                pids.put_nowait(outcome.value[1])
        return found

    assert asyncio.run(gathered())[1] == Outcome("second", 9)


def test_what_a_task_prints_or_reads_does_not_disturb_its_worker() -> None:
    found = outcomes(task(isolated=True), numbers(6, dict.fromkeys(range(6), "chat")))
    assert {key: outcome.value for key, outcome in found.items()} == {str(n): n**2 for n in range(6)}


def test_the_last_words_of_a_dead_worker_are_kept_without_keys() -> None:
    found = outcomes(task(isolated=True, retries=0), [Item("it", do="last_words")])
    assert found["it"].failure is not None
    assert found["it"].failure.detail == (
        "the worker ended with exit status 5; its last words: loading with key [redacted] no space left on the moon"
    )


def test_a_value_that_cannot_be_sent_fails_alone() -> None:
    found = outcomes(task(isolated=True), numbers(4, {1: "unsendable"}))
    assert kinds(found) == {"1": "undefined"}


def test_a_row_larger_than_a_pipe_arrives() -> None:
    assert outcomes(task(isolated=True), [Item("k" * 1_000_000, 2)]) == {"k" * 1_000_000: Outcome("k" * 1_000_000, 4)}


def test_a_task_must_give_a_list_with_a_value_for_each_row() -> None:
    found = outcomes(task("Shuffled"), numbers(4))
    assert kinds(found) == dict.fromkeys("0123", "undefined")
    found = outcomes(task("Forgetful"), numbers(4))
    assert {key: outcome.value for key, outcome in found.items() if not outcome.failure} == {"0": 0, "2": 4}


@BOTH
@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        ("Refusing", r"^weights\.bin is corrupt: refbench fetch weights$"),
        ("Raising", r"^task square: .*:Raising cannot be made: OSError: no such device$"),
        ("Absent", r"^task square: .*:Absent cannot be made: AttributeError: "),
        ("absent_package.part:Class", r"^task square: .* cannot be made: ModuleNotFoundError: .*absent_package"),
    ],
)
def test_a_task_that_cannot_be_made_says_so_once(isolated: bool, factory: str, sentence: str) -> None:
    with pytest.raises(RefBenchError, match=sentence):
        outcomes(task(factory=factory, isolated=isolated), numbers(100))
    assert not working_threads()


def test_a_task_whose_making_kills_the_worker_says_so() -> None:
    with pytest.raises(
        RefBenchError, match=r"Crashing cannot be made: the worker ended with exit status 9; .* bad library"
    ):
        outcomes(task("Crashing", isolated=True), numbers(100))


@BOTH
def test_what_only_the_user_can_mend_ends_the_run(isolated: bool) -> None:
    with pytest.raises(RefBenchError, match="refbench fetch weights"):
        outcomes(task(isolated=isolated), numbers(100, {50: "refuse"}))
    assert not working_threads()


def test_no_rows_no_workers() -> None:
    assert outcomes(task("Refusing", isolated=True), []) == {}


def test_a_task_gets_the_workers_it_asks_for_and_one_for_a_gpu() -> None:
    assert TWO.workers(task()) == 2
    assert TWO.workers(task(resources=Resources(workers=1))) == 1
    assert TWO.workers(task(resources=Resources(workers=9), isolated=True)) == 2
    assert TWO.workers(task(resources=Resources(gpus=0.5))) == 1


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(RefBenchError, match="timeout needs isolated=True"):
        task(timeout=1.0)
    with pytest.raises(RefBenchError, match="threads=0"):
        EmbeddedExecutor(threads=0)


SCRIPT = """
import asyncio
from refbench.engine.workers.executor import EmbeddedExecutor
from refbench.engine.workers.task import Task
from support.engine_workers import Item, gathered, kinds, numbers

async def work():
    rows = [Item("a", do="who"), Item("b", do="hang")]
    task = Task(name="square", factory="support.engine_workers:Worker", isolated=True)
    async for outcome in EmbeddedExecutor(processes=1).run(task, rows):
        print(outcome.value[1], flush=True)

asyncio.run(work())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd and PR_SET_PDEATHSIG are Linux's")
def test_no_worker_survives_a_killed_parent_even_of_a_script_without_a_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    tests = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": tests}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout
        watched = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    gone, _, _ = select.select([watched], [], [], 600)
    os.close(watched)
    assert gone
