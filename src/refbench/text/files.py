"""Users' files, read in one way: what cannot be read, is no text, or is nested without end is refused in a sentence
that names the file and the line."""

from __future__ import annotations

import csv
import io
import json
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from refbench.record import RefBenchError
from refbench.text.console import text_of_cell

MOST_BYTES = 1 << 30
"""Larger files are no lists, settings or texts: a device has no end, and a file of this size fills the memory."""
MOST_DEPTH = 100
"""Lists and tables inside each other. What is written again, compared or quoted in an error needs a bound: Python's own
is at a thousand, orjson's for writing at 254."""
_MOST_TOML = 1 << 20
_BOM = b"\xef\xbb\xbf"
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".7z")
"""What people give in the place of the folder that is packed in it."""
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""What a shell calls the output of another command."""

csv.field_size_limit(MOST_BYTES)  # the library's is 131,072 characters, which a prompt or a caption may have


def file_bytes(path: Path, remedy: str = "") -> bytes:
    """What a file holds, or an error that names it and says what to do."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not str(path).startswith(_PIPES):  # a pipe that nobody fills is waited for
            kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
            raise RefBenchError(f"{path} cannot be read: it is {kind}{_then(remedy)}")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise RefBenchError(f"{path} is not there{_then(remedy)}") from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise RefBenchError(f"{path} cannot be read: {reason(error)}{_then(remedy)}") from error
    if len(data) > MOST_BYTES:
        raise RefBenchError(f"{path} has more than {MOST_BYTES:,} bytes{_then(remedy)}")
    return data


def file_text(path: Path, remedy: str = "save it as UTF-8") -> str:
    """The text of a file in UTF-8, with or without a byte order mark; line ends become line feeds."""
    data = file_bytes(path, remedy)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RefBenchError(f"{path}, line {line} is not UTF-8 text (byte {error.start}){_then(remedy)}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def json_value(text: bytes | str, where: str, remedy: str = "") -> Any:
    """What this JSON says, with or without a byte order mark, nested at most `MOST_DEPTH` deep."""
    text = text.removeprefix("\ufeff") if isinstance(text, str) else text.removeprefix(_BOM)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RefBenchError(f"{where} is not valid JSON ({error}){_then(remedy)}") from error
    brackets = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    return _shallow(value, where) if brackets > MOST_DEPTH else value


def json_file(path: Path, remedy: str = "copy the file again", *, nan: bool = False) -> Any:
    """What a JSON file holds; with `nan`, also one by Python's own writer with NaN in it, which is read as None."""
    data = file_bytes(path, remedy).removeprefix(_BOM)
    try:
        return json_value(data, str(path), remedy)
    except RefBenchError:
        if not nan or not any(word in data for word in (b"NaN", b"Infinity")):
            raise
        try:
            return _shallow(json.loads(data, parse_constant=lambda name: None), str(path))
        except (ValueError, RecursionError):
            pass
        raise


def json_lines(path: Path, remedy: str = "") -> Iterator[tuple[int, Any]]:
    """The values of a file with one in each line, with the numbers of their lines; empty lines do not count."""
    for number, line in enumerate(file_text(path, remedy or "save it as UTF-8").split("\n"), 1):
        if line.strip():
            yield number, json_value(line, f"{path}, line {number}", remedy)


def toml_value(text: str, where: str) -> dict[str, Any]:
    """What this TOML says."""
    if len(text) > _MOST_TOML or _LONG_KEY.search(text):  # the library takes minutes for one key of 20,000 names
        raise RefBenchError(
            f"{where} has more than {_MOST_TOML:,} characters, or a key of more than {MOST_DEPTH} names"
        )
    try:
        found: dict[str, Any] = _shallow(tomllib.loads(text), where)
    except (tomllib.TOMLDecodeError, ValueError) as error:  # ValueError: a number of more than 4,300 digits
        raise RefBenchError(f"{where} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise RefBenchError(f"{where} is nested more than {MOST_DEPTH} deep") from error
    return found


def toml_file(path: Path, option: str = "") -> dict[str, Any]:
    """What a TOML file says; `option` is named beside a file that cannot be read."""
    return toml_value(file_text(path, f"{option} takes a TOML file in UTF-8".strip() if option else ""), str(path))


def csv_table(
    text: str, where: str, *, verbatim: bool = False, **how: Any
) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """The columns of a CSV text and its rows with the numbers of their lines; `how` is for csv.DictReader. A quote that
    kept a spreadsheet from computing a cell is taken away, unless the file is to be read as it is."""
    plain = (lambda cell: cell) if verbatim else text_of_cell
    reader = csv.DictReader(io.StringIO(text, newline=""), **how)

    def read() -> Iterator[tuple[int, dict[str, str]]]:
        try:
            for row in reader:
                yield (
                    reader.line_num,
                    {name: plain(cell) if isinstance(cell, str) else cell for name, cell in row.items()},
                )
        except csv.Error as error:
            raise RefBenchError(f"{where}, line {reader.line_num}: not valid CSV ({error})") from error

    try:
        columns = [plain(name) for name in reader.fieldnames or ()]
    except csv.Error as error:
        raise RefBenchError(f"{where}, line 1: not valid CSV ({error})") from error
    reader.fieldnames = columns
    return columns, read()


def is_file(path: Path) -> bool:
    """Whether there is such a file; no for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def reason(error: Exception) -> str:
    """Why the system refused a file, in its words."""
    return (isinstance(error, OSError) and error.strerror) or "no file can have this name"


def users_path(written: str, where: str) -> Path:
    """A path as a user wrote it, `~` for a home included."""
    try:
        return Path(written).expanduser()
    except RuntimeError as error:
        raise RefBenchError(f"{where}: nobody's home is {Path(written).parts[0]}") from error


def _then(remedy: str) -> str:
    return f": {remedy}" if remedy else ""


def _shallow(value: Any, where: str) -> Any:
    """The value, unless it is nested too deep; a walk without recursion, of containers alone."""
    inside, depth = [value], 0
    while inside:
        depth += 1
        if depth > MOST_DEPTH:
            raise RefBenchError(f"{where} is nested more than {MOST_DEPTH} deep")
        inside = [
            part
            for one in inside
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, dict | list)
        ]
    return value
