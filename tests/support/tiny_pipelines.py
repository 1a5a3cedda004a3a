"""Tiny pipelines with random weights, put together and saved by whichever diffusers runs this: nothing else is needed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

_LETTERS = [chr(code) for code in range(97, 123)]


def words_of_clip() -> tuple[Any, Any]:
    """CLIP's tokenizer over single letters, and a text half for it."""
    import transformers

    names = [*_LETTERS, *(f"{letter}</w>" for letter in _LETTERS), "<|startoftext|>", "<|endoftext|>"]
    with tempfile.TemporaryDirectory() as folder:  # from files, which releases 4 and 5 of transformers both read
        (Path(folder) / "vocab.json").write_text(json.dumps({name: n for n, name in enumerate(names)}))
        (Path(folder) / "merges.txt").write_text("#version: 0.2\n")
        tokenizer = transformers.CLIPTokenizer.from_pretrained(folder, model_max_length=16)
    last = len(names) - 1
    config = transformers.CLIPTextConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=len(names),
        bos_token_id=last - 1, eos_token_id=last, pad_token_id=last, max_position_embeddings=16, projection_dim=16,
    )  # fmt: skip
    return tokenizer, transformers.CLIPTextModel(config)


def words_of_t5(wide: int = 16) -> tuple[Any, Any]:
    """T5's tokenizer over single letters, and the encoder that FLUX.1, SD3 and PixArt read it with."""
    import transformers

    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0), *((letter, -2.0) for letter in _LETTERS)]
    config = transformers.T5Config(vocab_size=len(pieces), d_model=wide, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    tokenizer = transformers.T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=32)
    return tokenizer, transformers.T5EncoderModel(config)


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


def stable_diffusion_xl(kind: str, folder: Path, channels: int = 4, **more: Any) -> Path:
    import diffusers
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer, text = words_of_clip()
    unet = diffusers.UNet2DConditionModel(
        block_out_channels=(8, 16), layers_per_block=1, sample_size=16, in_channels=channels, out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, attention_head_dim=4, norm_num_groups=4, use_linear_projection=True,
        addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=64,
    )  # fmt: skip
    pipeline = getattr(diffusers, kind)(
        vae=small_vae(), text_encoder=text, tokenizer=tokenizer, tokenizer_2=tokenizer,
        text_encoder_2=transformers.CLIPTextModelWithProjection(text.config), unet=unet,
        **{"scheduler": diffusers.EulerDiscreteScheduler(), **more},
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


def cosxl_edit(folder: Path) -> Path:
    """CosXL-Edit as diffusers saves it when it has read the single file."""
    import diffusers

    scheduler = diffusers.EDMEulerScheduler(
        0.002, 120.0, 1.0, prediction_type="v_prediction", sigma_schedule="exponential"
    )
    kind = "StableDiffusionXLInstructPix2PixPipeline"
    return stable_diffusion_xl(kind, folder, 8, scheduler=scheduler, is_cosxl_edit=True)


def ip_adapter(folder: Path, base: Path) -> Path:
    """An IP-Adapter for a saved pipeline, laid out as in its repository, with the image encoder beside it."""
    import diffusers
    import torch
    import transformers
    from safetensors.torch import save_file

    torch.manual_seed(1)
    pipeline = diffusers.DiffusionPipeline.from_pretrained(base)
    wide = 32 if hasattr(pipeline, "unet") else 16  # of the tokens that the pipeline attends to
    if hasattr(pipeline, "unet"):
        weights, first = {}, "image_proj"
        states = pipeline.unet.state_dict()
        crossed = [name for name in pipeline.unet.attn_processors if "attn2" in name]
        for number, name in enumerate(crossed):
            rows = states[name.replace(".processor", ".to_k.weight")].shape[0]
            for part in "kv":
                weights[f"ip_adapter.{2 * number + 1}.to_{part}_ip.weight"] = torch.randn(rows, wide)
    else:
        place, first = "double_blocks.0.processor.ip_adapter_double_stream", "ip_adapter_proj_model"
        weights = {f"{place}_{part}_proj.weight": torch.randn(32, wide) for part in "kv"}
        weights |= {f"{place}_{part}_proj.bias": torch.randn(32) for part in "kv"}
    weights |= {f"{first}.proj.weight": torch.randn(4 * wide, 16), f"{first}.proj.bias": torch.randn(4 * wide)}
    weights |= {f"{first}.norm.weight": torch.randn(wide), f"{first}.norm.bias": torch.randn(wide)}
    folder.mkdir(parents=True)
    save_file(weights, folder / "adapter.safetensors")
    vision = transformers.CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14,
        projection_dim=16,
    )  # fmt: skip
    transformers.CLIPVisionModelWithProjection(vision).save_pretrained(folder / "image_encoder")
    return folder / "adapter.safetensors"


def redux(folder: Path) -> Path:
    """FLUX.1 Redux, which its repository holds without text encoders."""
    import diffusers
    import torch
    import transformers
    from diffusers.pipelines.flux.modeling_flux import ReduxImageEncoder

    torch.manual_seed(2)
    vision = transformers.SiglipVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14
    )
    diffusers.FluxPriorReduxPipeline(
        image_encoder=transformers.SiglipVisionModel(vision),
        feature_extractor=transformers.SiglipImageProcessor(size={"height": 28, "width": 28}),
        image_embedder=ReduxImageEncoder(redux_dim=16, txt_in_features=16),
    ).save_pretrained(folder)
    return folder


