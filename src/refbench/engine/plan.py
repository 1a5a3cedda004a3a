"""Planning: calls, tokens, money and time before anything is spent, and what differences the result can show."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refbench.analysis.compare.draws import gain_of, paired_gaps, panel_of
from refbench.benchmarks import Benchmark
from refbench.benchmarks.kit.definition import Asked, Material
from refbench.calls.prices import Budget
from refbench.calls.transport import Transport
from refbench.case import AnyCase
from refbench.chat.pictures import SentPicture, prepare
from refbench.chat.vlm import VLM, Pictures
from refbench.engine.judging import _MOST_ASKED, _MOST_REPEATS, pictures_of, purpose_of
from refbench.engine.options import RunOptions
from refbench.engine.setup import OnRecord, Setup, Subject, prepare_run
from refbench.evidence import Evidence, Purpose
from refbench.failure import TRANSIENT, Failure
from refbench.machine import scratch_folder
from refbench.models import AnyModel, ImageModel, seeds_for
from refbench.output import content_of
from refbench.pictures import encode
from refbench.record import Record, RefBenchError, content_key, counted
from refbench.runs import Run
from refbench.score import Score
from refbench.stats import Design, clusters_needed, detectable, effective_n, smallest_p
from refbench.stats.effect import LEVEL
from refbench.stats.quantiles import t_quantile
from refbench.tables.scoring import run_draws, score_run
from refbench.tables.table import Aggregate, tabulate

_SAMPLE = 40
"""Cases whose requests are really laid out; the others are taken to be like them."""
_SIZE = (1024, 1024)
"""Of a picture that is still to be made, where its case does not say."""
MOST_PAIRS = 28
"""Pairs of earlier models that the width of a gap is read off."""
_LEAST_LEFT = 0.01
"""Share of an error's square that more seeds and repeats leave at the least: estimates of what they take are noisy."""
_REPLY_TOKENS = 400
"""What a reply has when no earlier reply tells: about six questions with an explanation each."""
_SECONDS = 6.0
"""What a call takes when no earlier call tells."""


class Precision(Record):
    """How sharp the result will be, read off earlier scores: half of the 95 % interval of a model's number, and of a
    paired gap. A true gap of `detectable` would be found at least four times in five, among `family` pairs."""

    metric: str
    half_width: float
    gap_half_width: float
    detectable: float | None
    """None where so few clusters can show no difference at all."""
    family: int
    n_clusters: int
    seeds: int
    repeats: int
    source: str
    remarks: tuple[str, ...] = ()


class JudgePlan(Record):
    """What one judge will be asked, and what that costs. Money is None when the price is not known."""

    judge: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    worst_usd: float | None
    price_source: str | None


class Plan(Record):
    """The whole plan. Equal requests are one call; `calls_known` of the calls are on record already and cost nothing.

    `cost_usd` and `worst_usd` are of the judges; `pictures_usd` is of the pictures that are still to be made, None
    where a price is not known.
    """

    benchmark: str
    cases: int
    models: int
    calls: int
    calls_known: int
    judges: tuple[JudgePlan, ...]
    cost_usd: float | None
    worst_usd: float | None
    seconds: float
    precision: Precision | None
    pictures: int = 0
    pictures_usd: float | None = 0.0
    budget_usd: float | None = None
    spent_usd: float = 0.0
    """What the run to be continued has cost so far: the budget is for all of it."""
    fits_cases: int | None = None
    """How many cases (of the fair order) the budget covers: a run begins one while its worst case is left."""
    set_aside_usd: float | None = None
    """The worst case of the first case that does not fit, or of the dearest where all fit."""
    assumptions: tuple[str, ...] = ()
    lacking: str = ""
    """Cases that cannot be judged because a picture of their own is not there."""
    elsewhere: str = ""
    """Pictures of one's own cases that lie outside their folder."""
    missing: tuple[str, ...] = ()
    """Of each folder of outputs that lacks some: how many, and which is the first."""


