"""WebDataset shards: a tar of samples, each a JSON and its pictures under one key; the same bytes wherever written."""

from __future__ import annotations

import importlib
import importlib.util
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from refbench.builders.kit.draws import draw
from refbench.builders.kit.store import Store
from refbench.builders.refblend.writing import remove_others, whole_file
from refbench.record import RefBenchError, content_key

SAMPLES = 1000
"""In one shard."""
_VERSION = 1


def write_shards(
    out: Path,
    entries: Sequence[Mapping[str, Any]],
    made: Callable[[int], Mapping[str, str]],
    store: Store,
    seed: int = 0,
) -> list[str]:
    """Shards `webdataset/train-00000.tar`, ... of each split, in an order drawn by the seed, so that a shard is a fair
    sample. Those that an earlier build has written and that would be the same are left: `made(place)` is what the
    references of an entry are made from, since other keypoints or another network give other pictures under the same
    names. Returns the names of the shards."""
    by_split: dict[str, list[tuple[int, int]]] = {"train": [], "test": []}
    for place, entry in enumerate(entries):
        by_split[entry["split"]].append((draw(seed, "shard", entry["id"]), place))
    names: list[str] = []
    for split, drawn in by_split.items():
        places = [place for _, place in sorted(drawn)]
        for number, start in enumerate(range(0, len(places), SAMPLES)):
            name = f"webdataset/{split}-{number:05d}.tar"
            names.append(name)
            here = places[start : start + SAMPLES]
            shard = [entries[place] for place in here]
            key = content_key([_VERSION, name, shard, [made(place) for place in here]])[:32]
            path = out / name
            if path.is_file() and store.get(key) == path.stat().st_size:
                continue
            _write(path, out, shard)
            store.put(key, path.stat().st_size)
    store.settle()
    remove_others(out / "webdataset", lambda path: path.relative_to(out).as_posix() in names)
    return names


def _write(path: Path, out: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    with whole_file(path) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for entry in entries:
            _add(tar, f"{entry['id']}.json", orjson.dumps(entry))
            target = entry["original_image_path"]
            _add(tar, f"{entry['id']}.target{PurePosixPath(target).suffix}", (out / target).read_bytes())
            for token, name in sorted(entry["instructions"]["image_path_mapping"].items()):
                _add(tar, f"{entry['id']}.{token}{PurePosixPath(name).suffix}", (out / name).read_bytes())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # time 0, owner 0, mode 644: nothing of this machine
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


# The dataset as Parquet, a row a sample: texts and paths, not the pictures, which lie beside it.

_ROWS = 1000


def parquet_is_here() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def need_parquet() -> None:
    """Say what is missing before anything is computed."""
    if not parquet_is_here():
        raise RefBenchError("--formats parquet needs an extra: pip install 'refbench[parquet]'")


def write_parquet(path: Path, entries: Iterable[Mapping[str, Any]]) -> int:
    """Write the rows, some at a time; returns how many."""
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
    count = 0
    with whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        rows: list[dict[str, Any]] = []
        for row in _rows(entries):
            rows.append(row)
            count += 1
            if len(rows) >= _ROWS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows = []
        if rows:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    return count


def _rows(entries: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    from refbench.benchmarks.multiref.cases import type_of_token

    for entry in entries:
        told, conditions = entry["instructions"], entry["conditions"]
        mapping = told["image_path_mapping"]
        yield {
            "id": entry["id"],
            "file_name": entry["original_image_path"],
            "types": list(told["conditions"]),
            "combination": "+".join(sorted(told["conditions"])),
            "instruction": told["original_prompts"],
            "enhanced": list(told["enhance_prompts"]),
            "caption": conditions.get("caption"),
            "reference_tokens": list(mapping),
            "reference_types": [type_of_token(token) for token in mapping],
            "reference_file_names": list(mapping.values()),
            "extractors": sorted(entry["extractors"].items()),
            "boxes": [list(box) for box in conditions.get("bbox_value", ())],
            "judge": sorted(entry["judge"].items()),
            "persona": entry["persona"],
            "review": entry["review"],
            "source": entry["source"],
            "licence": entry["licence"],
        }
