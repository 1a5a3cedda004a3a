"""A sheet of pictures for a paper or a talk: each row a case, its references left, every model's output beside them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw

from refbench import __version__
from refbench.case import AnyCase, Picture
from refbench.failure import Failure
from refbench.output import StoredPicture
from refbench.pictures import read_pixels, regular_bytes
from refbench.record import RefBenchError, counted
from refbench.report.grid.choice import Chosen, Marks, state_of
from refbench.report.grid.text import TextStyle
from refbench.report.site.boards import Board, open_boards, picture_root
from refbench.report.site.pictures import hashes_of
from refbench.runs import Run

_INK, _QUIET, _LINE, _PAPER, _EMPTY = "#1a1a1a", "#5c5c5c", "#c8c8c8", "#ffffff", "#f3f3f3"
_ALARM, _ALARM_PAPER = "#8c1d18", "#fdecea"
_MARGIN, _GAP = 24, 12
_A4 = 297 / 210
_MOST_PIXELS = 120_000_000
_MOST_LINES = 6


@dataclass(frozen=True)
class Tile:
    """A picture to show with a word about it, or why there is none to show."""

    label: str
    path: Path | None = None
    failure: Failure | None = None
    absent: str = "not at hand"
    """What is said where there is neither: nobody's failure."""


class SheetCell(NamedTuple):
    """One model's pictures of a case, and what stands under them."""

    title: str
    tiles: tuple[Tile, ...]
    below: str


class SheetRow(NamedTuple):
    """One case."""

    case: str
    instruction: str
    references: tuple[Tile, ...]
    cells: tuple[SheetCell, ...]


