"""`refbench view --brief`: one A4 sheet for each board, for the person who decides, in one file without scripts."""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import closing
from html import escape
from importlib import resources
from pathlib import Path
from typing import Unpack

from refbench import __version__
from refbench.record import RefBenchError, counted
from refbench.report import figures
from refbench.report.brief import words
from refbench.report.brief.findings import Trait, Traits, Verdict, Verdicts, traits, verdicts
from refbench.report.brief.pictures import Pictures, Scene, Shown, chosen_pictures
from refbench.report.brief.view import View, open_view, parts_of, parts_with_room
from refbench.report.brief.words import clipped
from refbench.report.site.boards import Board, ReadOptions
from refbench.report.site.overview import painting_rows
from refbench.report.site.pages import Pages, Written
from refbench.report.site.pictures import PictureStore
from refbench.runs.disk import disk_error, write_whole
from refbench.tables.table import Ranked

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
_INSTRUCTION = 170
_SLICES, _CRITERIA = {True: 8, False: 16}, 5
"""Lines of `which model for what` that fit, with pictures and without."""
_ACCENT, _OTHER = "#1f50bd", "#6f7480"
_VOID = frozenset({"img", "meta"})


class Markup(str):
    """Text that is markup, and is not escaped again."""

    __slots__ = ()


