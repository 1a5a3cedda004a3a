"""Sources: the pictures to blend and what is known of them, from a folder, a table or a dataset directory.

Every file that cannot be used stays on record with the reason; the same content under two names is one picture.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from refbench.builders.kit.store import Store
from refbench.builders.refblend.layouts import SourceLayout
from refbench.builders.refblend.tables import TABLES, Label, PictureAnnotations, coco_labels, dataset_files, labels
from refbench.builders.refblend.types import Type
from refbench.machine import cores
from refbench.pictures import EXTENSIONS, sniff
from refbench.pictures.collection import LEAST_SIDE, Found, Skipped, distinct, look, picture_names
from refbench.record import RefBenchError, clean_text, content_key
from refbench.runs.disk import whole_file
from refbench.text.files import file_text, is_file

_BATCH = 256
_CAPTION = 2000
"""Most bytes of a text file beside a picture that is taken for its caption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPicture(PictureAnnotations):
    """A picture that can be used. `name` is what its source calls it."""

    name: str
    path: str
    sha256: str
    width: int
    height: int
    format: str
    looks: int

    @property
    def id(self) -> str:
        """What files of the dataset are named by: as good as its content."""
        return self.sha256[:20]

    @property
    def file(self) -> str:
        """Where its copy lies in a dataset."""
        return f"original_images/{self.id}{EXTENSIONS[self.format]}"


@dataclass(frozen=True)
class Sources:
    """All pictures in the order of their names, what was skipped, and labels that could not be read."""

    root: Path
    pictures: tuple[LabelledPicture, ...]
    skipped: tuple[Skipped, ...]
    wrong: tuple[tuple[str, str], ...] = ()
    """Where, and what could not be read there."""


def gather(
    given: Path, layout: SourceLayout, work: Path, *, limit: int | None = None, avoid: Path | None = None
) -> Sources:
    """The pictures of a folder or table. What was looked at by an earlier build and has not changed is not opened
    again. `limit` takes the first by name, or the first rows; what lies below `avoid` is not looked at."""
    if given.is_file() and given.suffix.lower() in TABLES:
        root, tables = given.parent, [given]
    elif given.is_dir():
        root = given
        tables = _tables(given, layout)
    else:
        raise RefBenchError(f"{given} is neither a folder of pictures nor a table ({', '.join(TABLES)})")
    known: dict[str, Label] = {}
    wrong: list[tuple[str, str]] = []
    skipped: list[Skipped] = []
    for base, label in _all_labels(root, tables, layout):
        name = _name(label, root, base, work)
        if name is None:  # a row that names no picture is one that failed, as is one that names none that is there
            skipped.append(Skipped(name=label.where, kind="unreadable", reason="; ".join(label.wrong)))
            continue
        label, lost = _with_given(label, base)
        wrong += [(label.where, what) for what in (*label.wrong, *lost)]
        if tables and name in known:
            reason = f"the same picture as {known[name].where}"
            skipped.append(Skipped(name=label.where, kind="duplicate", reason=reason))
        # Not the bytes: they lie in a file by now.
        known.setdefault(name, replace(label, picture=b"") if isinstance(label.picture, bytes) else label)
        if tables and limit is not None and len(known) >= limit:
            break
    names = list(known) if tables else _picture_files(root, layout, avoid)
    with Store(work / "sources.jsonl") as store:
        collection = distinct(root, _inspected(root, names[:limit], store))
        store.settle()
    pictures = tuple(_picture(root, found, layout, known.get(found.name)) for found in collection.found)
    return Sources(root, pictures, (*skipped, *collection.skipped), tuple(wrong))


def _tables(folder: Path, layout: SourceLayout) -> list[Path]:
    if layout.table:
        return _globbed(folder, layout.table)
    if (folder / "dataset_info.json").is_file() or (folder / "dataset_dict.json").is_file():
        return dataset_files(folder)
    # A copy of a repository of pictures in Parquet files; where there are picture files, these are meant.
    parquet = dataset_files(folder)
    return [] if not parquet or any(True for _ in picture_names(folder)) else parquet


def _globbed(folder: Path, pattern: str) -> list[Path]:
    files = sorted(folder.glob(pattern))
    if not files:
        raise RefBenchError(f"{folder} holds no {pattern}, which its layout wants: check --layout")
    return files


