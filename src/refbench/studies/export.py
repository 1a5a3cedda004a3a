"""What a study came to, as files and as records: marks that `agree` and `correct` read as they are, means with and
without those who are left out, strengths from pairs, decisions for builders."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from refbench.analysis.agree.people import COLUMNS
from refbench.analysis.agree.ratings import marks_of, ranges_of
from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.record import Record, RefBenchError
from refbench.runs import Run
from refbench.score import Score
from refbench.stats.bradley_terry import Strengths, fit, groups_of, wins_of
from refbench.stats.interval import Array, Design, resample
from refbench.studies.items import DECISION, EDIT
from refbench.studies.reading import ADJUDICATED, Alpha, Preference, Reading, Row, alphas, counted_marks
from refbench.studies.study import Study
from refbench.tables.scoring import benchmark_of
from refbench.text.console import csv_cell

_OURS = frozenset(name for names in COLUMNS.values() for name in names) | {"picture", "stratum"}


class MeanRow(Record):
    """A model's mean of a criterion by people: each output the mean of its raters."""

    model: str
    metric: str
    mean: float | None
    mean_of_all: float | None
    """With those who are left out."""
    outputs: int
    raters: int


def means(reading: Reading) -> list[MeanRow]:
    """Means of each model and criterion, without and with those who are left out."""
    kept, everybody = _means(reading.kept()), _means(reading.rows)
    return [
        MeanRow(
            model=model,
            metric=metric,
            mean=kept.get((model, metric), (None, 0, 0))[0],
            mean_of_all=mean,
            outputs=kept.get((model, metric), (None, 0, 0))[1],
            raters=kept.get((model, metric), (None, 0, 0))[2],
        )
        for (model, metric), (mean, _, _) in everybody.items()
    ]


def _means(rows: Iterable[Row]) -> dict[tuple[str, str], tuple[float | None, int, int]]:
    by_output: dict[tuple[str, str], dict[tuple[str, int], list[float]]] = {}
    raters: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        outputs = by_output.setdefault((row.model, row.metric), {})
        if row.value is not None:
            outputs.setdefault((row.item, row.seed), []).append(row.value)
            raters[row.model, row.metric].add(row.rater)
    return {
        place: (
            float(np.mean([np.mean(values) for values in outputs.values()])) if outputs else None,
            len(outputs),
            len(raters[place]),
        )
        for place, outputs in by_output.items()
    }


# --- marks as CSV -------------------------------------------------------------------------------------------------


def marks_csv(study: Study, reading: Reading, *, everybody: bool = False) -> str:
    """The marks, one a row, as `agree --humans` and `correct --humans` read them; of a run also each rater's totals,
    by its own formulas, on the people's scale."""
    if study.design.screen == "pair":
        return _preferences_csv(reading.preferences if everybody else reading.kept_preferences())
    rows = reading.rows if everybody else reading.kept()
    if study.design.screen == "reference":
        return _references_csv(study, rows)
    groups: Mapping[str, Mapping[str, str]] = {}
    if study.design.source.kind == "run":
        run = Run.open(Path(study.design.source.path))
        rows = (*rows, *totals(study, run, rows))
        bench = benchmark_of(run)
        groups = {case.id: dict(case.groups) for case in run.cases(bench.data.case_type)}
    names = list(dict.fromkeys(name for of_case in groups.values() for name in of_case if name not in _OURS))
    drawn = any(row.probability is not None for row in rows)
    extra = ["probability", "stratum"] if drawn else []
    header = ["case", "model", "seed", "metric", "rater", "score", *extra, *names]
    strata = {item.id: item.stratum for item in study.items.values()} if drawn else {}
    return _csv(
        header,
        (
            [row.case, row.model, row.seed, row.metric, row.rater, _cell(row.value)]
            + ([row.probability, strata.get(row.item, "")] if drawn else [])
            + [groups.get(row.case, {}).get(name, "") for name in names]
            for row in rows
        ),
    )


def totals(study: Study, run: Run, rows: Sequence[Row]) -> list[Row]:
    """Each rater's totals of outputs, by the formulas of the run's benchmark, on the scale of the people's marks; none
    where the criteria are not the judge's, or have several scales."""
    bench = benchmark_of(run)
    aggregate = next(iter(bench.scoring.protocols.values())).aggregate
    measures = {measure.name: measure for measure in aggregate.measures}
    scales = {criterion.name: (criterion.low, criterion.high) for criterion in study.design.criteria}
    if not scales or len(set(scales.values())) > 1 or any(name not in measures for name in scales):
        return []
    low, high = next(iter(scales.values()))
    marked = {row.case for row in rows}
    cases = [case for case in run.cases(bench.data.case_type) if case.id in marked]
    scores = _scores(bench, cases, rows, low, high)
    ranges = ranges_of(aggregate, cases)
    items = {(row.case, row.model, row.seed, row.rater): row for row in rows}
    found = []
    for mark in marks_of(bench, scores[0].protocol, scores, cases) if scores else ():
        name, where = mark.item.metric, (mark.item.case, mark.item.model, mark.item.seed or 0, mark.rater)
        if name in scales or name not in ranges or mark.value is None or where not in items:
            continue
        least, most = ranges[name]
        value = low + (mark.value - least) / (most - least) * (high - low)
        found.append(items[where]._replace(metric=name, value=value))
    return found


