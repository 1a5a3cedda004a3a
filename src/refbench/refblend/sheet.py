"""The contact sheet: a few samples of a dataset at a glance, target first, its references beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from refbench.failure import Failure
from refbench.pictures import Pixels, decode, encode, resize
from refbench.refblend.draws import draw
from refbench.refblend.writing import whole_file

MOST = 24
_SIDE, _GAP, _LINE = 144, 8, 18
_INK = (40, 40, 40)


def chosen(ids: Sequence[str], combinations: Sequence[str], seed: int) -> list[int]:
    """Places of the samples to show, at most MOST: every combination in turn, drawn by the seed."""
    turns: dict[str, list[int]] = {}
    for place in sorted(range(len(ids)), key=lambda place: draw(seed, "sheet", ids[place])):
        turns.setdefault(combinations[place], []).append(place)
    ranked = [(turn, name, place) for name, places in turns.items() for turn, place in enumerate(places)]
    return [place for _, _, place in sorted(ranked)[:MOST]]


def write_sheet(path: Path, out: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Two samples a row: the target with the sample's id above, then each reference with its placeholder."""
    widest = max((len(entry["instructions"]["image_path_mapping"]) for entry in entries), default=0) + 1
    width = widest * (_SIDE + _GAP) + _GAP
    tiles = [_strip(entry, out, width) for entry in entries]
    if len(tiles) % 2:
        tiles.append(np.full_like(tiles[0], 255))
    rows = [np.hstack(tiles[n : n + 2]) for n in range(0, len(tiles), 2)]
    with whole_file(path) as file:
        file.write(encode(np.vstack(rows) if rows else np.full((_SIDE, _SIDE, 3), 255, np.uint8)))


def _strip(entry: Mapping[str, Any], out: Path, width: int) -> Pixels:
    strip = np.full((_SIDE + 2 * _LINE + _GAP, width, 3), 255, np.uint8)
    _say(strip, entry["id"], _GAP, _LINE - 4)
    shown = [("target", entry["original_image_path"]), *entry["instructions"]["image_path_mapping"].items()]
    for number, (label, name) in enumerate(shown):
        x = _GAP + number * (_SIDE + _GAP)
        small = _small(out / name)
        height, across = small.shape[:2]
        strip[_LINE : _LINE + height, x : x + across] = small
        _say(strip, label, x, 2 * _LINE + _SIDE - 4)
    return strip


def _small(path: Path) -> Pixels:
    pixels = decode(path.read_bytes())
    if isinstance(pixels, Failure):
        return np.full((_SIDE, _SIDE, 3), 200, np.uint8)
    height, width = pixels.shape[:2]
    scale = _SIDE / max(height, width)
    return resize(pixels, (max(1, round(width * scale)), max(1, round(height * scale))), "box")


def _say(strip: Pixels, text: str, x: int, y: int) -> None:
    """Ids and placeholders are ASCII, so OpenCV's own letters will do."""
    cv2.putText(strip, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, 0.4, _INK, 1, cv2.LINE_AA)
