"""Every chunk of a site by its name, made when it is asked for: what the writer writes and the server serves."""

from __future__ import annotations

import base64
import contextlib
import gzip
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Unpack

import orjson

from refbench.record import Record, RefBenchError, clean_text
from refbench.report.site.audit import audit_chunk
from refbench.report.site.boards import Board, ReadOptions, open_boards, picture_root
from refbench.report.site.cases import CaseValues, cases_chunk, index_chunk, looks
from refbench.report.site.contract import CASES_SIZE, INDEX_SIZE, AnnotationView, LookView
from refbench.report.site.failures import Copies, failures_chunk, find_copies, not_yet
from refbench.report.site.figures import families, figures_chunk
from refbench.report.site.overview import board_chunk, rows_chunk, site_head
from refbench.report.site.pictures import PictureStore, Wanted
from refbench.report.site.share import CARD, card, readme, with_head
from refbench.report.site.statistics import agreement_chunk, compare_chunk
from refbench.runs.annotations import read_annotations
from refbench.runs.disk import disk_error, write_whole

# A script ends at `</script` wherever it stands, and a line at U+2028 and U+2029: as escapes they are text.
_ESCAPES = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def script(name: str, value: Any) -> bytes:
    """A chunk of data as a classic script, `refbench.put("<name>", <JSON>)`. Whatever a judge or a file name says, it
    stays inside a JSON string."""
    return b"refbench.put(" + _json(name) + b", " + _json(value) + b");\n"


def packed(name: str, value: Any) -> bytes:
    """The same, compressed: chunks of cases are judges' words, and become a fifth. For files alone: what a server
    sends may be compressed on the way."""
    data = base64.b64encode(gzip.compress(_plain(value), _LEVEL, mtime=0))
    return b"refbench.unpack(" + _json(name) + b', "' + data + b'");\n'


