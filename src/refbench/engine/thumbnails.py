"""The worst pictures of an evaluation as a notebook shows them: few, small, and bounded in bytes."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from refbench.failure import Failure
from refbench.pictures import decode, encode, picture_bytes, resize
from refbench.runs import Run
from refbench.tables.result import Result

_MODELS, _EACH, _SIDE, _MOST_BYTES = 4, 4, 128, 256 * 1024
"""Models, their worst pictures, pixels of a longer side, and bytes of all pictures together."""


def worst_html(run: Run, result: Result) -> str:
    """The worst pictures of the first models, each with its case and score; "" where none can be shown."""
    paths = {
        (o.case, o.model): run.blobs.path(o.pictures[0].sha256, o.pictures[0].format)
        for o in sorted(run.outputs(), key=lambda o: -o.seed)
        if o.pictures and o.step is None
    }
    room, lines = _MOST_BYTES, []
    for model in list(dict.fromkeys(row.model for row in result.table.rows))[:_MODELS]:
        figures = []
        for one in result[model].cases.worst(_EACH):
            shown = thumbnail(paths.get((one.case, model)))
            if shown is not None and len(shown) <= room:
                room -= len(shown)
                source = base64.b64encode(shown).decode()
                words = escape(f"{one.case}: {one.total:.4g}")
                image = f'<img alt="{words}" src="data:image/jpeg;base64,{source}">'
                figures.append(f'<figure style="display:inline-block">{image}<figcaption>{words}</figcaption></figure>')
        if figures:
            lines.append(f"<div><b>{escape(model)}</b>, worst: {''.join(figures)}</div>")
    return "".join(lines)


def thumbnail(path: Path | None, side: int = _SIDE) -> bytes | None:
    """A JPEG of at most so many pixels a side, None where the picture is not there or cannot be read any more."""
    data = None if path is None else picture_bytes(path)
    pixels = data if data is None or isinstance(data, Failure) else decode(data)
    if pixels is None or isinstance(pixels, Failure):
        return None
    height, width = pixels.shape[:2]
    scale = min(1.0, side / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return encode(resize(pixels, size), "jpeg", quality=80)