async def make_plan(
    options: RunOptions, *, like: Path | None = None, precise: bool = True, subject: Subject | None = None
) -> Plan:
    """Lay out a sample of the requests, count, and scale up; all of them where a run is continued. Sends nothing.

    `like` is an earlier run to expect precision, length and speed from; not `precise`, it leaves precision out. Of a
    `subject` that is given, all requests are laid out: no case of an audit is like another.
    """
    out = options.out
    before = Run.open(out) if out is not None and (out / "run.json").exists() else None
    async with Transport(concurrency=options.concurrency) as transport:
        setup = prepare_run(options, transport, subject=subject)
    assumptions: list[str] = []
    if options.calls is not None or options.within is not None:
        assumptions.append("all calls, not the part that --calls or --within judges")
    habits = _habits([act for path in (out, like) for act in _acts(path)], assumptions)
    # What is on record is counted and not scaled: the first cases are those that an earlier run began with. Where an
    # output is in several cases, how many requests are equal is not read off the first ones either.
    whole = before is not None or subject is not None or (len(setup.cases) > _SAMPLE and _in_several_cases(setup))
    some = setup.cases if whole else setup.cases[:_SAMPLE]
    with scratch_folder() as folder:
        layout = _Layout(setup, before, folder)
        needs = [_needed(layout, case, habits.reply_tokens) for case in some]
    if not any(tally.calls for need in needs for tally in need.judges):
        raise RefBenchError("none of the first cases has an output that can be judged: check --model")
    if layout.to_make:
        width, height = _SIZE
        assumptions.append(f"pictures of {width} x {height} pixels where they are still to be made and have no size")
    plan = _scaled_up(setup, layout, needs, before, habits, assumptions)
    if not precise:
        return plan
    covered = plan.fits_cases if plan.fits_cases is not None else plan.cases
    return plan.model_copy(update={"precision": _precision(setup, covered, like)})


def _scaled_up(
    setup: Setup,
    layout: _Layout,
    needs: Sequence[_Needed],
    before: Run | None,
    habits: _Habits,
    assumptions: Sequence[str],
) -> Plan:
    """The plan for all cases, from what some of them need."""
    options, scale = setup.options, len(setup.cases) / len(needs)
    plans = [
        _judge_plan(judge, [need.judges[i] for need in needs], scale, habits.reply_tokens)
        for i, judge in enumerate(setup.judges)
    ]
    calls = round(sum(tally.calls for need in needs for tally in need.judges) * scale)
    new = sum(plan.calls for plan in plans)
    money = Budget.parse(options.budget, before.spent_usd() if before is not None else 0.0)
    fits = aside = None
    if money.cap is not None:
        setup.prices_must_be_known()
        fits, aside = _fits(needs, len(setup.cases), money.cap - money.spent)
    rounds = new / max(options.concurrency * len(setup.judges), 1)
    return Plan(
        benchmark=setup.bench.name,
        cases=len(setup.cases),
        models=len(setup.models),
        calls=calls,
        calls_known=calls - new,
        judges=tuple(plans),
        cost_usd=_total([plan.cost_usd for plan in plans]),
        worst_usd=_total([plan.worst_usd for plan in plans]),
        pictures=round(layout.to_make * scale),
        pictures_usd=_total(layout.picture_usd, scale),
        seconds=round(rounds * habits.seconds + habits.seconds, 1),
        precision=None,
        budget_usd=money.cap,
        spent_usd=money.spent,
        fits_cases=fits,
        set_aside_usd=aside,
        assumptions=tuple(assumptions),
        lacking=setup.dataset.lacking(setup.cases),
        elsewhere=setup.dataset.elsewhere(setup.cases),
        missing=tuple(_missing(setup)),
    )


def _in_several_cases(setup: Setup) -> bool:
    """Whether an output that is there is one of several cases."""
    for model in setup.models:
        if isinstance(model, ImageModel):
            continue
        for seed in seeds_for(model, setup.options.seeds):
            found = [paths for case in setup.cases if not isinstance(paths := model.find(case, seed), Failure)]
            if len({path for paths in found for path in paths}) < sum(len(set(paths)) for paths in found):
                return True
    return False


def _missing(setup: Setup) -> Iterator[str]:
    for model in setup.models:
        if isinstance(model, ImageModel):
            continue
        seeds = seeds_for(model, setup.options.seeds)
        looked = [model.find(case, seed) for case in setup.cases for seed in seeds]
        if lost := [failure.detail for failure in looked if isinstance(failure, Failure)]:
            are = "is missing" if len(lost) == 1 else "are missing, the first"
            yield f"{len(lost)} of {counted(len(looked), 'output')} of {model.name} {are}: {lost[0]}"


@dataclass
class _Tally:
    """What one judge is still to be asked about a case: `calls` in all, `new` of them not on record."""

    calls: int = 0
    new: int = 0
    input_tokens: int = 0
    worst_usd: float | None = 0.0
    """None when the price is not known."""


@dataclass(frozen=True)
class _Needed:
    """What a case takes: of each judge, and in dollars, as expected and as set aside before it begins."""

    judges: list[_Tally]
    cost_usd: float
    worst_usd: float


