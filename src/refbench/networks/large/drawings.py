"""Line drawings: the generator of informative-drawings in its contour style, MultiRef-Bench's sketches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.forward import Floats, MapRoute
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.pictures import Pixels, resize

SIDE = 256
_BLOCKS = 3
_THIN = 16
_LAYERS = (
    "model0.1", "model1.0", "model1.3", "model3.0", "model3.3", "model4.1",
    *(f"model2.{block}.conv_block.{part}" for block in range(_BLOCKS) for part in (1, 5)),
)  # fmt: skip


def informative_drawings(paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 16) -> MapRoute:
    """Gives `map`: uint8, dark lines on white, the shorter side about 256."""
    checkpoint = Checkpoint.of("informative_drawings", paths, device, dtype, batch)
    state = checkpoint.state(f"{layer}.{part}" for layer in _LAYERS for part in ("weight", "bias"))
    generator = Generator(checkpoint.placed(state))
    return MapRoute(
        checkpoint.place,
        prepare_drawing,
        generator,
        lambda row, picture: {"map": (row[0] * np.float32(255)).astype(np.uint8)},
    )


def prepare_drawing(picture: Pixels) -> Floats | Failure:
    """3 x height x width in [0, 1], the shorter side 256 by Pillow's bicubic filter."""
    height, width = picture.shape[:2]
    shorter = min(height, width)
    if max(height, width) > _THIN * shorter:
        return Failure(kind="undefined", detail=f"a picture of {width}x{height} is too thin to be drawn")
    # The longer side is cut to a whole number, as in the official preparation.
    small = resize(picture, (SIDE * width // shorter, SIDE * height // shorter), "bicubic")
    return np.ascontiguousarray(small.transpose(2, 0, 1), dtype=np.float32) / np.float32(255)


class Generator:
    """The network: n x 3 x height x width to n x 1 x height x width (both rounded up to multiples of 4), in [0, 1]."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self._w = weights

    def __call__(self, x: Any) -> Any:
        torch = package("torch")
        x = self._normal(self._mirrored(x, "model0.1", 3))
        x = self._normal(self._conv(x, "model1.0"))
        x = self._normal(self._conv(x, "model1.3"))
        for block in range(_BLOCKS):
            inner = self._normal(self._mirrored(x, f"model2.{block}.conv_block.1", 1))
            inner = self._mirrored(inner, f"model2.{block}.conv_block.5", 1)
            x = x + torch.nn.functional.instance_norm(inner)
        x = self._normal(self._up(x, "model3.0"))
        x = self._normal(self._up(x, "model3.3"))
        return torch.sigmoid(self._mirrored(x, "model4.1", 3))

    def _conv(self, x: Any, name: str) -> Any:
        functional = package("torch").nn.functional
        return functional.conv2d(x, self._w[f"{name}.weight"], self._w[f"{name}.bias"], stride=2, padding=1)

    def _mirrored(self, x: Any, name: str, margin: int) -> Any:
        functional = package("torch").nn.functional
        wide = functional.pad(x, (margin,) * 4, mode="reflect")
        return functional.conv2d(wide, self._w[f"{name}.weight"], self._w[f"{name}.bias"])

    def _up(self, x: Any, name: str) -> Any:
        functional = package("torch").nn.functional
        weight, bias = self._w[f"{name}.weight"], self._w[f"{name}.bias"]
        return functional.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1)

    def _normal(self, x: Any) -> Any:
        functional = package("torch").nn.functional
        return functional.relu(functional.instance_norm(x))
