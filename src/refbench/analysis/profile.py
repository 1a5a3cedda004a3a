"""The same models on several benchmarks, side by side: numbers on one scale, which abilities tell the models apart, and
where benchmarks disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from refbench.analysis.compare.draws import contrast_of
from refbench.benchmarks import names
from refbench.judges.panel import MEAN
from refbench.record import Record, RefBenchError
from refbench.score import digits_of
from refbench.stats import Array, Design, draws_of
from refbench.stats.correlation import kendall, kendall_draws
from refbench.tables.result import Result
from refbench.tables.scoring import released_result, score_run
from refbench.tables.table import DRAWS, SEED, Aggregate, Columns, case_values, columns_of, ranked, summaries

ENOUGH_FOR_TAU = 3
"""Models in both benchmarks that a rank correlation needs."""
_NO_SPREAD = 1e-12


class Standing(Record):
    """One model in one ability. `standard` is how far it is above the models that are in every benchmark, in standard
    deviations of single outputs, turned so that more is better; None where there is a gap, and `why`."""

    value: float | None
    standard: float | None
    ci95: tuple[float, float] | None
    n_scored: int
    n_expected: int
    why: str | None = None


class Ability(Record):
    """One measure of one benchmark, with every model's place in it.

    `spread` is the standard deviation of the models' standardised numbers, and `resolved` of `pairs` pairs of them are
    told apart by `refbench compare` in this measure, corrected over those pairs.
    """

    source: str
    benchmark: str
    measure: str
    headline: bool
    lower_is_better: bool
    unit: float | None
    """The standard deviation of single outputs, in the measure's own units."""
    digits: int
    standings: Mapping[str, Standing]
    spread: float | None
    resolved: int
    pairs: int


class Agreement(Record):
    """Two benchmarks' order of the models that both have. `reversed` are pairs of models that each of the two tells
    apart, the other way round."""

    first: str
    second: str
    models: tuple[str, ...]
    tau: float | None
    range95: tuple[float, float] | None
    """Of Kendall's tau over resamples of both benchmarks' cases; noise alone pulls it towards zero."""
    reversed: tuple[str, ...]


class Profile(Record):
    """Models in the order of their mean over the benchmarks' headline numbers, gaps left out."""

    models: tuple[str, ...]
    centre: tuple[str, ...]
    """The models whose mean is zero: those in every benchmark. Empty where these are fewer than two: then each
    benchmark has the mean of its own as zero."""
    abilities: tuple[Ability, ...]
    agreements: tuple[Agreement, ...]
    notes: tuple[str, ...] = ()

    def headlines(self) -> list[Ability]:
        return [ability for ability in self.abilities if ability.headline]


@dataclass(frozen=True)
class _View:
    """One benchmark as one judge sees it: its systems under one protocol, by the models' common names."""

    label: str
    result: Result
    protocol: str
    judge: str | None
    own: Mapping[str, str]
    """The run's name of each model, by its common name."""

    @property
    def aggregate(self) -> Aggregate:
        return self.result.bench.scoring.protocols[self.protocol].aggregate


