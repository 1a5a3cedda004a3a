"""Grounding DINO: the boxes of what a text names, each with a score; the network that MultiRef-Bench's paper names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from refbench.failure import Failure
from refbench.networks.large.device import Place, package
from refbench.networks.large.preprocess import Preparation, prepare
from refbench.networks.large.weights import Paths, file_of, named, read_config, read_state, state_file, transformer
from refbench.networks.network import Feature
from refbench.pictures import Pixels

THRESHOLD = 0.25
ANYTHING = "object."
"""What is looked for when no text is given."""
_THIN = 16


class GroundingDino:
    """Gives objects, best first; `labels` are the words that a box belongs to. `ground` takes a text to look for."""

    name = "grounding_dino_base"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32") -> None:
        files = named(paths)
        self._place = place = Place(device, dtype)
        weights = state_file(files, self.name)
        place.check_room(self.name, [weights])
        config = read_config("GroundingDinoConfig", file_of(files, self.name, "config.json"), self.name)
        config.disable_custom_kernels = True  # transformers would fetch them, and run code that nobody has looked at
        state = read_state(weights, self.name)
        self._model = transformer("GroundingDinoForObjectDetection", config, state, place, weights, self.name)
        self._said = orjson.loads(file_of(files, self.name, "preprocessor_config.json").read_bytes())
        tokenizer = package("tokenizers").Tokenizer
        self._tokenizer = tokenizer.from_file(str(file_of(files, self.name, "tokenizer.json")))
        self._tokenizer.enable_truncation(int(config.max_text_len))

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self.ground(picture, ANYTHING) for picture in pictures]

    def ground(self, picture: Pixels, caption: str) -> Feature | Failure:
        """Boxes of what the text names, in pixels; none found is an empty array."""
        torch = package("torch")
        text = caption.strip().lower()
        if not text:
            return Failure(kind="undefined", detail="the caption is empty: it names nothing to look for")
        height, width = picture.shape[:2]
        if max(height, width) > _THIN * min(height, width):
            return Failure(
                kind="undefined", detail=f"a picture of {width}x{height} is too thin to look for things in it"
            )
        words = self._tokenizer.encode(text if text.endswith(".") else f"{text}.")
        ids = torch.tensor([words.ids], device=self._place.device)
        with torch.inference_mode():
            how = self._preparation(height, width)
            pixels = torch.from_numpy(prepare(picture, how)[None]).to(self._place.device, self._place.torch_dtype)
            made = self._model(
                pixel_values=pixels,
                pixel_mask=torch.ones(pixels.shape[0], *pixels.shape[2:], dtype=torch.int64, device=pixels.device),
                input_ids=ids,
                token_type_ids=torch.zeros_like(ids),
                attention_mask=torch.ones_like(ids),
            )
            likely = torch.sigmoid(made.logits[0].float()).cpu().numpy()
            boxes = made.pred_boxes[0].float().cpu().numpy()
        return self._objects(likely, boxes, words.ids, (height, width))

    def _preparation(self, height: int, width: int) -> Preparation:
        size = self._said["size"]
        return Preparation(
            mean=tuple(self._said["image_mean"]),
            std=tuple(self._said["image_std"]),
            size=fitted_size(height, width, int(size["shortest_edge"]), int(size["longest_edge"])),
            kernel="bilinear",
        )

    def _objects(self, likely: Any, boxes: Any, ids: Sequence[int], size: tuple[int, int]) -> Feature:
        scores = likely.max(axis=1)
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] > THRESHOLD]
        centre, half = boxes[order, :2], boxes[order, 2:] / 2
        corners = np.concatenate([centre - half, centre + half], axis=1)
        limits = np.array([size[1], size[0], size[1], size[0]])
        named_by = [
            # The first and the last place are those of the marks around the text.
            [ids[int(n)] for n in np.flatnonzero(likely[row] > THRESHOLD) if 0 < n < min(len(ids), likely.shape[1]) - 1]
            for row in order
        ]
        return {
            "boxes": np.clip(corners * limits, 0, limits).astype(np.float32),
            "scores": scores[order].astype(np.float32),
            "labels": np.array([self._tokenizer.decode(words) for words in named_by], dtype=np.str_),
        }


def fitted_size(height: int, width: int, shortest: int, longest: int) -> tuple[int, int]:
    """Height and width with the shorter side as wanted, unless the longer one would then be too long."""
    short, long = min(height, width), max(height, width)
    exact = None
    if long / short * shortest > longest:
        exact = longest * short / long
        shortest = round(exact)
    if short == shortest:
        return height, width
    other = int((exact or shortest) * long / short)
    return (other, shortest) if width < height else (shortest, other)
