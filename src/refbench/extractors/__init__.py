"""Extractors: references taken from pictures (edges, sketches, masks, boxes, poses, captions), each usable alone,
and the list of them as data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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


Run = Callable[[Pixels, int, str], Extracted | Failure]
"""From pixels, seed and device."""


@dataclass(frozen=True)
class Extractor:
    """One kind of reference that can be taken from a picture."""

    name: str
    summary: str
    run: Run | None = None
    """None for `caption`, which asks a VLM."""
    networks: tuple[str, ...] = ()
    gives: str = "picture"


def _drawn(draw: Callable[[Pixels, int, str], NDArray[np.uint8] | tuple[Pixels, Box] | Failure]) -> Run:
    def run(pixels: Pixels, seed: int, device: str) -> Extracted | Failure:
        drawn = draw(pixels, seed, device)
        if isinstance(drawn, Failure):
            return drawn
        return Extracted(*drawn) if isinstance(drawn, tuple) else Extracted(drawn)

    return run


_CANNY = "Canny edges of the luma, thresholds 100 and 200; 255 on 0"
_DODGE = "Pencil sketch by colour dodge, shorter side 256; arithmetic, not the paper's drawing network"
_MASK = "Mask of the main subject; 255 on 0"
_BBOX = "Box of the surest object, drawn on black"
_POSE = "Skeletons of all people on black, COCO's 17 joints"
_DEPTH = "Depth, near is bright, stretched to 0..255"
_SKETCH = "Line drawing, shorter side 256, as the paper's"
_MAP = "All segments in colours of their own on black"
_LOW_IOU = "The same with segments from an estimated IoU of 0.8 on, not 0.93"
_CAPTION = "Caption of at most twenty words, by any VLM"

_ALL = (
    Extractor("canny", _CANNY, _drawn(lambda pixels, seed, device: canny(pixels))),
    Extractor("sketch_dodge", _DODGE, _drawn(lambda pixels, seed, device: sketch_dodge(pixels))),
    Extractor("mask", _MASK, _drawn(lambda pixels, seed, device: mask(pixels, device)), (MASK_NETWORK,)),
    Extractor("bbox", _BBOX, _drawn(lambda p, seed, device: bbox(p, device=device)), (BOX_NETWORK,), "picture and box"),
    Extractor("pose", _POSE, _drawn(pose), (POSE_NETWORK,)),
    Extractor("depth", _DEPTH, _drawn(lambda pixels, seed, device: depth(pixels, device=device)), (DEPTH_NETWORK,)),
    Extractor("sketch", _SKETCH, _drawn(lambda pixels, seed, device: sketch(pixels, device)), (SKETCH_NETWORK,)),
    Extractor("semantic_map", _MAP, _drawn(semantic_map), (MAP_NETWORK,)),
    Extractor("semantic_map_low_iou", _LOW_IOU, _drawn(partial(semantic_map, setting="low_iou")), (MAP_NETWORK,)),
    Extractor("caption", _CAPTION, gives="text"),
)

EXTRACTORS: dict[str, Extractor] = {extractor.name: extractor for extractor in _ALL}
"""All extractors by name."""

__all__ = ["EXTRACTORS", "Extracted", "Extractor"]
