"""Reviewing a claimed gap without a run: what so many cases of a benchmark can show, which p values go with the claim,
and what would have to be released to know.

How far the differences of two models spread over cases decides all of it, and papers do not print that. Where a
benchmark's item scores were released it is read off them; elsewhere it is borrowed from those of another benchmark, as
a range and said as such, within what the scale and the printed means allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil, comb

import numpy as np

from refbench.analysis.compare.records import probability, signed
from refbench.benchmarks import Benchmark, PublishedValue, benchmark, names
from refbench.record import Record, RefBenchError
from refbench.score import digits_of
from refbench.stats import Array, clusters_needed, detectable
from refbench.stats.effect import LEVEL
from refbench.stats.quantiles import t_quantile, t_tails
from refbench.tables.table import Measure, case_values, columns_of, summary_measure

LENDER = "creval"
"""The benchmark whose released item scores others borrow from: the only one that has any."""

Range = tuple[float, float]


@dataclass(frozen=True)
class ClaimOptions:
    """A claimed gap, or the labels of two published rows; on how many cases, by which judge, in which measure, among
    how many pairs, on which scale."""

    gap: float | None = None
    rows: tuple[str, str] | None = None
    n: int | None = None
    judge: str | None = None
    metric: str | None = None
    family: int | None = None
    scale: Range | None = None


class Spread(Record):
    """How far marks spread over cases: the standard deviation of one model's, of the differences of two, and their
    correlation; from least to most. `exact` is of the very pair, `borrowed` of another benchmark, on this one's
    scale."""

    of_pair: Range
    of_model: Range
    correlation: Range
    n_pairs: int
    exact: bool = False
    borrowed: bool = False
    provenance: str


class Claim(Record):
    """What can be said about a claimed gap. Ranges are over the spreads that are possible; p from the smallest."""

    benchmark: str
    title: str
    measure: str
    judge: str | None
    first: str | None
    second: str | None
    values: tuple[float, float] | None
    gap: float
    n: int
    family: int
    scale: Range
    spread: Spread
    error: Range
    p: Range
    p_corrected: Range
    p_at_most: float | None
    """Corrected, whatever the spread: that of models which differ by the whole scale on every case. None of a mean over
    parts, whose numbers of cases are not printed."""
    detectable: tuple[float | None, float | None]
    cases_needed: tuple[int, int] | None
    verdict: str
    release: tuple[str, ...]
    notes: tuple[str, ...]
    sentence: str
    digits: int


def review(name: str, asked: ClaimOptions) -> Claim:
    """Review a claim about a benchmark by its name."""
    if name not in names():
        raise RefBenchError(f"{name}: the benchmarks are {', '.join(names())}")
    bench = benchmark(name)
    if (asked.gap is None) == (asked.rows is None):
        raise RefBenchError("give the claimed gap as --gap 0.3, or two published rows as --rows A B")
    notes: list[str] = []
    pair = None if asked.rows is None else _published_pair(bench, asked, notes)
    measure = pair.metric if pair else _measure(bench, asked.metric)
    judge = pair.judge if pair else asked.judge
    gap = float(asked.gap) if pair is None and asked.gap is not None else pair.gap if pair else 0.0
    n = _cases(bench, asked, pair)
    scale = _scale(bench, measure, asked.scale)
    if abs(gap) > scale[1] - scale[0]:
        raise RefBenchError(f"--gap {gap:g}: {measure} of {bench.title} goes from {scale[0]:g} to {scale[1]:g} only")
    spread = _spread(bench, measure, scale, pair, judge, notes)
    family = asked.family or (pair.family if pair else 1)
    return _judged(_Question(bench, measure, judge, pair, gap, n, family, scale, spread), notes)


@dataclass(frozen=True)
class _PublishedPair:
    """Two rows of a paper's table."""

    labels: tuple[str, str]
    models: tuple[str | None, str | None]
    judge: str | None
    metric: str
    values: tuple[float, float]
    parts: Array
    """Their differences by task, where these are printed and the overall numbers are not."""
    subset: str | None
    family: int

    @property
    def gap(self) -> float:
        return self.values[0] - self.values[1]


