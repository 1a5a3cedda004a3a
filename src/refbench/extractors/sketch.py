"""A line drawing by the network informative_drawings, in the format of MultiRef-Bench's sketches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from refbench.extractors.asking import ask
from refbench.failure import Failure
from refbench.pictures import Pixels

NETWORK = "informative_drawings"


def sketch(pixels: Pixels, device: str = "cpu") -> NDArray[np.uint8] | Failure:
    """Dark lines on white, one channel; the shorter side is about 256 pixels."""
    seen = ask(NETWORK, pixels, device)
    return seen if isinstance(seen, Failure) else np.asarray(seen["map"], dtype=np.uint8)
