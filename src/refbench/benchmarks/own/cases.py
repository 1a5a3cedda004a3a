"""What only the judge of a user's own case sees: the questions of the checklist."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.rows import rows_of
from refbench.case import Case, Picture, Request
from refbench.record import Record, RefBenchError, clean_text


class OwnDetails(Record):
    """Yes/no questions, in the user's words; empty for rubrics that ask none."""

    questions: tuple[str, ...] = ()


OwnCase: TypeAlias = Case[OwnDetails]


# Rows to cases: `{id, instruction, source, references, targets, questions, groups, tags, cluster, size, n_pictures}`,
# with `pictures` instead of source and references in what `refbench cases` writes.
#
# A row that is not understood is an error with its line; a picture that is not there is an anomaly of the data.

KEYS = (
    *("id", "instruction", "pictures", "source", "references", "targets", "questions", "groups", "tags", "cluster"),
    *("size", "n_pictures"),
)
_LEVELS = ("overall", "tag", "level")
"""Names that a table uses itself."""
_Placed = tuple[Path, str]
"""Where a picture lies, absolutely, and its role."""


def load_cases(path: Path) -> Dataset:
    """The cases in a .jsonl, .csv or .parquet file, or in a Hugging Face dataset (a directory, or owner/name)."""
    path = Path(path)
    rows, base = rows_of(path)
    base = base.absolute()
    read: dict[str, tuple[str, Mapping[str, Any], list[_Placed], list[_Placed]]] = {}
    for where, row in rows:
        _check_keys(row, where)
        case_id = _text(row, "id", where)
        if case_id in read:
            raise RefBenchError(f"{where}: the id {case_id!r} is there already ({read[case_id][0]}): ids must differ")
        targets = [_picture(item, "target", base, where) for item in _list(row, "targets", where)]
        read[case_id] = where, row, _inputs(row, base, where), targets
    if not read:
        raise RefBenchError(f"{path} holds no cases")
    root = _common_root(base, [p for _, _, inputs, targets in read.values() for p, _ in (*inputs, *targets)])
    cases = tuple(
        _case(case_id, row, _named(inputs, root), _named(targets, root), where)
        for case_id, (where, row, inputs, targets) in read.items()
    )
    return Dataset(benchmark="own", root=path, picture_root=root, cases=cases)


def _inputs(row: Mapping[str, Any], base: Path, where: str) -> list[_Placed]:
    """In the order that the model gets them: the source first, unless `pictures` has an order of its own."""
    references = [_picture(item, "reference", base, where) for item in _list(row, "references", where)]
    source = [_picture(row["source"], "source", base, where)] if "source" in row else []
    listed = [_picture(item, "reference", base, where) for item in _list(row, "pictures", where)]
    if listed and (source or references):
        raise RefBenchError(f"{where}: 'pictures' are all pictures of the case: leave source and references out")
    return listed or source + references


def _case(
    case_id: str, row: Mapping[str, Any], pictures: Sequence[Picture], targets: Sequence[Picture], where: str
) -> OwnCase:
    groups = row.get("groups", {})
    if not isinstance(groups, dict) or not all(isinstance(v, str | int | float) for v in groups.values()):
        raise RefBenchError(f"{where}: groups is a mapping of names to names, not {str(groups)[:60]}")
    for name in groups:
        if name in _LEVELS:
            raise RefBenchError(f"{where}: the group {name!r} would be mistaken for a level of the table: rename it")
    source = [picture.name for picture in pictures if picture.role == "source"]
    # Edits of one source picture depend on each other, so they are resampled together.
    cluster = _text(row, "cluster", where) if "cluster" in row else (source or [case_id])[0]
    return OwnCase(
        id=case_id,
        request=Request(
            instruction=_text(row, "instruction", where),
            pictures=tuple(pictures),
            size=_size(row, where),
            n_pictures=_whole(row.get("n_pictures", 1), "n_pictures", where),
        ),
        groups={clean_text(str(name)): clean_text(str(value)) for name, value in groups.items()},
        tags=tuple(_words(row, "tags", where)),
        cluster=cluster,
        targets=tuple(targets),
        details=OwnDetails(questions=tuple(_words(row, "questions", where))),
    )


def _check_keys(row: Mapping[str, Any], where: str) -> None:
    """Other columns are the user's business, unless they look like one of ours misspelt."""
    for key in row:
        near = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=0.8)
        if key not in KEYS and near and near[0] not in row:
            raise RefBenchError(f"{where}: there is no {key!r}: did you mean {near[0]!r}?")


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise RefBenchError(f"{where}: {key!r} is missing or no text: every case needs an id and an instruction")
    return clean_text(value.strip() if key != "instruction" else value)


def _whole(value: Any, key: str, where: str) -> int:
    """A number from 1, written as a number or, in CSV, as text."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise RefBenchError(f"{where}: {key!r} is a whole number from 1, not {str(value)[:60]}")
    return value


def _size(row: Mapping[str, Any], where: str) -> tuple[int, int] | None:
    """`[width, height]`, or `512x768` where there are no lists."""
    value = row.get("size")
    if value is None:
        return None
    ends = value.lower().split("x") if isinstance(value, str) else value
    if not isinstance(ends, list) or len(ends) != 2:
        raise RefBenchError(f"{where}: 'size' is [width, height], not {str(value)[:60]}")
    return _whole(ends[0], "size", where), _whole(ends[1], "size", where)


def _list(row: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RefBenchError(f"{where}: {key!r} is a list, not {type(value).__name__}")
    return value


def _words(row: Mapping[str, Any], key: str, where: str) -> list[str]:
    words = _list(row, key, where)
    if not all(isinstance(item, str) and item.strip() for item in words):
        raise RefBenchError(f"{where}: {key!r} is a list of texts")
    return [clean_text(item.strip()) for item in words]


def _picture(item: Any, role: str, base: Path, where: str) -> _Placed:
    """A path, or `{path, role}`; relative paths start beside the file of cases."""
    given = item
    if isinstance(item, dict):
        if unknown := sorted(set(item) - {"path", "role"}):
            raise RefBenchError(f"{where}: a picture has path and role, not {unknown[0]!r}")
        given, role = item.get("path"), role if role == "source" else item.get("role") or role
    if not isinstance(given, str) or not given.strip() or not isinstance(role, str) or "\0" in given:
        raise RefBenchError(f"{where}: a picture is a path or {{path, role}}, not {str(item)[:60]}")
    return Path(os.path.normpath(base / Path(given).expanduser())), clean_text(role)


def _common_root(base: Path, pictures: Sequence[Path]) -> Path:
    """The deepest directory that holds the file and all pictures: names inside it are the same on every machine."""
    return Path(os.path.commonpath([os.path.normpath(base), *(picture.parent for picture in pictures)]))


def _named(placed: Sequence[_Placed], root: Path) -> list[Picture]:
    return [Picture(name=path.relative_to(root).as_posix(), role=role) for path, role in placed]
