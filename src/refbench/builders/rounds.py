"""Work in rounds: items made a block at a time, each to its end, until enough stand or nothing is left to try.

A block follows from what became of the earlier ones, so the same replies give the same items, however often the work
was stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from refbench.failure import Failure

BLOCK = 32
Planned = TypeVar("Planned")
Made = TypeVar("Made")
Told = TypeVar("Told")


@dataclass
class Worked(Generic[Made]):
    """What the work came to."""

    items: list[Made] = field(default_factory=list)
    begun: int = 0
    unfinished: int = 0
    stopped: Literal["", "budget", "unreachable"] = ""
    why: str = ""
    """What the last one met that is unfinished."""

    def count(self, told: Sequence[object]) -> None:
        """Money that is spent and an endpoint that is dead end the work; a single call that fails does not."""
        failed = [one for one in told if isinstance(one, Failure) and one.transient]
        self.unfinished += len(failed)
        self.why = str(failed[-1])[:200] if failed else self.why
        if any(one.kind == "budget" for one in failed):
            self.stopped = "budget"
        elif 2 * len(failed) > len(told):
            self.stopped = "unreachable"


async def work(
    waiting: Sequence[Planned],
    wanted: int,
    make: Callable[[Planned], Coroutine[Any, Any, Made | Failure]],
    *,
    most: int,
    admit: Callable[[Made, Sequence[Made]], bool] = lambda item, others: True,
    show: Callable[[str], None] = lambda line: None,
) -> Worked[Made]:
    """Make `wanted` items of what waits, in its order, `most` at a time.

    A transient failure of `make` is for the next run to finish, and its place is kept; any other was dropped and put
    down. `admit` says, in order, whether an item may stand beside the earlier ones.
    """
    worked: Worked[Made] = Worked()
    at = 0
    while at < len(waiting) and not worked.stopped:
        places = wanted - len(worked.items) - worked.unfinished
        if places <= 0:
            break
        block = waiting[at : at + min(BLOCK, places)]
        at += len(block)
        worked.begun += len(block)
        told = await together([make(one) for one in block], most)
        for one in told:
            if not isinstance(one, Failure) and admit(one, worked.items):
                worked.items.append(one)
        worked.count(told)
        show(f"{len(worked.items)} of {wanted} items made, {at} of {len(waiting)} looked at")
    return worked


async def together(asked: Sequence[Coroutine[Any, Any, Told]], most: int) -> list[Told]:
    """The answers in their order, `most` at a time; the first error of a user's making ends all."""
    room = asyncio.Semaphore(most)

    async def one(coroutine: Coroutine[Any, Any, Told]) -> Told:
        async with room:
            return await coroutine

    tasks = [asyncio.ensure_future(one(coroutine)) for coroutine in asked]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for coroutine in asked:
            coroutine.close()  # those that never had room
        raise
