"""Under which licence each picture is, and whether it may be published with that."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refbench.record import Record, RefBenchError
from refbench.text.files import csv_table, file_text, json_lines

UNKNOWN = "unknown"
_ALLOWED = re.compile(
    r"cc0(10)?|ccby(sa|nc|ncsa|nd|ncnd)?[1-4]?[05]?[a-z]{0,3}|publicdomain(mark10)?|pdm|pddl(10)?|odcby(10)?|odbl(10)?"
    r"|mit|apache20|bsd[23]clause|unlicense|cdla(permissive|sharing)[12]0"
)
"""Licences under which a picture may be passed on unchanged, by letters and digits alone."""


class Licence(Record):
    """What is known of a picture's licence, and whose it is."""

    licence: str = UNKNOWN
    author: str = ""
    source: str = ""


class Licences:
    """The licences of a case's pictures, by name: exact names before patterns, earlier lines before later ones."""

    def __init__(self, stated: Mapping[str, Licence], otherwise: Licence, allow: Sequence[str] = ()) -> None:
        self._stated = stated
        self._otherwise = otherwise
        self._allow = {_bare(name) for name in allow}

    def of(self, name: str) -> Licence:
        exact = self._stated.get(name)
        if exact is not None:
            return exact
        fits = (licence for pattern, licence in self._stated.items() if fnmatch.fnmatchcase(name, pattern))
        return next(fits, self._otherwise)

    def why_not(self, licence: Licence) -> str:
        """Why a picture is left out; "" where it may be published."""
        name = _bare(licence.licence)
        if name in self._allow or _ALLOWED.fullmatch(name):
            return ""
        if name == UNKNOWN:
            return "its licence is not known"
        return f"its licence ({licence.licence}) is not known to allow it"


def read_licences(path: Path) -> dict[str, Licence]:
    """A .csv or .jsonl file with picture (a name as cases have it, or a pattern), licence, author and source."""
    rows: Iterator[tuple[int, Any]]
    if path.suffix.lower() == ".jsonl":
        rows = ((number, value) for number, value in json_lines(path))
    elif path.suffix.lower() == ".csv":
        rows = csv_table(file_text(path), str(path))[1]
    else:
        raise RefBenchError(f"--licences {path}: give a .csv or .jsonl file with the columns picture and licence")
    found: dict[str, Licence] = {}
    for number, row in rows:
        values = {str(key).strip().casefold(): value for key, value in row.items()} if isinstance(row, dict) else {}
        picture, licence = values.get("picture"), values.get("licence") or values.get("license")
        if not isinstance(picture, str) or not isinstance(licence, str) or not picture.strip():
            raise RefBenchError(f"{path}, line {number}: each line needs a picture and its licence")
        further = {key: str(values.get(key) or "").strip() for key in ("author", "source")}
        found.setdefault(picture.strip(), Licence(licence=licence.strip() or UNKNOWN, **further))
    return found


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
