"""The leaderboard: one line for each model, best first, whatever it is printed as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from refbench.score import digits_of
from refbench.tables.result import UNREADABLE, Result
from refbench.tables.table import Ranked, Row, names_of, ranked

__all__ = [
    "INTERVAL",
    "JUDGE",
    "Line",
    "Ranked",
    "called",
    "cells",
    "failures_said",
    "headings",
    "interval",
    "kinds_said",
    "leaderboard",
    "left_out",
    "lower_said",
    "not_ranked",
    "number",
    "ranked",
    "scored",
    "slice_titles",
    "slices_of",
]

JUDGE = "judge"
"""The column that says whose marks a line has, where there are several judges."""
INTERVAL = "95 % interval"


@dataclass(frozen=True)
class Line:
    """One model (and judge) on one slice, under the first protocol of the table."""

    model: str
    judge: str | None
    main: Row
    """The row of the summary measure."""
    others: tuple[Row, ...]
    other_protocols: tuple[Row, ...]
    """The summary measure under the table's other protocols."""
    published: float | None
    digits: int = 2
    place: Ranked | None = None
    """Where the line stands among those of its judge; its rank is None where it has no value or too few cases."""

    @property
    def rank(self) -> int | None:
        return self.place.rank if self.place else None


def leaderboard(result: Result, where: dict[str, str]) -> list[Line]:
    """Lines of the slice, judge by judge, ranked by the summary measure; those without a rank come last. Measures in
    which no model has a value are left out: the notes say why they have none."""
    rows = [row for row in result.table.rows if dict(row.slice) == where]
    protocols = list(dict.fromkeys(row.protocol for row in rows))
    summary = result.summary(protocols[0], where)
    valued = {row.metric for row in rows if row.value is not None} | {summary}
    rows = [row for row in rows if row.metric in valued]
    published = [p for p in result.published() if p.metric == summary and dict(p.slice) == where]
    of_summary = [row for row in rows if row.metric == summary]
    digits = digits_of(value for row in of_summary for value in (row.value, *(row.bounds or ())))
    lines = []
    for model, judge in dict.fromkeys((row.model, row.judge) for row in rows):
        mine = [row for row in rows if (row.model, row.judge) == (model, judge)]
        first = [row for row in mine if row.protocol == protocols[0]]
        main = next((row for row in first if row.metric == summary), None)
        if main is None:
            continue
        lines.append(
            Line(
                model=model,
                judge=judge,
                main=main,
                others=tuple(row for row in first if row.metric != summary),
                other_protocols=tuple(row for row in mine if row.protocol != protocols[0] and row.metric == summary),
                published=next(
                    (p.value for p in published if p.model == model and result.same_judge(judge, p.judge)), None
                ),
                digits=digits,
            )
        )
    by_row = {id(line.main): line for line in lines}
    order = ranked([line.main for line in lines], result.bench.scoring.lower)
    return [replace(by_row[id(place.row)], place=place) for place in order]


def not_ranked(lines: Sequence[Line]) -> list[str]:
    """Which lines have no rank and why, one sentence each."""
    return [f"{called(line, lines)} is {line.place.why_not}." for line in lines if line.place and line.place.why_not]


def called(line: Line, lines: Sequence[Line]) -> str:
    """The model, with its judge where the lines have several."""
    return line.model if not _several_judges(lines) else f"{line.model} ({line.judge or 'no judge'})"


def slices_of(rows: Sequence[Row], level: str) -> list[dict[str, str]]:
    """The slices of a level in the order of the table."""
    found = {tuple(row.slice.items()): dict(row.slice) for row in rows if row.slice["level"] == level}
    return list(found.values())


def slice_titles(slices: Sequence[Mapping[str, str]], level: str) -> list[str]:
    """What to call the slices of a level: by the level's own name where that tells them apart, else by all names."""
    names = [names_of(where) or [level] for where in slices]
    short = [of_slice[-1] for of_slice in names]
    return short if len(set(short)) == len(short) else [", ".join(of_slice) for of_slice in names]


def headings(lines: Sequence[Line]) -> list[str]:
    """Column titles for `cells`."""
    first = lines[0]
    titles = ["model", *([JUDGE] if _several_judges(lines) else [])]
    titles += [f"{first.main.metric} ({first.main.protocol})", INTERVAL, "scored"]
    titles += [f"{row.metric} ({row.protocol})" for row in first.other_protocols]
    titles += ["published"] if _with_published(lines) else []
    return [*titles, *_measures(lines)]


def cells(line: Line, lines: Sequence[Line]) -> list[str]:
    """The line as text, one cell for each of the headings of all lines."""
    digits = line.digits
    others = {row.metric: row.value for row in line.others}
    return [
        line.model,
        *([line.judge or "none"] if _several_judges(lines) else []),
        number(line.main.value, digits),
        interval(line.main, digits),
        scored(line.main),
        *(number(row.value, digits) for row in line.other_protocols),
        *([number(line.published, digits)] if _with_published(lines) else []),
        *(number(others.get(name), digits) for name in _measures(lines)),
    ]


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def interval(row: Row, digits: int) -> str:
    return f"{row.ci95[0]:.{digits}f} to {row.ci95[1]:.{digits}f}" if row.ci95 else "-"


