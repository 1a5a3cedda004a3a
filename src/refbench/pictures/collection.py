"""A user's pictures: found, checked, hashed, and grouped by looks, so that no two splits hold the same one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.machine import MACHINE_ERRORS, cores
from refbench.pictures import EXTENSIONS, Pixels, decode, facts_of, regular_bytes, resize
from refbench.record import Record, RefBenchError, clean_text

LEAST_SIDE = 64
"""Pixels of the shorter side below which a picture is of no use to anybody."""
SAME_LOOKS = 10
"""Bits of 64 in which near-duplicates may differ. 123 photographs differ from themselves by at most 2 bits as JPEG of
quality 20, 6 at a quarter of the size, 4 when a tenth brighter, 10 when cropped by 2 % a side; of their 7,503 pairs
the nearest differ by 16. A crop of 5 % a side (up to 18) and a mirror image are not recognised."""
_PAIRS = 1 << 20
"""Pairs of looks compared at a time: 8 MB, however many pictures there are."""
_MANY = 50_000
"""Different looks above which comparing by pieces is the faster way."""
_NAMES = frozenset(EXTENSIONS.values()) | {".jpeg", ".tif"}


class Found(Record):
    """A picture that can be used. `name` is its path below the folder; `looks` a hash that near-duplicates share."""

    name: str
    sha256: str
    width: int
    height: int
    format: str
    looks: int


class Skipped(Record):
    """A file that cannot be used, and why."""

    name: str
    kind: str
    """unreadable, tiny, huge, animated, duplicate"""
    reason: str


@dataclass(frozen=True)
class Collection:
    """The pictures below `root`, in the order of their names."""

    root: Path
    found: tuple[Found, ...]
    skipped: tuple[Skipped, ...]

    def path(self, picture: Found) -> Path:
        return self.root / picture.name


def collect(root: Path, *, least_side: int = LEAST_SIDE, names: Sequence[str] | None = None) -> Collection:
    """Look at every picture below `root` (or at those named); the same bytes under another name are skipped."""
    if not root.is_dir():
        raise RefBenchError(f"{root} is not a folder of pictures")
    chosen = picture_names(root) if names is None else list(names)
    with ThreadPoolExecutor(cores()) as threads:
        looked = list(threads.map(lambda name: look(root, name, least_side), chosen))
    return distinct(root, looked)


def picture_names(root: Path) -> list[str]:
    """Paths below `root` of all files that call themselves pictures, in order."""
    return sorted(_walk(root))


def distinct(root: Path, looked: Iterable[Found | Skipped]) -> Collection:
    """The pictures that can be used, each content once: under its first name."""
    usable: dict[str, Found] = {}
    skipped: list[Skipped] = []
    for one in looked:
        if isinstance(one, Skipped):
            skipped.append(one)
        elif one.sha256 in usable:
            first = usable[one.sha256].name
            skipped.append(Skipped(name=one.name, kind="duplicate", reason=f"the same file as {first}"))
        else:
            usable[one.sha256] = one
    return Collection(root, tuple(usable.values()), tuple(skipped))


def _walk(root: Path) -> Iterator[str]:
    """Names of all files that call themselves pictures. A directory is entered once, however many links lead there."""
    entered: set[tuple[int, int]] = set()
    for folder, below, files in os.walk(root, followlinks=True):
        here = Path(folder).stat()
        if (here.st_dev, here.st_ino) in entered:
            below.clear()
            continue
        entered.add((here.st_dev, here.st_ino))
        for file in files:
            if Path(file).suffix.lower() in _NAMES and not file.startswith("."):
                yield os.path.relpath(os.path.join(folder, file), root).replace(os.sep, "/")  # noqa: PTH118


def look(root: Path, name: str, least_side: int = LEAST_SIDE) -> Found | Skipped:
    """What the file is, or why it cannot be used; whether another one is the same is not known here."""
    shown = clean_text(name)
    try:
        data = regular_bytes(root / name)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte, from a table
        number, why = getattr(error, "errno", None), getattr(error, "strerror", None) or "cannot be read"
        if number in MACHINE_ERRORS:  # a dataset without it would be another dataset
            raise RefBenchError(f"{root / shown} cannot be read just now ({why}): run the command again") from error
        return Skipped(name=shown, kind="huge" if number == errno.EFBIG else "unreadable", reason=why)
    facts = facts_of(data)
    if isinstance(facts, Failure):
        return _failed(shown, facts)
    if shown != name:
        return Skipped(name=shown, kind="unreadable", reason="its name is not UTF-8")
    if facts.animated:
        return Skipped(name=shown, kind="animated", reason="it has several frames")
    if min(facts.width, facts.height) < least_side:
        return Skipped(name=shown, kind="tiny", reason=f"{facts.width} x {facts.height} pixels")
    pixels = decode(data, facts=facts)
    if isinstance(pixels, Failure):
        return _failed(shown, pixels)
    return Found(
        name=name,
        sha256=facts.sha256,
        width=facts.width,
        height=facts.height,
        format=facts.format,
        looks=looks_of(pixels),
    )


def _failed(shown: str, failure: Failure) -> Skipped:
    if failure.kind == "machine_error":
        raise RefBenchError(f"{shown}: {failure.detail}: run the command again")
    return Skipped(
        name=shown, kind="huge" if failure.detail.endswith("pixels") else "unreadable", reason=failure.detail
    )


def looks_of(pixels: Pixels) -> int:
    """64 bits: which of the lowest frequencies of the grey picture (its mean apart) are above their median."""
    small = resize(pixels, (32, 32), "box").astype(np.float32)
    grey = small @ np.array([0.299, 0.587, 0.114], np.float32) if small.ndim == 3 else small
    low = cv2.dct(np.ascontiguousarray(grey))[:8, :8].ravel()
    bits = low > np.median(low[1:])
    bits[0] = False
    return int(np.packbits(bits).view(">u8")[0])


def lookalikes(looks: Sequence[int], most: int = SAME_LOOKS) -> NDArray[np.intp]:
    """The number of each picture's group: pictures whose looks differ by at most `most` bits, and theirs, are one."""
    # Of equal looks one stands for all: a thousand frames of one film would otherwise be a million pairs.
    bits, first, place = np.unique(np.array(looks, dtype=np.uint64), return_index=True, return_inverse=True)
    group = np.arange(len(bits), dtype=np.intp)

    def head(i: int) -> int:
        while group[i] != i:
            group[i] = group[group[i]]
            i = int(group[i])
        return i

    for one, other in (_near_by_piece if len(bits) > _MANY else _near)(bits, most):
        apart = group[one] != group[other]  # of pairs known to be together already nothing is left to do
        for i, j in zip(one[apart].tolist(), other[apart].tolist(), strict=True):
            a, b = head(i), head(j)
            if a != b:
                group[max(a, b)] = min(a, b)
    heads = np.array([head(i) for i in range(len(bits))], dtype=np.intp)
    # Numbered in the order in which the groups come up, not in that of their bits.
    earliest = np.full(len(bits), len(place), dtype=np.intp)
    np.minimum.at(earliest, heads, first)
    return np.unique(earliest[heads][place], return_inverse=True)[1].astype(np.intp)


Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]


