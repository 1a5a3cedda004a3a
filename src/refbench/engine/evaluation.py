"""evaluate and generate: from the options of a run to its result, or to its pictures alone.

The command line calls the same functions. Running one again is resuming: nothing is made, asked or measured twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refbench.calls.prices import Budget
from refbench.calls.transport import Transport
from refbench.case import AnyCase
from refbench.engine.generating import GeneratingRun, RunPictures
from refbench.engine.judging import JudgingRun, first_error, repairer, replies_read_as
from refbench.engine.options import Dtype, Engine, Protocol, Refusals, RunOptions
from refbench.engine.progress import Progress, shown
from refbench.engine.setup import OnRecord, Setup, check_pictures, prepare_run
from refbench.engine.workers.engines import StartedEngine, started
from refbench.evidence import Purpose
from refbench.failure import Failure
from refbench.machine import threads
from refbench.models import ImageModel, seeds_for, seeds_unused
from refbench.record import RefBenchError
from refbench.runs import LedgerWriter, Run, Shard
from refbench.runs.ledger import Recorder
from refbench.tables.result import Result
from refbench.tables.scoring import Tabling, note_measured, run_result

if TYPE_CHECKING:
    from refbench.analysis.compare import Comparison
    from refbench.engine.batching import BatchReport
    from refbench.engine.measuring import MeasuringRun
    from refbench.engine.options import Judges, Models
    from refbench.score import Score
    from refbench.tables.table import Row, Table


@dataclass(frozen=True)
class Evaluation:
    """A result, why the run ended ("" when it was complete), and how it went.

    What one asks of a result can be asked here: `evaluation.value(model="A", metric="avg")` is that of its `result`.
    """

    result: Result
    stopped: str
    progress: Progress
    run: Run
    budget: Budget
    batches: BatchReport | None = None

    @property
    def table(self) -> Table:
        return self.result.table

    @property
    def scores(self) -> tuple[Score, ...]:
        return self.result.scores

    def rows(self, **wanted: str) -> list[Row]:
        """Rows of the table by any of model, judge, protocol, metric, level."""
        return self.result.rows(**wanted)

    def value(self, **wanted: str) -> float | None:
        """The one value that the names single out."""
        return self.result.value(**wanted)

    def compare(self, *models: str, **choices: Any) -> Comparison:
        """The models compared in pairs; `choices` are those of `Result.compare`."""
        return self.result.compare(*models, **choices)

    def failures(self) -> list[dict[str, Any]]:
        """One row for each score that failed."""
        return self.result.failures()

    def flat(self) -> dict[str, float]:
        """The overall values as `benchmark/model/judge/protocol/metric`."""
        return self.result.flat()


@dataclass(frozen=True)
class Generation:
    """How many outputs there are now, how many failed, and why it ended ("" when complete)."""

    run: Run
    there: int
    failed: Mapping[str, int]
    stopped: str
    first_failure: str = ""
    """Case, model and what was said, of one that failed: mostly the others failed for the same reason."""


async def evaluate_async(options: RunOptions, *, show: bool = False) -> Evaluation:
    """Judge and measure what is not judged and measured yet, and table the run; `show` prints progress on stderr."""
    async with _prepared(options) as (setup, engine, transport):
        if show and (odd := setup.dataset.lacking(setup.cases)):
            print(f"Warning: {odd}.", file=sys.stderr)
        if engine.cluster is not None and setup.parts is not None and options.device != "cpu":
            engine.cluster.wants_gpu()
        if options.budget is not None:
            setup.prices_must_be_known()
        run = setup.create_run()
        with run.writer(options.shard) as writer, _Work.opened(setup, run, writer) as work:
            on_record = OnRecord.of(run, _asked_in_batches(writer))
            judging = work.judging(transport, on_record)
            measuring = work.measuring(engine, on_record) if setup.parts is not None else None
            await judging.rehearse()
            if measuring is not None:
                await measuring.rehearse()
            async with _interruptible(transport, judging, measuring, work.generating), shown(work.progress, show=show):
                await work.start_models()
                # Nothing is refused any more: only now may the run know what it was asked for.
                work.note()
                batches = await _judge_and_measure(judging, measuring)
            work.note_not_measured(measuring.left_out if measuring else {})
    names: list[str | None] = [judge.name for judge in setup.judges] or [None]
    systems = [(model.name, judge) for model in setup.models for judge in names]
    tabling = Tabling(options.protocol, refusals=options.refusals)
    unused = [seeds_unused(model, setup.cases, options.seeds) for model in setup.models]
    notes = [sentence for sentence in unused if sentence]
    result = run_result(run, setup.bench, setup.dataset.cases, tabling, systems=systems, notes=notes)
    return Evaluation(result, judging.stopped or work.generating.stopped, work.progress, run, work.budget, batches)


async def _judge_and_measure(judging: JudgingRun, measuring: MeasuringRun | None) -> BatchReport | None:
    """Both at once, all models on a case before the next; reports on batches where calls are handed in so."""
    setup, report = judging.setup, None
    try:
        async with asyncio.TaskGroup() as group:
            if measuring is not None:
                group.create_task(measuring.measure(setup.cases))
            if setup.judges and setup.options.batch:
                from refbench.engine.batching import judge_in_batches

                report = await judge_in_batches(judging, setup.cases, wait=setup.options.wait)
            elif setup.judges:
                await judging.judge(setup.cases)
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None
    return report


def evaluate(
    benchmark: Path | str,
    *,
    models: Models,
    out: Path | str,
    judges: Judges = (),
    data: Path | str | None = None,
    subset: str | None = None,
    metrics: Sequence[str] | str = (),
    seeds: int = 1,
    replace: bool = False,
    repeats: int = 1,
    rubric: Path | str | None = None,
    settings: Mapping[str, str] | None = None,
    repair: bool = True,
    batch: bool = False,
    wait: bool = True,
    limit: int | None = None,
    shard: Shard | str | None = None,
    budget: str | None = None,
    retry: Sequence[str] = (),
    concurrency: int = 32,
    generate_concurrency: int = 8,
    timeout: float = 180.0,
    device: str = "cpu",
    dtype: Dtype = "float32",
    engine: Engine = "embedded",
    address: str | None = None,
    protocol: Protocol = "both",
    refusals: Refusals = "conditional",
    show: bool = False,
) -> Evaluation:
    """Judge and measure models' outputs on a benchmark and table them. Calling it again is resuming.

    Works in notebooks too, in a thread of its own; on a loop of yours, await `refbench.engine.evaluate_async`.

    Args:
        benchmark: A benchmark's name, a Python file that holds one, or cases of your own (.jsonl, .csv, .parquet).
        models: A spec (`"A=folder:out/A"`) or a model, or several; or by name: specs, models, functions that paint.
        out: The run directory.
        judges: A spec (`"openai:gpt-4o"`) or a VLM, or a panel of several; or by name: specs, VLMs, functions.
        data: The directory of the official data; by default $REFBENCH_DATA/NAME.
        subset: Only the cases of a named subset, for example "paper874".
        metrics: Parts to measure: by default all that can run here, for own cases those named; "none" for none.
        seeds: Outputs of each model and case, with the seeds 0, 1, ...
        replace: Outputs of a folder that changed take the place of those on record, which are retired.
        repeats: How many times each judge is asked each question.
        rubric: For cases of your own: a shipped rubric or a Markdown file.
        settings: The benchmark's own settings of judging, and `max_side` and `quality` of pictures that are sent.
        repair: Ask once more, quoting the reply, where a reply could not be read.
        batch: Hand calls in as provider batches at half the price.
        wait: With `batch`: stay until the results are there; else a later call collects them.
        limit: Only the first cases of the fair order.
        shard: The i-th of n parts, as "i/n".
        budget: Most that the run may cost in all, for example "5usd".
        retry: Kinds of final failure that are tried again, for example "refused".
        concurrency: Most calls in flight at an endpoint.
        generate_concurrency: Most pictures that a model makes at once.
        timeout: Seconds to wait for a reply.
        device: Where large networks run: "cpu", "cuda" (all GPUs), "cuda:0,cuda:1".
        dtype: Number format of large networks; recorded.
        engine: "ray" runs metrics, local image models and local judges on the nodes of a cluster.
        address: With "ray": "auto" or HOST:PORT of a cluster; without it, Ray is started on this machine.
        protocol: Which numbers to give.
        refusals: How a model's own failures count.
        show: Print progress on stderr.

    Returns:
        The table with its scores as `.result`, and `rows`, `value`, `compare`, `failures` and `flat` of it directly;
        `.stopped` says why the run ended early ("" when it is complete).
    """
    given = dict(locals())  # the arguments, whose names are those of the options
    show = given.pop("show")
    options = RunOptions.of({**given, "settings": settings or {}})
    own = ThreadPoolExecutor(1, thread_name_prefix="refbench-evaluate")
    try:
        return own.submit(asyncio.run, evaluate_async(options, show=show)).result()
    finally:
        own.shutdown(wait=False)


async def generate_async(options: RunOptions, *, show: bool = False) -> Generation:
    """Make the pictures of every case that are not in the run yet; it can be judged and measured later."""
    failed: Counter[str] = Counter()
    failures: list[str] = []
    there = 0

    async def make(case: AnyCase, model: ImageModel, seed: int) -> None:
        nonlocal there
        made = () if work.generating.stopped else await work.generating.outputs(case, model, seed)
        if isinstance(made, Failure):
            failed[made.kind] += 1
            failures.append(f"{case.id} by {model.name}: {made}")
        elif made:
            there += 1

    async with _prepared(options, scored=False) as (setup, _, _):
        models = [model for model in setup.models if isinstance(model, ImageModel)]
        if len(models) < len(setup.models):
            raise RefBenchError("refbench generate makes pictures: folder: and baseline:truth have theirs already")
        if options.budget is not None:
            setup.prices_must_be_known()
        run = setup.create_run()
        with run.writer(options.shard) as writer, _Work.opened(setup, run, writer) as work:
            try:
                async with shown(work.progress, show=show), asyncio.TaskGroup() as group:
                    await work.start_models()
                    work.note(measured=False)
                    for case in setup.cases:
                        for model in models:
                            for seed in range(options.seeds):
                                group.create_task(make(case, model, seed))
            except BaseExceptionGroup as errors:
                raise first_error(errors) from None
    return Generation(run, there, failed, work.generating.stopped, min(failures, default=""))


def _asked_in_batches(writer: LedgerWriter) -> Mapping[str, tuple[Mapping[str, Any], tuple[Purpose, ...]]]:
    """What is with providers, in batches that have not ended. Most runs have none."""
    if not any(writer.path.parent.glob("*batches.jsonl")):
        return {}
    from refbench.engine.batch_journal import BatchJournal

    return BatchJournal(writer.path).all_asked()


@contextlib.asynccontextmanager
async def _prepared(
    options: RunOptions, *, scored: bool = True
) -> AsyncIterator[tuple[Setup, StartedEngine, Transport]]:
    """The checked setup on a started engine; everything is closed at the end."""
    async with (
        started(options.engine, options.address, options.run_directory) as engine,
        Transport(concurrency=options.concurrency, timeout=options.timeout) as transport,
    ):
        setup = prepare_run(options, transport, scored=scored, place=engine.cluster, scratch=engine.scratch)
        try:
            if engine.cluster is not None:
                await engine.cluster.see(setup.dataset.root, setup.dataset.picture_root)
            yield setup, engine, transport
        finally:
            await setup.close()


@dataclass
class _Work:
    """What generating, judging and measuring of one run share."""

    setup: Setup
    run: Run
    recorder: Recorder
    budget: Budget
    generating: GeneratingRun
    pictures: RunPictures
    progress: Progress

    @classmethod
    @contextlib.contextmanager
    def opened(cls, setup: Setup, run: Run, writer: LedgerWriter) -> Iterator[_Work]:
        """Refuses what changed since it was recorded, before anything is paid for."""
        options, dataset = setup.options, setup.dataset
        budget = Budget.parse(options.budget, run.spent_usd())
        check_pictures(run, writer, dataset, setup.models, replace=options.replace)
        with Recorder(writer) as recorder:
            progress = Progress()
            generating = GeneratingRun(
                run, dataset, recorder, budget, progress, options.generate_concurrency, frozenset(options.retry)
            )
            generating.open(setup.models)
            pictures = RunPictures(run, dataset, recorder, setup.policy, generating)
            yield cls(setup, run, recorder, budget, generating, pictures, progress)

    def judging(self, transport: Transport, on_record: OnRecord) -> JudgingRun:
        setup, retry = self.setup, self.setup.options.retry
        return JudgingRun(
            **self._shared(on_record),
            run=self.run,
            transport=transport,
            budget=self.budget,
            repair=repairer(setup.bench) if setup.options.repair else None,
            failed_replies=replies_read_as(retry, setup, self.run) if retry else frozenset(),
        )

    def measuring(self, engine: StartedEngine, on_record: OnRecord) -> MeasuringRun:
        from refbench.engine.measuring import MeasuringRun
        from refbench.engine.workers.executor import EmbeddedExecutor

        shared, cluster = self._shared(on_record), engine.cluster
        if cluster is None:
            return MeasuringRun(**shared, executor=EmbeddedExecutor())
        return MeasuringRun(**shared, executor=cluster.executor, cluster=cluster.layout())

    def _shared(self, on_record: OnRecord) -> dict[str, Any]:
        shared = {"setup": self.setup, "recorder": self.recorder, "pictures": self.pictures}
        return {**shared, "on_record": on_record, "progress": self.progress}

    async def start_models(self) -> None:
        """Start the models that have something to paint, so that one that cannot ends the run before it costs money."""
        setup = self.setup
        await self.generating.start((case, *one) for case in setup.cases for one in setup.models_and_seeds())

    def note(self, *, measured: bool = True) -> None:
        """Write down what the run was asked for."""
        setup, writer = self.setup, self.recorder.writer
        writer.want(setup.options.limit)
        if measured:
            note_measured(writer, setup.bench)
        for model in setup.models:
            writer.note_seeds(model.name, len(seeds_for(model, setup.options.seeds)))
        self.generating.note()
        # Where the inputs lay, so that pages find them again; a fact about the machine, in no fingerprint.
        writer.note_data(setup.dataset.root, setup.dataset.picture_root)
        writer.note("threads", str(threads()))
        for judge in setup.judges:
            writer.note(f"family of {judge.name}", judge.family)

    def note_not_measured(self, impossible: Mapping[str, str]) -> None:
        """Write down which parts have no values and why; what was noted before stands for parts left out now."""
        wanted, noted = self.setup.parts, self.run.notes("not measured ")
        for part in self.setup.bench.asking.measured:
            unwanted = wanted is None or (wanted and part not in wanted)
            reason = noted.get(part, "it was left out by --metrics") if unwanted else ""
            self.recorder.writer.note(f"not measured {part}", impossible.get(part, reason))


@contextlib.asynccontextmanager
async def _interruptible(
    transport: Transport, *works: JudgingRun | MeasuringRun | GeneratingRun | None
) -> AsyncIterator[None]:
    """The first interrupt lets the calls in flight finish and says so, the second ends at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    interrupts = 0

    def stop() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            loop.remove_signal_handler(signal.SIGINT)
            task.cancel()
            return
        for work in works:
            if work is not None:
                work.stopped = "interrupt"
        flight = f"finishing {transport.in_flight} calls in flight"
        print(f"\nrefbench: {flight}; press Ctrl-C again to stop now", file=sys.stderr, flush=True)

    handled = threading.current_thread() is threading.main_thread()
    if handled:
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    except asyncio.CancelledError:
        if interrupts > 1:
            raise KeyboardInterrupt from None
        raise
    finally:
        if handled:
            loop.remove_signal_handler(signal.SIGINT)
