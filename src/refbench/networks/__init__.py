"""Networks: named weights, where they come from, under which licence, and how they are run."""

from refbench.networks.network import (
    GIVES,
    Feature,
    Network,
    NetworkInfo,
    PairNetwork,
    WeightsFile,
    dtype_of,
    load_network,
    network_info,
    networks,
    why_not,
)

__all__ = [
    "GIVES",
    "Feature",
    "Network",
    "NetworkInfo",
    "PairNetwork",
    "WeightsFile",
    "dtype_of",
    "load_network",
    "network_info",
    "networks",
    "why_not",
]
