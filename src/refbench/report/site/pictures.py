"""The pictures of a site: small ones to look at, made once for all sites of one user, and the files themselves.

A picture is named by the hash of its bytes, so that a page can ask only for what a chunk has named before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from refbench.case import Picture
from refbench.failure import Failure
from refbench.machine import cores
from refbench.networks.cache import cache_folder
from refbench.output import StoredPicture
from refbench.pictures import EXTENSIONS, Pixels, encode, facts_of, picture_bytes, read_pixels, resize
from refbench.report.site.contract import PictureView
from refbench.runs import Run
from refbench.runs.disk import disk_error, write_whole

THUMB = 320
"""Longest side of a thumbnail."""
SHOWN = 640
"""Longest side of the one copy of a picture in a site without originals: sharp in a column of a case, and a tenth of
the bytes of what models give back."""
_QUALITY = {"jpeg": 82, "webp": 72}
_SHOWN_BY_BROWSERS = frozenset({"png", "jpeg", "webp", "gif", "bmp"})

Wanted = Literal["shown", "thumbs", "full"]
"""Each picture once at the size that pages show it, once as a thumbnail, or as a thumbnail beside the file itself."""
Recorded = Mapping[str, Collection[str]]
"""Hashes that runs noted when they opened the pictures of the cases, by name."""


@dataclass(frozen=True)
class PictureFile:
    """A picture that can be shown: where it lies, what it is, and how large it is when upright."""

    path: Path
    sha256: str
    format: str
    width: int
    height: int

    @property
    def thumb(self) -> str:
        return f"thumbs/{self.sha256[:2]}/{self.sha256}.jpg"

    @property
    def shown(self) -> str:
        return f"shown/{self.sha256[:2]}/{self.sha256}.webp"

    @property
    def full(self) -> str:
        extension = EXTENSIONS[self.format] if self.format in _SHOWN_BY_BROWSERS else ".png"
        return f"pictures/{self.sha256[:2]}/{self.sha256}{extension}"

    def pixels(self) -> Pixels | Failure:
        return read_pixels(self.path)


class PictureStore:
    """Every picture that chunks have named so far, by the paths under which pages ask for them.

    With a folder, pictures are put there when they are first named; a live server has none, and makes thumbnails when
    they are asked for.
    """

    def __init__(self, wanted: Wanted = "full", folder: Path | None = None) -> None:
        self.wanted = wanted
        self.folder = folder
        self.written: set[str] = set()
        """Names of the files in the folder that this site needs."""
        self.thumbs: dict[str, PictureFile] = {}
        self.full: dict[str, PictureFile] = {}
        self.broken: dict[str, str] = {}
        """Pictures that cannot be shown, with the reason, by their names."""
        self.absent: set[str] = set()
        """Names of pictures that are not at hand."""
        self._known: dict[Path, PictureFile | Failure] = {}
        self._pool = ThreadPoolExecutor(max(2, cores()), thread_name_prefix="refbench-pictures")

    def warm(self, paths: Iterable[Path]) -> None:
        """Look at many pictures at once, in threads; what is asked for afterwards is known."""
        list(self._pool.map(self._file_at, dict.fromkeys(path for path in paths if path not in self._known)))

    def inputs(self, pictures: Sequence[Picture], root: Path | None, recorded: Recorded) -> list[PictureView]:
        """Pictures of a case. Those that are not at hand, or are not the ones that were used, stay empty."""
        return [
            self._view(picture.role, picture.name, self.input_file(picture, root, recorded)) for picture in pictures
        ]

    def outputs(self, pictures: Sequence[StoredPicture], run: Run, name: str) -> list[PictureView]:
        """Pictures that a model made, from the run's blobs."""
        names = [name if len(pictures) == 1 else f"{name} {number}" for number in range(1, len(pictures) + 1)]
        return [
            self._view("output", title, self.output_file(picture, run))
            for title, picture in zip(names, pictures, strict=True)
        ]

    def variant(self, path: Path, role: str) -> PictureView:
        """A picture of an audit's variants, whose file is named by the hash of its content."""
        return self._view(role, "", self._same(path.name, self._file_at(path), {path.stem}))

    def glance(self, file: PictureFile | None, role: str, name: str) -> PictureView | None:
        """A picture of the overview, which is the first page that people load: as a thumbnail in every site; None where
        there is none to show."""
        if file is None:
            return None
        if self.folder is not None and not self._put(file.thumb, partial(thumbnail, file), self.folder):
            return None
        self.thumbs[file.thumb] = file
        return PictureView(
            role=role, name=name, thumb=file.thumb, full=file.thumb, width=file.width, height=file.height
        )

    def small(self, file: PictureFile) -> Path:
        """A file that shows the picture at the size of a thumbnail, or the picture itself where none is kept."""
        kept = self.folder / self._name(file) if self.folder is not None else _cached(file, THUMB)
        if kept is None or (not kept.is_file() and isinstance(thumbnail(file), Failure)) or not kept.is_file():
            return file.path
        return kept

    def close(self) -> None:
        self._pool.shutdown()

    def input_file(self, picture: Picture, root: Path | None, recorded: Recorded) -> PictureFile | None:
        """A picture of a case, if it is at hand, can be shown, and is the one that was used: `recorded` has the hashes
        that runs noted when they opened it, by name."""
        path = root / picture.name if root is not None else None
        if path is None or not path.is_file():
            self.absent.add(picture.name)
            return None
        return self._same(picture.name, self._file_at(path), hashes_of(picture, recorded))

    def output_file(self, picture: StoredPicture, run: Run) -> PictureFile | None:
        """A picture that a model made, if its blob is there and whole."""
        path = run.blobs.path(picture.sha256, picture.format)
        return self._same(path.name, self._file_at(path), {picture.sha256})

    def _same(self, name: str, file: PictureFile | Failure, hashes: Collection[str]) -> PictureFile | None:
        """The picture, if it can be shown and is the one that was recorded: another one would be a wrong answer."""
        if isinstance(file, Failure):
            self.broken[name] = file.detail
            return None
        if any(sha256 != file.sha256 for sha256 in hashes):
            self.broken[name] = "it is not the picture that was recorded: its content has another hash"
            return None
        return file

    def _file_at(self, path: Path) -> PictureFile | Failure:
        known = self._known.get(path)
        if known is None:
            data = picture_bytes(path)
            facts = data if isinstance(data, Failure) else facts_of(data)
            if isinstance(facts, Failure):
                known = facts
            else:
                size = (facts.width, facts.height) if facts.orientation < 5 else (facts.height, facts.width)
                known = PictureFile(path, facts.sha256, facts.format, *size)
                if self.folder is not None and not self._keep(known, self.folder):
                    known = Failure(kind="unreadable_picture", detail="its pixels cannot be decoded")
            self._known[path] = known
        return known

    def _keep(self, file: PictureFile, folder: Path) -> bool:
        """Put the thumbnail and the file into the folder, each once; False where the picture cannot be decoded."""
        small = shown_picture if self.wanted == "shown" else thumbnail
        done = self._put(self._name(file), partial(small, file), folder)
        return done and (self.wanted != "full" or self._put(file.full, partial(full_picture, file), folder))

    def _put(self, name: str, make: Callable[[], bytes | Failure], folder: Path) -> bool:
        path = folder / name
        if not path.exists():  # of an earlier site: same name, same bytes
            data = make()
            if isinstance(data, Failure):
                return False
            try:
                write_whole(path, data, flush=False)
            except OSError as error:
                raise disk_error(error, folder) from error
        self.written.add(name)
        return True

    def _view(self, role: str, name: str, file: PictureFile | None) -> PictureView:
        if file is None:
            return PictureView(role=role, name=name, thumb="", full="", width=0, height=0)
        small = full = self._name(file)
        self.thumbs[small] = file
        if self.wanted == "full":
            full = file.full
            self.full[full] = file
        return PictureView(role=role, name=name, thumb=small, full=full, width=file.width, height=file.height)

    def _name(self, file: PictureFile) -> str:
        """Under which name pages ask for the picture where it is small."""
        return file.shown if self.wanted == "shown" else file.thumb


