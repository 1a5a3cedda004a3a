"""The formats of a dataset beside the official JSON: Parquet and WebDataset shards, the same bytes wherever written."""

from __future__ import annotations

import importlib
import importlib.util
import io
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from refbench.builders.kit.draws import draw
from refbench.builders.kit.store import Store
from refbench.builders.refblend.rules import Rules
from refbench.builders.refblend.samples import Finished, SampleFile
from refbench.builders.refblend.types import name_of
from refbench.builders.refblend.writing import remove_others
from refbench.record import RefBenchError, content_key
from refbench.runs.disk import whole_file

SAMPLES = 1000
"""In one shard."""
_VERSION = 1
_ROWS = 1000


def write_shards(
    out: Path, samples: SampleFile | Sequence[Finished], rules: Rules, store: Store, seed: int = 0
) -> None:
    """Shards `webdataset/train-00000.tar`, ... of each split, in an order drawn by the seed, so that a shard is a fair
    sample. Those that an earlier build has written and that would be the same are left: whether they would depends on
    the files of the references too, since other keypoints or another network give other pictures under the same
    names."""
    by_split: dict[str, list[tuple[int, int]]] = {"train": [], "test": []}
    for place, finished in enumerate(samples):
        by_split[finished.split].append((draw(seed, "shard", finished.sample.id), place))
    names: set[str] = set()
    for split, drawn in by_split.items():
        places = [place for _, place in sorted(drawn)]
        for number, start in enumerate(range(0, len(places), SAMPLES)):
            name = f"webdataset/{split}-{number:05d}.tar"
            names.add(name)
            shard = [samples[place] for place in places[start : start + SAMPLES]]
            entries = [finished.entry(rules) for finished in shard]
            key = content_key([_VERSION, name, entries, [finished.files for finished in shard]])[:32]
            path = out / name
            if path.is_file() and store.get(key) == path.stat().st_size:
                continue
            _write_shard(path, out, entries)
            store.put(key, path.stat().st_size)
    store.settle()
    remove_others(out / "webdataset", lambda path: path.relative_to(out).as_posix() in names)


def _write_shard(path: Path, out: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """A tar of samples, each a JSON and its pictures under one key."""
    with whole_file(path) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for entry in entries:
            _add(tar, f"{entry['id']}.json", orjson.dumps(entry))
            pictures = [("target", entry["original_image_path"])]
            pictures += sorted(entry["instructions"]["image_path_mapping"].items())
            for label, name in pictures:
                _add(tar, f"{entry['id']}.{label}{PurePosixPath(name).suffix}", (out / name).read_bytes())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # time 0, owner 0, mode 644: nothing of this machine
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def parquet_is_here() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def need_parquet() -> None:
    """Say what is missing before anything is computed."""
    if not parquet_is_here():
        raise RefBenchError("--formats parquet needs an extra: pip install 'refbench[parquet]'")


def write_parquet(path: Path, samples: Iterable[Finished]) -> None:
    """A row a sample, some at a time: texts and paths, not the pictures, which lie beside it."""
    pyarrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    texts, text = pyarrow.list_(pyarrow.string()), pyarrow.string()
    schema = pyarrow.schema(
        [
            ("id", text),
            ("file_name", text),
            ("types", texts),
            ("combination", text),
            ("instruction", text),
            ("enhanced", texts),
            ("caption", text),
            ("reference_tokens", texts),
            ("reference_types", texts),
            ("reference_file_names", texts),
            ("extractors", pyarrow.map_(text, text)),
            ("boxes", pyarrow.list_(pyarrow.list_(pyarrow.float64()))),
            ("judge", pyarrow.map_(text, pyarrow.int64())),
            ("persona", text),
            ("review", text),
            ("source", text),
            ("licence", text),
        ]
    )
    rows = map(_row, samples)
    with whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        while block := list(islice(rows, _ROWS)):
            writer.write_table(pyarrow.Table.from_pylist(block, schema=schema))


def _row(finished: Finished) -> dict[str, Any]:
    sample = finished.sample
    named = [given for given in sample.references if given.token]
    return {
        "id": sample.id,
        "file_name": sample.picture,
        "types": list(sample.types),
        "combination": name_of(sample.types),
        "instruction": sample.instruction,
        "enhanced": list(sample.enhanced),
        "caption": sample.caption,
        "reference_tokens": [given.token for given in named],
        "reference_types": [given.type for given in named],
        "reference_file_names": [given.path for given in named],
        "extractors": sorted(finished.extractors.items()),
        "boxes": [list(box) for box in finished.boxes],
        "judge": sorted(finished.marks.items()),
        "persona": sample.persona,
        "review": finished.review,
        "source": finished.source,
        "licence": finished.licence,
    }
