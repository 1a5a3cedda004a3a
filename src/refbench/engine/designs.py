"""How to split money before it is spent: over cases, seeds, judges, repeats and people's marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path

from refbench.analysis.compare.draws import Panel, panel_of
from refbench.analysis.precision.designs import GapNoise, corrected_error, gap_noise
from refbench.calls.prices import Budget
from refbench.calls.transport import Transport
from refbench.case import AnyCase
from refbench.engine.options import RunOptions
from refbench.engine.plan import MOST_PAIRS, Earlier, Plan, clusters_of, earlier_scores, make_plan
from refbench.engine.setup import prepare_run
from refbench.judges.panel import MEAN
from refbench.record import Record, RefBenchError, counted
from refbench.score import Score
from refbench.stats import detectable
from refbench.stats.quantiles import t_quantile
from refbench.tables.scoring import run_draws

_MOST_SEEDS, _MOST_REPEATS = 5, 3
_SIZES = 100
"""Numbers of cases that are tried."""
_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
"""Of the cases, for people to mark."""
_ENDLESS = "1000000000usd"
_OF_GAPS = (
    "the judge follows people in differences of two models as closely as in single outputs (--human-agreement; where "
    "cases are easy or hard for all models it follows differences less, and people's marks correct less than is said)"
)
_FEWEST_MARKED = 20
"""Cases that people mark at the least: fewer say nothing about how far a judge is off."""


class Spent(Record):
    """One design: how the money goes, and the smallest true gap that it would find four times in five."""

    cases: int
    clusters: int
    seeds: int
    judges: tuple[str, ...]
    repeats: int
    by_people: int
    """Cases of which people mark every model's output."""
    calls: int
    pictures: int
    marks: int
    marks_usd: float
    cost_usd: float
    cap_usd: float
    """The budget that it takes: a run begins a case only while the most that all its calls can cost is left."""
    detectable: float | None
    """None where so few clusters can show nothing."""
    label: str = ""


