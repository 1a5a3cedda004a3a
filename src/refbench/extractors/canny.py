"""Canny edges, in the format of MultiRef-Bench's references: 255 on 0, one channel, the picture's size."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.pictures import Pixels

LOW, HIGH = 100, 200


def canny(pixels: Pixels) -> NDArray[np.uint8]:
    """Edges of the picture's luma: thresholds 100 and 200, aperture 3, L1 gradient."""
    return np.asarray(cv2.Canny(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), LOW, HIGH), dtype=np.uint8)
