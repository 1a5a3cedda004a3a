"""Aesthetic scores: a linear head on an encoder's normalised vector; LAION's first, and version 2.5 on SigLIP."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from refbench.failure import Failure
from refbench.networks.large.device import Place, package
from refbench.networks.large.encoders import siglip_vision
from refbench.networks.large.forward import PictureRoute
from refbench.networks.large.preprocess import preparation
from refbench.networks.large.weights import (
    Paths,
    file_of,
    named,
    need,
    placed,
    read_config,
    read_state,
    state_file,
    transformer,
)
from refbench.networks.network import Feature
from refbench.pictures import Pixels
from refbench.record import RefBenchError


class SiglipAesthetic:
    """Aesthetic predictor 2.5: SigLIP so400m's pooled vector through five layers without anything between them.

    Pictures are first brought to a height of 1024 px, as ICE-Bench's code does. The official run is in bf16.
    """

    name = "siglip_aesthetic_v25"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> None:
        files = named(paths)
        place = Place(device, dtype, batch)
        head_file = file_of(files, self.name, "aesthetic_predictor_v2_5.pth", "aesthetic_predictor_v2_5.safetensors")
        layers = _layers(placed(read_state(head_file, self.name), place))
        model = siglip_vision(files, place, self.name)
        if not layers or layers[0][0].shape[1] != model.config.hidden_size or layers[-1][0].shape[0] != 1:
            raise RefBenchError(f"{head_file} is not the head of {self.name}: refbench fetch {self.name}")
        how = preparation(file_of(files, self.name, "preprocessor_config.json"), height_first=1024)

        def forward(prepared: Any) -> Any:
            value = _unit(model(pixel_values=prepared).pooler_output)
            for weight, bias in layers:
                value = package("torch").nn.functional.linear(value, weight, bias)
            return value[:, 0]

        self.pictures = PictureRoute(place, how, forward, gives="score")

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return self.pictures(pictures)


class LaionAesthetic:
    """LAION's aesthetic predictor 1 for CLIP L/14: one linear layer on the normalised projected vector."""

    name = "laion_v1_l14"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> None:
        files = named(paths)
        place = Place(device, dtype, batch)
        weights = state_file(files, self.name)
        place.check_room(self.name, [weights])
        state = read_state(weights, self.name)
        need(state, ("predictor.weight", "predictor.bias"), weights, self.name)
        head = placed({key: state.pop(key) for key in ("predictor.weight", "predictor.bias")}, place)
        config = read_config("CLIPVisionConfig", file_of(files, self.name, "config.json"), self.name)
        model = transformer("CLIPVisionModelWithProjection", config, state, place, weights, self.name)
        how = preparation(file_of(files, self.name, "preprocessor_config.json"))

        def forward(prepared: Any) -> Any:
            vector = _unit(model(pixel_values=prepared).image_embeds)
            return package("torch").nn.functional.linear(vector, head["predictor.weight"], head["predictor.bias"])[:, 0]

        self.pictures = PictureRoute(place, how, forward, gives="score")

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return self.pictures(pictures)


def _unit(vectors: Any) -> Any:
    return vectors / vectors.norm(dim=-1, keepdim=True)


def _layers(state: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Weight and bias of each layer in the order of the numbers in their names; dropouts leave gaps in them."""
    names = [
        name.removesuffix(".weight") for name in state if name.endswith(".weight") and f"{name[:-7]}.bias" in state
    ]
    names.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    return [(state[f"{name}.weight"], state[f"{name}.bias"]) for name in names]
