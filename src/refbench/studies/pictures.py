"""The pictures that raters are sent: encoded anew from pixels alone, all in one format, so that neither metadata nor
the kind of file tells who made them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from refbench.failure import Failure
from refbench.pictures import decode, encode, facts_of, picture_bytes, resize
from refbench.runs.disk import disk_error, write_whole
from refbench.studies.items import ItemPicture

PICTURE_TYPE = "image/jpeg"
"""The type of every picture that is sent."""
_QUALITY = 95
_FOLDER = "shown"


class ShownPictures:
    """The pictures of a study as they are sent, each made once and kept in its folder."""

    def __init__(self, folder: Path, side: int) -> None:
        self._folder, self._side = folder / _FOLDER, side
        self._root = folder
        self._sizes: dict[str, tuple[int, int]] = {}
        self._decoded: set[str] = set()
        """Hashes of what is kept and was found to be a picture."""

    def there(self, picture: ItemPicture) -> bool:
        """Whether its file lies where it did, or it was made before."""
        return (self._root / picture.file).is_file() or self._place(picture).is_file()

    def _place(self, picture: ItemPicture) -> Path:
        return self._folder / picture.sha256[:2] / f"{picture.sha256}-{self._side}.jpg"

    def data(self, picture: ItemPicture) -> bytes | Failure:
        """The picture as raters are sent it. A file that is not what it was when the study was made is a Failure."""
        kept = self._place(picture)
        linked = next((folder for folder in (self._folder, kept.parent) if folder.is_symlink()), None)
        if linked is not None:
            return Failure(kind="unreadable_picture", detail=f"{linked} is a link: remove it")
        found = self._kept(kept)
        if found is not None:
            return found
        made = self._made(picture)
        if isinstance(made, bytes):
            try:
                write_whole(kept, made, flush=False)
            except OSError as error:
                raise disk_error(error, kept) from error
        return made

    def size(self, picture: ItemPicture) -> tuple[int, int]:
        """Width and height as it is sent; 0 and 0 where it cannot be opened."""
        if picture.sha256 not in self._sizes:
            data = self.data(picture)
            pixels = decode(data) if isinstance(data, bytes) else data
            self._sizes[picture.sha256] = (0, 0) if isinstance(pixels, Failure) else (pixels.shape[1], pixels.shape[0])
        return self._sizes[picture.sha256]

    def _kept(self, path: Path) -> bytes | None:
        """What was made before; None where nothing was, and where it is anything but a picture as we send it: a
        study's folder may be from elsewhere, and must not choose which of our files is sent."""
        data = None if path.is_symlink() else picture_bytes(path)
        if not isinstance(data, bytes):
            return None
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in self._decoded:
            facts = facts_of(data)
            if isinstance(facts, Failure) or facts.format != "jpeg" or isinstance(decode(data), Failure):
                return None
            self._decoded.add(sha256)
        return data

    def _made(self, picture: ItemPicture) -> bytes | Failure:
        data = picture_bytes(self._root / picture.file)
        if isinstance(data, Failure):
            return data
        if hashlib.sha256(data).hexdigest() != picture.sha256:
            return Failure(kind="unreadable_picture", detail=f"{picture.file} is not the picture that the study has")
        pixels = decode(data)
        if isinstance(pixels, Failure):
            return pixels
        height, width = pixels.shape[:2]
        scale = min(1.0, self._side / max(height, width))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        return encode(resize(pixels, size, "lanczos"), "jpeg", quality=_QUALITY)
