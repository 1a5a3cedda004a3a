"""Aesthetic scores: a linear head on an encoder's normalised vector; LAION's first, and version 2.5 on SigLIP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from refbench.networks.large.device import package
from refbench.networks.large.encoders import siglip_vision
from refbench.networks.large.forward import PictureRoute
from refbench.networks.large.weights import Checkpoint, Paths, read_state
from refbench.record import RefBenchError


def siglip_aesthetic_v25(paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> PictureRoute:
    """Aesthetic predictor 2.5: SigLIP so400m's pooled vector through five layers without anything between them.

    Pictures are first brought to a height of 1024 px, as ICE-Bench's code does. The official run is in bf16.
    """
    checkpoint = Checkpoint.of("siglip_aesthetic_v25", paths, device, dtype, batch)
    name = checkpoint.network
    head_file = checkpoint.file("aesthetic_predictor_v2_5.pth", "aesthetic_predictor_v2_5.safetensors")
    layers = _layers(checkpoint.placed(read_state(head_file, name)))
    model = siglip_vision(checkpoint)
    if not layers or layers[0][0].shape[1] != model.config.hidden_size or layers[-1][0].shape[0] != 1:
        raise RefBenchError(f"{head_file} is not the head of {name}: refbench fetch {name}")

    def forward(prepared: Any) -> Any:
        value = _unit(model(pixel_values=prepared).pooler_output)
        for weight, bias in layers:
            value = package("torch").nn.functional.linear(value, weight, bias)
        return value[:, 0]

    return PictureRoute(checkpoint.place, checkpoint.preparation(height_first=1024), forward, gives="score")


def laion_v1_l14(paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> PictureRoute:
    """LAION's aesthetic predictor 1 for CLIP L/14: one linear layer on the normalised projected vector."""
    checkpoint = Checkpoint.of("laion_v1_l14", paths, device, dtype, batch)
    state = checkpoint.state(["predictor.weight", "predictor.bias"])
    head = checkpoint.placed({key: state.pop(key) for key in ("predictor.weight", "predictor.bias")})
    model = checkpoint.model("CLIPVisionModelWithProjection", checkpoint.config("CLIPVisionConfig"), state)

    def forward(prepared: Any) -> Any:
        vector = _unit(model(pixel_values=prepared).image_embeds)
        return package("torch").nn.functional.linear(vector, head["predictor.weight"], head["predictor.bias"])[:, 0]

    return PictureRoute(checkpoint.place, checkpoint.preparation(), forward, gives="score")


def _unit(vectors: Any) -> Any:
    return vectors / vectors.norm(dim=-1, keepdim=True)


def _layers(state: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Weight and bias of each layer in the order of the numbers in their names; dropouts leave gaps in them."""
    names = [
        name.removesuffix(".weight") for name in state if name.endswith(".weight") and f"{name[:-7]}.bias" in state
    ]
    names.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    return [(state[f"{name}.weight"], state[f"{name}.bias"]) for name in names]
