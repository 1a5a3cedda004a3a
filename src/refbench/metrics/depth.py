"""Depth of an output, as networks see it, against the depth map that the model was given."""

from __future__ import annotations

from refbench.failure import Failure
from refbench.metrics.colour import luma_agreement
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
    return luma_agreement(found["map"], source)


def stretched_depth_mse(output: Feature, reference: Grey) -> Value:
    """MSE of the output's depth, stretched to 0..255, and the reference depth map at the output's size.

    As MultiRef-Bench computes it. An output that is equally deep everywhere has no value.
    """
    whole = stretched(output["map"])
    return whole if isinstance(whole, Failure) else map_mse(whole, reference)


_READ = ("output", "reference")
for _network in ("depth_anything_v2_base", "depth_anything_v2_small"):
    _mse = metric("depth_mse", better="lower", range=(0, 1), of={"output": _network}, turned=_READ, version=2)
    _mse(stretched_depth_mse)
