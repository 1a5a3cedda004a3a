"""Sketches in the format of MultiRef-Bench's: by the network informative_drawings, or by arithmetic."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks import Feature, load_network
from refbench.pictures import Pixels

NETWORK = "informative_drawings"


def sketch(pixels: Pixels, device: str = "cpu") -> NDArray[np.uint8] | Failure:
    """Dark lines on white, one channel; the shorter side is about 256 pixels."""
    seen: Feature | Failure = load_network(NETWORK, device)([pixels])[0]
    return seen if isinstance(seen, Failure) else np.asarray(seen["map"], dtype=np.uint8)


SIDE = 256
"""The shorter side of a sketch, as MultiRef-Bench stores them."""
_BLUR = 0.02
"""Width of the blur as a share of the shorter side: it sets how broad the pencil is."""
_LIFT = 16


def sketch_dodge(pixels: Pixels, side: int | None = SIDE) -> NDArray[np.uint8]:
    """A pencil sketch by colour dodge: dark lines on white, one channel; the shorter side is `side` pixels, or the
    picture's own with None. It is not the drawing network of MultiRef-Bench, and looks different."""
    height, width = pixels.shape[:2]
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    if side is not None:
        shorter = min(height, width)
        # The longer side is cut to a whole number, as the official preprocessing does. No official value depends on
        # the filter, and Pillow's would take as long as all the rest of making and writing two references.
        filter_name = cv2.INTER_AREA if shorter > side else cv2.INTER_CUBIC
        grey = cv2.resize(grey, (side * width // shorter, side * height // shorter), interpolation=filter_name)
    blurred = cv2.GaussianBlur(255 - grey, (0, 0), max(1.0, _BLUR * min(grey.shape)))
    # Dodging divides by what the blurred negative leaves: flat areas come out white, edges stay dark. Without the
    # lift, black divides nothing by nothing and deep shadows would be filled in.
    lifted = grey.astype(np.float32) + _LIFT
    ground = np.float32(255 + _LIFT) - blurred
    return np.asarray(np.minimum(np.rint(lifted / ground * 255), 255), dtype=np.uint8)
