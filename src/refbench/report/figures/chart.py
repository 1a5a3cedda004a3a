"""What a chart shows, as small frozen records: numbers with their intervals, or why there are none, under a title."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Literal

from refbench.record import counted
from refbench.report.figures.palette import Style
from refbench.report.figures.svg import isolated, padded, shown
from refbench.tables.table import Row, is_enough

Kind = Literal["bars", "lines", "heatmap", "radar", "rows", "forest", "scatter", "histogram", "shares"]
UNASKED = "not asked yet"
ABSENT = "not in the table"
_NAMED = 4
"""Models whose failures a note names."""


@dataclass(frozen=True)
class Value:
    """One number as the table has it, or `why` there is none. `few` where it is about fewer than half of its cases:
    too few to be ranked. `across` is the other number of a point in a plane."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""
    about: str = ""
    """What it is about, for who points at it: 41 of 45 scored, 4 refused."""
    few: bool = False
    estimated: bool = False
    """Whether it is estimated from a part of the calls: its interval is dashed."""
    across: float | None = None
    leads: bool = False
    """Whether it is drawn as one that stands out: a resolved gap, a point on the frontier."""

    @property
    def ends(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


def value_of(row: Row | None, *, level: Literal[95, 99] = 95, unasked: int = 0) -> Value:
    """The number of a row with its interval, or in words why it has none. `unasked` of its cases no model was asked for
    yet: they are expected of none."""
    if row is None:
        return Value(None, why=ABSENT)
    interval = row.ci99 if level == 99 else row.ci95
    low, high = interval if interval is not None and row.value is not None else (None, None)
    about = f"{row.n_scored} of {row.n_expected} scored"
    if row.failures:
        about += "; failed: " + ", ".join(f"{n} {kind}" for kind, n in row.failures.items())
    if row.n_not_asked:
        about += f"; {row.n_not_asked} not asked yet"
    if row.estimate is not None:
        about = f"estimated from {row.estimate.n_judged} of {row.estimate.n_all} calls"
    few = row.value is not None and not is_enough(row, unasked)
    return Value(row.value, low, high, _why(row), about, few, estimated=row.estimate is not None)


def _why(row: Row) -> str:
    """Why a row has no value, in few words."""
    if row.value is not None:
        return ""
    if not row.n_expected:
        return "does not apply"
    if row.n_not_asked == row.n_expected:
        return UNASKED
    failed = sum(row.failures.values())
    if failed == row.n_expected:
        return f"all {failed} failed"
    return f"no value: {row.n_scored} of {row.n_expected} scored"


@dataclass(frozen=True)
class Axis:
    """What the numbers are: of which measure, on which scale, and whether less of it is better."""

    label: str
    lower: bool = False
    low: float | None = None
    high: float | None = None
    digits: int = 2

    @property
    def words(self) -> str:
        return f"{self.label} (lower is better)" if self.lower else self.label

    def number(self, value: float) -> str:
        return f"{value:.{self.digits}f}"

    def range_of(self, values: Sequence[Value], *, from_end: bool = False) -> tuple[float, float]:
        """The part of the scale that is drawn: where numbers and intervals are, no further than the scale goes; with
        `from_end` from its lower end, or from zero, as bars need it."""
        ends = [end for one in values for end in (one.value, *(one.ends or ())) if end is not None]
        low, high = padded(ends, 0.06)
        if self.low is not None and ends:
            low = max(low, min(self.low, *ends))
        if self.high is not None and ends:
            high = min(high, max(self.high, *ends))
        if from_end:
            low, high = (self.low if self.low is not None and self.low <= low else min(0.0, low)), max(high, 0.0)
        return (low, high) if high > low else (low - 0.5, high + 0.5)


@dataclass(frozen=True)
class Series:
    """One model's numbers (or one judge's, or one group's): a value for each category of the panel."""

    name: str
    style: Style
    values: tuple[Value, ...]
    mean: Value | None = None
    """Of columns of counts: the number that the table has of what is counted."""
    aside: tuple[str, ...] = ()
    """Words beside its row: what is in none of its numbers."""


@dataclass(frozen=True)
class Panel:
    """Series over the same categories on one axis."""

    axis: Axis
    categories: tuple[str, ...]
    series: tuple[Series, ...]
    title: str = ""
    across: Axis | None = None
    """The other axis of points in a plane, and that of what is counted."""
    over: str = ""
    """What the categories are: number of references."""
    marks: tuple[Style, ...] = ()
    """Where the categories are models: the style of each."""

    @property
    def values(self) -> list[Value]:
        return [value for series in self.series for value in series.values]

    @property
    def scored(self) -> bool:
        return any(value.value is not None for value in self.values)


@dataclass(frozen=True)
class Chart:
    """All that a figure says. The same chart gives the same SVG, to the byte."""

    name: str
    kind: Kind
    title: str
    panels: tuple[Panel, ...]
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    width: float = 760
    links: str = ""
    """Where the cases behind a mark are: an address with {series} and {category} in it; empty for no links."""
    labels: Sequence[str] = field(default_factory=tuple)
    """What the rows of a forest are called on it, in few words; empty for the categories themselves."""

    @property
    def scored(self) -> bool:
        return any(panel.scored for panel in self.panels)

    @property
    def series(self) -> list[Series]:
        """Every series once, by its name, in the order of the panels."""
        return list({series.name: series for panel in self.panels for series in panel.series}.values())

    def wide(self, width: float) -> Chart:
        return replace(self, width=width)

    def numbers(self) -> Iterator[dict[str, Any]]:
        """A row for each number that is drawn, and for each that is not, with the reason."""
        for panel in self.panels:
            for series in panel.series:
                for category, value in zip(panel.categories, series.values, strict=True):
                    row = {
                        "panel": panel.title or panel.axis.label,
                        "series": series.name,
                        "category": category,
                        "value": value.value,
                        "low": value.low,
                        "high": value.high,
                    }
                    yield (
                        row
                        | ({"across": value.across} if panel.across else {})
                        | {
                            "why": value.why,
                            "about": value.about,
                        }
                    )


def hover(panel: Panel, series: Series, category: str, value: Value) -> str:
    """What a mark says in words."""
    place = ", ".join(dict.fromkeys(isolated(word) for word in (series.name, category) if word))
    if value.value is None:
        return f"{place}: {value.why}" + (f" ({value.about})" if value.about else "")
    said = f"{place}: {panel.axis.label} {panel.axis.number(value.value)}"
    if value.ends is not None:
        said += f" [{panel.axis.number(value.ends[0])}, {panel.axis.number(value.ends[1])}]"
    if panel.across is not None and value.across is not None:
        said += f", {panel.across.label} {value.across:.4g}"
    return said + (f" ({value.about})" if value.about else "")


def data(panel: Panel, series: Series, category: str, value: Value) -> str:
    """The attributes of a mark, for scripts and tests: what is drawn, to the last digit."""
    names = {"panel": panel.title or panel.axis.label, "series": series.name, "category": category}
    found = [f'data-{key}="{escape(shown(name))}"' for key, name in names.items()]
    numbers = {"value": value.value, "low": value.low, "high": value.high, "across": value.across}
    found += [f'data-{key}="{number!r}"' for key, number in numbers.items() if number is not None]
    found += [f'data-why="{escape(shown(value.why))}"'] if value.value is None else []
    return 'class="value" ' + " ".join(found)


def coverage_note(values: Sequence[tuple[str, Row]]) -> str:
    """Whose numbers are not about all of their cases, and why; empty where all are."""
    said = []
    for name, row in values:
        failed = sum(row.failures.values())
        kinds = ", ".join(kind if len(row.failures) == 1 else f"{n} {kind}" for kind, n in row.failures.items())
        parts = [f"{failed} ({kinds})"] if failed else []
        if row.n_imputed:
            parts[-1] += f", {row.n_imputed} of them counted by a value of the protocol,"
        parts += [f"{row.n_not_asked} not asked yet"] if row.n_not_asked else []
        if parts and row.estimate is None:
            said.append(f"{isolated(name)} {' and '.join(parts)} of {row.n_expected}")
    if not said:
        return ""
    more = f"; and {counted(len(said) - _NAMED, 'model')} more" if len(said) > _NAMED else ""
    return "Failed, and in no number unless said: " + "; ".join(said[:_NAMED]) + more + "."
