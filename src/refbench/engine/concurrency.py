"""Looking ahead: work on the next few items is begun before it is asked for, and handed out in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

ItemT = TypeVar("ItemT")
MadeT = TypeVar("MadeT")


async def ahead(
    items: Iterable[ItemT], make: Callable[[ItemT], Coroutine[Any, Any, MadeT]], most: int
) -> AsyncGenerator[MadeT, None]:
    """What `make` gives for each item, in order, at most so many begun at a time; closing drops what was begun."""
    begun: deque[asyncio.Task[MadeT]] = deque()
    try:
        for item in items:
            begun.append(asyncio.create_task(make(item)))
            if len(begun) > most:
                yield await begun.popleft()
        while begun:
            yield await begun.popleft()
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
