"""Rows of a spreadsheet (.xlsx) as texts: what releases keep their results in. Formulas are not computed."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from refbench.record import RefBenchError

_MOST = 256 << 20
"""Bytes of a part of the file, unpacked."""
_SHEET = re.compile(r"xl/worksheets/sheet\d+\.xml")
_SPACE = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheet_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of the first sheet under the names of its first row; empty cells are left out."""
    try:
        with zipfile.ZipFile(path) as book:
            names = sorted((n for n in book.namelist() if _SHEET.fullmatch(n)), key=lambda n: (len(n), n))
            if not names:
                raise RefBenchError(f"{path} has no sheet: save it again as .xlsx")
            shared = []
            if "xl/sharedStrings.xml" in book.namelist():
                shared = [_text(one) for one in _part(book, "xl/sharedStrings.xml").iter(f"{_SPACE}si")]
            cells = [
                {column: text for cell in row.iter(f"{_SPACE}c") for column, text in [_cell(cell, shared)] if text}
                for row in _part(book, names[0]).iter(f"{_SPACE}row")
            ]
    except (OSError, zipfile.BadZipFile, ElementTree.ParseError, ValueError, IndexError, RuntimeError) as error:
        raise RefBenchError(f"{path} cannot be read as a spreadsheet ({error}): save it again as .xlsx") from error
    titles = cells[0] if cells else {}
    for row in cells[1:]:
        yield {titles[column]: text for column, text in row.items() if column in titles}


def _part(book: zipfile.ZipFile, name: str) -> ElementTree.Element:
    if book.getinfo(name).file_size > _MOST:
        raise ValueError(f"{name} is larger than {_MOST:,} bytes")
    with book.open(name) as file:
        data = file.read(_MOST + 1)
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ValueError(f"{name} declares entities, which no spreadsheet does")
    return ElementTree.fromstring(data)


def _cell(cell: ElementTree.Element, shared: list[str]) -> tuple[str, str]:
    column = (cell.get("r") or "").rstrip("0123456789")
    if cell.get("t") == "inlineStr":
        return column, _text(cell)
    value = cell.findtext(f"{_SPACE}v") or ""
    return column, shared[int(value)] if cell.get("t") == "s" and value else value


_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def _text(element: ElementTree.Element) -> str:
    """All runs of a text, without phonetic ones; `_x000D_` is how a spreadsheet writes a carriage return."""
    runs = [one for one in element if one.tag in (f"{_SPACE}t", f"{_SPACE}r", f"{_SPACE}is")]
    found = "".join(
        t.text or "" for run in runs for t in ([run] if run.tag == f"{_SPACE}t" else run.iter(f"{_SPACE}t"))
    )
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), found)
