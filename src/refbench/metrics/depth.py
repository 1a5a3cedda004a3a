"""Depth and line drawings of an output, taken by the papers' networks, against the map that the model was given."""

from __future__ import annotations

import cv2

from refbench.failure import Failure
from refbench.metrics.colour import pillow_luma
from refbench.metrics.metric import Grey, Value, metric
from refbench.metrics.pixels import fitted, map_mse
from refbench.networks import Feature, Network
from refbench.networks.large.forward import stretched
from refbench.pictures import Pixels


@metric(better="higher", range=(0, 1), of={"network": "midas_dpt_hybrid"})
def depth_l1(output: Pixels, source: Pixels, network: Network) -> Value:
    """1 - L1 of the output's depth and the source depth map, both grey; the output at the source's size."""
    (found,) = network([fitted(output, source)])
    if isinstance(found, Failure):
        return found
    wanted = pillow_luma(source)
    return 1 - float(cv2.norm(found["map"], wanted, cv2.NORM_L1)) / (255 * wanted.size)


def stretched_depth_mse(output: Feature, reference: Grey) -> Value:
    """MSE of the output's depth, stretched to 0..255, and the reference depth map at the output's size.

    As MultiRef-Bench computes it. An output that is equally deep everywhere has no value.
    """
    whole = stretched(output["map"])
    return whole if isinstance(whole, Failure) else map_mse(whole, reference)


for _network in ("depth_anything_v2_base", "depth_anything_v2_small"):
    metric("depth_mse", better="lower", range=(0, 1), of={"output": _network})(stretched_depth_mse)


@metric(better="lower", range=(0, 1), of={"output": "informative_drawings"})
def sketch_mse(output: Feature, reference: Grey) -> float:
    """MSE of the output's line drawing (shorter side 256) and the reference sketch, as MultiRef-Bench computes it."""
    return map_mse(output["map"], reference)
