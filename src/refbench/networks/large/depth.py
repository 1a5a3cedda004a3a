"""Depth: Depth Anything V2 as MultiRef-Bench uses it, and MiDaS DPT-Hybrid as ICE-Bench does. Near is large."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any

import cv2
import numpy as np

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.forward import Floats, MapRoute, stretched
from refbench.networks.large.preprocess import IMAGENET_MEAN, IMAGENET_STD
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.networks.network import Feature
from refbench.pictures import Pixels

_SHORT, _PATCH = 518, 14
_THIN = 8
"""A picture so many times as long as wide would become a strip of many thousand patches."""
_OFFSET = 0.1
"""What the original adds to the number of patches before positions are interpolated, against rounding."""
_COARSE, _MOST = 64, 1024


def _depth_anything(name: str, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 8) -> MapRoute:
    """Gives `map`: depth without a unit, float32, the picture's size; prepared by OpenCV as the original does it."""
    checkpoint = Checkpoint.of(name, paths, device, dtype, batch)
    model = checkpoint.model("DepthAnythingForDepthEstimation", checkpoint.config("DepthAnythingConfig"))
    embeddings = model.backbone.embeddings
    embeddings.interpolate_pos_encoding = lambda tokens, height, width: positions(
        embeddings.position_embeddings, height // _PATCH, width // _PATCH
    )
    return MapRoute(
        checkpoint.place,
        prepare_depth_anything,
        lambda pixels: model(pixel_values=pixels).predicted_depth,
        lambda row, picture: {"map": enlarged(row, picture.shape[:2])},
    )


depth_anything_v2_base = partial(_depth_anything, "depth_anything_v2_base")
"""The base size (ViT-B), MultiRef-Bench's."""
depth_anything_v2_small = partial(_depth_anything, "depth_anything_v2_small")
"""The small size (ViT-S), whose weights may be used for anything."""


def depth_anything_size(height: int, width: int) -> tuple[int, int]:
    """Height and width that the network sees: the shorter side at least 518, both multiples of 14."""
    scale = max(_SHORT / height, _SHORT / width)
    return _multiple(scale * height), _multiple(scale * width)


def _multiple(side: float) -> int:
    nearest = round(side / _PATCH) * _PATCH
    return nearest if nearest >= _SHORT else ceil(side / _PATCH) * _PATCH


def prepare_depth_anything(picture: Pixels) -> Floats | Failure:
    """3 x height x width: enlarged or reduced by cubic interpolation in [0, 1], then normalised."""
    height, width = picture.shape[:2]
    if max(height, width) > _THIN * min(height, width):
        return Failure(kind="undefined", detail=f"a picture of {width}x{height} is too thin for a depth network")
    rows, columns = depth_anything_size(height, width)
    scaled = cv2.resize(picture / 255.0, (columns, rows), interpolation=cv2.INTER_CUBIC)
    normal = (scaled - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    return np.ascontiguousarray(normal.transpose(2, 0, 1), dtype=np.float32)


def positions(embedding: Any, rows: int, columns: int) -> Any:
    """Position embeddings for so many patches, as the original interpolates them: transformers leaves its offset out,
    which moves every position of a picture that is not square by up to a tenth of a patch."""
    torch = package("torch")
    side = round((embedding.shape[1] - 1) ** 0.5)
    if (rows, columns) == (side, side):
        return embedding
    grid = embedding[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2).float()
    scale = ((rows + _OFFSET) / side, (columns + _OFFSET) / side)
    grid = torch.nn.functional.interpolate(grid, scale_factor=scale, mode="bicubic").to(embedding.dtype)
    return torch.cat([embedding[:, :1], grid.permute(0, 2, 3, 1).reshape(1, rows * columns, -1)], dim=1)


def enlarged(depth: Floats, size: tuple[int, int]) -> Floats:
    """Back at the picture's size, by bilinear interpolation with the corners on the corners."""
    torch = package("torch")
    there = torch.from_numpy(np.maximum(depth, 0))[None, None]
    made: Floats = torch.nn.functional.interpolate(there, size, mode="bilinear", align_corners=True)[0, 0].numpy()
    return made


class DptHybrid:
    """Gives `map`: ICE-Bench's depth picture, uint8 at the picture's size, stretched to 0..255 before it is resized.

    A picture of the same depth everywhere has no map and is a failure.
    """

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 8) -> None:
        checkpoint = Checkpoint.of("midas_dpt_hybrid", paths, device, dtype, batch)
        self._model = checkpoint.model("DPTForDepthEstimation", checkpoint.config("DPTConfig"))
        self._route = MapRoute(checkpoint.place, prepare_midas, self.depth, _depth_picture)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return self._route(pictures)

    def depth(self, pixels: Any) -> Any:
        """Depth of prepared pictures of any multiple of 64. transformers' own forward takes squares of 384 alone."""
        model = self._model
        seen = model.dpt.embeddings(pixels, interpolate_pos_encoding=True)
        hidden = seen.last_hidden_states
        kept = list(seen.intermediate_activations)
        wanted = set(model.config.backbone_out_indices[2:])
        for number, layer in enumerate(model.dpt.encoder.layer):
            hidden = layer(hidden)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            if number in wanted:
                kept.append(hidden)
        patch = model.config.patch_size
        rows, columns = pixels.shape[-2] // patch, pixels.shape[-1] // patch
        return model.head(model.neck(kept, rows, columns))


def _depth_picture(depth: Floats, picture: Pixels) -> Feature | Failure:
    whole = stretched(depth)
    if isinstance(whole, Failure):
        return whole
    resized = cv2.resize(whole, (picture.shape[1], picture.shape[0]), interpolation=cv2.INTER_AREA)
    return {"map": np.asarray(resized, dtype=np.uint8)}


def midas_size(height: int, width: int) -> tuple[int, int]:
    """Height and width that the network sees: the shorter side at most 1024, both rounded to multiples of 64."""
    scale = min(min(height, width), _MOST) / min(height, width)
    return round(height * scale / _COARSE) * _COARSE, round(width * scale / _COARSE) * _COARSE


def prepare_midas(picture: Pixels) -> Floats | Failure:
    """3 x height x width in [-1, 1]; reduced by area, as pictures are never enlarged here."""
    height, width = picture.shape[:2]
    rows, columns = midas_size(height, width)
    if not rows or not columns or max(rows, columns) > _THIN * min(rows, columns):
        return Failure(kind="undefined", detail=f"a picture of {width}x{height} is too small or thin for its depth")
    resized = cv2.resize(picture, (columns, rows), interpolation=cv2.INTER_AREA)
    scaled = resized.astype(np.float32) / np.float32(127.5) - np.float32(1)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))
