"""Tables of runs that judged a part of the calls: the recorded design, and rows estimated from what was judged.

A row that everything was judged for stays as it is, so a run that goes on to all calls has the ordinary table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from refbench.case import AnyCase
from refbench.record import Record, content_key, counted
from refbench.stats import Array
from refbench.stats.interval import Design
from refbench.stats.sample import (
    Labels,
    Residuals,
    Sample,
    SampledNumber,
    Shares,
    regression_mean,
    sampled_number,
    slope,
)
from refbench.tables.table import (
    Aggregate,
    Bools,
    Columns,
    Estimate,
    Measure,
    Row,
    Slice,
    Summary,
    ends_of,
)

ESTIMATOR_VERSION = 3
"""Bumped whenever estimates from the same scores change."""

LEAST = 5
"""Judged cases below which nothing is estimated."""
_WAITING = "waiting for those that come before them, which other shards judge, or the same command run again"
_Mean: TypeAlias = Callable[[str, Bools], Array]
_STEP = 0.05
_CHECKS = 3
_ROUNDING = 1e-7


class SampleDesign(Record):
    """Which calls are judged, in which order; recorded before the first of them. Any beginning of it is a fair sample.

    A unit is one case in one group of parts, for all models, seeds and repeats.
    """

    seed: int
    groups: tuple[tuple[str, ...], ...]
    """Parts of what a judge is asked that are judged together; groups are drawn independently of each other."""
    rates: tuple[float, ...]
    """How many units of each group come in the same time."""
    orders: tuple[tuple[int, ...], ...]
    """For each group the places of all cases, in the order in which they are judged."""
    cases: str
    """Fingerprint of the cases that the places are of."""
    proxies: tuple[str, ...] = ()
    """Judges that judge everything, to tell what the others would say."""
    references: str = ""
    """Whose item scores the estimates lean on, in words; empty for none."""
    known: Mapping[str, tuple[float | None, ...]] = {}
    """By column: for each case the mean of the reference models."""

    @property
    def digest(self) -> str:
        return content_key(self.model_dump(mode="json"))[:16]

    @property
    def n_units(self) -> int:
        return sum(map(len, self.orders))

    def units(self) -> list[tuple[int, int]]:
        """Every unit (place of the case, number of the group) in its turn."""
        turns = [
            ((k + 0.5) / rate, group, case)
            for group, (order, rate) in enumerate(zip(self.orders, self.rates, strict=True))
            for k, case in enumerate(order)
        ]
        return [(case, group) for _, group, case in sorted(turns)]


@dataclass(frozen=True)
class Sampling:
    """A design with what a table needs to estimate by it: the parts of the benchmark and what concerns no case."""

    design: SampleDesign
    parts: Mapping[str, tuple[str, ...]]
    """Which metrics each part gives."""
    away: Mapping[str, Bools] = field(default_factory=dict)
    """By metric: the cases that it does not concern, as it is known before anything is judged."""

    def group_of(self, metric: str) -> int | None:
        """The group whose calls a column comes from; None for one that no judge gives."""
        for part, metrics in self.parts.items():
            if metric in metrics:
                return next((g for g, parts in enumerate(self.design.groups) if part in parts), self._together(part))
        return self._together("derived")

    def _together(self, part: str) -> int | None:
        # Where anything is made of several parts, all of them are judged together.
        return 0 if part == "derived" and len(self.design.groups) == 1 else None

    def metrics(self, group: int) -> list[str]:
        return [metric for part in self.design.groups[group] for metric in self.parts.get(part, ())]

    def drawn(self, columns: Columns, system: int, group: int) -> Bools:
        """The cases of the group that are judged or have failed, as far as there is none before them that is open: what
        was judged beyond would be those that were quick."""
        waiting = np.zeros(len(self.design.orders[group]), dtype=np.bool_)
        for metric in self.metrics(group):
            if metric in columns.waiting:
                waiting |= columns.waiting[metric][system].any(axis=1)
        order = np.array(self.design.orders[group], dtype=np.intp)
        settled = order if not waiting.any() else order[: int(waiting[order].argmax())]
        found = np.zeros(len(order), dtype=np.bool_)
        found[settled] = True
        return found


def away_of(not_applicable: Callable[[AnyCase], Mapping[str, str]], cases: Sequence[AnyCase]) -> dict[str, Bools]:
    """By metric, the cases that it does not concern, whatever is judged."""
    found: dict[str, Bools] = {}
    for number, case in enumerate(cases):
        for metric in not_applicable(case):
            found.setdefault(metric, np.zeros(len(cases), dtype=np.bool_))[number] = True
    return found


class Told(NamedTuple):
    """What was made of one measure on one slice for one system."""

    number: SampledNumber | None
    """None where it cannot be told."""
    why: str
    judged: int
    of: int
    touched: bool
    """Whether anything that it is made of was drawn; else its ordinary row is right as it is."""
    failed: int = 0
    """Of those judged, each with every seed."""


@dataclass
class _Term:
    """One mean that an aggregate asked for."""

    metric: str
    members: Bools
    group: int | None
    found: Residuals | None
    value: float


@dataclass
class _System:
    """The estimates of one model and judge under one protocol."""

    sampling: Sampling
    columns: Columns
    filled: Mapping[str, Array]
    system: int
    clusters: Design
    stratum: Labels
    proxies: tuple[int, ...]
    """The systems of the same model under judges that judge everything."""
    _terms: dict[tuple[str, bytes], _Term] = field(default_factory=dict)
    _asked: list[_Term] = field(default_factory=list)
    _nudges: Array | None = None
    _slopes: dict[str, tuple[Array, Array, Bools]] = field(default_factory=dict)

    @cached_property
    def samples(self) -> list[Sample]:
        """What was drawn of each group."""
        stratum = self.stratum.astype(np.intp)
        groups = range(len(self.sampling.design.groups))
        return [Sample(stratum, self.sampling.drawn(self.columns, self.system, group)) for group in groups]

    @property
    def complete(self) -> bool:
        return all(sample.drawn.all() for sample in self.samples)

    def mean(self, metric: str, members: Bools) -> Array:
        """What stands for a mean of all cases: its estimate, and what it would be with each of several nudges."""
        key = metric, members.tobytes()
        if key not in self._terms:
            self._terms[key] = self._term(metric, members)
        term = self._terms[key]
        if self._nudges is None:
            if not any(term is one for one in self._asked):
                self._asked.append(term)
            return np.full((1, 1), term.value)
        place = next(i for i, one in enumerate(self._asked) if one is term)
        return np.asarray(term.value + self._nudges[place])[None, :]

    def _term(self, metric: str, members: Bools) -> _Term:
        base = metric.partition(" where all of ")[0]
        group = self.sampling.group_of(base)
        values = self.filled[metric][self.system]
        away = self.sampling.away.get(base)
        concerned = members & ~away if away is not None else members
        if group is None or not concerned.any():
            there = values[members & ~np.isnan(values)]
            return _Term(metric, members, None, None, float(there.mean()) if len(there) else np.nan)
        sample = self.samples[group]
        known, slopes, gaps = self._adjustment(base, sample)
        drawn = np.where(sample.drawn, values, np.nan)
        found = regression_mean(drawn, known, sample, concerned, slopes, gaps)
        return _Term(metric, concerned, group, found, found.value if found else np.nan)

    def _adjustment(self, metric: str, sample: Sample) -> tuple[Array, Array, Bools]:
        """What is known of every case in this metric (cases x covariates), how the judged ones go with it, and of which
        cases some of that is filled in."""
        if metric not in self._slopes:
            columns = [self.filled[metric][proxy] for proxy in self.proxies if metric in self.filled]
            if metric in self.sampling.design.known:
                told = self.sampling.design.known[metric]
                columns.append(np.array([np.nan if one is None else one for one in told], dtype=np.float64))
            columns = [column for column in columns if not np.isnan(column).all()]
            gaps = np.any([np.isnan(column) for column in columns] or [np.zeros(len(self.stratum))], axis=0)
            whole = [self._without_gaps(column) for column in columns]
            known = np.stack(whole, axis=1) if whole else np.zeros((len(self.stratum), 0))
            values = np.where(sample.drawn, self.filled[metric][self.system], np.nan)
            centre = values[~np.isnan(values)].mean() if not np.isnan(values).all() else 0.0
            everyone = np.ones(len(values), dtype=np.bool_)
            self._slopes[metric] = known, slope(np.nan_to_num(values - centre), known, sample, everyone), gaps
        return self._slopes[metric]

    def _without_gaps(self, column: Array) -> Array:
        """A case that nothing is known of is like the others of its stratum."""
        whole = np.where(np.isnan(column), np.nanmean(column), column)
        for name in np.unique(self.stratum):
            here = self.stratum == name
            if not np.isnan(column[here]).all():
                whole[here] = np.where(np.isnan(column[here]), np.nanmean(column[here]), column[here])
        return whole

    def told(self, summarise: _Summarise, names: Sequence[str]) -> dict[str, Told]:
        """Measures of one slice, estimated where they are weighted means of their cases."""
        point, moved, terms, steps, mixed = self._moved(summarise)
        return {
            name: self._of_measure(float(point[name][0, 0]), *_weights(moved[name][0], steps, mixed), terms)
            for name in names
            if name in moved
        }

    def weights(self, summarise: _Summarise) -> dict[str, list[Array] | None]:
        """How much each case weighs in every measure, by group; None for one that is no weighted mean."""
        _, moved, terms, steps, mixed = self._moved(summarise)
        every: dict[str, list[Array] | None] = {}
        for name, values in moved.items():
            weights, linear = _weights(values[0], steps, mixed)
            found = [np.zeros(len(self.stratum)) for _ in self.sampling.design.groups]
            for term, weight in zip(terms, weights, strict=True):
                if term.group is not None and term.members.any():
                    found[term.group] += abs(weight) * term.members / term.members.sum()
            every[name] = found if linear else None
        return every

    def _moved(self, summarise: _Summarise) -> tuple[Summary, Summary, list[_Term], Array, Array]:
        """A summary as it is, and as it would be if each mean that it is made of were a little more, one by one and
        then several at once; with these means and steps."""
        self._asked, self._nudges = [], None
        point = summarise(self.mean)
        terms = self._asked
        # A mean of which nothing is known has a value for the moment, so that it is seen what depends on it.
        for term in terms:
            if term.group is not None and term.found is None:
                term.value = 0.5
        steps = np.array([_STEP * (abs(term.value) or 1.0) if np.isfinite(term.value) else 0.0 for term in terms])
        mixed = np.random.default_rng(len(terms)).uniform(-1, 1, (len(terms), _CHECKS)) * steps[:, None]
        self._nudges = np.concatenate([np.zeros((len(terms), 1)), np.diag(steps), mixed], axis=1)
        moved = summarise(self.mean)
        for term in terms:
            if term.group is not None and term.found is None:
                term.value = np.nan
        self._nudges = None
        return point, moved, terms, steps, mixed

    def _of_measure(self, value: float, weights: Array, linear: bool, terms: Sequence[_Term]) -> Told:
        used = [i for i, term in enumerate(terms) if weights[i] != 0 and term.group is not None]
        judged, of = self._counts([terms[i] for i in used])
        if not used or judged == of:
            return Told(None, "", judged, of, False)
        if not linear:
            why = "it is no weighted mean over cases, so that a part of them does not tell the whole"
            return Told(None, why, judged, of, True)
        if unknown := [terms[i] for i in used if terms[i].found is None]:
            if (judged_at_all := self._judged_at_all([terms[i] for i in used])) > judged:
                return Told(None, _WAITING, judged_at_all, of, True)
            n_cases = len({case for term in unknown for case in np.flatnonzero(term.members).tolist()})
            return Told(None, f"nothing judged yet of {n_cases} cases that it needs", judged, of, True)
        if not np.isfinite(value):
            return Told(None, "a part of it has no value", judged, of, True)
        groups = sorted({group for i in used if (group := terms[i].group) is not None})
        draws = [self._shares(g, [(terms[i], float(weights[i])) for i in used if terms[i].group == g]) for g in groups]
        together = np.any([terms[i].members for i in used], axis=0)
        failed = self._failed([terms[i] for i in used])
        return Told(sampled_number(value, draws, int(together.sum())), "", judged, of, True, failed)

    def _judged_at_all(self, terms: Sequence[_Term]) -> int:
        """The units that are judged or have failed, also behind one that is open."""
        found = 0
        for group in {term.group for term in terms if term.group is not None}:
            members = np.any([term.members for term in terms if term.group == group], axis=0)
            metrics = [m for m in self.sampling.metrics(group) if m in self.columns.waiting]
            waits = [self.columns.waiting[metric][self.system].any(axis=1) for metric in metrics]
            found += int((members & ~np.any(waits, axis=0)).sum()) if waits else 0
        return found

    def _failed(self, terms: Sequence[_Term]) -> int:
        """The calls judged that failed: of each group the pictures that lost any of the metrics that are used."""
        found = 0
        for group in {term.group for term in terms if term.group is not None}:
            mine = [term for term in terms if term.group == group]
            members = np.any([term.members for term in mine], axis=0) & self.samples[group].drawn
            kinds = self.columns.kinds
            used = {term.metric.partition(" where all of ")[0] for term in mine} & kinds.keys()
            lost = [kinds[m][self.system] >= 0 for m in used or {*self.sampling.metrics(group)} & kinds.keys()]
            found += int(np.any(lost, axis=0)[members].sum()) if lost else 0
        return found

    def _counts(self, terms: Sequence[_Term]) -> tuple[int, int]:
        """The units that a number is from, and those it would be from."""
        judged = of = 0
        for group in {term.group for term in terms if term.group is not None}:
            members = np.any([term.members for term in terms if term.group == group], axis=0)
            judged += int((members & self.samples[group].drawn).sum())
            of += int(members.sum())
        return judged, of

    def _shares(self, group: int, terms: Sequence[tuple[_Term, float]]) -> Shares:
        """What each drawn case of a group contributes to a number, over all the means that it is in."""
        sample = self.samples[group]
        left, plain, weigh = (np.zeros(len(self.stratum)) for _ in range(3))
        members = np.any([term.members for term, _ in terms], axis=0)
        domains = {term.members.tobytes(): term.members for term, _ in terms}
        places = [self.stratum.astype(np.intp), *(domain.astype(np.intp) for domain in domains.values())]
        for term, weight in terms:
            assert term.found is not None
            share = weight / term.members.sum() * term.members
            weigh += np.abs(share)
            left += share * term.found.left
            plain += share * term.found.plain
        # Means over parts of the cases: a case is drawn at random among those that are in the same of them.
        finest = np.unique(np.stack(places, axis=1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
        slopes = max(int((self._slopes[t.metric.partition(" where all of ")[0]][1] != 0).sum()) for t, _ in terms)
        return Shares(Sample(finest, sample.drawn), members, weigh, left, plain, self.clusters.cluster, slopes)


def _weights(moved: Array, steps: Array, mixed: Array) -> tuple[Array, bool]:
    """How much each mean weighs in a number, and whether it is no more than their weighted sum."""
    n, at = len(steps), moved[0]
    change = moved[1 : n + 1] - at
    scale = _ROUNDING * max(1.0, abs(at) if np.isfinite(at) else 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where((steps > 0) & (np.abs(change) > scale * 1e-3), change / steps, 0.0)
    linear = bool(np.allclose(moved[n + 1 :] - at, weights @ mixed, atol=scale, rtol=_ROUNDING))
    return weights, linear


class _Summarise:
    """An aggregate on one slice, with the columns of measures that leave pictures out put in their place."""

    def __init__(self, aggregate: Aggregate, where: Slice, filled: Mapping[str, Array], joint: Sequence[Measure]):
        self.aggregate, self.where, self.filled = aggregate, where, filled
        self.joint = joint

    def __call__(self, mean: _Mean) -> Summary:
        found = dict(self.aggregate.summarise(mean, self.where))
        for measure in self.joint:
            if measure.name in found:
                columns = {part: measure.whole(part) for part in measure.parts if measure.whole(part) in self.filled}

                def whole(metric: str, members: Bools, columns: Mapping[str, str] = columns) -> Array:
                    return mean(columns.get(metric, metric), members)

                found[measure.name] = self.aggregate.summarise(whole, self.where)[measure.name]
        return found


def estimated_rows(
    rows: Sequence[Row],
    aggregate: Aggregate,
    columns: Columns,
    cases: Sequence[AnyCase],
    sampling: Sampling,
) -> list[Row]:
    """The rows of one protocol, with an estimate in place of every number that only a part of the calls was judged for.

    Failures among the judged count as they do in an ordinary table: the number is about the others, its bounds are
    estimated as if all of them had been the worst or the best.
    """
    filled = aggregate.filled(columns)
    sides = {side: aggregate.filled(columns, side) for side in ("low", "high")}
    slices = aggregate.slices(cases)
    by_place = {(row.model, row.judge, row.metric, tuple(row.slice.items())): row for row in rows}
    clusters = Design.of([case.cluster for case in cases], [case.stratum for case in cases])
    stratum = np.unique([case.stratum for case in cases], return_inverse=True)[1]
    scale = _scale(aggregate, columns, slices, sampling)
    made: dict[int, Row] = {}
    for s, (model, judge) in enumerate(columns.systems):
        if judge is None or judge in sampling.design.proxies:
            continue
        proxies = tuple(
            number
            for number, (its, whose) in enumerate(columns.systems)
            if its == model and whose in sampling.design.proxies
        )
        system = _System(sampling, columns, filled, s, clusters, stratum, proxies)
        if system.complete:
            continue
        bounded = {side: replace(system, filled=end, _terms={}, _slopes={}) for side, end in sides.items()}
        for i, where in enumerate(slices):
            mine = {
                measure.name: row
                for measure in aggregate.measures
                if (row := by_place.get((model, judge, measure.name, tuple(where.label.items())))) is not None
            }
            told = system.told(_Summarise(aggregate, where, filled, _joint(aggregate, sampling, filled)), list(mine))
            extremes = {
                side: other.told(_Summarise(aggregate, where, other.filled, ()), list(mine))
                for side, other in bounded.items()
                if any(row.failures for row in mine.values())
            }
            for measure in aggregate.measures:
                if (found := told.get(measure.name)) is not None and found.touched:
                    row, ends = mine[measure.name], scale.get((i, measure.name))
                    made[id(row)] = _row(row, found, ends, {s: told.get(measure.name) for s, told in extremes.items()})
    return [made.get(id(row), row) for row in rows]


def case_weights(aggregate: Aggregate, cases: Sequence[AnyCase], sampling: Sampling) -> dict[str, list[Array] | None]:
    """How much each case weighs in every measure on all cases, by group of the design; None for a measure that is no
    weighted mean over cases. Nothing where the benchmark has no number for all of them."""
    if not (overall := aggregate.overall(cases)):
        return {}
    columns = _blank(aggregate, len(cases), sampling, 0.5)
    filled = aggregate.filled(columns)
    stratum = np.unique([case.stratum for case in cases], return_inverse=True)[1]
    clusters = Design.of([case.cluster for case in cases], [case.stratum for case in cases])
    system = _System(sampling, columns, filled, 0, clusters, stratum, ())
    return system.weights(_Summarise(aggregate, overall[0], filled, ()))


def fewest_units(aggregate: Aggregate, cases: Sequence[AnyCase], sampling: Sampling, measure: str, wanted: int) -> int:
    """So many units as are wanted, or where these are too few to estimate a measure on all cases, the fewest that are
    not: every part that it is a mean of needs judged cases. As it is before anything is judged, with made-up values."""
    design, overall = sampling.design, aggregate.overall(cases)[0]
    blank = _blank(aggregate, len(cases), sampling, 0.5)
    rng = np.random.default_rng(0)
    varied = {metric: column + rng.uniform(-0.4, 0.4, column.shape) for metric, column in blank.drawn.items()}
    clusters = Design.of([case.cluster for case in cases], [case.stratum for case in cases])
    stratum = np.unique([case.stratum for case in cases], return_inverse=True)[1]
    units = design.units()

    def tells(n_units: int) -> bool:
        waiting = dict(blank.waiting)
        for group in range(len(design.groups)):
            open_ = np.ones((1, len(cases), 1), dtype=np.bool_)
            open_[0, [case for case, of in units[:n_units] if of == group]] = False
            waiting |= {metric: open_ for metric in sampling.metrics(group) if metric in waiting}
        columns = replace(blank, drawn=varied, waiting=waiting)
        filled = aggregate.filled(columns)
        system = _System(sampling, columns, filled, 0, clusters, stratum, ())
        summarise = _Summarise(aggregate, overall, filled, _joint(aggregate, sampling, filled))
        told = system.told(summarise, [measure]).get(measure)
        if told is None or not told.touched:
            return True
        return told.number is not None and told.number.n >= LEAST and told.number.interval() is not None

    if tells(wanted):
        return wanted
    return wanted + bisect_left(range(wanted, len(units)), True, key=tells)


def _blank(aggregate: Aggregate, n_cases: int, sampling: Sampling, value: float) -> Columns:
    """Columns as if everything had been judged alike."""
    metrics = {part for measure in aggregate.measures for part in measure.parts}
    away = {metric: sampling.away.get(metric, np.zeros(n_cases, dtype=np.bool_)) for metric in metrics}
    return Columns.of_values([("", "")], {m: np.where(gone, np.nan, value)[None, :] for m, gone in away.items()})


def _joint(aggregate: Aggregate, sampling: Sampling, filled: Mapping[str, Array]) -> list[Measure]:
    """Measures that are over the pictures that have all their parts, and can be: these are judged together."""
    return [
        measure
        for measure in aggregate.measures
        if any(measure.whole(part) in filled for part in measure.parts)
        and len({sampling.group_of(part) for part in measure.parts}) == 1
    ]


def _scale(
    aggregate: Aggregate, columns: Columns, slices: Sequence[Slice], sampling: Sampling
) -> dict[tuple[int, str], tuple[float, float]]:
    """The ends of each number's scale, as if everything had been judged."""
    blank = _blank(aggregate, next(iter(columns.drawn.values())).shape[1], sampling, 0.0)
    low, high = (ends_of(aggregate, blank, slices, side) for side in ("low", "high"))
    found = {place: (float(low[place][0, 0]), float(high[place][0, 0])) for place in low.keys() & high.keys()}
    return {place: (least, most) for place, (least, most) in found.items() if least < most}


