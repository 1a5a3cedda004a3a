"""People's marks of references, made on the spot: edge maps and captions of small drawings, damaged by known amounts."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from refbench.pictures import encode
from support.blend import drawing

HEADER = ["case", "type", "metric", "rater", "score", "original", "reference", "caption"]


def edges(seed: int, damage: int) -> Any:
    """The edge map, with `damage` quarters of it emptied: 5 marks for none, 1 for all."""
    found = np.repeat(np.asarray(cv2.Canny(drawing(seed), 100, 200))[:, :, None], 3, axis=2)
    found[:, : found.shape[1] * damage // 4] = 0
    return found


def write_marks(root: Path, count: int = 40, *, raters: int = 2, extra: dict[str, list[Any]] | None = None) -> Path:
    """`count` originals with an edge map and a caption each, most of them good, as people's marks crowd. `extra` are
    columns of one's own, by the number of the original."""
    pictures = root / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    rows: list[list[Any]] = []
    for number in range(count):
        damage = (0, 0, 1, 0, 2, 0, 3, 4)[number % 8]
        (pictures / f"{number}.png").write_bytes(encode(drawing(number)))
        (pictures / f"{number}-canny.png").write_bytes(encode(edges(number, damage)))
        more = [values[number] for values in (extra or {}).values()]
        for rater in range(raters):
            mark = int(np.clip(5 - damage + rng.integers(-1, 2) * (rater > 0), 1, 5))
            case, original = f"p{number}", f"{number}.png"
            canny = [f"r{rater}", mark, original, f"{number}-canny.png", "", *more]
            rows += [[case, "canny", axis, *canny] for axis in ("alignment", "quality")]
            rows.append([case, "caption", "alignment", f"r{rater}", mark, original, "", f"Drawing {number}", *more])
    path = root / "marks.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*HEADER, *(extra or {})], *rows])
    return path
