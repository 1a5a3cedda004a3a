"""Tiny pipelines of diffusers with random weights, put together and saved by diffusers itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from refbench.failure import Failure
from refbench.models.diffusers.model import DiffusersModel
from refbench.models.model import Commission, Painted, Shown
from refbench.pictures import Pixels, decode, encode
from refbench.specs import Spec

_LETTERS = [chr(code) for code in range(97, 123)]


def words_of_clip() -> tuple[Any, Any]:
    """CLIP's tokenizer over single letters, and a text half for it."""
    import transformers

    names = [*_LETTERS, *(f"{letter}</w>" for letter in _LETTERS), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(
        vocab={name: n for n, name in enumerate(names)}, merges=[], model_max_length=16
    )
    last = len(names) - 1
    config = transformers.CLIPTextConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=len(names),
        bos_token_id=last - 1, eos_token_id=last, pad_token_id=last, max_position_embeddings=16, projection_dim=16,
    )  # fmt: skip
    return tokenizer, transformers.CLIPTextModel(config)


def small_vae(kind: str = "AutoencoderKL", **more: Any) -> Any:
    import diffusers

    return getattr(diffusers, kind)(
        block_out_channels=(8, 8), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4, norm_num_groups=4, **more,
    )  # fmt: skip


def stable_diffusion(kind: str, folder: Path, channels: int, *, checked: bool = False) -> Path:
    """A pipeline around a UNet; with a safety checker that finds fault with everything where `checked`."""
    import diffusers
    import torch

    torch.manual_seed(0)
    tokenizer, text = words_of_clip()
    unet = diffusers.UNet2DConditionModel(
        block_out_channels=(8, 16), layers_per_block=1, sample_size=16, in_channels=channels, out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16, attention_head_dim=4, norm_num_groups=4,
    )  # fmt: skip
    pipeline = getattr(diffusers, kind)(
        vae=small_vae(),
        text_encoder=text,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=diffusers.DDIMScheduler(beta_schedule="scaled_linear", clip_sample=False),
        **_checker(checked),
    )
    pipeline.save_pretrained(folder)
    return folder


def _checker(checked: bool) -> dict[str, Any]:
    import torch
    import transformers

    if not checked:
        return {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker

    both = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        vision_config={**both, "image_size": 28, "patch_size": 14}, text_config=both, projection_dim=16
    )
    checker = StableDiffusionSafetyChecker(config)
    with torch.no_grad():
        checker.concept_embeds_weights.fill_(-2.0)  # no cosine is that small, so every concept is found
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    return {"safety_checker": checker, "feature_extractor": processor}


def flux(kind: str, folder: Path) -> Path:
    """FLUX.1: for text alone, or Kontext, which has the same parts."""
    import diffusers
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer, text = words_of_clip()
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0), *((letter, -2.0) for letter in _LETTERS)]
    tokenizer_2 = transformers.T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=32)
    text_2 = transformers.T5EncoderModel(
        transformers.T5Config(vocab_size=len(pieces), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    )
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8), guidance_embeds=True,
    )  # fmt: skip
    pipeline = getattr(diffusers, kind)(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=small_vae(shift_factor=0.1, scaling_factor=0.4),
        text_encoder=text,
        tokenizer=tokenizer,
        text_encoder_2=text_2,
        tokenizer_2=tokenizer_2,
        transformer=transformer,
    )
    pipeline.save_pretrained(folder)
    return folder


def klein(folder: Path) -> Path:
    """FLUX.2 [klein], which takes any number of references."""
    import diffusers
    import torch
    import transformers
    from tokenizers import pre_tokenizers

    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = transformers.Qwen2Tokenizer(vocab={letter: n for n, letter in enumerate(letters)}, merges=[])
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    config = transformers.Qwen3Config(
        hidden_size=16, intermediate_size=16, num_hidden_layers=28, num_attention_heads=2, num_key_value_heads=1,
        head_dim=8, vocab_size=len(tokenizer), max_position_embeddings=512,
    )  # fmt: skip
    transformer = diffusers.Flux2Transformer2DModel(
        patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=48, timestep_guidance_channels=32, axes_dims_rope=(4, 4, 4, 4), guidance_embeds=False,
    )  # fmt: skip
    pipeline = diffusers.Flux2KleinPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=small_vae("AutoencoderKLFlux2", use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=transformers.Qwen3ForCausalLM(config),
        tokenizer=tokenizer,
        transformer=transformer,
    )
    pipeline.save_pretrained(folder)
    return folder


class Pipelines:
    """Folders of saved pipelines by name, each made when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, name: str) -> Path:
        folder = self.root / name
        if folder.is_dir():
            return folder
        if name == "several":
            return klein(folder)
        if name in ("flux", "kontext"):
            return flux({"flux": "FluxPipeline", "kontext": "FluxKontextPipeline"}[name], folder)
        kind, channels = {
            "text": ("StableDiffusionPipeline", 4),
            "checked": ("StableDiffusionPipeline", 4),
            "edit": ("StableDiffusionInstructPix2PixPipeline", 8),
            "inpaint": ("StableDiffusionInpaintPipeline", 9),
        }[name]
        return stable_diffusion(kind, folder, channels, checked=name == "checked")


def model(folder: Path, options: str = "steps=2") -> DiffusersModel:
    return DiffusersModel(Spec.parse(f"m=diffusers:{folder}?device=cpu&{options}", "--model"))


def paint(folder: Path, options: str, *orders: tuple[Commission, int]) -> list[Painted]:
    """What a model makes of all orders at once."""

    async def work() -> list[Painted]:
        one = model(folder, options)
        try:
            return await asyncio.gather(*(one.generate(commission, seed) for commission, seed in orders))
        finally:
            await one.close()

    return asyncio.run(work())


def pixels(painted: Painted, number: int = 0) -> Pixels:
    assert painted.failure is None, painted.failure
    found = decode(painted.pictures[number])
    assert not isinstance(found, Failure)
    return found


def noise_picture(folder: Path, number: int, width: int = 64, height: int = 80, role: str = "source") -> Shown:
    """A picture of noise, in black and white where it is a mask."""
    path = folder / f"{number}.png"
    noise = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
    path.write_bytes(encode(np.where(noise > 127, np.uint8(255), np.uint8(0)) if role == "mask" else noise))
    return Shown(path, role)
