"""Objects that workers of the engine make in tests, and the rows they take: some of them raise, hang or kill."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.engine.workers.task import Executor, Outcome, Rows, Task
from refbench.failure import Failure
from refbench.record import RefBenchError


@dataclass(frozen=True)
class Item:
    """A number, and what happens to whoever works on it."""

    key: str
    number: int = 0
    do: str = "square"
    path: str = ""


def numbers(total: int, odd: dict[int, str] | None = None) -> list[Item]:
    """So many numbers, of which some do something else."""
    return [Item(str(n), n, (odd or {}).get(n, "square")) for n in range(total)]


def gathered(executor: Executor, work: Task, rows: Rows) -> dict[str, Outcome]:
    """The outcome of each row; none comes twice."""

    async def gather() -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        async for outcome in executor.run(work, rows):
            assert outcome.key not in outcomes
            outcomes[outcome.key] = outcome
        return outcomes

    return asyncio.run(gather())


def kinds(outcomes: dict[str, Outcome]) -> dict[str, str]:
    return {key: outcome.failure.kind for key, outcome in outcomes.items() if outcome.failure}


class Worker:
    """Squares numbers, unless a row says otherwise."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.name = uuid.uuid4().hex
        self.broken = False

    def __call__(self, rows: Sequence[Item]) -> list[Any]:
        return [self.one(row, len(rows)) for row in rows]

    def one(self, row: Item, together: int) -> Any:
        if self.broken or row.do == "break_device":
            self.broken = True
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        match row.do:
            case "raise":
                raise ValueError(f"no root of {row.number}")
            case "refuse":
                raise RefBenchError("weights.bin is corrupt: refbench fetch weights")
            case "leave":
                sys.exit(3)
            case "exit":
                os._exit(7)
            case "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "last_words":
                print("loading with key sk-abcdefghijklmnopqrstuvwx", file=sys.stderr)
                print("no space left on the moon", file=sys.stderr, flush=True)
                os._exit(5)
            case "hang":
                if row.path:
                    with Path(row.path).open("a") as file:
                        file.write("hangs\n")
                threading.Event().wait()
            case "read":
                return Path(row.path).read_text()
            case "picture":
                from refbench.pictures import decode  # heavier than all else that a worker imports

                pixels = decode(Path(row.path).read_bytes())
                return pixels if isinstance(pixels, Failure) else float(pixels.mean())
            case "memory":
                raise MemoryError
            case "pair" if together > 1:
                raise MemoryError
            case "chat":
                print("x" * 100_000)
                os.write(1, b"\x00" * 100_000)
                print("y" * 100_000, file=sys.stderr)
                assert sys.stdin.read() == ""
            case "unsendable":
                return lambda: None
            case "who":
                return self.name, os.getpid()
        return row.number**2 + self.offset


class Shuffled(Worker):
    """Gives back what has no order."""

    def __call__(self, rows: Sequence[Item]) -> Any:
        return set(super().__call__(rows))


class Forgetful(Worker):
    """Leaves odd numbers out."""

    def __call__(self, rows: Sequence[Item]) -> Any:
        return super().__call__([row for row in rows if row.number % 2 == 0])


class Refusing:
    """Cannot be made, and says what to do."""

    def __init__(self) -> None:
        raise RefBenchError("weights.bin is corrupt: refbench fetch weights")


class Raising:
    """Cannot be made, and does not know why."""

    def __init__(self) -> None:
        raise OSError("no such device")


class Crashing:
    """Kills whoever makes it."""

    def __init__(self) -> None:
        print("bad library", file=sys.stderr, flush=True)
        os._exit(9)
