"""A web server on loopback that runs in a thread of its own, for tests that speak to real ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from aiohttp import web


class LoopbackServer:
    """Starts and stops; what it answers is `_handle`'s business.

    `together` and `hold` let a test wait for what happens instead of for a time: no answer is given before so many requests
    have been in flight at once, or before `release`.
    """

    latency = 0.0
    in_flight = 0
    most_in_flight = 0
    together = 0
    _arrived = 0
    _held_after: int | None = None

    def hold(self, after: int = 0) -> None:
        """Answer so many requests more, and others after `release`."""
        self._released.clear()
        self._held_after = self._arrived + after

    def release(self) -> None:
        self._held_after = None
        self._loop.call_soon_threadsafe(self._released.set)

    @asynccontextmanager
    async def _in_flight(self) -> AsyncIterator[None]:
        """Around the answer to a request: counts it, and begins when it may be answered."""
        number, self._arrived = self._arrived, self._arrived + 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.in_flight >= self.together:
            self._met.set()
        try:
            await self._met.wait()
            if self._held_after is not None and number >= self._held_after:
                await self._released.wait()
            await asyncio.sleep(self.latency)
            yield
        finally:
            self.in_flight -= 1

    def __enter__(self) -> Self:
        self._met, self._released = asyncio.Event(), asyncio.Event()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(600)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(600)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(600)
        self._loop.close()

    async def _close(self) -> None:
        await self._runner.cleanup()
        hanging = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        self._loop.run_until_complete(self._runner.setup())
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.port = self._runner.addresses[0][1]
        self._ready.set()
        self._loop.run_forever()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError
