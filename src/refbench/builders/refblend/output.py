"""The files of a dataset: pictures, the official JSON, other formats, statistics, contact sheet and data card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from refbench import __version__
from refbench.builders.kit.card import Card, write_card
from refbench.builders.kit.draws import draw
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.folder import as_json, write_file
from refbench.builders.kit.store import Store
from refbench.builders.refblend.formats import write_parquet, write_shards
from refbench.builders.refblend.plan import Quota
from refbench.builders.refblend.samples import Finished, Sample, SampleFile
from refbench.builders.refblend.settings import Settings
from refbench.builders.refblend.sources import LabelledPicture, Sources
from refbench.builders.refblend.split import RULE
from refbench.builders.refblend.types import TYPES, name_of
from refbench.builders.refblend.writing import place_pictures, write_json_list
from refbench.failure import Failure
from refbench.pictures import Pixels, encode, read_pixels, resize
from refbench.record import RefBenchError
from refbench.runs.disk import whole_file
from refbench.text.files import json_file

BENCHMARK = "benchmark.json"
"""All samples; MultiRef-Bench reads a file of this name."""
SPLITS = ("train", "test")
STATISTICS = "stats.json"
MOST = 24
"""Samples on the contact sheet."""
_SIDE, _GAP, _LINE = 144, 8, 18
_INK = (40, 40, 40)


def write_dataset(
    settings: Settings, formats: tuple[str, ...], samples: SampleFile, pictures: Mapping[str, LabelledPicture]
) -> None:
    """The pictures that samples name, and the samples in each format; what an earlier build left is removed."""
    out, rules = settings.out, settings.rule_book
    place_pictures(out, _files(samples, pictures, settings.work))
    if "json" in formats:
        write_json_list(out / BENCHMARK, (finished.entry(rules) for finished in samples))
    else:
        (out / BENCHMARK).unlink(missing_ok=True)
    for split in SPLITS:
        if "json" in formats:
            write_json_list(out / f"{split}.json", (one.entry(rules) for one in samples if one.split == split))
        else:
            (out / f"{split}.json").unlink(missing_ok=True)
        if "parquet" in formats:
            write_parquet(out / f"{split}.parquet", (one for one in samples if one.split == split))
        else:
            (out / f"{split}.parquet").unlink(missing_ok=True)
    with Store(settings.work / "shards.jsonl") as store:
        write_shards(out, samples if "webdataset" in formats else (), rules, store, settings.seed)
    names = [(finished.sample.id, name_of(finished.sample.types)) for finished in samples]
    shown = shown_on_sheet([name for name, _ in names], [kind for _, kind in names], settings.seed)
    write_sheet(out / "contact_sheet.png", out, [samples[place].sample for place in shown])


def _files(samples: SampleFile, pictures: Mapping[str, LabelledPicture], work: Path) -> Iterator[tuple[str, Path]]:
    for finished in samples:
        yield finished.sample.picture, Path(pictures[finished.sample.picture].path)
        for name in finished.sample.image_path_mapping.values():
            made = finished.files.get(name)
            yield name, work / made if made is not None else Path(pictures[name].path)


def write_about(settings: Settings, sources: Sources, numbers: Mapping[str, Any], dropped: DroppedItems) -> None:
    """Statistics, what was dropped, and the data card."""
    out = settings.out
    write_file(out / STATISTICS, as_json(numbers))
    dropped.write(out / "dropped.jsonl")
    build, source = numbers["build"], settings.pictures.absolute().name
    counts = {
        "samples": numbers["samples"],
        **{f"samples, {split}": numbers["splits"][split]["samples"] for split in SPLITS},
        "target pictures": numbers["pictures"]["targets"],
        **{f"samples with {kind}": number for kind, number in numbers["types"].items()},
        **{f"samples of {name}": of["kept"] for name, of in numbers["sets"].items() if of["kept"]},
        "pictures given": numbers["pictures"]["given"],
    }
    short = {
        name: f"{of['kept']} of {of['asked']} wanted samples"
        for name, of in numbers["sets"].items()
        if of["kept"] < of["asked"]
    }
    licences = sorted({picture.licence for picture in sources.pictures} - {""})
    name = settings.layout_name
    untested = [f"Layout {name}: untested on the data itself."] if settings.source_layout.untested else []
    card = Card(
        title=f"RefBlend: {source}",
        about="Multi-reference samples: a target picture, references taken from it or beside it, and an instruction "
        "that names them. Made by RefBlend, in the form that MultiRef-Bench reads.",
        counts=counts,
        settings={
            key: _as_text(value)
            for key, value in build.items()
            if key != "not_offered" and value not in (None, "", {}, [])
        },
        provenance=[
            f"{source}: {len(sources.pictures)} usable pictures, layout {name}",
            *(f"Licence as given by the source: {licence}" for licence in licences),
            *([] if licences else ["The source states no licence: whoever shares this dataset has to know it."]),
        ],
        missing={**build.get("not_offered", {}), **short},
        notes=[
            RULE,
            "The original pictures are copies of the files, byte for byte; references are PNG, without loss.",
            "Samples with a pose, subject or style ask for a review by people (review.jsonl).",
            *untested,
        ],
    )
    write_card(card, dropped, out, sources.root)


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_as_text(one)}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def statistics(
    samples: Iterable[Finished],
    sources: Sources,
    quotas: Sequence[Quota],
    dropped: DroppedItems,
    failed: int,
    build: Mapping[str, Any],
) -> dict[str, Any]:
    """One JSON object; counts alone, so that two builds can be compared line by line."""
    types: Counter[str] = Counter()
    sets: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    splits: Counter[str] = Counter()
    references: Counter[str] = Counter()
    rewritten = needs_review = 0
    targets: dict[str, set[str]] = {"train": set(), "test": set()}
    for finished in samples:
        sample = finished.sample
        types.update(sample.types)
        sets[name_of(sample.types)] += 1
        sizes[str(len(sample.types))] += 1
        splits[finished.split] += 1
        references[str(len(sample.references))] += 1
        rewritten += bool(sample.enhanced)
        needs_review += finished.review == "needed"
        targets[finished.split].add(sample.picture)
    skipped = Counter(one.kind for one in sources.skipped)
    return {
        "version": __version__,
        "samples": splits.total(),
        "pictures": {
            "given": len(sources.pictures) + len(sources.skipped),
            "usable": len(sources.pictures),
            "targets": sum(map(len, targets.values())),
            "failed": failed,
            "skipped": dict(sorted(skipped.items())),
        },
        "splits": {name: {"samples": splits[name], "targets": len(targets[name])} for name in SPLITS},
        "types": {name: types[name] for name in TYPES if types[name]},
        "sizes": dict(sorted(sizes.items())),
        "references": dict(sorted(references.items())),
        "sets": {
            name_of(quota.types): {
                "asked": quota.asked,
                "possible": quota.possible,
                "planned": quota.planned,
                "kept": sets[name_of(quota.types)],
            }
            for quota in quotas
        },
        "rewritten": rewritten,
        "needs_review": needs_review,
        "dropped": dropped.counts(),
        "build": dict(build),
    }


def read_statistics(folder: Path) -> dict[str, Any]:
    """The statistics that a build has written."""
    path = folder / STATISTICS
    if not path.is_file():
        raise RefBenchError(f"{folder} holds no {STATISTICS}: give the --out of refbench blend build")
    numbers = json_file(path)
    if not isinstance(numbers, dict):
        raise RefBenchError(f"{path} is damaged: run the build again")
    return numbers


def shown_on_sheet(ids: Sequence[str], combinations: Sequence[str], seed: int) -> list[int]:
    """Places of the samples to show, at most MOST: every combination in turn, drawn by the seed."""
    turns: dict[str, list[int]] = {}
    for place in sorted(range(len(ids)), key=lambda place: draw(seed, "sheet", ids[place])):
        turns.setdefault(combinations[place], []).append(place)
    ranked = [(turn, name, place) for name, places in turns.items() for turn, place in enumerate(places)]
    return [place for _, _, place in sorted(ranked)[:MOST]]


def write_sheet(path: Path, out: Path, samples: Sequence[Sample]) -> None:
    """Two samples a row: the target with the sample's id above, then each reference with its placeholder."""
    widest = max((len(sample.image_path_mapping) for sample in samples), default=0) + 1
    width = widest * (_SIDE + _GAP) + _GAP
    tiles = [_strip(sample, out, width) for sample in samples]
    if len(tiles) % 2:
        tiles.append(np.full_like(tiles[0], 255))
    rows = [np.hstack(tiles[n : n + 2]) for n in range(0, len(tiles), 2)]
    with whole_file(path) as file:
        file.write(encode(np.vstack(rows) if rows else np.full((_SIDE, _SIDE, 3), 255, np.uint8)))