def tag(name: str, /, *inside: str | None, **attributes: str | int | None) -> Markup:
    """An element. Every text in it is escaped unless it is markup already, so that nothing a model, a judge or a file
    is called can become a part of the page. `cls` is its class; an attribute of None is left out, and so is what is
    None inside."""
    given = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{_escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(one if isinstance(one, Markup) else _escaped(one) for one in inside if one is not None)
    return Markup(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{content}</{name}>")


def _escaped(text: str) -> str:
    """Without control characters, and those that turn the direction of the text around them."""
    return escape("".join(one for one in text if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Cs")))


def name_of(text: str, most: int = 40) -> Markup:
    """A name that others have given: of bounded length, in a direction of its own."""
    return tag("bdi", clipped(text, most), title=text if len(text) > most else None)


def _picture(data: bytes | None, alt: str, missing: str) -> Markup:
    if data is None:
        return tag("p", missing, cls="soft")
    return tag("img", src="data:image/jpeg;base64," + base64.b64encode(data).decode("ascii"), alt=alt)


def _section(title: str, *inside: Markup | None, note: str | None = None, cls: str | None = None) -> Markup:
    return tag("section", tag("h2", title), *inside, tag("p", note, cls="note") if note is not None else None, cls=cls)


_UNKNOWN = tag("td", "–")


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
        sheets = []
        for number, board in enumerate(boards, 1):
            report(f"sheet {number} of {len(boards)}")
            sheets.append(brief_sheet(board, store))
    try:
        write_whole(path, _document([board.bench.title for board in boards], sheets).encode())
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


def _document(titles: Sequence[str], sheets: Sequence[Markup]) -> str:
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
    return f"<!doctype html>\n{tag('html', head, tag('body', *sheets), lang='en')}\n"


def brief_sheet(board: Board, store: PictureStore) -> Markup:
    """One A4 page."""
    view = open_view(board)
    pictures = chosen_pictures(view, store)
    with_pictures = bool(pictures.scenes)
    parts = parts_of(view)
    shown = parts_with_room(parts, _SLICES[with_pictures], _CRITERIA)
    verdict, stands_out = verdicts(view, shown), traits(view, parts)
    room = _MOST_IN_TRAITS if with_pictures else _MOST_MODELS
    decided = sum(len(one.rivals) < len(one.leads) for one in verdict.parts)
    with_traits = min(room, len({trait.model for trait in stands_out.found}))
    dense = len(view.rows[:_MOST_MODELS]) + decided + with_traits > _DENSE[with_pictures]
    return tag(
        "article",
        _head(view, verdict),
        _leaderboard(view, verdict),
        _choices(view, verdict, len(parts) - len(shown)) if view.ranked[1:] else None,
        _traits(view, stands_out, room) if view.ranked else None,
        _pictures(view, pictures),
        _limits(view, verdict),
        _foot(view),
        cls="sheet dense" if dense else "sheet",
    )


def _head(view: View, verdict: Verdicts) -> Markup:
    """The answer, how sure one may be of it, and whose numbers these are: judge, wording, protocol and measure, the
    same as the pages begin with."""
    board = view.board
    subset = f", {board.runs[0].info.subset}" if board.runs[0].info.subset else ""
    headline = words.headline(view, verdict.overall)
    counts = f"{counted(len(view.cases), 'case')} · {counted(len(view.rows), 'model')}"
    judge = board.judge_title(view.judge) or ("measured without a judge" if words.any_value(view) else "no judge")
    facts = {
        "judge": ("" if view.judge is None else "judge ", judge),
        "wording": ("", board.wording),
        "protocol": ("protocol ", view.protocol),
        "measure": ("measure ", view.measure),
    }
    measured = [
        tag("span", before, tag("b", name_of(text, 60)), cls=name) for name, (before, text) in facts.items() if text
    ]
    return tag(
        "header",
        tag("p", tag("b", f"{board.bench.title}{subset}"), tag("span", clipped(counts, 110)), cls="about"),
        tag("p", *measured, cls="measured"),
        tag("h1", clipped(headline, 150), cls="long" if len(headline) > 56 else None),
        tag("p", " ".join(words.confidence(view, verdict)), cls="sure"),
    )


def _leaderboard(view: View, verdict: Verdicts) -> Markup:
    """Numbers with intervals, coverage, refusals, seconds and price, best first."""
    places = view.order[:_MOST_MODELS]
    ends = [end for place in places for end in (place.row.value, *(place.row.ci95 or ())) if end is not None]
    axis = figures.padded(ends, 0.06)
    best = {verdict.overall.first, *verdict.overall.rivals} if verdict.overall else set()
    if len(best) == len(view.ranked):
        best = set()
    lines = [_line(view, place, axis, place.row.model in best) for place in places]
    known = [title for title in lines[0] if any(line[title] != _UNKNOWN for line in lines)]
    unknown = [title for title in lines[0] if title not in known]
    axis_title = tag("th", Markup(figures.scale(axis, max(0, view.digits - 1))))
    head = [axis_title if title == "strip" else tag("th", title) for title in known]
    body = [
        tag("tr", *(line[title] for title in known), cls="best" if place.row.model in best else None)
        for place, line in zip(places, lines, strict=True)
    ]
    more = len(view.rows) - len(places)
    notes = [
        "Less is better." if view.sign(view.measure) < 0 else None,
        f"{counted(more, 'model')} more in the full table." if more else None,
        *words.failures(view),
        f"Not known for these runs: {', '.join(unknown)}." if unknown else None,
    ]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), cls="scores")
    return _section("How they score", table, note=" ".join(filter(None, notes)))


def _line(view: View, place: Ranked, axis: tuple[float, float], best: bool) -> dict[str, Markup]:
    """The cells of a model by the titles of their columns."""
    row = place.row
    painted = painting_rows(view.board)[view.board.model_numbers[row.model]]
    asked = any(view.board.outputs[view.board.models[painted["model"]].run])
    rank = view.ranks.get(row.model)
    drawn = rank.rank95 if rank else None
    interval = None if row.ci95 is None else " to ".join(words.number(view, end) for end in row.ci95)
    scored = f"{row.n_scored} of {row.n_expected}"
    strip = Markup(figures.strip(row.value, row.ci95, axis, _ACCENT if best else _OTHER))
    return {
        "model": tag("th", name_of(row.model, 30), scope="row"),
        "strip": tag("td", strip, cls="strip"),
        view.measure: tag("td", tag("b", "–" if row.value is None else words.number(view, row.value))),
        "95 % interval": _cell(interval),
        "place": _cell("not ranked" if place.rank is None else drawn and " to ".join(map(str, dict.fromkeys(drawn)))),
        "scored": tag("td", scored, cls="less" if row.n_scored < row.n_expected else None),
        # How often the model declined to paint; a run of judges' replies alone does not know.
        "refusals": _cell(str(painted["refusals"]) if asked else None),
        "seconds a picture": _cell(_seconds(painted["seconds"])),
        "$ a picture": _cell(_price(painted["cost_usd"])),
    }


def _cell(text: str | None) -> Markup:
    return _UNKNOWN if text is None else tag("td", text)


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else "< 0.1"


def _price(value: float | None) -> str | None:
    return None if value is None else "0" if value == 0 else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _choices(view: View, verdict: Verdicts, left_out: int) -> Markup:
    """A line for each part in which somebody stands out; the others are named together."""
    lines, open_parts = [], []
    for one in verdict.parts:
        if len(one.rivals) == len(one.leads):
            open_parts.append(clipped(words.title_of(one.part), 36))
        else:
            lines.append(tag("tr", *_choice(view, one), cls="clear" if one.settled else None))
    titles = ("for", "best score", "cannot be told from it", "lead over the next (what fits)")
    head = tag("thead", tag("tr", *(tag("th", title) for title in titles)))
    table = tag("table", head, tag("tbody", *lines), cls="choices") if lines else None
    nobody = tag("p", tag("b", "No model stands out for: "), ", ".join(open_parts), ".") if open_parts else None
    note = "The cases have no parts to tell apart." if not verdict.parts else None
    if verdict.n_of_parts:
        note = (
            "In 19 of 20 such lists the truly best model of every line is its first, or one that cannot be told from "
            f"it ({counted(verdict.n_of_parts, 'comparison')}, corrected together). In brackets the leads that fit the "
            "data of that pair alone."
        )
        note += f" {counted(left_out, 'part')} more in the full table." if left_out else ""
    return _section("Which model for what", table, nobody, note=note)


def _choice(view: View, verdict: Verdict) -> list[Markup]:
    part = verdict.part
    size = "" if part.kind == "criterion" else f" {counted(part.n_cases, 'case')}"
    return [
        tag("th", name_of(words.title_of(part), 25), tag("small", size), scope="row"),
        tag("td", name_of(verdict.first, 24)),
        tag("td", words.rivals_of(verdict)),
        tag("td", words.lead_of(view, verdict)),
    ]


def _traits(view: View, stands_out: Traits, most: int) -> Markup:
    """A line for each model at which something stands out; the even ones are named together."""
    title = "Strengths and weaknesses"
    if not stands_out.looked_at:
        return _section(title, note="There is too little to say what a model is better or worse at.")
    lines, even = [], []
    for row in view.ranked[:most]:
        mine = stands_out.of(row.model)
        up = [_trait(view, trait, "▲", "up") for trait in mine if trait.distance > 0][:_MOST_TRAITS]
        down = [_trait(view, trait, "▼", "down") for trait in mine if trait.distance < 0][:_MOST_TRAITS]
        if mine:
            lines.append(tag("div", tag("dt", name_of(row.model, 30)), tag("dd", *up, *down)))
        else:
            even.append(clipped(row.model, 30))
    listed = tag("dl", *lines, cls="traits") if lines else None
    others = tag("p", tag("b", "Even, as far as these cases can tell: "), ", ".join(even), ".") if even else None
    named = "its score is above (▲) or below (▼) what it is over all cases"
    if not stands_out.alone:
        named = "it is above (▲) or below (▼) the mean of the other models, by so much, and further than over all cases"
    note = (
        f"Where {named}, beyond noise, with all {stands_out.looked_at} figures that were looked at corrected together."
    )
    note += f" Shown for the first {most} models." if len(view.ranked) > most else ""
    return _section(title, listed, others, note=note)


def _trait(view: View, trait: Trait, mark: str, way: str) -> Markup:
    title = clipped(words.title_of(trait.part), 44)
    return tag("span", f"{mark} {title} {words.signed(view, trait.distance)}", cls=way)


def _pictures(view: View, pictures: Pictures) -> Markup:
    if not pictures.scenes:
        return _section("Pictures", note=pictures.rule, cls="pictures none")
    scenes = [_scene(view, scene) for scene in pictures.scenes]
    return tag(
        "section",
        tag("h2", "Pictures"),
        tag("p", clipped(pictures.rule, 380), cls="note"),
        tag("div", *scenes, cls="scenes alone" if len(scenes) > 3 else "scenes"),
        cls="pictures",
    )


def _scene(view: View, scene: Scene) -> Markup:
    asked = scene.case.request.instruction
    references = [
        _picture(data, f"reference {n}", f"reference {n} is not at hand, or is not the one that was used")
        for n, data in enumerate(scene.references, 1)
    ]
    return tag(
        "figure",
        tag("p", tag("b", clipped(scene.why, 48)), " · ", name_of(scene.case.id, 24), cls="why"),
        tag("p", clipped(asked, _INSTRUCTION) if asked else "no instruction", cls="asked"),
        tag("div", *references, cls="references") if references else None,
        tag("div", *(_shown(view, scene, one) for one in scene.shown), cls="outputs"),
    )


def _shown(view: View, scene: Scene, shown: Shown) -> Markup:
    caption = tag("p", tag("b", words.number(view, shown.value)), " ", name_of(shown.model, 22))
    return tag(
        "div", caption, _picture(shown.jpeg, f"{shown.model} on {scene.case.id}", "the picture cannot be opened")
    )


def _limits(view: View, verdict: Verdicts) -> Markup:
    lines = [tag("li", clipped(line, 240)) for line in words.limits(view, verdict)[:8]]
    return _section("How to read this, and what it does not say", tag("ul", *lines), cls="limits")


def _foot(view: View) -> Markup:
    board = view.board
    runs = f"Runs {clipped(', '.join(board.run_names), 60)}"
    drawn = f" · intervals from {board.draws} redraws of the cases (seed {board.seed})" if board.draws else ""
    stamp = tag("p", f"RefBench {__version__} · fingerprint ", tag("code", board.result.table.fingerprint))
    return tag("footer", tag("p", clipped(f"{runs}{drawn}", 200)), stamp)
