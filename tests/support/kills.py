"""Commands of RefBench as real processes that are killed at a chosen moment, hundreds in a minute: `python -m
support.kills` imports RefBench once and forks for every command that it is told in a line of JSON.

A moment is the n-th time that the command opens a file for writing, renames, removes, makes a folder, flushes or
commits: at once, or a little later, from outside. Or it is the n-th time that its main thread comes to a line of the
code that writes, which is where an interrupt becomes an exception.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

_EVENTS = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "sqlite3.connect"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_LIMIT_S = 600.0
_MARK = "REFBENCH_KILLS"
WRITES = (
    "runs/ledger",
    "runs/run",
    "runs/register",
    "runs/disk",
    "runs/journal",
    "runs/merging",
    "builders/kit/recorded",
)
"""The code in which an interrupt could leave something half-done, by how the names of its files begin."""
NETWORKS = "REFBENCH_KILLS_NETWORK"
"""A file with the one network that a command is to know."""


@dataclass(frozen=True)
class Blow:
    """A signal at a moment; `later` seconds after it from outside, None for at once; `again` as long after the first."""

    moment: int
    signal: int = signal.SIGKILL
    later: float | None = None
    again: float | None = None
    line: str = ""
    """Count only when this line ("runs/ledger.py:200") is come to."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, below 0 for a signal; how many moments it had; what it printed."""

    code: int
    moments: int
    said: str


