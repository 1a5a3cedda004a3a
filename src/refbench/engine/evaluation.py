"""evaluate: from the names of a benchmark, models and judges to a result; what the command line calls too."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from refbench.benchmarks import Benchmark
from refbench.benchmarks.kit.definition import measured_by
from refbench.calls import Budget, Transport
from refbench.case import AnyCase
from refbench.chat.vlm import VLM, ChatRequest
from refbench.engine.batch_journal import BatchJournal
from refbench.engine.batching import BatchReport, judge_in_batches
from refbench.engine.changes import Before, check_pictures
from refbench.engine.generating import Studio
from refbench.engine.judging import JudgingRun, Repair, first_error
from refbench.engine.measuring import MeasuringRun, parts_named
from refbench.engine.pictures import Gallery
from refbench.engine.progress import Progress, ProgressPrinter, shown
from refbench.engine.recorder import Recorder
from refbench.engine.setup import Judges, Models, judging_of, set_up
from refbench.engine.workers.engines import started
from refbench.evidence import Evidence, Purpose
from refbench.failure import KINDS, Failure
from refbench.judges.prompts import repair_request
from refbench.machine import threads
from refbench.models import AnyModel, ImageModel, seeds_for
from refbench.record import RefBenchError
from refbench.runs import Run, Shard
from refbench.tables.result import Result
from refbench.tables.scorer import whole_parts
from refbench.tables.scoring import Tabling, note_measured, noted_metrics, run_result


@dataclass(frozen=True)
class Evaluation:
    """A result, why the run ended ("" when it was complete), and how it went."""

    result: Result
    stopped: str
    progress: Progress
    run: Run
    budget: Budget
    batches: BatchReport | None = None


async def evaluate_async(
    name: str,
    *,
    models: Models,
    judges: Judges = (),
    out: Path | str,
    data: Path | str | None = None,
    subset: str | None = None,
    settings: Mapping[str, str] | None = None,
    protocol: str = "both",
    limit: int | None = None,
    shard: Shard | None = None,
    seeds: int = 1,
    repeats: int = 1,
    retry: Sequence[str] = (),
    replace: bool = False,
    budget: str | None = None,
    concurrency: int = 32,
    timeout: float = 180.0,
    repair: bool = True,
    rubric: str | None = None,
    batch: bool = False,
    wait: bool = True,
    metrics: Sequence[str] | str = (),
    device: str = "cpu",
    dtype: str = "float32",
    making: int = 8,
    engine: str = "embedded",
    address: str | None = None,
    refusals: str = "conditional",
    show: bool = False,
) -> Evaluation:
    """Judge and measure what is not judged and measured yet, and table the run. Running it again is resuming.

    `metrics` are the parts to measure: all that can run on this machine by default, ("none",) for none; own cases are
    measured by those that are named. With `batch`, calls are handed in as provider batches at half the price; without
    `wait`, their results are left to a later command. With `replace`, outputs of a folder that changed take the place
    of those on record. With `engine="ray"`, metrics, local image models and local judges run on the nodes of a cluster.
    """
    out, data = Path(out), Path(data) if data is not None else None
    listed = [metrics] if isinstance(metrics, str) else metrics
    named = [name.strip() for text in listed for name in text.split(",") if name.strip()]
    # Own cases keep the columns that they were given before; a command that names none measures all of them.
    columns = noted_metrics(Run.open(out)) if (out / "run.json").exists() else {}
    for kind in retry:
        if kind not in KINDS:
            raise RefBenchError(f"--retry {kind}: there are {', '.join(KINDS)}")
    async with started(engine, address, out) as on, Transport(concurrency=concurrency, timeout=timeout) as transport:
        setup = set_up(
            name,
            transport,
            models=models,
            judges=judges,
            data=data,
            subset=subset,
            settings=settings,
            limit=limit,
            shard=shard,
            seeds=seeds,
            rubric=rubric,
            metrics=sorted({*columns, *named} - {"none"}),
            place=on.cluster,
            scratch=on.scratch,
        )
        bench = setup.bench
        judging, recorded = judging_of(setup)
        if show and (odd := setup.dataset.lacking(setup.cases)):
            print(f"Warning: {odd}.", file=sys.stderr)
        chosen = chosen_metrics(bench, setup.dataset.cases, named)
        if on.cluster is not None:
            await on.cluster.see(setup.dataset.root, setup.dataset.picture_root)
            if chosen is not None and device != "cpu":
                on.cluster.wants_gpu()
        run = Run.create(
            out, bench.name, setup.dataset.cases, subset=subset, settings=recorded, keep=bench.source, code=bench.code
        )
        money = Budget.parse(budget, run.spent_usd())
        if money.cap is not None:
            prices_must_be_known(setup.judges, setup.models)
        measured_before = run.notes("not measured ")
        progress = Progress()
        report: BatchReport | None = None
        with run.writer(shard) as writer, contextlib.ExitStack() as stack:
            check_pictures(run, writer, setup.dataset, setup.models, replace=replace)
            before = Before.of(run, BatchJournal(writer.path).all_asked())
            recorder = stack.enter_context(Recorder(writer))
            studio = Studio(run, setup.dataset, recorder, money, progress, making, frozenset(retry))
            studio.open(setup.models)
            gallery = Gallery(run, setup.dataset, recorder, setup.policy, studio)
            work = JudgingRun(
                run=run,
                dataset=setup.dataset,
                models=setup.models,
                judges=setup.judges,
                judging=judging,
                transport=transport,
                budget=money,
                recorder=recorder,
                gallery=gallery,
                before=before,
                seeds=seeds,
                repeats=repeats,
                retry=frozenset(retry),
                repair=repairer(bench) if repair else None,
                progress=progress,
                read_as=read_as(bench, run, setup.dataset.cases, frozenset(retry)) if retry else frozenset(),
            )
            measuring = MeasuringRun(
                bench=bench,
                dataset=setup.dataset,
                models=setup.models,
                gallery=gallery,
                recorder=recorder,
                executor=on.executor,
                before=before,
                cluster=on.cluster.layout() if on.cluster is not None else None,
                parts=chosen or (),
                seeds=seeds,
                device=device,
                dtype=dtype,
                retry=frozenset(retry),
                progress=progress,
            )
            if setup.judges:
                await work.rehearse(setup.dataset.cases)
            if chosen is not None:
                await measuring.rehearse(setup.dataset.cases)
            # Nothing is refused any more: only now may the run know what it was asked for.
            writer.want(limit)
            note_measured(writer, bench)
            for model in setup.models:
                writer.note_seeds(model.name, len(seeds_for(model, seeds)))
            studio.note()
            # Where the inputs lay, so that pages find them again; a fact about the machine, in no fingerprint.
            writer.note_data(setup.dataset.root, setup.dataset.picture_root)
            writer.note("threads", str(threads()))
            for judge in setup.judges:
                writer.note(f"family of {judge.name}", judge.family)
            printer = ProgressPrinter(progress) if show else None
            async with _interruptible(transport, work, measuring, studio), shown(printer):
                try:
                    async with asyncio.TaskGroup() as group:
                        if chosen is not None:
                            group.create_task(measuring.measure(setup.cases))
                        if setup.judges and batch:
                            report = await judge_in_batches(work, setup.cases, wait=wait)
                        elif setup.judges:
                            await work.judge(setup.cases)
                except BaseExceptionGroup as errors:
                    raise first_error(errors) from None
            for part in bench.asking.measured:
                left_out = chosen is None or (chosen and part not in chosen)
                reason = measured_before.get(part, "it was left out by --metrics") if left_out else ""
                writer.note(f"not measured {part}", measuring.left_out.get(part, reason))
        for judge in setup.judges:
            await judge.close()
        for model in setup.models:
            if isinstance(model, ImageModel):
                await model.close()
    names: list[str | None] = [judge.name for judge in setup.judges] or [None]
    systems = [(model.name, judge) for model in setup.models for judge in names]
    result = run_result(run, bench, setup.dataset.cases, Tabling(protocol, refusals=refusals), systems=systems)
    stopped = work.stopped or studio.stopped
    return Evaluation(result=result, stopped=stopped, progress=progress, run=run, budget=money, batches=report)


def evaluate(name: str, **arguments: object) -> Evaluation:
    """`evaluate_async` for everyone else: runs in a loop of its own thread, so that notebooks can call it too."""
    done: Future[Evaluation] = Future()

    def work() -> None:
        try:
            done.set_result(asyncio.run(evaluate_async(name, **arguments)))  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
            done.set_exception(error)

    thread = threading.Thread(target=work, name="refbench-evaluate")
    thread.start()
    thread.join()
    return done.result()


def repairer(bench: Benchmark) -> Repair:
    """Ask once more, quoting the reply, when the corrected reader could not read all of it."""
    reader = bench.scoring.protocols["corrected"].read

    def repair(case: AnyCase, purpose: Purpose, evidence: Evidence, request: ChatRequest) -> ChatRequest | None:
        if evidence.reply is None or purpose.protocol == "paper" or "/" in purpose.part:
            return None
        failures = [score.failure for score in reader(case, purpose, evidence) if score.failure is not None]
        if not any(failure.kind == "unparsable" for failure in failures):
            return None
        return repair_request(request, evidence.reply, "The form is the one that was described above.")

    return repair


def read_as(bench: Benchmark, run: Run, cases: Sequence[AnyCase], kinds: frozenset[str]) -> frozenset[str]:
    """Acts whose replies a reader of some protocol takes for such a failure: a refusal in words is a reply."""
    by_id = {case.id: case for case in cases}
    acts: dict[Purpose, list[str]] = {}

    def noted() -> Iterator[tuple[Purpose, Evidence]]:
        for purpose, evidence in run.evidence():
            if evidence.kind == "chat" and evidence.reply is not None and "+" not in purpose.part:
                whole = purpose.model_copy(update={"part": purpose.part.partition("/")[0]})
                acts.setdefault(whole, []).append(evidence.id)
                yield purpose, evidence

    found: set[str] = set()
    for purpose, evidence in whole_parts(noted()):
        if purpose.case not in by_id:
            continue
        for name, protocol in bench.scoring.protocols.items():
            if purpose.protocol in ("", name):
                read = protocol.read(by_id[purpose.case], purpose, evidence)
                if any(score.failure is not None and score.failure.kind in kinds for score in read):
                    found.update(acts[purpose])
    return frozenset(found)


def chosen_metrics(bench: Benchmark, cases: Sequence[AnyCase], metrics: Sequence[str]) -> Sequence[str] | None:
    """The parts to measure, all when empty; None for none. What does not exist is refused before anything starts."""
    measured_by(bench, cases)
    if tuple(metrics) == ("none",) or (bench.asking.measuring is None and not metrics):
        return None
    return parts_named(bench, metrics)


def prices_must_be_known(judges: Sequence[VLM], models: Sequence[AnyModel]) -> None:
    for model in models:
        if isinstance(model, ImageModel) and model.traits.price is None:
            raise RefBenchError(
                f"--budget needs the price of {model.name}'s pictures: add ?price=USD (dollars a picture) to its spec"
            )
    for judge in judges:
        if judge.price is None:
            raise RefBenchError(
                f"--budget needs the price of {judge.name}, which is not known: add ?price=IN,OUT to its spec (dollars "
                "for a million tokens), or install the prices with pip install 'refbench[prices]'"
            )


@contextlib.asynccontextmanager
async def _interruptible(transport: Transport, *works: JudgingRun | MeasuringRun | Studio) -> AsyncIterator[None]:
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


# generate: pictures only. The same run can be measured and judged later, and nothing is made twice.


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
        if budget is not None:
            prices_must_be_known((), makers)
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
