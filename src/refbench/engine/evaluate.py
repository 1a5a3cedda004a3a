"""evaluate: from the names of a benchmark, models and judges to a result; what the command line calls too."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from refbench.benchmarks import Benchmark, Dataset, benchmark, resolve_data
from refbench.benchmarks.own import own_benchmark
from refbench.calls import Budget, Transport
from refbench.case import AnyCase
from refbench.chat.build import make_vlm
from refbench.chat.local import LocalVLM
from refbench.chat.request import ChatRequest
from refbench.chat.sent import PicturePolicy
from refbench.chat.spec import Spec
from refbench.chat.vlm import VLM
from refbench.engine.batching import BatchReport, judge_in_batches
from refbench.engine.judging import JudgingRun, Repair
from refbench.engine.progress import Progress, ProgressPrinter
from refbench.engine.recorder import Recorder
from refbench.evidence import Evidence, Purpose
from refbench.failure import KINDS
from refbench.judges.repair import repair_request
from refbench.judges.rubric import rubric_source, shipped_rubrics
from refbench.models import FolderModel
from refbench.order import fair_order
from refbench.record import RefBenchError
from refbench.runs import Run, Shard
from refbench.scoring import Result, run_result


@dataclass(frozen=True)
class Evaluation:
    """A result, why the run ended ("" when it was complete), and how it went."""

    result: Result
    stopped: str
    progress: Progress
    run: Run
    batches: BatchReport | None = None


@dataclass(frozen=True)
class Setup:
    """What a command asks for, checked: everything that can be wrong before a call is made is found here."""

    bench: Benchmark
    dataset: Dataset
    cases: list[AnyCase]
    models: list[FolderModel]
    judges: list[VLM]
    settings: dict[str, str]
    policy: PicturePolicy


def set_up(
    name: str,
    transport: Transport,
    *,
    models: Sequence[str],
    judges: Sequence[str],
    data: Path | None = None,
    subset: str | None = None,
    settings: Mapping[str, str] | None = None,
    limit: int | None = None,
    shard: Shard | None = None,
    rubric: str | None = None,
) -> Setup:
    """Load the data, find the outputs, make the judges, and complete the settings."""
    bench, dataset = find_cases(name, data=data, subset=subset, rubric=rubric)
    if bench.judging is None:
        raise RefBenchError(f"{bench.title} is not scored by a judge")
    chosen = _settings(bench, settings or {})
    specs = [Spec.parse(text, "--model") for text in models]
    judge_specs = [Spec.parse(text, "--judge") for text in judges]
    _distinct([spec.name for spec in specs], "--model")
    _distinct([spec.name for spec in judge_specs], "--judge")
    if not specs or not judge_specs:
        raise RefBenchError("give at least one --model and one --judge")
    for spec in specs:
        if spec.kind != "folder":
            raise RefBenchError(f"--model {spec.name}: {spec.kind} is no kind of model: write folder:DIR")
    policy = PicturePolicy.parse(chosen.get("max_side"), chosen.get("quality"))
    ordered = fair_order(dataset.cases)[:limit]
    if shard is not None:
        ordered = [case for i, case in enumerate(ordered) if i % shard.count == shard.index - 1]
    return Setup(
        bench=bench,
        dataset=dataset,
        cases=ordered,
        models=[FolderModel(spec, dataset.cases, bench.output_names) for spec in specs],
        judges=[make_vlm(spec, transport) for spec in judge_specs],
        settings=chosen,
        policy=policy,
    )


def find_cases(
    name: str, *, data: Path | None = None, subset: str | None = None, rubric: str | None = None
) -> tuple[Benchmark, Dataset]:
    """The benchmark and its cases: one by name, one in a Python file, or the user's own cases under a rubric."""
    path = Path(name)
    if rubric is not None or path.suffix in (".jsonl", ".csv", ".parquet"):
        if rubric is None:
            shipped = ", ".join(shipped_rubrics())
            raise RefBenchError(f"{name} are cases of your own: give --rubric {shipped} or a file of yours")
        text, title = rubric_source(rubric)
        own = replace(own_benchmark(text, title), source={"rubric.md": text})
        return own, own.load(path, subset)
    bench = benchmark(name)
    if path.suffix == ".py":
        bench = replace(bench, source={"benchmark.py": path.read_text(encoding="utf-8")})
    return bench, bench.load(resolve_data(bench, data), subset)


