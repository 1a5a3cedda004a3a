"""MobileNetV2 trained on ImageNet: a small embedding of a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.small.graph import Graph, Session, channels_first, chunks, folded, read_safetensors
from refbench.pictures import Pixels, resize

_SIDE = 224
_BATCH = 8
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_STD = np.array([0.229, 0.224, 0.225], np.float32)
_EPS = 1e-5
_NORM = ("weight", "bias", "running_mean", "running_var")
# Each stage: expansion, channels, blocks, stride of the first block (Sandler and others 2018, table 2).
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class MobileNetV2:
    """Gives `vector`: 1280 numbers, the mean over places of the last feature map, not normalised.

    The whole picture is squeezed to 224 x 224 (Pillow, bicubic). The usual centre crop would not see what lies at
    the ends of a wide or tall picture.
    """

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        self._session = Session(_model(read_safetensors(paths["mobilenet_v2.safetensors"])), device)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        features: list[Feature | Failure] = []
        for some in chunks(pictures, _BATCH):
            small = [resize(picture, (_SIDE, _SIDE), "bicubic").astype(np.float32) / 255 for picture in some]
            vectors = self._session(channels_first([(picture - _MEAN) / _STD for picture in small]))[0]
            features.extend({"vector": vector.astype(np.float32)} for vector in vectors)
        return features


def _model(weights: Mapping[str, NDArray[Any]]) -> bytes:
    graph = Graph(picture=("n", 3, _SIDE, _SIDE))
    low, high = (graph.constant(np.array(limit, np.float32)) for limit in (0, 6))

    def conv(x: str, name: str, norm: str, *, act: bool = True, stride: int = 1, depthwise: bool = False) -> str:
        scale, shift, mean, variance = (weights[f"{norm}.{part}"] for part in _NORM)
        weight, bias = folded(weights[f"{name}.weight"], scale, shift, mean, variance, _EPS)
        groups = weight.shape[0] if depthwise else 1
        x = graph.conv(x, weight, bias, stride=stride, pad=weight.shape[-1] // 2, groups=groups)
        return graph.op("Clip", x, low, high) if act else x

    x = conv("picture", "features.0.0", "features.0.1", stride=2)
    channels, place = 32, 1
    for expansion, wide, blocks, first_stride in _STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            at, part, y = f"features.{place}.conv", 0, x
            if expansion != 1:
                y, part = conv(y, f"{at}.0.0", f"{at}.0.1"), 1
            y = conv(y, f"{at}.{part}.0", f"{at}.{part}.1", stride=stride, depthwise=True)
            y = conv(y, f"{at}.{part + 1}", f"{at}.{part + 2}", act=False)
            x = graph.op("Add", x, y) if stride == 1 and channels == wide else y
            channels, place = wide, place + 1
    x = conv(x, f"features.{place}.0", f"features.{place}.1")
    return graph.model(vector=graph.op("ReduceMean", x, axes=[2, 3], keepdims=0))
