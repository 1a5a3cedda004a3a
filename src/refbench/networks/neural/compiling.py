"""torch.compile where it pays: the repeated layer of an encoder, once for all of its copies."""

from __future__ import annotations

from typing import Any

from refbench.networks.neural.place import package


def compile_layers(model: Any) -> int:
    """Compile each layer of the model's longest list of them in place; gives how many there are.

    The layers share one compiled code, so that forty of them take as long as one. Shapes are fixed: batches must be
    even (`PictureRoute.even`). The first call compiles.
    """
    lists = [module for module in model.modules() if isinstance(module, package("torch").nn.ModuleList)]
    layers = max(lists, key=len)
    for layer in layers:
        layer.compile(dynamic=False)
    return len(layers)