def _near(bits: NDArray[np.uint64], most: int) -> Iterator[Pairs]:
    """The pairs that differ by at most `most` bits, as places in `bits`: every pair is looked at."""
    rows = max(1, _PAIRS // max(len(bits), 1))
    for start in range(0, len(bits), rows):
        one, other = np.nonzero(np.bitwise_count(bits[start : start + rows, None] ^ bits[None, start:]) <= most)
        yield one + start, other + start


def _near_by_piece(bits: NDArray[np.uint64], most: int) -> Iterator[Pairs]:
    """The same pairs, some more than once: of four pieces of 16 bits one at least differs by no more than a quarter of
    `most`, so that only looks with such a piece are compared. Of random looks that is one pair in 120."""
    places = range(most // 4 + 1)
    flips = np.array([sum(1 << bit for bit in some) for n in places for some in combinations(range(16), n)])
    for piece in range(0, 64, 16):
        keys = (bits >> np.uint64(piece) & np.uint64(0xFFFF)).astype(np.intp)
        order = np.argsort(keys, kind="stable")
        starts = np.searchsorted(keys[order], np.arange((1 << 16) + 1))
        sorted_bits = bits[order]
        for key in np.unique(keys):
            near_keys = key ^ flips
            near_keys = near_keys[near_keys >= key]
            lengths = starts[near_keys + 1] - starts[near_keys]
            candidates = np.arange(lengths.sum()) + np.repeat(starts[near_keys] - lengths.cumsum() + lengths, lengths)
            others = sorted_bits[candidates]
            rows = max(1, _PAIRS // len(candidates))
            for start in range(starts[key], starts[key + 1], rows):
                mine = sorted_bits[start : min(start + rows, starts[key + 1])]
                one, other = np.nonzero(np.bitwise_count(mine[:, None] ^ others) <= most)
                yield order[start + one], order[candidates[other]]
