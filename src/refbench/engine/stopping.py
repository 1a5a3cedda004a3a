"""Asking no more than it takes to resolve some pairs: `refbench run --stop-when-resolved A B`.

Cases are asked in blocks of the fair order. After each, every pair is followed over all that is on record from the
first case on, so that what is decided depends on the record alone: not on where blocks end, on which reply came first,
or on how often the command was stopped and run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from refbench.analysis.compare.runs import ScoreSource, joined, load_sources, split_operand
from refbench.analysis.compare.stopping import Decision, Rule, check_is_sum, follow_pairs
from refbench.case import AnyCase
from refbench.engine.options import RunOptions
from refbench.engine.progress import Progress
from refbench.engine.setup import Setup
from refbench.judges.panel import MEAN
from refbench.record import RefBenchError, canonical_json
from refbench.runs import LedgerWriter, Run
from refbench.runs.run import fair_order_of_clusters
from refbench.tables.scoring import DESIGN, STOPPED, STOPPING, Tabling, run_result

RESOLVED = "resolved"
"""Why a run ended whose pairs are all decided."""
_BLOCK = 16
_GROWTH = 0.06
"""Cases of a block: a few, and then so much of those asked, since each look reads all of the record again."""


@dataclass
class Stopping:
    """The pairs of one run, and what they have come to."""

    setup: Setup
    run: Run
    rule: Rule
    baselines: Mapping[str, tuple[ScoreSource, str]]
    """Models that are not of this run, as they were named: where their scores are, and what they are called there."""
    decisions: tuple[Decision, ...] = ()
    _shown: dict[str, str] = field(default_factory=dict)
    """How each model is called beside the others."""

    @classmethod
    def of(cls, setup: Setup, run: Run) -> Stopping:
        """Refuses pairs that cannot be followed."""
        options = setup.options
        if run.notes(DESIGN):
            raise RefBenchError(
                f"{run.path} has a sample of its calls (--calls or --within), and --stop-when-resolved asks about "
                "whole cases in their order: choose another --out"
            )
        judges = tuple(judge.name for judge in setup.judges)
        rule = Rule(pairs=options.stop_when_resolved, margin=options.margin, judges=judges, family=0)
        models = {model.name for model in setup.models}
        for a, b in rule.pairs:
            if not models & {a, b}:
                raise RefBenchError(
                    f"--stop-when-resolved {a} {b}: neither is a model of this run, which has {', '.join(models)}"
                )
        elsewhere = dict.fromkeys(name for pair in rule.pairs for name in pair if name not in models)
        baselines = _baselines([*elsewhere], models, setup)
        idle = sorted(models - {name for pair in rule.pairs for name in pair})
        if idle:
            raise RefBenchError(
                f"--stop-when-resolved: {', '.join(idle)} is in none of the pairs, so that nothing says when it has "
                "been asked enough: name a pair with it, or leave it out"
            )
        return cls(setup, run, _as_first_named(rule, run), baselines)

    @property
    def needed(self) -> set[str]:
        """The models of pairs that are still open."""
        open_now = {name for one in self.decisions if one.verdict == "open" for name in (one.first, one.second)}
        return {name for name, shown in self._shown.items() if shown in open_now}

    @property
    def cases(self) -> list[AnyCase]:
        """Those of the run, the cases of a cluster together."""
        return fair_order_of_clusters(self.setup.cases)

    def look(self, *, first: bool = False) -> None:
        """Follow the pairs over what is on record now; at first also refuse a number that cannot be followed."""
        live, sources = self._live(), list({id(source): source for source, _ in self.baselines.values()}.values())
        systems, labels = joined([live, *sources], None, self.setup.options.refusals)
        self._shown = dict(labels[0])
        for operand, (source, model) in self.baselines.items():
            self._shown[operand] = labels[1 + sources.index(source)][model]
        if first:
            check_is_sum(systems)
        pairs = [(self._shown[a], self._shown[b]) for a, b in self.rule.pairs]
        self.decisions = follow_pairs(
            systems, pairs, margin=self.rule.margin, family=self.rule.family or None, order=self.cases
        )
        self.rule = self.rule.model_copy(update={"family": max((one.family for one in self.decisions), default=0)})
        for one in self.decisions if first else ():
            if not one.n_all:
                raise RefBenchError(f"--stop-when-resolved: {one.first} and {one.second}: they share no case")

    def _live(self) -> ScoreSource:
        """What the run holds of its cases so far, by the judges that are asked now."""
        setup, options = self.setup, self.setup.options
        protocol = next((source.protocol for source, _ in self.baselines.values()), options.protocol)
        protocol = "corrected" if protocol == "both" else protocol
        names: list[str | None] = [judge.name for judge in setup.judges] or [None]
        models = tuple(model.name for model in setup.models)
        tabling = Tabling(protocol, draws=0, refusals=options.refusals)
        systems = [(model, judge) for model in models for judge in names]
        result = run_result(self.run, setup.bench, setup.cases, tabling, systems=systems)
        return ScoreSource(
            name=str(self.run.path),
            bench=result.bench,
            protocol=protocol,
            cases=result.cases,
            scores=[score for score in result.scores if score.judge in {*names, MEAN, None}],
            models=models,
            parts=result.table.parts,
            seeds=result.seeds,
        )

    def note(self, writer: LedgerWriter) -> None:
        """Write down the rule, so that tables say it and later commands keep to its pairs."""
        rule = canonical_json(self.rule.model_dump(mode="json")).decode()
        writer.note(f"{STOPPING}{self.rule.said}", rule)

    def note_decisions(self, writer: LedgerWriter) -> None:
        """Write down what became of the pairs."""
        for one in self.decisions:
            writer.note(f"{STOPPED}{one.first}\n{one.second}\n{one.judge}", one.sentence)


def _as_first_named(rule: Rule, run: Run) -> Rule:
    """The rule with the family and judges of the command that first followed pairs in this run. The whole level was
    shared among those, so nothing is left for others, and they are refused."""
    earlier = [Rule.model_validate(run.told(text)) for text in run.notes(STOPPING).values()]
    if not earlier:
        return rule
    known = {frozenset(pair) for one in earlier for pair in one.pairs}
    further = [f"{a} and {b}" for a, b in rule.pairs if frozenset((a, b)) not in known]
    further += [f"judge {judge}" for judge in rule.judges if judge not in earlier[0].judges]
    if further:
        raise RefBenchError(
            f"--stop-when-resolved: {', '.join(further)} cannot be followed in this run: its 5 % for wrong claims were "
            f"shared among the pairs and judges that it was begun with ({earlier[0].said}); repeat these, or give "
            "another --out"
        )
    return rule.model_copy(update={"judges": earlier[0].judges, "family": earlier[0].family})


def _baselines(operands: Sequence[str], models: set[str], setup: Setup) -> dict[str, tuple[ScoreSource, str]]:
    """Where models of pairs come from that are not of this run."""
    options = setup.options
    for operand in operands:
        if ":" not in operand:
            raise RefBenchError(
                f"--stop-when-resolved {operand}: the models are {', '.join(sorted(models))}; a baseline is RUN_DIR:"
                "MODEL, or BENCHMARK:MODEL for released item scores"
            )
    if not operands:
        return {}
    sources = load_sources(operands, None if options.protocol == "both" else options.protocol, None, options.refusals)
    split = {operand: split_operand(operand) for operand in operands}
    places = list(dict.fromkeys(place for place, _ in split.values()))
    found: dict[str, tuple[ScoreSource, str]] = {}
    for operand, (place, model) in split.items():
        source = sources[places.index(place)]
        if model is None:
            raise RefBenchError(f"--stop-when-resolved {operand}: name one of its models, as {operand}:MODEL")
        if source.bench.name != setup.bench.name:
            raise RefBenchError(
                f"--stop-when-resolved {operand}: it is of {source.bench.name}, and this run of {setup.bench.name}"
            )
        found[operand] = source, model
    return found


def check_rule(options: RunOptions) -> None:
    """Refuse what does not go together, before anything is loaded."""
    pairs = options.stop_when_resolved
    if not pairs:
        if options.margin is not None:
            raise RefBenchError("--margin is for --stop-when-resolved A B: say which pairs")
        return
    for a, b in pairs:
        if a == b:
            raise RefBenchError(f"--stop-when-resolved {a} {b}: name two models")
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise RefBenchError("--stop-when-resolved: the same pair is named twice")
    if options.batch:
        raise RefBenchError(
            "--stop-when-resolved looks after every few cases, and --batch hands all in at once: leave one of them out"
        )
    if options.shard is not None:
        raise RefBenchError("--stop-when-resolved needs all cases in one order: leave --shard out")
    if options.calls is not None or options.within is not None:
        raise RefBenchError(
            "--stop-when-resolved asks about whole cases in their order, --calls and --within about a sample of the "
            "calls: give one of them"
        )


async def ask_until_resolved(
    stopping: Stopping,
    ask: Callable[[Setup, Sequence[AnyCase]], Awaitable[str]],
    progress: Progress,
    writer: LedgerWriter,
) -> str:
    """Ask block by block about the models of pairs that are open, until there are none or no case is left; `ask` says
    why no more can be asked, "" while it can. Returns why the run ended."""
    await asyncio.to_thread(stopping.look, first=True)
    stopping.note(writer)
    cases, start, stopped = stopping.cases, 0, ""
    while start < len(cases) and stopping.needed and not stopped:
        end = start + max(_BLOCK, int(_GROWTH * start))
        while end < len(cases) and cases[end].cluster == cases[end - 1].cluster:
            end += 1
        needed, before = stopping.needed, progress.new
        models = [model for model in stopping.setup.models if model.name in needed]
        stopped = await ask(replace(stopping.setup, models=models), cases[start:end])
        if progress.new > before:  # of a run that goes on, the record was looked at already
            await asyncio.to_thread(stopping.look)
        start = end
    await asyncio.to_thread(stopping.look)
    stopping.note_decisions(writer)
    return stopped if stopping.needed else RESOLVED
