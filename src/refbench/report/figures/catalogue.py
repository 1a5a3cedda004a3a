"""The figures by name: those that every benchmark has, and those of its paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from refbench.benchmarks.kit.definition import PaperFigure
from refbench.record import RefBenchError, counted
from refbench.report.figures.analyses import agreement, cost, distribution, gaps, steps, weights
from refbench.report.figures.chart import Axis, Chart, Kind, Panel, Series
from refbench.report.figures.files import Figure
from refbench.report.figures.view import FigureOptions, TableView, level_words, whole
from refbench.tables.result import Result
from refbench.tables.table import OVERALL

Make = Callable[[TableView], Chart]


@dataclass(frozen=True)
class Entry:
    """One figure that can be asked for."""

    name: str
    shows: str
    make: Make


def models(view: TableView) -> Chart:
    """Each model's number with its interval, under every protocol that the table has."""
    there = list(dict.fromkeys(row.protocol for row in view.result.table.rows))
    protocols = [view.protocol] if view.options.protocol else there
    panels = []
    for protocol in protocols:
        of_protocol = replace(view, options=replace(view.options, protocol=protocol, models=view.models))
        measure = view.options.measure or of_protocol.summary
        axis = of_protocol.axis(measure)
        values = tuple(of_protocol.value(model, measure, OVERALL) for model in view.models)
        series = whole(measure, values)
        styles = tuple(view.styles[model] for model in view.models)
        panels.append(Panel(axis, view.models, (series,), protocol if len(protocols) > 1 else "", marks=styles))
    return _chart(view, "models", "rows", f"{view.summary.replace('_', ' ')} by model", panels)


def heatmap(view: TableView) -> Chart:
    """Models down, tasks (or the slices of another level) across."""
    level = view.options.by or _finest(view)
    slices = view.slices(level)
    places = [(view.summary, where) for _, where in slices]
    panel = Panel(view.axis(view.summary), tuple(title for title, _ in slices), view.series(places))
    return _chart(view, "heatmap", "heatmap", f"{view.summary.replace('_', ' ')} by {level_words(level)}", [panel])


def references(view: TableView) -> Chart:
    """A line for each model over the number of references."""
    return of_slices(view, PaperFigure("references", "", "lines", by=("n_refs",)))


def radar(view: TableView) -> Chart:
    """A spoke for each measure of one scale, or for each slice of a level (--by)."""
    if view.options.by:
        return of_slices(view, PaperFigure("radar", "", "radar", by=(view.options.by,)))
    declared = next((one for one in view.result.bench.reporting.figures if one.kind == "radar"), None)
    if declared is not None:
        return of_slices(view, replace(declared, name="radar"))
    alike = _of_one_scale(view)
    if len(alike) >= 3:
        return of_slices(view, PaperFigure("radar", "", "radar", measures=alike))
    level = next((level for level in view.levels() if 3 <= len(view.slices(level)) <= 12), None)
    if level is None:
        raise RefBenchError(
            "a radar needs three measures of one scale, or a level with 3 to 12 slices: there is neither"
        )
    return of_slices(view, PaperFigure("radar", "", "radar", by=(level,)))


EVERYWHERE = (
    Entry("models", "every model's number with its interval, under each protocol", models),
    Entry("heatmap", "models x tasks, or x the slices of --by LEVEL", heatmap),
    Entry("references", "a line for each model over the number of references", references),
    Entry("radar", "a spoke for each measure of one scale, or each slice of --by LEVEL", radar),
    Entry("gaps", "every pair's gap with its interval; what is not resolved is hollow", gaps),
    Entry("cost", "quality against dollars and seconds a picture, with the frontier", cost),
    Entry("distribution", "how the scores of single pictures are spread", distribution),
    Entry("agreement", "how far each two judges agree", agreement),
    Entry("weights", "the total under other weights of its criteria", weights),
    Entry("steps", "every step of an agent, by criterion or --by LEVEL", steps),
)
"""Figures that any benchmark's table may have."""


def entries(result: Result) -> dict[str, Entry]:
    """By name, those of the benchmark's paper first."""
    papers = {one.name: _of_paper(one) for one in result.bench.reporting.figures}
    return papers | {one.name: one for one in EVERYWHERE if one.name not in papers}


def _of_paper(declared: PaperFigure) -> Entry:
    shows = f"{declared.shows} ({declared.paper} of the paper)" if declared.paper else declared.shows
    return Entry(declared.name, shows, lambda view: of_slices(view, declared))


def figure(name: str, result: Result, *, options: FigureOptions | None = None, runs: Sequence[Path] = ()) -> Figure:
    """One of the figures of a result, by its name (`names`); it draws itself in a notebook, and `.save(path)` writes
    it as .svg, .pdf, .png or .csv. `runs` are the directories behind the result: what pictures cost is known there."""
    known = entries(result)
    if name not in known:
        raise RefBenchError(f"there is no figure {name}: there are {', '.join(known)}")
    view = TableView(result, options or FigureOptions(), tuple(runs))
    return Figure(known[name].make(view))


def names(result: Result) -> dict[str, str]:
    """The figures that can be asked for, each with what it shows."""
    return {entry.name: entry.shows for entry in entries(result).values()}


def available(
    result: Result, runs: Sequence[Path] = (), options: FigureOptions | None = None
) -> tuple[dict[str, Figure], dict[str, str]]:
    """Every figure that can be drawn of a result, and of the others why not."""
    found: dict[str, Figure] = {}
    why_not: dict[str, str] = {}
    for name in entries(result):
        try:
            found[name] = figure(name, result, options=options, runs=runs)
        except RefBenchError as error:
            why_not[name] = str(error)
    return found, why_not


