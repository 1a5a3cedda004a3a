"""RT-DETR: objects of COCO's classes, as MultiBanana's filters look for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.forward import run_by_shape
from refbench.networks.large.preprocess import Preparation, prepare
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.networks.network import Feature
from refbench.pictures import Pixels

THRESHOLD = 0.3
"""Detections below this are doubtful."""


class RTDetr:
    """Gives objects, best first; the picture is squeezed to 640 x 640 and not normalised, as in training."""

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 8) -> None:
        checkpoint = Checkpoint.of("rtdetr_r50vd", paths, device, dtype, batch)
        self._place = checkpoint.place
        config = checkpoint.config("RTDetrConfig")
        self._model = checkpoint.model("RTDetrForObjectDetection", config)
        self._names = [str(config.id2label[n]) for n in range(len(config.id2label))]
        self._how = Preparation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), size=(640, 640), kernel="bilinear")

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        torch = package("torch")

        def forward(pixels: object) -> object:
            made = self._model(pixel_values=pixels)
            return torch.cat([made.pred_boxes.float(), torch.sigmoid(made.logits.float())], dim=-1)

        rows = run_by_shape(self._place, [prepare(picture, self._how) for picture in pictures], forward)
        return [
            row if isinstance(row, Failure) else self._objects(row[:, :4], row[:, 4:], picture.shape)
            for row, picture in zip(rows, pictures, strict=True)
        ]

    def _objects(self, boxes: np.ndarray, likely: np.ndarray, shape: tuple[int, ...]) -> Feature:
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
            "labels": np.array([self._names[n] for n in classes], dtype=np.str_),
        }