def _published_pair(bench: Benchmark, asked: ClaimOptions, notes: list[str]) -> _PublishedPair:
    assert asked.rows is not None
    published = bench.reporting.published()
    labels = (_label(bench, published, asked.rows[0]), _label(bench, published, asked.rows[1]))
    if labels[0] == labels[1]:
        raise RefBenchError(f"--rows: both are {labels[0]}; give two")
    metric = _named_metric(bench, published, asked.metric, labels)
    mine = [value for value in published if value.metric == metric]
    judges = [j for j in dict.fromkeys(v.judge for v in mine if v.label == labels[0]) if _both(mine, labels, j)]
    wanted = [j for j in judges if asked.judge is None or _bare(j) == _bare(asked.judge)]
    if not wanted:
        there = ", ".join(judges) or "none"
        raise RefBenchError(f"--judge {asked.judge}: both rows have {metric} by {there}")
    if len(wanted) > 1:
        notes.append(f"by judge {wanted[0] or 'none'}; also published by {', '.join(wanted[1:])} (--judge)")
    tables = [{_place(v): v for v in mine if (v.label, v.judge) == (label, wanted[0])} for label in labels]
    shared = [place for place in tables[0] if place in tables[1]]
    level = _level(shared)
    places = [place for place in shared if dict(place)["level"] == level]
    of_both = np.array([[table[place].value for place in places] for table in tables])
    if len(places) > 1:
        notes.append(f"the paper prints no overall number: these are means over {len(places)} {level} values")
        if asked.n is None:
            notes.append(f"the number of cases is the whole benchmark's: give --n if those {len(places)} have fewer")
    models = {v.label for v in mine if v.judge == wanted[0] and _place(v) == places[0]}
    first, second = (table[places[0]] for table in tables)
    return _PublishedPair(
        labels=labels,
        models=(first.model, second.model),
        judge=wanted[0] or None,
        metric=metric,
        values=(float(of_both[0].mean()), float(of_both[1].mean())),
        parts=of_both[0] - of_both[1],
        subset=first.subset,
        family=comb(len(models), 2),
    )


def _label(bench: Benchmark, published: Sequence[PublishedValue], wanted: str) -> str:
    labels = list(dict.fromkeys(value.label for value in published))
    found = [label for label in labels if _bare(label) == _bare(wanted)]
    found += [v.label for v in published if v.model is not None and _bare(v.model) == _bare(wanted)]
    if not found:
        raise RefBenchError(f"--rows {wanted}: the published rows of {bench.title} are {', '.join(labels) or 'none'}")
    return found[0]


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _named_metric(
    bench: Benchmark, published: Sequence[PublishedValue], metric: str | None, labels: tuple[str, str]
) -> str:
    there = [{v.metric for v in published if v.label == label} for label in labels]
    shared = [name for name in dict.fromkeys(v.metric for v in published) if all(name in of for of in there)]
    if metric is None:
        usual = _measure(bench, None)
        metric = usual if usual in shared else next(iter(reversed(shared)), usual)
    if metric not in shared:
        raise RefBenchError(f"--metric {metric}: both rows have {', '.join(shared) or 'nothing in common'}")
    return metric


def _both(values: Sequence[PublishedValue], labels: tuple[str, str], judge: str) -> bool:
    places = [{_place(v) for v in values if (v.label, v.judge) == (label, judge)} for label in labels]
    return bool(places[0] & places[1])


def _place(value: PublishedValue) -> tuple[tuple[str, str], ...]:
    return tuple(value.slice.items())


def _level(places: Sequence[tuple[tuple[str, str], ...]]) -> str:
    """Overall, or the level that most of what both have is of."""
    levels = [dict(place)["level"] for place in places]
    return "overall" if "overall" in levels else max(dict.fromkeys(levels), key=levels.count)


