"""People's scores: read from a CSV file, laid beside a run's, and how well a total goes with them.

The file, of people or of judges, is long (a row for each mark) or wide (a column for each rater or for each metric).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from refbench.analysis.agree.ratings import Mark, Range, RatedItem, Ratings, is_panel
from refbench.evidence import PEOPLE
from refbench.record import Record, RefBenchError
from refbench.stats import Array
from refbench.stats.correlation import kendall, pearson, pearson_draws, spearman
from refbench.text.files import csv_table, file_text

COLUMNS = {
    "case": ("case", "case_id", "id", "item", "item_id", "sample", "sample_id"),
    "model": ("model", "system", "method"),
    "metric": ("metric", "criterion", "axis", "measure"),
    "rater": ("rater", "judge", "annotator", "evaluator", "worker"),
    "score": ("score", "value", "rating", "mark"),
    "repeat": ("repeat", "seed", "trial"),
    "probability": ("probability", "inclusion_probability"),
}
"""What a column may be called, in any case of letters. The probability is that of the item being asked about at all, as
`refbench sample` writes it: no score, and no group."""
GROUPS = (
    "category",
    "task",
    "dimension",
    "split",
    "group",
    "n_refs",
    "references",
    "combination",
    "difficulty",
    "type",
)
"""Columns that always group cases, also where their names are numbers."""
HUMAN = re.compile(r"(human|people|person|annotator|rater|expert|crowd|worker)", re.IGNORECASE)
_MISSING = frozenset({"", "na", "n/a", "nan", "none", "null", "-", "--", "—"})
ONLY_METRIC = "score"
"""The metric of a file that names none."""


Limits = Callable[[Mark, bool], Range | None]
"""The range that a mark of a judge, or of a person (True), is said to lie in."""


def read_scores(
    path: Path,
    *,
    metrics: Collection[str] = (),
    groups: Collection[str] = (),
    humans: Collection[str] | None = None,
    rater: str = "human",
    limits: Limits | None = None,
) -> Ratings:
    """The marks of a CSV file. `metrics` are names that columns of a wide file may be, `groups` columns to group by,
    `humans` the raters who are people (None: by their names), `rater` the name where the file has none, `limits` the
    scale that marks are refused beyond."""
    rows = filled_rows(path)
    kinds = columns_by_kind(list(rows[0][1]), groups)
    values = _value_columns(path, rows, kinds, groups)
    named = {name.casefold(): name for name in metrics}
    by_metric = _columns_are_metrics(kinds, values, named)
    marks: Sequence[tuple[int, Mark]] = [
        mark for row in rows for mark in _marks(path, row, kinds, values, by_metric, named, rater)
    ]
    if not marks:
        raise RefBenchError(f"{path} holds no scores: give a column score, or a column for each rater")
    grouping = [name for name in rows[0][1] if name not in kinds.values() and name not in values]
    marks, of_case, summary = _cased(path, marks, rows, kinds, grouping, groups)
    _no_doubles(path, marks)
    raters = dict.fromkeys(mark.rater for _, mark in marks)
    people = frozenset(r for r in raters if HUMAN.match(r)) if humans is None else frozenset(humans)
    stranger = next((name for name in people if name not in raters), None)
    if stranger is not None:
        raise RefBenchError(f"--human-raters {stranger}: the raters of {path} are {', '.join(raters)}")
    if limits is not None:
        _on_scale(path, marks, people, limits)
    return Ratings(marks=tuple(mark for _, mark in marks), humans=people, groups=of_case, summaries=summary)


def read_people(
    path: Path, *, metrics: Collection[str] = (), groups: Collection[str] = (), limits: Limits | None = None
) -> Ratings:
    """The marks of a CSV file of people's scores (`--humans`): everyone in it is a person, whatever the name."""
    of_people = None if limits is None else lambda mark, _: limits(mark, True)
    ratings = read_scores(path, metrics=metrics, groups=groups, limits=of_people)
    return replace(ratings, humans=frozenset(ratings.raters))


Line = tuple[int, dict[str, str]]
"""A row with the number of its line in the file."""


