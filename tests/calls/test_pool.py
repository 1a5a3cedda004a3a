"""The threads that run functions and workers of a user: what waits for one, and what is taken back."""

from __future__ import annotations

import asyncio
import threading

import pytest

from refbench.calls.pool import Job, Pool, WithdrawnError, stopping


@pytest.mark.parametrize("timeout", [None, 600.0])
def test_what_waits_is_not_begun_once_it_is_said_that_nothing_is(timeout: float | None) -> None:
    """Nor where the loop, which takes it back, is late."""
    go, begun = threading.Event(), []

    def work(place: None, jobs: list[Job[int, int]]) -> list[int]:
        begun.extend(job.request for job in jobs)
        assert go.wait(600)
        return [job.request for job in jobs]

    async def ask() -> list[int | BaseException]:
        nothing_more = asyncio.Event()
        stopping.set(nothing_more)
        pool: Pool[None, int, int] = Pool([None], work, end=lambda _: None, batch=1, patience=1.0)
        asked = [asyncio.create_task(pool.ask(number, timeout)) for number in range(6)]
        while not begun:
            await asyncio.sleep(0)
        nothing_more.set()
        go.set()
        asked[0].get_loop().call_soon(threading.Event().wait, 0.2)  # a loop that is busy meanwhile
        ended = await asyncio.gather(*asked, return_exceptions=True)
        await pool.close()
        return ended

    first, *others = asyncio.run(ask())
    assert (begun, first) == ([0], 0)
    assert all(isinstance(other, WithdrawnError) for other in others)
