"""The pictures of the demonstration: photographs that come with scikit-image, combined into cases."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from refbench.pictures import encode, resize
from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, write_whole

SUBJECTS = {
    "cat": ("chelsea", "the cat"),
    "astronaut": ("astronaut", "the astronaut"),
    "cup": ("coffee", "the coffee cup"),
    "rocket": ("rocket", "the rocket on its launch pad"),
    "motorcycle": ("motorcycle", "the motorcycle"),
}
BACKGROUNDS = {
    "wall": ("brick", "the brick wall"),
    "meadow": ("grass", "the grass"),
    "gravel": ("gravel", "the gravel"),
    "sky": ("hubble_deep_field", "the night sky"),
}
_SIDE = 384


def write_set(out: Path) -> int:
    """Write pictures, cases.jsonl and the benchmark's file into `out`; returns the number of cases."""
    data = _photographs()
    try:
        for name, (photograph, _) in {**SUBJECTS, **BACKGROUNDS}.items():
            write_whole(out / "pictures" / f"{name}.png", encode(_square(_read(data, photograph))))
        rows = list(_cases())
        write_whole(out / "cases.jsonl", b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
        text = resources.files("refbench.demo").joinpath("multireference.py").read_bytes()
        write_whole(out / "multireference.py", text)
    except OSError as error:
        raise disk_error(error, out) from error
    return len(rows)


def subject_photographs(most: int) -> dict[str, bytes]:
    """The first of the subjects' photographs, as PNG, by what they show."""
    data = _photographs()
    chosen = [*SUBJECTS.values()][:most]
    return {words: encode(_square(_read(data, photograph))) for photograph, words in chosen}


def _photographs() -> Any:
    try:
        return importlib.import_module("skimage.data")
    except ImportError as error:
        raise RefBenchError("the photographs need an extra: pip install 'refbench[demo]'") from error


def _read(data: Any, photograph: str) -> Any:
    if photograph == "motorcycle":
        return data.stereo_motorcycle()[0]  # the only one with two views
    return getattr(data, photograph)()


def _square(pixels: Any) -> Any:
    """The middle of the photograph, in colour, small enough for pages that one would send to somebody."""
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    side = min(pixels.shape[:2])
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    return resize(np.ascontiguousarray(pixels[top : top + side, left : left + side, :3]), (_SIDE, _SIDE))


def _cases() -> Iterator[dict[str, Any]]:
    """Every subject, and every two neighbours in the list, before every background. Cases that share their subjects
    belong together."""
    pairs = [*pairwise(SUBJECTS), (next(reversed(SUBJECTS)), next(iter(SUBJECTS)))]
    for backdrop in BACKGROUNDS:
        for chosen in [*((name,) for name in SUBJECTS), *pairs]:
            words = " and ".join(f"{SUBJECTS[name][1]} of image {i}" for i, name in enumerate(chosen, 1))
            references = [{"path": f"pictures/{name}.png", "role": "subject"} for name in chosen]
            yield {
                "id": "-".join([*chosen, backdrop]),
                "instruction": f"Show {words} in front of {BACKGROUNDS[backdrop][1]} of image {len(chosen) + 1}.",
                "references": [*references, {"path": f"pictures/{backdrop}.png", "role": "background"}],
                "groups": {"subjects": str(len(chosen)), "background": backdrop},
                "cluster": "-".join(chosen),
            }