def filled_rows(path: Path) -> list[Line]:
    """The rows of a CSV file that hold anything, by the columns of its header."""
    text = file_text(path, "give a CSV file of scores, in UTF-8")
    header = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    columns, lines = csv_table(text, str(path), delimiter=delimiter, restkey="", restval="")
    names = [name.strip() for name in columns]
    twice = [name for name, n in Counter(names).items() if n > 1]
    if not names or twice:
        what = f"two columns are called {twice[0]!r}" if twice else "it has no header"
        raise RefBenchError(f"{path} cannot be read as a table: {what}")
    rows = []
    for number, row in lines:
        if row.get(""):
            raise RefBenchError(f"{path}, line {number}: there are more cells than columns in the header")
        rows.append((number, {name.strip(): (row[name] or "").strip() for name in columns}))
    rows = [row for row in rows if any(row[1].values())]
    if not rows:
        raise RefBenchError(f"{path} holds a header and no scores")
    return rows


def columns_by_kind(names: Sequence[str], groups: Collection[str] = ()) -> dict[str, str]:
    """Which column is the case, model, metric, rater, score, repeat; the first name of the list that is there."""
    lower = {name.casefold(): name for name in names if name not in groups}
    return {
        kind: next(lower[known] for known in known_names if known in lower)
        for kind, known_names in COLUMNS.items()
        if any(known in lower for known in known_names)
    }


def _value_columns(path: Path, rows: Sequence[Line], kinds: Mapping[str, str], groups: Collection[str]) -> list[str]:
    """The columns of marks: the score, or in a wide file all whose cells are numbers."""
    if "score" in kinds:
        return [kinds["score"]]
    free = [
        name
        for name in rows[0][1]
        if name not in kinds.values() and name.casefold() not in GROUPS and name not in groups
    ]
    columns = [
        name
        for name in free
        if any(_is_number(row[name]) for _, row in rows)
        and all(_is_number(row[name]) or row[name].casefold() in _MISSING for _, row in rows)
    ]
    if not columns:
        raise RefBenchError(
            f"{path} has no column of scores: call it score, or give a column of numbers for each rater or metric"
        )
    return columns


def _columns_are_metrics(kinds: Mapping[str, str], values: Sequence[str], named: Mapping[str, str]) -> bool:
    if "score" in kinds or "metric" in kinds:
        return False
    return "rater" in kinds or (bool(named) and all(name.casefold() in named for name in values))


def _marks(
    path: Path,
    row: Line,
    kinds: Mapping[str, str],
    values: Sequence[str],
    by_metric: bool,
    named: Mapping[str, str],
    rater: str,
) -> list[tuple[int, Mark]]:
    line, cells = row
    case, model, repeat = (cells[kinds[kind]] if kind in kinds else "" for kind in ("case", "model", "repeat"))
    marks = []
    for column in values:
        metric = column if by_metric else cells[kinds["metric"]] if "metric" in kinds else ONLY_METRIC
        by = cells[kinds["rater"]] if "rater" in kinds else rater if by_metric or "score" in kinds else column
        cell = cells[column]
        if cell.casefold() in _MISSING:
            value = None
        elif _is_number(cell):
            value = float(cell)
        else:
            raise RefBenchError(
                f"{path}, line {line}: {column} is {cell[:40]!r}, not a number (leave it empty if none)"
            )
        marks.append(
            (line, Mark(RatedItem(case, model, named.get(metric.casefold(), metric)), by or rater, value, repeat))
        )
    return marks


