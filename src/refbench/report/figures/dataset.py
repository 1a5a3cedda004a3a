"""Figures of a dataset, before any model has seen it: how long its instructions are, what they are about, how many
pictures a case has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from refbench.case import AnyCase
from refbench.record import counted
from refbench.report.figures.chart import Axis, Chart, Kind, Panel, Series, Value
from refbench.report.figures.files import Figure
from refbench.report.figures.palette import UNMARKED
from refbench.report.figures.view import level_words

_MOST_ROWS = 12
"""Parts of a level that have a histogram each."""
_MOST_PARTS = 60
"""Parts of a level that are drawn at all: names of single cases are no level."""
_COLUMNS = 25


def dataset_figures(title: str, cases: Sequence[AnyCase]) -> dict[str, Figure]:
    """By name: words (lengths of instructions), tasks (shares of each level), pictures (references of a case)."""
    found = {"words": _words(title, cases), "tasks": _tasks(title, cases), "pictures": _pictures(title, cases)}
    return {name: Figure(chart) for name, chart in found.items() if chart is not None}


def _words(title: str, cases: Sequence[AnyCase]) -> Chart:
    """A histogram of all cases, and one for each part of the first level that has few of them."""
    lengths = {case.id: len(case.request.instruction.split()) for case in cases}
    level, parts = _first_level(cases)
    groups = {"all cases": list(lengths.values())}
    groups |= {part: [lengths[case.id] for case in members] for part, members in parts.items()}
    longest = max(lengths.values(), default=1)
    step = next(
        size * 10**power for power in range(6) for size in (1, 2, 5) if longest / (size * 10**power) <= _COLUMNS
    )
    edges = [n * step for n in range(longest // step + 1)]
    series = []
    for name, those in groups.items():
        counts = np.histogram(those, [*edges, edges[-1] + step])[0].tolist()
        values = tuple(Value(float(n), about=counted(n, "case")) for n in counts)
        said = (counted(len(those), "case"), f"median {_shown(float(np.median(those)))}")
        series.append(Series(name, UNMARKED, values, mean=Value(float(np.mean(those))), aside=said))
    panel = Panel(Axis("cases", digits=0), tuple(map(str, edges)), tuple(series), across=Axis("words", digits=1))
    by = f", by {level_words(level)}" if level else ""
    about = "words are what spaces part; the diamond is the mean"
    return _chart("words", "histogram", f"{title}: length of instructions{by}", [panel], about)


def _tasks(title: str, cases: Sequence[AnyCase]) -> Chart | None:
    levels = {name: _parts(cases, name) for name in dict.fromkeys(name for case in cases for name in case.groups)}
    counts = {name: {part: len(those) for part, those in parts.items()} for name, parts in levels.items()}
    tags = Counter(tag for case in cases for tag in case.tags)
    counts |= {"tag": dict(sorted(tags.items()))} if tags else {}
    panels = [
        _shares(level_words(name), parts, len(cases)) for name, parts in counts.items() if len(parts) <= _MOST_PARTS
    ]
    return _chart("tasks", "shares", f"{title}: what the cases are about", panels, _of(cases)) if panels else None


def _pictures(title: str, cases: Sequence[AnyCase]) -> Chart:
    numbers = Counter(len(case.request.pictures) for case in cases)
    roles = Counter(picture.role for case in cases for picture in case.request.pictures)
    panels = [_shares("pictures in a request", {str(n): numbers[n] for n in sorted(numbers)}, len(cases))]
    panels += [_shares("role of a picture", dict(roles.most_common()), roles.total(), "pictures")] if roles else []
    return _chart("pictures", "shares", f"{title}: pictures of a case", panels, _of(cases))


def _of(cases: Sequence[AnyCase]) -> str:
    return counted(len(cases), "case")


def _first_level(cases: Sequence[AnyCase]) -> tuple[str, dict[str, list[AnyCase]]]:
    """The first level, as the cases name them, with two to twelve parts; none where there is no such level."""
    for name in dict.fromkeys(name for case in cases for name in case.groups):
        parts = _parts(cases, name)
        if 2 <= len(parts) <= _MOST_ROWS:
            return name, parts
    return "", {}


def _parts(cases: Sequence[AnyCase], level: str) -> dict[str, list[AnyCase]]:
    found: dict[str, list[AnyCase]] = {}
    for case in cases:
        if level in case.groups:
            found.setdefault(case.groups[level], []).append(case)
    return found


def _shares(title: str, counts: Mapping[str, int], total: int, what: str = "cases") -> Panel:
    values = tuple(Value(float(n), about=f"{n} ({100 * n / total:.1f} %)") for n in counts.values())
    return Panel(Axis(what, digits=0), tuple(counts), (Series("", UNMARKED, values),), title)


def _chart(name: str, kind: Kind, title: str, panels: Sequence[Panel], about: str) -> Chart:
    return Chart(name, kind, title, tuple(panels), subtitle=about)


def _shown(number: float) -> str:
    return f"{number:.10g}"
