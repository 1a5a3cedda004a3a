"""A colour, a mark and a letter for each model, the same in every figure and on every page; and names short enough to
stand beside them.

Each colour has three times the contrast of its ground, and no two are closer than 15 in CIELAB for people who lack one
kind of cone, in light and in dark. The pages have them as variables (`site/assets/theme.css`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from refbench.report.figures.svg import DASHES, SHAPES, width_of

COLOURS = ("#1f50bd", "#b97a00", "#ee3377", "#117733", "#3d8fc4", "#882255", "#1b1c1f", "#5b2a00")
DARK = ("#8fb5ff", "#f0e442", "#d55e00", "#009e73", "#b9b9b9", "#b0568f", "#ffffff", "#66ee88")
"""The same on a dark ground."""
MARKS = tuple(shape for shape in SHAPES if shape != "diamond")
"""Of models: a diamond is a mean, or what a paper has published."""
_APART = re.compile(r"(?<=[-_/.:\s])|(?=[-_/.:\s])")
"""Where a name may be cut without cutting a word."""


@dataclass(frozen=True)
class Style:
    """How a model is drawn."""

    colour: str
    shape: str
    dash: str
    letter: str
    number: int = 0
    """Of its colour, as the pages' variable has it."""


NEUTRAL = Style("#3f434b", "circle", "", "")
"""Of what is no model's: a gap, a number of cases."""
UNMARKED = Style("#3f434b", "", "", "")
"""Of rows that have no mark: pairs of judges."""


def style_of(place: int) -> Style:
    """The style of the model at this place among all. No two of 48 have the same colour and mark, and those beside each
    other differ in both."""
    row, column = divmod(place, len(COLOURS))
    shape = MARKS[(column - row) % len(MARKS)]
    return Style(COLOURS[column], shape, DASHES[SHAPES.index(shape)], letter_of(place), column)


def letter_of(place: int) -> str:
    """A to Z, AA to AZ, BA and so on."""
    before, here = divmod(place, 26)
    return (letter_of(before - 1) if before else "") + chr(ord("A") + here)


def styles_of(models: Sequence[str], lettered: Sequence[str] = ()) -> dict[str, Style]:
    """A style for each model, by its place in the order of names, so that neither the numbers nor the choice of some
    models for a figure change it. Letters go by the order of `lettered`, where it is given: that of a board."""
    styles = {model: style_of(place) for place, model in enumerate(sorted(set(models)))}
    return styles | {model: replace(styles[model], letter=letter_of(place)) for place, model in enumerate(lettered)}


def short_names(names: Sequence[str], room: float, size: float = 12) -> dict[str, str]:
    """Names that fit into the room, each different from the others: what all have in common at their ends goes first,
    then the middle of what is still too long. Where that would make two the same, they are numbered."""
    distinct = list(dict.fromkeys(names))
    long = [name for name in distinct if width_of(name, size) > room]
    cut = _without_common(long)
    shown = {name: _cut(cut.get(name, name), room, size) for name in distinct}
    for alike in _alike(shown):  # of several families: what each has in common, not what all have
        own = _without_common(alike)
        shown |= {name: _cut(own[name], room, size) for name in alike}
    for name in [name for alike in _alike(shown) for name in alike]:
        number = f"{distinct.index(name) + 1}: "
        shown[name] = number + _cut(cut.get(name, name), room - width_of(number, size), size)
    return shown


def _alike(shown: Mapping[str, str]) -> list[list[str]]:
    """Names that are shown by the same words, together."""
    found: dict[str, list[str]] = {}
    for name, short in shown.items():
        found.setdefault(short, []).append(name)
    return [names for names in found.values() if len(names) > 1]


def _without_common(names: Sequence[str]) -> dict[str, str]:
    """Names without the words that all of them begin and end with."""
    parts = {name: [part for part in _APART.split(name) if part] for name in names}
    if len(names) < 2:
        return dict(zip(names, names, strict=True))
    shortest = min(len(part) for part in parts.values())
    rows = list(parts.values())
    first = next((n for n in range(shortest) if len({row[n] for row in rows}) > 1), shortest)
    first = min(first, shortest - 1)
    # A number alone says little: the word before it stays.
    first -= 2 if first > 2 and all(row[first].isdigit() and not row[first - 1].isalnum() for row in rows) else 0
    last = next((n for n in range(shortest - first) if len({row[-1 - n] for row in rows}) > 1), 0)
    found = {}
    for name, row in parts.items():
        middle = "".join(row[first : len(row) - last])
        found[name] = ("…" if first else "") + middle + ("…" if last else "") if first or last else name
    return found


def _cut(name: str, room: float, size: float) -> str:
    """The name, its middle left out where it is too long. The end stays longer: that is where checkpoints differ."""
    if width_of(name, size) <= room:
        return name
    for keep in range(len(name) - 1, 1, -1):
        head = keep // 3
        short = f"{name[:head]}…{name[len(name) - (keep - head) :]}"
        if width_of(short, size) <= room:
            return short
    return name[:1] + "…"
