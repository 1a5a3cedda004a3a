"""A source with a row or a folder for each item: its cells, its pictures as plain RGB, and splits that share none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from refbench.benchmarks.kit.rows import rows_of
from refbench.builders.kit.pictures import SourcePicture, plain_picture
from refbench.builders.kit.split import clusters, drawn_for_test
from refbench.failure import Failure
from refbench.machine import cores
from refbench.pictures import EXTENSIONS
from refbench.pictures.collection import Skipped, look, lookalikes
from refbench.record import RefBenchError, clean_text

_PICTURES = frozenset(EXTENSIONS.values()) | {".jpeg", ".tif"}


@dataclass(frozen=True)
class SourceRow:
    """A row of a table, or a folder: what it has under each name, or what is wrong with it."""

    where: str
    cells: Mapping[str, Any]
    wrong: str = ""

    def text(self, name: str) -> str:
        """Text as it is, without what no encoder takes; empty for anything else."""
        return text_of(self.cells[name])

    def texts(self, name: str) -> list[str]:
        """Several texts: a list, or in a CSV file one text with `;` between them."""
        return several(self.cells[name])

    def number(self, name: str, digits: int) -> int | None:
        """The whole number, of at most so many digits; None where it is none."""
        value, text = self.cells[name], str(self.cells[name]).strip()
        plain = text.isascii() and text.isdecimal() and len(text) <= digits and not isinstance(value, bool)
        return int(text) if plain else None


def read_rows(
    source: Path,
    spellings: Mapping[str, Sequence[str]],
    marks: Sequence[str],
    of_folder: Callable[[Path, Path], tuple[Mapping[str, Any], str]],
) -> tuple[list[SourceRow], Path]:
    """The rows of a table, or of the folders below `source` that hold one of the `marks`; and what the names of
    pictures are relative to."""
    if source.is_dir():
        folders = sorted({path.parent for mark in marks for path in source.rglob(mark) if _visible(path, source)})
        if not folders:
            raise RefBenchError(
                f"{source} holds no folder with one of {', '.join(marks)}: give such a folder or a table"
            )
        return [SourceRow(one.relative_to(source).as_posix(), *of_folder(one, source)) for one in folders], source
    if not source.is_file():
        raise RefBenchError(f"{source} is not there: give a folder, or a table as .jsonl, .csv or .parquet")
    lines, root = rows_of(source)
    return [SourceRow(where.rpartition("/")[2], named_cells(cells, spellings)) for where, cells in lines], root


def named_cells(cells: Mapping[str, Any], spellings: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What a row has under any of the spellings of each name; None where it has nothing."""
    return {
        name: next((cells[spelling] for spelling in known if cells.get(spelling) not in (None, "")), None)
        for name, known in spellings.items()
    }


def text_of(value: Any) -> str:
    """Text as it is, without what no encoder takes; empty for anything else."""
    return clean_text(value).strip() if isinstance(value, str) else ""


def several(value: Any) -> list[str]:
    """The texts of a cell: a list, or in a CSV file one text with `;` between them."""
    parts: Sequence[Any] = value.split(";") if isinstance(value, str) else value if isinstance(value, list) else []
    parts = [part.get("path") if isinstance(part, Mapping) else part for part in parts]
    return [clean_text(part).strip() for part in parts if isinstance(part, str) and part.strip()]


def pictures_in(folder: Path, root: Path) -> list[str]:
    """Names below `root` of the pictures in a folder, by number where they have one: 2.jpg comes before 10.jpg."""
    names = [name for name in os.listdir(folder) if Path(name).suffix.lower() in _PICTURES and name[0] != "."]
    names.sort(key=lambda name: (_number(Path(name).stem), name))
    return [(folder / name).relative_to(root).as_posix() for name in names]


def plain_pictures(root: Path, names: Sequence[str], folder: Path) -> dict[str, SourcePicture | str]:
    """Each picture, or why it cannot be used; copies that were needed lie in `folder`, named by their content."""
    with ThreadPoolExecutor(cores()) as threads:
        return dict(zip(names, threads.map(lambda name: _plain(root, name, folder), names), strict=True))


def _plain(root: Path, name: str, folder: Path) -> SourcePicture | str:
    inside = PurePosixPath(name.replace("\\", "/"))
    if inside.is_absolute() or ".." in inside.parts:
        return f"{name} lies outside the folder of the source"
    found = look(root, str(inside))
    if isinstance(found, Skipped):
        return f"{found.name}: {found.reason}"
    made = plain_picture(root, found, found.sha256, folder)
    return f"{name}: {made.detail}" if isinstance(made, Failure) else made


def split_by_looks(items: Mapping[str, Sequence[int]], test_share: float | None, seed: int) -> dict[str, str]:
    """The split of each item ("" where there is one), from the looks of its pictures: items that share a picture or a
    near-duplicate are on one side, and theirs too. Whole clusters go to the test side in drawn order while they fit."""
    if test_share is None:
        return dict.fromkeys(items, "")
    owners = [item for item, looks in items.items() for _ in looks]
    groups: dict[str, list[int]] = {item: [] for item in items}
    if owners:
        for item, group in zip(owners, lookalikes([look for looks in items.values() for look in looks]), strict=True):
            groups[item].append(int(group))
    tested = drawn_for_test(clusters(groups), test_share, seed)
    return {item: "test" if item in tested else "dev" for item in items}


def _visible(path: Path, root: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def _number(stem: str) -> int:
    """The number that ends the name, 0 where none does."""
    tail = stem[len(stem.rstrip("0123456789")) :][-9:]
    return int(tail) if tail else 0
