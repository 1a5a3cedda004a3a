"""Do all nodes see the same directory? Asked with files that nobody can guess, before anything is computed.

A node that sees another directory under the same name would give wrong failures for pictures that are there.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, write_whole
from refbench.version import __version__

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
