"""Depth of a picture as MultiRef-Bench stores it: grey, near is bright, stretched to 0..255, the picture's size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks import Feature, load_network
from refbench.networks.large.forward import stretched
from refbench.pictures import Pixels

NETWORK = "depth_anything_v2_base"


def depth(pixels: Pixels, network: str = NETWORK, device: str = "cpu") -> NDArray[np.uint8] | Failure:
    """The depth map, one channel; a picture that is equally deep everywhere has none."""
    seen: Feature | Failure = load_network(network, device)([pixels])[0]
    return seen if isinstance(seen, Failure) else stretched(seen["map"])
