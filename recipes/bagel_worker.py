"""BAGEL as a worker: text to image, and editing with any number of pictures in front of the instruction.

Needs a clone of github.com/ByteDance-Seed/Bagel (--repository), its environment, and the weights of BAGEL-7B-MoT in a
directory. Settings are those of its demonstration; --think is the variant that CREval lists beside the plain one. Not
tested with the real weights.
"""

import argparse
from pathlib import Path

from worker import serve, upstream


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default="", help="the clone")
    parser.add_argument("--weights", default="models/BAGEL-7B-MoT", help="directory")
    parser.add_argument("--think", action="store_true", help="let the model plan in words first")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--guidance", type=float, default=4.0, help="of the text")
    parser.add_argument("--image-guidance", type=float, default=2.0)
    parser.add_argument("--side", type=int, default=1024, help="side of the picture without any input picture")
    parser.add_argument("--device", default="cuda:0")
    return parser.parse_args()


def inferencer(args):
    """Model, autoencoder, tokenizer and transforms, put together as the clone's demonstration does."""
    import torch
    from accelerate import init_empty_weights, load_checkpoint_and_dispatch
    from data.data_utils import add_special_tokens
    from data.transforms import ImageTransform
    from inferencer import InterleaveInferencer
    from modeling.autoencoder import load_ae
    from modeling.bagel import (
        Bagel,
        BagelConfig,
        Qwen2Config,
        Qwen2ForCausalLM,
        SiglipVisionConfig,
        SiglipVisionModel,
    )
    from modeling.qwen2 import Qwen2Tokenizer

    def weights(name):
        return str(Path(args.weights) / name)

    language = Qwen2Config.from_json_file(weights("llm_config.json"))
    language.qk_norm, language.tie_word_embeddings, language.layer_module = True, False, "Qwen2MoTDecoderLayer"
    vision = SiglipVisionConfig.from_json_file(weights("vit_config.json"))
    vision.rope, vision.num_hidden_layers = False, vision.num_hidden_layers - 1
    autoencoder, latent = load_ae(local_path=weights("ae.safetensors"))
    config = BagelConfig(
        visual_gen=True,
        visual_und=True,
        llm_config=language,
        vit_config=vision,
        vae_config=latent,
        vit_max_num_patch_per_side=70,
        connector_act="gelu_pytorch_tanh",
        latent_patch_size=2,
        max_latent_size=64,
    )
    with init_empty_weights():
        model = Bagel(Qwen2ForCausalLM(language), SiglipVisionModel(vision), config)
        model.vit_model.vision_model.embeddings.convert_conv2d_to_linear(vision, meta=True)
    model = load_checkpoint_and_dispatch(
        model,
        checkpoint=weights("ema.safetensors"),
        device_map={"": args.device},
        dtype=torch.bfloat16,
        force_hooks=True,
    ).eval()
    tokenizer, new_token_ids, _ = add_special_tokens(Qwen2Tokenizer.from_pretrained(args.weights))
    return InterleaveInferencer(
        model=model,
        vae_model=autoencoder.to(args.device),
        tokenizer=tokenizer,
        vae_transform=ImageTransform(1024, 512, 16),
        vit_transform=ImageTransform(980, 224, 14),
        new_token_ids=new_token_ids,
    )


def load(args):
    upstream(args.repository)
    import torch

    model = inferencer(args)

    def paint(request):
        torch.manual_seed(request.seed)  # the demonstration takes 0 as "any seed"; here it is a seed like others
        images = request.images()
        settings = {"cfg_text_scale": args.guidance, "num_timesteps": args.steps, "timestep_shift": 3.0}
        if images:  # the size follows the last picture
            settings.update(cfg_img_scale=args.image_guidance, cfg_interval=[0.0, 1.0], cfg_renorm_type="text_channel")
        else:
            width, height = request.size(args.side, args.side)
            settings.update(cfg_interval=[0.4, 1.0], cfg_renorm_type="global", image_shapes=(height, width))
        given = model.interleave_inference(
            [*images, request.instruction], think=args.think, max_think_token_n=1024, cfg_renorm_min=0.0, **settings
        )
        return [one for one in given if not isinstance(one, str)]

    return paint


if __name__ == "__main__":
    arguments = options()
    serve(lambda: load(arguments), vars(arguments))