def _scores(bench: Benchmark, cases: Sequence[AnyCase], rows: Sequence[Row], low: float, high: float) -> list[Score]:
    """The marks as scores of judges called like the raters: every part of every case in some state, what was not
    marked as not asked for."""
    protocol, reading = next(iter(bench.scoring.protocols.items()))
    measures = reading.aggregate.measures
    ends = {measure.name: (measure.low, measure.high) for measure in measures}
    given = {(row.case, row.model, row.seed, row.rater, row.metric): row.value for row in rows}
    found = []
    for case in cases:
        away = bench.asking.not_applicable(case)
        for model, seed, rater in dict.fromkeys((row.model, row.seed, row.rater) for row in rows):
            for part in dict.fromkeys(part for measure in measures for part in measure.parts):
                plain = {"case": case.id, "model": model, "seed": seed, "judge": rater, "metric": part}
                mark = given.get((case.id, model, seed, rater, part))
                least, most = ends.get(part, (None, None))
                state: dict[str, Any] = {"not_asked": True}
                if part in away:
                    state = {"not_applicable": away[part]}
                elif mark is not None and least is not None and most is not None:
                    state = {"value": least + (mark - low) / (high - low) * (most - least)}
                found.append(Score(**plain, protocol=protocol, **state))
    return found


def _references_csv(study: Study, rows: Iterable[Row]) -> str:
    """Marks of references, with the pictures that they are about: what a filter is trained on."""
    header = ["case", "type", "metric", "rater", "score", "original", "reference", "caption"]

    def cells(row: Row) -> list[Any]:
        item = study.items[row.item]
        files = {picture.role: picture.file for picture in item.inputs}
        shown = [files.get("original", ""), files.get("reference", ""), item.text]
        return [item.id, item.stratum, row.metric, row.rater, _cell(row.value), *shown]

    return _csv(header, map(cells, rows))