def scored(row: Row) -> str:
    """How many pictures have a value, of those expected; of several seeds also what they are made of."""
    counts = f"{row.n_scored}/{row.n_expected}"
    return counts if row.n_seeds < 2 else f"{counts} ({row.n_cases} cases x {row.n_seeds} seeds)"


def lower_said(result: Result, lines: Sequence[Line]) -> list[str]:
    """Of which of the measures shown less is better."""
    shown = dict.fromkeys(row.metric for line in lines for row in (line.main, *line.others))
    lower = [name for name in shown if name in result.bench.scoring.lower]
    return [f"Lower is better: {', '.join(lower)}."] if lower else []


def left_out(result: Result, lines: Sequence[Line]) -> list[str]:
    """Sentences about what the lines' numbers are not of, model by model: parts that are missing, failures with what
    they may have changed, pictures that were not asked for yet."""
    found = []
    states = _states(result)
    for line in lines:
        name, row = called(line, lines), line.main
        # Of a row without any value it goes without saying that nothing was scored in its parts.
        prosaic = ("small n", "no interval", *(["nothing scored in"] if row.value is None else []))
        remarks = [r for r in (row.remark or "").split("; ") if r and not r.startswith(prosaic)]
        said = [f"{row.metric} is about less than all: {'; '.join(remarks)}"] if remarks else []
        said += failures_said(row, line.digits, result.refusals)
        further = _further(result, line, states)
        said += [f"scored apart from {row.metric}: {'; '.join(further)}"] if further else []
        found += [f"{name}: {sentence}." for sentence in said]
    return found


States = Mapping[tuple[str, str | None, str, str], Counter[str]]
"""By model, judge, protocol and metric: how many scores failed by kind, are "not asked yet", or are there ("")."""


def _states(result: Result) -> States:
    found: dict[tuple[str, str | None, str, str], Counter[str]] = {}
    for score in result.scores:
        if score.not_applicable is None:
            state = score.failure.kind if score.failure else "not asked yet" if score.not_asked else ""
            place = score.model, score.judge, score.protocol, score.metric
            found.setdefault(place, Counter())[state] += 1
    return found


def _further(result: Result, line: Line, states: States) -> list[str]:
    """What of the parts that enter a measure shown has failed or waits, where the count beside the summary does not
    have it: a measure of its own column, or a part that the summary is content to do without."""
    row = line.main
    measures = {m.name: m for m in result.bench.scoring.protocols[row.protocol].aggregate.measures}
    main = measures.get(row.metric)
    counted = set(main.parts) if main and not main.any_part else set()
    shown = [measures[one.metric] for one in (row, *line.others) if one.metric in measures]
    parts = dict.fromkeys(part for measure in shown for part in measure.parts if part not in counted)
    found = []
    for part in parts:
        kinds = states.get((line.model, line.judge, row.protocol, part), Counter())
        expected = kinds.total()
        # What cannot run here at all is said in the notes.
        if kinds[""] < expected and kinds["not_measured"] < expected:
            said = ", ".join(f"{n} {kind}" for kind, n in kinds.items() if kind)
            found.append(f"{part} {kinds['']}/{expected} ({said})")
    return found


def failures_said(row: Row, digits: int, refusals: str = "conditional") -> list[str]:
    """Sentences, without the model's name, about what a row's number is not of: what failed and what that may have
    changed, and what was not asked for yet."""
    said = []
    what = "cases" if row.n_seeds < 2 else "pictures"
    if row.failures:
        text = f"{sum(row.failures.values())} of {row.n_expected} {what} failed ({kinds_said(row)})"
        if row.n_imputed:
            how = "with the value that the protocol gives them" if refusals == "conditional" else "as the worst value"
            text += f", {row.n_imputed} of them counted {how}"
        if row.bounds and (open_ := sum(row.failures.values()) - row.n_imputed):
            low, high = (number(end, digits) for end in row.bounds)
            they = f"the other {open_}" if row.n_imputed else "they"
            text += f": whatever {they} had scored, {row.metric} would be between {low} and {high}"
        said.append(text)
    if row.n_not_asked:
        said.append(
            f"{row.n_not_asked} of {row.n_expected} {what} not asked yet: the same run command goes on with them"
        )
    return said


def kinds_said(row: Row) -> str:
    """The failures by kind, the model's own apart from those of judges and metrics."""
    found = []
    for kind, n in row.failures.items():
        own = row.own_failures.get(kind, 0)
        found += [f"{own} {kind} by the model"] if own else []
        whose = {"refused": " by the judge" if row.judge else "", UNREADABLE: " of the case"}.get(kind, "")
        found += [f"{n - own} {kind}{whose}"] if n > own else []
    return ", ".join(found)


def _measures(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(row.metric for line in lines for row in line.others))


def _several_judges(lines: Sequence[Line]) -> bool:
    return len({line.judge for line in lines}) > 1


def _with_published(lines: Sequence[Line]) -> bool:
    return any(line.published is not None for line in lines)
