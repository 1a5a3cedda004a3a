"""evaluate and generate: from the options of a run to its result, or to its pictures alone.

The command line calls the same functions. Running one again is resuming: nothing is made, asked or measured twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refbench.calls.pool import stopping
from refbench.calls.prices import Budget
from refbench.calls.transport import RetryPolicy, Transport
from refbench.case import AnyCase
from refbench.engine.breaker import Breaker
from refbench.engine.generating import GIVEN_UP, NOT_BEGUN, GeneratingRun, RunPictures
from refbench.engine.interrupts import in_own_thread, interruptible
from refbench.engine.judging import Ask, JudgingRun, first_error, nothing_to_retry, repairer, replies_read_as
from refbench.engine.options import Dtype, Engine, Protocol, Refusals, RunOptions
from refbench.engine.progress import Progress, shown
from refbench.engine.setup import OnRecord, Setup, Subject, check_pictures, check_served, prepare_run
from refbench.engine.workers.engines import StartedEngine, started
from refbench.evidence import Purpose
from refbench.failure import Failure
from refbench.machine import threads
from refbench.models import AnyModel, ImageModel, seeds_for, seeds_unused
from refbench.record import canonical_json
from refbench.runs import LedgerWriter, Run, Shard
from refbench.runs.ledger import SERVED, Recorder
from refbench.tables.result import ModelResult, Result
from refbench.tables.scoring import CHOSEN, DESIGN, Tabling, derived_of, note_dataset, note_measured, run_result
from refbench.text.console import printable

if TYPE_CHECKING:
    import pandas
    import polars

    from refbench.analysis.compare import Comparison
    from refbench.analysis.compare.stopping import Decision
    from refbench.engine.batching import BatchReport
    from refbench.engine.measuring import MeasuringRun
    from refbench.engine.options import Judges, Models
    from refbench.engine.sampling import Part
    from refbench.engine.sharing import SharedPictures
    from refbench.engine.stopping import Stopping
    from refbench.report.figures import Figure
    from refbench.score import Score
    from refbench.tables.table import Row, Table


@dataclass(frozen=True, repr=False)
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
    decisions: tuple[Decision, ...] = ()
    """What became of the pairs of `stop_when_resolved`."""
    given_up: tuple[str, ...] = ()
    """Sentences about models and judges that were asked nothing more because they only failed."""
    nothing_to_retry: tuple[str, ...] = ()
    """Sentences about kinds of `retry` of which there was nothing."""

    def __repr__(self) -> str:
        return repr(self.result) + (f", stopped by {self.stopped}" if self.stopped else "")

    def _repr_html_(self) -> str:
        from refbench.engine.thumbnails import worst_html

        return self.result._repr_html_() + worst_html(self.run, self.result)

    def __getitem__(self, model: str) -> ModelResult:
        """One of the models: `evaluation["A"].cases.worst(10)`."""
        return self.result[model]

    def items(self) -> Iterator[dict[str, Any]]:
        """One row for each score, with `total`, task and seed."""
        return self.result.items()

    def to_pandas(self, *, wide: bool = False) -> pandas.DataFrame:
        """The items as a data frame: `Result.to_pandas`."""
        return self.result.to_pandas(wide=wide)

    def to_polars(self, *, wide: bool = False) -> polars.DataFrame:
        """The items as a data frame of polars."""
        return self.result.to_polars(wide=wide)

    def plot(self, name: str = "models", **choices: Any) -> Figure:
        """A figure of the table: `Result.plot`."""
        return self.result.plot(name, runs=[self.run.path], **choices)

    @property
    def table(self) -> Table:
        return self.result.table

    @property
    def scores(self) -> Sequence[Score]:
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
    examples: Mapping[str, str] = field(default_factory=dict)
    """By kind: case, model and what was said, of one that failed. Mostly the others failed for the same reason."""
    given_up: tuple[str, ...] = ()
    nothing_to_retry: tuple[str, ...] = ()


async def evaluate_async(
    options: RunOptions,
    *,
    show: bool = False,
    same_as: Run | None = None,
    subject: Subject | None = None,
    shared: SharedPictures | None = None,
) -> Evaluation:
    """Judge and measure what is not judged and measured yet, and table the run; `show` prints progress on stderr.

    `same_as` is another run whose judges must be asked in the same words: else it is refused before anything is paid.
    `subject` is what is judged, where that is not what the options name. `shared` are pictures of other runs, which are
    taken over where their requests are equal.
    """
    if options.stop_when_resolved or options.margin is not None:
        from refbench.engine.stopping import check_rule

        check_rule(options)
    batches, ended = None, ""
    async with _prepared(options, subject=subject) as (setup, engine, transport):
        _say("Warning", setup.dataset.lacking(setup.cases), show=show)
        if engine.cluster is not None and setup.parts is not None and options.device != "cpu":
            engine.cluster.wants_gpu()
        if options.budget is not None:
            setup.prices_must_be_known()
        run = setup.create_run()
        stopping = _rule_of(setup, run)
        with run.writer(options.shard) as writer, _Work.opened(setup, run, writer, shared) as work:
            on_record = OnRecord.of(run, _asked_in_batches(writer))
            work.served = await check_served(run, setup.judges, on_record)
            judging = work.judging(transport, on_record)
            measuring = work.measuring(engine, on_record) if setup.parts is not None else None
            await judging.rehearse()
            if same_as is not None:
                await _check_same_words(judging, same_as)
            if measuring is not None:
                await measuring.rehearse()
            work.progress.waits, work.progress.tries = transport.waits, lambda: transport.retries
            part = _part_of(setup, run, on_record)
            _say("Note", part.note if part is not None else "", show=show)
            stop = _stopping(transport, judging, measuring, work.generating)
            async with interruptible(stop) as interrupts, shown(work.progress, show=show):
                await work.start_models()
                # Nothing is refused any more: only now may the run know what it was asked for.
                work.note()
                if part is not None:
                    writer.note(DESIGN, part.design.model_dump_json())
                if stopping is None:
                    batches = await _judge_and_measure(judging, measuring, setup.cases, part)
                else:
                    ended = await work.ask_until_resolved(stopping, judging, measuring)
                for judge in setup.judges:
                    judging.note_state(judge)
            work.note_not_measured(measuring.left_out if measuring else {})
    result = _result(setup, run)
    return Evaluation(
        result,
        ended or interrupts.why(judging.stopped or work.generating.stopped),
        work.progress,
        run,
        work.budget,
        batches,
        decisions=stopping.decisions if stopping is not None else (),
        given_up=tuple(work.generating.breaker.stopped.values()),
        nothing_to_retry=work.nothing_to_retry,
    )


# What few runs ask for is not loaded by all.


def _rule_of(setup: Setup, run: Run) -> Stopping | None:
    if not setup.options.stop_when_resolved:
        return None
    from refbench.engine.stopping import Stopping

    return Stopping.of(setup, run)


def _part_of(setup: Setup, run: Run, on_record: OnRecord) -> Part | None:
    options = setup.options
    if options.calls is None and options.within is None and not (options.proxy or options.references):
        return None
    from refbench.engine.sampling import part_of

    return part_of(setup, run, on_record.acts)


async def _check_same_words(judging: JudgingRun, run: Run) -> None:
    """Refuses judges that would be asked otherwise than in that run."""
    theirs = OnRecord.of(run, {})
    await check_served(run, judging.setup.judges, theirs)
    await replace(judging, on_record=theirs).rehearse()


def _result(setup: Setup, run: Run) -> Result:
    """The run's numbers for the models and judges of this command."""
    options = setup.options
    names: list[str | None] = [judge.name for judge in setup.judges] or [None]
    systems = [(model.name, judge) for model in setup.models for judge in names]
    unused = [seeds_unused(model, setup.cases, options.seeds) for model in setup.models]
    notes = [sentence for sentence in unused if sentence]
    tabling = Tabling(options.protocol, refusals=options.refusals)
    return run_result(
        run, setup.bench, setup.dataset.cases, tabling, systems=systems, notes=notes, derived=derived_of(run)
    )


