"""RT-DETR: objects of COCO's classes; where ViTPose looks for people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.neural.depth_maps import run_by_shape
from refbench.networks.neural.place import Place, package
from refbench.networks.neural.preprocess import Preparation, prepare
from refbench.networks.neural.weights import Paths, file_of, named, read_config, read_state, state_file, transformer
from refbench.pictures import Pixels

THRESHOLD = 0.3
"""Below this people are doubtful; transformers' own example of ViTPose has the same."""


class RTDetr:
    """Gives objects, best first; the picture is squeezed to 640 x 640 and not normalised, as in training."""

    name = "rtdetr_r50vd"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 8) -> None:
        files = named(paths)
        self._place = place = Place(device, dtype, batch)
        weights = state_file(files, self.name)
        place.check_room(self.name, [weights])
        config = read_config("RTDetrConfig", file_of(files, self.name, "config.json"), self.name)
        state = read_state(weights, self.name)
        self._model = transformer("RTDetrForObjectDetection", config, state, place, weights, self.name)
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
