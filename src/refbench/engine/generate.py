"""generate: pictures only. The same run can be measured and judged later, and nothing is made twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.calls import Budget, Transport
from refbench.case import AnyCase
from refbench.engine.engines import started
from refbench.engine.judging import first_error
from refbench.engine.progress import Progress, ProgressPrinter
from refbench.engine.recorder import Recorder
from refbench.engine.setup import Models, judging_of, set_up
from refbench.engine.shown import shown
from refbench.engine.studio import Studio
from refbench.engine.unchanged import check_pictures
from refbench.failure import Failure
from refbench.machine import threads
from refbench.models import ImageModel
from refbench.record import RefBenchError
from refbench.runs import Run, Shard


@dataclass(frozen=True)
class Generation:
    """How many outputs there are now, how many failed, and why it ended ("" when complete)."""

    run: Run
    there: int
    failed: dict[str, int]
    stopped: str
    first_failure: str = ""
    """Case, model and what was said, of one that failed: mostly the others failed for the same reason."""


async def generate_async(
    name: str,
    *,
    models: Models,
    out: Path,
    data: Path | None = None,
    subset: str | None = None,
    limit: int | None = None,
    shard: Shard | None = None,
    retry: Sequence[str] = (),
    budget: str | None = None,
    seeds: int = 1,
    making: int = 8,
    timeout: float = 600.0,
    rubric: str | None = None,
    engine: str = "embedded",
    address: str | None = None,
    show: bool = False,
) -> Generation:
    """Make the pictures of every case that are not in the run yet."""
    async with started(engine, address, out) as on, Transport(concurrency=making, timeout=timeout) as transport:
        setup = set_up(
            name,
            transport,
            models=models,
            judges=(),
            data=data,
            subset=subset,
            limit=limit,
            shard=shard,
            rubric=rubric,
            scored=False,
            place=on.cluster,
            scratch=on.scratch,
        )
        makers = [model for model in setup.models if isinstance(model, ImageModel)]
        if len(makers) < len(setup.models):
            raise RefBenchError("refbench generate makes pictures: folder: and baseline:truth have theirs already")
        bench, cases = setup.bench, setup.dataset.cases
        if on.cluster is not None:
            await on.cluster.see(setup.dataset.root, setup.dataset.picture_root)
        _, recorded = judging_of(setup)
        run = Run.create(out, bench.name, cases, subset=subset, settings=recorded, keep=bench.source, code=bench.code)
        progress = Progress()
        with run.writer(shard) as writer, contextlib.ExitStack() as stack:
            check_pictures(run, writer, setup.dataset, makers)
            recorder = stack.enter_context(Recorder(writer))
            writer.want(limit)
            for model in makers:
                writer.note_seeds(model.name, seeds)
            writer.note_data(setup.dataset.root, setup.dataset.picture_root)
            writer.note("threads", str(threads()))
            money = Budget.parse(budget, run.spent_usd())
            studio = Studio(run, setup.dataset, recorder, money, progress, making, frozenset(retry))
            studio.open(makers)
            studio.note()
            failed: dict[str, int] = {}
            told: list[str] = []
            there = 0

            async def one(case: AnyCase, model: ImageModel, seed: int) -> None:
                nonlocal there
                found = () if studio.stopped else await studio.outputs(case, model, seed)
                if isinstance(found, Failure):
                    failed[found.kind] = failed.get(found.kind, 0) + 1
                    told.append(f"{case.id} by {model.name}: {found}")
                elif found:
                    there += 1

            try:
                async with shown(ProgressPrinter(progress) if show else None), asyncio.TaskGroup() as group:
                    for case in setup.cases:
                        for model in makers:
                            for seed in range(seeds):
                                group.create_task(one(case, model, seed))
            except BaseExceptionGroup as errors:
                raise first_error(errors) from None
            finally:
                for model in makers:
                    await model.close()
    return Generation(run, there, failed, studio.stopped, min(told, default=""))