def _cased(
    path: Path,
    marks: Sequence[tuple[int, Mark]],
    rows: Sequence[Line],
    kinds: Mapping[str, str],
    grouping: Sequence[str],
    wanted: Collection[str],
) -> tuple[Sequence[tuple[int, Mark]], dict[str, dict[str, str]], bool]:
    """The marks with the cases they belong to, the groups of each case, and whether the marks are means already.

    A file without a case column holds one figure for each model (and group), or in wide form a row for each item.
    """
    groups_at = {line: {name: cells[name] for name in grouping if cells[name]} for line, cells in rows}
    summary = False
    if "case" not in kinds:
        of_row = [(mark.item, mark.rater, mark.repeat, *groups_at[line].items()) for line, mark in marks]
        summary = "model" in kinds and max(Counter(of_row).values()) == 1
        if not summary and "score" in kinds:
            raise RefBenchError(f"{path} has no column case: without it nobody knows which scores belong together")
        marks = [
            (line, mark._replace(item=mark.item._replace(case=_whole(groups_at[line]) if summary else f"line {line}")))
            for line, mark in marks
        ]
    of_case: dict[str, dict[str, str]] = {}
    other: set[str] = set()
    for line, mark in marks:
        for name, value in groups_at[line].items():
            before = of_case.setdefault(mark.item.case, {}).setdefault(name, value)
            if before != value and name in wanted:
                raise RefBenchError(
                    f"{path}, line {line}: case {mark.item.case} has {name} {before!r} before and {value!r} here"
                )
            if before != value:
                other.add(name)  # a column about the rater or the model, not about the case
    kept = {case: {k: v for k, v in groups.items() if k not in other} for case, groups in of_case.items()}
    return marks, kept, summary


def _whole(groups: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in groups.items()) or "all"


def _no_doubles(path: Path, marks: Sequence[tuple[int, Mark]]) -> None:
    seen: dict[tuple[object, ...], int] = {}
    for line, mark in marks:
        first = seen.setdefault((mark.item, mark.rater, mark.repeat), line)
        if first != line:
            item = ", ".join(filter(None, mark.item[:3]))
            raise RefBenchError(
                f"{path}, lines {first} and {line}: two scores of {mark.rater} for {item}; tell them apart in a column "
                "repeat"
            )


def _on_scale(path: Path, marks: Sequence[tuple[int, Mark]], people: Collection[str], limits: Limits) -> None:
    for line, mark in marks:
        ends = limits(mark, mark.rater in people)
        if ends is None or mark.value is None:
            continue
        rounding = 1e-9 * (ends[1] - ends[0])
        if not ends[0] - rounding <= mark.value <= ends[1] + rounding:
            raise RefBenchError(
                f"{path}, line {line}: {mark.rater} gives {mark.value:g}, and --scale says {ends[0]:g} to {ends[1]:g}"
            )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def with_humans(judged: Ratings, humans: Ratings, where: str) -> Ratings:
    """The judges' ratings and the people's on the items that the judges have; `where` names the people's file."""
    notes = list(judged.notes)
    if PEOPLE in judged.raters:  # the same people: they would agree with themselves
        judged = judged.with_marks([mark for mark in judged.marks if mark.rater != PEOPLE])
        if not judged.marks:
            raise RefBenchError(
                f"{where}: the run has no marks but those of {PEOPLE}, and no judge that could agree with them; how "
                "far they agree among themselves is in refbench study export, or refbench agree with their file alone"
            )
        notes.append(f"the run's own marks of {PEOPLE} are left out beside those of {where}")
    marks = _named(judged, humans, notes)
    if humans.summaries:
        judged = _means(judged.of_cases(), humans.group_names)
    known = {mark.item._replace(seed=None) for mark in judged.marks}
    there = [mark for mark in marks if mark.item in known]
    if not there:
        raise RefBenchError(_why_none(marks, known, where))
    lost = {mark.item for mark in marks} - known
    if lost:
        notes.append(
            f"{len(lost)} items of {where} are not in the run (first: {', '.join(filter(None, min(lost)[:3]))})"
        )
    clash = set(judged.raters) & set(humans.raters)
    if clash:
        there = [mark._replace(rater=f"{mark.rater} (human)") if mark.rater in clash else mark for mark in there]
    metrics = {mark.item.metric for mark in there}
    without = [metric for metric in judged.metrics if metric not in metrics]
    if without:
        notes.append(f"no human scores of {', '.join(without)}: compared between judges only")
    people = frozenset(mark.rater for mark in there)
    return judged.with_marks([*judged.marks, *there], humans=people, notes=tuple(notes))


def _named(judged: Ratings, humans: Ratings, notes: list[str]) -> Sequence[Mark]:
    """The people's marks with metrics by the run's names; a file without metrics is about the summary measure."""
    if humans.metrics != (ONLY_METRIC,) or ONLY_METRIC in judged.metrics:
        return humans.marks
    judges = [mark for mark in judged.marks if not is_panel(mark.rater)]
    summary = (judges or judged.marks)[-1].item.metric
    notes.append(f"the human scores name no metric: they are compared with {summary}")
    return [mark._replace(item=mark.item._replace(metric=summary)) for mark in humans.marks]


