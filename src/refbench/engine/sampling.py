"""Judging a part of the calls: how many, in which order, and until when."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace

from refbench.analysis.fewer.design import main_protocol, make_design, total_of
from refbench.analysis.fewer.references import references_of
from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.engine.judging import Ask, JudgingRun
from refbench.engine.options import Calls
from refbench.engine.setup import Setup
from refbench.evidence import Purpose
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.tables.sampled import SampleDesign, Sampling, away_of, fewest_units, percent
from refbench.tables.scoring import STOPPING, Tabling, design_of, run_result

FIRST = 0.05
"""Share of the calls that are judged before `--within` looks for the first time."""
_STEP = 0.02
"""The least share of the calls between two looks: each look at a width that is itself estimated is a chance to stop too
early."""
_SURE = 1.05


@dataclass(frozen=True)
class Part:
    """The part of the calls that a command is to judge."""

    design: SampleDesign
    most: int
    """Units of the design, counted from its beginning."""
    within: float | None = None
    note: str = ""
    """What there is to say of it before it begins."""

    def asks(self, setup: Setup, start: int, end: int) -> list[Ask]:
        """The units from one place of the design to another, of this command's shard."""
        judges = frozenset(judge.name for judge in setup.judges) - setup.proxies
        cases, shard = setup.dataset.cases, setup.options.shard
        found = []
        for number, (case, group) in enumerate(self.design.units()[:end]):
            if number >= start and (shard is None or number % shard.count == shard.index - 1):
                parts = frozenset(self.design.groups[group]) if len(self.design.groups) > 1 else None
                found.append(Ask(cases[case], parts, judges))
        return found


def part_of(setup: Setup, run: Run, on_record: Collection[Purpose]) -> Part:
    """What the command is to judge, by the run's design or a new one. Refuses what cannot be. `on_record` is what was
    judged before."""
    options = setup.options
    if options.calls is None and options.within is None:
        raise RefBenchError("--references and --proxy are about a part of the calls: add --calls 14% or --within 1.0")
    if not setup.judges:
        raise RefBenchError("--calls and --within are about a judge's calls: give a --judge")
    if options.limit is not None:
        raise RefBenchError(
            "--limit takes a part of the cases for the whole, --calls and --within estimate the whole: give one of them"
        )
    if options.within is not None and (options.batch or options.shard is not None):
        raise RefBenchError("--within looks at the results as they come, which --batch and --shard do not: use --calls")
    if setup.proxies and setup.bench.scoring.judges_mean:
        raise RefBenchError(
            f"--proxy: the number of {setup.bench.title} is the mean of its judges, and a proxy would be one of them"
        )
    if run.notes(STOPPING):
        raise RefBenchError(
            f"{run.path} asked about whole cases until pairs were resolved (--stop-when-resolved), which is no sample "
            "of its calls: choose another --out"
        )
    design = _design(setup, run)
    judges = len(setup.judges) - len(setup.proxies)
    systems = len(setup.models_and_seeds()) * judges * options.repeats
    wanted = Calls.parse(options.calls) if options.calls is not None else None
    most = design.n_units if wanted is None else wanted.units(design.n_units, systems)
    judged = _judged(setup, design, on_record)
    if judged < most:
        check_tells(setup.bench, setup.dataset.cases, design, most, f"--calls {options.calls}")
    note = ""
    if judged > most:
        note = (
            f"{percent(judged / design.n_units)} of the calls are judged already, more than --calls {options.calls}: "
            "they stay, and no more are asked"
        )
    return Part(design, most, options.within, note)


def _judged(setup: Setup, design: SampleDesign, on_record: Collection[Purpose]) -> int:
    """The units that are judged for every model by every judge, however they turned out."""
    groups = {part: number for number, parts in enumerate(design.groups) for part in parts}
    one = len(design.groups) == 1
    place = {case.id: number for number, case in enumerate(setup.dataset.cases)}
    systems = [(m.name, j.name) for m in setup.models for j in setup.judges if j.name not in setup.proxies]
    units: dict[tuple[str, str], set[tuple[int, int]]] = {system: set() for system in systems}
    for purpose in on_record:
        group = 0 if one else groups.get(purpose.part.partition("+")[0].partition("/")[0])
        if (purpose.model, purpose.judge) in units and group is not None and purpose.case in place:
            units[purpose.model, purpose.judge].add((place[purpose.case], group))
    return min(map(len, units.values()), default=0)


