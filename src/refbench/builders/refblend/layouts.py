"""Layouts: how a source of pictures says what it knows of them, as data. Shipped ones, and a user's own in TOML."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationError

from refbench.record import Record, RefBenchError
from refbench.text.files import is_file, toml_file

_FOLDER = Path(__file__).with_name("data") / "layouts"
_IN_PATHS = ("caption", "subject", "style", "licence")

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "picture": (
        *("picture", "image", "file_name", "filename", "file", "path", "image_path", "img"),
        "original_image_path",
    ),
    "caption": ("caption", "text", "description", "prompt"),
    "subject": ("subject", "subject_id", "concept", "instance"),
    "style": ("style", "style_name", "art_style"),
    "people": ("people", "keypoints"),
    "boxes": ("boxes", "bboxes", "bbox_value"),
    "boxes_xywh": ("boxes_xywh", "bbox_xywh"),
    "licence": ("licence", "license"),
}
"""What a source may say of a picture, with the names of columns that are understood without being told, best first;
`boxes` are x1 y1 x2 y2, `boxes_xywh` x y width height, in pixels."""


def _pattern(text: str) -> str:
    try:
        names = set(re.compile(text).groupindex)
    except re.error as error:
        raise ValueError(f"no regular expression ({error})") from error
    if unknown := sorted(names - set(_IN_PATHS)):
        raise ValueError(f"a path cannot say {unknown[0]}: name groups {', '.join(_IN_PATHS)}")
    return text


def _columns(given: Mapping[str, str]) -> Mapping[str, str]:
    if unknown := sorted(set(given) - set(SPELLINGS)):
        raise ValueError(f"{unknown[0]} is not among {', '.join(SPELLINGS)}")
    return given


class SourceLayout(Record):
    """Where the pictures of a source and what is known of them are found, below its folder."""

    about: str = ""
    untested: bool = False
    """Written from a description of the source: nobody has tried it on the data."""
    path: Annotated[str, AfterValidator(_pattern)] = ""
    """A regular expression for the paths of pictures; its groups `subject`, `style`, ... say what each belongs to. A
    picture whose path does not match is not taken."""
    table: str = ""
    """A pattern for files of rows (CSV, JSON, JSON lines, Parquet); only pictures that they name are taken."""
    coco: str = ""
    """A pattern for annotations in COCO's form: images, and annotations with keypoints and boxes."""
    columns: Annotated[Mapping[str, str], AfterValidator(_columns)] = {}
    """Field to column, where the usual names do not fit."""
    root: str = ""
    """What the paths in tables are relative to: a folder below the source; by default that of the table."""
    sidecar: bool = True
    """A text file beside a picture, of the same name, is its caption."""
    licence: str = ""
    """Of the pictures, as their source states it."""
    note: str = ""

    def read_path(self, name: str) -> dict[str, str] | None:
        """What the path of a picture says of it; None where it is not a picture of this layout."""
        if not self.path:
            return {}
        match = re.search(self.path, name)
        return None if match is None else {key: value for key, value in match.groupdict().items() if value}


def layouts() -> dict[str, SourceLayout]:
    """The layouts that are shipped, by name."""
    return {path.stem: _read(path) for path in sorted(_FOLDER.glob("*.toml"))}


def load_layout(name_or_file: str) -> SourceLayout:
    """A shipped layout by its name, or a TOML file by its path."""
    shipped = _FOLDER / f"{name_or_file}.toml"
    if re.fullmatch(r"[\w-]+", name_or_file) and is_file(shipped):
        return _read(shipped)
    if is_file(Path(name_or_file)):
        return _read(Path(name_or_file))
    names = sorted(path.stem for path in _FOLDER.glob("*.toml"))
    near = difflib.get_close_matches(name_or_file, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"give a TOML file or one of {', '.join(names)}"
    raise RefBenchError(f"--layout {name_or_file}: {hint}")


def _read(path: Path) -> SourceLayout:
    try:
        return SourceLayout.model_validate(toml_file(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RefBenchError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}") from error