def _plain(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # a lone surrogate somewhere: rare, and looking for it is slow
        return orjson.dumps(_clean(value), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)


def _json(value: Any) -> bytes:
    data = _plain(value)
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


_LEVEL = 5
"""Of compression: a third of the time of the best, and 5 % more bytes."""
_MARK = ".refbench-site"
_INDEX = "index.html"


class BoardPages:
    """The chunks of one board."""

    def __init__(self, board: Board, store: PictureStore, *, live: bool) -> None:
        self.board = board
        self.live = live
        self.store = store
        self._copies: Copies | None = None

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(self.names())

    @cached_property
    def _values(self) -> CaseValues:
        return CaseValues(self.board)

    @property
    def copies(self) -> Copies:
        """The outputs that are nearly copies. Live pages do not wait for them: `compare_pictures` sets them."""
        if self._copies is None and self.live:
            return not_yet(self.board)
        return self._copies or self.compare_pictures()

    def compare_pictures(self, stopped: Callable[[], bool] = lambda: False) -> Copies:
        self._copies = find_copies(self.board, self.store, stopped)
        return self._copies

    def first_looks(self) -> Sequence[LookView]:
        """The cases that the overview begins with."""
        protocol = self.board.protocols[0]
        found = looks(self.board, self._values, self.store)
        judge = self.board.judge_numbers[self.board.judge_for(protocol)]
        return found.get(f"{protocol}/{judge}", ())

    def names(self) -> Iterator[str]:
        """What this board's chunks are called, behind the board's name; cases first, since thumbnails are made for
        them and used by what comes after, and comparisons before the board, which has ranks of them, and the
        figures."""
        n = len(self.board.cases)
        yield from (f"cases/{k}" for k in range(math.ceil(n / CASES_SIZE)))
        yield from (f"index/{k}" for k in range(math.ceil(n / INDEX_SIZE)))
        yield from ("compare", "board", "failures", "agreement")
        yield from (f"figures/{k}" for k in range(len(families(self.board))))
        if self.board.audit:
            yield "audit"
        if self.board.rows_apart:
            yield "rows"

    def chunk(self, name: str) -> Mapping[str, Any]:
        """A chunk by its name; a name that no chunk has is a KeyError."""
        if name not in self._named:
            raise KeyError(name)
        kind, _, number = name.partition("/")
        if kind == "cases":
            return cases_chunk(self.board, self.store, int(number))
        if kind == "index":
            return index_chunk(self.board, self._values, self.copies.bits, int(number))
        if kind == "figures":
            return figures_chunk(self.board, int(number))
        if kind == "failures":
            return failures_chunk(self.board, self.copies)
        if kind == "audit":
            return audit_chunk(self.board, self.store)
        if kind == "board":
            return board_chunk(self.board, looks(self.board, self._values, self.store))
        make: dict[str, Callable[[Board], Mapping[str, Any]]] = {
            "rows": rows_chunk,
            "compare": compare_chunk,
            "agreement": agreement_chunk,
        }
        return make[kind](self.board)


class Pages:
    """The chunks of a site: `site`, `annotations`, and those of each board."""

    def __init__(
        self,
        runs: Sequence[Path],
        store: PictureStore,
        *,
        data: Path | None = None,
        live: bool = False,
        **options: Unpack[ReadOptions],
    ) -> None:
        self.live = live
        with contextlib.ExitStack() as opened:
            boards = open_boards(runs, **options)
            for board in boards:
                opened.callback(board.close)
            roots = [picture_root(board.runs, board.bench, board.cases, data) for board in boards]
            if data is not None and not any(roots):
                raise RefBenchError(f"--data {data} holds none of the cases' pictures: give the directory of the data")
            opened.pop_all()
        boards = [replace(board, picture_root=root) for board, root in zip(boards, roots, strict=True)]
        self.boards = {board.id: BoardPages(board, store, live=live) for board in boards}

    def names(self) -> Iterator[str]:
        """Every chunk there is."""
        yield from ("site", "annotations")
        for board, pages in self.boards.items():
            yield from (f"{board}/{name}" for name in pages.names())

    def chunk(self, name: str) -> Any:
        """A chunk by its name; a name that no chunk has is a KeyError."""
        if name == "site":
            return site_head([pages.board for pages in self.boards.values()], live=self.live)
        if name == "annotations":
            return self.annotations()
        board, _, of_board = name.partition("/")
        return self.boards[board].chunk(of_board)

    def for_sharing(self, folder: Path, url: str) -> dict[str, bytes]:
        """What a written site has for who has not opened it, by name; the page that opens it is among them."""
        boards = [pages.board for pages in self.boards.values()]
        first = next((pages for pages in self.boards.values() if pages.board.protocols), None)
        index = next(source for name, source in assets() if name == _INDEX).read_bytes()
        if first is None:
            return {_INDEX: index}
        return {
            _INDEX: with_head(index, [first.board, *boards], url),
            CARD: card(first.board, first.first_looks(), folder),
            "README.md": readme(boards, len(first.store.absent)).encode("utf-8", "replace"),
        }

    def annotations(self) -> list[AnnotationView]:
        """What people noted, as it stands in the runs now."""
        return [
            AnnotationView(board=name, case=note.case, star=note.star, tags=note.tags, comment=note.comment)
            for name, pages in self.boards.items()
            for note in read_annotations(*(run.path for run in pages.board.runs)).standing.values()
        ]

    def close(self) -> None:
        for pages in self.boards.values():
            pages.board.close()


class Written(Record):
    """What was written from runs, and which pictures it had to do without."""

    path: Path
    """The file to open."""
    absent: tuple[str, ...]
    """Names of case pictures that were not at hand."""
    broken: dict[str, str]
    """Pictures that cannot be shown, with the reason."""
    boards: int
    cases: int = 0
    chunks: int = 0
    pictures: int = 0
    bytes: int = 0


def write_site(
    runs: Sequence[Path],
    out: Path,
    *,
    data: Path | None = None,
    pictures: Wanted = "shown",
    url: str = "",
    report: Callable[[str], None] = lambda text: None,
    **options: Unpack[ReadOptions],
) -> Written:
    """Write the pages of the runs into `out`: a new or empty folder, or an earlier site. `url` is where it will lie,
    for previews of links to it; `report` hears of progress.

    The static site opens from the file system, without a server or a network. It is written in place, chunk by chunk:
    the page that opens it comes last, so a site that was not finished does not look like one, and pictures of an
    earlier site are used again.
    """
    _check(out)
    report("scoring the runs")
    with closing(PictureStore(pictures, out)) as store, closing(Pages(runs, store, data=data, **options)) as pages:
        names = list(pages.names())
        try:
            _take(out)
            for number, name in enumerate(names, 1):
                form = packed if "/cases/" in name else script
                write_whole(out / "data" / f"{name}.js", form(name, pages.chunk(name)), flush=False)
                if number % 20 == 0:
                    report(f"{number} of {len(names)} chunks")
            _prune(out, store.written)
            files = {name: source.read_bytes() for name, source in assets()} | pages.for_sharing(out, url)
            index = files.pop(_INDEX)
            for name, content in files.items():
                write_whole(out / name, content, flush=False)
            write_whole(out / _INDEX, index)  # last: without it nobody takes the folder for a site
        except OSError as error:
            raise disk_error(error, out) from error
    return Written(
        path=out / _INDEX,
        absent=tuple(sorted(store.absent)),
        broken=dict(sorted(store.broken.items())),
        boards=len(pages.boards),
        cases=sum(len(of_board.board.cases) for of_board in pages.boards.values()),
        chunks=len(names),
        pictures=len(store.thumbs),
        bytes=sum(file.stat().st_size for file in out.rglob("*") if file.is_file()),
    )


def assets() -> Iterator[tuple[str, Traversable]]:
    """The files of the pages, by their names."""
    for entry in (resources.files("refbench.report.site") / "assets").iterdir():
        if not entry.name.startswith("."):
            yield entry.name, entry


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
    for folder in ("thumbs", "shown", "pictures"):
        for path in (out / folder).glob("*/*"):
            if path.relative_to(out).as_posix() not in written:
                path.unlink()