def _say(what: str, sentence: str | None, *, show: bool) -> None:
    if show and sentence:
        print(printable(f"{what}: {sentence}.", line=True), file=sys.stderr)


async def _judge_and_measure(
    judging: JudgingRun, measuring: MeasuringRun | None, cases: Sequence[AnyCase], part: Part | None = None
) -> BatchReport | None:
    """Both at once, all models on a case before the next; reports on batches where calls are handed in so."""
    setup = judging.setup
    report: BatchReport | None = None

    async def judge(asks: Sequence[Ask]) -> None:
        nonlocal report
        if setup.options.batch:
            from refbench.engine.batching import judge_in_batches

            report = await judge_in_batches(judging, asks, wait=setup.options.wait)
        else:
            await judging.judge(asks)

    try:
        async with asyncio.TaskGroup() as group:
            if measuring is not None:
                group.create_task(measuring.measure(cases))
            if part is not None:
                from refbench.engine.sampling import judge_part

                await judge_part(judging, part, judge)
            elif setup.judges:
                await judge([Ask(case) for case in cases])
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None
    return report


def evaluate(
    benchmark: Path | str,
    *,
    models: Models, out: Path | str, judges: Judges = (),
    data: Path | str | None = None, subset: str | None = None, ids: Path | str | None = None,
    metrics: Sequence[str] | str = (), seeds: int = 1, replace: bool = False,
    repeats: int = 1, rubric: Path | str | None = None, settings: Mapping[str, str] | None = None,
    prompts: Path | str | None = None, repair: bool = True, batch: bool = False, wait: bool = True,
    calls: str | int | None = None, within: float | None = None,
    references: Sequence[Path | str] | Path | str = (), proxy: Judges | None = None, limit: int | None = None,
    stop_when_resolved: Sequence[str] | Sequence[tuple[str, str]] = (), margin: float | None = None,
    shard: Shard | str | None = None, budget: str | None = None, retry: Sequence[str] = (), give_up_after: int = 20,
    concurrency: int = 32, generate_concurrency: int = 8,
    timeout: float | None = None, longest_wait: float = 300.0, reply_megabytes: int | None = None,
    device: str = "cpu", dtype: Dtype = "float32", engine: Engine = "embedded", address: str | None = None,
    protocol: Protocol = "both", refusals: Refusals = "conditional", show: bool = False,
) -> Evaluation:  # fmt: skip
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
        prompts: Whose words a judge is asked in: "own", "official:CHECKOUT" (the authors') or a folder of yours.
        repair: Ask once more, quoting the reply, where a reply could not be read.
        batch: Hand calls in as provider batches at half the price.
        wait: With `batch`: stay until the results are there; else a later call collects them.
        calls: Judge only this part of the calls, "14%" or a number, chosen so that it tells most; estimate the whole.
        within: Judge until every total is known to within this, as all calls would give it.
        references: Whose item scores estimates lean on: "released", run directories, or "none".
        proxy: A cheap judge that judges everything, for the estimates of the others to lean on.
        ids: Only the cases whose ids are in this file, one a line.
        limit: Only the first cases of the fair order.
        stop_when_resolved: A pair of models, or several: ask only until it is known which of them is better. A baseline
            may be "RUN_DIR:MODEL" or "BENCHMARK:MODEL" (released item scores).
        margin: With it, also stop a pair when its gap is known to be no larger than this.
        shard: The i-th of n parts, as "i/n".
        budget: Most that the run may cost in all, for example "5usd".
        retry: Kinds of final failure that are tried again, for example "refused".
        give_up_after: Failures in a row, all alike, after which a model or judge is asked nothing more; 0 for never.
        concurrency: Most calls in flight at an endpoint.
        generate_concurrency: Most pictures that a model makes at once.
        timeout: Seconds to wait for a reply (180 without it) or for a picture of a "python:" or "command:" model (600).
        longest_wait: Most seconds that a server may have us wait (Retry-After).
        reply_megabytes: Most megabytes of a reply; by default 8, with pictures 128, of a batch's results 512.
        device: Where large networks run: "cpu", "cuda" (all GPUs), "cuda:0,cuda:1".
        dtype: Number format of large networks; recorded.
        engine: "ray" runs metrics, local image models and local judges on the nodes of a cluster.
        address: With "ray": "auto" or HOST:PORT of a cluster; without it, Ray is started on this machine.
        protocol: Which numbers to give.
        refusals: How a model's own failures count.
        show: Print progress on stderr.

    Returns:
        The table with its scores as `.result`, and what one asks of it directly; why it ended early as `.stopped`, and
        what became of the pairs as `.decisions`.
    """
    given = dict(locals())  # the arguments, whose names are those of the options
    show = given.pop("show")
    return in_own_thread(evaluate_async(RunOptions.of({**given, "settings": settings or {}}), show=show))


def _stopping(transport: Transport, *works: JudgingRun | MeasuringRun | GeneratingRun | None) -> Callable[[], str]:
    """How the work is told to begin nothing more; what is in flight then, in words."""
    nothing_more = asyncio.Event()
    stopping.set(nothing_more)

    def stop() -> str:
        there = [work for work in works if work is not None]
        for work in there:
            work.stopped = "interrupt"
        nothing_more.set()
        transport.stop()
        return there[0].progress.flight()

    return stop


async def generate_async(options: RunOptions, *, show: bool = False) -> Generation:
    """Make the pictures of every case that are not in the run yet, or find those of folders; they can be judged and
    measured later, or shown to people."""
    failed: Counter[str] = Counter()
    there = 0
    examples: dict[str, str] = {}

    def count(case: AnyCase, model: AnyModel, made: tuple[Path, ...] | Failure) -> None:
        nonlocal there
        if isinstance(made, Failure):
            if made.detail not in (NOT_BEGUN, GIVEN_UP):
                failed[made.kind] += 1
                examples.setdefault(made.kind, f"{case.id} by {model.name}: {made}")
        elif made:
            there += 1

    async def make(case: AnyCase, model: ImageModel, seed: int) -> None:
        count(case, model, () if work.generating.stopped else await work.generating.outputs(case, model, seed))

    async def find(cases: Sequence[AnyCase]) -> None:
        """Put the pictures that are there already on record, case by case."""
        there_already = [one for one in setup.models_and_seeds() if not isinstance(one[0], ImageModel)]
        work.progress.to_find = len(cases) * len(there_already)
        for case in cases:
            for model, seed in there_already:
                if work.generating.stopped:
                    return
                found = await work.pictures.gather(case, model, case.request.pictures, seed)
                count(case, model, work.pictures.absent[case.id, model.name, seed] if found is None else found)
                work.progress.found += 1

    async with _prepared(options, scored=False) as (setup, _, transport):
        if options.budget is not None:
            setup.prices_must_be_known()
        run = setup.create_run()
        with run.writer(options.shard) as writer, _Work.opened(setup, run, writer) as work:
            work.progress.waits, work.progress.tries = transport.waits, lambda: transport.retries
            try:
                stop = _stopping(transport, work.generating)
                async with (
                    interruptible(stop) as interrupts,
                    shown(work.progress, show=show),
                    asyncio.TaskGroup() as group,
                ):
                    await work.start_models()
                    work.note(measured=False)
                    group.create_task(find(setup.cases))
                    for case in setup.cases:
                        for model, seed in setup.models_and_seeds():
                            if isinstance(model, ImageModel):
                                group.create_task(make(case, model, seed))
            except BaseExceptionGroup as errors:
                raise first_error(errors) from None
    given_up = tuple(work.generating.breaker.stopped.values())
    stopped = interrupts.why(work.generating.stopped)
    return Generation(run, there, failed, stopped, examples, given_up, work.nothing_to_retry)


def _asked_in_batches(writer: LedgerWriter) -> Mapping[str, tuple[Mapping[str, Any], tuple[Purpose, ...]]]:
    """What is with providers, in batches that have not ended. Most runs have none."""
    if not any(writer.path.parent.glob("*batches.jsonl")):
        return {}
    from refbench.engine.batch_journal import BatchJournal

    return BatchJournal(writer.path).all_asked()


_REPLY_S, _PICTURE_S = 180.0, 600.0  # to wait where nobody says: a picture takes longer than a reply


@contextlib.asynccontextmanager
async def _prepared(
    options: RunOptions, *, scored: bool = True, subject: Subject | None = None
) -> AsyncIterator[tuple[Setup, StartedEngine, Transport]]:
    """The checked setup on a started engine; everything is closed at the end."""
    async with (
        started(options.engine, options.address, options.run_directory) as engine,
        Transport(
            concurrency=options.concurrency,
            timeout=(_REPLY_S if scored else _PICTURE_S) if options.timeout is None else options.timeout,
            reply_megabytes=options.reply_megabytes,
            policy=RetryPolicy(longest_asked=options.longest_wait),
        ) as transport,
    ):
        setup = prepare_run(
            options, transport, scored=scored, place=engine.cluster, scratch=engine.scratch, subject=subject
        )
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
    nothing_to_retry: tuple[str, ...] = ()
    served: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What is known of the models behind judges on servers of one's own."""

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, setup: Setup, run: Run, writer: LedgerWriter, shared: SharedPictures | None = None
    ) -> Iterator[_Work]:
        """Refuses what changed since it was recorded, before anything is paid for."""
        options, dataset = setup.options, setup.dataset
        budget = Budget.parse(options.budget, run.spent_usd())
        check_pictures(run, writer, dataset, setup.models, replace=options.replace)
        with Recorder(writer) as recorder:
            progress = Progress(cases=len(setup.cases), outputs=len([*setup.models_and_seeds()]))
            generating = GeneratingRun(
                run,
                dataset,
                recorder,
                budget,
                progress,
                options.generate_concurrency,
                frozenset(options.retry),
                Breaker(options.give_up_after),
                shared,
            )
            generating.open(setup.models)
            empty = nothing_to_retry(options.retry, setup, run)
            pictures = RunPictures(run, dataset, recorder, setup.policy, generating)
            yield cls(setup, run, recorder, budget, generating, pictures, progress, empty)

    def judging(self, transport: Transport, on_record: OnRecord) -> JudgingRun:
        setup, retry = self.setup, self.setup.options.retry
        return JudgingRun(
            **self._shared(on_record),
            run=self.run,
            transport=transport,
            budget=self.budget,
            breaker=self.generating.breaker,
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
        note_dataset(writer, setup.dataset)
        for name, value in setup.notes.items():
            writer.note(name, value)
        if setup.options.ids is not None:
            from refbench.analysis.fewer.subset import chosen_in

            if chosen := chosen_in(setup.options.ids):
                writer.note(CHOSEN, chosen)
        writer.note("threads", str(threads()))
        for judge in setup.judges:
            writer.note(f"family of {judge.name}", judge.family)
        for name, told in self.served.items():
            writer.note(f"{SERVED}{name}", canonical_json(told).decode())

    async def ask_until_resolved(self, stopping: Stopping, judging: JudgingRun, measuring: MeasuringRun | None) -> str:
        """Ask block by block; all is on record before a pair is looked at."""

        async def ask(setup: Setup, cases: Sequence[AnyCase]) -> str:
            for one in (judging, measuring):
                if one is not None:
                    one.setup = setup
            await _judge_and_measure(judging, measuring, cases)
            await self.recorder.written()
            return judging.stopped or self.generating.stopped

        from refbench.engine.stopping import ask_until_resolved

        return await ask_until_resolved(stopping, ask, self.progress, self.recorder.writer)

    def note_not_measured(self, impossible: Mapping[str, str]) -> None:
        """Write down which parts have no values and why; what was noted before stands for parts left out now."""
        wanted, noted = self.setup.parts, self.run.notes("not measured ")
        for part in self.setup.bench.asking.measured:
            unwanted = wanted is None or (wanted and part not in wanted)
            reason = noted.get(part, "left out by --metrics") if unwanted else ""
            self.recorder.writer.note(f"not measured {part}", impossible.get(part, reason))
