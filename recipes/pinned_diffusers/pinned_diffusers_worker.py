"""A pipeline of a diffusers that is not RefBench's own, as a worker: of an older release, or of a model's authors.

The environment is requirements.txt beside this file. Tested end to end with tiny random networks (InstructPix2Pix and
inpainting in that environment); no fork and no real weights have been run with it. It is also the template for wrapping
any other repository: `load` gives `paint`, and worker.py does the rest.
"""

import argparse
import inspect
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from worker import RefusedError, UnsupportedError, serve, upright


def setting(text):
    """NAME=VALUE; a value that is JSON (6, 1.5, true) is what it says, all else is text."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipeline", required=True, help="the class, as diffusers there calls it")
    parser.add_argument("--weights", required=True, help="directory or repository of the weights")
    parser.add_argument("--picture", default="image", help="argument of the call for the picture")
    parser.add_argument("--several", action="store_true", help="that argument takes a list, of any length")
    parser.add_argument("--mask", default="", help="argument for a mask; a request without one has a white one")
    parser.add_argument("--square", type=int, default=0, help="side to which pictures are squeezed before")
    parser.add_argument("--result", default="images", help="what holds the pictures in the pipeline's result")
    parser.add_argument("--set", type=setting, action="append", default=[], help="NAME=VALUE for every call")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def load(args):
    import diffusers
    import torch
    from PIL import Image

    kind = getattr(diffusers, args.pipeline)
    pipeline = kind.from_pretrained(args.weights, torch_dtype=getattr(torch, args.dtype)).to(args.device)
    takes = inspect.signature(kind.__call__).parameters
    unknown = [name for name in (args.picture, args.mask, *dict(args.set)) if name and name not in takes]
    if unknown:
        raise ValueError(f"{args.pipeline} has no argument {', '.join(unknown)}")

    def squeezed(image):
        return image.resize((args.square, args.square)) if args.square else image

    def paint(request):
        masks = request.with_role("mask") if args.mask else []
        shown = [squeezed(upright(path)) for path in (request.without_role("mask") if args.mask else request.pictures)]
        if len(masks) > 1 or not shown or (len(shown) > 1 and not args.several):
            raise UnsupportedError(f"{args.pipeline} was shown {len(shown)} pictures and {len(masks)} masks")
        call = {**dict(args.set), args.picture: shown if args.several else shown[0]}
        if args.mask:
            white = Image.new("L", shown[0].size, 255)
            call[args.mask] = squeezed(upright(masks[0], "L")) if masks else white
        if request.width and request.height and {"width", "height"} <= set(takes):
            call["width"], call["height"] = request.size(request.width, request.height)
        noise = torch.Generator("cpu").manual_seed(request.seed)
        result = pipeline(prompt=request.instruction, generator=noise, **call)
        if any(getattr(result, "nsfw_content_detected", None) or ()):
            raise RefusedError("the pipeline's safety checker blacked the picture out")
        return getattr(result, args.result)[0]

    return paint


if __name__ == "__main__":
    arguments = options()
    serve(lambda: load(arguments), {**vars(arguments), "set": json.dumps(dict(arguments.set))})
