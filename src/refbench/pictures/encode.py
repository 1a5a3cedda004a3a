"""RGB pixels to bytes."""

from __future__ import annotations

from typing import Literal

import cv2
import numpy as np

from refbench.pictures.decode import Pixels


def encode(pixels: Pixels, picture_format: Literal["png", "jpeg", "webp"] = "png", *, quality: int = 95) -> bytes:
    """The picture as a file; PNG is lossless and ignores `quality`, WebP above 100 is lossless."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ValueError(f"pixels must be height x width x 3 of uint8, not {pixels.shape} of {pixels.dtype}")
    parameters = {
        "png": [],
        "jpeg": [cv2.IMWRITE_JPEG_QUALITY, quality],
        "webp": [cv2.IMWRITE_WEBP_QUALITY, quality],
    }[picture_format]
    done, data = cv2.imencode(f".{picture_format}", pixels[:, :, ::-1], parameters)
    if not done:
        raise ValueError(f"OpenCV cannot write {pixels.shape[1]}x{pixels.shape[0]} pixels as {picture_format}")
    return data.tobytes()
