"""Rows to cases: `{id, instruction, source, references, targets, questions, groups, tags, cluster, size, n_pictures}`,
with `pictures` instead of source and references in what `refbench cases` writes.

A row that is not understood is an error with its line; a picture that is not there is an anomaly of the data.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from refbench.benchmarks.kit.definition import Dataset
from refbench.benchmarks.kit.rows import rows_of
from refbench.case import Case, Picture, Request
from refbench.record import Record, RefBenchError, clean_text

KEYS = (
    *("id", "instruction", "pictures", "source", "references", "targets", "questions", "groups", "tags", "cluster"),
    *("size", "n_pictures"),
)
_LEVELS = ("overall", "tag", "level")
"""Names that a table uses itself."""
_Placed: TypeAlias = tuple[Path, str]
"""Where a picture lies, absolutely, and its role."""


class OwnDetails(Record):
    """Yes/no questions, in the user's words, that only the judge sees; empty for rubrics that ask none."""

    questions: tuple[str, ...] = ()


OwnCase: TypeAlias = Case[OwnDetails]


def load_cases(path: Path) -> Dataset:
    """The cases in a .jsonl, .csv or .parquet file, or in a Hugging Face dataset (a directory, or owner/name)."""
    path = Path(path)
    rows, base = rows_of(path)
    base = base.absolute()
    read: dict[str, tuple[_Row, list[_Placed], list[_Placed]]] = {}
    for where, values in rows:
        row = _Row(where, values, base)
        row.check_keys()
        case_id = row.text("id")
        if case_id in read:
            raise row.wrong(f"the id {case_id!r} is there already ({read[case_id][0].where}): ids must differ")
        read[case_id] = row, row.inputs(), list(row.pictures("targets", "target"))
    if not read:
        raise RefBenchError(f"{path} holds no cases")
    root = _common_root(base, [place for _, *placed in read.values() for some in placed for place, _ in some])
    cases = tuple(_case(row, _named(inputs, root), _named(targets, root)) for row, inputs, targets in read.values())
    return Dataset(benchmark="own", root=path, picture_root=root, cases=cases)


def _case(row: _Row, pictures: Sequence[Picture], targets: Sequence[Picture]) -> OwnCase:
    source = [picture.name for picture in pictures if picture.role == "source"]
    case_id = row.text("id")
    return OwnCase(
        id=case_id,
        request=Request(
            instruction=row.text("instruction"),
            pictures=tuple(pictures),
            size=row.size(),
            n_pictures=row.whole("n_pictures", row.values.get("n_pictures", 1)),
        ),
        groups=row.groups(),
        tags=tuple(row.words("tags")),
        # Edits of one source picture depend on each other, so they are resampled together.
        cluster=row.text("cluster") if "cluster" in row.values else (source or [case_id])[0],
        targets=tuple(targets),
        details=OwnDetails(questions=tuple(row.words("questions"))),
    )


def _common_root(base: Path, pictures: Sequence[Path]) -> Path:
    """The deepest directory that holds the file and all pictures: names inside it are the same on every machine."""
    return Path(os.path.commonpath([os.path.normpath(base), *(picture.parent for picture in pictures)]))


def _named(placed: Sequence[_Placed], root: Path) -> list[Picture]:
    return [Picture(name=path.relative_to(root).as_posix(), role=role) for path, role in placed]


@dataclass(frozen=True)
class _Row:
    """The values of one row, read by key. `where` is its file and line, relative paths start at `base`."""

    where: str
    values: Mapping[str, Any]
    base: Path

    def wrong(self, what: str) -> RefBenchError:
        return RefBenchError(f"{self.where}: {what}")

    def check_keys(self) -> None:
        """Other columns are the user's business, unless they look like one of ours misspelt."""
        for key in self.values:
            near = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=0.8)
            if key not in KEYS and near and near[0] not in self.values:
                raise self.wrong(f"there is no {key!r}: did you mean {near[0]!r}?")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(f"{key!r} is missing or no text: every case needs an id and an instruction")
        return clean_text(value.strip() if key != "instruction" else value)

    def whole(self, key: str, value: Any) -> int:
        """A number from 1, written as a number or, in CSV, as text."""
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(f"{key!r} is a whole number from 1, not {str(value)[:60]}")
        return value

    def size(self) -> tuple[int, int] | None:
        """`[width, height]`, or `512x768` where there are no lists."""
        value = self.values.get("size")
        if value is None:
            return None
        ends = value.lower().split("x") if isinstance(value, str) else value
        if not isinstance(ends, list) or len(ends) != 2:
            raise self.wrong(f"'size' is [width, height], not {str(value)[:60]}")
        return self.whole("size", ends[0]), self.whole("size", ends[1])

    def groups(self) -> dict[str, str]:
        groups = self.values.get("groups", {})
        if not isinstance(groups, dict) or not all(isinstance(v, str | int | float) for v in groups.values()):
            raise self.wrong(f"groups is a mapping of names to names, not {str(groups)[:60]}")
        if mistaken := [name for name in groups if name in _LEVELS]:
            raise self.wrong(f"the group {mistaken[0]!r} would be mistaken for a level of the table: rename it")
        return {clean_text(str(name)): clean_text(str(value)) for name, value in groups.items()}

    def items(self, key: str) -> list[Any]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(f"{key!r} is a list, not {type(value).__name__}")
        return value

    def words(self, key: str) -> list[str]:
        words = self.items(key)
        if not all(isinstance(item, str) and item.strip() for item in words):
            raise self.wrong(f"{key!r} is a list of texts")
        return [clean_text(item.strip()) for item in words]

    def inputs(self) -> list[_Placed]:
        """In the order that the model gets them: the source first, unless `pictures` has an order of its own."""
        references = list(self.pictures("references", "reference"))
        source = [self.picture(self.values["source"], "source")] if "source" in self.values else []
        listed = list(self.pictures("pictures", "reference"))
        if listed and (source or references):
            raise self.wrong("'pictures' are all pictures of the case: leave source and references out")
        return listed or source + references

    def pictures(self, key: str, role: str) -> Iterator[_Placed]:
        return (self.picture(item, role) for item in self.items(key))

    def picture(self, item: Any, role: str) -> _Placed:
        """A path, or `{path, role}`; relative paths start beside the file of cases."""
        given = item
        if isinstance(item, dict):
            if unknown := sorted(set(item) - {"path", "role"}):
                raise self.wrong(f"a picture has path and role, not {unknown[0]!r}")
            given, role = item.get("path"), role if role == "source" else item.get("role") or role
        if not isinstance(given, str) or not given.strip() or not isinstance(role, str) or "\0" in given:
            raise self.wrong(f"a picture is a path or {{path, role}}, not {str(item)[:60]}")
        return Path(os.path.normpath(self.base / Path(given).expanduser())), clean_text(role)
