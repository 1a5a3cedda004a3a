"""Show-o as a worker: text to image, and inpainting where a source and a mask are shown.

Needs a clone of github.com/showlab/Show-o (--repository) and its environment. Settings are MultiRef's: guidance 1.75,
18 steps, temperature 0.7, 256 px (the clone's configs/showo_demo.yaml). MultiRef shows it one reference a turn; how a
reference enters its tokens is not published, so pictures other than a source with its mask are refused here. Not
tested with the real weights.
"""

import argparse
from pathlib import Path

from worker import UnsupportedError, serve, upright, upstream

SPECIAL_TOKENS = ("soi", "eoi", "sov", "eov", "t2i", "mmu", "t2v", "v2v", "lvg")
PATCH = 16  # pixels a token is wide


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default="", help="the clone")
    parser.add_argument("--config", default="configs/showo_demo.yaml", help="within the clone; names the weights too")
    parser.add_argument("--steps", type=int, default=18)
    parser.add_argument("--guidance", type=float, default=1.75)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def load(args):
    upstream(args.repository)
    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from PIL import Image
    from training.prompting_utils import UniversalPrompting, create_attention_mask_predict_next
    from training.utils import image_transform
    from transformers import AutoTokenizer

    from models import MAGVITv2, Showo, get_mask_chedule

    config = OmegaConf.load(str(Path(args.repository) / args.config))
    showo, side = config.model.showo, config.dataset.params.resolution
    tokenizer = AutoTokenizer.from_pretrained(showo.llm_model_path, padding_side="left")
    prompting = UniversalPrompting(
        tokenizer,
        max_text_len=config.dataset.preprocessing.max_seq_length,
        special_tokens=tuple(f"<|{name}|>" for name in SPECIAL_TOKENS),
        ignore_id=-100,
        cond_dropout_prob=config.training.cond_dropout_prob,
    )
    quantizer = MAGVITv2.from_pretrained(config.model.vq_model.vq_model_name).to(args.device).eval()
    model = Showo.from_pretrained(showo.pretrained_model_path).to(args.device).eval()
    masked = model.config.mask_token_id

    def tokens_of(request):
        """All tokens masked, or those of the source that the mask covers."""
        sources, masks = request.with_role("source"), request.with_role("mask")
        if not request.pictures:
            return torch.full((1, showo.num_vq_tokens), masked, device=args.device)
        if len(sources) != 1 or len(masks) != 1 or len(request.pictures) != 2:
            shown = ", ".join(request.roles)
            raise UnsupportedError(f"Show-o takes no picture, or one source with its mask, not {shown}")
        source = image_transform(upright(sources[0]), resolution=side).to(args.device)
        tokens = quantizer.get_code(source[None]) + len(prompting.text_tokenizer)
        grid = upright(masks[0], "L").resize((side // PATCH, side // PATCH), Image.BICUBIC)
        covered = np.asarray(grid, dtype=np.float32).reshape(1, -1) >= 127.5
        tokens[torch.tensor(covered, device=args.device)] = masked
        return tokens

    def paint(request):
        torch.manual_seed(request.seed)
        tokens = tokens_of(request)
        asked, _ = prompting(([request.instruction], tokens), "t2i_gen")
        unasked, both = None, asked
        if args.guidance > 0:
            unasked, _ = prompting(([""], tokens), "t2i_gen")
            both = torch.cat([asked, unasked], dim=0)
        names = {f"{name}_id": int(prompting.sptids_dict[f"<|{name}|>"]) for name in ("pad", "soi", "eoi")}
        with torch.no_grad():
            codes = model.t2i_generate(
                input_ids=asked,
                uncond_input_ids=unasked,
                attention_mask=create_attention_mask_predict_next(both, rm_pad_in_image=True, **names),
                guidance_scale=args.guidance,
                temperature=args.temperature,
                timesteps=args.steps,
                noise_schedule=get_mask_chedule(config.training.get("mask_schedule", "cosine")),
                noise_type="mask",
                seq_len=showo.num_vq_tokens,
                uni_prompting=prompting,
                config=config,
            )
            decoded = quantizer.decode_code(torch.clamp(codes, min=0, max=showo.codebook_size - 1))
        pixels = np.clip((decoded[0].float().cpu().numpy() + 1) / 2, 0, 1).transpose(1, 2, 0)
        return Image.fromarray(np.rint(pixels * 255).astype(np.uint8))

    return paint


if __name__ == "__main__":
    arguments = options()
    serve(lambda: load(arguments), vars(arguments))