def _strip(sample: Sample, out: Path, width: int) -> Pixels:
    strip = np.full((_SIDE + 2 * _LINE + _GAP, width, 3), 255, np.uint8)
    _write_label(strip, sample.id, _GAP, _LINE - 4)
    for number, (label, name) in enumerate([("target", sample.picture), *sample.image_path_mapping.items()]):
        x = _GAP + number * (_SIDE + _GAP)
        small = _thumbnail(out / name)
        height, across = small.shape[:2]
        strip[_LINE : _LINE + height, x : x + across] = small
        _write_label(strip, label, x, 2 * _LINE + _SIDE - 4)
    return strip


def _thumbnail(path: Path) -> Pixels:
    pixels = read_pixels(path)
    if isinstance(pixels, Failure):
        return np.full((_SIDE, _SIDE, 3), 200, np.uint8)
    height, width = pixels.shape[:2]
    scale = _SIDE / max(height, width)
    return resize(pixels, (max(1, round(width * scale)), max(1, round(height * scale))), "box")


def _write_label(strip: Pixels, text: str, x: int, y: int) -> None:
    """Ids and placeholders are ASCII, so OpenCV's own letters will do."""
    cv2.putText(strip, text, (x, y), cv2.FONT_HERSHEY_SIMPLEX, 0.4, _INK, 1, cv2.LINE_AA)