def _means(judged: Ratings, names: Sequence[str]) -> Ratings:
    """The judges' means over the cases of each model, or of each model and group that the people's figures are of."""
    values: dict[tuple[RatedItem, str], list[float]] = {}
    groups: dict[str, dict[str, str]] = {}
    for mark in judged.marks:
        groups_of_case = {name: judged.group(mark.item.case, name) or "" for name in names}
        case = ", ".join(f"{name} {value}" for name, value in groups_of_case.items()) or "all"
        groups[case] = groups_of_case
        if mark.value is not None:
            values.setdefault((mark.item._replace(case=case), mark.rater), []).append(mark.value)
    marks = [Mark(item, rater, float(np.mean(given))) for (item, rater), given in values.items()]
    return judged.with_marks(marks, groups=groups, summaries=True)


def _why_none(marks: Sequence[Mark], known: set[RatedItem], where: str) -> str:
    for kind in ("metric", "model", "case"):
        there = sorted({getattr(item, kind) for item in known})
        given = sorted({getattr(mark.item, kind) for mark in marks})
        if not set(there) & set(given):
            return (
                f"{where}: none of its {kind}s is in the run; it has {', '.join(given[:3]) or 'none'}, "
                f"the run {', '.join(there[:6])}"
            )
    return f"{where}: no case of it was judged for the same model and metric in the run"


class HumanFit(Record):
    """Correlation with human scores, over models (their means) and over single outputs; None where undefined."""

    n_models: int
    pearson: float | None
    spearman: float | None
    kendall: float | None
    n_items: int
    item_pearson: float | None
    item_spearman: float | None


class HumanScores:
    """What people gave to each model and to each output, on average; criteria of their own are averaged plainly."""

    def __init__(self, ratings: Ratings, measure: str) -> None:
        marks = [mark for mark in ratings.marks if mark.rater in ratings.humans and mark.value is not None]
        if not marks:
            raise RefBenchError("--humans: the file has no scores of people")
        names = {mark.item.metric for mark in marks}
        wanted = next(({name} for name in (measure, ONLY_METRIC) if name in names), names)
        self.remark = f"human scores are the mean over {', '.join(sorted(wanted))}" if len(wanted) > 1 else None
        by_model: dict[str, list[float]] = {}
        by_item: dict[tuple[str, str], list[float]] = {}
        for mark in marks:
            if mark.item.metric in wanted and mark.value is not None:
                by_model.setdefault(mark.item.model, []).append(mark.value)
                by_item.setdefault((mark.item.case, mark.item.model), []).append(mark.value)
        self.models = {model: float(np.mean(values)) for model, values in by_model.items()}
        self.items = {item: float(np.mean(values)) for item, values in by_item.items()}

    def fit(self, totals: Mapping[str, float], items: Mapping[tuple[str, str], float]) -> HumanFit:
        """Totals by model, and by (case, model)."""
        models = [model for model in totals if model in self.models]
        shared = [item for item in items if item in self.items]
        mine, theirs = [totals[m] for m in models], [self.models[m] for m in models]
        of_items, by_people = [items[i] for i in shared], [self.items[i] for i in shared]
        return HumanFit(
            n_models=len(models),
            pearson=pearson(mine, theirs),
            spearman=spearman(mine, theirs),
            kendall=kendall(mine, theirs),
            n_items=len(shared),
            item_pearson=pearson(of_items, by_people),
            item_spearman=spearman(of_items, by_people),
        )

    def best(self, models: Sequence[str], totals: Array) -> int | None:
        """Which row of totals (rows x models) goes best with the models' means, by Pearson; None where none can."""
        chosen = [i for i, model in enumerate(models) if model in self.models]
        theirs = np.array([self.models[models[i]] for i in chosen])
        fits = pearson_draws(totals[:, chosen], theirs, np.ones((len(totals), len(chosen)))) if chosen else totals[:0]
        return int(np.nanargmax(fits)) if np.isfinite(fits).any() else None