def _measure(bench: Benchmark, wanted: str | None) -> str:
    measures = bench.scoring.protocols["paper"].aggregate.measures
    known = [measure.name for measure in measures]
    if wanted is not None and wanted not in known:
        raise RefBenchError(f"--metric {wanted}: {bench.title} has {', '.join(known)}")
    return wanted or summary_measure(measures, known)


def _cases(bench: Benchmark, asked: ClaimOptions, pair: _PublishedPair | None) -> int:
    whole = bench.reporting.published_on
    known = whole.get(pair.subset) if pair else next(iter(whole.values()), None)
    n = asked.n or known
    if n is None:
        raise RefBenchError(f"give --n: over how many cases {bench.title}'s published numbers are is not known here")
    if n < 2:
        raise RefBenchError(f"--n {n}: a gap takes two cases")
    return n


def _scale(bench: Benchmark, measure: str, said: Range | None) -> Range:
    """From the worst to the best, in the units that papers print: what is measured from 0 to 1 may be in per cent."""
    if said is not None:
        return said
    found: Measure | None = next(
        (m for m in bench.scoring.protocols["paper"].aggregate.measures if m.name == measure.split("@")[0]), None
    )
    found = next((m for m in bench.scoring.protocols["paper"].aggregate.measures if m.name == measure), found)
    if found is None or found.low is None or found.high is None:
        raise RefBenchError(f"{measure} of {bench.title} has no two ends: say what it can range over, as --scale 0-1")
    printed = [value.value for value in bench.reporting.published() if value.metric == measure]
    per_cent = found.high == 1 and max(printed, default=0.0) > 1
    return (100 * found.low, 100 * found.high) if per_cent else (found.low, found.high)


@lru_cache(maxsize=8)
def released_values(name: str, subset: str | None) -> tuple[tuple[str, ...], Mapping[str, Array], str]:
    """The models of a benchmark's released item scores, each measure of each case (models x cases) in the table's
    units, and the judge."""
    bench = benchmark(name)
    assert bench.reporting.released is not None
    cases, scores = bench.reporting.released(subset)
    columns = columns_of(scores, cases)
    values = case_values(bench.scoring.protocols[scores[0].protocol].aggregate, columns, cases)
    return tuple(model for model, _ in columns.systems), values, scores[0].judge or "none"


def _spread(
    bench: Benchmark, measure: str, scale: Range, pair: _PublishedPair | None, judge: str | None, notes: list[str]
) -> Spread:
    """Of the pair itself where its item scores are released, else of all pairs that are, else borrowed."""
    if bench.reporting.released is not None:
        models, values, theirs = released_values(bench.name, pair.subset if pair else None)
        if judge is not None and _bare(judge) != _bare(theirs):
            notes.append(f"the released item scores are {theirs}'s: {judge} may spread its marks otherwise")
        if measure in values:
            both = [models.index(m) for m in pair.models if m in models] if pair else []
            exact = len(both) == 2
            chosen = values[measure][both] if exact else values[measure]
            of = f"{' and '.join(models[i] for i in both)}" if exact else f"all pairs of {len(models)} models"
            where = f"{of} in {bench.title}'s released item scores ({chosen.shape[1]} cases, judge {theirs})"
            return _spread_of([chosen], f"{measure} of {where}", exact=exact)
    return _borrowed(bench, scale, pair, notes)


def _borrowed(bench: Benchmark, scale: Range, pair: _PublishedPair | None, notes: list[str]) -> Spread:
    models, values, judge = released_values(LENDER, None)
    lender = benchmark(LENDER).title
    width = scale[1] - scale[0]
    on_scale = [column * width / 100 for column in values.values()]
    n = next(iter(values.values())).shape[1]
    found = _spread_of(
        on_scale,
        f"borrowed from {lender}'s released item scores ({', '.join(values)}; {len(models)} models, {n} cases, judge "
        f"{judge}), as shares of the scale: {bench.title} has released none",
    )
    low, high = found.of_pair
    if pair is not None:
        low, high = _within_means(low, high, scale, pair, notes)
    return found.model_copy(update={"of_pair": (low, high), "borrowed": True})