def _row(row: Row, told: Told, ends: tuple[float, float] | None, extremes: Mapping[str, Told | None]) -> Row:
    number, share = told.number, told.judged / told.of
    why = told.why or (
        f"only {counted(number.n, 'case')} judged in one of its parts" if number and number.n < LEAST else ""
    )
    told_of = number.interval(ends) if number is not None and not why else None
    others = number.about_others(ends) if number is not None and not why else None
    if number is None or told_of is None or others is None:
        why = why or "the judged cases are all alike"
        nothing = {"value": None, "ci95": None, "ci99": None, "bounds": None, "sampled": True}
        return row.model_copy(update={**nothing, "remark": f"not estimated from {percent(share)} of the calls: {why}"})
    bounds = None
    values = [number.value] + [one.number.value for one in extremes.values() if one is not None and one.number]
    # One side alone would leave the failures out of the other.
    if ends is not None and len(values) == 1 + len(extremes):
        bounds = _rounded((max(ends[0], min(values)), min(ends[1], max(values))))
    remark = f"estimated from {percent(share)} of the calls"
    if row.failures and bounds is None and ends is not None:
        remark += "; how far those that failed could move it cannot be told"
    estimate = Estimate(
        share=share,
        n_judged=told.judged,
        n_all=told.of,
        all_calls95=_rounded(told_of),
        effective_n=round(number.effective, 1),
        n_failed=told.failed,
    )
    value = number.value if ends is None else min(max(number.value, ends[0]), ends[1])
    return row.model_copy(
        update={
            "value": round(value, 9),
            "ci95": _rounded(others),
            "ci99": None,
            "bounds": bounds,
            "remark": remark,
            "estimate": estimate,
            "sampled": True,
        }
    )


def percent(share: float) -> str:
    """A share as people say it: never 0 % of something, nor 100 % of what is not all."""
    return f"{share:.1%}".replace("%", " %") if share < 0.095 or share > 0.99 else f"{share:.0%}".replace("%", " %")


def _rounded(pair: tuple[float, float]) -> tuple[float, float]:
    return round(pair[0], 9), round(pair[1], 9)
