"""The folder of a build: taken only where it holds nobody else's data, and with nothing of an earlier build left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from refbench.builders.kit.settings import SPLITS
from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, write_whole


def claim(out: Path, source: Path, builder: str, places: Iterable[str]) -> None:
    """Take the folder for this build; `places` are what the build writes into it."""
    here, there = out.resolve(), source.resolve()
    if here == there or here in there.parents or (source.is_dir() and there in here.parents):
        raise RefBenchError(f"--out {out} and {source} lie one inside the other: keep them apart")
    mark = out / ".build" / f"{builder}.json"
    try:
        if not mark.exists():
            taken = [place for place in (*places, *SPLITS, "README.md") if (out / place).exists()]
            if taken:
                raise RefBenchError(f"--out {out} has {taken[0]}, which no such build made: choose another --out")
            write_whole(mark, as_lines([{"builder": builder}]))
    except OSError as error:
        raise disk_error(error, out) from error


class Shipment:
    """The files of a build below `root`. Only what a build has written is ever removed: people put models' outputs and
    notes of their own beside it. `record` lists what was written."""

    def __init__(self, root: Path, record: Path | None = None) -> None:
        self.root = root
        self.record = record or root.parent / ".build" / f"{root.name}.files.json"
        self._files: dict[str, bytes | Path] = {}

    def put(self, name: str, data: bytes | Path) -> None:
        """A file to write, or to copy, when the shipment is finished."""
        self._files[name] = data

    def finish(self) -> None:
        """Write what differs, in the order in which it was put, then remove what an earlier build wrote and this one
        does not have (another seed, size or review)."""
        before = self._before()
        if not before and not self._files:
            return
        put_file(self.record, as_json(sorted(before | set(self._files))))  # first: a kill loses track of nothing
        for name, data in self._files.items():
            put_file(self.root / name, data if isinstance(data, bytes) else _read(data))
        try:
            for name in sorted(before - set(self._files)):
                (self.root / name).unlink(missing_ok=True)
                _remove_empty((self.root / name).parent, self.root)
        except OSError as error:
            raise disk_error(error, self.root) from error
        put_file(self.record, as_json(sorted(self._files)) if self._files else b"")

    def _before(self) -> set[str]:
        """What is on record; none of it lies outside, whatever the file says."""
        try:
            listed = orjson.loads(self.record.read_bytes())
        except FileNotFoundError:
            return set()
        except (OSError, orjson.JSONDecodeError) as error:
            raise RefBenchError(
                f"{self.record} cannot be read ({error}): restore it, or choose another --out"
            ) from error
        names = listed if isinstance(listed, list) else []
        return {name for name in names if isinstance(name, str) and ".." not in Path(name).parts and name[:1] != "/"}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read any more: put it back and run it again") from error


def _remove_empty(folder: Path, root: Path) -> None:
    """Folders that held nothing but what was removed, up to the root and with it."""
    while folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        if folder == root:
            return
        folder = folder.parent


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole, or say why the disk does not take it."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise disk_error(error, path) from error


def put_file(path: Path, data: bytes) -> None:
    """A single file of ours beside the dataset; none where there is nothing to say."""
    try:
        if not data:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_bytes() != data:
            write_whole(path, data)
    except OSError as error:
        raise disk_error(error, path) from error


def as_json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def as_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
