"""Small pictures to blend, and what a dataset's directory holds, to the byte."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from refbench.builders.refblend.build import Built, build
from refbench.builders.refblend.presets import load_rules
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


CONPA = """index,bbox,mask,pose,caption,subject,semantic_map,depth,canny,sketch,style
bbox,-,x,x,_,_,x,x,x,x,v
mask,x,-,x,_,_,x,x,x,x,v
pose,x,x,v,v,-,x,x,x,x,v
caption,v,v,v,-,v,v,v,v,v,v
subject,v,v,-,v,v,v,v,v,v,v
semantic_map,x,x,x,v,v,-,x,x,x,v
depth,x,x,x,v,v,x,-,x,x,v
canny,x,x,x,v,v,x,x,-,x,v
sketch,x,x,x,v,v,x,x,x,-,v
style,v,v,v,v,v,v,v,v,v,-
"""
"""The released matrix: facts of the paper's Table 2 in the signs of the file."""


def write_engine_checkout(root: Path) -> Path:
    """The files of the released data engine that say anything of their own, with its quirks: phrases in our words, some
    with a full stop, one of which stands twice but for that."""
    phrases: dict[str, Any] = {}
    for kind, rule in load_rules("matrix").types.items():
        if kind != "caption":
            told = [f"{kind} phrase {number} with <{rule.placeholder}>{'.' * (number % 2)}" for number in range(10)]
            told[9] = f"{kind} phrase 8 with <{rule.placeholder}>." if kind == "subject" else told[9]
            phrases[kind] = {"template": told, "path_key": rule.path_key, "image_fill_key": rule.placeholder}
    for name, text in {
        "conditions/condition-conpa.csv": CONPA,
        "data/condition_mapping.json": json.dumps(phrases),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def write_judged(root: Path, count: int = 4) -> Path:
    """The judged list of the released engine: flat objects with paths of references and a judge's marks, and maps that
    are kept as JPEG, as the originals are."""
    entries = []
    for number in range(count):
        pixels, name = drawing(number), f"{number:03d}.jpg"
        maps = {
            "canny": np.repeat(np.asarray(cv2.Canny(pixels, 100, 200))[:, :, None], 3, axis=2),
            "depth": np.repeat(pixels.mean(axis=2).astype(np.uint8)[:, :, None], 3, axis=2),
            "single_mask": np.full_like(pixels, 255),
            **{f"style/{n}": drawing(100 + 10 * number + n) for n in range(3)},
        }
        for place, drawn in {"original": pixels, **maps}.items():
            (root / place).mkdir(parents=True, exist_ok=True)
            (root / place / name).write_bytes(encode(drawn, "jpeg"))
        axes = ("Canny Alignment", "Canny Quality", "Depth Alignment", "Depth Quality", "Mask Alignment")
        entries.append(
            {
                "original_image_path": f"original/{name}",
                "caption": f"Discs and lines, drawing number {number}",
                "canny_path": f"canny/{name}",
                "depth_path": f"depth/{name}",
                "single_mask_path": [f"single_mask/{name}"],
                "style_path": [f"style/{n}/{name}" for n in range(3)],
                "bbox_value": [[4, 6, 40, 50]],
                "judge": {**dict.fromkeys(axes, 5), "Caption Alignment": 4},
            }
        )
    (root / "judged.json").write_text(json.dumps(entries))
    return root / "judged.json"
