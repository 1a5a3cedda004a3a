"""What can be extracted from a picture, as data, and the one call that does it by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.extractors.bbox import NETWORK as BOX_NETWORK
from refbench.extractors.bbox import Box, bbox
from refbench.extractors.canny import canny
from refbench.extractors.depth import NETWORK as DEPTH_NETWORK
from refbench.extractors.depth import depth
from refbench.extractors.mask import NETWORK as MASK_NETWORK
from refbench.extractors.mask import mask
from refbench.extractors.pose import NETWORK as POSE_NETWORK
from refbench.extractors.pose import pose
from refbench.extractors.semantic_map import NETWORK as MAP_NETWORK
from refbench.extractors.semantic_map import semantic_map
from refbench.extractors.sketch import NETWORK as SKETCH_NETWORK
from refbench.extractors.sketch import sketch, sketch_dodge
from refbench.failure import Failure
from refbench.pictures import Pixels, encode


@dataclass(frozen=True)
class Extracted:
    """What was extracted: a picture, with the box where there is one."""

    pixels: NDArray[np.uint8]
    box: Box | None = None

    def png(self) -> bytes:
        """As a file: one channel where the reference has one."""
        if self.pixels.ndim == 3:
            return encode(self.pixels)
        return cv2.imencode(".png", self.pixels)[1].tobytes()


@dataclass(frozen=True)
class Extractor:
    """One kind of reference that can be taken from a picture."""

    name: str
    summary: str
    networks: tuple[str, ...] = ()
    gives: str = "picture"
    run: Callable[[Pixels, int, str], Extracted | Failure] | None = None
    """From pixels, seed and device; None for `caption`, which asks a VLM."""


def _plain(function: Callable[[Pixels], NDArray[np.uint8]]) -> Callable[[Pixels, int, str], Extracted | Failure]:
    return lambda pixels, seed, device: Extracted(function(pixels))


def _mask(pixels: Pixels, seed: int, device: str) -> Extracted | Failure:
    found = mask(pixels, device)
    return found if isinstance(found, Failure) else Extracted(found)


def _bbox(pixels: Pixels, seed: int, device: str) -> Extracted | Failure:
    found = bbox(pixels, device=device)
    return found if isinstance(found, Failure) else Extracted(*found)


def _pose(pixels: Pixels, seed: int, device: str) -> Extracted | Failure:
    found = pose(pixels, seed, device)
    return found if isinstance(found, Failure) else Extracted(found)


def _depth(pixels: Pixels, seed: int, device: str) -> Extracted | Failure:
    found = depth(pixels, device=device)
    return found if isinstance(found, Failure) else Extracted(found)


def _sketch(pixels: Pixels, seed: int, device: str) -> Extracted | Failure:
    found = sketch(pixels, device)
    return found if isinstance(found, Failure) else Extracted(found)


def _semantic_map(pixels: Pixels, seed: int, device: str) -> Extracted | Failure:
    found = semantic_map(pixels, seed, device=device)
    return found if isinstance(found, Failure) else Extracted(found)


_ALL = (
    Extractor("canny", "Canny edges of the luma, thresholds 100 and 200; 255 on 0", run=_plain(canny)),
    Extractor(
        "sketch_dodge",
        "Pencil sketch by colour dodge, shorter side 256; arithmetic, not the paper's drawing network",
        run=_plain(sketch_dodge),
    ),
    Extractor("mask", "Mask of the main subject; 255 on 0", (MASK_NETWORK,), run=_mask),
    Extractor("bbox", "Box of the surest object, drawn on black", (BOX_NETWORK,), "picture and box", _bbox),
    Extractor("pose", "Skeletons of all people on black, COCO's 17 joints", (POSE_NETWORK,), run=_pose),
    Extractor("depth", "Depth, near is bright, stretched to 0..255", (DEPTH_NETWORK,), run=_depth),
    Extractor("sketch", "Line drawing, shorter side 256, as the paper's", (SKETCH_NETWORK,), run=_sketch),
    Extractor("semantic_map", "All segments in colours of their own on black", (MAP_NETWORK,), run=_semantic_map),
    Extractor("caption", "Caption of at most twenty words, by any VLM", gives="text"),
)

EXTRACTORS: dict[str, Extractor] = {extractor.name: extractor for extractor in _ALL}
"""All extractors by name."""
