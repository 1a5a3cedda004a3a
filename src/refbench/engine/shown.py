"""Showing the progress of a run while it goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from refbench.engine.progress import ProgressPrinter


@contextlib.asynccontextmanager
async def shown(printer: ProgressPrinter | None) -> AsyncIterator[None]:
    """Show it every now and then until the block ends, and once more at its end."""

    async def show() -> None:
        while True:
            await asyncio.sleep(0.5)
            if printer is not None:
                printer.show()

    task = asyncio.create_task(show())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if printer is not None:
            printer.show(final=True)
