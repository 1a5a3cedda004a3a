"""How a dataset's files come to be: whole or not at all, the same bytes each time, and none left over from before."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from refbench.machine import cores
from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, whole_file

PICTURES = ("images", "original_images")
_SEVERAL = 512


@contextmanager
def owned_directory(out: Path) -> Iterator[None]:
    """The directory of a dataset, made if need be and locked while a build goes on; another's files are not touched."""
    lock = out / "work" / ".lock"
    try:
        if out.exists() and not out.is_dir():
            raise RefBenchError(f"--out {out} is a file: name a directory")
        if out.is_dir() and any(out.iterdir()) and not lock.exists():
            raise RefBenchError(f"--out {out} holds other files: name a new directory, or one that a build has made")
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise disk_error(error, out) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RefBenchError(f"another build is writing into {out}: wait for it, or name another --out") from error
        for folder, _, files in os.walk(out):  # halves of files that a killed build has left
            for name in files:
                if name.startswith(".part-"):
                    Path(folder, name).unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)


def write_json_list(path: Path, items: Iterable[Mapping[str, Any]]) -> None:
    """A JSON list, an item a line."""
    number = -1
    with whole_file(path) as file:
        for number, item in enumerate(items):
            file.write((b",\n" if number else b"[\n") + orjson.dumps(item))
        file.write(b"[]\n" if number < 0 else b"\n]\n")


def place_pictures(out: Path, wanted: Iterable[tuple[str, Path]]) -> None:
    """Put pictures to their places in the dataset: references are linked, so that they take no more room, and originals
    copied, so that nobody changes them through the dataset. What else lies there is removed."""
    expected: set[str] = set()

    def place(pair: tuple[str, Path]) -> None:
        name, source = pair
        try:
            _place(out / name, source, link=name.startswith("images/"))
        except OSError as error:
            raise disk_error(error, out / name) from error

    with ThreadPoolExecutor(cores()) as threads:
        several: list[tuple[str, Path]] = []
        for name, source in wanted:
            if name not in expected:
                expected.add(name)
                several.append((name, source))
            if len(several) >= _SEVERAL:  # map would take all before the first is done
                list(threads.map(place, several))
                several = []
        list(threads.map(place, several))
    for folder in PICTURES:
        remove_others(out / folder, lambda path: path.relative_to(out).as_posix() in expected)


def _place(target: Path, source: Path, *, link: bool) -> None:
    size = source.stat().st_size
    try:
        there = target.stat()
        if there.st_size == size and (not link or there.st_ino == source.stat().st_ino):
            return  # its name is its content
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".part-{target.name}")
    part.unlink(missing_ok=True)
    try:
        if link:
            try:
                os.link(source, part)
            except OSError:  # a file system without links
                shutil.copyfile(source, part)
        else:
            shutil.copyfile(source, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def remove_others(folder: Path, belongs: Callable[[Path], bool]) -> None:
    """Remove the files below a folder of ours that do not belong to this dataset, and folders that are left empty."""
    if not folder.is_dir():
        return
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif not belongs(path):
            path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()
