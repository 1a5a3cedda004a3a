"""A run that measures: JPEGs on disk to recorded scores through `refbench run`'s own engine, with the three encoders of
perf/encoders.py (random weights, saved in the hub's format and loaded by the real code). On a CPU a tiny variant.

    python perf/measured_run.py [--device cuda] [--dtype bfloat16] [--pictures N] [--site FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BENCH = """
from refbench.benchmarks.kit import Measured, benchmark
from refbench.case import Case, Picture, Request

NETWORKS = ("clip_l14_336", "siglip_so400m", "dinov2_giant")

def load(root):
    source = Picture(name="source.jpg", role="source")
    for path in sorted((root / "out").iterdir()):
        yield Case(id=path.stem, request=Request(instruction="", pictures=(source,)), cluster=path.stem, details={})

def measure(case):
    return [Measured(name, f"image_match@{name}", {"reference": case.request.pictures[0]}) for name in NETWORKS]

BENCHMARK = benchmark(name="speed", load=load, measure=measure, measured={name: (-1, 1) for name in NETWORKS})
"""


def write_weights(root: Path, tiny: bool, device: str) -> None:
    """The three repositories, as `refbench fetch` would leave them."""
    import torch
    import transformers

    def size(**full: int) -> dict[str, int]:
        small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        return {key: small.get(key, value) for key, value in full.items()} if tiny else full

    few = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4}
    clip = transformers.CLIPConfig(
        vision_config={**size(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16), "image_size": 336, "patch_size": 14, "projection_dim": 768},
        text_config={**few, "vocab_size": 60, "eos_token_id": 2, "bos_token_id": 0, "projection_dim": 768},
        projection_dim=768,
    )  # fmt: skip
    siglip = transformers.SiglipConfig(
        vision_config={**size(hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16), "image_size": 384, "patch_size": 14},
        text_config={**few, "vocab_size": 60},
    )  # fmt: skip
    dino = transformers.Dinov2Config(
        **size(hidden_size=1536, num_hidden_layers=40, num_attention_heads=24), image_size=518, patch_size=14, use_swiglu_ffn=True
    )  # fmt: skip
    made = {
        "clip_l14_336": (transformers.CLIPModel, clip, {"size": {"shortest_edge": 336}, "crop_size": 336, "do_center_crop": True, "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}),
        "siglip_so400m": (transformers.SiglipModel, siglip, {"size": {"height": 384, "width": 384}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}),
        "dinov2_base" if tiny else "dinov2_giant": (transformers.Dinov2Model, dino, {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}),
    }  # fmt: skip
    for name, (kind, config, preparing) in made.items():
        with torch.device(device):
            model = kind(config)
        model.to(torch.bfloat16).save_pretrained(root / name)
        preparing |= {
            "do_resize": True,
            "resample": 3,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
        }
        (root / name / "preprocessor_config.json").write_text(json.dumps(preparing))
    letters = [chr(c) for c in range(97, 123)]
    names = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(vocab={name: n for n, name in enumerate(names)}, merges=[])
    tokenizer.save_pretrained(root / "clip_l14_336")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="")
    parser.add_argument("--dtype", default="")
    parser.add_argument("--pictures", type=int, default=0)
    parser.add_argument("--site", default="")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent / "src"), *([options.site] if options.site else [])]
    try:
        import torch
    except ImportError:
        print("torch is not installed: pip install 'refbench[neural]'")
        return
    from encoders import write_jpegs

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    tiny = device == "cpu"
    dtype = options.dtype or ("float32" if tiny else "bfloat16")
    count = options.pictures or (24 if tiny else 2048)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        os.environ |= {"REFBENCH_WEIGHTS": str(work / "weights"), "REFBENCH_CACHE": str(work / "cache")}
        (work / "out").mkdir()
        paths = write_jpegs(work / "out", min(count, 256), 256 if tiny else 1024, os.cpu_count() or 1)
        for number in range(len(paths), count):  # other bytes, the same pixels: the cache must not know them
            data = paths[number % len(paths)].read_bytes()
            comment = b"\xff\xfe\x00\x06" + number.to_bytes(4, "big")
            (work / "out" / f"{number}.jpg").write_bytes(data[:2] + comment + data[2:])
        shutil.copy(paths[0], work / "source.jpg")
        start = time.perf_counter()
        write_weights(work / "weights/hub", tiny, device)
        print(f"weights made in {time.perf_counter() - start:.0f} s", flush=True)
        (work / "speed.py").write_text(BENCH.replace("dinov2_giant", "dinov2_base") if tiny else BENCH)
        rate(work, count, device, dtype)
    if tiny:
        print("a CPU and tiny networks: this says that it runs, and nothing about speed")


def rate(work: Path, count: int, device: str, dtype: str) -> None:
    """Load once with a few pictures, then time the rest."""
    import refbench
    from refbench.networks import network

    info: Any = network.networks()
    for name in ("clip_l14_336", "siglip_so400m", "dinov2_giant"):  # random weights have no known hash
        hub = info[name].hub
        plain = tuple(file.partition("#")[0] for file in hub.files)
        info[name] = info[name].model_copy(update={"hub": hub.model_copy(update={"files": plain})})
    asked = {"models": [f"m=folder:{work / 'out'}"], "data": work, "device": device, "dtype": dtype}
    bench = str(work / "speed.py")
    start = time.perf_counter()
    refbench.evaluate(bench, out=work / "warm", limit=8, **asked)
    print(f"loaded and first pictures: {time.perf_counter() - start:.0f} s", flush=True)
    start = time.perf_counter()
    result = refbench.evaluate(bench, out=work / "run", **asked).result
    seconds = time.perf_counter() - start
    scored = sum(score.value is not None for score in result.scores)
    assert scored == 3 * count, f"{scored} scores of {3 * count}"
    print(f"{device}, {dtype}: {count / seconds:.1f} pictures/s from disk to recorded scores and the table ({count} pictures, three encoders)")  # fmt: skip


if __name__ == "__main__":
    main()
