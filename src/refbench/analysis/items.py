"""What each case tells about the models: ceiling and floor, discrimination, copies, judge against people; which cases
tell nothing, and what dropping those does to the ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.agree.people import with_humans
from refbench.analysis.agree.ratings import MEASURED, Ratings, is_panel, ranges_of, ratings_of
from refbench.analysis.copies import CopyCheck
from refbench.benchmarks.kit.definition import ShownQuestion
from refbench.judges.panel import MEAN
from refbench.record import Record, RefBenchError, counted
from refbench.score import Score
from refbench.stats import Array, holm, mean_of_those_there
from refbench.stats.quantiles import t_quantile, t_tails
from refbench.tables.result import Result
from refbench.tables.table import SEED, Aggregate, case_values, columns_of, summaries

FEWEST_MODELS = 5
"""Models that a discrimination needs: a correlation of fewer points is mostly chance."""
_END = 0.01
"""The share of a scale within which a mark counts as its end."""
_APART = 3.0
"""Standard deviations of the judge from its line with people that are worth a look."""
_LEVEL = 0.05
_AT_RANDOM = 500

CEILING, FLOOR, AGAINST, COPIED, UNLIKE = (
    "every model at the top",
    "every model at the bottom",
    "weaker models do better",
    "copies of the input",
    "judge and people apart",
)
DROPPED = frozenset({CEILING, FLOOR, AGAINST, COPIED})
"""Reasons to drop a case. That a judge and people disagree is none: the case may be the one that shows a bias."""


class Item(Record):
    """One case in one measure, or one question of it. Discrimination is the correlation, over models, of what the case
    gives with the model's mean over all other cases; None where too few models differ."""

    case: str
    measure: str
    question: int | None = None
    text: str = ""
    n_models: int
    mean: float
    spread: float | None
    at: str = ""
    """ceiling, floor, or neither."""
    discrimination: float | None
    people: float | None = None
    """People's mean mark of the case's outputs."""
    off_people: float | None = None
    """How far the judge lies from its line with people there, in standard deviations of an output."""
    copies: int = 0


class MeasureItems(Record):
    """What the cases tell in one measure."""

    measure: str
    n_cases: int
    at_ceiling: int
    at_floor: int
    discrimination: float | None
    """The median over cases."""
    n_below_zero: int
    n_discriminating: int
    """Cases that have a discrimination."""
    n_questions: int = 0
    questions_at_ceiling: int = 0
    questions_at_floor: int = 0


class Doubtful(Record):
    """A case that tells nothing, or something odd, with the reasons."""

    case: str
    reasons: tuple[str, ...]
    dropped: bool


class Standing(Record):
    """A model with all cases, and without those dropped; `apart` is where it stands when the cases are chosen by the
    other models alone."""

    model: str
    value: float
    rank: int
    without: float | None
    rank_without: int | None
    rank_apart: int | None


class ItemReport(Record):
    """Everything `refbench items` says."""

    title: str
    fingerprint: str
    protocol: str
    judge: str
    measure: str
    n_cases: int
    models: tuple[str, ...]
    measures: tuple[MeasureItems, ...]
    items: tuple[Item, ...]
    doubtful: tuple[Doubtful, ...]
    standings: tuple[Standing, ...]
    swapped: int | None
    """Pairs of models whose order dropping those cases changes."""
    as_many_at_random: float | None
    """The share of random choices of as many cases that change the order of as many pairs."""
    notes: tuple[str, ...]

    @property
    def n_dropped(self) -> int:
        return sum(one.dropped for one in self.doubtful)


