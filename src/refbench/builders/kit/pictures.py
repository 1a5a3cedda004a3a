"""The user's pictures as a benchmark can ship them: one of each looks, unlike names, plain RGB files."""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from refbench.benchmarks.creval.cases import nfc
from refbench.builders.kit.dropped import DroppedItems
from refbench.failure import Failure
from refbench.pictures import EXTENSIONS, PictureFacts, Pixels, decode, encode, facts_of, picture_bytes
from refbench.pictures.collection import Found, collect, lookalikes
from refbench.record import RefBenchError
from refbench.runs.disk import write_whole

_SHIPPED_AS_THEY_ARE = frozenset({"jpeg", "png", "webp"})
"""What the released scripts, browsers and all providers take."""
_LONGEST_STEM = 180
_NOT_IN_NAMES = re.compile(r"[^\w.&()+,=@~'-]|^[.\s-]+")


@dataclass(frozen=True)
class SourcePicture:
    """A picture as it will be shipped: plain RGB under an extension that tells its format."""

    name: str
    """Path below the user's folder."""
    stem: str
    path: Path
    """The bytes to ask about and to ship: the user's own file, or a plain copy of it."""
    extension: str
    size: tuple[int, int]
    sha256: str
    """Of the user's own file."""
    looks: int
    """A hash that near-duplicates share."""
    copied: bool = False
    """Whether it had to be encoded again as plain RGB."""


def distinct_pictures(source: Path, dropped: DroppedItems) -> list[Found]:
    """The largest picture of each look below the source; the others are put on record as dropped."""
    collection = collect(source)
    for skipped in collection.skipped:
        picture = skipped.name if skipped.kind in ("tiny", "animated", "duplicate") else ""
        dropped.add("pictures", "picture", skipped.name, skipped.kind, skipped.reason, picture=picture)
    groups: dict[int, list[Found]] = defaultdict(list)
    for found, group in zip(collection.found, lookalikes([one.looks for one in collection.found]), strict=True):
        groups[int(group)].append(found)
    kept: list[Found] = []
    for members in groups.values():
        best = min(members, key=lambda one: (-one.width * one.height, one.name))
        kept.append(best)
        for other in members:
            if other is not best:
                said = f"looks like {best.name}"
                dropped.add("pictures", "picture", other.name, "near-duplicate", said, picture=other.name)
    if not kept:
        raise no_pictures(source, dropped)
    return kept


def no_pictures(source: Path, dropped: DroppedItems) -> RefBenchError:
    """Why no picture of a folder can be used."""
    reasons = dropped.counts().get("pictures", {})
    why = ", ".join(f"{number} {reason}" for reason, number in reasons.items()) or "there are none in it"
    return RefBenchError(f"{source} holds no picture that can be used: {why}")


def stems(pictures: Iterable[Found]) -> dict[str, str]:
    """The name in the dataset of each picture: its own stem, unless that is no good file name or taken."""
    plain = {one.name: _NOT_IN_NAMES.sub("_", Path(one.name).stem) for one in pictures}
    hashes = {one.name: one.sha256[:8] for one in pictures}
    times = Counter(_folded(stem) for stem in plain.values())
    found: dict[str, str] = {}
    for name, stem in plain.items():
        own = times[_folded(stem)] == 1 and stem == Path(name).stem and len(stem.encode()) <= _LONGEST_STEM
        short = stem.encode()[: _LONGEST_STEM - 9].decode("utf-8", "ignore")
        found[name] = stem if own else f"{short}-{hashes[name]}"
    return found


def plain_picture(root: Path, found: Found, stem: str, folder: Path) -> SourcePicture | Failure:
    """The picture as it is, or a plain RGB copy in `folder`: no palette, no alpha, no rotation tag, no profile.

    Each of these makes viewers, models and judges see different pictures.
    """
    path = root / found.name
    data = picture_bytes(path)
    if isinstance(data, Failure):
        return data
    facts = facts_of(data)
    if isinstance(facts, Failure):
        return facts
    odd = facts.mode != "RGB" or facts.orientation != 1 or facts.icc or facts.animated
    copied = odd or facts.format not in _SHIPPED_AS_THEY_ARE
    if copied:
        pixels = decode(data, facts=facts)
        if isinstance(pixels, Failure):
            return pixels
        pixels = _standard_colours(pixels, data, facts)
        kind: Literal["jpeg", "png"] = "jpeg" if facts.format == "jpeg" else "png"
        data = encode(pixels, kind)
        path = folder / f"{stem}{EXTENSIONS[kind]}"
        if not path.exists() or path.read_bytes() != data:
            write_whole(path, data)
        made = facts_of(data)
        assert not isinstance(made, Failure)
        facts = made
    size = (facts.width, facts.height)
    return SourcePicture(found.name, stem, path, EXTENSIONS[facts.format], size, found.sha256, found.looks, copied)


def _standard_colours(pixels: Pixels, data: bytes, facts: PictureFacts) -> Pixels:
    """Colours of a wide-gamut file (most telephones) as sRGB; the profile is not shipped, so it is applied here."""
    if not facts.icc or facts.mode not in ("RGB", "RGBA", "P"):
        return pixels
    from PIL import Image, ImageCms

    try:
        with Image.open(io.BytesIO(data)) as opened:
            profile = ImageCms.ImageCmsProfile(io.BytesIO(opened.info["icc_profile"]))
        standard = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
        converted = ImageCms.profileToProfile(Image.fromarray(pixels), profile, standard, outputMode="RGB")
    except (ImageCms.PyCMSError, KeyError, OSError, ValueError):  # a profile nobody can use is no profile
        return pixels
    return pixels if converted is None else np.asarray(converted, np.uint8)


def _folded(stem: str) -> str:
    """File systems that ignore case or decompose accents would put two such pictures into one file."""
    return nfc(stem).casefold()