class _Layout:
    """The requests of a case as a run would make them, from pictures that are there or a grey one in their place."""

    def __init__(self, setup: Setup, before: Run | None, folder: Path) -> None:
        self.setup, self._folder = setup, folder
        self.to_make = 0
        self._opened: dict[Path, SentPicture | Failure] = {}
        self.picture_usd: list[float | None] = []
        self._before = OnRecord.of(before, {}) if before is not None else None
        self.settled = {act for acts in self._before.acts.values() for act in acts} if self._before else set()
        """Calls that a run would not make again: answered, or failed in a way that does not pass."""
        self.counted: set[str] = set()
        """Calls that were counted: equal ones are made once."""
        self._run = before
        self._made = {(o.case, o.model, o.seed): o for o in before.outputs() if o.step is None} if before else {}

    def asked(self, case: AnyCase) -> Iterator[tuple[AnyModel, int, Asked, str, Pictures]]:
        """What would be asked, with the output's content ("" where it is not made yet) and the pictures shown."""
        judging = self.setup.judging
        for model, seed in self.setup.models_and_seeds():
            paths, made = self._outputs(case, model, seed)
            material = self._material(case, model, paths)
            if material is None:
                continue
            output = content_of(picture.original.sha256 for picture in material.outputs) if made else ""
            if judging.compose is not None:
                material = judging.compose(case, material, lambda data, name: Path(name))
            for item in judging.ask(case, material):
                if item.settled is None:
                    yield model, seed, item, output, pictures_of(material)

    def call(self, purpose: Purpose, canonical: Mapping[str, Any]) -> str:
        """What tells a call from every other; empty while its output is not made, and nobody knows what it shows."""
        if not purpose.output:
            return ""
        known = self._before.known_as(purpose, canonical) if self._before is not None else None
        return known or content_key({"kind": "chat", **canonical})

    def _outputs(self, case: AnyCase, model: AnyModel, seed: int) -> tuple[tuple[Path, ...], bool]:
        """The files of an output, and whether they are really there."""
        if not isinstance(model, ImageModel):
            paths = model.find(case, seed)
            return (() if isinstance(paths, Failure) else paths), True
        known = self._made.get((case.id, model.name, seed))
        if known is not None and (known.failure is None or known.failure.kind not in TRANSIENT):
            assert self._run is not None
            return tuple(self._run.blobs.path(picture.sha256, picture.format) for picture in known.pictures), True
        count, price = case.request.n_pictures, model.traits.price
        self.to_make += count
        self.picture_usd.append(None if price is None else price * count)
        width, height = case.request.size or _SIZE
        path = self._folder / f"{width}x{height}.png"
        if not path.exists():
            path.write_bytes(encode(np.full((height, width, 3), 128, dtype=np.uint8)))
        return (path,) * count, False

    def _material(self, case: AnyCase, model: AnyModel, outputs: Sequence[Path]) -> Material | None:
        if not outputs:
            return None
        golden = case.targets if self.setup.judging.shows_targets else ()
        inputs = [self.setup.dataset.path(picture) for picture in (*case.request.pictures, *golden)]
        sent = [self._sent(place) for place in (*outputs, *inputs)]
        ready = [picture for picture in sent if isinstance(picture, SentPicture)]
        if len(ready) < len(sent):
            return None
        first, last = len(outputs), len(outputs) + len(case.request.pictures)
        shown = tuple(ready[first:last]), tuple(ready[:first]), tuple(ready[last:])
        return Material(*shown, model=model.name)

    def _sent(self, place: Path) -> SentPicture | Failure:
        """A picture as judges would be sent it. Nothing is stored while planning: a re-encoded one is counted by what
        it was."""
        if place not in self._opened:
            self._opened[place] = prepare(place, self.setup.policy, lambda data, name: place)
        return self._opened[place]


def _needed(layout: _Layout, case: AnyCase, reply_tokens: int) -> _Needed:
    judges = layout.setup.judges
    tallies = [_Tally() for _ in judges]
    painted = len(layout.picture_usd)
    for model, seed, item, output, pictures in layout.asked(case):
        for judge, tally in zip(judges, tallies, strict=True):
            if not item.families(judge.family):
                continue
            tokens = judge.input_tokens(item.request, pictures)
            worst = judge.worst_cost(item.request, pictures)
            for repeat in range(layout.setup.repeats_of(model)):
                purpose = purpose_of(case, model.name, seed, judge, repeat, item, output)
                call = layout.call(purpose, judge.canonical(item.request, repeat + item.draw * _MOST_REPEATS))
                if call in layout.counted:
                    continue
                layout.counted |= {call} - {""}
                tally.calls += 1
                if call in layout.settled:
                    continue
                tally.new += 1
                tally.input_tokens += tokens
                tally.worst_usd = (
                    None if worst is None or tally.worst_usd is None else tally.worst_usd + worst * _MOST_ASKED
                )
    expected = [_cost(judge, tally, reply_tokens) for judge, tally in zip(judges, tallies, strict=True)]
    pictures_usd = sum(usd or 0.0 for usd in layout.picture_usd[painted:])
    return _Needed(
        tallies,
        sum(usd or 0.0 for usd in expected) + pictures_usd,
        sum(tally.worst_usd or 0.0 for tally in tallies) + pictures_usd,
    )


