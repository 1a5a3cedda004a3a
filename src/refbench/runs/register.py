"""The register of a run's ledgers, so that none is missing, emptied, cut or another's unnoticed.

RUN/ledgers has a small file for each: the random id that stands in the ledger too, and whether its writer has closed
it. It is written by whoever holds the ledger, after the ledger was made and before anything is paid for. A run without
such a file, of an older version, is read as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from refbench.record import Record, RefBenchError
from refbench.runs.disk import write_whole

FOLDER = "ledgers"
ID = "id"
"""The note of a ledger that tells it from all others."""


class Entry(Record):
    """What is known of a ledger from outside of it."""

    id: str
    closed: bool = False
    """Whether all that was written is in its file; else a part may be in the log beside it."""


def entry_of(file: Path) -> Entry | None:
    """What the register says; None where the ledger is not registered."""
    try:
        return Entry.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise RefBenchError(f"{file} cannot be read: restore it from a copy of the run") from error


def write_entry(file: Path, entry: Entry) -> None:
    write_whole(file, entry.model_dump_json().encode())


def registered(run: Path) -> Iterator[tuple[Path, Path, Entry]]:
    """Each ledger that the run must have, its file in the register, and what that says."""
    folder = run / FOLDER
    try:
        names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    except OSError as error:
        raise RefBenchError(f"{folder} cannot be read ({error.strerror}): restore it from a copy of the run") from error
    for name in names:
        if name == "ledger" or re.fullmatch(r"\d+-of-\d+", name):
            ledger = run / "ledger.sqlite" if name == "ledger" else run / "shards" / f"{name}.sqlite"
            entry = entry_of(folder / name)
            if entry is not None:
                yield ledger, folder / name, entry