def lora(folder: Path, base: Path) -> Path:
    """A LoRA of a saved FLUX.1's transformer."""
    import diffusers
    import peft
    import torch

    torch.manual_seed(3)
    pipeline = diffusers.DiffusionPipeline.from_pretrained(base)
    config = peft.LoraConfig(r=2, target_modules=["to_q", "to_k", "to_v"], init_lora_weights=False)
    pipeline.transformer.add_adapter(config)
    layers = peft.get_peft_model_state_dict(pipeline.transformer)
    type(pipeline).save_lora_weights(folder, transformer_lora_layers=layers)
    return folder


def flux(kind: str, folder: Path, channels: int = 16) -> Path:
    """FLUX.1: for text alone, Kontext, Fill or Control, which have the same parts."""
    import diffusers
    import torch

    torch.manual_seed(0)
    tokenizer, text = words_of_clip()
    tokenizer_2, text_2 = words_of_t5()
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=channels, out_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16,
        num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8), guidance_embeds=True,
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


def stable_diffusion_3(folder: Path) -> Path:
    import diffusers
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer, text = words_of_clip()
    tokenizer_3, text_3 = words_of_t5(32)
    halves = [transformers.CLIPTextModelWithProjection(text.config) for _ in range(2)]
    transformer = diffusers.SD3Transformer2DModel(
        sample_size=16, patch_size=1, in_channels=4, out_channels=4, num_layers=1, attention_head_dim=8,
        num_attention_heads=2, joint_attention_dim=32, caption_projection_dim=16, pooled_projection_dim=32,
    )  # fmt: skip
    pipeline = diffusers.StableDiffusion3Pipeline(
        transformer=transformer, scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        vae=small_vae(shift_factor=0.1, scaling_factor=0.4), text_encoder=halves[0], tokenizer=tokenizer,
        text_encoder_2=halves[1], tokenizer_2=tokenizer, text_encoder_3=text_3, tokenizer_3=tokenizer_3,
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


def pixart(folder: Path) -> Path:
    import diffusers
    import torch

    torch.manual_seed(0)
    tokenizer, text = words_of_t5()
    transformer = diffusers.PixArtTransformer2DModel(
        sample_size=32, patch_size=2, in_channels=4, out_channels=8, num_layers=1, attention_head_dim=8,
        num_attention_heads=2, caption_channels=16, cross_attention_dim=16, use_additional_conditions=False,
    )  # fmt: skip
    pipeline = diffusers.PixArtAlphaPipeline(
        tokenizer=tokenizer, text_encoder=text, vae=small_vae(), transformer=transformer,
        scheduler=diffusers.DPMSolverMultistepScheduler(),
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


def omnigen(folder: Path) -> Path:
    """OmniGen, one network for words and pictures. Needs torchvision."""
    import diffusers
    import torch
    import transformers
    from tokenizers import pre_tokenizers

    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = transformers.Qwen2Tokenizer(vocab={letter: n for n, letter in enumerate(letters)}, merges=[])
    transformer = diffusers.OmniGenTransformer2DModel(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=4, intermediate_size=32, num_layers=1, in_channels=4,
        time_step_dim=4, pad_token_id=0, vocab_size=len(tokenizer), max_position_embeddings=2048,
        original_max_position_embeddings=1024, rope_scaling={"long_factor": [1.0, 1.0], "short_factor": [1.0, 1.0]},
    )  # fmt: skip
    vae = diffusers.AutoencoderKL(
        block_out_channels=(4,) * 4, down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=4, norm_num_groups=4,
    )  # fmt: skip
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(invert_sigmas=True, num_train_timesteps=1)
    pipeline = diffusers.OmniGenPipeline(transformer=transformer, scheduler=scheduler, vae=vae, tokenizer=tokenizer)
    pipeline.save_pretrained(folder)
    return folder


def qwen_edit(folder: Path) -> Path:
    """Qwen-Image-Edit-2509 and -2511, which read their pictures twice. Needs torchvision."""
    import diffusers
    import torch
    import transformers
    from tokenizers import pre_tokenizers

    torch.manual_seed(0)
    marks = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|endoftext|>", *marks]
    tokenizer = transformers.Qwen2Tokenizer(
        vocab={name: n for n, name in enumerate(names)}, merges=[], additional_special_tokens=marks, pad_token=names[-7]
    )
    processor = transformers.Qwen2VLProcessor(
        transformers.Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=56 * 56),
        tokenizer,
        transformers.Qwen2VLVideoProcessor(),
        chat_template="{{ messages }}",
    )
    both = {"hidden_size": 16, "intermediate_size": 16}
    start, end, image, video = (names.index(mark) for mark in marks[2:])
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            **both, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": len(names),
            "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default"}, "max_position_embeddings": 4096,
            "bos_token_id": end, "eos_token_id": end,
        },
        vision_config={**both, "depth": 1, "num_heads": 2, "out_hidden_size": 16},
        vision_start_token_id=start, vision_end_token_id=end, image_token_id=image, video_token_id=video,
    )  # fmt: skip
    vae = diffusers.AutoencoderKLQwenImage(
        base_dim=4, z_dim=4, dim_mult=[1] * 4, num_res_blocks=1, latents_mean=[0.0] * 4, latents_std=[1.0] * 4
    )
    transformer = diffusers.QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=16, axes_dims_rope=(8, 4, 4),
    )  # fmt: skip
    pipeline = diffusers.QwenImageEditPlusPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(), vae=vae, tokenizer=tokenizer, processor=processor,
        text_encoder=transformers.Qwen2_5_VLForConditionalGeneration(config), transformer=transformer,
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder
