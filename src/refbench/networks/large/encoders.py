"""Encoders of pictures alone: SigLIP so400m, DINOv2, and the style descriptor CSD."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from refbench.failure import Failure
from refbench.networks.large.device import Place, compile_layers, package
from refbench.networks.large.forward import PictureRoute
from refbench.networks.large.preprocess import CLIP_MEAN, CLIP_STD, Preparation, preparation
from refbench.networks.large.weights import (
    Paths,
    file_of,
    named,
    need,
    read_config,
    read_state,
    state_file,
    transformer,
)
from refbench.networks.network import Feature
from refbench.pictures import Pixels


class Siglip:
    """The vision half of google/siglip-so400m-patch14-384: squeezed to 384 x 384, attention-pooled."""

    name = "siglip_so400m"

    def __init__(
        self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32, compiled: bool = False
    ) -> None:
        files = named(paths)
        place = Place(device, dtype, batch)
        model = siglip_vision(files, place, self.name)
        if compiled:
            compile_layers(model)
        how = preparation(file_of(files, self.name, "preprocessor_config.json"))
        self.pictures = PictureRoute(place, how, lambda x: model(pixel_values=x).pooler_output, even=compiled)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return self.pictures(pictures)


def siglip_vision(files: Mapping[str, Any], place: Place, name: str) -> Any:
    """The vision model out of a whole SigLIP checkpoint."""
    weights = file_of(files, name, "model.safetensors", "pytorch_model.bin")
    place.check_room(name, [weights])
    config = read_config("SiglipConfig", file_of(files, name, "config.json"), name).vision_config
    state = {key: value for key, value in read_state(weights, name).items() if key.startswith("vision_model.")}
    return transformer("SiglipVisionModel", config, state, place, weights, name)


class Dinov2:
    """facebook/dinov2: the mean over all tokens of the last layer, class token included, as ICE-Bench takes it."""

    name = "dinov2"

    def __init__(
        self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32, compiled: bool = False
    ) -> None:
        files = named(paths)
        place = Place(device, dtype, batch)
        weights = state_file(files, self.name)
        place.check_room(self.name, [weights])
        config = read_config("Dinov2Config", file_of(files, self.name, "config.json"), self.name)
        model = transformer("Dinov2Model", config, read_state(weights, self.name), place, weights, self.name)
        if compiled:
            compile_layers(model)
        how = preparation(file_of(files, self.name, "preprocessor_config.json"))
        # Averaged in fp32 whatever the network runs in: 257 numbers of 8 bits would lose more than they have.
        self.pictures = PictureRoute(
            place, how, lambda x: model(pixel_values=x).last_hidden_state.float().mean(1), even=compiled
        )

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return self.pictures(pictures)


class Dinov2Base(Dinov2):
    """facebook/dinov2-base."""

    name = "dinov2_base"


class Dinov2Giant(Dinov2):
    """facebook/dinov2-giant."""

    name = "dinov2_giant"


class Csd:
    """CSD ViT-L: CLIP's vision trunk before its projection, times the style matrix of the checkpoint."""

    name = "csd_vit_l"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> None:
        place = Place(device, dtype, batch)
        weights = state_file(named(paths), self.name)
        state = read_state(weights, self.name)
        need(state, ("last_layer_style", "backbone.conv1.weight", "backbone.positional_embedding"), weights, self.name)
        model = transformer("CLIPVisionModel", _trunk(state), _renamed(state), place, weights, self.name)
        style = state["last_layer_style"].to(place.device, place.torch_dtype)
        patch = state["backbone.conv1.weight"].shape[-1]
        side = round((state["backbone.positional_embedding"].shape[0] - 1) ** 0.5) * patch
        del state
        # The released code prepares with torchvision, whose crop rounds where transformers' cuts off.
        how = Preparation(CLIP_MEAN, CLIP_STD, short_side=side, crop=(side, side), centre="round")
        self.pictures = PictureRoute(place, how, lambda x: model(pixel_values=x).pooler_output @ style)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return self.pictures(pictures)


_BLOCK = re.compile(r"backbone\.transformer\.resblocks\.(\d+)\.(.+)\.(weight|bias)$")
_NAMES = {
    "backbone.class_embedding": "vision_model.embeddings.class_embedding",
    "backbone.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "backbone.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    # The misspelling is transformers' own.
    "backbone.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "backbone.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "backbone.ln_post.weight": "vision_model.post_layernorm.weight",
    "backbone.ln_post.bias": "vision_model.post_layernorm.bias",
}
_IN_BLOCK = {
    "attn.out_proj": "self_attn.out_proj",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}


def _trunk(state: Mapping[str, Any]) -> Any:
    """The configuration that the shapes of the checkpoint imply; heads are 64 wide in every CLIP of OpenAI's."""
    first = state["backbone.conv1.weight"]
    patch = int(first.shape[-1])
    side = round((state["backbone.positional_embedding"].shape[0] - 1) ** 0.5)
    layers = 1 + max((int(found[1]) for key in state if (found := _BLOCK.match(key))), default=-1)
    return package("transformers").CLIPVisionConfig(
        hidden_size=int(first.shape[0]),
        intermediate_size=int(first.shape[0]) * 4,
        num_hidden_layers=layers,
        num_attention_heads=int(first.shape[0]) // 64,
        image_size=side * patch,
        patch_size=patch,
        hidden_act="quick_gelu",
    )


def _renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """The trunk's weights under the names of transformers; queries, keys and values lie in one matrix here."""
    found = {new: state[old] for old, new in _NAMES.items() if old in state}
    for key, value in state.items():
        block = _BLOCK.match(key)
        if block is not None:
            layer = f"vision_model.encoder.layers.{block[1]}"
            found[f"{layer}.{_IN_BLOCK[block[2]]}.{block[3]}"] = value
        elif key.endswith((".attn.in_proj_weight", ".attn.in_proj_bias")):
            layer = f"vision_model.encoder.layers.{key.split('.')[3]}"
            for part, piece in zip("qkv", value.chunk(3), strict=True):
                found[f"{layer}.self_attn.{part}_proj.{key.rpartition('_')[2]}"] = piece.clone()
    return found
