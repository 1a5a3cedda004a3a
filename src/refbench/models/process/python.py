"""Python functions as image models: a callable of this process, or `python:` with one worker process a GPU."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refbench.calls.functions import digest, end_loop, error_text, how_to_call, source_file
from refbench.calls.identity import identity_of
from refbench.calls.pool import LateError, Pool, WithdrawnError
from refbench.calls.process import interpreter
from refbench.calls.transport import UNSENT
from refbench.failure import Failure
from refbench.machine import THREADS, scratch_folder, threads
from refbench.models.model import Commission, Painted, Traits, priced
from refbench.models.process.python_worker import ANSWERS, REQUESTS, failed, paint
from refbench.models.process.workers import (
    LinesWorker,
    PaintJob,
    PooledModel,
    lines_workers,
    removed_meanwhile,
    settings,
)
from refbench.models.returned import painted
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of, model_options

_START = (
    "from refbench.models.process.python_worker import main; given = json.loads(sys.argv[2]); "
    "main(given['what'], given['options'], batch=given['batch'])"
)


class FunctionModel(PooledModel):
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
        self._call, self._is_async = how_to_call(call, name)
        self._batch = batch
        self._timeout = timeout
        self._identity = {"kind": "function", **identity_of(call, version)}
        self._pool = Pool([None] * parallel, self._work, end=lambda _: end_loop(), batch=batch or 1, patience=1.0)

    async def generate(self, commission: Commission, seed: int) -> Painted:
        if self._is_async and self._batch is None:
            return priced(await self._on_the_loop(commission, seed), self.traits)
        try:
            return priced(await self._pool.ask((commission, seed), self._timeout), self.traits)
        except WithdrawnError:
            return Painted(failure=Failure(kind="missing_output", detail=UNSENT))
        except LateError:
            return Painted(failure=Failure(kind="timeout", detail=f"no picture within {self._timeout:g} s"))

    def _work(self, place: None, jobs: list[PaintJob]) -> list[Painted]:
        try:
            return paint(self._call, [job.request for job in jobs], batch=self._batch is not None)
        except (RefBenchError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - what would end a process; this one cannot be started afresh
            return [Painted(failure=Failure(kind="worker_died", detail=error_text(error))) for _ in jobs]

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


class PythonModel(PooledModel):
    """`python:package.module:factory` or `python:./file.py:factory`, made once in each worker process."""

    def __init__(self, spec: Spec, scratch: Path | None = None) -> None:
        super().__init__(spec, scratch)
        options = model_options(spec)
        source = source_file(spec.what, f"--model {spec.name}")
        batch = options["batch"]
        given = json.dumps({"what": spec.what, "options": options.others, "batch": batch is not None})
        version = {"version": options["version"]} if options["version"] else {"source": digest(source)}
        self._identity = {"kind": "python", "what": spec.what, **settings(spec), **version}
        self._pool = Pool(
            lines_workers(spec, interpreter(_START, given), {THREADS: str(threads())}),
            lambda worker, jobs: _in_process(worker, jobs, self.scratch),
            begin=LinesWorker.start,
            end=LinesWorker.close,
            batch=batch or 1,
        )


def _in_process(worker: LinesWorker, jobs: list[PaintJob], scratch: Path | None) -> list[Painted]:
    """What a worker paints; a batch that its worker did not survive is tried again one by one."""
    start = time.perf_counter()
    answer: dict[str, Any] | Failure
    with scratch_folder(scratch) as folder:
        try:
            (folder / REQUESTS).write_bytes(pickle.dumps([job.request for job in jobs]))
            answer = worker.ask(
                {"folder": str(folder)}, lambda: all(job.abandoned.is_set() for job in jobs), times=len(jobs)
            )
            if not isinstance(answer, Failure):
                answers: list[Painted] = pickle.loads((folder / ANSWERS).read_bytes())
                return answers
        except FileNotFoundError:
            answer = Failure(kind="worker_died")
        if not folder.exists():
            answer = removed_meanwhile(folder)
    if len(jobs) > 1:
        return [painted for job in jobs for painted in _in_process(worker, [job], scratch)]
    return [Painted(failure=answer, seconds=time.perf_counter() - start)]
