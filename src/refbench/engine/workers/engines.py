"""Which executors there are, by the names that `--engine` takes, and what of a run goes through them."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refbench.machine import scratch_of
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.engine.ray.models import Cluster
    from refbench.engine.workers.task import Executor

ENGINES = ("embedded", "ray")


def need_engine(engine: str, address: str | None) -> None:
    """Say what is wrong with the choice before anything is computed; whether a cluster answers is seen later."""
    if engine not in ENGINES:
        raise RefBenchError(f"--engine {engine}: choose {' or '.join(ENGINES)}")
    if engine == "embedded" and address is not None:
        raise RefBenchError(f"--address {address}: that of a Ray cluster, so add --engine ray")
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        raise RefBenchError("--engine ray needs Ray: pip install 'refbench[ray]'")


def make_executor(engine: str, address: str | None, shared: Path, visible: Sequence[Path] = ()) -> Executor:
    """The executor of that name; `close` it when all is done. `shared` is where workers of all nodes write."""
    need_engine(engine, address)
    if engine == "embedded":
        from refbench.engine.workers.executor import EmbeddedExecutor

        return EmbeddedExecutor()
    from refbench.engine.ray.executor import RayExecutor

    return RayExecutor(address, shared=shared, visible=visible, quiet=not os.environ.get("REFBENCH_DEBUG"))


@dataclass(frozen=True)
class StartedEngine:
    """Where models keep what lasts a moment, and where local models and judges are: None on this machine."""

    scratch: Path
    cluster: Cluster | None = None


@asynccontextmanager
async def started(engine: str, address: str | None, out: Path) -> AsyncIterator[StartedEngine]:
    """The engine, connected and checked before anything is paid for; closed at the end."""
    need_engine(engine, address)
    with scratch_of(out) as scratch:
        if engine == "embedded":
            yield StartedEngine(scratch)
            return
        from refbench.engine.ray.executor import RayExecutor
        from refbench.engine.ray.models import Cluster

        executor = make_executor(engine, address, out)
        assert isinstance(executor, RayExecutor)
        try:
            await executor.connect()
            cluster = Cluster(executor, out)
            try:
                yield StartedEngine(scratch, cluster)
            finally:
                await cluster.close()
        finally:
            await asyncio.to_thread(executor.close)
