"""Bad references made of good ones, for training alone: people's marks crowd at 4 and 5, and a judge that has seen no
bad reference knows none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refbench.builders.filter_judge.marks import LEVELS, MarkedReference, axes_of
from refbench.builders.kit.draws import draw, pick, shuffled
from refbench.pictures import Pixels, resize

STRUCTURE = frozenset({"canny", "sketch", "depth", "semantic_map", "mask", "bbox", "pose"})
"""Types that lie over their original: another picture's, moved or mirrored, they are wrong. Another subject or style
may be the same one, so none is made of these."""
GOOD = 4
"""The lowest mean mark on every axis of a reference from which a bad one is made."""
_LEAST_CHANGE = 0.5
"""Of a picture's deviation from its commonest level: a mask that mirrors onto itself is no negative."""
_LABELS: Mapping[str, tuple[float, ...]] = {
    "swapped": (0.75, 0.25, 0, 0, 0),
    "mirrored": (0.6, 0.4, 0, 0, 0),
    "shifted": (0.25, 0.75, 0, 0, 0),
    "halved": (0.25, 0.75, 0, 0, 0),
}
"""What is said of the first axis. Quality stays what people said: a shifted edge map is as clean as before."""


@dataclass(frozen=True)
class MadeReference:
    """A bad reference: what it was made of and how, and the labels of its axes."""

    of: MarkedReference
    way: str
    pixels: Pixels | None
    """None where the other picture's own file, or a caption, is taken."""
    other: MarkedReference | None
    labels: Mapping[str, tuple[float, ...]]


def label_of(marks: Mapping[str, int]) -> tuple[float, ...]:
    """The raters' distribution over the five levels."""
    values = list(marks.values())
    return tuple(values.count(level) / len(values) for level in LEVELS)


def _shifted(pixels: Pixels) -> Pixels:
    """A tenth to the right and down, what is left free in the picture's commonest colour."""
    height, width = pixels.shape[:2]
    down, right = max(1, height // 10), max(1, width // 10)
    moved = np.empty_like(pixels)
    moved[:] = _commonest(pixels)
    moved[down:, right:] = pixels[:-down, :-right]
    return moved


def _halved(pixels: Pixels) -> Pixels:
    """The half with more in it emptied."""
    ground, middle = _commonest(pixels), pixels.shape[1] // 2
    left = bool(_apart(pixels[:, :middle], ground) * middle >= _apart(pixels[:, middle:], ground) * middle)
    emptied = pixels.copy()
    emptied[:, slice(None, middle) if left else slice(middle, None)] = ground
    return emptied


def _mirrored(pixels: Pixels) -> Pixels:
    return np.ascontiguousarray(pixels[:, ::-1])


_WAYS: Mapping[str, Callable[[Pixels], Pixels]] = {"shifted": _shifted, "mirrored": _mirrored, "halved": _halved}


def _commonest(pixels: Pixels) -> Pixels:
    colours, counts = np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0, return_counts=True)
    found: Pixels = colours[counts.argmax()]
    return found


def _apart(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(np.int16) - other.astype(np.int16)).mean()) if one.size else 0.0


def _changed(before: Pixels, after: Pixels) -> bool:
    spread = _apart(before, _commonest(before))
    return spread > 0 and _apart(before, after) > _LEAST_CHANGE * spread


def made_negatives(
    training: Sequence[MarkedReference],
    groups: Mapping[str, int],
    read: Callable[[MarkedReference], Pixels],
    share: float,
    seed: int,
) -> list[MadeReference]:
    """At most this share of the training part, of good references of it, in an order drawn by the seed. `groups` says
    which samples hang together: another picture's reference comes from another group."""
    room = int(share / (1 - share) * len(training) + 1e-9)
    good = [sample for sample in training if _is_good(sample) and sample.type in STRUCTURE | {"caption"}]
    made: list[MadeReference] = []
    for sample in shuffled(good, seed, "negatives"):
        if len(made) == room:
            break
        ways = shuffled(["swapped", *(_WAYS if sample.type in STRUCTURE else ())], seed, "way", sample.id)
        for way in ways:
            one = _made(sample, way, good, groups, read, seed)
            if one is not None:
                made.append(one)
                break
    return made


def _is_good(sample: MarkedReference) -> bool:
    return all(np.mean(list(marks.values())) >= GOOD for marks in sample.marks.values())


def _made(
    sample: MarkedReference,
    way: str,
    good: Sequence[MarkedReference],
    groups: Mapping[str, int],
    read: Callable[[MarkedReference], Pixels],
    seed: int,
) -> MadeReference | None:
    first, *rest = axes_of(sample.type)
    labels = {axis: label_of(sample.marks[axis]) for axis in rest}
    if way != "swapped":
        before = read(sample)
        after = _WAYS[way](before)
        return (
            MadeReference(sample, way, after, None, {first: _LABELS[way], **labels})
            if _changed(before, after)
            else None
        )
    others = [o for o in good if o.type == sample.type and groups[o.id] != groups[sample.id]]
    if not others:
        return None
    other = others[pick(len(others), seed, "other", draw(seed, sample.id))]
    if sample.type == "caption":
        if other.caption.casefold() == sample.caption.casefold():
            return None
    else:
        mine, theirs = read(sample), read(other)
        if not _changed(mine, resize(theirs, (mine.shape[1], mine.shape[0]), "nearest")):
            return None
    return MadeReference(sample, way, None, other, {first: _LABELS[way], **{a: label_of(other.marks[a]) for a in rest}})
