"""The mask of a picture's main subject, by the network u2netp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks import Feature, load_network
from refbench.pictures import Pixels

NETWORK = "u2netp"


def mask(pixels: Pixels, device: str = "cpu") -> NDArray[np.uint8] | Failure:
    """255 inside the subject and 0 outside, one channel, the picture's size."""
    seen: Feature | Failure = load_network(NETWORK, device)([pixels])[0]
    if isinstance(seen, Failure):
        return seen
    subject = np.where(seen["mask"] > 127, 255, 0).astype(np.uint8)
    return subject if subject.any() else Failure(kind="no_detection", detail="no subject stands out in the picture")
