"""`refbench view --brief`: one A4 sheet for each board, for the person who decides, in one file without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from refbench.record import Record, RefBenchError
from refbench.report.site.album import Album
from refbench.report.site.boards import Board
from refbench.report.site.brief_page import MARK, document, sheet
from refbench.report.site.brief_pictures import gallery
from refbench.report.site.brief_traits import traits
from refbench.report.site.brief_verdicts import verdicts
from refbench.report.site.brief_view import open_view, parts_of, parts_with_room
from refbench.report.site.pages import Pages
from refbench.runs.disk import disk_error, write_whole
from refbench.table import DRAWS, SEED

NAME = "brief.html"
_SLICES, _CRITERIA = 8, 5
"""Lines of `which model for what` that fit beside pictures; without pictures there is room for more slices."""
_SLICES_WITHOUT_PICTURES = 16


class WrittenBrief(Record):
    """Where the sheets are, how many there are, and which pictures they had to do without."""

    path: Path
    sheets: int
    absent: tuple[str, ...]
    broken: dict[str, str]


def write_brief(
    runs: Sequence[Path],
    out: Path | None = None,
    *,
    data: Path | None = None,
    protocol: str = "both",
    refusals: str = "conditional",
    draws: int = DRAWS,
    seed: int = SEED,
    said: Callable[[str], None] = lambda text: None,
) -> WrittenBrief:
    """Write the sheets of the runs into `out`: a file that ends in .html, or a folder that will hold `brief.html`;
    by default into the folder one is in. `said` hears of progress."""
    path = _place(out)
    album = Album("thumbs")
    said("scoring the runs")
    try:
        pages = Pages(runs, album, data=data, protocol=protocol, refusals=refusals, draws=draws, seed=seed)
        try:
            sheets = []
            for number, of_board in enumerate(pages.boards.values(), 1):
                said(f"sheet {number} of {len(pages.boards)}")
                sheets.append(brief_sheet(of_board.board, album, draws=draws, seed=seed))
            page = document([of_board.board.bench.title for of_board in pages.boards.values()], sheets)
        finally:
            pages.close()
    finally:
        album.close()
    try:
        write_whole(path, page.encode())
    except OSError as error:
        raise disk_error(error, path) from error
    return WrittenBrief(
        path=path,
        sheets=len(sheets),
        absent=tuple(sorted(album.absent)),
        broken=dict(sorted(album.broken.items())),
    )


def brief_sheet(board: Board, album: Album, *, draws: int = DRAWS, seed: int = SEED) -> str:
    """One sheet, as markup."""
    view = open_view(board, draws=draws, seed=seed)
    pictures = gallery(view, album)
    parts = parts_of(view)
    shown = parts_with_room(parts, _SLICES if pictures.scenes else _SLICES_WITHOUT_PICTURES, _CRITERIA)
    return sheet(view, verdicts(view, shown), traits(view, parts), pictures, left_out=len(parts) - len(shown))


def _place(out: Path | None) -> Path:
    """The file to write; one that is there and is no brief of ours is left alone."""
    path = out if out is not None and out.suffix.lower() in (".html", ".htm") else (out or Path()) / NAME
    if path.parent.is_file():
        raise RefBenchError(f"--out {out} is a file: give a directory, or a file that ends in .html")
    if path.is_dir():
        raise RefBenchError(f"--out {path} is a directory: give a file name, or a directory without .html")
    if path.exists():
        with path.open("rb") as file:
            ours = MARK.encode() in file.read(2000)
        if not ours:
            raise RefBenchError(f"{path} is there and was not written by --brief: give --out another name")
    return path
