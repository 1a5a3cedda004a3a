"""The connection to Ray, a fresh one or a cluster that is there: its nodes, what its errors mean, and whether all nodes
see the same directory."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from refbench import __version__
from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, write_whole

# Read when Ray is imported or started. Without the first, workers run at niceness 15 and starve beside other load:
# 108 s against 34 s for the same job. The last drops what Ray prints on stdout when a worker dies, into `--json` too.
_BEFORE = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
_QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": "."}
_T = TypeVar("_T")
_STORE = 128 * 2**20
"""Bytes of shared memory of a fresh Ray, which would take 30 % of the machine's: rows carry no pixels."""
_CLOSING_S = 20.0
_ANSWER_S = 10.0


@dataclass(frozen=True)
class Node:
    """A machine of the cluster, and what it has in all."""

    id: str
    name: str
    cpus: int
    gpus: float

    def fits(self, gpus: float) -> int:
        """How many workers it has room for, of so much of a GPU each; of none at all, one a core."""
        if not gpus:
            return self.cpus
        return int(self.gpus) * int(1 / gpus + 1e-9) if gpus < 1 else int(self.gpus / gpus + 1e-9)


class RayCluster:
    """Connects when first asked. A Ray that this process is connected to already is used, and left as it was."""

    def __init__(self, address: str | None, *, quiet: bool) -> None:
        self.address = address
        self._quiet = quiet
        self._lock = threading.Lock()
        self._ray: Any = None
        self._ours: _Keeper | None = None

    def connect(self) -> Any:
        """The package, connected. Blocks for some seconds the first time."""
        with self._lock:
            if self._ray is None:
                ray = _package(quiet=self._quiet)
                if not ray.is_initialized():
                    self._ours = _Keeper(ray, _arguments(self.address, quiet=self._quiet))
                self._ray = ray
            return self._ray

    @property
    def connected(self) -> bool:
        return self._ray is not None

    def nodes(self) -> list[Node]:
        """Those that are alive now."""
        return [
            Node(
                id=node["NodeID"],
                name=node.get("NodeManagerHostname") or node["NodeManagerAddress"],
                cpus=int(node["Resources"].get("CPU", 0)),
                gpus=float(node["Resources"].get("GPU", 0)),
            )
            for node in self.connect().nodes()
            if node["Alive"]
        ]

    def answers(self) -> bool:
        """Whether its head can be reached."""
        return _answers(self.connect().get_runtime_context().gcs_address)

    def close(self, *, gone: bool = False) -> None:
        """End the connection. One to a cluster that is gone cannot be ended, and is left to its fate."""
        with self._lock:
            keeper, self._ours, self._ray = self._ours, None, None
        if keeper is not None and not gone:
            keeper.end()


class _Keeper:
    """A thread that lives as long as the connection: the daemons of a fresh Ray die with the thread that made them."""

    def __init__(self, ray: Any, arguments: dict[str, Any]) -> None:
        self._ray = ray
        self._arguments = arguments
        self._ready: Future[None] = Future()
        self._over = threading.Event()
        # A daemon: where nobody closes, Ray's own exit handler ends the connection, and needs the daemons for it.
        self._thread = threading.Thread(target=self._keep, name="ray-keeper", daemon=True)
        self._thread.start()
        self._ready.result()

    def end(self) -> None:
        self._over.set()
        self._thread.join(_CLOSING_S)

    def _keep(self) -> None:
        where = self._arguments["address"]
        try:
            if ":" in where and not _answers(where):
                raise ConnectionError("nobody listens there")
            self._ray.init(**self._arguments)
        except (ConnectionError, TimeoutError) as error:
            place = "this machine" if where == "local" else where
            self._ready.set_exception(
                RefBenchError(
                    f"--address: no Ray cluster answers at {place} ({_first_line(error)}): is it started, and does it "
                    "ask for a token (RAY_AUTH_MODE=token)?"
                )
            )
        except Exception as error:  # noqa: BLE001 - versions that do not fit, a full disk, ...
            self._ready.set_exception(RefBenchError(f"Ray cannot be used at {where}: {_first_line(error)}"))
        else:
            self._ready.set_result(None)
            self._over.wait()
            self._ray.shutdown()


async def aside(call: Callable[[], _T]) -> _T:
    """What a blocking call to Ray gives. In a daemon thread: the loop's own would keep the interpreter from ending."""
    done: Future[_T] = Future()

    def work() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001 - carried to the loop
            done.set_exception(error)

    threading.Thread(target=work, name="ray-call", daemon=True).start()
    return await asyncio.wrap_future(done)


