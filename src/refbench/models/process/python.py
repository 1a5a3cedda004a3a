"""Python functions as image models: a callable of this process, or `python:` with one worker process a GPU."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.machinery
import inspect
import json
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from refbench.failure import Failure
from refbench.machine import THREADS, scratch_folder, threads
from refbench.models.model import Commission, Painted, Traits
from refbench.models.process.function import called, end_loop, failed, paint, said
from refbench.models.process.jsonlines import LinesWorker
from refbench.models.process.options import (
    LOAD_TIMEOUT_S,
    TIMEOUT_S,
    TRAITS,
    WORKERS,
    digest,
    environments,
    log_of,
    positive,
    settings,
    traits_of,
    whole,
)
from refbench.models.process.pool import Asked, Lanes
from refbench.models.process.worker import ANSWERS, REQUESTS
from refbench.models.returned import painted
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of

# A fresh interpreter finds what this one finds, also in notebooks and in scripts without an `if __name__` guard.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from refbench.models.process.worker import main; given = json.loads(sys.argv[2]); "
    "main(given['what'], given['options'], batch=given['batch'])"
)


class FunctionModel:
    """Any callable of this process: `generate(request, seed)`, sync or async; with `batch` one that takes lists.

    A sync one runs in `parallel` threads, one by default. It cannot be stopped: after `timeout` its thread is left to
    its fate and another takes its place. `python:` runs functions where they can be killed.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        *,
        traits: Traits | None = None,
        batch: int | None = None,
        parallel: int = 1,
        timeout: float | None = None,
        version: str = "",
    ) -> None:
        self.name = name
        self.traits = traits or Traits(family=family_of(name))
        self._call, self._is_async = called(call, name)
        self._batch = batch
        self._timeout = timeout
        self._identity = {"kind": "function", "what": _named(call), **_version(version, call)}
        self._lanes: Lanes[None] = Lanes(
            [None] * parallel, self._work, end=lambda _: end_loop(), batch=batch or 1, patience=1.0
        )

    def canonical(self) -> Mapping[str, str]:
        return self._identity

    async def generate(self, commission: Commission, seed: int) -> Painted:
        if self._is_async and self._batch is None:
            return await self._on_the_loop(commission, seed)
        return await self._lanes.ask(commission, seed, self._timeout)

    async def close(self) -> None:
        await self._lanes.close()

    def _work(self, place: None, asked: list[Asked]) -> list[Painted]:
        try:
            return paint(self._call, [(one.commission, one.seed) for one in asked], batch=self._batch is not None)
        except (RefBenchError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - what would end a process; this one cannot be started afresh
            return [Painted(failure=Failure(kind="worker_died", detail=said(error))) for _ in asked]

    async def _on_the_loop(self, commission: Commission, seed: int) -> Painted:
        start = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout) as clock:
                value = await self._call(commission, seed)
        except TimeoutError as error:
            seconds = time.perf_counter() - start
            late = Failure(kind="timeout", detail=f"no picture within {self._timeout or 0:g} s")
            return Painted(failure=late if clock.expired() else failed(error), seconds=seconds)
        except RefBenchError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            return Painted(failure=failed(error), seconds=time.perf_counter() - start)
        return painted(value, commission.n_pictures, seconds=time.perf_counter() - start)


