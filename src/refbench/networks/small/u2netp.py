"""U2-Net's small variant: the salient subject of a picture as a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.small.graph import Session, channels_first
from refbench.pictures import Pixels, resize

_SIDE = 320
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_STD = np.array([0.229, 0.224, 0.225], np.float32)
# Stretching a map makes a subject of anything, so somewhere the network itself must say "rather yes". Of plain black,
# white, grey, red and a gradient it says at most 0.06; of 123 photographs and paintings at least 0.94, but for the
# front of a street, where nothing stands out: 0.24.
_LEAST = 0.5


class U2NetP:
    """Gives `mask`: the saliency map stretched to 0..1, back at the picture's size, above a half."""

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        self._session = Session(paths["u2netp.onnx"], device)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self._mask(picture) for picture in pictures]

    def saliency(self, picture: Pixels) -> NDArray[np.float32]:
        """The network's own map, 320 x 320, each value between 0 and 1."""
        small = resize(picture, (_SIDE, _SIDE), "lanczos").astype(np.float32)
        # The network was trained on pictures divided by their brightest value, not by 255.
        scaled = (small / max(float(small.max()), 1.0) - _MEAN) / _STD
        saliency: NDArray[Any] = self._session(channels_first([scaled]))[0][0, 0]
        return saliency.astype(np.float32)

    def _mask(self, picture: Pixels) -> Feature | Failure:
        saliency = self.saliency(picture)
        low, high = float(saliency.min()), float(saliency.max())
        if not (high >= _LEAST and high > low):
            found_only = f"the saliency lies between {low:.3f} and {high:.3f}"
            return Failure(kind="no_detection", detail=f"no subject stands out: {found_only}")
        height, width = picture.shape[:2]
        stretched = Image.fromarray((saliency - low) / (high - low))
        back = np.asarray(stretched.resize((width, height), Image.Resampling.BILINEAR))
        return {"mask": np.where(back > 0.5, 255, 0).astype(np.uint8)}