def _cost(judge: VLM, tally: _Tally, reply_tokens: int) -> float | None:
    return judge.price.cost(tally.input_tokens, tally.new * reply_tokens) if judge.price is not None else None


def _judge_plan(judge: VLM, tallies: Sequence[_Tally], scale: float, reply_tokens: int) -> JudgePlan:
    worst = _total([tally.worst_usd for tally in tallies], scale)
    new = round(sum(tally.new for tally in tallies) * scale)
    tokens = round(sum(tally.input_tokens for tally in tallies) * scale)
    cost = _cost(judge, _Tally(new=new, input_tokens=tokens, worst_usd=worst), reply_tokens)
    return JudgePlan(
        judge=judge.name,
        calls=new,
        input_tokens=tokens,
        output_tokens=new * reply_tokens,
        cost_usd=None if cost is None else round(cost, 4),
        worst_usd=worst,
        price_source=judge.price.source if judge.price else None,
    )


def _fits(needs: Sequence[_Needed], n_cases: int, left: float) -> tuple[int, float]:
    """How many cases begin before one does not fit any more, and what is set aside for that one (for the dearest,
    where all fit): a run begins a case when the worst that it can cost is left, and then pays what it did cost."""
    mean = statistics.fmean(need.cost_usd for need in needs), max(need.worst_usd for need in needs)
    for number in range(n_cases):
        cost, worst = (needs[number].cost_usd, needs[number].worst_usd) if number < len(needs) else mean
        if worst > left + 1e-12:
            return number, worst
        left -= cost
    return n_cases, mean[1]


class _Habits(NamedTuple):
    """What calls usually take: tokens of a reply, and seconds."""

    reply_tokens: int
    seconds: float


def _habits(earlier: Sequence[Evidence], assumptions: list[str]) -> _Habits:
    """As earlier calls had them."""
    written = [act.output_tokens for act in earlier if act.output_tokens]
    lasted = [attempt.seconds for act in earlier for attempt in act.attempts[-1:] if attempt.seconds]
    if not written:
        assumptions.append(f"replies of {_REPLY_TOKENS} tokens")
    if not lasted:
        assumptions.append(f"{_SECONDS:g} s a call")
    return _Habits(
        round(statistics.fmean(written)) if written else _REPLY_TOKENS,
        statistics.fmean(lasted) if lasted else _SECONDS,
    )


def _acts(path: Path | None) -> list[Evidence]:
    there = path is not None and (path / "run.json").exists()
    return [evidence for _, evidence in Run.open(path).evidence()] if path is not None and there else []


def _total(parts: Sequence[float | None], scale: float = 1.0) -> float | None:
    return None if None in parts else round(sum(part for part in parts if part is not None) * scale, 4)