async def evaluate_async(
    name: str,
    *,
    models: Sequence[str],
    judges: Sequence[str],
    out: Path,
    data: Path | None = None,
    subset: str | None = None,
    settings: Mapping[str, str] | None = None,
    protocol: str = "both",
    limit: int | None = None,
    shard: Shard | None = None,
    repeats: int = 1,
    retry: Sequence[str] = (),
    budget: str | None = None,
    concurrency: int = 32,
    timeout: float = 180.0,
    repair: bool = True,
    rubric: str | None = None,
    batch: bool = False,
    wait: bool = True,
    show: bool = False,
) -> Evaluation:
    """Judge what is not judged yet and table the run. Running it again is resuming.

    With `batch`, calls are handed in as provider batches at half the price; without `wait`, their results are
    left to a later command.
    """
    for kind in retry:
        if kind not in KINDS:
            raise RefBenchError(f"--retry {kind}: there are {', '.join(KINDS)}")
    async with Transport(concurrency=concurrency, timeout=timeout) as transport:
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
            rubric=rubric,
        )
        bench = setup.bench
        assert bench.judging is not None
        judging = bench.judging(setup.dataset.root, setup.settings)
        recorded = {**judging.recorded, **_picture_settings(setup.settings)}
        run = Run.create(out, bench.name, setup.dataset.cases, subset=subset, settings=recorded, keep=bench.source)
        money = Budget.parse(budget, run.spent_usd())
        if money.cap is not None:
            _prices_must_be_known(setup.judges)
        progress = Progress()
        with run.writer(shard) as writer, Recorder(writer) as recorder:
            writer.want(limit)
            for judge in setup.judges:
                writer.note(f"family of {judge.name}", judge.family)
            work = JudgingRun(
                run=run,
                dataset=setup.dataset,
                models=setup.models,
                judges=setup.judges,
                judging=judging,
                transport=transport,
                budget=money,
                recorder=recorder,
                policy=setup.policy,
                repeats=repeats,
                retry=frozenset(retry),
                repair=repairer(bench) if repair else None,
                progress=progress,
            )
            printer = ProgressPrinter(progress) if show else None
            report: BatchReport | None = None
            async with _interruptible(work), _shown(printer):
                if batch:
                    report = await judge_in_batches(work, setup.cases, wait=wait)
                else:
                    await work.judge(setup.cases)
            if printer is not None:
                printer.show(final=True)
        for judge in setup.judges:
            if isinstance(judge, LocalVLM):
                judge.close()
    systems = [(model.name, judge.name) for model in setup.models for judge in setup.judges]
    result = run_result(run, bench, setup.dataset.cases, protocol=protocol, systems=systems)
    return Evaluation(result=result, stopped=work.stopped, progress=progress, run=run, batches=report)


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
    reader = bench.protocols["corrected"].read

    def repair(case: AnyCase, purpose: Purpose, evidence: Evidence, request: ChatRequest) -> ChatRequest | None:
        if evidence.reply is None or purpose.protocol == "paper" or "/" in purpose.part:
            return None
        failures = [score.failure for score in reader(case, purpose, evidence) if score.failure is not None]
        if not any(failure.kind == "unparsable" for failure in failures):
            return None
        return repair_request(request, evidence.reply, "The form is the one that was described above.")

    return repair


def _settings(bench: Benchmark, given: Mapping[str, str]) -> dict[str, str]:
    chosen = {name: values[0] for name, values in bench.settings.items()}
    for name, value in given.items():
        if name in _PICTURE_SETTINGS:
            if not value.isdigit():
                raise RefBenchError(f"--{name.replace('_', '-')} {value}: write a whole number")
            chosen[name] = value
            continue
        allowed = bench.settings.get(name)
        if allowed is None:
            raise RefBenchError(f"--set {name}: {bench.title} has the settings {', '.join(bench.settings) or 'none'}")
        if value not in allowed and "DIR" not in allowed:
            raise RefBenchError(f"--set {name}={value}: choose {' or '.join(allowed)}")
        chosen[name] = value
    return chosen


_PICTURE_SETTINGS = ("max_side", "quality")


def _picture_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What is done to pictures: part of the record of every benchmark, because the judge sees the result."""
    return {name: settings[name] for name in _PICTURE_SETTINGS if name in settings}


def _distinct(names: Sequence[str], option: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RefBenchError(f"{option} {twice[0]} is given twice: name them apart, for example a=... and b=...")


def _prices_must_be_known(judges: Sequence[VLM]) -> None:
    for judge in judges:
        if getattr(judge, "price", True) is None:
            raise RefBenchError(
                f"--budget needs the price of {judge.name}, which is not known: add ?price=IN,OUT to its spec (dollars "
                "for a million tokens), or install the prices with pip install 'refbench[prices]'"
            )


@contextlib.asynccontextmanager
async def _interruptible(work: JudgingRun) -> AsyncIterator[None]:
    """The first interrupt lets the calls in flight finish, the second ends at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        work.stopped = "interrupt"
        loop.remove_signal_handler(signal.SIGINT)

    handled = threading.current_thread() is threading.main_thread()
    if handled:
        loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        if handled:
            loop.remove_signal_handler(signal.SIGINT)


@contextlib.asynccontextmanager
async def _shown(printer: ProgressPrinter | None) -> AsyncIterator[None]:
    async def show() -> None:
        while True:
            await asyncio.sleep(0.5)
            if printer is not None:
                printer.show()

    task = asyncio.create_task(show())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
