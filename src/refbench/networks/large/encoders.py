"""Encoders of pictures alone: SigLIP so400m, DINOv2, and the style descriptor CSD."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from refbench.networks.large.device import package
from refbench.networks.large.forward import PictureRoute
from refbench.networks.large.preprocess import CLIP_MEAN, CLIP_STD, Preparation
from refbench.networks.large.weights import Checkpoint, Paths


def siglip_so400m(paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> PictureRoute:
    """The vision half of google/siglip-so400m-patch14-384: squeezed to 384 x 384, attention-pooled."""
    checkpoint = Checkpoint.of("siglip_so400m", paths, device, dtype, batch)
    model = siglip_vision(checkpoint)
    return PictureRoute(
        checkpoint.place, checkpoint.preparation(), lambda pixels: model(pixel_values=pixels).pooler_output
    )


def siglip_vision(checkpoint: Checkpoint) -> Any:
    """The vision model out of a whole SigLIP checkpoint, which may have a head beside it."""
    weights = checkpoint.file("model.safetensors", "pytorch_model.bin")
    config = checkpoint.config("SiglipConfig").vision_config
    alone = replace(checkpoint, files={weights.name: weights})
    state = {key: value for key, value in alone.state().items() if key.startswith("vision_model.")}
    return alone.model("SiglipVisionModel", config, state)


def _dinov2(name: str, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> PictureRoute:
    """facebook/dinov2: the mean over all tokens of the last layer, class token included, as ICE-Bench takes it."""
    checkpoint = Checkpoint.of(name, paths, device, dtype, batch)
    model = checkpoint.model("Dinov2Model", checkpoint.config("Dinov2Config"))
    # Averaged in fp32 whatever the network runs in: 257 numbers of 8 bits would lose more than they have.
    return PictureRoute(
        checkpoint.place,
        checkpoint.preparation(),
        lambda pixels: model(pixel_values=pixels).last_hidden_state.float().mean(1),
    )


dinov2_base, dinov2_giant = (partial(_dinov2, name) for name in ("dinov2_base", "dinov2_giant"))


def csd_vit_l(paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> PictureRoute:
    """CSD ViT-L: CLIP's vision trunk before its projection, times the style matrix of the checkpoint."""
    checkpoint = Checkpoint.of("csd_vit_l", paths, device, dtype, batch)
    state = checkpoint.state(["last_layer_style", "backbone.conv1.weight", "backbone.positional_embedding"])
    config = _trunk(state)
    model = checkpoint.model("CLIPVisionModel", config, _renamed(state))
    style = checkpoint.placed({"style": state["last_layer_style"]})["style"]
    side = config.image_size
    # The released code prepares with torchvision, whose crop rounds where transformers' cuts off.
    how = Preparation(CLIP_MEAN, CLIP_STD, short_side=side, crop=(side, side), centre="round")
    return PictureRoute(checkpoint.place, how, lambda pixels: model(pixel_values=pixels).pooler_output @ style)


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
    layers = 1 + max((int(block[1]) for key in state if (block := _BLOCK.match(key))), default=-1)
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
    renamed = {new: state[old] for old, new in _NAMES.items() if old in state}
    for key, value in state.items():
        block = _BLOCK.match(key)
        if block is not None:
            layer = f"vision_model.encoder.layers.{block[1]}"
            renamed[f"{layer}.{_IN_BLOCK[block[2]]}.{block[3]}"] = value
        elif key.endswith((".attn.in_proj_weight", ".attn.in_proj_bias")):
            layer = f"vision_model.encoder.layers.{key.split('.')[3]}"
            for part, piece in zip("qkv", value.chunk(3), strict=True):
                renamed[f"{layer}.self_attn.{part}_proj.{key.rpartition('_')[2]}"] = piece.clone()
    return renamed
