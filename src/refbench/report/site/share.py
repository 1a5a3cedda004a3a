"""What a written site has for people who have not opened it: the card that a link to it shows (1200 x 630 pixels, as
og:image), title and description in its head, and README.md with what is in the folder and under which licences.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw

from refbench import __version__
from refbench.benchmarks.kit.bibliography import arxiv_address
from refbench.record import counted
from refbench.report.figures.svg import isolated
from refbench.report.formats import to_markdown
from refbench.report.grid.text import TextStyle
from refbench.report.site.boards import Board
from refbench.report.site.contract import LookView
from refbench.score import digits_of
from refbench.tables.table import Row, ranked
from refbench.text.console import as_markdown

CARD = "card.png"
_WIDTH, _HEIGHT, _EDGE, _GAP = 1200, 630, 56, 16
_INK, _SOFT, _PAPER, _BAND, _ACCENT = "#1b1c1f", "#585b63", "#fafaf8", "#ffffff", "#1f50bd"
_TILE = 236
_MOST_LEADERS = 5
_ROOMY, _STRIP = 400, (600.0, 980.0)
"""Where ranks begin further left than this there is room for their intervals, between these places."""


class Told(NamedTuple):
    """What is said of a board in a few lines."""

    title: str
    head: str
    """Who leads, with the number."""
    doubt: str
    """How sure that is."""
    about: str
    fingerprint: str


def told(board: Board) -> Told:
    """Who leads under the protocol and judge that the pages begin with, in the digits of the tables."""
    protocol = board.protocols[0] if board.protocols else ""
    about = [counted(len(board.cases), "case"), board.models_said]
    head, doubt = "Nothing is scored yet", ""
    if protocol:
        measure, judge = board.summary[protocol], board.judge_for(protocol)
        about += [f"judge {board.judge_title(judge)}" if judge else "no judge", f"protocol {protocol}"]
        rows = [
            row
            for row in board.result.rows(protocol=protocol, metric=measure, level="overall")
            if row.judge == judge and row.value is not None
        ]
        if board.audit:
            head, doubt = "An audit of judges", "what they see, what moves their marks, and what fools them"
        elif rows:
            head, doubt = _leader(board, rows, measure.replace("_", " "))
    return Told(board.bench.title, head, doubt, " · ".join(about), board.result.table.fingerprint)


def _leader(board: Board, rows: Sequence[Row], measure: str) -> tuple[str, str]:
    digits = digits_of(row.value for row in rows if row.value is not None)
    places = [place for place in ranked(rows, board.bench.scoring.lower) if place.rank is not None]
    if not places:
        return "No model is ranked: none has enough scores", ""
    first = places[0].row
    assert first.value is not None
    ends = f"95 % interval {first.ci95[0]:.{digits}f} to {first.ci95[1]:.{digits}f}" if first.ci95 else ""
    head = f"{isolated(first.model)}: {measure} {first.value:.{digits}f}"
    tied = sum(place.rank == 1 for place in places)
    if tied > 1:
        return f"{counted(tied, 'model')} share {measure} {first.value:.{digits}f}", ""
    beaten, others = _resolved(board, first), len(places) - 1
    lead = "ahead of every other model, corrected for all pairs"
    if beaten < others:
        lead = f"the lead is not settled: it holds over {beaten} of {counted(others, 'other')}"
    return head, "; ".join(filter(None, (ends, lead if others else "")))


def _resolved(board: Board, first: Row) -> int:
    """Over how many of the others the lead holds, corrected for all pairs."""
    compared = board.compared.get((first.protocol, first.judge))
    better = -1 if first.metric in board.bench.scoring.lower else 1
    found = 0
    for pair in compared.pairs if compared else ():
        sign = 1 if pair.first == first.model else -1 if pair.second == first.model else 0
        found += pair.resolved and pair.gap is not None and better * sign * pair.gap > 0
    return found


def card(board: Board, looks: Sequence[LookView], folder: Path) -> bytes:
    """The picture, as PNG: who leads and how surely, three outputs of the leader, the fingerprint. `looks` are the
    cases that the overview begins with, whose thumbnails lie in the folder."""
    said = told(board)
    missing: dict[str, None] = {}
    large, middle, small = (TextStyle(size, missing=missing) for size in (46, 26, 20))
    sheet = Image.new("RGB", (_WIDTH, _HEIGHT), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.rectangle((0, 0, _WIDTH, 10), fill=_ACCENT)
    middle.draw(draw, (_EDGE, 40), middle.fit(said.title, _WIDTH - 2 * _EDGE - 200), _INK)
    small.draw(draw, (_WIDTH - _EDGE - small.width("RefBench"), 44), "RefBench", _SOFT)
    y = 92.0
    for line in large.wrap(said.head, _WIDTH - 2 * _EDGE, 2):
        large.draw(draw, (_EDGE, y), line, _INK)
        y += large.line
    for line in middle.wrap(said.doubt, _WIDTH - 2 * _EDGE, 1) if said.doubt else ():
        middle.draw(draw, (_EDGE, y + 4), line, _SOFT)
    tiles = [] if board.audit else _tiles(looks, folder)
    top = 288
    for n, tile in enumerate(tiles):
        left = _EDGE + n * (_TILE + _GAP)
        draw.rectangle((left - 1, top - 1, left + _TILE, top + _TILE), fill=_BAND, outline="#c9c9c3")
        sheet.paste(tile, (left + (_TILE - tile.width) // 2, top + (_TILE - tile.height) // 2))
    _ranks(board, draw, (small, middle), (_EDGE + len(tiles) * (_TILE + _GAP) + (16 if tiles else 0), top))
    small.draw(draw, (_EDGE, 562), small.fit(said.about, _WIDTH - 2 * _EDGE), _SOFT)
    small.draw(draw, (_EDGE, 590), f"fingerprint {said.fingerprint}", _SOFT)
    data = io.BytesIO()
    sheet.save(data, "PNG", optimize=True)
    return data.getvalue()


def _tiles(looks: Sequence[LookView], folder: Path) -> list[Image.Image]:
    """What the leader made of the three cases; none where a picture is missing."""
    found = []
    for look in looks[:3]:
        shown = look["models"][0]["picture"] if look["models"] else None
        if shown and shown["thumb"]:
            with Image.open(folder / shown["thumb"]) as picture:
                tile = picture.convert("RGB")
            tile.thumbnail((_TILE, _TILE), Image.Resampling.LANCZOS)
            found.append(tile)
    return found


def _ranks(board: Board, draw: ImageDraw.ImageDraw, styles: tuple[TextStyle, TextStyle], at: tuple[int, int]) -> None:
    """The first of the board with their numbers, beside the pictures."""
    if not board.protocols or board.audit:
        return
    small, middle = styles
    protocol = board.protocols[0]
    rows = board.result.rows(protocol=protocol, metric=board.summary[protocol], level="overall")
    there = [row for row in rows if row.judge == board.judge_for(protocol) and row.value is not None]
    digits = digits_of(row.value for row in there if row.value is not None)
    places = [place for place in ranked(there, board.bench.scoring.lower) if place.rank is not None]
    right = _WIDTH - _EDGE
    shown = [place.row for place in places[:_MOST_LEADERS]]
    ends = [end for row in shown for end in (row.value, *(row.ci95 or ())) if end is not None]
    for n, place in enumerate(places[:_MOST_LEADERS]):
        y = at[1] + n * 44
        if at[0] < _ROOMY:
            _interval(draw, place.row, (min(ends), max(ends)), y + 18)
        number = f"{place.row.value:.{digits}f}"
        small.draw(draw, (at[0], y + 4), str(place.rank), _SOFT)
        room = _STRIP[0] - at[0] - 60 if at[0] < _ROOMY else right - at[0] - 56 - middle.width(number)
        name = small.fit(place.row.model, room)
        small.draw(draw, (at[0] + 36, y + 4), name, _INK)
        middle.draw(draw, (right - middle.width(number), y), number, _INK)
    if len(places) > _MOST_LEADERS:
        more = f"and {len(places) - _MOST_LEADERS} more"
        small.draw(draw, (at[0] + 36, at[1] + _MOST_LEADERS * 44), more, _SOFT)


def _interval(draw: ImageDraw.ImageDraw, row: Row, ends: tuple[float, float], y: float) -> None:
    """A number on its 95 % interval, between name and number, where there is room."""
    (left, right), span = _STRIP, (ends[1] - ends[0]) or 1.0

    def x(value: float) -> float:
        return left + (value - ends[0]) / span * (right - left)

    if row.ci95 is not None:
        draw.line((x(row.ci95[0]), y, x(row.ci95[1]), y), fill=_ACCENT, width=4)
    if row.value is not None:
        draw.ellipse((x(row.value) - 8, y - 8, x(row.value) + 8, y + 8), fill=_ACCENT)


def with_head(index: bytes, boards: Sequence[Board], url: str) -> bytes:
    """The page with title and description for who is sent a link. `url` is where the folder will lie: previews want
    whole addresses."""
    first = told(boards[0])
    title = f"{first.title}, evaluated with RefBench"
    description = f"{first.head}{'; ' + first.doubt if first.doubt else ''}. {first.about}."
    base = url.rstrip("/") + "/" if url else ""
    tags = {
        "og:type": "website",
        "og:title": title,
        "og:description": description,
        "og:image": base + CARD,
        "og:image:width": str(_WIDTH),
        "og:image:height": str(_HEIGHT),
        "og:image:alt": description,
        **({"og:url": base} if base else {}),
    }
    lines = [f'<meta property="{name}" content="{escape(value)}">' for name, value in tags.items()]
    lines.append('<meta name="twitter:card" content="summary_large_image">')
    lines.append(f'<meta name="description" content="{escape(description)}">')
    lines.append(f"<title>{escape(title)}</title>")
    return index.replace(b"<title>RefBench</title>", "\n    ".join(lines).encode("utf-8", "replace"))


def readme(boards: Sequence[Board], absent: int) -> str:
    """README.md of the folder."""
    parts = [_page_of(board) for board in boards]
    missing = f"\n{counted(absent, 'picture')} of the cases were not at hand and are not in it." if absent else ""
    return f"""# {as_markdown(", ".join(board.bench.title for board in boards))}, evaluated with RefBench