def _within_means(low: float, high: float, scale: Range, pair: _PublishedPair, notes: list[str]) -> Range:
    """What the printed means leave possible: no marks between the ends of a scale spread further about their mean than
    those at its ends only, and differences between tasks are differences between cases."""
    if all(scale[0] <= value <= scale[1] for value in pair.values):
        most = sum(((value - scale[0]) * (scale[1] - value)) ** 0.5 for value in pair.values)
        if most < high:
            notes.append(f"means of {pair.values[0]:.4g} and {pair.values[1]:.4g} allow no more spread than {most:.3g}")
            high = most
    if len(pair.parts) > 2:
        between = float(np.std(pair.parts, ddof=1))
        if between > low:
            notes.append(f"the printed differences spread by {between:.3g} over {len(pair.parts)} parts already")
            low = between
    return min(low, high), max(low, high)


def _spread_of(columns: Sequence[Array], provenance: str, *, exact: bool = False) -> Spread:
    """From values of models on the same cases, one array a measure."""
    of_pair, correlation, of_model = [], [], []
    for column in columns:
        of_model += [float(np.nanstd(row, ddof=1)) for row in column]
        for a, b in combinations(column, 2):
            there = np.isfinite(a) & np.isfinite(b)
            of_pair.append(float(np.std(a[there] - b[there], ddof=1)))
            correlation.append(float(np.corrcoef(a[there], b[there])[0, 1]))
    return Spread(
        of_pair=(min(of_pair), max(of_pair)),
        of_model=(min(of_model), max(of_model)),
        correlation=(min(correlation), max(correlation)),
        n_pairs=len(of_pair),
        exact=exact,
        provenance=provenance,
    )


@dataclass(frozen=True)
class _Question:
    """Everything that the answer follows from."""

    bench: Benchmark
    measure: str
    judge: str | None
    pair: _PublishedPair | None
    gap: float
    n: int
    family: int
    scale: Range
    spread: Spread

    def p(self, spread: float) -> float:
        """Student's, of a mean of so many paired differences."""
        if spread <= 0:
            return 0.0 if self.gap else 1.0
        return t_tails(self.gap / (spread / self.n**0.5), self.n - 1)

    def detectable(self, spread: float) -> float | None:
        half_width = t_quantile(1 - LEVEL / 2, self.n - 1) * spread / self.n**0.5
        return detectable(half_width, clusters=self.n, df=self.n - 1, family=self.family)


def _judged(asked: _Question, notes: list[str]) -> Claim:
    low, high = asked.spread.of_pair
    p = asked.p(low), asked.p(high)
    corrected = min(1.0, p[0] * asked.family), min(1.0, p[1] * asked.family)
    width = asked.scale[1] - asked.scale[0]
    farthest = max(width**2 - asked.gap**2, 0.0) ** 0.5 * (asked.n / (asked.n - 1)) ** 0.5
    reach = asked.detectable(low), asked.detectable(high)
    digits = digits_of([*asked.scale])
    # A part of few cases weighs as much as one of many: how much the mean of parts can vary is then not known from n.
    several = asked.pair is not None and len(asked.pair.parts) > 1
    at_most = None if several else min(1.0, asked.p(farthest) * asked.family)
    if several:
        notes.append(
            "p takes the parts to have equally many cases: a mean over parts of unequal size counts as one over fewer, "
            "so that nothing is said to hold however marks spread"
        )
    if not several and not _printed_overall(asked):
        notes.append(
            "the paper prints no overall number: a mean over tasks of unequal size counts as one over fewer cases"
        )
    verdict = _verdict(asked, corrected, at_most)
    if reach[0] is None:
        notes.append(f"{asked.n} cases resolve nothing in such a family: it takes {clusters_needed(asked.family)}")
    notes.append("cases that share pictures or subjects count as fewer; how much fewer is not known here")
    made = Claim(
        benchmark=asked.bench.name,
        title=asked.bench.title,
        measure=asked.measure,
        judge=asked.judge,
        first=asked.pair.labels[0] if asked.pair else None,
        second=asked.pair.labels[1] if asked.pair else None,
        values=asked.pair.values if asked.pair else None,
        gap=asked.gap,
        n=asked.n,
        family=asked.family,
        scale=asked.scale,
        spread=asked.spread,
        error=(low / asked.n**0.5, high / asked.n**0.5),
        p=p,
        p_corrected=corrected,
        p_at_most=at_most,
        detectable=reach,
        cases_needed=_needed(asked, reach),
        verdict=verdict,
        release=_release(asked),
        notes=tuple(dict.fromkeys(notes)),
        sentence="",
        digits=digits,
    )
    return made.model_copy(update={"sentence": _sentence(made)})


