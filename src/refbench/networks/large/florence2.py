"""Florence-2: a caption of a picture, and the boxes of what a caption names, as MultiRef-Bench grounds references."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.preprocess import prepare
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.networks.network import Feature
from refbench.pictures import Pixels

BEAMS, MOST_TOKENS = 3, 1024
_BINS = 1000
# What the network was trained on for these two tasks.
_CAPTION = "What does the image describe?"
_GROUND = "Locate the phrases in the caption: {caption}"

_PHRASE = re.compile(r"([^<]+)((?:<loc_\d+>){4,})")
_BOX = re.compile(r"<loc_(\d+)><loc_(\d+)><loc_(\d+)><loc_(\d+)>")
_MARKS = re.compile(r"</?s>|<pad>")


class Florence2:
    """Gives objects: boxes of the phrases in a caption, in the order of the network's answer, `labels` the phrases.

    The caption is the network's own, kept as `caption`; `ground` takes another. Florence-2 gives no scores: all are 1.
    """

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32") -> None:
        checkpoint = Checkpoint.of("florence2_large", paths, device, dtype)
        self._place = checkpoint.place
        config = checkpoint.config("Florence2Config")
        self._model = checkpoint.model("Florence2ForConditionalGeneration", config)
        self._how = checkpoint.preparation()
        config_of_pictures = orjson.loads(checkpoint.file("preprocessor_config.json").read_bytes())
        self._looks = [int(config.image_token_id)] * int(config_of_pictures["image_seq_length"])
        self._tokenizer = package("tokenizers").Tokenizer.from_file(str(checkpoint.file("tokenizer.json")))
        text = config.text_config
        self._start, self._end = [int(text.bos_token_id)], [int(text.eos_token_id)]
        self._generation = _generation(checkpoint)
        self._ignored = _ignored_phrases(checkpoint)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self.ground(picture, self.caption(picture)) for picture in pictures]

    def caption(self, picture: Pixels) -> str:
        """The network's own short caption."""
        return _MARKS.sub("", self._answer(picture, _CAPTION)).strip()

    def ground(self, picture: Pixels, caption: str) -> Feature | Failure:
        """Boxes of what the caption names, in pixels; none found is an empty array."""
        if not caption.strip():
            return Failure(kind="undefined", detail="the caption is empty: it names nothing to look for")
        answer = self._answer(picture, _GROUND.format(caption=caption.strip()))
        return {**read_boxes(answer, picture.shape, self._ignored), "caption": np.array(caption)}

    def _answer(self, picture: Pixels, prompt: str) -> str:
        # One at a time: in a batch, rounding decides between beams that are equally likely.
        torch = package("torch")
        ids = self._looks + self._start + self._tokenizer.encode(prompt, add_special_tokens=False).ids + self._end
        with torch.inference_mode():
            pixels = torch.from_numpy(prepare(picture, self._how)[None])
            made = self._model.generate(
                input_ids=torch.tensor([ids], device=self._place.device),
                attention_mask=torch.ones((1, len(ids)), dtype=torch.int64, device=self._place.device),
                pixel_values=pixels.to(self._place.device, self._place.torch_dtype),
                generation_config=self._generation,
            )
        return str(self._tokenizer.decode(made[0].tolist(), skip_special_tokens=False))


def _generation(checkpoint: Checkpoint) -> Any:
    settings = orjson.loads(checkpoint.file("generation_config.json").read_bytes())
    settings |= {"num_beams": BEAMS, "max_new_tokens": MOST_TOKENS, "do_sample": False}
    settings.pop("max_length", None)
    return package("transformers").GenerationConfig(**settings)


def _ignored_phrases(checkpoint: Checkpoint) -> frozenset[str]:
    """Phrases that do not name things (pronouns, "the image"), as the repository lists them."""
    path = checkpoint.files.get("processor_config.json")
    config = orjson.loads(path.read_bytes()) if path is not None else {}
    grounding = (config.get("post_processor_config") or {}).get("phrase_grounding") or {}
    return frozenset(grounding.get("banned_grounding_tokens", ()))


def read_boxes(answer: str, shape: tuple[int, ...], ignored: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Boxes and phrases of a grounding answer: phrases, each with four numbers of thousandths for each of its boxes."""
    boxes: list[list[float]] = []
    labels: list[str] = []
    across, down = shape[1] / _BINS, shape[0] / _BINS
    for phrase, places in _PHRASE.findall(_MARKS.sub("", answer)):
        name = phrase.strip()
        if name in ignored:
            continue
        for place in _BOX.findall(places):
            x1, y1, x2, y2 = (int(value) + 0.5 for value in place)
            # Cut to whole pixels, as the released code has them.
            boxes.append([float(int(v)) for v in (x1 * across, y1 * down, x2 * across, y2 * down)])
            labels.append(name)
    return {
        "boxes": np.array(boxes, dtype=np.float32).reshape(-1, 4),
        "scores": np.ones(len(boxes), dtype=np.float32),
        "labels": np.array(labels, dtype=np.str_),
    }
