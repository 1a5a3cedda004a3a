"""Planning: calls, tokens, money and time before anything is spent, and what differences the result can show."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refbench.benchmarks.benchmark import Asked, Judging, Material
from refbench.calls import Budget, Transport
from refbench.case import AnyCase
from refbench.chat.http import HttpVLM
from refbench.chat.sent import SentPicture, prepare
from refbench.chat.vlm import Pictures
from refbench.comparison import paired_gap
from refbench.comparison.gap import gain_of, panel_of
from refbench.engine.judging import _MOST_REPEATS
from refbench.engine.setup import Setup, set_up
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.models import GivenOutputs
from refbench.record import Record, RefBenchError, content_key
from refbench.runs import Run
from refbench.score import Score
from refbench.scoring import run_draws, score_run
from refbench.stats import Design, clusters_needed, detectable, effective_n, smallest_p
from refbench.stats.effect import LEVEL
from refbench.stats.quantiles import t_quantile
from refbench.table import Aggregate, tabulate

_SAMPLE = 40
"""Cases whose requests are really laid out; the others are taken to be like them."""
_MOST_PAIRS = 28
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
    """The whole plan. `calls_known` of the calls are on record already and cost nothing."""

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
    budget_usd: float | None = None
    fits_cases: int | None = None
    """How many cases (of the fair order) the budget covers, at the expected cost of a call."""
    assumptions: tuple[str, ...] = ()


async def make_plan(
    name: str,
    *,
    models: Sequence[str],
    judges: Sequence[str],
    data: Path | None = None,
    subset: str | None = None,
    settings: Mapping[str, str] | None = None,
    limit: int | None = None,
    seeds: int = 1,
    repeats: int = 1,
    budget: str | None = None,
    out: Path | None = None,
    like: Path | None = None,
    concurrency: int = 32,
    rubric: str | None = None,
) -> Plan:
    """Lay out a sample of the requests, count, and scale up. Sends nothing."""
    async with Transport(concurrency=concurrency) as transport:
        setup = set_up(
            name,
            transport,
            models=models,
            judges=judges,
            data=data,
            subset=subset,
            settings=settings,
            limit=limit,
            rubric=rubric,
        )
    assert setup.bench.judging is not None
    judging = setup.bench.judging(setup.dataset.root, setup.settings)
    asked = [found for case in setup.cases[:_SAMPLE] for found in _asked(setup, case, judging)]
    if not asked:
        raise RefBenchError("none of the first cases has an output that can be judged: check --model")
    earlier = [act for path in (out, like) if path is not None and (path / "run.json").exists() for act in _acts(path)]
    recorded = {act.id for act in earlier if act.failure is None}
    assumptions: list[str] = []
    reply_tokens, seconds = _habits(earlier, assumptions)
    scale = len(setup.cases) / min(_SAMPLE, len(setup.cases)) * seeds * repeats
    plans = []
    calls = known = 0
    for judge in setup.judges:
        keys = [
            content_key({"kind": "chat", **judge.canonical(item.request, item.draw * _MOST_REPEATS)})
            for item, _ in asked
        ]
        here = sum(key in recorded for key in keys)
        new = [(item, pictures) for (item, pictures), key in zip(asked, keys, strict=True) if key not in recorded]
        calls += round(len(asked) * scale)
        known += round(here * scale)
        plans.append(_judge_plan(judge, new, scale, reply_tokens))
    cost, worst = (_total([getattr(plan, field) for plan in plans]) for field in ("cost_usd", "worst_usd"))
    money = Budget.parse(budget).cap
    fits = None
    if money is not None:
        if cost is None:
            raise RefBenchError(
                "--budget needs the price of every judge: add ?price=IN,OUT to the specs whose price is not known"
            )
        fits = len(setup.cases) if cost <= money else int(len(setup.cases) * money / cost)
    sized = fits if fits is not None else len(setup.cases)
    return Plan(
        benchmark=setup.bench.name,
        cases=len(setup.cases),
        models=len(setup.models),
        calls=calls,
        calls_known=known,
        judges=tuple(plans),
        cost_usd=cost,
        worst_usd=worst,
        seconds=round((calls - known) * seconds / max(concurrency * len(setup.judges), 1) + seconds, 1),
        precision=_precision(setup, sized, seeds, repeats, like),
        budget_usd=money,
        fits_cases=fits,
        assumptions=tuple(assumptions),
    )


def _asked(setup: Setup, case: AnyCase, judging: Judging) -> list[tuple[Asked, Pictures]]:
    found: list[tuple[Asked, Pictures]] = []
    for model in setup.models:
        paths = model.find(case) if isinstance(model, GivenOutputs) else Failure(kind="missing_output")
        if isinstance(paths, Failure):
            continue
        places = [*paths, *(setup.dataset.path(p) for p in (*case.request.pictures, *case.targets))]
        # Nothing is stored while planning: a re-encoded picture is counted by what it was.
        sent = [prepare(place, setup.policy, lambda data, name, place=place: place) for place in places]  # type: ignore[misc]
        ready = [picture for picture in sent if isinstance(picture, SentPicture)]
        if len(ready) < len(sent):
            continue
        outputs, inputs = len(paths), len(paths) + len(case.request.pictures)
        material = Material(tuple(ready[outputs:inputs]), tuple(ready[:outputs]), tuple(ready[inputs:]))
        if judging.compose is not None:
            material = judging.compose(case, material, lambda data, name: Path(name))
        made = [picture for picture in material.composed.values() if isinstance(picture, SentPicture)]
        pictures = {picture.sha256: picture for picture in (*ready, *made)}
        found += [(item, pictures) for item in judging.ask(case, material) if item.settled is None]
    return found


def _judge_plan(judge: Any, new: Sequence[tuple[Asked, Pictures]], scale: float, reply_tokens: int) -> JudgePlan:
    tokens = sum(judge.input_tokens(item.request, pics) for item, pics in new) if isinstance(judge, HttpVLM) else 0
    price = getattr(judge, "price", None)
    worst = [judge.worst_cost(item.request, pictures) for item, pictures in new]
    replies = round(len(new) * scale) * reply_tokens
    return JudgePlan(
        judge=judge.name,
        calls=round(len(new) * scale),
        input_tokens=round(tokens * scale),
        output_tokens=replies,
        cost_usd=round(price.cost(round(tokens * scale), replies), 4) if price else _free(worst),
        worst_usd=None if None in worst else round(sum(w for w in worst if w is not None) * scale, 4),
        price_source=price.source if price else None,
    )


def _free(worst: Sequence[float | None]) -> float | None:
    return 0.0 if all(cost == 0.0 for cost in worst) else None


def _habits(earlier: Sequence[Evidence], assumptions: list[str]) -> tuple[int, float]:
    """Tokens of a reply and seconds of a call, as earlier calls had them."""
    written = [act.output_tokens for act in earlier if act.output_tokens]
    lasted = [attempt.seconds for act in earlier for attempt in act.attempts[-1:] if attempt.seconds]
    if not written:
        assumptions.append(f"replies of {_REPLY_TOKENS} tokens")
    if not lasted:
        assumptions.append(f"{_SECONDS:g} s a call")
    return (
        round(statistics.fmean(written)) if written else _REPLY_TOKENS,
        statistics.fmean(lasted) if lasted else _SECONDS,
    )


def _acts(path: Path) -> list[Evidence]:
    return [evidence for _, evidence in Run.open(path).evidence()]


def _total(parts: Sequence[float | None]) -> float | None:
    return None if None in parts else round(sum(part for part in parts if part is not None), 4)


def _precision(setup: Setup, n_cases: int, seeds: int, repeats: int, like: Path | None) -> Precision | None:
    """Table all earlier scores, read the errors off, and scale them to the clusters, seeds and repeats to come."""
    bench = setup.bench
    cases: Sequence[AnyCase]
    scores: Sequence[Score]
    if like is not None:
        result = score_run(like, draws=0)
        protocol = result.table.rows[0].protocol
        cases, scores = result.cases, [s for s in result.scores if s.protocol == protocol]
        source = f"the scores in {like}"
    elif bench.released is not None:
        cases, scores = bench.released(None)
        protocol, source = scores[0].protocol, "the released item scores"
    else:
        return None
    aggregate = bench.protocols[protocol].aggregate
    measure = aggregate.measures[-1].name
    systems = list(dict.fromkeys((score.model, score.judge) for score in scores))
    widths = [
        (row.ci95[1] - row.ci95[0]) / 2
        for row in tabulate(protocol, aggregate, scores, cases, draws=500)
        if row.metric == measure and row.slice["level"] == "overall" and row.ci95
    ]
    couples = [(a, b) for i, a in enumerate(systems) for b in systems[i + 1 :] if a[1] == b[1]][:_MOST_PAIRS]
    gaps = [
        (gap.ci95[1] - gap.ci95[0]) / 2
        for a, b in couples
        if (gap := paired_gap(aggregate, scores, cases, a, b, measure, draws=500)).ci95
    ]
    before, planned = _clusters(cases), _clusters(setup.cases[:n_cases])
    if not widths or min(before[1], planned[1]) < 1:
        return None
    # Widths shrink with the root of the number of clusters, and Student's t widens what is left of few.
    shrink = (before[0] / planned[0]) ** 0.5 * t_quantile(0.975, planned[1]) / t_quantile(0.975, before[1])
    gain, remarks = _gain(like, aggregate, cases, measure, protocol, seeds, repeats)
    reach = t_quantile(0.975, before[1])

    def planned_width(width: float, models: int) -> float:
        """What seeds and repeats add is taken from the square of the error, since what a cluster shares stays."""
        left = max((width / reach) ** 2 - models * gain, _LEAST_LEFT * (width / reach) ** 2)
        return float(left**0.5 * reach * shrink)

    models, judges = len(setup.models), 1 if bench.judges_mean else max(len(setup.judges), 1)
    family = max(models * (models - 1) // 2, 1) * judges
    gap_width = planned_width(statistics.median(gaps or [2**0.5 * width for width in widths]), 2)
    hopeless = smallest_p(planned[0]) * family > LEVEL
    if hopeless:
        remarks.insert(
            0,
            f"{planned[0]} cluster{'' if planned[0] == 1 else 's'} cannot show a difference whatever the data: it "
            f"takes at least {clusters_needed(family)} for {family} pair{'' if family == 1 else 's'}",
        )
    found = detectable(gap_width, clusters=planned[0], df=planned[1], family=family)
    return Precision(
        metric=measure,
        half_width=round(planned_width(statistics.median(widths), 1), 3),
        gap_half_width=round(gap_width, 3),
        detectable=None if found is None else round(found, 3),
        family=family,
        n_clusters=planned[0],
        seeds=seeds,
        repeats=repeats,
        source=source,
        remarks=tuple(remarks),
    )


def _clusters(cases: Sequence[AnyCase]) -> tuple[int, int]:
    """How many clusters the cases are of, and degrees of freedom."""
    if not cases:
        return 0, 0
    design = Design.of([case.cluster for case in cases], [case.stratum for case in cases])
    return design.n_clusters, design.degrees_of_freedom(np.ones(len(cases), dtype=np.bool_))


def _gain(
    like: Path | None,
    aggregate: Aggregate,
    cases: Sequence[AnyCase],
    measure: str,
    protocol: str,
    seeds: int,
    repeats: int,
) -> tuple[float, list[str]]:
    """What other numbers of seeds and repeats than the earlier ones take from the variance of a model's number, and
    what is not known about that."""
    drawn: dict[str, list[Score]] = {}
    if like is not None:
        for score in run_draws(like, protocol=protocol):
            drawn.setdefault(score.model, []).append(score)
    found = [panel_of(aggregate, cases, scores, measure) for scores in drawn.values()]
    panels = [panel for panel in found if panel is not None]
    _, had_seeds, had_repeats = panels[0].counts if panels else (1, 1, 1)
    gain, remarks = 0.0, []
    for what, more in (("seeds", seeds - had_seeds), ("repeats", repeats - had_repeats)):
        of_all = gain_of(panels, **{what: more}) if panels and more else None
        if of_all is not None:
            gain += of_all / len(panels)
        elif more:
            remarks.append(f"what more {what} would change is not known from these scores, which are of one")
    (overall,) = aggregate.overall(cases)
    return gain / effective_n(overall.weights(np.ones(len(cases), dtype=np.bool_))), remarks
