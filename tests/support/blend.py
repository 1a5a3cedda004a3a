"""Small pictures to blend, and what a dataset's directory holds, to the byte."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from refbench.builders.refblend.build import Built, build
from refbench.builders.refblend.settings import Settings
from refbench.pictures import Pixels, encode

PLAIN = ("canny", "sketch_dodge", "caption", "subject", "style")
"""Types that need no network."""


def drawing(seed: int, side: int = 96) -> Pixels:
    """Discs and lines on a coloured ground: edges to find, and no two alike."""
    rng = np.random.default_rng(seed)
    pixels = np.full((side, side + seed % 3 * 16, 3), rng.integers(0, 256, 3), np.uint8)
    for _ in range(6):
        x, y, x2, y2 = (int(v) for v in rng.integers(0, side, 4))
        colour = [int(v) for v in rng.integers(0, 256, 3)]
        cv2.circle(pixels, (x, y), int(rng.integers(8, side // 3)), colour, -1)
        cv2.line(pixels, (x, y), (x2, y2), colour[::-1], 3)
    return pixels


def write_drawings(folder: Path, count: int, *, captions: bool = True, start: int = 0) -> Path:
    """`count` pictures, with a caption each in a text file beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(start, start + count):
        (folder / f"drawing {number:03d}.png").write_bytes(encode(drawing(number)))
        if captions:
            (folder / f"drawing {number:03d}.txt").write_text(f"Discs and lines, drawing number {number}\n")
    return folder


def built(pictures: Path, out: Path, tell: Callable[[str], None] = lambda line: None, **more: Any) -> Built:
    settings = {"types": PLAIN, "test_share": 0.25, **more}
    return asyncio.run(build(Settings(pictures=pictures, out=out, **settings), tell))


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder with the hash of its content, also those of the build's work."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "replies" not in path.parts
    }
