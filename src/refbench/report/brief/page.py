"""`refbench view --brief`: one A4 sheet for each board, for the person who decides, in one file without scripts."""

from __future__ import annotations

import hashlib
import unicodedata
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from refbench import __version__
from refbench.builders.audit.read import is_audit
from refbench.record import RefBenchError, counted
from refbench.report import figures
from refbench.report.brief import words
from refbench.report.brief.findings import Verdicts, traits, verdicts
from refbench.report.brief.pictures import chosen_pictures
from refbench.report.brief.view import View, open_view, parts_of, parts_with_room
from refbench.report.site.boards import Board, ReadOptions
from refbench.report.site.overview import painting_rows
from refbench.report.site.pages import Pages, Written
from refbench.report.site.pictures import PictureStore
from refbench.runs.disk import disk_error, write_whole
from refbench.tables.table import Ranked, Row

if TYPE_CHECKING:
    from jinja2 import Environment

MARK = "refbench view --brief"
"""In the head of the page, so that a later brief knows what it may replace."""
NAME = "brief.html"
_MOST_MODELS = 10
_MOST_TRAITS = 2
"""Of a model, of either kind."""
_MOST_IN_TRAITS = 6
"""Models; more where no pictures want the room."""
_DENSE = {True: 12, False: 24}
"""Lines above which a sheet is set in smaller type, with pictures and without."""
_SLICES, _CRITERIA = {True: 8, False: 16}, 5
"""Lines of `which model for what` that fit, with pictures and without."""
_ACCENT, _OTHER = "#1f50bd", "#6f7480"


def write_brief(
    runs: Sequence[Path],
    out: Path | None = None,
    *,
    data: Path | None = None,
    report: Callable[[str], None] = lambda text: None,
    **options: Unpack[ReadOptions],
) -> Written:
    """Write the sheets of the runs into `out`: a file that ends in .html, or a folder that will hold `brief.html`;
    by default into the folder one is in. `report` hears of progress."""
    path = _place(out)
    report("scoring the runs")
    with closing(PictureStore("thumbs")) as store, closing(Pages(runs, store, data=data, **options)) as pages:
        boards = [of_board.board for of_board in pages.boards.values()]
        for audit in (run.path for board in boards for run in board.runs if is_audit(run)):
            raise RefBenchError(f"{audit} is an audit of judges, and a brief is of models: refbench audit show says it")
        sheets = []
        for number, board in enumerate(boards, 1):
            report(f"sheet {number} of {len(boards)}")
            sheets.append(brief_sheet(board, store))
    style = _text("brief.css")
    known = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    titles = dict.fromkeys(board.bench.title for board in boards)
    page = environment().get_template("page.html")
    text = page.render(mark=MARK, style=style, style_hash=known, titles=titles, sheets=sheets)
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise disk_error(error, path) from error
    absent, broken = tuple(sorted(store.absent)), dict(sorted(store.broken.items()))
    return Written(path=path, absent=absent, broken=broken, boards=len(boards))


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


def _text(name: str) -> str:
    return (resources.files("refbench.report.brief") / name).read_text(encoding="utf-8")


def environment() -> Environment:
    """What the templates are filled by: every text is escaped, so that nothing a model, a judge or a file is called
    can become a part of the page."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    found = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"clipped": words.clipped, "base64": lambda data: b64encode(data).decode("ascii")}
    found.globals |= {"counted": counted, "words": words, "version": __version__}
    return found


def _printable(value: Any) -> Any:
    """Without control characters, and those that turn the direction of the text around them."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "".join(one for one in value if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Cs"))


def brief_sheet(board: Board, store: PictureStore) -> str:
    """One A4 page."""
    view = open_view(board)
    pictures = chosen_pictures(view, store)
    with_pictures = bool(pictures.scenes)
    parts = parts_of(view)
    shown = parts_with_room(parts, _SLICES[with_pictures], _CRITERIA)
    found, stands_out = verdicts(view, shown), traits(view, parts)
    room = _MOST_IN_TRAITS if with_pictures else _MOST_MODELS
    with_traits = min(room, len({trait.model for trait in stands_out.found}))
    decided = sum(not one.open for one in found.parts)
    sheet = environment().get_template("sheet.html")
    return sheet.render(
        view=view,
        pictures=pictures,
        verdicts=found,
        more_parts=len(parts) - len(shown),
        traits=stands_out,
        traits_of={row.model: stands_out.of(row.model, _MOST_TRAITS) for row in view.ranked[:room]},
        dense=len(view.rows[:_MOST_MODELS]) + decided + with_traits > _DENSE[with_pictures],
        **_leaderboard(view, found),
    )


class Line(NamedTuple):
    """A model in the table: the dot on its interval, and its cells by the titles of their columns."""

    row: Row
    best: bool
    strip: str
    cells: dict[str, str | None]


def _leaderboard(view: View, found: Verdicts) -> dict[str, Any]:
    """Numbers with intervals, coverage, refusals, seconds and price, best first."""
    places = view.order[:_MOST_MODELS]
    ends = [end for place in places for end in (place.row.value, *(place.row.ci95 or ())) if end is not None]
    axis = figures.padded(ends, 0.06)
    best = {found.overall.first, *found.overall.rivals} if found.overall else set()
    if len(best) == len(view.ranked):
        best = set()
    lines = []
    for place in places:
        row, among = place.row, place.row.model in best
        strip = figures.strip(row.value, row.ci95, axis, _ACCENT if among else _OTHER)
        lines.append(Line(row, among, strip, _cells(view, place)))
    known = {title: any(line.cells[title] is not None for line in lines) for title in lines[0].cells}
    return {
        "lines": lines,
        "scale": figures.scale(axis, max(0, view.digits - 1)),
        "columns": [title for title in known if known[title]],
        "unknown": [title for title in known if not known[title]],
        "more_models": len(view.rows) - len(places),
    }


def _cells(view: View, place: Ranked) -> dict[str, str | None]:
    row = place.row
    painted = painting_rows(view.board)[view.board.model_numbers[row.model]]
    asked = any(view.board.outputs[view.board.models[painted["model"]].run])
    rank = view.ranks.get(row.model)
    drawn = rank.rank95 if rank else None
    return {
        "95 % interval": row.ci95 and " to ".join(map(view.number, row.ci95)),
        "place": "not ranked" if place.rank is None else drawn and " to ".join(map(str, dict.fromkeys(drawn))),
        "scored": f"{row.n_scored} of {row.n_expected}",
        # How often the model declined to paint; a run of judges' replies alone does not know.
        "refusals": str(painted["refusals"]) if asked else None,
        "seconds a picture": _seconds(painted["seconds"]),
        "$ a picture": _price(painted["cost_usd"]),
    }


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else "< 0.1"


def _price(value: float | None) -> str | None:
    return None if value is None else "0" if value == 0 else f"{value:.3f}" if value >= 0.001 else "< 0.001"