@dataclass
class Commands:
    """Starts commands, one after another, in processes of their own."""

    folder: Path
    """Where their standard output goes."""
    env: Mapping[str, str] = field(default_factory=dict)
    count: int = 0

    def __enter__(self) -> Self:
        tests = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join([tests, *(entry for entry in sys.path if entry)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.kills"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self.env, "PYTHONPATH": path, _MARK: str(self.folder), "OPENBLAS_NUM_THREADS": "1"},
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(600)
        self._process.stdout.close()

    def run(
        self,
        words: Sequence[object],
        blow: Blow | None = None,
        *,
        largest: int | None = None,
        env: Mapping[str, object] | None = None,
        lines: Path | None = None,
    ) -> Ended:
        """Run `refbench WORDS` to its end, however that comes. No file may grow beyond `largest` bytes. How often each
        line of `WRITES` was come to is left in the file `lines`."""
        assert self._process.stdin and self._process.stdout
        self.count += 1
        log = self.folder / f"{self.count}.log"
        told = {
            "words": [str(word) for word in words],
            "log": str(log),
            "largest": largest,
            "lines": lines and str(lines),
        }
        told["env"] = {name: str(value) for name, value in (env or {}).items()}
        self._process.stdin.write(json.dumps({**told, "blow": None if blow is None else asdict(blow)}) + "\n")
        self._process.stdin.flush()
        code, moments = json.loads(self._process.stdout.readline())
        return Ended(code, moments, log.read_text("utf-8", "replace"))

    def orphans(self) -> list[str]:
        """Command lines of processes that commands have started and that live, after some patience."""
        until = time.monotonic() + 600
        while left := [line for pid, line in _marked(str(self.folder)) if pid != self._process.pid]:
            if time.monotonic() > until:
                return left
            time.sleep(0.01)
        return []


def _marked(mark: str) -> list[tuple[int, str]]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{_MARK}={mark}\0".encode() in (folder / "environ").read_bytes() + b"\0":
                found.append((int(folder.name), (folder / "cmdline").read_text("utf-8", "replace").replace("\0", " ")))
    return found


# --- the process that forks -----------------------------------------------------------------------------------------


def _serve() -> None:
    import refbench
    from refbench.cli.app import main

    for module in pkgutil.walk_packages(refbench.__path__, "refbench."):
        if not any(part in module.name for part in (".ray", ".large", "__main__", ".templates", ".guard")):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    judge_in_batches: Any = importlib.import_module("refbench.engine.batching").judge_in_batches
    judge_in_batches.__kwdefaults__["poll_seconds"] = 0.02  # a provider on loopback need not be spared
    for line in sys.stdin:
        told = json.loads(line)
        pid, moments = _fork(told)
        if pid == 0:
            main()
        print(json.dumps([_end(pid, told["blow"], moments), *_moments(moments)]), flush=True)


def _fork(told: Mapping[str, Any]) -> tuple[int, int]:
    """The child, and where it tells that its moment has come, and how many there were."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    os.close(reader)
    log = os.open(told["log"], os.O_CREAT | os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, end in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(stream, end)
    sys.argv = ["refbench", *told["words"]]
    os.environ.update(told["env"])
    if NETWORKS in os.environ:
        _know(Path(os.environ[NETWORKS]))
    if told["largest"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (told["largest"], resource.RLIM_INFINITY))
    _watch(writer, Blow(**told["blow"]) if told["blow"] else None, told["lines"])
    return 0, writer


def _watch(writer: int, blow: Blow | None, lines: str | None) -> None:
    """Count the moments, and strike at the right one."""
    import atexit

    from refbench.runs.ledger import LedgerWriter

    count = 0

    def moment() -> None:
        nonlocal count
        count += 1
        if blow is None or count != blow.moment:
            return
        os.write(writer, b"!\n")
        if blow.later is None:
            os.kill(os.getpid(), blow.signal)

    def heard(event: str, given: tuple[Any, ...]) -> None:
        opened = event == "open" and isinstance(given[2], int) and given[2] & _WRITING and given[0] != os.devnull
        if opened or event in _EVENTS:
            moment()

    def passed(real: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            moment()
            made = real(*given, **more)
            moment()
            return made

        return call

    atexit.register(lambda: os.write(writer, f"{count}\n".encode()))
    if lines is not None or (blow is not None and blow.line):
        _follow(moment, blow.line if blow else "", lines)
        return
    sys.addaudithook(heard)
    os.fsync = passed(os.fsync)
    LedgerWriter.commit = passed(LedgerWriter.commit)  # type: ignore[method-assign]


def _follow(moment: Callable[[], None], line: str, lines: str | None) -> None:
    """Call `moment` whenever the main thread comes to the line; leave how often it came to each in the file `lines`."""
    import atexit

    met: Counter[str] = Counter()
    names: dict[str, str] = {}

    def traced(frame: FrameType, event: str, given: object) -> Any:
        file = frame.f_code.co_filename
        name = names.setdefault(file, file.rpartition("/refbench/")[2])
        if not name.startswith(WRITES) or frame.f_code.co_name == "__del__":  # Python tells of interrupts there itself
            return None
        place = f"{name}:{frame.f_lineno}"
        if lines is not None:
            met[place] += 1
        elif place == line:
            moment()
        return traced

    if lines is not None:
        atexit.register(lambda: Path(lines).write_text(json.dumps(met)))
    sys.settrace(traced)


def _know(described: Path) -> None:
    from refbench.networks import NetworkInfo, fetch, network

    info = NetworkInfo.model_validate_json(described.read_bytes())
    network.networks = fetch.networks = lambda: {info.name: info}  # type: ignore[attr-defined, assignment]


def _end(pid: int, blow: Mapping[str, Any] | None, moments: int) -> int:
    """Strike where it is to be done from outside, and wait."""
    if blow is not None and os.read(moments, 2) == b"!\n":
        if blow["later"] is not None:
            time.sleep(blow["later"])
            os.kill(pid, blow["signal"])
        if blow["again"] is not None:
            time.sleep(blow["again"])
            os.kill(pid, blow["signal"])
    until = time.monotonic() + _LIMIT_S
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -999  # it hung


def _moments(moments: int) -> list[int]:
    told = b""
    while more := os.read(moments, 100):
        told += more
    os.close(moments)
    return [int(told.split()[-1]) if told.split() and told.split()[-1].isdigit() else 0]


if __name__ == "__main__":
    _serve()
