"""DreamOmni2 as a worker: editing where there is a source, generation from references otherwise.

Needs a clone of github.com/dvlab-research/DreamOmni2 (--repository), its environment, its weights (a language model
and two LoRAs) and FLUX.1-Kontext-dev, whose licence is non-commercial. Settings are those of its scripts: 30 steps,
guidance 3.5. Not tested with the real weights.
"""

import argparse
import re
from pathlib import Path

from worker import UnsupportedError, serve, upstream


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default="", help="the clone")
    parser.add_argument("--weights", default="models", help="directory with vlm-model, edit_lora and gen_lora")
    parser.add_argument("--base", default="black-forest-labs/FLUX.1-Kontext-dev")
    parser.add_argument(
        "--task", choices=["auto", "edit", "generate"], default="auto", help="auto: edit if a source is shown"
    )
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--guidance", type=float, default=3.5)
    parser.add_argument("--side", type=int, default=1024, help="of generated pictures where a case names no size")
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def load(args):
    upstream(args.repository)
    import torch
    from dreamomni2.pipeline_dreamomni2 import DreamOmni2Pipeline
    from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration
    from utils.vprocess import process_vision_info, resizeinput

    pipeline = DreamOmni2Pipeline.from_pretrained(args.base, torch_dtype=torch.bfloat16).to(args.device)
    pipeline.load_lora_weights(str(Path(args.weights) / "edit_lora"), adapter_name="edit")
    pipeline.load_lora_weights(str(Path(args.weights) / "gen_lora"), adapter_name="generate")
    written = str(Path(args.weights) / "vlm-model")
    writer = Qwen2_5_VLForConditionalGeneration.from_pretrained(written, torch_dtype="bfloat16").to(args.device)
    processor = AutoProcessor.from_pretrained(written)

    def rewritten(request, task):
        """The instruction in the words of the model's own language model, which was trained to be told the task."""
        told = " It is editing task." if task == "edit" else " It is generation task."
        content = [{"type": "image", "image": path} for path in request.pictures]
        messages = [{"role": "user", "content": [*content, {"type": "text", "text": request.instruction + told}]}]
        text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        images, videos = process_vision_info(messages)
        inputs = processor(text=[text], images=images, videos=videos, padding=True, return_tensors="pt")
        inputs = inputs.to(args.device)
        ids = writer.generate(**inputs, do_sample=False, max_new_tokens=4096)
        new = [ids[0][len(inputs.input_ids[0]) :]]
        (reply,) = processor.batch_decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        inner = re.fullmatch(r"\s*<\w+>(.*)</\w+>\s*", reply, re.DOTALL)
        return inner.group(1).strip() if inner else reply.strip()

    def paint(request):
        if not request.pictures:
            raise UnsupportedError("DreamOmni2 needs at least one picture")
        task = args.task if args.task != "auto" else "edit" if "source" in request.roles else "generate"
        images = [resizeinput(image) for image in request.images()]
        width, height = images[0].size if task == "edit" else request.size(args.side, args.side)
        pipeline.set_adapters([task], adapter_weights=[1])
        return pipeline(
            images=images,
            height=height,
            width=width,
            prompt=rewritten(request, task),
            num_inference_steps=args.steps,
            guidance_scale=args.guidance,
            generator=torch.Generator(device="cpu").manual_seed(request.seed),
        ).images

    return paint


if __name__ == "__main__":
    arguments = options()
    serve(lambda: load(arguments), vars(arguments))
