"""What a stage has done, by key, in a file of JSON lines: a killed build loses what was in flight and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Self

import orjson

from refbench.runs.disk import disk_error, whole_file


class Store:
    """Records by key. Lines are added as work is finished; `settle` puts them in the order of their keys, so that who
    finished first leaves no trace. Not for two processes at once: a build holds the lock of its directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: dict[str, bytes] = {}
        self._file: BinaryIO | None = None
        self._sorted = True
        self._load()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __contains__(self, key: str) -> bool:
        return key in self._lines

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, key: str) -> Any:
        """The record, None where there is none."""
        line = self._lines.get(key)
        return None if line is None else orjson.loads(line)["record"]

    def put(self, key: str, record: Any) -> None:
        """Keep a record; safe from a kill as soon as this returns."""
        line = orjson.dumps({"key": key, "record": record}, option=orjson.OPT_APPEND_NEWLINE)
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("ab")
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise disk_error(error, self.path) from error
        self._sorted = False
        self._lines[key] = line

    def settle(self) -> None:
        """Write the file anew in the order of the keys, whole or not at all."""
        self.close()
        if self._sorted:
            return
        with whole_file(self.path) as file:
            file.writelines(self._lines[key] for key in sorted(self._lines))
        self._sorted = True

    def close(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                raise disk_error(error, self.path) from error
            finally:
                self._file = None

    def _load(self) -> None:
        """Read what is there. A line that was cut off by a kill, or damaged, is work to be done again."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise disk_error(error, self.path) from error
        last = ""
        with file:
            for line in file:
                try:
                    key = orjson.loads(line)["key"]
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    self._sorted = False
                    continue
                self._sorted = self._sorted and line.endswith(b"\n") and key > last
                self._lines[key] = line if line.endswith(b"\n") else line + b"\n"
                last = key
        if not self._sorted:  # nothing may be added behind half a line
            self.settle()
