"""Figures of an audit: ladders of strengths, places of a swapped reference, and marks without seeing."""

from __future__ import annotations

from collections.abc import Sequence

from refbench.analysis.audit.records import NOT_VALIDATED, AuditReport, Figure, LadderRow
from refbench.report.figures.chart import Axis, Chart, Panel, Series, Value
from refbench.report.figures.palette import NEUTRAL, styles_of
from refbench.report.figures.svg import isolated

_PLACES = ("first", "middle", "last", "after the first")
_ABSENT = "not asked about"


def ladder_chart(report: AuditReport, judge: str = "") -> Chart:
    """Steps of the scale lost at each strength: a panel a damage, a line a criterion that it aims at."""
    by_number: dict[int, list[LadderRow]] = {}
    for row in report.ladders:
        by_number.setdefault(row.number, []).append(row)
    styles = styles_of([one.name for one in report.card.criteria])
    panels = []
    for _, rows in sorted(by_number.items()):
        strengths = tuple(dict.fromkeys(rung.strength for row in rows for rung in row.rungs))
        series = []
        for row in rows:
            drops = {rung.strength: _value(rung.drop) for rung in row.rungs}
            values = tuple(drops.get(strength, Value(None, why=_ABSENT)) for strength in strengths)
            series.append(Series(row.criterion, styles[row.criterion], values))
        axis = Axis("steps lost")
        panels.append(Panel(axis, strengths, tuple(series), title=ladder_title(rows[0]), over="strength"))
    return _chart("ladders", "lines", "A stronger damage should cost more", report, panels, judge)


def ladder_title(row: LadderRow) -> str:
    return f"{row.number} {row.name.replace('_', ' ')}"


def place_chart(report: AuditReport, judge: str = "") -> Chart:
    """Whether a swapped reference is seen, by its place."""
    criteria = tuple(dict.fromkeys(row.criterion for row in report.positions))
    styles = styles_of([one.name for one in report.card.criteria])
    places = tuple(place for place in _PLACES if any(row.place == place for row in report.positions))
    figures = {(row.criterion, str(row.place)): row.sees for row in report.positions}
    series = [
        Series(name, styles[name], tuple(_value(figures.get((name, place))) for place in places)) for name in criteria
    ]
    panels = [Panel(Axis("sees, share of pairs", low=0.0, high=1.0), places, tuple(series))] if series else []
    return _chart("places", "rows", "A swapped reference, by its place", report, panels, judge)


def blind_chart(report: AuditReport, judge: str = "") -> Chart:
    """How far marks given without seeing go with those of the pictures."""
    criteria = tuple(dict.fromkeys(cell.criterion for cell in report.controls))
    kinds = list(dict.fromkeys((cell.number, cell.said) for cell in report.controls))
    styles = dict(zip([said for _, said in kinds], styles_of([str(n) for n, _ in kinds]).values(), strict=True))
    figures = {(cell.criterion, cell.number): cell.blind for cell in report.controls}
    series = [
        Series(said, styles.get(said, NEUTRAL), tuple(_value(figures.get((name, number))) for name in criteria))
        for number, said in kinds
    ]
    axis = Axis("rank correlation with the marks of the pictures", low=-1.0, high=1.0)
    panels = [Panel(axis, criteria, tuple(series))] if series else []
    return _chart(
        "without_seeing", "rows", "Marks without seeing should not follow those of the pictures", report, panels, judge
    )


def _value(one: Figure | None) -> Value:
    if one is None:
        return Value(None, why=_ABSENT)
    low, high = one.ci95 if one.ci95 is not None and one.value is not None else (None, None)
    cases = f"{one.n} case{'s' if one.n != 1 else ''}"
    return Value(one.value, low, high, why="" if one.value is not None else one.why or "no value", about=cases)


def _chart(name: str, kind: str, title: str, report: AuditReport, panels: Sequence[Panel], judge: str) -> Chart:
    about = f"{isolated(judge or report.card.judge)}, {report.card.n_cases} cases"
    note = f"95 % intervals clustered by case. {NOT_VALIDATED[0].upper()}{NOT_VALIDATED[1:]}."
    return Chart(name, kind, title, tuple(panels), subtitle=about, notes=(note,))  # type: ignore[arg-type]
