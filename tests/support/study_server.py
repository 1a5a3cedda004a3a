"""A study's server: in a thread of its own for a test, or as a process that is killed and started again.

`python -m support.study_server STUDY PORT` imports once and forks for every line that it is sent, so that a hundred
starts take seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from refbench.studies.server import ServeOptions, StudyServer
from refbench.studies.study import Study


@contextlib.contextmanager
def serving(study: Study, options: ServeOptions | None = None) -> Iterator[StudyServer]:
    """The server in a thread, for a browser that blocks."""
    server, loop = StudyServer(study, options), asyncio.new_event_loop()
    started = threading.Event()

    def work() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(server.start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(server.stop())
        loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)


class KilledServer:
    """A server that may be killed at any moment and started again, at the same address and on the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, _free_port()
        self.pid = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        tests = str(Path(__file__).resolve().parents[1])
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "support.study_server", str(self.folder), str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)]), "OPENBLAS_NUM_THREADS": "1"},
            text=True,
        )  # fmt: skip
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        assert self._parent.stdin and self._parent.stdout
        self._parent.stdin.close()
        self._parent.wait(30)
        self._parent.stdout.close()

    def start(self) -> None:
        assert self._parent.stdin and self._parent.stdout
        self._parent.stdin.write("start\n")
        self._parent.stdin.flush()
        self.pid = int(self._parent.stdout.readline())

    def kill(self) -> None:
        """As a power cut: nothing is told, nothing is flushed."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            assert self._parent.stdout
            assert self._parent.stdout.readline() == "gone\n"
            self.pid = 0


def _free_port() -> int:
    """A port that nobody else takes while the server is gone: below those that systems hand out by themselves."""
    while True:
        with socket.socket() as found, contextlib.suppress(OSError):
            port = random.randrange(20_000, 32_000)
            found.bind(("127.0.0.1", port))
            return port


def _fork(folder: Path, port: int) -> None:
    for _ in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            asyncio.run(_serve(folder, port, write))
        os.close(write)
        assert os.read(read, 1), "it does not listen"
        os.close(read)
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("gone", flush=True)


async def _serve(folder: Path, port: int, told: int) -> None:
    server = StudyServer(Study.open(folder), ServeOptions(port=port))
    await server.start()
    os.write(told, b"!")
    await asyncio.Event().wait()


if __name__ == "__main__":
    _fork(Path(sys.argv[1]), int(sys.argv[2]))
