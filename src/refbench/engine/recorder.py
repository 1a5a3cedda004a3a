"""The recorder: one thread that writes the ledger, so that no call waits for a disk but its own record."""

from __future__ import annotations

import asyncio
import queue
import threading
from types import TracebackType
from typing import Self

from refbench.evidence import Evidence, Purpose
from refbench.output import Output
from refbench.runs import LedgerWriter
from refbench.runs.ledger import KnownPicture

_Item = tuple[Evidence, tuple[Purpose, ...]] | Output | KnownPicture | tuple[str, Purpose]


class Recorder:
    """Takes evidence and outputs; awaiting `record` returns when they are safe on disk.

    Everything that arrives while a commit is running goes into the next one: a busy run pays few flushes.
    """

    def __init__(self, writer: LedgerWriter) -> None:
        self.writer = writer
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[tuple[_Item, str, asyncio.Future[None] | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="refbench-ledger")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.put(None)
        self._thread.join()

    def link(self, act: str, purpose: Purpose) -> None:
        """Note that recorded evidence serves another purpose; goes into the next commit, nobody waits for it."""
        self._waiting.put(((act, purpose), "", None))

    def know(self, picture: KnownPicture) -> None:
        """Note what a picture is that was opened; goes into the next commit too, before what is said about it."""
        self._waiting.put((picture, "", None))

    async def record(self, item: _Item, *, instead: str = "") -> None:
        """Write down; raises what the disk said when it could not be. What the act `instead` said before is retired."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((item, instead, done))
        await done

    def _write(self) -> None:
        ended = False
        while not ended:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            ended = None in batch
            entries = [entry for entry in batch if entry is not None]
            failure: BaseException | None = None
            try:
                for item, instead, _ in entries:
                    self._add(item, instead)
                self.writer.commit()
            except Exception as error:  # noqa: BLE001 - carried to whoever waits for the record
                failure = error
            for *_, done in entries:
                if done is not None:
                    self._loop.call_soon_threadsafe(_settle, done, failure)

    def _add(self, item: _Item, instead: str) -> None:
        if isinstance(item, Output):
            self.writer.add_output(item)
        elif isinstance(item, KnownPicture):
            self.writer.know(item)
        elif isinstance(item[0], str):
            act, purpose = item
            assert isinstance(act, str)
            assert isinstance(purpose, Purpose)
            self.writer.link(act, purpose)
        else:
            evidence, purposes = item
            assert isinstance(evidence, Evidence)
            assert isinstance(purposes, tuple)
            first, *others = purposes
            self.writer.add(evidence, first, instead=instead)
            for purpose in others:
                self.writer.link(evidence.id, purpose)


def _settle(done: asyncio.Future[None], failure: BaseException | None) -> None:
    if done.done():  # its waiter was cancelled
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
