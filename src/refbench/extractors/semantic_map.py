"""The regions of a picture, found by SAM 2.1 and painted in colours, in the format of MultiRef-Bench's maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks import load_network
from refbench.networks.large.sam2 import SETTINGS
from refbench.pictures import Pixels
from refbench.record import RefBenchError

NETWORK = "sam2_1_large"
_DARKEST, _BRIGHTEST = 102, 255
"""Channels of a region's colour lie between 0.4 and 1; black is where no region is."""


def semantic_map(pixels: Pixels, seed: int = 0, device: str = "cpu", setting: str = "strict") -> Pixels | Failure:
    """Regions in random colours on black, the picture's size; the same under a seed."""
    if setting not in SETTINGS:
        raise RefBenchError(f"setting {setting!r} is unknown: choose {', '.join(SETTINGS)}")
    seen = load_network(NETWORK, device).regions(pixels, SETTINGS[setting])
    if isinstance(seen, Failure):
        return seen
    if not seen["map"].any():
        return Failure(kind="no_detection", detail="no region was found in the picture")
    return paint(seen["map"], seed)


def paint(regions: NDArray[Any], seed: int = 0) -> Pixels:
    """A map of numbers in colours, no two regions in the same one: two of one colour would be one region."""
    rng = np.random.default_rng(seed)
    colours = np.zeros((int(regions.max()) + 1, 3), np.uint8)
    used: set[tuple[int, ...]] = set()
    for number in range(1, len(colours)):
        colour = rng.integers(_DARKEST, _BRIGHTEST, 3)
        while tuple(colour) in used:
            colour = rng.integers(_DARKEST, _BRIGHTEST, 3)
        used.add(tuple(colour))
        colours[number] = colour
    return np.asarray(colours[regions])
