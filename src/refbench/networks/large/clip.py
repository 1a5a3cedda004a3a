"""CLIP: pictures and texts as vectors that can be compared; OpenAI's B/16 and L/14 at 336 px."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.forward import NOT_FINITE, PictureRoute
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.networks.network import Feature
from refbench.pictures import Pixels


class Clip:
    """Takes pictures and texts in any mixture. `vector` is the projected embedding, not normalised.

    Features of texts also have `sliced`: the vector that torchmetrics' CLIPScore gets, which cuts the end marker off a
    text of more than 77 tokens; of shorter texts it is the same vector.
    """

    def __init__(self, name: str, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> None:
        checkpoint = Checkpoint.of(name, paths, device, dtype, batch)
        self._place = checkpoint.place
        config = checkpoint.config("CLIPConfig")
        self._model = checkpoint.model("CLIPModel", config)
        tokens = checkpoint.file("tokenizer.json", "vocab.json")
        self._tokenizer = package("transformers").CLIPTokenizer.from_pretrained(tokens.parent, local_files_only=True)
        self._longest = int(config.text_config.max_position_embeddings)
        how = checkpoint.preparation()
        self.pictures = PictureRoute(self._place, how, self._look)
        twice = replace(how, centre="round", rescaled_twice=True)
        self.pictures_rescaled_twice = PictureRoute(self._place, twice, self._look)
        """Pictures as MultiRef's caption metric shows them to the network (its fault 3)."""

    def __call__(self, seen: Sequence[Pixels | str]) -> list[Feature | Failure]:
        texts = iter(self.texts([item for item in seen if isinstance(item, str)]))
        pictures = iter(self.pictures([item for item in seen if not isinstance(item, str)]))
        return [next(texts) if isinstance(item, str) else next(pictures) for item in seen]

    def texts(self, texts: Sequence[str]) -> list[Feature | Failure]:
        """Features of the texts; one without any words has none."""
        features: list[Feature | Failure] = []
        whole = [self._tokenizer(text, truncation=True, max_length=self._longest)["input_ids"] for text in texts]
        plain = [self._tokenizer(text, verbose=False)["input_ids"] for text in texts]
        vectors = self._vectors([*whole, *(ids[: self._longest] for ids in plain)])
        for n, text in enumerate(texts):
            vector, sliced = vectors[n], vectors[len(texts) + n]
            if not text.strip():
                features.append(Failure(kind="undefined", detail="the text is empty"))
            elif isinstance(vector, Failure):
                features.append(vector)
            else:
                features.append({"vector": vector, "sliced": vector if isinstance(sliced, Failure) else sliced})
        return features

    def _vectors(self, sequences: Sequence[Sequence[int]]) -> list[NDArray[np.float32] | Failure]:
        """Vectors of token sequences; those of one length together, so that nothing is padded. Equal ones once."""
        known: dict[tuple[int, ...], NDArray[np.float32] | Failure] = {tuple(ids): NOT_FINITE for ids in sequences}
        lengths: dict[int, list[tuple[int, ...]]] = {}
        for ids in known:
            lengths.setdefault(len(ids), []).append(ids)
        for group in lengths.values():
            known.update(zip(group, self._place.run(group, self._read), strict=True))
        return [known[tuple(ids)] for ids in sequences]

    def _read(self, sequences: Sequence[Sequence[int]]) -> list[NDArray[np.float32] | Failure]:
        torch = package("torch")
        with torch.inference_mode():
            ids = torch.tensor(sequences, device=self._place.device)
            rows = self._model.text_projection(self._model.text_model(input_ids=ids).pooler_output)
            made = rows.to(torch.float32).cpu().numpy()
        return [row if np.isfinite(row).all() else NOT_FINITE for row in made]

    def _look(self, prepared: Any) -> Any:
        return self._model.visual_projection(self._model.vision_model(pixel_values=prepared).pooler_output)


clip_b16 = partial(Clip, "clip_b16")
"""openai/clip-vit-base-patch16: shorter side 224, centre crop."""
clip_l14_336 = partial(Clip, "clip_l14_336")
"""openai/clip-vit-large-patch14-336: shorter side 336, centre crop."""
