"""A small MultiRef-Bench in the official layouts, with pictures and maps made on the spot, in our own words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.benchmarks.kit.definition import Dataset
from refbench.pictures import encode

SIZE = (48, 64)
BOX = (16, 12, 47, 35)
TOKENS = {
    "style": "style_image",
    "subject": "subject_1",
    "sketch": "sketch_image",
    "depth": "depth_image",
    "canny": "canny_image",
    "semantic_map": "semantic_image",
    "bbox": "bbox_image",
    "mask": "mask_image",
    "pose": "pose_image",
}
KEYS = {kind: "subject_paths" if kind == "subject" else f"{kind}_path" for kind in TOKENS}
LISTED = ("style", "subject")
"""Types of which the conditions name several pictures, one of which is drawn."""

COMBINATIONS: tuple[tuple[str, ...], ...] = (
    ("depth", "caption"),
    ("bbox", "subject", "caption"),
    ("mask", "style", "caption"),
    ("canny", "subject"),
    ("semantic_map", "style", "caption"),
    ("sketch", "subject", "caption"),
    ("pose", "style", "caption"),
)
"""Together they have every type."""


@dataclass
class Blend:
    """One synthetic entry. `drawn` says which of the listed pictures the model is shown."""

    name: str
    types: Sequence[str]
    drawn: int = 1
    extension: str = "png"
    changes: dict[str, Any] = field(default_factory=dict)
    """Put over the finished entry, key by key; dotted keys reach inside."""


@dataclass
class Request:
    """One real-world entry."""

    row_id: int
    category: Any = 1
    n_pictures: int = 3
    changes: dict[str, Any] = field(default_factory=dict)


def blends(per_combination: int = 1) -> list[Blend]:
    return [Blend(f"{'_'.join(types)}_{number}", types) for types in COMBINATIONS for number in range(per_combination)]


def requests(count: int = 10) -> list[Request]:
    return [Request(100 + number, category=1 + number % 5, n_pictures=2 + number % 5) for number in range(count)]


def original(seed: int = 0) -> NDArray[np.uint8]:
    """A bright rectangle with a gradient in front of a dark ground, another one for every seed."""
    rng = np.random.default_rng(seed)
    pixels = np.full((*SIZE, 3), rng.integers(20, 60, 3), dtype=np.uint8)
    x1, y1, x2, y2 = BOX
    pixels[y1 : y2 + 1, x1 : x2 + 1] = rng.integers(120, 250, 3)
    pixels[y1 : y2 + 1, x1 : x2 + 1, 0] = np.linspace(100, 250, x2 - x1 + 1, dtype=np.uint8)
    return pixels


def reference_map(kind: str, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A map of the kind in the released format, exact where it needs no network."""
    x1, y1, x2, y2 = BOX
    found = np.zeros_like(pixels)
    if kind == "canny":
        grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
        found = np.repeat(np.asarray(cv2.Canny(grey, 100, 200))[:, :, None], 3, axis=2)
    elif kind == "bbox":
        cv2.rectangle(found, (x1, y1), (x2, y2), (0xA3, 0x51, 0xFB), 2)
    elif kind == "mask":
        found[y1 : y2 + 1, x1 : x2 + 1] = 255
    elif kind == "semantic_map":
        found[y1 : y2 + 1, x1 : x2 + 1] = (200, 120, 160)
    elif kind == "pose":
        cv2.line(found, (x1, y1), (x2, y2), (180, 200, 220), 1)
    else:  # sketch, depth
        found = np.repeat(pixels.mean(axis=2).astype(np.uint8)[:, :, None], 3, axis=2)
    return found


def write_synthetic(
    root: Path, items: Iterable[Blend], *, file: str = "benchmark990v3.json", conditions: bool = True
) -> Path:
    """`original_images`, `images` and the JSON file; without `conditions` as the older release has it."""
    write_entries(root / file, [synthetic_entry(root, item, number, conditions) for number, item in enumerate(items)])
    return root


def synthetic_entry(root: Path, item: Blend, number: int, conditions: bool = True) -> dict[str, Any]:
    pixels = original(number)
    place = f"original_images/{item.name}.{item.extension}"
    write_picture(root / place, pixels)
    caption = f"a bright box number {number} in the dark"
    given: dict[str, Any] = {"caption": caption}
    mapping: dict[str, str] = {}
    for kind in item.types:
        if kind == "caption":
            continue
        names = [f"images/{kind}/{item.name}_{copy}.{item.extension}" for copy in range(3 if kind in LISTED else 1)]
        for copy, name in enumerate(names):
            drawing = original(1000 + 7 * number + copy) if kind in LISTED else reference_map(kind, pixels)
            write_picture(root / name, drawing)
        given[KEYS[kind]] = names if kind in LISTED else names[0]
        mapping[TOKENS[kind]] = names[min(item.drawn, len(names) - 1)]
    if "bbox" in item.types:
        given["bbox_value"] = [list(BOX)]
    told = " ".join(["Generate an image", *(f"that goes by <{token}>" for token in mapping)])
    end = f" following the caption: {caption}." if "caption" in item.types else ""
    entry: dict[str, Any] = {
        "original_image_path": place,
        "conditions": given,
        "instructions": {
            "conditions": list(item.types),
            "image_path_mapping": mapping,
            "original_prompts": told + end,
            "enhance_prompts": [f"Dear brush, {told[0].lower()}{told[1:]}{end}"],
        },
    }
    if not conditions:
        del entry["conditions"]
    return _changed(entry, item.changes)


