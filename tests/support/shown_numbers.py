"""Reads back every number that a written site's data and a brief show, as text, to hold it against the table."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from refbench.judges.panel import MEAN

Key = tuple[str, str | None, str, str, tuple[tuple[str, str], ...]]
"""Model, judge, protocol, metric and slice (its items, sorted)."""


class Shown(NamedTuple):
    """One number as it is printed, with what stands beside it; None where nothing (or a dash) is printed."""

    text: str | None
    interval: tuple[str, str] | None
    scored: str
    expected: str
    not_asked: str | None = None
    bounds: tuple[str, str] | None = None
    failures: tuple[tuple[str, str], ...] = ()
    rank: str | None = None
    """None for what is not ranked; a brief shows the ranks held in 95 % of resamples (`1 to 2`)."""


def site_numbers(folder: Path, board: int = 0) -> dict[Key, Shown]:
    """The numbers of a board of a written site, with all the digits that its data files have. A site prints them with
    `digits` of the measure's head."""
    head = site_chunk(folder, "site")["boards"][board]
    rows = list(site_chunk(folder, f"{head['id']}/board")["rows"])
    if head["rows_apart"]:
        rows += site_chunk(folder, f"{head['id']}/rows")["rows"]
    found: dict[Key, Shown] = {}
    for row in rows:
        model, judge = head["models"][int(row["model"])]["name"], head["judges"][int(row["judge"])]
        key = (model, judge, row["protocol"], row["metric"], tuple(sorted(row["slice"].items())))
        assert key not in found, f"{key} is shown twice"
        found[key] = Shown(
            text=row["value"],
            interval=row["ci95"] and (row["ci95"][0], row["ci95"][1]),
            scored=row["n_scored"],
            expected=row["n_expected"],
            not_asked=row["n_not_asked"],
            bounds=row["bounds"] and (row["bounds"][0], row["bounds"][1]),
            failures=tuple(sorted(row["failures"].items())),
            rank=row["rank"],
        )
    return found


def site_chunk(folder: Path, name: str, *, as_text: bool = True) -> Any:
    """A chunk of data, with its numbers as the text that they have in the file unless told otherwise."""
    text = (folder / "data" / f"{name}.js").read_text(encoding="utf-8").rstrip()
    way, _, inside = text.partition("(")
    assert way in ("refbench.put", "refbench.unpack") and text.endswith(");"), f"{name} is no chunk"
    how: dict[str, Any] = {"parse_float": str, "parse_int": str} if as_text else {}
    value = json.loads("[" + inside.removesuffix(");") + "]", **how)[1]
    return value if way == "refbench.put" else json.loads(gzip.decompress(base64.b64decode(value)), **how)


def brief_numbers(page: Path, sheet: int = 0) -> dict[Key, Shown]:
    """The numbers of the table of models on a sheet of a brief: the ten best, in the digits of the sheet."""
    article = _sheets(page)[sheet]
    said = {name: _whole(_one(article, "span", name)) for name in ("judge", "protocol", "measure")}
    judge: str | None = said["judge"]
    judge = (
        None
        if judge in ("measured without a judge", "no judge")
        else MEAN
        if said["judge"].startswith("mean of ")
        else judge
    )
    table = _one(article, "table", "scores")
    titles = ["strip" if cell.find("*") is not None else _text(cell) for cell in table.findall("thead/tr/th")]
    found: dict[Key, Shown] = {}
    for row in table.findall("tbody/tr"):
        cells = dict(zip(titles, list(row), strict=True))
        texts = {title: None if _text(cell) == "–" else _text(cell) for title, cell in cells.items()}
        model = _whole(cells["model"])
        interval = texts.get("95 % interval")
        scored, _, expected = (texts["scored"] or "").partition(" of ")
        place = texts.get("place")
        key = (model, judge, said["protocol"], said["measure"], (("level", "overall"),))
        assert key not in found, f"{key} is shown twice"
        found[key] = Shown(
            text=texts[said["measure"]],
            interval=None if interval is None else (interval.split(" to ")[0], interval.split(" to ")[1]),
            scored=scored,
            expected=expected,
            rank=None if place == "not ranked" else place,
        )
    return found


def brief_texts(page: Path, sheet: int = 0) -> list[str]:
    """Every heading, sentence and note of a sheet, in its order."""
    wanted = ("h1", "h2", "p", "li", "dd")
    return [_text(element) for element in _sheets(page)[sheet].iter() if element.tag in wanted]


def _sheets(page: Path) -> list[ElementTree.Element]:
    text = page.read_text(encoding="utf-8").removeprefix("<!doctype html>\n")
    return list(ElementTree.fromstring(re.sub(r"<((?:img|meta|br)\b[^>]*)>", r"<\1/>", text)).iter("article"))


def _one(inside: ElementTree.Element, name: str, cls: str) -> ElementTree.Element:
    (found,) = (element for element in inside.iter(name) if element.get("class") == cls)
    return found


def _text(element: ElementTree.Element) -> str:
    return " ".join("".join(_pieces(element)).split())


def _pieces(element: ElementTree.Element) -> Iterator[str]:
    if element.tag.endswith("svg"):
        return
    yield element.text or ""
    for child in element:
        yield from _pieces(child)
        yield child.tail or ""


def _whole(element: ElementTree.Element) -> str:
    """A name in an element; where it is clipped, the title has all of it."""
    bdi = next(element.iter("bdi"))
    return bdi.get("title") or _text(bdi)
