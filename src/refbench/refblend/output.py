"""The files of a dataset: pictures, the official JSON, Parquet, shards, statistics, contact sheet and data card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from refbench.refblend.parquet import write_parquet
from refbench.refblend.sample_file import Entries, SampleFile
from refbench.refblend.settings import Settings
from refbench.refblend.shards import write_shards
from refbench.refblend.sheet import chosen, write_sheet
from refbench.refblend.sources import SourcePicture, Sources
from refbench.refblend.split import RULE
from refbench.refblend.statistics import FILE
from refbench.refblend.store import Store
from refbench.refblend.types import name_of
from refbench.refblend.writing import place_pictures, whole_file, write_json_list
from refbench.workshop import DroppedItems
from refbench.workshop.card import Card, write_card

BENCHMARK = "benchmark.json"
"""All samples; MultiRef-Bench reads a file of this name."""
SPLITS = ("train", "test")


def write_dataset(
    settings: Settings, formats: tuple[str, ...], samples: SampleFile, pictures: Mapping[str, SourcePicture]
) -> Entries:
    """The pictures that samples name, and the samples in each format; what an earlier build left is removed."""
    out = settings.out
    entries = Entries(samples, settings.rules)
    place_pictures(out, _files(samples, pictures, settings.work))
    for name in (BENCHMARK, *(f"{split}.json" for split in SPLITS)):
        if "json" in formats:
            split = name.removesuffix(".json")
            write_json_list(out / name, (e for e in entries if split not in SPLITS or e["split"] == split))
        else:
            (out / name).unlink(missing_ok=True)
    for split in SPLITS:
        if "parquet" in formats:
            write_parquet(out / f"{split}.parquet", (e for e in entries if e["split"] == split))
        else:
            (out / f"{split}.parquet").unlink(missing_ok=True)
    with Store(settings.work / "shards.jsonl") as store:
        shown_in_tars = entries if "webdataset" in formats else ()
        write_shards(out, shown_in_tars, lambda place: samples[place].files, store, settings.seed)
    names = [(e["id"], name_of(e["instructions"]["conditions"])) for e in entries]
    shown = chosen([name for name, _ in names], [kind for _, kind in names], settings.seed)
    write_sheet(out / "contact_sheet.png", out, [entries[place] for place in shown])
    return entries


def _files(samples: SampleFile, pictures: Mapping[str, SourcePicture], work: Path) -> Iterator[tuple[str, Path]]:
    for finished in samples:
        yield finished.sample.picture, Path(pictures[finished.sample.picture].path)
        for name in finished.sample.image_path_mapping.values():
            made = finished.files.get(name)
            yield name, work / made if made is not None else Path(pictures[name].path)


def write_about(settings: Settings, sources: Sources, found: Mapping[str, Any], dropped: DroppedItems) -> None:
    """Statistics, what was dropped, and the data card."""
    out = settings.out
    with whole_file(out / FILE) as file:
        file.write(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    dropped.write(out / "dropped.jsonl")
    build, source = found["build"], settings.pictures.absolute().name
    counts = {
        "samples": found["samples"],
        **{f"samples, {split}": found["splits"][split]["samples"] for split in SPLITS},
        "target pictures": found["pictures"]["targets"],
        **{f"samples with {kind}": number for kind, number in found["types"].items()},
        **{f"samples of {name}": of["kept"] for name, of in found["sets"].items() if of["kept"]},
        "pictures given": found["pictures"]["given"],
    }
    short = {
        name: f"{of['kept']} of {of['asked']} wanted samples"
        for name, of in found["sets"].items()
        if of["kept"] < of["asked"]
    }
    licences = sorted({picture.licence for picture in sources.pictures} - {""})
    card = Card(
        title=f"RefBlend: {source}",
        about="Multi-reference samples: a target picture, references taken from it or beside it, and an instruction "
        "that names them. Made by RefBlend, in the form that MultiRef-Bench reads.",
        counts=counts,
        settings={
            key: _said(value)
            for key, value in build.items()
            if key != "not_offered" and value not in (None, "", {}, [])
        },
        provenance=[
            f"{source}: {len(sources.pictures)} usable pictures, layout {settings.layout_name}",
            *(f"Licence as given by the source: {licence}" for licence in licences),
            *([] if licences else ["The source states no licence: whoever shares this dataset has to know it."]),
        ],
        missing={**build.get("not_offered", {}), **short},
        notes=[
            RULE,
            "The original pictures are copies of the files, byte for byte; references are PNG, without loss.",
            "Samples with a pose, subject or style ask for a review by people (review.jsonl).",
            *([f"Layout {settings.layout_name}: untested on the data itself."] if settings.layout.untested else []),
        ],
    )
    # Thumbnails of what was dropped before must not stay beside those of now.
    for old in (out / "card").glob("*.png"):
        old.unlink()
    write_card(card, dropped, out, sources.root)


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_said(one)}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
