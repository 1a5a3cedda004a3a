"""The leaderboard: one line for each model, best first, whatever it is printed as, and the sentences below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from refbench.evidence import PEOPLE
from refbench.record import counted
from refbench.score import digits_of
from refbench.tables.result import UNREADABLE, Result
from refbench.tables.sampled import percent
from refbench.tables.table import Ranked, Row, names_of, ranked

JUDGE, INTERVAL = "judge", "95 % interval"
"""Headings: whose marks a line has, where there are several judges, and the interval of the summary."""


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
    """Lines of the slice, judge by judge, ranked by the summary measure; those without a rank come last. Measures that
    were not tried are left out: the notes say why."""
    rows = [row for row in result.table.rows if dict(row.slice) == where]
    protocols = list(dict.fromkeys(row.protocol for row in rows))
    summary = result.summary(protocols[0], where)
    tried = {row.metric for row in rows if row.tried} | {summary}
    rows = [row for row in rows if row.metric in tried]
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
    judges = bool(result.bench.data.outputs)
    order = ranked([line.main for line in lines], result.bench.scoring.lower, together=judges)
    return [replace(by_row[id(place.row)], place=place) for place in order]


@dataclass(frozen=True)
class Leaderboard:
    """The lines of one slice as a table of text: a row of cells for each line, under headings."""

    where: Mapping[str, str]
    title: str
    lines: tuple[Line, ...]

    @property
    def several_judges(self) -> bool:
        return len({line.judge for line in self.lines}) > 1

    @property
    def measures(self) -> list[str]:
        """The measures beside the summary."""
        return list(dict.fromkeys(row.metric for line in self.lines for row in line.others))

    @property
    def names(self) -> list[str]:
        """The model of each line, with its judge where the lines have several."""
        if not self.several_judges:
            return [line.model for line in self.lines]
        return [f"{line.model} ({line.judge or 'no judge'})" for line in self.lines]

    @property
    def headings(self) -> list[str]:
        first = self.lines[0]
        titles = ["model", *([JUDGE] if self.several_judges else [])]
        titles += [f"{first.main.metric} ({first.main.protocol})", INTERVAL, "scored"]
        titles += [f"{row.metric} ({row.protocol})" for row in first.other_protocols]
        titles += ["published"] if self._with_published else []
        return [*titles, *self.measures]

    @property
    def rows(self) -> list[list[str]]:
        return [self._cells(line) for line in self.lines]

    def _cells(self, line: Line) -> list[str]:
        main, digits = line.main, line.digits
        others = {row.metric: row.value for row in line.others}
        interval = f"{main.ci95[0]:.{digits}f} to {main.ci95[1]:.{digits}f}" if main.ci95 else "-"
        # Of several seeds, the count also says what it is made of.
        of_seeds = f" ({counted(main.n_cases, 'case')} x {main.n_seeds} seeds)" if main.n_seeds > 1 else ""
        return [
            line.model,
            *([line.judge or "none"] if self.several_judges else []),
            number(main.value, digits),
            interval,
            f"est. from {percent(main.estimate.share)}"
            if main.estimate
            else f"{main.n_scored}/{main.n_expected}{of_seeds}",
            *(number(row.value, digits) for row in line.other_protocols),
            *([number(line.published, digits)] if self._with_published else []),
            *(number(others.get(name), digits) for name in self.measures),
        ]

    @property
    def _with_published(self) -> bool:
        return any(line.published is not None for line in self.lines)

    def not_ranked(self) -> list[str]:
        """Which lines have no rank and why, one sentence each."""
        places = zip(self.names, (line.place for line in self.lines), strict=True)
        return [f"{name} is {place.why_not}." for name, place in places if place and place.why_not]


def leaderboards(result: Result, by: str = "overall") -> list[Leaderboard]:
    """The leaderboard of all cases, and of each slice of the level `by`; slices without a line are left out."""
    levels = dict.fromkeys(("overall", by))
    titled = [place for level in levels for place in titled_slices(result.table.rows, level)]
    found = [Leaderboard(where, title, tuple(leaderboard(result, where))) for title, where in titled]
    return [board for board in found if board.lines]


def titled_slices(rows: Sequence[Row], level: str) -> list[tuple[str, dict[str, str]]]:
    """The slices of a level in the order of the table, each with what to call it: the level's own name where that
    tells them apart, else all names."""
    slices = list({tuple(row.slice.items()): dict(row.slice) for row in rows if row.slice["level"] == level}.values())
    names = [names_of(where) or [level] for where in slices]
    unique = len({of_slice[-1] for of_slice in names}) == len(names)
    titles = [of_slice[-1] if unique else ", ".join(of_slice) for of_slice in names]
    return list(zip(titles, slices, strict=True))


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def size(result: Result) -> str:
    """How many cases a table is about, and what they were measured with."""
    subset = f", subset {result.table.parts['subset']}" if result.table.parts.get("subset") else ""
    return f"{counted(len(result.cases), 'case')}{subset}; {result.measured_by()}"


def direction(result: Result, board: Leaderboard) -> list[str]:
    """Of which of the measures shown less is better."""
    shown = dict.fromkeys(row.metric for line in board.lines for row in (line.main, *line.others))
    lower = [name for name in shown if name in result.bench.scoring.lower]
    return [f"Lower is better: {', '.join(lower)}."] if lower else []


def left_out(result: Result, board: Leaderboard) -> list[str]:
    """Sentences about what the lines' numbers are not of, model by model: parts that are missing, failures with what
    they may have changed, pictures that were not asked for yet."""
    judges: dict[tuple[str, str], list[str]] = {}
    states = cache(partial(_states, result))
    for line in board.lines:
        row = line.main
        # Of a row without any value it goes without saying that nothing was scored in its parts.
        less = [r for r in remarks(row) if row.value is not None or not r.startswith("nothing scored in")]
        if row.estimate:
            less = []
        is_what = "is" if row.sampled else "is about less than all:"
        sentences = [f"{row.metric} {is_what} {'; '.join(less)}"] if less else []
        sentences += estimate_sentences(row, line.digits)
        sentences += failure_sentences(row, line.digits, result.refusals, stopped=row.model in result.stopped)
        further = [] if row.sampled else _further(result, line, states)
        sentences += [f"scored apart from {row.metric}: {'; '.join(further)}"] if further else []
        for sentence in sentences:
            judges.setdefault((line.model, sentence), []).append(line.judge or "no judge")
    # What is the same of several judges is said once.
    whose = " ({})" if board.several_judges else ""
    return [f"{model}{whose.format(', '.join(by))}: {sentence}." for (model, sentence), by in judges.items()]


def remarks(row: Row) -> list[str]:
    """What a number is not about: the remarks of its row, without those about its interval."""
    return [one for one in (row.remark or "").split("; ") if one and not one.startswith(("small n", "no interval"))]


def interval_remarks(board: Leaderboard) -> list[str]:
    """What to know of the intervals beside the summary, once for all lines of which it is true."""
    said: dict[str, list[str]] = {}
    for name, line in zip(board.names, board.lines, strict=True):
        for one in (line.main.remark or "").split("; "):
            if one.startswith(("small n", "no interval")) and line.main.value is not None:
                said.setdefault(one, []).append(name)
    return [
        f"{INTERVAL} of {'every line' if len(names) == len(board.lines) > 1 else ', '.join(names)}: {one}."
        for one, names in said.items()
    ]


def best_lines(lines: Sequence[Line], measure: str, lower: Collection[str]) -> list[int]:
    """Which lines have the best value of a measure among those of their judge that are ranked, as it is printed. None
    where there is nothing to choose from."""
    found: list[int] = []
    for judge in dict.fromkeys(line.judge for line in lines):
        values = {}
        for n, line in enumerate(lines):
            row = next((row for row in (line.main, *line.others) if row.metric == measure), None)
            if line.judge == judge and line.rank is not None and row is not None and row.value is not None:
                values[n] = float(number(row.value, line.digits))
        if len(values) > 1:
            best = (min if measure in lower else max)(values.values())
            found += [n for n, value in values.items() if value == best]
    return found


States = Mapping[tuple[str, str | None, str, str], Mapping[tuple[str, int], str]]
"""By model, judge, protocol and metric: of each picture (case and seed) the kind of failure, "not asked yet", or ""
where the score is there."""


def _states(result: Result) -> States:
    found: dict[tuple[str, str | None, str, str], dict[tuple[str, int], str]] = {}
    for score in result.scores:
        if score.not_applicable is None:
            state = score.failure.kind if score.failure else "not asked yet" if score.not_asked else ""
            place = score.model, score.judge, score.protocol, score.metric
            found.setdefault(place, {})[score.case, score.seed] = state
    return found


def _further(result: Result, line: Line, states: Callable[[], States]) -> list[str]:
    """What of the parts that enter a measure shown has failed or waits, where the count beside the summary does not
    have it: a measure of its own column, or a part that the summary is content to do without."""
    row = line.main
    measures = {m.name: m for m in result.bench.scoring.protocols[row.protocol].aggregate.measures}
    main = measures.get(row.metric)
    counted_parts = set(main.parts) if main and not main.any_part else set()
    shown = [measures[one.metric] for one in (row, *line.others) if one.metric in measures]
    parts = dict.fromkeys(part for measure in shown for part in measure.parts if part not in counted_parts)
    if not parts:  # as mostly: then nobody needs to look at every score
        return []

    def of(part: str) -> Mapping[tuple[str, int], str]:
        return states().get((line.model, line.judge, row.protocol, part), {})

    said = {picture for part in counted_parts for picture, state in of(part).items() if state}
    found = []
    for part in parts:
        # What the summary is made of has failed with it, and was said of it.
        if {picture for picture, state in of(part).items() if state} <= said:
            continue
        kinds = Counter(of(part).values())
        expected = kinds.total()
        # What cannot run here at all is said in the notes.
        if kinds[""] < expected and kinds["not_measured"] < expected:
            others = ", ".join(f"{n} {kind}" for kind, n in kinds.items() if kind)
            found.append(f"{part} {kinds['']}/{expected} ({others})")
    return found


def failure_sentences(row: Row, digits: int, refusals: str = "conditional", *, stopped: bool = False) -> list[str]:
    """Sentences, without the model's name, about what a row's number is not of: what failed and what that may have
    changed, and what was not asked for yet, or (`stopped`) not needed."""
    found = []
    what = "cases" if row.n_seeds < 2 else "pictures"
    if row.failures:
        n_failed = sum(row.failures.values())
        text = f"{n_failed} of {row.n_expected} {what} failed ({_kinds(row)})"
        if row.sampled:
            told = f"{row.n_failed} of the {row.n_judged}" if row.estimate else f"{n_failed} of the"
            text = f"{told} calls judged failed ({_kinds(row)})"
        if row.n_imputed:
            how = "with the value that the protocol gives them" if refusals == "conditional" else "as the worst value"
            text += f", {row.n_imputed} of them counted {how}"
        if row.bounds and (open_ := sum(row.failures.values()) - row.n_imputed):
            low, high = (number(end, digits) for end in row.bounds)
            they = f"the other {open_}" if row.n_imputed else "it" if open_ == 1 else "they"
            if row.estimate:
                text += f"; if all fail alike, {row.metric} would lie between {low} and {high}"
            else:
                text += f": whatever {they} had scored, {row.metric} would be between {low} and {high}"
        found.append(text)
    if row.n_not_asked and not row.sampled:
        if row.judge == PEOPLE:
            found.append(
                f"{row.n_not_asked} of {row.n_expected} {what} not marked by anybody; those of a study come in "
                "with refbench study export --into"
            )
            return found
        to_come = "the same run command goes on with what it asks for"
        if stopped:
            to_come = "they were not needed to decide; without --stop-when-resolved they are asked"
        not_asked = f"{row.n_not_asked} of {row.n_expected} {what} not asked yet"
        found.append(f"{not_asked}; {to_come}")
    return found


def estimate_sentences(row: Row, digits: int) -> list[str]:
    """What an estimated number rests on, without the model's name."""
    if row.estimate is None:
        return []
    told = row.estimate
    low, high = (number(end, digits) for end in told.all_calls95)
    judged = f"{row.metric} is estimated from {percent(told.share)} of the calls ({told.n_judged} of {told.n_all})"
    return [
        f"{judged}, worth {told.effective_n:.0f} cases drawn at random: all calls would give {low} to {high} (95 %); "
        "the interval of the table is about other such cases too"
    ]


def _kinds(row: Row) -> str:
    """The failures by kind, the model's own apart from those of judges and metrics."""
    found = []
    for kind, n in row.failures.items():
        own = row.own_failures.get(kind, 0)
        found += [f"{own} {kind} by the model"] if own else []
        whose = {"refused": " by the judge" if row.judge else "", UNREADABLE: " of the case"}.get(kind, "")
        found += [f"{n - own} {kind}{whose}"] if n > own else []
    return ", ".join(found)
