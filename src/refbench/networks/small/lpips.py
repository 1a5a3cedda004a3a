"""LPIPS 0.1 on AlexNet and VGG16: how different two pictures look to a network (Zhang and others 2018)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.small.graph import Graph, Session, by_shape, channels_first, chunks, read_safetensors
from refbench.pictures import Pixels

_SHIFT = np.array([-0.030, -0.088, -0.188], np.float32)
_SCALE = np.array([0.458, 0.448, 0.450], np.float32)
_PIXELS_AT_ONCE = 1 << 19  # VGG's first maps take 256 bytes for each pixel of either picture


class _Lpips:
    def __init__(self, model: bytes, least: int, device: str) -> None:
        self._session = Session(model, device)
        self._least = least

    def __call__(self, pairs: Sequence[tuple[Pixels, Pixels]]) -> list[float | Failure]:
        distances: list[float | Failure] = [Failure(kind="undefined")] * len(pairs)
        for shape, places in by_shape([first for first, _ in pairs]).items():
            height, width = shape[:2]
            if min(height, width) < self._least:
                small = f"LPIPS needs pictures of {self._least} pixels a side, not {width}x{height}"
                for place in places:
                    distances[place] = Failure(kind="undefined", detail=small)
                continue
            for some in chunks(places, max(1, _PIXELS_AT_ONCE // (height * width))):
                batch = (_prepared([pairs[place][side] for place in some]) for side in (0, 1))
                for place, distance in zip(some, self._session(*batch)[0].ravel(), strict=True):
                    distances[place] = float(distance)
        return distances


class LpipsAlex(_Lpips):
    """Distances on AlexNet, the variant that the authors advise for comparing pictures."""

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        weights = read_safetensors(paths["lpips_alex.safetensors"])
        super().__init__(_model(weights, _alexnet), least=31, device=device)


class LpipsVgg(_Lpips):
    """Distances on VGG16."""

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        weights = read_safetensors(paths["lpips_vgg.safetensors"])
        super().__init__(_model(weights, _vgg16), least=16, device=device)


def _prepared(pictures: Sequence[Pixels]) -> NDArray[np.float32]:
    sizes = {picture.shape for picture in pictures}
    if len(sizes) > 1:
        raise ValueError(f"the pictures of a pair must have one size, not {sizes}")
    return channels_first([(picture / np.float32(127.5) - 1 - _SHIFT) / _SCALE for picture in pictures])


def _alexnet(graph: Graph, conv: Callable[..., str], x: str) -> list[str]:
    first = conv(x, 0, stride=4, pad=2)
    second = conv(graph.max_pool(first, 3, 2), 1, pad=2)
    third = conv(graph.max_pool(second, 3, 2), 2, pad=1)
    fourth = conv(third, 3, pad=1)
    return [first, second, third, fourth, conv(fourth, 4, pad=1)]


def _vgg16(graph: Graph, conv: Callable[..., str], x: str) -> list[str]:
    stages: list[str] = []
    place = 0
    for depth in (2, 2, 3, 3, 3):
        if stages:
            x = graph.max_pool(x, 2, 2)
        for _ in range(depth):
            x, place = conv(x, place, pad=1), place + 1
        stages.append(x)
    return stages


def _model(weights: Mapping[str, NDArray[Any]], layers: Callable[[Graph, Callable[..., str], str], list[str]]) -> bytes:
    """Both pictures go through the same layers; what differs is weighed by channel, averaged over places, added."""
    graph = Graph(first=("n", 3, "h", "w"), second=("n", 3, "h", "w"))
    backbone = next(name.split("/")[0] for name in weights if not name.startswith("NetLin"))
    tiny = graph.constant(np.array(1e-10, np.float32))

    def conv(x: str, place: int, **shape: int) -> str:
        kernel = weights[f"{backbone}/Conv_{place}/kernel"].transpose(3, 2, 0, 1)  # stored as height, width, in, out
        x = graph.conv(x, kernel, weights[f"{backbone}/Conv_{place}/bias"], name=f"conv{place}", **shape)
        return graph.op("Relu", x)

    def unit(x: str) -> str:
        length = graph.op("ReduceL2", x, axes=[1], keepdims=1)
        return graph.op("Div", x, graph.op("Add", length, tiny))

    parts = []
    for number, (a, b) in enumerate(zip(layers(graph, conv, "first"), layers(graph, conv, "second"), strict=True)):
        apart = graph.op("Sub", unit(a), unit(b))
        weighed = graph.conv(
            graph.op("Mul", apart, apart), weights[f"NetLinLayer_{number}/Conv_0/kernel"].transpose(3, 2, 0, 1)
        )
        parts.append(graph.op("ReduceMean", weighed, axes=[1, 2, 3], keepdims=0))
    return graph.model(distance=graph.op("Sum", *parts))
