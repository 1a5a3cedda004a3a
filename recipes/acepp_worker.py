"""ACE++ (with diffusers) as a worker: one source to edit, a mask, and one reference.

Needs a clone of github.com/ali-vilab/ACE_plus (--repository) and its environment; the weights' places are in its
config file and environment variables. Settings are its defaults; MultiRef's (ddim, 20 steps, guidance 4.5, rescale
0.5) belong to ACE-0.6B-512, another model. Not tested with the real weights.
"""

import argparse
from pathlib import Path

from worker import UnsupportedError, serve, upright, upstream


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default="", help="the clone")
    parser.add_argument("--config", default="config/ace_plus_diffuser_infer.yaml", help="within the clone")
    parser.add_argument("--lora", default="", help="weights of the task: portrait, subject or local editing")
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--guidance", type=float, default=50)
    parser.add_argument("--repainting-scale", type=float, default=1.0, help="1 repaints what the mask covers")
    parser.add_argument("--side", type=int, default=1024, help="side of the picture where a case names no size")
    return parser.parse_args()


def load(args):
    upstream(args.repository)
    from scepter.modules.utils.config import Config
    from scepter.modules.utils.file_system import FS

    for name in ("HuggingfaceFs", "ModelscopeFs", "HttpFs", "LocalFs"):
        FS.init_fs_client(Config(cfg_dict={"NAME": name, "TEMP_DIR": "./cache"}, load=False))
    from inference.ace_plus_diffusers import ACEPlusDiffuserInference

    model = ACEPlusDiffuserInference()
    model.init_from_cfg(Config(load=True, cfg_file=str(Path(args.repository) / args.config)))

    def paint(request):
        sources, masks = request.with_role("source"), request.with_role("mask")
        others = request.without_role("source", "mask")
        if max(len(sources), len(masks), len(others)) > 1:
            raise UnsupportedError(
                f"ACE++ takes one source, one mask and one reference, not {len(request.roles)} pictures"
            )
        width, height = request.size(args.side, args.side)
        image, _ = model(
            reference_image=upright(others[0]) if others else None,
            edit_image=upright(sources[0]) if sources else None,
            edit_mask=upright(masks[0], "L") if masks else None,
            prompt=request.instruction,
            output_height=height,
            output_width=width,
            sampler="flow_euler",
            sample_steps=args.steps,
            guide_scale=args.guidance,
            repainting_scale=args.repainting_scale,
            lora_path=args.lora or None,
            seed=request.seed,
        )
        return image

    return paint


if __name__ == "__main__":
    arguments = options()
    serve(lambda: load(arguments), vars(arguments))
