"""OmniGen2 as a worker: text to image, editing and several references, in one pipeline.

Needs a clone of github.com/VectorSpaceLab/OmniGen2 (--repository) in the environment its README describes. Settings
are those of its inference script; none are printed for it in the papers. Not tested with the real weights.
"""

import argparse

from worker import serve, upstream


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default="", help="the clone; not needed where omnigen2 is installed")
    parser.add_argument("--weights", default="OmniGen2/OmniGen2", help="directory or repository of the weights")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--guidance", type=float, default=5.0, help="of the text")
    parser.add_argument("--image-guidance", type=float, default=2.0, help="upstream suggests up to 3 for references")
    parser.add_argument("--negative", default="", help="negative prompt; upstream's script has one")
    parser.add_argument("--side", type=int, default=1024, help="side of the picture where a case names no size")
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def load(args):
    upstream(args.repository)
    import torch
    from omnigen2.pipelines.omnigen2.pipeline_omnigen2 import OmniGen2Pipeline

    pipeline = OmniGen2Pipeline.from_pretrained(args.weights, torch_dtype=torch.bfloat16, trust_remote_code=True)
    pipeline = pipeline.to(args.device)

    def paint(request):
        width, height = request.size(args.side, args.side)
        return pipeline(
            prompt=request.instruction,
            input_images=request.images() or None,
            width=width,
            height=height,
            num_inference_steps=args.steps,
            max_sequence_length=1024,
            text_guidance_scale=args.guidance,
            image_guidance_scale=args.image_guidance,
            negative_prompt=args.negative,
            num_images_per_prompt=1,
            generator=torch.Generator(device=args.device).manual_seed(request.seed),
            output_type="pil",
        ).images

    return paint


if __name__ == "__main__":
    arguments = options()
    serve(lambda: load(arguments), vars(arguments))
