"""Every chunk of a site by its name, made when it is asked for: what the writer writes and the server serves."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from refbench.record import RefBenchError
from refbench.report.site import statistics
from refbench.report.site.album import Album
from refbench.report.site.boards import Board, open_boards, with_pictures
from refbench.report.site.browser import CaseGrid, cases_chunk, index_chunk
from refbench.report.site.contract import CASES_SIZE, INDEX_SIZE, AnnotationView
from refbench.report.site.copies import Copies, find_copies, not_yet
from refbench.report.site.failed import failures_chunk
from refbench.report.site.head import MOST_ROWS, site_head
from refbench.report.site.levels import all_rows
from refbench.report.site.overview import board_chunk, rows_chunk
from refbench.report.site.sources import picture_root
from refbench.runs.annotations import read_annotations
from refbench.table import DRAWS, SEED, Row

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
