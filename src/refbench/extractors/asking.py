"""How extractors ask a network about one picture."""

from __future__ import annotations

from refbench.failure import Failure
from refbench.networks import Feature, Network, load_network
from refbench.pictures import Pixels


def ask(network: str, pixels: Pixels, device: str = "cpu") -> Feature | Failure:
    """What the network says of the picture."""
    loaded: Network = load_network(network, device)
    return loaded([pixels])[0]
