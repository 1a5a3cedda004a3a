"""The pictures of a build: the user's and those made to fill gaps, one of each looks, as plain files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.builders.pictures import distinct_pictures, plain_picture
from refbench.collection import SAME_LOOKS, Collection, Found
from refbench.failure import Failure
from refbench.workshop import DroppedItems


@dataclass(frozen=True)
class PlainPicture:
    """A picture that can be shown and shipped as it is. `sha256` is that of the file it comes from."""

    name: str
    sha256: str
    path: Path
    extension: str
    width: int
    height: int
    looks: int
    made_by: str = ""
    """The model that painted it; empty for a picture of the user's."""
    made_from: str = ""
    """What the model was told."""

    @property
    def origin(self) -> str:
        """The word for from_where.csv."""
        return "generated" if self.made_by else "real"

    @property
    def shown(self) -> str:
        """Its path in the source, for the card; one that was made does not lie there."""
        return "" if self.made_by else self.name

    @property
    def about(self) -> str:
        """What its replies are filed under."""
        return f"picture {self.sha256[:16]}"


def user_pictures(collection: Collection, work: Path, dropped: DroppedItems) -> list[PlainPicture]:
    """The usable pictures of a collection, the largest of those that look alike; the rest goes on record."""
    found: list[PlainPicture] = []
    for one in sorted(distinct_pictures(collection, dropped), key=lambda one: one.name):
        plain = plainly(collection.root, one, work, one.name)
        if isinstance(plain, Failure):
            dropped.add("pictures", "picture", one.name, "unreadable", plain.detail)
        else:
            found.append(plain)
    return found


def plainly(
    root: Path, one: Found, work: Path, name: str, made_by: str = "", made_from: str = ""
) -> PlainPicture | Failure:
    """The file itself, or a plain RGB copy of it in the work folder."""
    plain = plain_picture(root, one.name, one.sha256[:20], work / "pictures")
    if isinstance(plain, Failure):
        return plain
    width, height = plain.size
    return PlainPicture(name, one.sha256, plain.path, plain.extension, width, height, one.looks, made_by, made_from)


def lookalike(looks: int, others: Sequence[PlainPicture]) -> PlainPicture | None:
    """A picture among the others that looks the same."""
    return next((one for one in others if (one.looks ^ looks).bit_count() <= SAME_LOOKS), None)