def of_slices(view: TableView, declared: PaperFigure) -> Chart:
    """Measures on slices, as the benchmark declares it."""
    by = (view.options.by,) if view.options.by and declared.by else declared.by
    chosen = (view.options.measure,) if view.options.measure else declared.measures
    there = [name for name in chosen if name in view.measures] or [view.summary]
    if not by:
        panels = [_of_measures(view, those, declared) for those in _by_direction(view, there)]
    else:
        view = replace(view, options=replace(view.options, by=by[0]))
        levels = [level for level in by if level in {row.slice["level"] for row in view.all_rows}]
        if not levels:
            view.slices(by[0])  # says which levels there are
        panels = [
            _panel(view, measure, level, declared, len(there), len(levels)) for level in levels for measure in there
        ]
    words = [level_words(level) for level in by]
    ends = {word.partition(" of the ")[2] for word in words}
    if len(words) > 1 and len(ends) == 1 and "" not in ends:  # source and generator of the references
        words = [*(word.partition(" of the ")[0] for word in words[:-1]), words[-1]]
    over = " and ".join(words) or "measure"
    what = there[0].replace("_", " ") if len(there) == 1 else "scores"
    kept = view.options.measure or view.summary
    title = f"{what} by {over}"
    return _chart(view, declared.name, declared.kind, title, panels, declared.interval, there[0] if by else kept)


def _by_direction(view: TableView, measures: Sequence[str]) -> list[list[str]]:
    """The measures of which more is better, and those of which less is: they share no axis."""
    sides = ([name for name in measures if view.axis(name).lower == lower] for lower in (False, True))
    return [side for side in sides if side]


def _of_measures(view: TableView, measures: Sequence[str], declared: PaperFigure) -> Panel:
    """Measures side by side, on all cases."""
    places = [(measure, OVERALL) for measure in measures]
    words = tuple(measure.replace("_", " ") for measure in measures)
    return Panel(_common_axis(view, measures), words, _series(view, places, declared))


def _panel(view: TableView, measure: str, level: str, declared: PaperFigure, n_measures: int, n_levels: int) -> Panel:
    slices = [(title, where) for title, where in view.slices(level) if _concerns(view, measure, where)]
    slices = slices or view.slices(level)
    words = [level_words(level)] if n_levels > 1 else []
    words += [measure.replace("_", " ")] if n_measures > 1 else []
    series = _series(view, [(measure, where) for _, where in slices], declared)
    titles = tuple(title for title, _ in slices)
    return Panel(view.axis(measure), titles, series, ", ".join(words), over=level_words(level))


def _concerns(view: TableView, measure: str, where: Mapping[str, str]) -> bool:
    """Whether the measure has anything to do with a slice: a number, or something that was expected of it."""
    rows = [row for model in view.models if (row := view.row(model, measure, where)) is not None]
    return any(row.n_expected for row in rows)


def _series(
    view: TableView, places: Sequence[tuple[str, Mapping[str, str]]], declared: PaperFigure
) -> tuple[Series, ...]:
    return view.series(places, level=declared.interval)


def _common_axis(view: TableView, measures: Sequence[str]) -> Axis:
    axes = [view.axis(measure) for measure in measures]
    lows, highs = {axis.low for axis in axes}, {axis.high for axis in axes}
    return replace(
        axes[0],
        label="score",
        low=lows.pop() if len(lows) == 1 else None,
        high=highs.pop() if len(highs) == 1 else None,
    )


def _of_one_scale(view: TableView) -> tuple[str, ...]:
    """The measures beside the summary that share the scale of most of them, and of which more is better."""
    # A name with a network in it is a further way to measure what another name does.
    axes = {name: view.axis(name) for name in view.measures if name != view.summary and "@" not in name}
    scales: dict[tuple[float, float], list[str]] = {}
    for name, axis in axes.items():
        if axis.low is not None and axis.high is not None and not axis.lower:
            scales.setdefault((axis.low, axis.high), []).append(name)
    most: list[str] = max(scales.values(), key=len, default=[])
    return tuple(most)


def _finest(view: TableView) -> str:
    levels = view.levels()
    if not levels:
        raise RefBenchError("the table has no level beside the whole: there is nothing to put across")
    known = [level for level in ("task", "dimension", "category") if level in levels]
    order = [*known, *reversed(levels)]
    # Not every measure is one of every level: MultiRef-Bench's summary has no value by category.
    return next((level for level in order if _has_values(view, level)), order[0])


def _has_values(view: TableView, level: str) -> bool:
    places = [where for _, where in view.slices(level)]
    return any(view.value(model, view.summary, where).value is not None for model in view.models for where in places)


def _chart(
    view: TableView, name: str, kind: Kind, title: str, panels: Sequence[Panel], interval: int = 95, measure: str = ""
) -> Chart:
    with_ends = any(value.ends for panel in panels for value in panel.values)
    sides = {panel.axis.lower for panel in panels}
    better = ("lower is better" if sides.pop() else "higher is better") if len(sides) == 1 else ""
    said = ", ".join(filter(None, (f"{interval} % intervals" if with_ends else "no intervals", better)))
    about = f"{counted(len(view.models), 'model')}, {said}"
    return Chart(
        name,
        kind,
        f"{view.result.bench.title}: {title}",
        tuple(panels),
        subtitle=about,
        notes=view.notes(measure=measure),
        width=view.options.width,
        links=view.options.links,
    )
