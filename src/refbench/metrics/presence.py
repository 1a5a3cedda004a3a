"""Whether something of a reference is anywhere in an output: as a thing that a detector names, or as a part that looks
like it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Value, metric
from refbench.metrics.similarity import cosine
from refbench.networks import Feature, Network
from refbench.pictures import Pixels

_SURE = 0.3
"""Score from which on a detection counts."""
_PARTS = (1, 2, 3)
"""Windows are the picture, its halves and its thirds, each overlapping the next by half."""


@metric("object_count", better="higher", range=(0, None), of={"output": "yolov4_tiny", "reference": "yolov4_tiny"})
def object_count(output: Feature, reference: Feature) -> Value:
    """How many things of the reference's surest kind the output has, for each of those that the reference has."""
    if not len(reference["labels"]) or float(reference["scores"][0]) < _SURE:
        return Failure(kind="no_detection", detail="no object was found in the reference")
    kind = str(reference["labels"][0])
    there, wanted = (_count(side, kind) for side in (output, reference))
    return there / wanted


def _count(objects: Feature, kind: str) -> int:
    found = zip(objects["labels"], objects["scores"], strict=True)
    return sum(str(label) == kind and float(score) >= _SURE for label, score in found)


@metric("reference_found", better="higher", range=(-1, 1), of={"features": "mobilenet_v2", "masks": "u2netp"})
def reference_found(output: Pixels, reference: Pixels, features: Network, masks: Network) -> Value:
    """Cosine of the embeddings of the reference's subject, on white, and of the window of the output that is most like
    it; of a reference in which nothing stands out, of its whole."""
    subject = features([_subject(reference, masks)])[0]
    if isinstance(subject, Failure):
        return subject
    found = [cosine(subject["vector"], vector) for vector in _windows(output, features)]
    alike = [one for one in found if not isinstance(one, Failure)]
    return max(alike) if alike else Failure(kind="undefined", detail="the network gave no vector with a direction")


def _subject(reference: Pixels, masks: Network) -> Pixels:
    seen = masks([reference])[0]
    if isinstance(seen, Failure):
        return reference
    inside = np.asarray(seen["mask"]) > 0
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    if not rows.size:
        return reference
    alone = np.where(inside[..., None], reference, np.uint8(255))
    return np.ascontiguousarray(alone[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])


class _Output:
    """An output, known by its pixels, so that its windows are looked at once for all references."""

    def __init__(self, pixels: Pixels, features: Network) -> None:
        self.pixels, self.features = pixels, features
        self._known = hashlib.sha256(pixels.tobytes()).digest(), pixels.shape, id(features)

    def __hash__(self) -> int:
        return hash(self._known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Output) and self._known == other._known


def _windows(output: Pixels, features: Network) -> tuple[NDArray[np.float32], ...]:
    return _vectors(_Output(output, features))


@lru_cache(maxsize=4)
def _vectors(output: _Output) -> tuple[NDArray[np.float32], ...]:
    found = output.features([*_parts_of(output.pixels)])
    return tuple(one["vector"] for one in found if not isinstance(one, Failure))


def _parts_of(pixels: Pixels) -> Iterator[Pixels]:
    for parts in _PARTS:
        height, width = max(1, pixels.shape[0] // parts), max(1, pixels.shape[1] // parts)
        for row in range(2 * parts - 1):
            for column in range(2 * parts - 1):
                top, left = row * height // 2, column * width // 2
                yield np.ascontiguousarray(pixels[top : top + height, left : left + width])