Open `index.html`: nothing needs to be installed, and nothing is fetched from elsewhere. The folder can be put on any
web space as it is; `card.png` is what a link to it shows.

{chr(10).join(parts)}
## Licences

Pages, scripts and style sheets: RefBench {__version__}, Apache-2.0. Everything else is others': before the folder is
passed on, see that each part may be.

{chr(10).join(_licences(board) for board in boards)}{missing}
"""


def _page_of(board: Board) -> str:
    address = arxiv_address(board.bench.paper)
    paper = f" Paper: <{address}>." if address else ""
    return f"""## {as_markdown(board.bench.title)}

{counted(len(board.cases), "case")}; {as_markdown(board.result.measured_by())}. Fingerprint
`{board.result.table.fingerprint}`.{paper}

{"An audit of judges: its models are clean and changed outputs." if board.audit else to_markdown(board.result)}
"""


def _licences(board: Board) -> str:
    title = as_markdown(board.bench.title)
    source = next((source for source in board.bench.data.sources if not source.name), None)
    if source is None:
        whose = "those of whoever wrote the cases; ask them"
    else:
        stated = source.licence if source.licence != "unknown" else "a licence that they do not state with the data"
        whose = f"their authors', under {as_markdown(stated)}; from {source.dataset} on the Hub"
    made = ", ".join(as_markdown(model.name) for model in board.models)
    made = "the models whose outputs the audit changed" if board.audit else made
    return f"""- Pictures and instructions of the cases of {title}: {whose}. Single pictures may have others' terms.
- Pictures made by {made}: as the terms of these models say.
- Words of the judges: as the terms of their providers say."""
