"""A chunk of data as a classic script. Whatever a judge or a file name says, it stays inside a JSON string."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import orjson

from refbench.record import Record, RefBenchError, clean_text
from refbench.report.site import statistics
from refbench.report.site.boards import Board, all_rows, open_boards, picture_root, with_pictures
from refbench.report.site.cases import CaseGrid, cases_chunk, index_chunk
from refbench.report.site.contract import CASES_SIZE, INDEX_SIZE, AnnotationView
from refbench.report.site.failures import Copies, failures_chunk, find_copies, not_yet
from refbench.report.site.overview import MOST_ROWS, board_chunk, rows_chunk, site_head
from refbench.report.site.pictures import Album, Wanted
from refbench.runs.annotations import read_annotations
from refbench.runs.disk import disk_error
from refbench.tables.table import DRAWS, SEED, Row

# A script ends at `</script` wherever it stands, and a line at U+2028 and U+2029: as escapes they are text.
_ESCAPES = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def script(name: str, value: Any) -> bytes:
    """`refbench.put("<name>", <JSON>)`."""
    return b"refbench.put(" + _json(name) + b", " + _json(value) + b");\n"


def _json(value: Any) -> bytes:
    try:
        data = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # a lone surrogate somewhere: rare, and looking for it is slow
        data = orjson.dumps(_clean(value), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    # None of these bytes occurs in JSON outside of strings, nor inside of another character.
    for found, escape in _ESCAPES.items():
        data = data.replace(found, escape)
    return data


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_clean(item) for item in value]
    return value


# Every chunk of a site by its name, made when it is asked for: what the writer writes and the server serves.

_NAME = re.compile(r"(b\d+)/(board|rows|compare|failures|agreement|(?:index|cases)/(\d+))")


class BoardPages:
    """The chunks of one board."""

    def __init__(self, board: Board, album: Album, *, draws: int, seed: int, live: bool) -> None:
        self.board = board
        self.live = live
        self._copies: Copies | None = None
        self.album = album
        self.draws = draws
        self.seed = seed

    @cached_property
    def rows(self) -> list[Row]:
        return all_rows(self.board, draws=self.draws, seed=self.seed)

    @cached_property
    def summary(self) -> dict[str, str]:
        return {protocol: self.board.result.summary(protocol) for protocol in self.board.protocols}

    @cached_property
    def _grid(self) -> CaseGrid:
        return CaseGrid(self.board, self.summary)

    @property
    def copies(self) -> Copies:
        """The outputs that are nearly copies. Live pages do not wait for them: `compare_pictures` sets them."""
        if self._copies is None:
            if self.live:
                return not_yet(self.board)
            self.compare_pictures()
            assert self._copies is not None
        return self._copies

    def compare_pictures(self, stopped: Callable[[], bool] = lambda: False) -> None:
        self._copies = find_copies(self.board, self.album, stopped)

    def names(self) -> Iterator[str]:
        """What this board's chunks are called, behind the board's name; cases first, since thumbnails are made for
        them and used by what comes after."""
        n = len(self.board.cases)
        yield from (f"cases/{k}" for k in range(math.ceil(n / CASES_SIZE)))
        yield from (f"index/{k}" for k in range(math.ceil(n / INDEX_SIZE)))
        yield from ("board", "compare", "failures", "agreement")
        if len(self.rows) > MOST_ROWS:
            yield "rows"

    def chunk(self, name: str) -> Mapping[str, Any]:
        kind, _, number = name.partition("/")
        if kind == "board":
            ranks = statistics.ranks_of(self.board, draws=self.draws, seed=self.seed)
            return board_chunk(self.board, self.rows, self.summary, ranks)
        if kind == "rows":
            return rows_chunk(self.board, self.rows, self.summary)
        if kind == "compare":
            return statistics.compare_chunk(self.board, draws=self.draws, seed=self.seed)
        if kind == "failures":
            return failures_chunk(self.board, self.rows, self.summary, self.copies, seed=self.seed)
        if kind == "agreement":
            return statistics.agreement_chunk(self.board)
        if kind == "index":
            return index_chunk(self.board, self._grid, self.copies.bits, int(number))
        return cases_chunk(self.board, self.album, int(number))


class Pages:
    """The chunks of a site: `site`, `annotations`, and those of each board."""

    def __init__(
        self,
        runs: Sequence[Path],
        album: Album,
        *,
        data: Path | None = None,
        protocol: str = "both",
        refusals: str = "conditional",
        draws: int = DRAWS,
        seed: int = SEED,
        live: bool = False,
    ) -> None:
        self.live = live
        with contextlib.ExitStack() as opened:
            boards = open_boards(runs, protocol=protocol, refusals=refusals, draws=draws, seed=seed)
            for board in boards:
                opened.callback(board.close)
            boards = [_found(board, data) for board in boards]
            if data is not None and all(board.picture_root is None for board in boards):
                raise RefBenchError(f"--data {data} holds none of the cases' pictures: give the directory of the data")
            opened.pop_all()
        self.boards = {board.id: BoardPages(board, album, draws=draws, seed=seed, live=live) for board in boards}

    def names(self) -> Iterator[str]:
        """Every chunk there is."""
        yield from ("site", "annotations")
        for board, pages in self.boards.items():
            yield from (f"{board}/{name}" for name in pages.names())

    def chunk(self, name: str) -> Any:
        """A chunk by its name; a name that no chunk has is a KeyError."""
        if name == "site":
            boards = list(self.boards.values())
            return site_head([pages.board for pages in boards], [pages.rows for pages in boards], live=self.live)
        if name == "annotations":
            return self.annotations()
        match = _NAME.fullmatch(name)
        if match is None or match[1] not in self.boards:
            raise KeyError(name)
        pages = self.boards[match[1]]
        if match[3] is not None:
            size = INDEX_SIZE if match[2].startswith("index") else CASES_SIZE
            if int(match[3]) * size >= len(pages.board.cases) or match[3] != str(int(match[3])):
                raise KeyError(name)
        return pages.chunk(match[2])

    def annotations(self) -> list[AnnotationView]:
        """What people noted, as it stands in the runs now."""
        return [
            AnnotationView(board=name, case=said.case, star=said.star, tags=said.tags, comment=said.comment)
            for name, pages in self.boards.items()
            for said in read_annotations(*(run.path for run in pages.board.runs)).standing.values()
        ]

    def close(self) -> None:
        for pages in self.boards.values():
            pages.board.close()


def _found(board: Board, data: Path | None) -> Board:
    return with_pictures(board, picture_root(board.runs, board.bench, board.cases, data))


# The static site: a folder that opens from the file system, without a server or a network.
#
# It is written in place, chunk by chunk: the page that opens it comes last, so a site that was not finished does not
# look like one, and pictures of an earlier site are used again.

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