def _precision(setup: Setup, n_cases: int, like: Path | None) -> Precision | None:
    """Table all earlier scores, read the errors off, and scale them to the clusters, seeds and repeats to come."""
    earlier = earlier_scores(setup.bench, like)
    if earlier is None:
        return None
    widths, gaps = earlier.half_widths()
    before, planned = clusters_of(earlier.cases), clusters_of(setup.cases[:n_cases])
    if not widths or min(before[1], planned[1]) < 1:
        return None
    # Widths shrink with the root of the number of clusters, and Student's t widens what is left of few.
    shrink = (before[0] / planned[0]) ** 0.5 * t_quantile(0.975, planned[1]) / t_quantile(0.975, before[1])
    gain, remarks = _gain(earlier, setup.options)
    reach = t_quantile(0.975, before[1])

    def planned_width(width: float, models: int) -> float:
        """What seeds and repeats add is taken from the square of the error, since what a cluster shares stays."""
        left = max((width / reach) ** 2 - models * gain, _LEAST_LEFT * (width / reach) ** 2)
        return float(left**0.5 * reach * shrink)

    models, judges = len(setup.models), 1 if setup.bench.scoring.judges_mean else max(len(setup.judges), 1)
    family = max(models * (models - 1) // 2, 1) * judges
    gap_width = planned_width(statistics.median(gaps or [2**0.5 * width for width in widths]), 2)
    if smallest_p(planned[0]) * family > LEVEL:
        remarks.insert(
            0,
            f"{planned[0]} cluster{'' if planned[0] == 1 else 's'} cannot show a difference whatever the data: it "
            f"takes at least {clusters_needed(family)} for {family} pair{'' if family == 1 else 's'}",
        )
    smallest = detectable(gap_width, clusters=planned[0], df=planned[1], family=family)
    return Precision(
        metric=earlier.measure,
        half_width=round(planned_width(statistics.median(widths), 1), 3),
        gap_half_width=round(gap_width, 3),
        detectable=None if smallest is None else round(smallest, 3),
        family=family,
        n_clusters=planned[0],
        seeds=setup.options.seeds,
        repeats=setup.options.repeats,
        source=earlier.source,
        remarks=tuple(remarks),
    )


@dataclass(frozen=True)
class Earlier:
    """Earlier scores of the same benchmark, from a run or released with it."""

    source: str
    like: Path | None
    protocol: str
    aggregate: Aggregate
    cases: Sequence[AnyCase]
    scores: Sequence[Score]

    @property
    def measure(self) -> str:
        return self.aggregate.measures[-1].name

    def half_widths(self) -> tuple[list[float], list[float]]:
        """Half of the 95 % intervals: of each system's number, and of gaps between systems of the same judge."""
        if not self.aggregate.overall(self.cases):
            return [], []
        alone = replace(self.aggregate, slices=self.aggregate.overall)
        widths = [
            (row.ci95[1] - row.ci95[0]) / 2
            for row in tabulate(self.protocol, alone, self.scores, self.cases, draws=500)
            if row.metric == self.measure and row.ci95
        ]
        systems = list(dict.fromkeys((score.model, score.judge) for score in self.scores))
        couples = [(a, b) for i, a in enumerate(systems) for b in systems[i + 1 :] if a[1] == b[1]][:MOST_PAIRS]
        gaps = paired_gaps(alone, self.scores, self.cases, couples, self.measure, draws=500)
        return widths, [(gap.ci95[1] - gap.ci95[0]) / 2 for gap in gaps if gap.ci95]


def earlier_scores(bench: Benchmark, like: Path | None) -> Earlier | None:
    cases: Sequence[AnyCase]
    scores: Sequence[Score]
    if like is not None:
        result = score_run(like, draws=0)
        protocol = result.table.rows[0].protocol
        cases, scores = result.cases, [s for s in result.scores if s.protocol == protocol]
        source = f"the scores in {like}"
    elif bench.reporting.released is not None:
        cases, scores = bench.reporting.released(None)
        protocol, source = scores[0].protocol, "the released item scores"
    else:
        return None
    return Earlier(source, like, protocol, bench.scoring.protocols[protocol].aggregate, cases, scores)


def clusters_of(cases: Sequence[AnyCase]) -> tuple[int, int]:
    """How many clusters the cases are of, and degrees of freedom."""
    if not cases:
        return 0, 0
    design = Design.of([case.cluster for case in cases], [case.stratum for case in cases])
    return design.n_clusters, design.degrees_of_freedom(np.ones(len(cases), dtype=np.bool_))


def _gain(earlier: Earlier, options: RunOptions) -> tuple[float, list[str]]:
    """What other numbers of seeds and repeats than the earlier ones take from the variance of a model's number, and
    what is not known about that."""
    drawn: dict[str, list[Score]] = {}
    if earlier.like is not None:
        for score in run_draws(earlier.like, protocol=earlier.protocol):
            drawn.setdefault(score.model, []).append(score)
    cases = earlier.cases
    estimates = [panel_of(earlier.aggregate, cases, scores, earlier.measure) for scores in drawn.values()]
    panels = [panel for panel in estimates if panel is not None]
    _, had_seeds, had_repeats = panels[0].counts if panels else (1, 1, 1)
    gain, remarks = 0.0, []
    for what, more in (("seeds", options.seeds - had_seeds), ("repeats", options.repeats - had_repeats)):
        of_all = gain_of(panels, **{what: more}) if panels and more else None
        if of_all is not None:
            gain += of_all / len(panels)
        elif more:
            remarks.append(f"what more {what} would change is not known from these scores, which are of one")
    (overall,) = earlier.aggregate.overall(cases)
    return gain / effective_n(overall.weights(np.ones(len(cases), dtype=np.bool_))), remarks