def hashes_of(picture: Picture, recorded: Recorded) -> set[str]:
    """Every hash that a picture of a case must have: what its benchmark says, and what the runs noted."""
    return {*recorded.get(picture.name, ()), *([picture.sha256] if picture.sha256 else [])}


def thumbnail(file: PictureFile) -> bytes | Failure:
    """A JPEG of at most THUMB pixels."""
    return _scaled(file, THUMB, "jpeg")


def shown_picture(file: PictureFile) -> bytes | Failure:
    """A WebP of at most SHOWN pixels: three fifths of the bytes of a JPEG that looks the same."""
    return _scaled(file, SHOWN, "webp")


def _scaled(file: PictureFile, side: int, kind: Literal["jpeg", "webp"]) -> bytes | Failure:
    """A picture of at most so many pixels, from the user's cache or made now and put there."""
    place = _cached(file, side, kind)
    if place is not None:
        with contextlib.suppress(OSError):
            return place.read_bytes()
    pixels = file.pixels()
    if isinstance(pixels, Failure):
        return pixels
    height, width = pixels.shape[:2]
    scale = min(1.0, side / max(width, height))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    # Box by whole factors first: eight times as fast as one step from 4,000 pixels, and not to be told apart.
    data = encode(resize(_reduced(pixels, size), size, "bilinear"), kind, quality=_QUALITY[kind])
    if place is not None:
        with contextlib.suppress(OSError):  # where it cannot be kept, it is made again
            write_whole(place, data, flush=False)
    return data


def full_picture(file: PictureFile) -> bytes | Failure:
    """The file as it is, or as PNG where browsers do not show its format."""
    if file.format in _SHOWN_BY_BROWSERS:
        return picture_bytes(file.path)
    pixels = file.pixels()
    return pixels if isinstance(pixels, Failure) else encode(pixels, "png")


def _reduced(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    factor = min(pixels.shape[1] // size[0], pixels.shape[0] // size[1]) // 2
    if factor < 2:
        return pixels
    return resize(pixels, (max(1, pixels.shape[1] // factor), max(1, pixels.shape[0] // factor)), "box")


def _cached(file: PictureFile, side: int, kind: str = "jpeg") -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder.parent / "thumbs" / file.sha256[:2] / f"{file.sha256}-{side}.{kind}"
