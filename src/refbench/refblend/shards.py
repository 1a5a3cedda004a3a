"""WebDataset shards: a tar of samples, each a JSON and its pictures under one key; the same bytes wherever written."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from refbench.record import content_key
from refbench.refblend.draws import draw
from refbench.refblend.store import Store
from refbench.refblend.writing import remove_others, whole_file

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
