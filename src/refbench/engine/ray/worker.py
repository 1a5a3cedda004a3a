"""What a Ray actor runs: the very workers of one machine, on another one. Bytes in, bytes out.

An isolated task has a process of its own under the actor's. So a row that kills it has the same outcome as without
Ray, told in the same words, and a fresh start costs a process and not an actor.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refbench.engine.workers.child import packed, unpacked
from refbench.engine.workers.task import Task
from refbench.engine.workers.worker import Worker, worker_of
from refbench.record import RefBenchError

_SENT = ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_ENDPOINT", "XDG_CACHE_HOME")
"""Variables that say where weights are; keys and tokens stay where they are."""


@dataclass(frozen=True)
class Surroundings:
    """What a worker on another node shares with the driver: where modules, relative paths and weights are found."""

    path: tuple[str, ...]
    folder: str
    variables: dict[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> Surroundings:
        ours = {name: v for name, v in os.environ.items() if name.startswith("REFBENCH_") or name in _SENT}
        return cls(tuple(entry for entry in sys.path if isinstance(entry, str)), str(Path.cwd()), ours)

    def take(self) -> None:
        # Behind the node's own: what is installed there wins over a folder that happens to have the same name.
        sys.path.extend(entry for entry in self.path if entry not in sys.path)
        os.environ.update(self.variables)
        if Path(self.folder).is_dir():
            os.chdir(self.folder)


class RayWorker:
    """One worker of a task, in an actor."""

    def __init__(self, task: Task, surroundings: Surroundings) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
        surroundings.take()
        self._worker: Worker = worker_of(task)

    def node(self) -> str:
        """The id of the node that it runs on; answers as soon as the actor is there."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def run(self, message: bytes) -> bytes:
        """(True, values or the Failure of a dead worker) or (False, the sentence of a RefBenchError)."""
        answer: tuple[bool, Any]
        try:
            answer = (True, self._worker.run(unpacked(message)))
        except RefBenchError as error:
            answer = (False, str(error))
        return packed(answer)

    def close(self) -> None:
        self._worker.close()