def write_real_world(root: Path, items: Iterable[Request], *, file: str = "final_1000_prompts_taxonomy.json") -> Path:
    """`compressed_images` and the JSON file."""
    write_entries(root / file, [real_world_entry(root, item) for item in items])
    return root


def real_world_entry(root: Path, item: Request) -> dict[str, Any]:
    mapping = {}
    for number in range(1, item.n_pictures + 1):
        name = f"compressed_images/{item.row_id}_{number}.jpg"
        write_picture(root / name, original(10 * item.row_id + number))
        mapping[f"image{number}"] = name
    golden = f"compressed_images/{item.row_id}_output.jpg"
    write_picture(root / golden, original(10 * item.row_id))
    others = ", ".join(f"<{token}>" for token in list(mapping)[1:])
    entry = {
        "row_id": item.row_id,
        "prompt": f"Edit image <image1> by adding what is in {others}.",
        "image_path_mapping": mapping,
        "output_image_path": golden,
        "category": item.category,
    }
    return _changed(entry, item.changes)


def write_checkout(root: Path, synthetic: Sequence[Blend], real_world: Sequence[Request]) -> Path:
    """Both splits in the layout of two folders."""
    write_synthetic(root / "MultiRef-Bench-Synthetic", synthetic)
    write_real_world(root / "multi_image_benchmark", real_world)
    return root


def write_combined(root: Path, synthetic: Sequence[Blend], real_world: Sequence[Request]) -> Path:
    """Both splits in one file."""
    entries = [synthetic_entry(root, item, number) for number, item in enumerate(synthetic)]
    write_entries(root / "combined1990.json", [*(real_world_entry(root, item) for item in real_world), *entries])
    return root


def write_hub_release(root: Path, synthetic: Sequence[Blend], real_world: Sequence[Request]) -> Path:
    """As ONE-Lab/MultiRef-benchmark has it: rows with three keys, those of the real-world split below 1000, pictures in
    `images` and `compressed_images`, no originals and no categories."""
    rows: list[dict[str, Any]] = []
    for number, item in enumerate(real_world):
        entry = real_world_entry(root, item)
        rows.append({"row_id": number, **{key: entry[key] for key in ("prompt", "image_path_mapping")}})
    for number, blend in enumerate(synthetic):
        told = synthetic_entry(root, blend, number)["instructions"]
        row = {"prompt": told["original_prompts"], "image_path_mapping": told["image_path_mapping"]}
        rows.append({"row_id": 1000 + number, **row})
    write_entries(root / "combined1990.json", rows)
    shutil.rmtree(root / "original_images")
    return root


def training_picture(number: int, n: int) -> bytes:
    """The n-th picture of a sample, large enough to be blended."""
    return encode(np.kron(original(10 * number + n), np.ones((2, 2, 1), np.uint8)), "png")


def write_training_set(root: Path, count: int = 3) -> Path:
    """As ONE-Lab/MultiRef-dataset has it: lines with paths that begin with a slash, pictures in two Parquet files."""
    import pyarrow
    from pyarrow import parquet

    lines, pictures = [], []
    for number in range(count):
        names = [f"/depth/{number}.png", f"/style/{number}.png", f"/original/{number}.png"]
        lines.append({"input_images": names[:2], "instruction": f"Sample {number}.", "output_image": names[2]})
        pictures += [
            {"image": {"bytes": training_picture(number, n), "path": None}, "path": name}
            for n, name in enumerate(names)
        ]
    (root / "data").mkdir(parents=True)
    (root / "new_training_data.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for part in range(2):
        table = pyarrow.Table.from_pylist(pictures[part::2])
        parquet.write_table(table, root / f"data/train-{part:05d}-of-00002.parquet")
    return root / "new_training_data.jsonl"


def write_evaluation(
    path: Path, root: Path, synthetic: Sequence[Blend], outputs: dict[str, str], evaluations: dict[str, Any]
) -> Path:
    """The input of the released evaluation, or its result: the entries of the benchmark with the path of each output
    and, where there are any, its values, as Python's `json` writes them, NaN included."""
    entries = [synthetic_entry(root, blend, number) for number, blend in enumerate(synthetic)]
    for blend, entry in zip(synthetic, entries, strict=True):
        given = {"guidance_scale": 2.5, "img_guidance_scale": 1.6, "seed": 0}
        image = outputs.get(blend.name, "")
        entry["results"] = {"image_path": image, "model_name": "omnigen", "other_info": given}
        if blend.name in evaluations:
            head = {"original_image": entry["original_image_path"], "generated_image": image}
            entry["evaluations"] = {**head, "processing_time_seconds": 1.5, **evaluations[blend.name]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries, indent=4))
    return path


def write_entries(path: Path, entries: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries))


def _changed(entry: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The entry with some keys changed; None takes a key away."""
    for key, value in changes.items():
        *path, last = key.split(".")
        place = entry
        for name in path:
            place = place[name]
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return entry


def write_picture(path: Path, pixels: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(pixels, "jpeg" if path.suffix == ".jpg" else "png"))


def truth_outputs(dataset: Dataset) -> list[tuple[str, Path]]:
    """Case and file of every golden or original picture that is there."""
    found = [(case.id, dataset.path(picture)) for case in dataset.cases for picture in case.targets[:1]]
    return [(case, path) for case, path in found if path.is_file()]