@dataclass
class Sheet:
    """Draws rows. `missing` holds the characters that no font here has, `broken` files that could not be decoded."""

    size: int = 256
    columns: int = 6
    font: Path | None = None
    missing: dict[str, None] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.title = TextStyle(20, self.font, self.missing)
        self.text = TextStyle(15, self.font, self.missing)
        self.small = TextStyle(12, self.font, self.missing)

    def pages(self, title: str, caption: str, rows: Sequence[SheetRow], *, paged: bool) -> list[Image.Image]:
        """One long picture, or pages of about the shape of A4."""
        across = min(self.columns, max(len(row.cells) for row in rows))
        width = 2 * _MARGIN + (across + 1) * self.size + across * _GAP
        head = self._words(width, [(self.title, title, _INK)])
        foot = self._words(width, [(self.small, caption, _QUIET)])
        blocks = [self._row(row, across, width) for row in rows]
        # After the rows are drawn, what could not be drawn in them is known.
        if self.missing:
            foot = self._words(width, [(self.small, caption, _QUIET), (self.small, self.unwritten(), _ALARM)])
        room = width * _A4 - head.height - foot.height if paged else float("inf")
        groups: list[list[Image.Image]] = [[]]
        for block in blocks:
            if groups[-1] and sum(one.height for one in groups[-1]) + block.height > room:
                groups.append([])
            groups[-1].append(block)
        return [_stacked([head, *group, foot], width) for group in groups]

    def unwritten(self) -> str:
        """Which characters no font here has."""
        codes = ", ".join(f"U+{ord(sign):04X}" for sign in list(self.missing)[:8])
        more = ", ..." if len(self.missing) > 8 else ""
        return f"{len(self.missing)} characters have no font here and are drawn as empty boxes: {codes}{more}"

    def _words(self, width: int, texts: Sequence[tuple[TextStyle, str, str]]) -> Image.Image:
        lines = [(style, line, ink) for style, text, ink in texts for line in style.wrap(text, width - 2 * _MARGIN)]
        picture = Image.new("RGB", (width, sum(style.line for style, *_ in lines) + 2 * _GAP), _PAPER)
        draw = ImageDraw.Draw(picture)
        y = _GAP
        for style, line, ink in lines:
            style.draw(draw, (_MARGIN, y), line, ink)
            y += style.line
        return picture

    def _row(self, row: SheetRow, across: int, width: int) -> Image.Image:
        lines = self.text.wrap(row.instruction, width - 2 * _MARGIN, _MOST_LINES)
        bands = [row.cells[n : n + across] for n in range(0, len(row.cells), across)]
        cell = self.text.line + self.size + 2 * self.small.line + _GAP
        top = _GAP + self.small.line + len(lines) * self.text.line + _GAP // 2
        picture = Image.new("RGB", (width, top + len(bands) * cell), _PAPER)
        draw = ImageDraw.Draw(picture)
        draw.line((_MARGIN, 0, width - _MARGIN, 0), fill=_LINE)
        self.small.draw(draw, (_MARGIN, _GAP), self.small.fit(row.case, width - 2 * _MARGIN), _QUIET)
        for n, line in enumerate(lines):
            self.text.draw(draw, (_MARGIN, _GAP + self.small.line + n * self.text.line), line, _INK)
        word = "references" if len(row.references) != 1 else "reference"
        self.text.draw(draw, (_MARGIN, top), word if row.references else "no references", _QUIET)
        self._tiles(picture, draw, (_MARGIN, top + self.text.line), row.references, labelled=True)
        for b, band in enumerate(bands):
            for c, one in enumerate(band):
                x, y = _MARGIN + (c + 1) * (self.size + _GAP), top + b * cell
                self.text.draw(draw, (x, y), self.text.fit(one.title, self.size), _INK)
                self._tiles(picture, draw, (x, y + self.text.line), one.tiles, labelled=False)
                for n, line in enumerate(self.small.wrap(one.below, self.size, 2)):
                    at = (x, y + self.text.line + self.size + 2 + n * self.small.line)
                    self.small.draw(draw, at, line, _INK)
        return picture

    def _tiles(
        self,
        picture: Image.Image,
        draw: ImageDraw.ImageDraw,
        at: tuple[int, int],
        tiles: Sequence[Tile],
        *,
        labelled: bool,
    ) -> None:
        """Pictures in a square of the sheet's size: one alone, up to four by two, up to nine by three, and so on."""
        side = next(n for n in range(1, 100) if n * n >= len(tiles))
        step = self.size // side
        label = self.small.line if labelled else 0
        for n, tile in enumerate(tiles):
            x, y = at[0] + (n % side) * step, at[1] + (n // side) * step
            box = (x, y, x + step - (3 if side > 1 else 0), y + step - label - (3 if side > 1 else 0))
            self._tile(picture, draw, box, tile)
            if labelled:
                self.small.draw(draw, (x, box[3]), self.small.fit(tile.label, box[2] - box[0]), _QUIET)

    def _tile(
        self, picture: Image.Image, draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], tile: Tile
    ) -> None:
        width, height = box[2] - box[0], box[3] - box[1]
        shown: Image.Image | Failure | None = tile.failure
        if shown is None and tile.path is not None:
            shown = self._opened(tile.path)
        if isinstance(shown, Image.Image):
            shown.thumbnail((width, height), Image.Resampling.LANCZOS)
            picture.paste(_EMPTY, box)
            picture.paste(shown, (box[0] + (width - shown.width) // 2, box[1] + (height - shown.height) // 2))
            return
        failure = shown
        ink, paper = (_ALARM, _ALARM_PAPER) if failure else (_QUIET, _EMPTY)
        draw.rectangle((*box[:2], box[2] - 1, box[3] - 1), fill=paper, outline=ink)
        texts = [(self.text, failure.kind), (self.small, failure.detail)] if failure else [(self.small, tile.absent)]
        y = box[1] + 6
        for style, text in texts:
            room = max(1, (box[3] - y - 4) // style.line)
            for line in style.wrap(text, width - 12, min(room, _MOST_LINES)):
                if y + style.line <= box[3]:
                    style.draw(draw, (box[0] + 6, y), line, ink)
                y += style.line

    def _opened(self, path: Path) -> Image.Image | Failure:
        pixels = read_pixels(path)
        if isinstance(pixels, Failure):
            self.broken.append(pixels.detail)
            return pixels
        return Image.fromarray(pixels)


def _stacked(pictures: Sequence[Image.Image], width: int) -> Image.Image:
    height = sum(picture.height for picture in pictures)
    if width * height > _MOST_PIXELS:
        raise RefBenchError(
            f"the sheet would have {width} x {height} pixels: choose fewer cases, a smaller --size, or a .pdf"
        )
    sheet = Image.new("RGB", (width, height), _PAPER)
    y = 0
    for picture in pictures:
        sheet.paste(picture, (0, y))
        y += picture.height
    return sheet


def sheet_bytes(pages: Sequence[Image.Image], path: Path) -> bytes:
    """The sheet as a file; the same sheet gives the same bytes, so no date is in it."""
    data = io.BytesIO()
    if path.suffix.lower() == ".pdf":
        pages[0].save(
            data, "PDF", save_all=True, append_images=pages[1:], resolution=150.0, quality=92,
            creationDate=None, modDate=None,
        )  # fmt: skip
    else:
        pages[0].save(data, "PNG")
    return data.getvalue()


def open_board(runs: Sequence[Path], protocol: str | None = None, *, draws: int = 0) -> Board:
    """The runs as one board: all of the same cases. Without draws there are no intervals."""
    boards = open_boards(runs, protocol=protocol or "both", draws=draws)
    if len(boards) > 1:
        for board in boards:
            board.close()
        sets = "; ".join(f"{', '.join(board.run_names)}: {board.bench.title}" for board in boards)
        raise RefBenchError(f"this is about one set of cases, and these runs have {len(boards)} ({sets})")
    return boards[0]


def sheet_rows(
    board: Board, marks: Marks, chosen: Chosen, models: Sequence[str], data: Path | None, seed: int = 0
) -> list[SheetRow]:
    """A row for each case: its references by role, then the models' outputs of one seed."""
    root = picture_root(board.runs, board.bench, board.cases, data)
    position = {case.id: n for n, case in enumerate(board.cases)}
    return [
        SheetRow(
            case=case.id,
            instruction=case.request.instruction,
            references=_references(board, case.request.pictures, root),
            cells=tuple(_cell(board, marks, case, position[case.id], model, seed) for model in models),
        )
        for case in chosen.cases
    ]


def _references(board: Board, pictures: Sequence[Picture], root: Path | None) -> tuple[Tile, ...]:
    """The pictures as the model got them. Several are numbered in that order: instructions say image 1, image 2."""
    numbers = range(1, len(pictures) + 1)
    labels = [f"{n} {p.role}" if len(pictures) > 1 else p.role for n, p in zip(numbers, pictures, strict=True)]
    return tuple(_reference(board, p, label, root) for p, label in zip(pictures, labels, strict=True))


def _reference(board: Board, picture: Picture, label: str, root: Path | None) -> Tile:
    path = root / picture.name if root is not None else None
    if path is None or not path.is_file():
        return Tile(label)
    if hashes_of(picture, board.inputs) - {hashlib.sha256(regular_bytes(path)).hexdigest()}:
        other = Failure(kind="unreadable_picture", detail=f"{picture.name} is not the picture that was recorded")
        return Tile(label, failure=other)
    return Tile(label, path)


def _cell(board: Board, marks: Marks, case: AnyCase, position: int, model: str, seed: int) -> SheetCell:
    number = board.model_numbers[model]
    run = board.runs[board.models[number].run]
    output = next(
        (
            output
            for who, output in board.outputs_by_case.get(case.id, ())
            if who == number and output.step is None and output.seed == seed
        ),
        None,
    )
    if output is None:
        tiles = [Tile("output", absent="no output is recorded")]
    elif output.failure is not None:
        tiles = [Tile("output", failure=output.failure)]
    else:
        tiles = [_output(run, picture) for picture in output.pictures]
    failure, seeds = output.failure if output else None, board.result.seeds.get(model, 1)
    return SheetCell(model, tuple(tiles), state_of(marks, model, case, position, failure, seeds=seeds))


def _output(run: Run, picture: StoredPicture) -> Tile:
    try:
        run.blobs.get(picture.sha256, picture.format)  # checked: another picture would be a wrong answer
    except RefBenchError as error:
        return Tile("output", failure=Failure(kind="unreadable_picture", detail=str(error)))
    return Tile("output", run.blobs.path(picture.sha256, picture.format))


def caption_of(board: Board, marks: Marks, chosen: Chosen, models: Sequence[str], seed: int = 0) -> str:
    """What one must know to believe the sheet."""
    seeds = max(board.result.seeds.get(model, 1) for model in models)
    of_seeds = ""
    if seeds > 1:
        position = {case.id: n for n, case in enumerate(board.cases)}
        shown = [(model, position[case.id]) for model in models if model in marks.seeds for case in chosen.cases]
        whole = all(marks.seeds[model][n] in (0, seeds) for model, n in shown)
        over = f"mean of {seeds} seeds" if whole else f"mean of the seeds that have a value, {seeds} at most"
        of_seeds = f", {over}; the pictures are of seed {seed}"
    lower = " (lower is better)" if marks.lower else ""
    return (
        f"{board.bench.title}, {counted(len(board.cases), 'case')}; shown: {chosen.rule}. "
        f"Under each picture: {marks.title} of this case alone{lower}{of_seeds}. "
        f"RefBench {__version__}; {board.result.measured_by()}; fingerprint {board.result.table.fingerprint}."
    )