class PythonModel:
    """`python:package.module:factory` or `python:./file.py:factory`, made once in each worker process."""

    scratch: Path | None = None
    """Where requests lie while they are painted; None for the system's folder."""

    def __init__(self, spec: Spec) -> None:
        self.name = spec.name
        self.traits = traits_of(spec)
        self._source = _source(spec)
        batch = whole(spec, "batch")
        own = {*WORKERS, *TRAITS, "batch"}
        options = {key: value for key, value in spec.options.items() if key not in own}
        given = json.dumps({"what": spec.what, "options": options, "batch": batch is not None})
        path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        self._identity = {
            "kind": "python",
            "what": spec.what,
            **settings(spec.options),
            **({"version": spec.options["version"]} if "version" in spec.options else {"source": digest(self._source)}),
        }
        workers = [
            LinesWorker(
                [sys.executable, "-u", "-c", _START, path, given],
                {THREADS: str(threads()), **env},
                name=spec.name,
                timeout=positive(spec, "timeout") or TIMEOUT_S,
                load_timeout=positive(spec, "load_timeout") or LOAD_TIMEOUT_S,
                log=log_of(spec),
            )
            for env in environments(spec)
        ]
        self._lanes: Lanes[LinesWorker] = Lanes(
            workers,
            lambda worker, asked: _in_process(worker, asked, self.scratch),
            end=LinesWorker.close,
            batch=batch or 1,
        )

    def canonical(self) -> Mapping[str, str]:
        return self._identity

    async def generate(self, commission: Commission, seed: int) -> Painted:
        return await self._lanes.ask(commission, seed)

    async def close(self) -> None:
        await self._lanes.close()


def _in_process(worker: LinesWorker, asked: list[Asked], scratch: Path | None = None) -> list[Painted]:
    """What a worker paints; a batch that its worker did not survive is tried again one by one."""
    start = time.perf_counter()
    answer: dict[str, Any] | Failure
    with scratch_folder(scratch) as folder:
        try:
            (folder / REQUESTS).write_bytes(pickle.dumps([(one.commission, one.seed) for one in asked]))
            answer = worker.ask(
                {"folder": str(folder)}, lambda: all(one.gone.is_set() for one in asked), times=len(asked)
            )
            if not isinstance(answer, Failure):
                answers: list[Painted] = pickle.loads((folder / ANSWERS).read_bytes())
                return answers
        except FileNotFoundError:
            answer = Failure(kind="worker_died")
        if not folder.exists():
            told = f"somebody removed {folder} while the model painted: keep other programs from cleaning it up"
            answer = Failure(kind="worker_died", detail=told)
    if len(asked) > 1:
        return [one for each in asked for one in _in_process(worker, [each], scratch)]
    return [Painted(failure=answer, seconds=time.perf_counter() - start)]


def _source(spec: Spec) -> Path:
    """The file that the spec names. Nothing is imported: that is for the workers."""
    place, _, name = spec.what.rpartition(":")
    if not place or not name:
        raise RefBenchError(
            f"--model {spec.name}: write it as python:package.module:factory or python:./file.py:factory"
        )
    if place.endswith(".py"):
        path = Path(place).expanduser()
        if not path.is_file():
            raise RefBenchError(f"--model {spec.name}: there is no file {path}")
        return path
    where: list[str] | None = [str(Path.cwd()), *(entry for entry in sys.path if isinstance(entry, str))]
    found: importlib.machinery.ModuleSpec | None = None
    parts = place.split(".")
    for number in range(1, len(parts) + 1):
        dotted = ".".join(parts[:number])
        found = importlib.machinery.PathFinder.find_spec(dotted, where) or _by_hook(dotted, where, first=number == 1)
        if found is None:
            raise RefBenchError(f"--model {spec.name}: there is no module {dotted} here; is it installed?")
        where = list(found.submodule_search_locations or [])
    if found is None or found.origin is None or not Path(found.origin).is_file():
        raise RefBenchError(f"--model {spec.name}: {place} is no module of Python source")
    return Path(found.origin)


def _by_hook(dotted: str, where: list[str] | None, *, first: bool) -> importlib.machinery.ModuleSpec | None:
    """Modules that only an import hook finds, as those of editable installs."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        found = find(dotted, None if first else where) if find is not None else None
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


def _named(call: Any) -> str:
    thing = call if hasattr(call, "__qualname__") else type(call)
    return f"{getattr(thing, '__module__', '')}:{thing.__qualname__}"


def _version(version: str, call: Any) -> dict[str, str]:
    """What tells one state of a function from another: what its author says, else its source."""
    if version:
        return {"version": version}
    try:
        source = inspect.getsource(call if inspect.isroutine(call) else type(call))
    except (OSError, TypeError):
        return {}
    return {"source": hashlib.sha256(source.encode()).hexdigest()[:16]}
