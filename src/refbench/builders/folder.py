"""The folder of a build: taken only where it holds nobody else's data, and with nothing of an earlier build left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, write_whole
from refbench.workshop.review import write_review

SPLITS = ("dev", "test")


def split_names(test_share: float | None) -> tuple[str, ...]:
    """The folders of the splits below --out; one that is --out itself where there are none."""
    if test_share is not None and not 0 < test_share < 1:
        raise RefBenchError(f"--test-share {test_share:g}: give a share between 0 and 1, for example 0.5")
    return ("",) if test_share is None else SPLITS


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
            write_whole(mark, orjson.dumps({"builder": builder}, option=orjson.OPT_APPEND_NEWLINE))
    except OSError as error:
        raise disk_error(error, out) from error


class Shipment:
    """The files of a folder that a build owns: those that differ are written, others are removed in the end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ours: set[Path] = set()

    def put(self, name: str, data: bytes) -> None:
        path = self.root / name
        self._ours.add(path)
        try:
            if not path.exists() or path.read_bytes() != data:
                write_whole(path, data)
        except OSError as error:
            raise disk_error(error, self.root) from error

    def finish(self) -> None:
        """Remove what an earlier build of another seed, size or review has left."""
        try:
            for path in sorted(self.root.rglob("*"), reverse=True):
                if path.is_dir() and not path.is_symlink():
                    if not any(path.iterdir()):
                        path.rmdir()
                elif path not in self._ours:
                    path.unlink()
            if self.root.is_dir() and not any(self.root.iterdir()):
                self.root.rmdir()
        except OSError as error:
            raise disk_error(error, self.root) from error


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


def offer_review(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """The file to decide in. One in which nobody has decided anything yet is brought up to date."""
    if path.exists() and _untouched(path):
        path.unlink()
    write_review(path, rows)


def _untouched(path: Path) -> bool:
    try:
        said = [orjson.loads(row) for row in path.read_bytes().splitlines() if row.strip()]
    except (OSError, orjson.JSONDecodeError):
        return False
    return all(isinstance(r, dict) and not (r.get("decision") or r.get("edit") or r.get("comment")) for r in said)