def _preferences_csv(preferences: Iterable[Preference]) -> str:
    rows = ([p.case, p.first, p.second, p.said, p.rater] for p in preferences)
    return _csv(["case", "first", "second", "preferred", "rater"], rows)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([csv_cell(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


# --- strengths ----------------------------------------------------------------------------------------------------


class Arena(Record):
    """Strengths of models from pairs. No strengths and no rank where the graph of preferences falls apart."""

    models: tuple[str, ...]
    strengths: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...]
    groups: tuple[int, ...]
    """Models of one group can be placed among each other."""
    wins: tuple[int, ...]
    losses: tuple[int, ...]
    ties: tuple[int, ...]
    both_bad: tuple[int, ...]
    """Counted apart: such a pair says nothing about which is better."""
    pairs: int
    unsure: int
    connected: bool


def arena(preferences: Sequence[Preference], *, draws: int = 1000, seed: int = 0) -> Arena:
    """Bradley-Terry strengths with ties as halves; intervals draw cases and raters anew, both at once."""
    models = sorted({name for one in preferences for name in (one.first, one.second)})
    number = {name: k for k, name in enumerate(models)}
    counted = [one for one in preferences if one.said in ("first", "second", "tie")]
    first = np.array([number[one.first] for one in counted], dtype=np.intp)
    second = np.array([number[one.second] for one in counted], dtype=np.intp)
    share = np.array([{"first": 1.0, "second": 0.0, "tie": 0.5}[one.said] for one in counted])
    wins = wins_of(first, second, share, np.ones((1, len(share))), len(models))[0]
    values = fit(wins)
    intervals: list[tuple[float, float] | None] = [None] * len(models)
    found = Strengths(values, groups_of(wins))
    if found.connected and draws:
        intervals = _intervals(counted, (first, second, share), len(models), draws, seed)

    def tally(said: str, side: str) -> tuple[int, ...]:
        count = Counter(getattr(one, side) for one in preferences if one.said == said)
        return tuple(count[name] for name in models)

    def both(said: str) -> tuple[int, ...]:
        return tuple(a + b for a, b in zip(tally(said, "first"), tally(said, "second"), strict=True))

    won = zip(tally("first", "first"), tally("second", "second"), strict=True)
    lost = zip(tally("first", "second"), tally("second", "first"), strict=True)
    return Arena(
        models=tuple(models),
        strengths=tuple(float(v) if np.isfinite(v) else None for v in values),
        intervals=tuple(intervals),
        groups=tuple(int(g) for g in found.groups),
        wins=tuple(a + b for a, b in won),
        losses=tuple(a + b for a, b in lost),
        ties=both("tie"),
        both_bad=both("both_bad"),
        pairs=len(preferences),
        unsure=sum(one.said == "unsure" for one in preferences),
        connected=found.connected,
    )


_MOST_UNDEFINED = 0.05


def _intervals(
    counted: Sequence[Preference], marks: tuple[Any, Any, Array], n: int, draws: int, seed: int
) -> list[tuple[float, float] | None]:
    """Percentile intervals over resamples of cases times resamples of raters; none where too many fall apart, or where
    there is a single case or rater to draw from."""
    designs = [
        Design.of(names, [""] * len(counted)) for names in ([p.case for p in counted], [p.rater for p in counted])
    ]
    if designs[0].n_clusters < 2:
        return [None] * n
    weights = np.concatenate(list(resample(designs[0], draws, seed)))
    if designs[1].n_clusters > 1:
        weights = weights * np.concatenate(list(resample(designs[1], draws, seed + 1)))
    first, second, share = marks
    drawn = np.stack([fit(one) for one in wins_of(first, second, share, weights, n)])
    there = drawn[np.isfinite(drawn).all(axis=1)]
    if len(there) < (1 - _MOST_UNDEFINED) * draws:
        return [None] * n
    low, high = np.quantile(there, [0.025, 0.975], axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


# --- decisions ----------------------------------------------------------------------------------------------------


def decisions_jsonl(study: Study) -> bytes:
    """The review file with what was decided: the lines as the builder wrote them, in their order, as somebody fills
    them in by hand. Items that several decided otherwise must be adjudicated first."""
    said: dict[str, dict[str, Any]] = {}
    open_still: set[str] = set()
    for mark in counted_marks(study):
        decided = {"decision": mark.values.get(DECISION), "edit": mark.values.get(EDIT), "comment": mark.comment}
        before = said.get(mark.item)
        if before is None or mark.rater == ADJUDICATED:
            said[mark.item] = {**decided, "by": mark.rater}
        elif before["by"] != ADJUDICATED and any(before[name] != decided[name] for name in ("decision", "edit")):
            open_still.add(mark.item)
    if unsettled := sorted(name for name in open_still if said[name]["by"] != ADJUDICATED):
        raise RefBenchError(f"{unsettled[0]} was decided twice, and differently: refbench study adjudicate it first")
    lines = []
    for item in study.items.values():
        row: dict[str, Any] = dict(item.row)
        decided = said.get(item.id, {})
        row["decision"] = decided.get("decision") if decided.get("decision") in ("accept", "edit", "reject") else ""
        if row["decision"] == "edit":
            row["edit"] = decided["edit"] or {}
        if row["decision"] and decided.get("comment"):
            row["comment"] = decided["comment"]
        lines.append(orjson.dumps(row) + b"\n")
    return b"".join(lines)


class Exported(Record):
    """A study's numbers."""

    study: str
    version: int
    versions: tuple[int, ...]
    raters: int
    left_out: tuple[tuple[str, tuple[str, ...]], ...]
    means: tuple[MeanRow, ...]
    agreement: tuple[Alpha, ...] = ()
    agreement_of_all: tuple[Alpha, ...] = ()
    arena: Arena | None = None
    notes: tuple[str, ...] = ()


def exported(study: Study, reading: Reading, *, everybody: bool = False) -> Exported:
    """Everything that a report says of the marks, with and without those who are left out; strengths are of those who
    are kept, or of everybody."""
    preferences = reading.preferences if everybody else reading.kept_preferences()
    return Exported(
        study=study.design.name,
        version=reading.version or study.versions.number,
        versions=reading.versions,
        raters=len(reading.raters),
        left_out=tuple((one.rater, one.rules) for one in reading.fallen),
        means=tuple(means(reading)),
        agreement=tuple(alphas(reading.kept())),
        agreement_of_all=tuple(alphas(reading.rows)),
        arena=arena(preferences) if preferences else None,
        notes=tuple(_notes(study, reading)),
    )


def _notes(study: Study, reading: Reading) -> Iterable[str]:
    if len(reading.versions) > 1:
        newest = reading.versions[-1]
        yield f"there are marks of {len(reading.versions)} versions of the design; the newest is version {newest}"
    if reading.nobody_left:
        yield "every rater is left out, so that nothing is known but with --everybody"
    if not reading.raters:
        yield "nobody has marked anything yet"
    if reading.raters and not reading.beforehand:
        yield "the exclusion rules were changed after these marks were given"
    fixed = study.design.preregistration
    if fixed is not None and fixed.frozen != study.design.frozen:
        yield "the design was changed after it was preregistered"
    if study.marks.broken:
        yield f"{study.marks.broken} lines of marks.jsonl cannot be read; a server that was killed tears its last one"
    if study.design.exclusion != type(study.design.exclusion)():
        yield "the exclusion rules are not the usual ones: study.toml has them"
