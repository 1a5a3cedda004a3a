"""RT-DETR: objects of COCO's classes, as MultiBanana's filters look for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refbench.networks.large.device import package
from refbench.networks.large.forward import Floats, MapRoute
from refbench.networks.large.preprocess import Preparation, prepare
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.networks.network import Feature

THRESHOLD = 0.3
"""Detections below this are doubtful."""


def rtdetr_r50vd(paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 8) -> MapRoute:
    """Gives objects, best first; the picture is squeezed to 640 x 640 and not normalised, as in training."""
    checkpoint = Checkpoint.of("rtdetr_r50vd", paths, device, dtype, batch)
    config = checkpoint.config("RTDetrConfig")
    model = checkpoint.model("RTDetrForObjectDetection", config)
    names = [str(config.id2label[n]) for n in range(len(config.id2label))]
    how = Preparation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), size=(640, 640), kernel="bilinear")
    torch = package("torch")

    def forward(pixels: Any) -> Any:
        made = model(pixel_values=pixels)
        return torch.cat([made.pred_boxes.float(), torch.sigmoid(made.logits.float())], dim=-1)

    return MapRoute(
        checkpoint.place,
        lambda picture: prepare(picture, how),
        forward,
        lambda row, picture: _objects(row[:, :4], row[:, 4:], picture.shape, names),
    )


def _objects(boxes: Floats, likely: Floats, shape: tuple[int, ...], names: Sequence[str]) -> Feature:
    # As many as there are queries, whichever queries and classes they come from.
    best = np.argsort(-likely.ravel(), kind="stable")[: len(boxes)]
    scores = likely.ravel()[best]
    best, scores = best[scores > THRESHOLD], scores[scores > THRESHOLD]
    queries, classes = np.divmod(best, likely.shape[1])
    limits = np.array([shape[1], shape[0], shape[1], shape[0]])
    centre, half = boxes[queries, :2], boxes[queries, 2:] / 2
    corners = np.concatenate([centre - half, centre + half], axis=1) * limits
    return {
        "boxes": np.clip(corners, 0, limits).astype(np.float32),
        "scores": scores.astype(np.float32),
        "labels": np.array([names[n] for n in classes], dtype=np.str_),
    }
