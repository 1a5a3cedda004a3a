"""The static site: a folder that opens from the file system, without a server or a network.

It is written in place, chunk by chunk: the page that opens it comes last, so a site that was not finished does not
look like one, and pictures of an earlier site are used again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from refbench.record import Record, RefBenchError
from refbench.report.site.album import Album, Wanted
from refbench.report.site.pages import Pages
from refbench.report.site.script import script
from refbench.runs.disk import disk_error
from refbench.table import DRAWS, SEED

_MARK = ".refbench-site"
_INDEX = "index.html"


class WrittenSite(Record):
    """Where the site is, what it holds, and which pictures it had to do without."""

    index: Path
    cases: int
    chunks: int
    pictures: int
    bytes: int
    absent: tuple[str, ...]
    """Names of case pictures that were not at hand."""
    broken: dict[str, str]
    """Pictures that cannot be shown, with the reason."""


def write_site(
    runs: Sequence[Path],
    out: Path,
    *,
    data: Path | None = None,
    protocol: str = "both",
    refusals: str = "conditional",
    pictures: Wanted = "full",
    draws: int = DRAWS,
    seed: int = SEED,
    said: Callable[[str], None] = lambda text: None,
) -> WrittenSite:
    """Write the pages of the runs into `out`: a new or empty folder, or an earlier site. `said` hears of progress."""
    _check(out)
    album = Album(pictures, out)
    said("scoring the runs")
    pages = Pages(runs, album, data=data, protocol=protocol, refusals=refusals, draws=draws, seed=seed)
    try:
        try:
            _take(out)
            names = list(pages.names())
            for number, name in enumerate(names, 1):
                path = out / "data" / f"{name}.js"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(script(name, pages.chunk(name)))
                if number % 20 == 0:
                    said(f"{number} of {len(names)} chunks")
        finally:
            pages.close()
            album.close()
        _prune(out, album.written)
        for name, source in assets():
            if name != _INDEX:
                target = out / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
        # Last: without it nobody takes the folder for a site.
        part = out / f".part-{_INDEX}"
        part.write_bytes(_asset(_INDEX).read_bytes())
        part.replace(out / _INDEX)
    except OSError as error:
        raise disk_error(error, out) from error
    return WrittenSite(
        index=out / _INDEX,
        cases=sum(len(of_board.board.cases) for of_board in pages.boards.values()),
        chunks=len(names),
        pictures=len(album.thumbs),
        bytes=sum(file.stat().st_size for file in out.rglob("*") if file.is_file()),
        absent=tuple(sorted(album.absent)),
        broken=dict(sorted(album.broken.items())),
    )


def assets() -> Iterator[tuple[str, Traversable]]:
    """The files of the pages, by their paths in a site."""
    yield from _files(resources.files("refbench.report.site") / "assets", "")


def _files(folder: Traversable, inside: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(entry, f"{inside}{entry.name}/")
        elif not entry.name.startswith("."):
            yield f"{inside}{entry.name}", entry


def _asset(name: str) -> Traversable:
    return resources.files("refbench.report.site") / "assets" / name


def _check(out: Path) -> None:
    """Refuse a folder that is not ours, before anything is computed for it."""
    if not out.exists():
        return
    if not out.is_dir():
        raise RefBenchError(f"--out {out} is a file: give a new directory")
    there = os.listdir(out)
    if there and _MARK not in there:
        raise RefBenchError(f"--out {out} holds other files ({sorted(there)[0]}): give a new or empty directory")


def _take(out: Path) -> None:
    """Make the folder ours, and take the door off an earlier site."""
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).write_text("This folder is written by refbench view --out; it may be deleted or written again.\n")
    (out / _INDEX).unlink(missing_ok=True)
    shutil.rmtree(out / "data", ignore_errors=True)


def _prune(out: Path, written: set[str]) -> None:
    """Pictures of an earlier site that this one does not show."""
    for folder in ("thumbs", "pictures"):
        for path in (out / folder).glob("*/*"):
            if path.relative_to(out).as_posix() not in written:
                path.unlink()
