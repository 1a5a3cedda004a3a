"""Step1X-Edit as a worker: one picture, edited.

Needs a clone of github.com/stepfun-ai/Step1X-Edit (--repository), its environment, and the weights in a directory.
Settings are those of its inference script (28 steps, guidance 6, pictures of about 512 x 512; --level 1024 for v1.1).
Not tested with the real weights.
"""

import argparse
from pathlib import Path

from worker import UnsupportedError, serve, upstream


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default="", help="the clone")
    parser.add_argument("--weights", default="models/Step1X-Edit", help="directory")
    parser.add_argument("--checkpoint", default="step1x-edit-i1258.safetensors", help="file in that directory")
    parser.add_argument("--encoder", default="Qwen2.5-VL-7B-Instruct", help="directory in that directory")
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--guidance", type=float, default=6.0)
    parser.add_argument("--level", type=int, default=512, help="side of a square with as many pixels as are painted")
    parser.add_argument("--quantized", action="store_true", help="8-bit weights")
    parser.add_argument("--offload", action="store_true", help="for GPUs with little memory")
    return parser.parse_args()


def load(args):
    upstream(args.repository)
    from inference import ImageGenerator

    model = ImageGenerator(
        ae_path=str(Path(args.weights) / "vae.safetensors"),
        dit_path=str(Path(args.weights) / args.checkpoint),
        qwen2vl_model_path=str(Path(args.weights) / args.encoder),
        max_length=640,
        quantized=args.quantized,
        offload=args.offload,
    )

    def paint(request):
        if len(request.pictures) != 1:
            raise UnsupportedError(f"Step1X-Edit edits one picture, not {len(request.pictures)}")
        (image,) = request.images()
        return model.generate_image(
            request.instruction,
            negative_prompt="",
            ref_images=image,
            num_samples=1,
            num_steps=args.steps,
            cfg_guidance=args.guidance,
            seed=request.seed,
            show_progress=False,
            size_level=args.level,
        )

    return paint


if __name__ == "__main__":
    arguments = options()
    serve(lambda: load(arguments), vars(arguments))