def death(error: Exception) -> str:
    """Why Ray says that a worker's process ended, without its advice."""
    text = " ".join(str(error).split())
    for mark in ("Worker exit detail: ", "The actor is dead because "):
        if mark in text:
            return text.partition(mark)[2].partition(" Some common causes")[0].rstrip(".")
    return text[:300]


def is_lost(error: Exception) -> bool:
    """Whether the node is gone, or cannot be reached: then no row is to blame."""
    # Measured: a killed node is first reported as "unavailable" (1.7 s), while it still counts as alive.
    return (
        type(error).__name__ == "ActorUnavailableError" or "node has died" in str(error) or "node is dead" in str(error)
    )


def _package(*, quiet: bool) -> Any:
    for name, value in {**_BEFORE, **(_QUIET if quiet else {})}.items():
        os.environ.setdefault(name, value)
    try:
        importlib.import_module("ray.exceptions")  # a folder called ray can be imported too, and is not Ray
        return importlib.import_module("ray")
    except ImportError as error:
        raise RefBenchError(f"--engine ray needs Ray ({error}): pip install 'refbench[ray]'") from error


def _arguments(address: str | None, *, quiet: bool) -> dict[str, Any]:
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    if where.startswith("ray://"):
        raise RefBenchError(
            f"--address {where}: run on a node of the cluster and give its address as HOST:6379 or auto"
        )
    logging_options = {"log_to_driver": not quiet, "logging_level": logging.ERROR if quiet else logging.INFO}
    fresh = {"include_dashboard": False, "object_store_memory": _STORE} if where == "local" else {}
    return {"address": where, **logging_options, **fresh}


def _answers(address: str) -> bool:
    """Whether anybody listens there: `init` itself would go on trying for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S):
            return True
    except (OSError, ValueError, OverflowError):
        return False


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


# A node that sees another directory under the same name would give wrong failures for pictures that are there. Files
# that nobody can guess tell, before anything is computed.

_PATIENCE_S = 5.0
"""For network file systems, whose clients see a new file only after a while."""
_PREFIX = ".part-nonce-"  # of the names that a run directory may hold


@dataclass(frozen=True)
class Nonce:
    """A file that the driver has written, and what else a node has to see."""

    directory: str
    name: str
    content: str
    visible: tuple[str, ...] = ()
    version: str = __version__

    @property
    def path(self) -> Path:
        return Path(self.directory, self.name)

    def answer(self, node: str) -> Path:
        """The file that a node writes."""
        return Path(self.directory, f"{self.name}-{node}")


def leave_nonce(directory: Path, visible: Sequence[Path] = ()) -> Nonce:
    """Write the driver's file. The directory keeps the name that was given: a link may lead elsewhere on a node."""
    nonce = Nonce(
        directory=str(directory.absolute()),
        name=_PREFIX + secrets.token_hex(8),
        content=secrets.token_hex(16),
        visible=tuple(str(path.absolute()) for path in visible),
    )
    try:
        write_whole(nonce.path, nonce.content.encode())
    except OSError as error:
        raise disk_error(error, directory) from error
    return nonce


def look(nonce: Nonce, node: str) -> str:
    """On a node: what is wrong there, "" for nothing; leaves the node's own file."""
    if nonce.version != __version__:
        return f"has RefBench {__version__} and this machine {nonce.version}: install the same version on all nodes"
    if _read(nonce.path) != nonce.content:
        return f"does not see what this machine writes in {nonce.directory}: choose a directory that all nodes share"
    try:
        write_whole(nonce.answer(node), nonce.content.encode())
    except OSError as error:
        return f"may not write in {nonce.directory} ({error.strerror}): choose a directory that all nodes may write"
    for path in nonce.visible:
        if not Path(path).exists():
            return f"does not see {path}: put it where all nodes see it under the same name"
    return ""


def check_answer(nonce: Nonce, node: str, name: str, problem: str) -> None:
    """On the driver: raise what a node said, or that its own file is not seen here."""
    if not problem and _read(nonce.answer(node)) != nonce.content:
        problem = f"writes in another {nonce.directory} than this machine's: choose a directory that all nodes share"
    if problem:
        raise RefBenchError(f"node {name} of the Ray cluster {problem}")


def clear_nonce(nonce: Nonce) -> None:
    for path in Path(nonce.directory).glob(f"{nonce.name}*"):
        path.unlink(missing_ok=True)


def _read(path: Path) -> str | None:
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            if time.monotonic() > until:
                return None
            time.sleep(0.1)