def item_report(
    result: Result,
    protocol: str,
    *,
    judge: str | None = None,
    humans: Ratings | None = None,
    copies: CopyCheck | str = "",
    answered: Iterable[Score] | None = None,
) -> ItemReport:
    """Analyse the cases of a result under one protocol. Of several judges without a mean of their own, the mean.

    `answered` are scores before repeats are averaged (`scoring.run_draws`): only they have the answers.
    """
    marks = _Marks.of(result, protocol, judge)
    notes = _notes(marks, copies)
    copied = _copied(copies)
    measure = result.summary(protocol)
    people = None if humans is None else _People(result, protocol, marks.judges, humans, notes)
    items = [item for name in marks.values for item in _items(marks, name, people, copied)]
    questions = _questions(result, protocol, marks, result.scores if answered is None else answered)
    mine = [item for item in items if item.measure == measure]
    doubtful = _doubtful(items, mine, marks, copied)
    dropping = _Dropping(result, protocol, marks, measure)
    dropped = np.array([one.dropped for one in (_by_case(doubtful).get(case) or _FINE for case in marks.cases)])
    standings, swapped, at_random = dropping.standings(
        dropped, lambda models: _chosen_by(marks, models, measure, copied)
    )
    return ItemReport(
        title=result.bench.title,
        fingerprint=result.table.fingerprint,
        protocol=protocol,
        judge=marks.said,
        measure=measure,
        n_cases=len(marks.cases),
        models=tuple(marks.models),
        measures=tuple(_of_measure(name, items, questions) for name in marks.values),
        items=(*items, *questions),
        doubtful=tuple(doubtful),
        standings=tuple(standings),
        swapped=swapped,
        as_many_at_random=at_random,
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Marks:
    """What each model has on each case in each measure that differs there: models x cases, the mean of the judges."""

    models: Sequence[str]
    cases: Sequence[str]
    judges: Sequence[str | None]
    values: Mapping[str, Array]
    ranges: Mapping[str, tuple[float, float]]
    lower: frozenset[str]
    said: str

    @classmethod
    def of(cls, result: Result, protocol: str, judge: str | None) -> _Marks:
        scores = [score for score in result.scores if score.protocol == protocol]
        there = list(dict.fromkeys(score.judge for score in scores))
        judges = _wanted(there, judge)
        aggregate = result.bench.scoring.protocols[protocol].aggregate
        columns = columns_of([score for score in scores if score.judge in judges], result.cases)
        models = list(dict.fromkeys(model for model, _ in columns.systems))
        by_system = case_values(aggregate, columns, result.cases)
        values: dict[str, Array] = {}
        for name, column in by_system.items():
            rows = [[i for i, (model, _) in enumerate(columns.systems) if model == wanted] for wanted in models]
            mine = np.stack([mean_of_those_there(column[those]) for those in rows])
            alike = [other for other, known in values.items() if np.array_equal(known, mine, equal_nan=True)]
            for other in alike:  # two ways of averaging over cases are one on single cases
                del values[other]
            if np.isfinite(mine).any():
                values[name] = mine
        names = [name for name in judges if name is not None]
        said = "no judge" if not names else names[0] if len(names) == 1 else f"mean of {', '.join(names)}"
        ranges = ranges_of(aggregate, result.cases)
        ids = [case.id for case in result.cases]
        return cls(models, ids, judges, values, ranges, result.bench.scoring.lower, said)

    def better(self, name: str) -> Array:
        """The values, turned so that more is better."""
        return -self.values[name] if name in self.lower else self.values[name]

    def at_end(self, name: str, models: Sequence[int] | None = None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Cases in which every model is at the best and at the worst end of the scale."""
        values = self.values[name] if models is None else self.values[name][list(models)]
        none = np.zeros(values.shape[1], dtype=np.bool_)
        if name not in self.ranges:
            return none, none
        low, high = self.ranges[name]
        there = np.isfinite(values)
        top = np.all(~there | (values >= high - _END * (high - low)), axis=0) & there.any(axis=0)
        bottom = np.all(~there | (values <= low + _END * (high - low)), axis=0) & there.any(axis=0)
        return (bottom, top) if name in self.lower else (top, bottom)


def _wanted(there: Sequence[str | None], judge: str | None) -> list[str | None]:
    if judge is not None:
        if judge not in there:
            raise RefBenchError(f"--judge {judge}: the judges are {', '.join(name or 'none' for name in there)}")
        return [judge]
    if MEAN in there:
        return [MEAN]
    return [name for name in there if name is None or not is_panel(name)]


def discrimination(values: Array) -> Array:
    """The corrected item-total correlation of each case: over models, its values with each model's mean over the other
    cases. NaN where fewer than `FEWEST_MODELS` have a value or either side does not differ."""
    there = np.isfinite(values)
    filled = np.where(there, values, 0.0)
    n = there.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        others = (filled.sum(axis=1, keepdims=True) - filled) / (n - there)
        both = there & np.isfinite(others)
        count = both.sum(axis=0)
        x, y = np.where(both, filled, 0.0), np.where(both, others, 0.0)
        x = np.where(both, x - x.sum(axis=0) / count, 0.0)
        y = np.where(both, y - y.sum(axis=0) / count, 0.0)
        spread = np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0))
        scale = float(np.nanmax(np.abs(values))) if there.any() else 1.0
        r: Array = (x * y).sum(axis=0) / spread
    return np.where((count >= FEWEST_MODELS) & (spread > 1e-12 * max(scale, 1e-300) ** 2), r, np.nan)


def least_telling(models: int) -> float:
    """The correlation of so many points that chance alone exceeds in one of twenty cases."""
    t = t_quantile(1 - _LEVEL / 2, models - 2)
    return float(t / (t**2 + models - 2) ** 0.5)


def _items(marks: _Marks, name: str, people: _People | None, copied: Mapping[str, int]) -> list[Item]:
    values = marks.values[name]
    tells = discrimination(marks.better(name))
    top, bottom = marks.at_end(name)
    n = np.isfinite(values).sum(axis=0)
    return [
        Item(
            case=case,
            measure=name,
            n_models=int(n[i]),
            mean=round(float(np.nanmean(values[:, i])), 9),
            spread=round(float(np.nanstd(values[:, i], ddof=1)), 9) if n[i] > 1 else None,
            at="ceiling" if top[i] else "floor" if bottom[i] else "",
            discrimination=_number(tells[i]),
            people=people.mean(case, name) if people else None,
            off_people=people.off(case, name) if people else None,
            copies=copied.get(case, 0),
        )
        for i, case in enumerate(marks.cases)
        if n[i]
    ]


def _number(value: float) -> float | None:
    return round(float(value), 9) if np.isfinite(value) else None


class _People:
    """How far the judge lies from its line with people, output by output, and on average over a case's."""

    def __init__(
        self, result: Result, protocol: str, judges: Sequence[str | None], humans: Ratings, notes: list[str]
    ) -> None:
        judged = ratings_of(result, protocol)
        measures = set(humans.metrics) & set(judged.metrics) or {result.summary(protocol)}
        kept = judged.with_marks(mark for mark in judged.marks if mark.item.metric in measures)
        ratings = with_humans(kept, humans, "--humans")
        notes += ratings.notes
        self.by_case: dict[tuple[str, str], tuple[float, float]] = {}
        for name in measures:
            judge: dict[tuple[str, str], list[float]] = defaultdict(list)
            people: dict[tuple[str, str], list[float]] = defaultdict(list)
            for mark in ratings.marks:
                if mark.item.metric == name and mark.value is not None:
                    if mark.rater in ratings.humans:
                        people[mark.item.case, mark.item.model].append(mark.value)
                    elif mark.rater in judges or mark.rater == MEASURED:
                        judge[mark.item.case, mark.item.model].append(mark.value)
            shared = [at for at in judge if at in people]
            if len(shared) < FEWEST_MODELS:
                notes.append(
                    f"people rated {counted(len(shared), 'output')} in {name}: too few to hold a judge against"
                )
                continue
            y = np.array([np.mean(judge[at]) for at in shared])
            x = np.array([np.mean(people[at]) for at in shared])
            apart = x - x.mean()
            slope = float(apart @ (y - y.mean()) / (apart @ apart)) if np.ptp(x) > 0 else 0.0
            off = y - y.mean() - slope * apart
            spread = float(np.std(off, ddof=2)) if len(shared) > 2 else 0.0
            cases: dict[str, list[int]] = defaultdict(list)
            for i, (case, _) in enumerate(shared):
                cases[case].append(i)
            for case, those in cases.items():
                deviation = float(off[those].mean() * len(those) ** 0.5 / spread) if spread > 0 else 0.0
                self.by_case[case, name] = float(x[those].mean()), deviation

    def mean(self, case: str, name: str) -> float | None:
        known = self.by_case.get((case, name))
        return None if known is None else round(known[0], 9)

    def off(self, case: str, name: str) -> float | None:
        known = self.by_case.get((case, name))
        return None if known is None else round(known[1], 6)


def _copied(copies: CopyCheck | str) -> dict[str, int]:
    """By case, how many models gave nearly what they were given."""
    if isinstance(copies, str):
        return {}
    models: dict[str, set[str]] = defaultdict(set)
    for flag in copies.flags:
        models[flag.case].add(flag.model)
    return {case: len(those) for case, those in models.items()}


def _questions(result: Result, protocol: str, marks: _Marks, answered: Iterable[Score]) -> list[Item]:
    """The questions of cases whose measures are made of answers: how many models were answered as is wanted."""
    expected: dict[str, dict[str, list[ShownQuestion]]] = {}
    for one in result.cases:
        if one.details is not None:
            for question in result.bench.asking.questions(one):
                expected.setdefault(one.id, {}).setdefault(question.metric, []).append(question)
    right: dict[tuple[str, str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    judges = {None, *marks.judges} if MEAN not in marks.judges else {score.judge for score in result.scores}
    for score in answered:
        if score.protocol != protocol or score.judge not in judges or not score.answers:
            continue
        shown = expected.get(score.case, {}).get(score.metric, [])
        if len(shown) != len(score.answers):
            continue
        for number, (question, answer) in enumerate(zip(shown, score.answers, strict=True)):
            if answer is not None and question.expected is not None:
                matched = answer.strip().casefold() == question.expected.strip().casefold()
                right[score.case, score.metric, number][score.model].append(float(matched))
    if not right:
        return []
    places = list(right)
    table = np.full((len(marks.models), len(places)), np.nan)
    for k, place in enumerate(places):
        for m, model in enumerate(marks.models):
            if right[place].get(model):
                table[m, k] = float(np.mean(right[place][model]))
    tells = discrimination(table)
    n = np.isfinite(table).sum(axis=0)
    return [
        Item(
            case=case,
            measure=metric,
            question=number + 1,
            text=expected[case][metric][number].text,
            n_models=int(n[k]),
            mean=round(float(np.nanmean(table[:, k])), 9),
            spread=round(float(np.nanstd(table[:, k], ddof=1)), 9) if n[k] > 1 else None,
            at="ceiling" if np.nanmin(table[:, k]) == 1 else "floor" if np.nanmax(table[:, k]) == 0 else "",
            discrimination=_number(tells[k]),
        )
        for k, (case, metric, number) in enumerate(places)
    ]


def _of_measure(name: str, items: Sequence[Item], questions: Sequence[Item]) -> MeasureItems:
    mine = [item for item in items if item.measure == name]
    asked = [item for item in questions if item.measure == name]
    tells = [item.discrimination for item in mine if item.discrimination is not None]
    return MeasureItems(
        measure=name,
        n_cases=len(mine),
        at_ceiling=sum(item.at == "ceiling" for item in mine),
        at_floor=sum(item.at == "floor" for item in mine),
        discrimination=float(np.median(tells)) if tells else None,
        n_below_zero=sum(r < 0 for r in tells),
        n_discriminating=len(tells),
        n_questions=len(asked),
        questions_at_ceiling=sum(item.at == "ceiling" for item in asked),
        questions_at_floor=sum(item.at == "floor" for item in asked),
    )


_FINE = Doubtful(case="", reasons=(), dropped=False)


def _by_case(doubtful: Sequence[Doubtful]) -> dict[str, Doubtful]:
    return {one.case: one for one in doubtful}


def _doubtful(items: Sequence[Item], mine: Sequence[Item], marks: _Marks, copied: Mapping[str, int]) -> list[Doubtful]:
    """Cases with a reason for a second look. A case is at an end where it is so in the measure that models are ranked
    by; that weaker models do better has to stand out among all cases (Holm)."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for item in mine:
        if item.at and item.n_models > 1:
            reasons[item.case].append(CEILING if item.at == "ceiling" else FLOOR)
    for case in _against({item.case: (item.discrimination, item.n_models) for item in mine}):
        reasons[case].append(AGAINST)
    for case, n in copied.items():
        if 2 * n > len(marks.models) > 1:
            reasons[case].append(f"{COPIED} by {n} of {len(marks.models)} models")
    for item in items:
        if item.off_people is not None and abs(item.off_people) > _APART:
            side = "above" if item.off_people > 0 else "below"
            reasons[item.case].append(f"{UNLIKE} in {item.measure} ({side})")
    order = {case: i for i, case in enumerate(marks.cases)}
    return [
        Doubtful(case=case, reasons=tuple(why), dropped=any(w.startswith(tuple(DROPPED)) for w in why))
        for case, why in sorted(reasons.items(), key=lambda one: order[one[0]])
    ]


def _against(tells: Mapping[str, tuple[float | None, int]]) -> list[str]:
    """Cases whose discrimination is below zero beyond chance, among all that have one."""
    known = {case: (r, n) for case, (r, n) in tells.items() if r is not None}
    ps = []
    for r, n in known.values():
        t = r * ((n - 2) / max(1 - r * r, 1e-12)) ** 0.5
        ps.append(t_tails(t, n - 2) / 2 if r < 0 else 1.0)
    return [case for case, p in zip(known, holm(ps), strict=True) if p <= _LEVEL]


def _chosen_by(marks: _Marks, models: Sequence[int], measure: str, copied: Mapping[str, int]) -> NDArray[np.bool_]:
    """Cases that would be dropped by the marks of these models alone, copies apart."""
    values = marks.better(measure)[list(models)]
    top, bottom = marks.at_end(measure, models)
    tells = discrimination(values)
    n = np.isfinite(values).sum(axis=0)
    against = set(_against({case: (_number(tells[i]), int(n[i])) for i, case in enumerate(marks.cases)}))
    by_copy = [2 * copied.get(case, 0) > len(marks.models) for case in marks.cases]
    found: NDArray[np.bool_] = top | bottom | np.array([case in against for case in marks.cases]) | np.array(by_copy)
    return found


class _Dropping:
    """The benchmark's own number of each model with some cases left out."""

    def __init__(self, result: Result, protocol: str, marks: _Marks, measure: str) -> None:
        self.marks, self.measure = marks, measure
        self.aggregate: Aggregate = result.bench.scoring.protocols[protocol].aggregate
        scores = [s for s in result.scores if s.protocol == protocol and s.judge in marks.judges]
        columns = columns_of(scores, result.cases)
        self.values = self.aggregate.filled(columns)
        self.overall = self.aggregate.overall(result.cases)
        self.rows = [[i for i, (m, _) in enumerate(columns.systems) if m == model] for model in marks.models]

    def numbers(self, weights: Array) -> Array:
        """models x draws, turned so that more is better."""
        found = summaries(self.aggregate, self.values, weights, self.overall).get((0, self.measure))
        if found is None:
            return np.full((len(self.rows), len(weights)), np.nan)
        of_models = np.stack([mean_of_those_there(found[those]) for those in self.rows])
        return -of_models if self.measure in self.marks.lower else of_models

    def standings(
        self, dropped: NDArray[np.bool_], chosen_by: Callable[[Sequence[int]], NDArray[np.bool_]]
    ) -> tuple[list[Standing], int | None, float | None]:
        """Every model before and after, how many pairs change their order, and the share of random choices of as many
        cases that change as many. `chosen_by` says which cases some of the models alone would have dropped."""
        n, n_models = len(dropped), len(self.rows)
        everything = np.ones((1, n))
        whole = self.numbers(everything)[:, 0]
        some = bool(dropped.any()) and not dropped.all()
        kept = self.numbers((~dropped).astype(np.float64)[None, :])[:, 0] if some else np.full(n_models, np.nan)
        apart: list[int | None] = [None] * n_models
        if some and n_models > 2:
            for m in range(n_models):
                left = ~chosen_by([i for i in range(n_models) if i != m])
                if left.any():
                    apart[m] = _rank(self.numbers(left.astype(np.float64)[None, :])[:, 0], m)
        sign = -1 if self.measure in self.marks.lower else 1
        standings = [
            Standing(
                model=model,
                value=round(sign * float(whole[m]), 9),
                rank=_rank(whole, m) or 0,
                without=_number(sign * kept[m]),
                rank_without=_rank(kept, m),
                rank_apart=apart[m],
            )
            for m, model in enumerate(self.marks.models)
            if np.isfinite(whole[m])
        ]
        standings.sort(key=lambda one: (one.rank, one.model))
        if not some or n_models < 2:
            return standings, None, None
        swapped = int(_swaps(whole, kept[:, None])[0])
        rng = np.random.default_rng(SEED)
        weights = np.ones((_AT_RANDOM, n))
        for draw in weights:
            draw[rng.choice(n, int(dropped.sum()), replace=False)] = 0.0
        at_random = _swaps(whole, self.numbers(weights))
        return standings, swapped, float(np.mean(at_random >= swapped))


def _rank(values: Array, m: int) -> int | None:
    return None if not np.isfinite(values[m]) else int(1 + np.sum(values > values[m]))


def _swaps(before: Array, after: Array) -> NDArray[np.intp]:
    """Pairs whose order is another, for each column."""
    first, second = np.triu_indices(len(before), 1)
    then = np.sign(before[first] - before[second])[:, None]
    now = np.sign(after[first] - after[second])
    swapped: NDArray[np.intp] = np.sum((then * now) < 0, axis=0)
    return swapped


def _notes(marks: _Marks, copies: CopyCheck | str) -> list[str]:
    n = len(marks.models)
    notes = []
    if n == 1:
        notes.append("one model: what tells models apart, and what dropping cases does to ranks, cannot be seen")
    elif n < FEWEST_MODELS:
        notes.append(f"{n} models: which cases tell models apart takes {FEWEST_MODELS}; ceiling and floor are shown")
    else:
        notes.append(
            f"{n} models: the discrimination of a single case is chance below {least_telling(n):.2f}; read it over many"
        )
    if isinstance(copies, str) and copies:
        notes.append(f"copies {copies}")
    unknown = [name for name in marks.values if name not in marks.ranges]
    if unknown:
        notes.append(f"{', '.join(unknown)}: no ends of the scale are known, so no ceiling or floor")
    return notes
