"""The sheet as markup: what the verdicts, traits and pictures look like on paper."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from refbench import __version__
from refbench.record import Record, RefBenchError
from refbench.report import figures as charts
from refbench.report.brief import words
from refbench.report.brief.findings import Trait, Traits, Verdict, Verdicts, traits, verdicts
from refbench.report.brief.markup import Markup, clipped, jpeg, name_of, tag, together
from refbench.report.brief.pictures import Gallery, Scene, Shown, gallery
from refbench.report.brief.view import View, open_view, parts_of, parts_with_room
from refbench.report.site.boards import Board
from refbench.report.site.overview import painting_rows
from refbench.report.site.pages import Pages
from refbench.report.site.pictures import Album
from refbench.runs.disk import disk_error, write_whole
from refbench.tables.table import DRAWS, SEED, Ranked

MARK = "refbench view --brief"
"""In the head of the page, so that a later brief knows what it may replace."""
_MOST_MODELS = 10
_MOST_TRAITS = 2
"""Of a model, of either kind."""
_MOST_IN_TRAITS = 6
"""Models; more where no pictures want the room."""
_DENSE = {True: 12, False: 24}
"""Lines above which a sheet is set in smaller type, with pictures and without."""
_INSTRUCTION = 170
_UNKNOWN = tag("td", "–")
_ACCENT, _OTHER = "#1f50bd", "#6f7480"


def document(titles: Sequence[str], sheets: Sequence[str]) -> str:
    """The whole page. Nothing in it can run or be loaded, whatever the texts are."""
    style = (resources.files("refbench.report.brief") / "brief.css").read_text(encoding="utf-8")
    known = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="generator", content=MARK),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"Which model? {', '.join(dict.fromkeys(titles))}"),
        tag("style", Markup(style)),
    )
    body = tag("body", *(Markup(one) for one in sheets))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def sheet(view: View, said: Verdicts, stands_out: Traits, pictures: Gallery, *, left_out: int) -> Markup:
    """One A4 page."""
    told = [one for one in said.parts if len(one.rivals) < len(one.leads)]
    room = _MOST_IN_TRAITS if pictures.scenes else _MOST_MODELS
    gifted = min(room, len({trait.model for trait in stands_out.found}))
    dense = len(view.rows[:_MOST_MODELS]) + len(told) + gifted > _DENSE[bool(pictures.scenes)]
    return tag(
        "article",
        _head(view, said),
        _leaderboard(view, said),
        _choices(view, said, left_out) if view.ranked[1:] else None,
        _traits(view, stands_out, room) if view.ranked else None,
        _pictures(view, pictures),
        _limits(view, said),
        _foot(view),
        cls="sheet dense" if dense else "sheet",
    )


def _head(view: View, said: Verdicts) -> Markup:
    board = view.board
    subset = f", {board.runs[0].info.subset}" if board.runs[0].info.subset else ""
    headline = words.headline(view, said.overall)
    facts = f"{words.counted(len(view.cases), 'case')} · {words.counted(len(view.rows), 'model')}"
    return tag(
        "header",
        tag("p", tag("b", f"{board.bench.title}{subset}"), tag("span", clipped(facts, 110)), cls="about"),
        _measured(view),
        tag("h1", clipped(headline, 150), cls="long" if len(headline) > 56 else None),
        tag("p", " ".join(words.confidence(view, said)), cls="sure"),
    )


def _measured(view: View) -> Markup:
    """Whose numbers these are: judge, wording, protocol and measure, the same as the pages begin with."""
    judge = view.board.judge_title(view.judge) or ("measured without a judge" if words.any_value(view) else "no judge")
    facts = {"judge": judge, "wording": view.board.wording, "protocol": view.protocol, "measure": view.measure}
    said = [
        tag(
            "span",
            "" if name == "wording" or (view.judge is None and name == "judge") else f"{name} ",
            tag("b", name_of(text, 60)),
            cls=name,
        )
        for name, text in facts.items()
        if text is not None
    ]
    return tag("p", *said, cls="measured")


def _leaderboard(view: View, said: Verdicts) -> Markup:
    """Numbers with intervals, coverage, refusals, seconds and price, best first."""
    places = view.order[:_MOST_MODELS]
    rows = [place.row for place in places]
    axis = charts.padded([v for row in rows for v in (row.value, *(row.ci95 or ())) if v is not None], 0.06)
    best = set() if said.overall is None else {said.overall.first, *said.overall.rivals}
    if len(best) == len(view.ranked):
        best = set()
    lines = [_line(view, place, axis, place.row.model in best) for place in places]
    known = [title for title in lines[0] if any(line[title] != _UNKNOWN for line in lines)]
    unknown = [title for title in lines[0] if title not in known]
    axis_title = tag("th", Markup(charts.scale(axis, max(0, view.digits - 1))))
    head = [axis_title if title == "strip" else tag("th", title) for title in known]
    body = [
        tag("tr", *(line[title] for title in known), cls="best" if row.model in best else None)
        for row, line in zip(rows, lines, strict=True)
    ]
    more = len(view.rows) - len(rows)
    notes = [
        "Less is better." if view.sign(view.measure) < 0 else None,
        f"{words.counted(more, 'model')} more in the full table." if more else None,
        *words.failures(view),
        f"Not known for these runs: {', '.join(unknown)}." if unknown else None,
    ]
    return tag(
        "section",
        tag("h2", "How they score"),
        tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), cls="scores"),
        tag("p", " ".join(note for note in notes if note), cls="note"),
    )


def _line(view: View, place: Ranked, axis: tuple[float, float], best: bool) -> dict[str, Markup]:
    """The cells of a model by the titles of their columns."""
    row = place.row
    painted = next(one for one in painting_rows(view.board) if view.board.models[one["model"]].name == row.model)
    asked = any(view.board.outputs[view.board.models[painted["model"]].run])
    rank = view.ranks.get(row.model)
    return {
        "model": tag("th", name_of(row.model, 30), scope="row"),
        "strip": tag("td", Markup(charts.strip(row.value, row.ci95, axis, _ACCENT if best else _OTHER)), cls="strip"),
        view.measure: tag("td", tag("b", "–" if row.value is None else words.number(view, row.value))),
        "95 % interval": _cell(None if row.ci95 is None else " to ".join(words.number(view, e) for e in row.ci95)),
        "place": tag("td", "not ranked")
        if place.rank is None
        else _cell(_range(rank.rank95) if rank and rank.rank95 else None),
        "scored": tag(
            "td", f"{row.n_scored} of {row.n_expected}", cls="less" if row.n_scored < row.n_expected else None
        ),
        # How often the model declined to paint; a run of judges' replies alone does not know.
        "refusals": _cell(str(painted["refusals"]) if asked else None),
        "seconds a picture": _cell(_seconds(painted["seconds"])),
        "$ a picture": _cell(_price(painted["cost_usd"])),
    }


def _cell(text: str | None) -> Markup:
    return _UNKNOWN if text is None else tag("td", text)


def _range(place: tuple[int, int]) -> str:
    return str(place[0]) if place[0] == place[1] else f"{place[0]} to {place[1]}"


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else "< 0.1"


def _price(value: float | None) -> str | None:
    return None if value is None else "0" if value == 0 else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _choices(view: View, said: Verdicts, left_out: int) -> Markup:
    """A line for each part in which somebody stands out; the others are named together."""
    open_ones = [one for one in said.parts if len(one.rivals) == len(one.leads)]
    lines = [
        tag("tr", *_choice(view, verdict), cls="clear" if verdict.settled else None)
        for verdict in said.parts
        if verdict not in open_ones
    ]
    titles = ("for", "best score", "cannot be told from it", "lead over the next (what fits)")
    head = tag("tr", *(tag("th", title) for title in titles))
    table = tag("table", tag("thead", head), tag("tbody", *lines), cls="choices") if lines else None
    nobody = None
    if open_ones and view.ranked[1:]:
        names = ", ".join(clipped(words.title_of(one.part), 36) for one in open_ones)
        nobody = tag("p", tag("b", "No model stands out for: "), names, ".")
    note = "The cases have no parts to tell apart." if not said.parts else None
    if said.n_of_parts:
        note = (
            "In 19 of 20 such lists the truly best model of every line is its first, or one that cannot be told from "
            f"it ({words.counted(said.n_of_parts, 'comparison')}, corrected together). In brackets the leads that fit "
            "the data of that pair alone."
        )
        note += f" {words.counted(left_out, 'part')} more in the full table." if left_out else ""
    return tag(
        "section", tag("h2", "Which model for what"), table, nobody, tag("p", note, cls="note") if note else None
    )


def _choice(view: View, verdict: Verdict) -> list[Markup]:
    part = verdict.part
    size = "" if part.kind == "criterion" else f" {words.counted(part.n_cases, 'case')}"
    what = together(name_of(words.title_of(part), 25), tag("small", size))
    return [
        tag("th", what, scope="row"),
        tag("td", name_of(verdict.first, 24)),
        tag("td", words.rivals_of(verdict)),
        tag("td", words.lead_of(view, verdict)),
    ]


def _traits(view: View, stands_out: Traits, most: int) -> Markup:
    """A line for each model at which something stands out; the even ones are named together."""
    if not stands_out.looked_at:
        nothing = tag("p", "There is too little to say what a model is better or worse at.", cls="note")
        return tag("section", tag("h2", "Strengths and weaknesses"), nothing)
    lines, even = [], []
    for row in view.ranked[:most]:
        mine = stands_out.of(row.model)
        up = [_trait(view, trait, "up") for trait in mine if trait.distance > 0][:_MOST_TRAITS]
        down = [_trait(view, trait, "down") for trait in mine if trait.distance < 0][:_MOST_TRAITS]
        if mine:
            lines.append(tag("div", tag("dt", name_of(row.model, 30)), tag("dd", *up, *down)))
        else:
            even.append(clipped(row.model, 30))
    listed = tag("dl", *lines, cls="traits") if lines else None
    said = tag("p", tag("b", "Even, as far as these cases can tell: "), ", ".join(even), ".") if even else None
    named = "its score is above (▲) or below (▼) what it is over all cases"
    if not stands_out.alone:
        named = "it is above (▲) or below (▼) the mean of the other models, by so much, and further than over all cases"
    note = (
        f"Where {named}, beyond noise, with all {stands_out.looked_at} figures that were looked at corrected together."
    )
    if len(view.ranked) > most:
        note += f" Shown for the first {most} models."
    return tag("section", tag("h2", "Strengths and weaknesses"), listed, said, tag("p", note, cls="note"))


def _trait(view: View, trait: Trait, way: str) -> Markup:
    mark = "▲" if way == "up" else "▼"
    title = clipped(words.title_of(trait.part), 44)
    return tag("span", f"{mark} {title} {words.signed(view, trait.distance)}", cls=way)


def _pictures(view: View, pictures: Gallery) -> Markup:
    if not pictures.scenes:
        return tag("section", tag("h2", "Pictures"), tag("p", pictures.rule, cls="note"), cls="pictures none")
    scenes = [_scene(view, scene) for scene in pictures.scenes]
    return tag(
        "section",
        tag("h2", "Pictures"),
        tag("p", clipped(pictures.rule, 380), cls="note"),
        tag("div", *scenes, cls="scenes alone" if len(pictures.scenes) > 3 else "scenes"),
        cls="pictures",
    )


def _scene(view: View, scene: Scene) -> Markup:
    asked = scene.case.request.instruction
    references = [
        tag("p", f"reference {number} is not at hand, or is not the one that was used", cls="soft")
        if data is None
        else tag("img", src=jpeg(data), alt=f"reference {number}")
        for number, data in enumerate(scene.references, 1)
    ]
    return tag(
        "figure",
        tag("p", tag("b", clipped(scene.why, 48)), " · ", name_of(scene.case.id, 24), cls="why"),
        tag("p", clipped(asked, _INSTRUCTION) if asked else "no instruction", cls="asked"),
        tag("div", *references, cls="references") if references else None,
        tag("div", *(_shown(view, scene, one) for one in scene.shown), cls="outputs"),
    )


def _shown(view: View, scene: Scene, shown: Shown) -> Markup:
    if shown.jpeg is None:
        picture = tag("p", "the picture cannot be opened", cls="soft")
    else:
        picture = tag("img", src=jpeg(shown.jpeg), alt=f"{shown.model} on {scene.case.id}")
    return tag("div", tag("p", tag("b", words.number(view, shown.value)), " ", name_of(shown.model, 22)), picture)


def _limits(view: View, said: Verdicts) -> Markup:
    lines = [tag("li", clipped(line, 240)) for line in words.limits(view, said)[:8]]
    return tag("section", tag("h2", "How to read this, and what it does not say"), tag("ul", *lines), cls="limits")


def _foot(view: View) -> Markup:
    table = view.board.result.table
    runs = clipped(", ".join(view.board.run_names), 60)
    chance = "" if not view.draws else f" · intervals from {view.draws} redraws of the cases (seed {view.seed})"
    said = f"Runs {runs}{chance}"
    return tag(
        "footer",
        tag("p", clipped(said, 200)),
        tag("p", f"RefBench {__version__} · fingerprint ", tag("code", table.fingerprint)),
    )


# `refbench view --brief`: one A4 sheet for each board, for the person who decides, in one file without scripts.

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