def check_tells(bench: Benchmark, cases: Sequence[AnyCase], design: SampleDesign, most: int, option: str) -> None:
    """Refuse a part of the calls, before it is paid for, from which the benchmark's number could not be estimated."""
    sampling = Sampling(design, bench.asking.parts, away_of(bench.asking.not_applicable, cases))
    aggregate, total = bench.scoring.protocols[main_protocol(bench)].aggregate, total_of(bench)
    fewest = fewest_units(aggregate, cases, sampling, total, most)
    if fewest > most:
        least = math.ceil(100 * fewest / design.n_units)
        raise RefBenchError(
            f"{option}: {total} of {bench.title} cannot be estimated from {most} of {design.n_units} calls of a model: "
            f"it needs enough judged cases in each of its parts. Give at least --calls {least}%"
        )


def _design(setup: Setup, run: Run) -> SampleDesign:
    """The design of the run, which only ever grows; the first command makes it."""
    options = setup.options
    before = design_of(run)
    if before is not None and not options.references and set(before.proxies) == set(setup.proxies):
        return before
    references = references_of(setup.bench, setup.dataset.cases, options.references, options.subset)
    design = make_design(setup.bench, setup.dataset.cases, references, proxies=sorted(setup.proxies))
    if before is not None and before.digest != design.digest:
        leaning = ", ".join(filter(None, (before.references, *before.proxies))) or "nothing"
        raise RefBenchError(
            f"{run.path} judges a part of its calls by a design that leans on {leaning}: go on with the same "
            "--references and --proxy, or choose another --out"
        )
    return design


async def judge_part(judging: JudgingRun, part: Part, judge: Callable[[Sequence[Ask]], Awaitable[None]]) -> None:
    """Judge the part, after what the proxies are asked about all cases; with `within`, until all totals are known to
    that, as they are looked at in steps."""
    setup = judging.setup
    if setup.proxies:
        judging.progress.to_ask += len(setup.cases)
        await judge([Ask(case, None, setup.proxies) for case in setup.cases])
    done, whole = 0, part.design.n_units
    upto = part.most if part.within is None else min(part.most, math.ceil(FIRST * whole))
    while not judging.stopped:
        asks = part.asks(setup, done, upto)
        judging.progress.to_ask += len(asks)
        await judge(asks)
        done = upto
        if part.within is None or done >= part.most or judging.stopped:
            return
        width = await asyncio.to_thread(_widest, setup, judging.run)
        if width is not None and width <= part.within:
            return
        upto = min(part.most, next_look(done, whole, width, part.within))


def next_look(done: int, whole: int, width: float | None, within: float) -> int:
    """How many units to judge before the next look: as many as are likely to do, at most twice those judged."""
    if width is None:
        return 2 * done
    per_unit = width**2 / (1 / done - 1 / whole)
    wanted = _SURE / (within**2 / per_unit + 1 / whole)
    return math.ceil(min(max(wanted, done + _STEP * whole), 2 * done))


def _widest(setup: Setup, run: Run) -> float | None:
    """The largest half-width of a total: where the number of all calls lies. None where one cannot be told yet."""
    options = setup.options
    tabling = Tabling(options.protocol, draws=0, refusals=options.refusals)
    systems = [(model.name, judge.name) for model in setup.models for judge in setup.judges]
    result = run_result(run, _totals_alone(setup.bench), setup.dataset.cases, tabling, systems=systems)
    totals = {row.protocol: result.summary(row.protocol) for row in result.table.rows}
    rows = [row for row in result.rows(level="overall") if row.metric == totals[row.protocol] and row.sampled]
    if any(row.estimate is None for row in rows):
        return None
    return max((row.estimate.half_width for row in rows if row.estimate), default=0.0)


def _totals_alone(bench: Benchmark) -> Benchmark:
    """The benchmark with the number of all cases alone: a look in between needs no slices and no causes of changes."""
    protocols = {
        name: replace(protocol, aggregate=replace(protocol.aggregate, slices=protocol.aggregate.overall))
        for name, protocol in bench.scoring.protocols.items()
    }
    return replace(
        bench,
        scoring=replace(bench.scoring, protocols=protocols),
        reporting=replace(bench.reporting, explain_changes=None),
    )