def profile(
    operands: Sequence[str],
    *,
    same: Mapping[str, str] | None = None,
    protocol: str | None = None,
    judge: str | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Profile:
    """The runs (or benchmarks with released scores) side by side. `same` maps a name to the one that it is shown by."""
    views = _views(operands, same or {}, protocol, judge)
    everyone = list(dict.fromkeys(model for view in views for model in view.own))
    if len(everyone) < 2:
        raise RefBenchError(f"there is one model ({everyone[0]}): a profile is about at least two")
    centre = [model for model in everyone if all(model in view.own for view in views)]
    centre = centre if len(centre) > 1 else []
    notes = _notes(views, everyone, centre)
    found = [one for view in views for one in _abilities(view, everyone, centre, (draws, seed))]
    heads = [one for one in found if one.ability.headline]
    order = sorted(everyone, key=lambda model: -_mean_standing(model, [one.ability for one in heads]))
    return Profile(
        models=tuple(order),
        centre=tuple(centre),
        abilities=tuple(one.ability for one in found),
        agreements=tuple(_agreement(first, second) for first, second in combinations(heads, 2)),
        notes=tuple(notes),
    )


def _mean_standing(model: str, headlines: Sequence[Ability]) -> float:
    known = [s for a in headlines if (s := a.standings[model].standard) is not None]
    return sum(known) / len(known) if known else -np.inf


def _views(operands: Sequence[str], same: Mapping[str, str], protocol: str | None, judge: str | None) -> list[_View]:
    """Each benchmark by each judge (by the mean of them where that is its number)."""
    found: list[_View] = []
    results = [(word, _result(word, protocol)) for word in operands]
    known = {model for _, result in results for model in result.seeds}
    stranger = next((name for name in (*same, *same.values()) if name not in known), None)
    if stranger is not None:
        raise RefBenchError(f"--same: there is no model {stranger}; there are {', '.join(sorted(known))}")
    titles = [result.bench.title for _, result in results]
    for word, result in results:
        title = result.bench.title
        title = title if titles.count(title) == 1 else f"{title} ({Path(word).name})"
        chosen = protocol or result.table.rows[0].protocol
        judges = list(dict.fromkeys(score.judge for score in result.scores if score.protocol == chosen))
        if result.bench.scoring.judges_mean and MEAN in judges:
            judges = [MEAN]
        if judge is not None:
            judges = [name for name in judges if name is None or name.casefold() == judge.casefold()]
            if not judges:
                raise RefBenchError(f"--judge {judge}: {word} was not judged by it")
        for name in judges:
            models = [s.model for s in result.scores if s.judge == name and s.protocol == chosen]
            own: dict[str, str] = {}
            for model in dict.fromkeys(models):
                common = same.get(model, model)
                if common in own:
                    raise RefBenchError(f"--same {own[common]}={model}: {word} has both")
                own[common] = model
            found.append(_View(f"{title} by {name}" if len(judges) > 1 else title, result, chosen, name, own))
    labels = [view.label for view in found]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise RefBenchError(f"{twice} is given twice: name each run once")
    return found


def _result(word: str, protocol: str | None) -> Result:
    if word in names() and not (Path(word) / "run.json").exists():
        return released_result(word, protocol=protocol or "both", draws=0)
    result = score_run(Path(word), protocol=protocol or "both", draws=0)
    result.needs_all_calls("a profile", word)
    return result


def _notes(views: Sequence[_View], everyone: Sequence[str], centre: Sequence[str]) -> list[str]:
    notes = []
    if not centre:
        notes.append(
            "fewer than two models are in every benchmark: each has the mean of its own models as zero, so that "
            "numbers of one cannot be compared with those of another"
        )
    for view in views:
        absent = [model for model in everyone if model not in view.own]
        if absent:
            notes.append(f"{view.label} has no {', '.join(absent)}: a gap, not a zero")
        if stop := view.result.stopped_said(view.own.values()):
            notes.append(f"{view.label}: {stop}")
    protocols = {view.label: view.protocol for view in views}
    if len(set(protocols.values())) > 1:
        notes.append("protocols differ: " + ", ".join(f"{label} {name}" for label, name in protocols.items()))
    return notes


@dataclass(frozen=True)
class _Measured:
    """An ability with what its agreement with others is computed from."""

    ability: Ability
    models: list[str]
    point: Array
    """The models' standardised numbers; empty where there is no unit."""
    drawn: Array
    """Models x draws of these."""
    ahead: frozenset[tuple[str, str]]
    """Pairs that are told apart, the better one first."""


@dataclass(frozen=True)
class _Frame:
    """One benchmark's columns, and whom they are about."""

    view: _View
    columns: Columns
    singles: Mapping[str, Array]
    everyone: Sequence[str]
    centre: Sequence[str]
    draws: int
    seed: int


def _abilities(
    view: _View, everyone: Sequence[str], centre: Sequence[str], drawing: tuple[int, int]
) -> list[_Measured]:
    """Every measure of a benchmark that was tried, in the order of its table."""
    result = view.result
    scores = [s for s in result.scores if s.protocol == view.protocol and s.judge == view.judge]
    columns = columns_of(scores, result.cases)
    singles = case_values(view.aggregate, columns, result.cases)
    frame = _Frame(view, columns, singles, everyone, centre, *drawing)
    found = [_ability(frame, measure.name) for measure in view.aggregate.measures]
    return [one for one in found if one is not None]


def _ability(frame: _Frame, measure: str) -> _Measured | None:
    """None for a measure that was not tried."""
    view, lower = frame.view, frame.view.result.bench.scoring.lower
    rows = view.result.rows(protocol=view.protocol, metric=measure, level="overall")
    places = {place.row.model: place for place in ranked([row for row in rows if row.judge == view.judge], lower)}
    if not any(place.row.tried for place in places.values()):
        return None
    there = [
        model
        for model in frame.everyone
        if (place := places.get(view.own.get(model, ""))) is not None and place.rank is not None
    ]
    unit, point, drawn, intervals = _standardised(frame, measure, there)
    standings = {}
    for model in frame.everyone:
        place = places.get(view.own.get(model, ""))
        at = there.index(model) if model in there and unit is not None else None
        row = place.row if place else None
        why = place.why_not if place else "not in this benchmark"
        standings[model] = Standing(
            value=row.value if row else None,
            standard=None if at is None else round(float(point[at]), 9),
            ci95=None if at is None else intervals[at],
            n_scored=row.n_scored if row else 0,
            n_expected=row.n_expected if row else 0,
            why=why or (None if unit is not None else "its outputs have no spread to measure by"),
        )
    ahead = _told_apart(frame, measure, there)
    ability = Ability(
        source=view.label,
        benchmark=view.result.bench.name,
        measure=measure,
        headline=measure == view.result.summary(view.protocol),
        lower_is_better=measure in lower,
        unit=unit,
        digits=digits_of(standing.value for standing in standings.values()),
        standings=standings,
        spread=None if unit is None or len(there) < 2 else round(float(np.std(point, ddof=1)), 9),
        resolved=len(ahead),
        pairs=len(there) * (len(there) - 1) // 2,
    )
    return _Measured(ability, there, point, drawn, ahead)


def _standardised(
    frame: _Frame, measure: str, there: Sequence[str]
) -> tuple[float | None, Array, Array, list[tuple[float, float] | None]]:
    """The unit; each model's number less the centre's, in units; draws of that; and intervals. The unit is taken as
    known: what it is uncertain by is common to all models."""
    view, cases = frame.view, frame.view.result.cases
    nothing: tuple[Array, Array] = np.zeros(0), np.zeros((0, 0))
    index = {model: i for i, (model, _) in enumerate(frame.columns.systems)}
    rows = [index[view.own[model]] for model in there]
    zero = [there.index(model) for model in (frame.centre or there) if model in there]
    single = frame.singles.get(measure)
    if single is None or not rows or not zero:
        return None, *nothing, []
    spreads = [float(np.var(one[np.isfinite(one)], ddof=1)) for one in single[rows] if np.isfinite(one).sum() > 1]
    unit = float(np.mean(spreads)) ** 0.5 if spreads else 0.0
    if unit <= _NO_SPREAD:
        return None, *nothing, []
    values, overall = view.aggregate.filled(frame.columns), view.aggregate.overall(cases)
    sign = -1 if measure in view.result.bench.scoring.lower else 1

    def standard(weights: Array) -> Array:
        level = summaries(view.aggregate, values, weights, overall)[0, measure][rows]
        above: Array = sign * (level - level[zero].mean(axis=0)) / unit
        return above

    design = Design.of([case.cluster for case in cases], [case.stratum for case in cases])
    point = standard(np.ones((1, len(cases))))[:, 0]
    drawn, influence = draws_of(standard, design, frame.draws, frame.seed)
    intervals = []
    for i, value in enumerate(point):
        interval = contrast_of(float(value), drawn[i], influence[i], design).interval()
        intervals.append(None if interval is None else (round(interval[0], 9), round(interval[1], 9)))
    return round(unit, 9), point, drawn, intervals


def _told_apart(frame: _Frame, measure: str, there: Sequence[str]) -> frozenset[tuple[str, str]]:
    """The pairs that `compare` resolves in a measure, the better one first."""
    if len(there) < 2:
        return frozenset()
    view = frame.view
    named = {view.own[model]: model for model in there}
    comparison = view.result.compare(
        *named, protocol=view.protocol, judges=[view.judge], metric=measure, draws=frame.draws, by_slice=False
    )
    ahead = []
    for pair in comparison.pairs:
        if pair.resolved and pair.gap is not None:
            both = named[pair.first], named[pair.second]
            ahead.append(both if comparison.better(pair.gap) else both[::-1])
    return frozenset(ahead)


def _agreement(first: _Measured, second: _Measured) -> Agreement:
    """Over the models that both have; the two benchmarks' cases are drawn anew independently."""
    both = [model for model in first.models if model in second.models]
    tau, reach = None, None
    if len(both) >= ENOUGH_FOR_TAU and len(first.point) and len(second.point):
        mine, theirs = ([one.models.index(model) for model in both] for one in (first, second))
        x, xs, y, ys = first.point[mine], first.drawn[mine], second.point[theirs], second.drawn[theirs]
        tau = kendall(x, y)
        # Independent draws: one side's are taken in another order, since both begin with the same seed.
        taus = kendall_draws(xs.T, np.roll(ys, ys.shape[1] // 2, axis=1).T, np.ones((xs.shape[1], len(both))))
        taus = taus[np.isfinite(taus)]
        if tau is not None and len(taus) >= 100:
            low, high = np.quantile(taus, [0.025, 0.975])
            reach = round(float(low), 6), round(float(high), 6)
    reverse = [
        f"{a} above {b} in {first.ability.source}, below in {second.ability.source}"
        for a, b in sorted(first.ahead)
        if (b, a) in second.ahead
    ]
    return Agreement(
        first=first.ability.source,
        second=second.ability.source,
        models=tuple(both),
        tau=tau,
        range95=reach,
        reversed=tuple(reverse),
    )