class Spending(Record):
    """A few designs, the best first. `within` says whether it finds the gap asked for with the money given."""

    benchmark: str
    decide: tuple[str, ...]
    family: int
    measure: str
    source: str
    budget_usd: float | None
    gap: float | None
    all_cases: int
    designs: tuple[Spent, ...]
    within: bool | None
    least_usd: float | None
    """What the cheapest design costs that finds the gap, whatever the budget; None where none does."""
    least_budget_usd: float | None = None
    """The smallest budget under which some design finds the gap (`cap_usd`); None where none does."""
    remarks: tuple[str, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class People:
    """Marks of people: what one costs, and how a judge's marks correlate with theirs on single outputs."""

    price: float
    agreement: float


@dataclass(frozen=True)
class _Prices:
    """Dollars and calls of one case for all the models, with one seed and one repeat."""

    judges: tuple[tuple[str, float, float], ...]
    """Name, dollars, calls."""
    picture_usd: float
    pictures: float
    models: int
    people: People | None
    aside_usd: float
    """What a run sets aside before a case begins, with one seed and one repeat of every judge."""


async def split(
    options: RunOptions, decide: Sequence[str], *, gap: float | None, pilot: Path | None, people: People | None
) -> Spending:
    """The designs that tell the models to be decided among apart for the least money; sends nothing."""
    budget = Budget.parse(options.budget).cap
    if gap is None and budget is None:
        raise RefBenchError("--decide needs --budget, --gap or both: what may be spent, or what is to be told apart")
    if gap is not None and gap <= 0:
        raise RefBenchError(f"--gap {gap:g}: write the difference that is to be found, above 0")
    if people is not None and not (0 <= people.agreement <= 1 and people.price >= 0):
        raise RefBenchError("--human-price is 0 or more, --human-agreement a correlation from 0 to 1")
    plain = options.model_copy(update={"seeds": 1, "repeats": 1, "budget": _ENDLESS, "out": None, "limit": None})
    async with Transport(concurrency=options.concurrency) as transport:
        setup = prepare_run(plain, transport)
        setup.prices_must_be_known("--decide" if budget is None else "--budget")
    known = [model.name for model in setup.models]
    wanted = list(dict.fromkeys(decide or known))
    if strangers := [name for name in wanted if name not in known]:
        raise RefBenchError(f"--decide {strangers[0]}: the models are {', '.join(known)}: give each by --model")
    if len(wanted) < 2:
        raise RefBenchError("--decide needs at least two models")
    plan = await make_plan(plain, like=pilot, precise=False)
    earlier = earlier_scores(setup.bench, pilot)
    if earlier is None:
        raise RefBenchError(f"no item scores of {setup.bench.title} were released: give --pilot RUN, a small run of it")
    noise, remarks = _noise(earlier, wanted, len(setup.judges), setup.bench.scoring.judges_mean)
    prices = _prices(plan, len(wanted), len(known), people)
    sizes = _sizes(setup.cases)
    family = len(wanted) * (len(wanted) - 1) // 2
    tried = list(_tried(noise, prices, sizes, family))
    if not tried:
        cases = counted(len(setup.cases), "case")
        raise RefBenchError(f"--decide: no design can be made of {cases}: give cases of two clusters or more")
    return _chosen(
        tried,
        Spending(
            benchmark=setup.bench.name,
            decide=tuple(wanted),
            family=family,
            measure=earlier.measure,
            source=f"{earlier.source} ({noise.first} and {noise.second})",
            budget_usd=budget,
            gap=gap,
            all_cases=len(setup.cases),
            designs=(),
            within=None,
            least_usd=None,
            remarks=tuple(remarks),
            assumptions=(*plan.assumptions, *([_OF_GAPS] if people else [])),
        ),
    )


def _noise(earlier: Earlier, wanted: Sequence[str], n_judges: int, means: bool) -> tuple[GapNoise, list[str]]:
    """The pair with the widest error among those to be decided, or among all where the pilot has not all of these."""
    drawn: dict[str, list[Score]] = {}
    if earlier.like is not None:
        for score in run_draws(earlier.like, protocol=earlier.protocol):
            drawn.setdefault(score.model, []).append(score)
    panels: dict[str, Panel] = {}
    for model, scores in drawn.items():
        panel = panel_of(earlier.aggregate, earlier.cases, scores, earlier.measure)
        if panel is not None:
            panels[model] = panel
    remarks = []
    there = list(dict.fromkeys(score.model for score in earlier.scores))
    models = [model for model in there if model in wanted]
    if len(models) < len(wanted):
        models = there
        remarks.append(f"{earlier.source} lack some of {', '.join(wanted)}: the widest of their own gaps stands for it")
    judges = list(dict.fromkeys(score.judge for score in earlier.scores))
    judge = MEAN if MEAN in judges else judges[0]
    counts = clusters_of(earlier.cases)
    found = [
        gap_noise(
            earlier.aggregate, earlier.cases, earlier.scores, ((a, judge), (b, judge)), earlier.measure, panels, counts
        )
        for a, b in list(combinations(models, 2))[:MOST_PAIRS]
    ]
    errors = [one for one in found if one is not None]
    if not errors or counts[1] < 1:
        raise RefBenchError(f"{earlier.source} tell no error of a gap: give --pilot RUN with at least two models")
    widest = max(errors, key=lambda one: one.error)
    if judge != MEAN:
        widest = widest.model_copy(update={"fixed": tuple(dict.fromkeys((*widest.fixed, "judges")))})
    if unknown := [name for name in ("seeds", "repeats") if name in widest.fixed]:
        remarks.append(
            f"what more {' and '.join(unknown)} would change is not known from {earlier.source}, which are of one: "
            "not varied"
        )
    if "judges" in widest.fixed and n_judges > 1:
        why = "are not of several judges" if means else "have no mean of judges: each is a number of its own"
        remarks.append(f"all {n_judges} judges are asked in every design: {earlier.source} {why}")
    return widest, remarks


def _prices(plan: Plan, decided: int, models: int, people: People | None) -> _Prices:
    share = decided / models / plan.cases
    judges = tuple((one.judge, (one.cost_usd or 0.0) * share, one.calls * share) for one in plan.judges)
    aside = (plan.set_aside_usd or 0.0) * decided / models
    return _Prices(judges, (plan.pictures_usd or 0.0) * share, plan.pictures * share, decided, people, aside)


def _sizes(cases: Sequence[AnyCase]) -> list[tuple[int, int, int]]:
    """Numbers of cases of the fair order, with their clusters and degrees of freedom."""
    numbers = sorted({max(2, round(len(cases) * (step / _SIZES) ** 1.5)) for step in range(1, _SIZES + 1)})
    found = [(number, *clusters_of(cases[:number])) for number in numbers if number <= len(cases)]
    return [size for size in found if size[2] >= 1]


def _tried(noise: GapNoise, prices: _Prices, sizes: Sequence[tuple[int, int, int]], family: int) -> Iterator[Spent]:
    """Every design, people's marks included where these have a price."""
    seeds = range(1, 2 if "seeds" in noise.fixed else _MOST_SEEDS + 1)
    repeats = range(1, 2 if "repeats" in noise.fixed else _MOST_REPEATS + 1)
    judges = [len(prices.judges)] if "judges" in noise.fixed else range(1, len(prices.judges) + 1)
    for s, j, r, (cases, clusters, df) in product(seeds, judges, repeats, sizes):
        asked = prices.judges[:j]
        usd = cases * s * (prices.picture_usd + r * sum(cost for _, cost, _ in asked))
        aside = prices.aside_usd * s * r * (j / len(prices.judges))
        error = noise.error_with(clusters, s, noise.judges if "judges" in noise.fixed else j, r)
        for marked in _marked(cases, prices.people):
            people, df_left, clusters_left = prices.people, df, clusters
            of_gap = error
            if people is not None:
                clusters_left = max(round(clusters * marked / cases), 2)
                df_left = max(df - (clusters - clusters_left), 1)
                of_gap = corrected_error(error, clusters, clusters_left, people.agreement)
            reach = of_gap * t_quantile(0.975, df_left)
            least = detectable(reach, clusters=clusters_left, df=df_left, family=family)
            marks = marked * prices.models
            paid = marks * people.price if people else 0.0
            yield Spent(
                cases=cases,
                clusters=clusters,
                seeds=s,
                judges=tuple(name for name, _, _ in asked),
                repeats=r,
                by_people=marked,
                calls=round(cases * s * r * sum(calls for _, _, calls in asked)),
                pictures=round(cases * s * prices.pictures),
                marks=marks,
                marks_usd=round(paid, 4),
                cost_usd=round(usd + paid, 4),
                cap_usd=round(usd + paid + max(aside - usd / cases, 0.0), 4),
                detectable=None if least is None else round(least, 4),
            )


@cache
def _marked(cases: int, people: People | None) -> tuple[int, ...]:
    """How many of the cases people may mark; none of them where nobody asks for people."""
    if people is None:
        return (0,)
    return tuple(sorted({n for share in _SHARES if (n := round(cases * share)) >= _FEWEST_MARKED}))


def _chosen(tried: Sequence[Spent], blank: Spending) -> Spending:
    """The best design, and beside it the best with more of each thing."""
    gap, budget = blank.gap, blank.budget_usd
    affordable = [one for one in tried if budget is None or one.cap_usd <= budget]
    finding = [one for one in tried if gap is not None and one.detectable is not None and one.detectable <= gap]
    least = min(finding, key=_cheapest, default=None)
    smallest = min(finding, key=_least_budget, default=None)
    if not affordable:
        cheapest = min(tried, key=_least_budget)
        cost = f"the smallest takes {cheapest.cap_usd:.4f} usd, with what a run sets aside"
        raise RefBenchError(f"--budget {budget:g}usd covers no design: {cost}")
    within = None if gap is None else any(one in affordable for one in finding)
    kinds: dict[str, Callable[[Spent], bool]] = {
        "best": lambda one: True,
        "half the money": lambda one: bool(shown) and one.cost_usd <= shown[0].cost_usd / 2,
        "one of each": lambda one: one.seeds == one.repeats == len(one.judges) == 1,
        "more seeds": lambda one: one.seeds > 1,
        "more judges": lambda one: len(one.judges) > 1,
        "more repeats": lambda one: one.repeats > 1,
    }
    shown: list[Spent] = []
    for label, is_one in kinds.items():
        mine = [one for one in affordable if is_one(one)]
        found = [one for one in mine if one in finding] if within else []
        best = min(found, key=_cheapest, default=None) or min(mine, key=_sharpest, default=None)
        if best is not None and all(_numbers(best) != _numbers(other) for other in shown):
            shown.append(best.model_copy(update={"label": label}))
    whole = [one for one in tried if one.cases == blank.all_cases and kinds["one of each"](one)]
    if whole and all(one.cases < blank.all_cases for one in shown):
        over = " (over budget)" if budget is not None and whole[0].cap_usd > budget else ""
        shown.append(whole[0].model_copy(update={"label": f"all cases{over}"}))
    return blank.model_copy(
        update={
            "designs": tuple(shown),
            "within": within,
            "least_usd": least.cost_usd if least else None,
            "least_budget_usd": smallest.cap_usd if smallest else None,
        }
    )


def _numbers(one: Spent) -> tuple[object, ...]:
    return one.cases, one.seeds, one.judges, one.repeats, one.by_people


def _cheapest(one: Spent) -> tuple[float, float]:
    return one.cost_usd, one.detectable if one.detectable is not None else float("inf")


def _least_budget(one: Spent) -> tuple[float, float]:
    return one.cap_usd, one.cost_usd


def _sharpest(one: Spent) -> tuple[float, float]:
    return one.detectable if one.detectable is not None else float("inf"), one.cost_usd


def says(found: Spending) -> str:
    """What the money can do, in one sentence."""
    best = found.designs[0]
    cases = counted(best.cases, "case")
    reach = "nothing, as so few cases can show no difference"
    if best.detectable is not None:
        reach = f"a true gap of {best.detectable:.2f} in {found.measure} at least 4 times in 5"
    among = f" among {found.family} pairs" if found.family > 1 else ""
    design = f"{cases}, {counted(best.seeds, 'seed')}, {counted(len(best.judges), 'judge')}, "
    design += f"{counted(best.repeats, 'repeat')}"
    if best.by_people:
        design += f", {counted(best.marks, 'mark')} by people"
    if found.gap is None:
        return f"About {best.cost_usd:.2f} usd find {reach}{among}: {design}."
    if found.within:
        return f"A gap of {found.gap:g} takes about {best.cost_usd:.2f} usd: {design}, which find {reach}{among}."
    least = "no design with these cases finds it"
    if found.least_budget_usd is not None:
        least = f"it takes one of about {found.least_budget_usd:.2f} usd, with what a run sets aside"
    within = "" if found.budget_usd is None else " within this budget"
    return f"A gap of {found.gap:g} cannot be told{within} ({least}); {design} find {reach}{among}."
