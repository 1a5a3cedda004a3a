"""How many calls an endpoint takes at once, found out by trying: up while it answers, down when it says no."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_START = 16
_CUT = 0.7
_FEWEST = 1.0


class Limiter:
    """Additive rise, multiplicative cut, as TCP does it.

    Until the first refusal every answer adds a place, so that full speed comes in a few round trips; after it,
    a round of answers adds one. A `Retry-After` stops new calls for that long.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.allowed = float(min(most, _START))
        self.in_flight = 0
        self._throttled = False
        self._paused_until = 0.0
        self._last_cut = 0.0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place among the calls in flight, waited for in turn."""
        async with self._changed:
            while True:
                pause = self._paused_until - time.monotonic()
                if pause > 0:
                    # Wake up when the pause is over; a change in between may wake us earlier, and we look again.
                    waiter = asyncio.get_running_loop().call_later(pause, lambda: asyncio.ensure_future(self._wake()))
                    try:
                        await self._changed.wait()
                    finally:
                        waiter.cancel()
                elif self.in_flight < int(self.allowed):
                    break
                else:
                    await self._changed.wait()
            self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            await self._wake()

    def answered(self) -> None:
        """The endpoint took a call: there may be room for more."""
        self.allowed = min(float(self.most), self.allowed + (1 / self.allowed if self._throttled else 1.0))

    def refused(self, retry_after: float | None) -> None:
        """The endpoint said that it is too much (429, 503). Refusals of one moment count once."""
        now = time.monotonic()
        self._throttled = True
        if now - self._last_cut > 0.25:
            self.allowed = max(_FEWEST, self.allowed * _CUT)
            self._last_cut = now
        if retry_after:
            self._paused_until = max(self._paused_until, now + retry_after)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class ByteLimiter:
    """Bounds the request bodies held in memory at once; one that is larger than the bound goes alone."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self, size: int) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: self.held == 0 or self.held + size <= self.most)
            self.held += size
        try:
            yield
        finally:
            async with self._changed:
                self.held -= size
                self._changed.notify_all()
