"""Planning: calls, tokens, money and time before anything is spent, and what differences the result can show."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from refbench.benchmarks.benchmark import Asked, Benchmark, Judging, Material
from refbench.calls import Budget, Transport
from refbench.case import AnyCase
from refbench.chat.http import HttpVLM
from refbench.chat.sent import SentPicture, prepare
from refbench.chat.vlm import Pictures
from refbench.comparison import paired_gap
from refbench.engine.judging import _MOST_REPEATS
from refbench.engine.setup import Setup, set_up
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.models import GivenOutputs
from refbench.order import fair_order
from refbench.record import Record, RefBenchError, content_key
from refbench.runs import Run
from refbench.score import Score
from refbench.scoring import score_run
from refbench.stats import detectable
from refbench.table import tabulate

_SAMPLE = 40
"""Cases whose requests are really laid out; the others are taken to be like them."""
_REPLY_TOKENS = 400
"""What a reply has when no earlier reply tells: about six questions with an explanation each."""
_SECONDS = 6.0
"""What a call takes when no earlier call tells."""


class Precision(Record):
    """How sharp the result will be, read off earlier scores: half of the 95 % interval of a model's number, and
    of a paired gap; a smaller true gap than `detectable` will usually not be told from none."""

    metric: str
    half_width: float
    gap_half_width: float
    detectable: float
    source: str


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
    scale = len(setup.cases) / min(_SAMPLE, len(setup.cases)) * repeats
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
        precision=_precision(setup.bench, sized, like),
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


def _precision(bench: Benchmark, n_cases: int, like: Path | None) -> Precision | None:
    """Table a sample of that size from earlier scores, and read the widths off."""
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
    chosen = fair_order(cases)[:n_cases]
    if len(chosen) < 2:
        return None
    ids = {case.id for case in chosen}
    kept = [score for score in scores if score.case in ids]
    measure = aggregate.measures[-1].name
    systems = list(dict.fromkeys((score.model, score.judge) for score in kept))
    rows = tabulate(protocol, aggregate, kept, chosen, draws=500)
    widths = [
        (r.ci95[1] - r.ci95[0]) / 2 for r in rows if r.metric == measure and r.slice["level"] == "overall" and r.ci95
    ]
    gaps = [
        (gap.ci95[1] - gap.ci95[0]) / 2
        for first, second in pairwise(systems)
        if (gap := paired_gap(aggregate, kept, chosen, first, second, measure, draws=500)).ci95
    ]
    if not widths:
        return None
    # When more cases are planned than there are earlier scores, widths shrink with the root of the number.
    shrink = (len(chosen) / n_cases) ** 0.5
    gap_width = statistics.median(gaps or widths) * shrink
    return Precision(
        metric=measure,
        half_width=round(statistics.median(widths) * shrink, 3),
        gap_half_width=round(gap_width, 3),
        detectable=round(detectable(gap_width), 3),
        source=source,
    )