def _needed(asked: _Question, reach: tuple[float | None, float | None]) -> tuple[int, int] | None:
    """Cases at which a true gap of this size would be found four times in five."""
    if not asked.gap or reach[0] is None or reach[1] is None:
        return None
    least = clusters_needed(asked.family)
    few, many = (max(least, ceil(asked.n * (one / abs(asked.gap)) ** 2)) for one in (reach[0], reach[1]))
    return few, many


def _verdict(asked: _Question, p: Range, at_most: float | None) -> str:
    if at_most is not None and at_most <= LEVEL:
        alike = "" if _printed_overall(asked) else ", if it is of a mean over all cases alike"
        return f"the gap is more than chance, however marks spread{alike}"
    spread = f"marks spread as {benchmark(LENDER).title}'s do" if asked.spread.borrowed else "these spreads hold"
    conditions = [] if asked.spread.exact else [spread]
    if at_most is None:
        conditions.append("the parts have equally many cases")
    condition = f", if {' and '.join(conditions)}" if conditions else ""
    if p[1] <= LEVEL:
        return f"the gap is more than chance{condition}"
    if p[0] > LEVEL:
        return f"the gap cannot be told from chance{condition}"
    return "whether the gap is more than chance depends on what was not released"


def _printed_overall(asked: _Question) -> bool:
    """Whether the number is one that the paper has of all cases, and no mean of the reader's over tasks or groups."""
    levels = {v.slice["level"] for v in asked.bench.reporting.published() if v.metric == asked.measure}
    return not levels or "overall" in levels


def _release(asked: _Question) -> tuple[str, ...]:
    """What would settle it, most telling first."""
    wanted = []
    if not asked.spread.exact:
        wanted.append("the scores of both models case by case, with ids: they make one p of the range")
    wanted += [
        "which cases failed for each model or its judge, and how they were counted",
        "how many pictures (seeds) a case there were, and whether any were chosen",
        "the judge's exact model, its wording and its settings" if asked.judge else "who judged, in what words",
        "which other models and measures were compared: the more, the likelier a gap by chance",
        "which cases share source pictures or subjects",
    ]
    return tuple(wanted)


def _sentence(claim: Claim) -> str:
    who = f"{claim.first} - {claim.second}" if claim.first else "A gap"
    of = f"{who} of {signed(claim.gap, claim.digits)} on {claim.title} {claim.measure} over {claim.n} cases"
    p = range_said(claim.p)
    more = f", {range_said(claim.p_corrected)} corrected for {claim.family} pairs" if claim.family > 1 else ""
    spread = f"{claim.spread.of_pair[0]:.3g}"
    if claim.spread.of_pair[1] != claim.spread.of_pair[0]:
        spread += f" to {claim.spread.of_pair[1]:.3g}"
    return f"{of}: {p}{more}, if paired differences have a standard deviation of {spread} ({claim.spread.provenance})."


def range_said(p: Range) -> str:
    """One p, or from the least to the most."""
    least, most = probability(p[0]), probability(p[1])
    return least if least == most else f"{least} to {most.removeprefix('p ').removeprefix('= ')}"
