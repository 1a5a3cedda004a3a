"""Inception v3 as torchvision has it: the 2048 pooled features, from torchvision's file of weights.

Used for MultiRef's "FID" of one picture; a real FID needs other weights of the same architecture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refbench.networks.large.device import package
from refbench.networks.large.forward import PictureRoute
from refbench.networks.large.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preparation
from refbench.networks.large.weights import Checkpoint, Paths, folded

_EPS = 0.001


def inception_v3(paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> PictureRoute:
    """torchvision's inception_v3 (IMAGENET1K_V1) without its last layer: shorter side 299, bilinear, centre crop."""
    checkpoint = Checkpoint.of("inception_v3", paths, device, dtype, batch)
    state = checkpoint.state(["Conv2d_1a_3x3.conv.weight", "Mixed_7c.branch_pool.bn.running_var"])
    network = InceptionNetwork(checkpoint.placed(_folded(state)))
    how = Preparation(IMAGENET_MEAN, IMAGENET_STD, short_side=299, crop=(299, 299), kernel="bilinear", centre="round")
    return PictureRoute(checkpoint.place, how, network)


def _folded(state: Mapping[str, Any]) -> dict[str, Any]:
    """Weight and bias of every convolution with its normalisation multiplied in."""
    convolutions = {}
    for key, weight in state.items():
        if key.endswith(".conv.weight"):
            name = key.removesuffix(".conv.weight")
            convolutions[f"{name}.weight"], convolutions[f"{name}.bias"] = folded(weight, state, f"{name}.bn", _EPS)
    return convolutions


class InceptionNetwork:
    """The network itself: pictures (n x 3 x 299 x 299) to n x 2048."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self._w = weights

    def __call__(self, x: Any) -> Any:
        x = self._conv(x, "Conv2d_1a_3x3", stride=2, pad=False)
        x = self._conv(x, "Conv2d_2a_3x3", pad=False)
        x = self._pool(self._conv(x, "Conv2d_2b_3x3"))
        x = self._conv(x, "Conv2d_3b_1x1")
        x = self._pool(self._conv(x, "Conv2d_4a_3x3", pad=False))
        for name in ("Mixed_5b", "Mixed_5c", "Mixed_5d"):
            x = self._side_by_side(x, name, ("branch1x1",), ("branch5x5_1", "branch5x5_2"), _chain("branch3x3dbl", 3))
        x = self._smaller(x, "Mixed_6a", ("branch3x3",), _chain("branch3x3dbl", 3))
        for name in ("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"):
            x = self._side_by_side(x, name, ("branch1x1",), _chain("branch7x7", 3), _chain("branch7x7dbl", 5))
        x = self._smaller(x, "Mixed_7a", _chain("branch3x3", 2), _chain("branch7x7x3", 4))
        for name in ("Mixed_7b", "Mixed_7c"):
            x = self._forked(x, name)
        return x.mean((2, 3))

    def _conv(self, x: Any, name: str, stride: int = 1, pad: bool = True) -> Any:
        functional = package("torch").nn.functional
        weight = self._w[f"{name}.weight"]
        padding = (weight.shape[2] // 2, weight.shape[3] // 2) if pad else 0
        return functional.relu(functional.conv2d(x, weight, self._w[f"{name}.bias"], stride, padding))

    def _pool(self, x: Any) -> Any:
        return package("torch").nn.functional.max_pool2d(x, 3, 2)

    def _averaged(self, x: Any, name: str) -> Any:
        return self._conv(package("torch").nn.functional.avg_pool2d(x, 3, 1, 1), f"{name}.branch_pool")

    def _along(self, x: Any, name: str, chain: Sequence[str]) -> Any:
        for part in chain:
            x = self._conv(x, f"{name}.{part}")
        return x

    def _side_by_side(self, x: Any, name: str, *chains: Sequence[str]) -> Any:
        parts = [self._along(x, name, chain) for chain in chains]
        return package("torch").cat([*parts, self._averaged(x, name)], 1)

    def _smaller(self, x: Any, name: str, *chains: Sequence[str]) -> Any:
        """Half the size: the last convolution of every chain steps by two, without padding."""
        parts = [
            self._conv(self._along(x, name, chain[:-1]), f"{name}.{chain[-1]}", stride=2, pad=False) for chain in chains
        ]
        return package("torch").cat([*parts, self._pool(x)], 1)

    def _forked(self, x: Any, name: str) -> Any:
        """Blocks whose chains end in a flat and an upright convolution beside each other."""
        once = self._along(x, name, ("branch3x3_1",))
        twice = self._along(x, name, ("branch3x3dbl_1", "branch3x3dbl_2"))
        parts = [self._conv(x, f"{name}.branch1x1")]
        parts += [self._conv(once, f"{name}.branch3x3_2{side}") for side in "ab"]
        parts += [self._conv(twice, f"{name}.branch3x3dbl_3{side}") for side in "ab"]
        return package("torch").cat([*parts, self._averaged(x, name)], 1)


def _chain(name: str, length: int) -> tuple[str, ...]:
    return tuple(f"{name}_{n}" for n in range(1, length + 1))
