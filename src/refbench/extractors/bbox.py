"""The box of a picture's main object, found by the network yolov4_tiny and drawn as MultiRef-Bench draws boxes."""

from __future__ import annotations

from typing import TypeAlias

import cv2
import numpy as np

from refbench.failure import Failure
from refbench.networks import Feature, load_network
from refbench.pictures import Pixels

NETWORK = "yolov4_tiny"
COLOUR = (0xA3, 0x51, 0xFB)
THICKNESS = 2

Box: TypeAlias = tuple[float, float, float, float]
"""x1, y1, x2, y2 in pixels."""


def bbox(pixels: Pixels, label: str | None = None, device: str = "cpu") -> tuple[Pixels, Box] | Failure:
    """The drawing on black, the picture's size, and the box; of the surest object, or of the surest of that label."""
    box = find_box(pixels, label, device)
    return box if isinstance(box, Failure) else (draw_box(box, pixels.shape), box)


def find_box(pixels: Pixels, label: str | None = None, device: str = "cpu") -> Box | Failure:
    """The box of the surest object, cut to the picture."""
    seen: Feature | Failure = load_network(NETWORK, device)([pixels])[0]
    if isinstance(seen, Failure):
        return seen
    wanted = [i for i, name in enumerate(seen["labels"]) if label is None or str(name) == label]
    if not wanted:
        return Failure(kind="no_detection", detail=f"no {label or 'object'} was found in the picture")
    best = max(wanted, key=lambda i: float(seen["scores"][i]))
    height, width = pixels.shape[:2]
    x1, y1, x2, y2 = (float(v) for v in seen["boxes"][best])
    return max(x1, 0.0), max(y1, 0.0), min(x2, float(width)), min(y2, float(height))


def draw_box(box: Box, shape: tuple[int, ...]) -> Pixels:
    """The box on black, for a picture of this shape (height, width)."""
    drawing = np.zeros((*shape[:2], 3), np.uint8)
    x1, y1, x2, y2 = (int(v) for v in box)
    cv2.rectangle(drawing, (x1, y1), (x2, y2), COLOUR, THICKNESS)
    return drawing
