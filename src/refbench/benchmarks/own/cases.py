"""Rows to cases: `{id, instruction, source, references, targets, questions, groups, tags, cluster, size, n_pictures}`,
with `pictures` instead of source and references in what `refbench cases` writes.

A row that is not understood is an error with its line; a picture that is not there is an anomaly of the data.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from refbench.benchmarks.kit.definition import Dataset
from refbench.benchmarks.kit.rows import Row, rows_of, unpack_by_path
from refbench.case import MOST_PICTURES, Case, Picture, Request
from refbench.record import Record, RefBenchError, clean_text
from refbench.text.files import is_file, users_path

KEYS = (
    *("id", "instruction", "pictures", "source", "references", "targets", "questions", "groups", "tags", "cluster"),
    *("size", "n_pictures"),
)
_LEVELS = ("overall", "tag", "level")
"""Names that a table uses itself."""
_MOST_SIDE = 1 << 16
_Placed: TypeAlias = tuple[Path, str]
"""Where a picture lies, absolutely, and its role."""


class OwnDetails(Record):
    """Yes/no questions, in the user's words, that only the judge sees; empty for rubrics that ask none."""

    questions: tuple[str, ...] = ()


OwnCase: TypeAlias = Case[OwnDetails]


def holds_cases(path: Path | str) -> bool:
    """Whether a name is of cases of one's own by what it looks like: a file of theirs, or a directory that
    `save_to_disk` of Hugging Face's datasets has written."""
    path = Path(path)
    saved = ("dataset_info.json", "dataset_dict.json")
    return path.suffix.lower() in (".jsonl", ".csv", ".parquet") or any((path / name).is_file() for name in saved)


def load_cases(path: Path) -> Dataset:
    """The cases in a .jsonl, .csv or .parquet file, or in a Hugging Face dataset (a directory, or owner/name)."""
    path = Path(path)
    given, base = rows_of(path)
    base = base.absolute()
    rows = _trained(given, base, path)
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
    return Dataset(benchmark="own", root=path, picture_root=root, cases=cases, folder=base)


_TRAINING = ("input_images", "instruction", "output_image")
"""The columns of MultiRef's training set, which have no id."""


def _trained(rows: Iterator[Row], base: Path, path: Path) -> Iterator[Row]:
    """The rows, those of MultiRef's training set in our form: called by their place, its paths being below the file's
    folder in spite of their first slash. Its pictures lie in Parquet files beside it, from which they are unpacked."""
    first = next(rows, None)
    if first is None:
        return iter(())
    whole = chain([first], rows)
    if "id" in first[1] or not all(column in first[1] for column in _TRAINING):
        return whole
    read = [(where, {**row, **_as_case(where, row, number)}) for number, (where, row) in enumerate(whole, 1)]
    lying = {name for _, row in read for name in (*row["references"], *row["targets"]) if not is_file(base / name)}
    files = sorted(base.glob("data/*.parquet")) or sorted(base.glob("*.parquet"))
    if not lying or not files:
        return iter(read)
    folder = base / f"{path.name}.pictures"
    unpack_by_path(files, lying, folder)
    return ((where, {**row, **_placed(row, lying, folder)}) for where, row in read)


def _as_case(where: str, row: Mapping[str, Any], number: int) -> dict[str, Any]:
    inputs, output = row.get("input_images"), row.get("output_image")
    if not isinstance(inputs, list) or not all(isinstance(name, str) for name in [*inputs, output]):
        raise RefBenchError(f"{where}: input_images are a list of paths, and output_image is one")
    groups = {"n_refs": str(len(inputs))}
    pictures = {"references": [name.lstrip("/") for name in inputs], "targets": [str(output).lstrip("/")]}
    return {"id": f"{number:06d}", "groups": groups, **pictures}


def _placed(row: Mapping[str, Any], unpacked: Collection[str], folder: Path) -> dict[str, list[str]]:
    return {
        key: [str(folder / name) if name in unpacked else name for name in row[key]]
        for key in ("references", "targets")
    }


def _case(row: _Row, pictures: Sequence[Picture], targets: Sequence[Picture]) -> OwnCase:
    source = [picture.name for picture in pictures if picture.role == "source"]
    case_id = row.text("id")
    return OwnCase(
        id=case_id,
        request=Request(
            instruction=row.text("instruction"),
            pictures=tuple(pictures),
            size=row.size(),
            n_pictures=row.whole("n_pictures", row.values.get("n_pictures", 1), MOST_PICTURES),
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


_OTHERS_CALL = {
    **dict.fromkeys(("image", "img", "input", "input_image", "image_path", "source_image"), "source"),
    **dict.fromkeys(("images", "input_images", "image_paths", "refs", "reference_images", "ref_images"), "references"),
}
"""What pictures are called elsewhere. Unknown columns are passed over, and without its pictures a case is another."""


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
        if not {"source", "references", "pictures"} & self.values.keys():
            for key in self.values:
                if meant := _OTHERS_CALL.get(key.lower()):
                    raise self.wrong(f"the case has no pictures: is {key!r} meant as {meant!r}?")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(f"{key!r} is missing or no text: every case needs an id and an instruction")
        return clean_text(value.strip() if key != "instruction" else value)

    def whole(self, key: str, value: Any, most: int) -> int:
        """A number from 1, written as a number or, in CSV, as text."""
        if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise self.wrong(f"{key!r} is a whole number from 1 to {most:,}, not {str(value)[:60]}")
        return value

    def size(self) -> tuple[int, int] | None:
        """`[width, height]`, or `512x768` where there are no lists."""
        value = self.values.get("size")
        if value is None:
            return None
        ends = value.lower().split("x") if isinstance(value, str) else value
        if not isinstance(ends, list) or len(ends) != 2:
            raise self.wrong(f"'size' is [width, height], not {str(value)[:60]}")
        return self.whole("size", ends[0], _MOST_SIDE), self.whole("size", ends[1], _MOST_SIDE)

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
        # A second slash at the beginning means something else to POSIX, and nothing to any system here.
        path = os.path.normpath(self.base / users_path(given, self.where))
        return Path(f"/{path.lstrip('/')}" if path.startswith("//") else path), clean_text(role)