def _all_labels(root: Path, tables: Iterable[Path], layout: SourceLayout) -> Iterator[tuple[Path, Label]]:
    """Every label with the folder that its paths are relative to: that of its table, where the layout says nothing."""
    for table in tables:
        base = root / layout.root if layout.root else table.parent
        yield from ((base, label) for label in labels(table, layout, root))
    if layout.coco:
        for file in _globbed(root, layout.coco):
            yield from ((root / layout.root, label) for label in coco_labels(file))


def _name(label: Label, root: Path, base: Path, work: Path) -> str | None:
    """The picture's path relative to the root; pictures inside a table become files of the build."""
    if label.picture is None:
        return None
    if isinstance(label.picture, bytes):
        return os.path.relpath(_stored_picture(label.picture, work), root)
    written = label.picture.replace("\\", "/")
    if written.startswith("/") and not is_file(Path(written)):  # MultiRef's training set calls its own root so
        written = written.lstrip("/")
    return os.path.relpath(os.path.normpath(base / written), root).replace(os.sep, "/")


def _with_given(label: Label, base: Path) -> tuple[Label, list[str]]:
    """The label with its references where they lie, and those that do not lie there."""
    found: dict[Type, tuple[str, ...]] = {}
    lost: list[str] = []
    for kind, paths in label.given:
        there = {written: Path(os.path.normpath(base / written.replace("\\", "/"))) for written in paths}
        lost += [f"{kind}: {clean_text(written)} is not there" for written, path in there.items() if not is_file(path)]
        if files := tuple(str(path.absolute()) for path in there.values() if is_file(path)):
            found[kind] = files
    return (replace(label, given=tuple(found.items())) if label.given else label), lost


def _stored_picture(data: bytes, work: Path) -> Path:
    """A file with a picture's bytes, named by them."""
    path = work / "pictures" / f"{hashlib.sha256(data).hexdigest()}{EXTENSIONS.get(sniff(data) or '', '.bin')}"
    if not path.exists():
        with whole_file(path) as file:
            file.write(data)
    return path


def _picture_files(root: Path, layout: SourceLayout, avoid: Path | None) -> list[str]:
    """Names of pictures that belong to the layout. Those of the dataset itself, written into the folder that it is made
    of, are not among them; names are compared, since resolving a million links takes longer than opening them."""
    ours = None if avoid is None else os.path.relpath(avoid, root).replace(os.sep, "/")
    return [
        name
        for name in picture_names(root)
        if layout.read_path(name) is not None and (ours is None or not name.startswith(f"{ours}/"))
    ]


def _inspected(root: Path, names: Sequence[str], store: Store) -> Iterator[Found | Skipped]:
    def fresh(name: str) -> tuple[str, Found | Skipped | None]:
        try:
            facts = (root / name).stat()
            key = content_key([clean_text(name), facts.st_size, facts.st_mtime_ns, LEAST_SIDE])[:32]
        except (OSError, ValueError):
            return "", look(root, name)
        return key, None if key in store else look(root, name)

    with ThreadPoolExecutor(cores()) as threads:
        for start in range(0, len(names), _BATCH):  # batch by batch: map would look at all before the first is kept
            for key, one in threads.map(fresh, names[start : start + _BATCH]):
                if one is None:
                    record = store.get(key)
                    yield Found(**record["found"]) if "found" in record else Skipped(**record["skipped"])
                    continue
                if key:
                    store.put(key, {"found" if isinstance(one, Found) else "skipped": one.model_dump()})
                yield one


def _picture(root: Path, found: Found, layout: SourceLayout, label: Label | None) -> LabelledPicture:
    path = root / found.name
    in_path = layout.read_path(found.name) or {}
    inside = label is not None and isinstance(label.picture, bytes)

    def pick(field: str) -> str | None:
        return (getattr(label, field) if label else None) or in_path.get(field)

    return LabelledPicture(
        name=label.where if inside and label else found.name,
        path=str(Path.cwd() / path),
        sha256=found.sha256,
        width=found.width,
        height=found.height,
        format=found.format,
        looks=found.looks,
        caption=pick("caption") or (_caption_beside(path) if layout.sidecar and not inside else None),
        subject=pick("subject"),
        style=pick("style"),
        people=label.people if label else (),
        boxes=label.boxes if label else (),
        given=label.given if label else (),
        marks=label.marks if label else (),
        licence=pick("licence") or layout.licence,
    )


def _caption_beside(path: Path) -> str | None:
    """The caption in a text file beside the picture."""
    text = path.with_suffix(".txt")
    try:
        if text.stat().st_size > _CAPTION:
            return None
        return clean_text(file_text(text)).strip() or None
    except (OSError, RefBenchError):
        return None
