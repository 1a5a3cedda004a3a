"""A table of numbers with a colour for each: models down, categories across. In each cell the number and, under it, its
interval on the scale that the whole panel shares.
"""

from __future__ import annotations

from collections.abc import Sequence

from refbench.report.figures.chart import Axis, Chart, Panel, Value
from refbench.report.figures.page import MARGIN, axis_title, page, panels, value_mark
from refbench.report.figures.palette import short_names
from refbench.report.figures.svg import FAINT, PAPER, SOFT, box, line, mark, text, width_of, wrapped

_LOW, _MIDDLE, _HIGH = (247, 251, 255), (107, 174, 214), (8, 69, 148)
"""From little to much, in one hue of rising darkness: read alike by everybody, and in grey."""
_DARK, _LIGHT = "#14161a", "#fefefe"
"""What is read on a colour: the same whatever the ground of the page is."""
_ROW, _SMALL = 30.0, 10.0
_LEAST, _MOST = 46.0, 92.0
_NAMES, _KEY = 200.0, 200.0


def heatmap(chart: Chart) -> str:
    """A panel after another; one that is too broad goes on below with the same rows."""

    return page(chart, panels(chart, _panel, 12), legend=False)


def _panel(chart: Chart, panel: Panel, top: float) -> tuple[list[str], float]:
    most_name = min(_NAMES, 0.34 * chart.width)
    names = short_names([series.name for series in panel.series], most_name - 20, 11)
    left = MARGIN + min(most_name, max(width_of(name, 11) for name in names.values()) + 26)
    room = chart.width - MARGIN - left
    room -= _leaning(panel.categories, room / min(len(panel.categories), room // _LEAST))
    most = max(1, int(room // _LEAST))
    ends = panel.axis.range_of(panel.values)
    parts = axis_title(panel, MARGIN, top + 12, chart.width - 2 * MARGIN - (_KEY if panel.scored else 0))
    y = top + 10 + 14 * max(len(parts), 1)
    if panel.scored:
        parts += _key(panel.axis, ends, chart.width - MARGIN, top + 16)
    per_band = -(-len(panel.categories) // -(-len(panel.categories) // most))  # bands of about one length
    for start in range(0, len(panel.categories), per_band):
        band = range(start, min(start + per_band, len(panel.categories)))
        width = min(_MOST, room / len(band))
        heads, height = _heads([panel.categories[c] for c in band], left, y, width)
        parts += heads
        y += height
        for series in panel.series:
            parts.append(mark(series.style.shape, (left - 10, y + _ROW / 2), series.style.colour, 4))
            name = text(
                (left - (20 if series.style.shape else 8), y + _ROW / 2 + 4),
                names[series.name],
                'text-anchor="end" font-size="11"',
            )
            parts.append(f"<g><title>{text_title(series.name)}</title>{name}</g>")
            for n, c in enumerate(band):
                cell = _cell(panel.axis, series.values[c], ends, (left + n * width, y, width))
                parts.append(value_mark(panel, series, c, cell, chart.links))
            y += _ROW
        y += 10
    return parts, y


def text_title(name: str) -> str:
    from html import escape

    from refbench.report.figures.svg import shown

    return escape(shown(name))


def _leaning(names: Sequence[str], width: float) -> float:
    """How far the heads of columns of a width lean over the right end; 0 where they stand upright, in lines."""
    plain = [name.replace("_", " ") for name in names]
    fit = all(width_of(word, _SMALL) <= min(width, _MOST) - 4 for name in plain for word in name.split())
    if fit and all(len(wrapped(name, min(width, _MOST) - 4, _SMALL)) < 4 for name in plain):
        return 0.0
    return max(0.0, 0.82 * max(width_of(one, _SMALL) for one in short_names(list(names), 130, _SMALL).values()) - 24)


def _heads(names: Sequence[str], left: float, top: float, width: float) -> tuple[list[str], float]:
    """The names of columns above them: in lines where they fit, else leaning."""
    plain = [name.replace("_", " ") for name in names]
    lines = [wrapped(name, width - 4, _SMALL) for name in plain]
    if not _leaning(names, width):
        height = 6 + 12.0 * max(map(len, lines))
        return [
            text((left + (n + 0.5) * width, top + height - 5 - 12 * (len(of_name) - 1 - k)), one,
                 f'text-anchor="middle" font-size="{_SMALL:g}"')
            for n, of_name in enumerate(lines)
            for k, one in enumerate(of_name)
        ], height  # fmt: skip
    short = short_names(list(names), 130, _SMALL)
    height = 8 + 0.6 * max(width_of(one, _SMALL) for one in short.values())
    parts = []
    for n, name in enumerate(names):
        x, y = left + (n + 0.5) * width - 3, top + height - 4
        parts.append(text((x, y), short[name], f'font-size="{_SMALL:g}" transform="rotate(-36 {x:.1f} {y:.1f})"'))
    return parts, height


def _cell(axis: Axis, value: Value, ends: tuple[float, float], place: tuple[float, float, float]) -> str:
    x, y, width = place
    size = (width - 1.5, _ROW - 1.5)
    if value.value is None:
        stroke = f'stroke="{FAINT}" stroke-width="0.6" stroke-dasharray="2 2"'
        words = {"does not apply": "n/a", "not asked yet": "not asked"}.get(value.why, value.why)
        short = words if width_of(words, 8) <= width - 6 else "none"
        said = text((x + width / 2, y + _ROW / 2 + 2.5), short, f'text-anchor="middle" font-size="8" fill="{SOFT}"')
        return box((x, y), size, PAPER, stroke) + said
    share = (value.value - ends[0]) / (ends[1] - ends[0])
    fill, ink = _colour(share)
    number = f"≈{axis.number(value.value)}" if value.estimated else axis.number(value.value)
    number = f"({number})" if value.few else number
    parts = box((x, y), size, fill)
    parts += text((x + width / 2 - 0.7, y + 15), number, f'text-anchor="middle" font-size="10.5" fill="{ink}"')
    if value.ends is not None:
        inner = width - 13
        low, at, high = ((x + 6 + inner * (one - ends[0]) / (ends[1] - ends[0])) for one in
                         (value.ends[0], value.value, value.ends[1]))  # fmt: skip
        parts += line((low, y + 23), (high, y + 23), ink, 1.3) + line((at, y + 20.2), (at, y + 25.8), ink, 1.3)
    return parts


def _colour(share: float) -> tuple[str, str]:
    """The colour of a share of the scale, and what is read on it."""
    below = share <= 0.5
    start, end = (_LOW, _MIDDLE) if below else (_MIDDLE, _HIGH)
    part = min(max(share * 2 if below else share * 2 - 1, 0.0), 1.0)
    mixed = [round(a + (b - a) * part) for a, b in zip(start, end, strict=True)]
    return "#" + "".join(f"{one:02x}" for one in mixed), _DARK if share < 0.62 else _LIGHT


def _key(axis: Axis, ends: tuple[float, float], right: float, y: float) -> list[str]:
    """What the colours stand for: the ends of the scale that the panel shares."""
    width, steps = 110.0, 11
    left = right - width - width_of(axis.number(ends[1]), _SMALL) - 6
    parts = [
        box((left + width * n / steps, y - 9), (width / steps + 0.4, 9), _colour(n / (steps - 1))[0])
        for n in range(steps)
    ]
    quiet = f'font-size="{_SMALL:g}" fill="{SOFT}"'
    parts.append(text((left - 5, y), axis.number(ends[0]), f'text-anchor="end" {quiet}'))
    parts.append(text((left + width + 5, y), axis.number(ends[1]), quiet))
    return parts
