"""Yahoo's Open NSFW: how likely a picture is not safe for work. A screen, not a verdict."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.small.graph import Session, chunks
from refbench.pictures import Pixels, resize

_BATCH = 8
_MEAN_BGR = np.array([104, 117, 123], np.float32)


class OpenNsfw:
    """Gives `score`: the probability of the unsafe class."""

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        self._session = Session(paths["open_nsfw.onnx"], device)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        features: list[Feature | Failure] = []
        for some in chunks(pictures, _BATCH):
            scores = self._session(np.stack([_prepared(picture) for picture in some]))[0][:, 1]
            features.extend({"score": np.asarray(score, np.float32)} for score in scores)
        return features


def _prepared(picture: Pixels) -> NDArray[np.float32]:
    """As the release prepares it: squeezed to 256, through JPEG once, the middle 224, BGR less the mean."""
    jpeg = io.BytesIO()
    Image.fromarray(resize(picture, (256, 256), "bilinear")).save(jpeg, "JPEG")
    with Image.open(jpeg) as opened:
        middle = np.asarray(opened, np.float32)[16:240, 16:240]
    return np.ascontiguousarray(middle[..., ::-1] - _MEAN_BGR)
