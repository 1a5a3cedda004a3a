"""Where a study was last served: links are whole with it, and the next server takes the same port where it is free."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from refbench.record import Record
from refbench.runs.disk import disk_error, write_whole

FILE = "served.json"


class Served(Record):
    """A server's address as browsers know it, and its port on this machine."""

    address: str
    port: int


def note_served(folder: Path, served: Served) -> None:
    path = folder / FILE
    try:
        write_whole(path, served.model_dump_json().encode() + b"\n")
    except OSError as error:
        raise disk_error(error, path) from error


def last_served(folder: Path) -> Served | None:
    """None before the first server, and where the file cannot be read: it only saves typing."""
    try:
        return Served.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
