"""Three encoders over 1024 px JPEGs, from disk to scores: pictures a second, beside two yardsticks of the same run.

    python perf/encoders.py --dtype bf16

CLIP L/14-336, SigLIP so400m-384 and DINOv2-giant with random weights of the full size (the arithmetic is the same),
through the project's own preparation and routes. The yardsticks: one picture at a time in fp32 with Pillow, as the
official loops go, and what the arithmetic alone would allow at the rate of a large matrix product. On a CPU a tiny
variant runs, and says so. The target is 250 pictures a second on one H200; nothing here fails a build.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import types
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = 250.0
NEEDED = ("numpy", "torch", "transformers", "PIL", "pydantic", "orjson")


def find_libraries(site: str) -> str:
    """Make the package importable from the checkout; gives the name of the decoder. OpenCV may be missing: the
    package imports it for decoding, which this script then leaves to Pillow."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
    if site:
        sys.path.append(str(Path(site).resolve()))
    import importlib.util

    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        sys.exit(
            f"needs {', '.join(absent)}: pip install them, or pip install --target DIR elsewhere and add --site DIR"
        )
    try:
        import cv2  # noqa: F401
    except ImportError:
        sys.modules["cv2"] = types.ModuleType("cv2")
        return "Pillow"
    return "OpenCV"


@dataclass
class Encoder:
    """One network: how pictures are prepared for it, what it computes, and its arithmetic for one picture."""

    name: str
    how: Any
    model: Any
    flop: float
    forward: Any
    route: Any = None


def transformer_flop(tokens: int, width: int, layers: int, mlp: int, patch: int) -> float:
    """Multiplications and additions of one picture: projections, MLP (`mlp` weights), attention, patches."""
    per_layer = 2 * tokens * (4 * width * width + mlp) + 4 * tokens * tokens * width
    return float(layers * per_layer + 2 * tokens * 3 * patch * patch * width)


def encoders(tiny: bool, device: str) -> list[Encoder]:
    import torch
    import transformers

    from refbench.networks.large.preprocess import CLIP_MEAN, CLIP_STD, HALF, IMAGENET_MEAN, IMAGENET_STD, Preparation

    def small(**settings: Any) -> dict[str, Any]:
        less = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        less |= {"intermediate_size": 128} if "intermediate_size" in settings else {}
        return {**settings, **less} if tiny else settings

    clip = transformers.CLIPVisionConfig(
        **small(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16),
        image_size=336, patch_size=14, projection_dim=768, hidden_act="quick_gelu",
    )  # fmt: skip
    siglip = transformers.SiglipVisionConfig(
        **small(hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16),
        image_size=384, patch_size=14,
    )  # fmt: skip
    dino = transformers.Dinov2Config(
        **small(hidden_size=1536, num_hidden_layers=40, num_attention_heads=24),
        image_size=518, patch_size=14, use_swiglu_ffn=True,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        models = [
            transformers.CLIPVisionModelWithProjection(clip),
            transformers.SiglipVisionModel(siglip),
            transformers.Dinov2Model(dino),
        ]
    for model in models:
        model.eval().requires_grad_(False)
    gated = (int(dino.hidden_size * dino.mlp_ratio * 2 / 3) + 7) // 8 * 8
    return [
        Encoder(
            "CLIP L/14-336",
            Preparation(CLIP_MEAN, CLIP_STD, short_side=336, crop=(336, 336)),
            models[0],
            transformer_flop(577, clip.hidden_size, clip.num_hidden_layers, 2 * clip.hidden_size * clip.intermediate_size, 14),
            lambda x: models[0](pixel_values=x).image_embeds,
        ),
        Encoder(
            "SigLIP so400m-384",
            Preparation(HALF, HALF, size=(384, 384)),
            models[1],
            transformer_flop(729, siglip.hidden_size, siglip.num_hidden_layers, 2 * siglip.hidden_size * siglip.intermediate_size, 14),
            lambda x: models[1](pixel_values=x).pooler_output,
        ),
        Encoder(
            "DINOv2-giant",
            Preparation(IMAGENET_MEAN, IMAGENET_STD, short_side=256, crop=(224, 224)),
            models[2],
            transformer_flop(257, dino.hidden_size, dino.num_hidden_layers, 3 * dino.hidden_size * gated, 14),
            lambda x: models[2](pixel_values=x).last_hidden_state.float().mean(1),
        ),
    ]  # fmt: skip


def write_jpegs(folder: Path, count: int, side: int, threads: int) -> list[Path]:
    """Pictures with soft areas, edges and grain, so that their files are of an ordinary size."""
    import numpy as np
    from PIL import Image

    def write(number: int) -> Path:
        rng = np.random.default_rng(number)
        soft = Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).resize(
            (side, side), Image.Resampling.BICUBIC
        )
        edges = Image.fromarray(rng.integers(0, 2, (40, 40, 1), dtype=np.uint8).repeat(3, 2) * 90).resize(
            (side, side), Image.Resampling.NEAREST
        )
        grain = rng.integers(-8, 9, (side, side, 1))
        pixels = np.clip(np.asarray(soft, np.int16) + np.asarray(edges, np.int16) - 45 + grain, 0, 255).astype(np.uint8)
        path = folder / f"{number}.jpg"
        Image.fromarray(pixels).save(path, quality=90)
        return path

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(write, range(count)))


class Decoder:
    """Decodes ahead, in threads, straight into pinned memory: `depth` batches wait while one is computed."""

    def __init__(
        self, paths: list[Path], batch: int, side: int, threads: int, way: str, pin: bool, depth: int = 3
    ) -> None:
        import torch

        self._paths, self._batch, self._way = paths, batch, way
        self._pool = ThreadPoolExecutor(threads)
        self._buffers = [torch.empty((batch, side, side, 3), dtype=torch.uint8, pin_memory=pin) for _ in range(depth)]
        self._next = 0

    def _decode(self, path: Path, row: Any) -> None:
        if self._way == "OpenCV":
            import cv2
            import numpy as np

            data = np.frombuffer(path.read_bytes(), np.uint8)
            cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB, dst=row)
        else:
            from PIL import Image

            with Image.open(path) as opened:
                row[:] = opened

    def _start(self, buffer: Any) -> tuple[Any, list[Future[None]]]:
        rows = buffer.numpy()
        jobs = []
        for row in rows:
            jobs.append(self._pool.submit(self._decode, self._paths[self._next % len(self._paths)], row))
            self._next += 1
        return buffer, jobs

    def batches(self) -> Iterator[Any]:
        """Endless. A buffer is filled again only after the next call, when its copy must have been made."""
        waiting = deque(self._start(buffer) for buffer in self._buffers)
        while True:
            buffer, jobs = waiting.popleft()
            for job in jobs:
                job.result()
            yield buffer
            waiting.append(self._start(buffer))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def sync(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def product_rate(device: str, dtype: str, tiny: bool) -> float:
    """Floating-point operations a second of a large matrix product on random numbers."""
    import torch

    size = 512 if tiny else 8192
    a, b = (torch.randn(size, size, device=device).to(getattr(torch, dtype)) for _ in range(2))
    for _ in range(3):
        a @ b
    sync(device)
    count, start = 0, time.perf_counter()
    while count < 10 or time.perf_counter() - start < (0.2 if tiny else 1.0):
        a @ b
        count += 1
        if count % 10 == 0:
            sync(device)
    sync(device)
    return 2.0 * size**3 * count / (time.perf_counter() - start)


def one_at_a_time(three: list[Encoder], paths: list[Path], device: str, seconds: float) -> float:
    """Pillow, one picture, one network after the other, fp32, every result awaited."""
    import numpy as np
    import torch
    from PIL import Image

    from refbench.networks.large.preprocess import prepare

    def once(path: Path) -> None:
        pixels = np.asarray(Image.open(path).convert("RGB"))
        for encoder in three:
            with torch.inference_mode():
                encoder.forward(torch.from_numpy(prepare(pixels, encoder.how))[None].to(device)).cpu()

    for path in paths[:2]:
        once(path)
    count, start = 0, time.perf_counter()
    while count < 3 or time.perf_counter() - start < seconds:
        once(paths[count % len(paths)])
        count += 1
    return count / (time.perf_counter() - start)


def batched(three: list[Encoder], decoder: Decoder, device: str, seconds: float) -> tuple[float, dict[str, float]]:
    """Pictures a second from files to scores on the host; and the share of time that the host waited for pictures."""
    import torch

    references = [torch.nn.functional.normalize(torch.randn(1, width_of(e), device=device)) for e in three]
    source, cuda = decoder.batches(), device.startswith("cuda")
    uploads = torch.cuda.Stream(device) if cuda else None
    pending: deque[tuple[Any, Any]] = deque()
    scored, waited = 0, 0.0

    def step() -> int:
        nonlocal waited
        begun = time.perf_counter()
        buffer = next(source)
        waited += time.perf_counter() - begun
        if uploads is None:
            stack, copied = buffer.clone(), None
        else:  # beside the computing of the batch before
            with torch.cuda.stream(uploads):
                stack, copied = buffer.to(device, non_blocking=True), torch.cuda.Event()
                copied.record()
            torch.cuda.current_stream(device).wait_event(copied)
            stack.record_stream(torch.cuda.current_stream(device))
        scores = [
            (torch.nn.functional.normalize(encoder.route.of_stack(stack)) @ reference.T)[:, 0]
            for encoder, reference in zip(three, references, strict=True)
        ]
        made = torch.stack(scores, dim=1).to("cpu", non_blocking=True)
        done = torch.cuda.Event() if cuda else None
        if done is not None:
            done.record()
        if copied is not None:
            copied.synchronize()  # before the decoder may write into the buffer again
        pending.append((made, done))
        return finish() if len(pending) > 2 else 0

    def finish() -> int:
        made, done = pending.popleft()
        if done is not None:
            done.synchronize()
        assert torch.isfinite(made).all()
        return len(made)

    for _ in range(3):
        step()
    while pending:
        finish()
    sync(device)
    waited, start = 0.0, time.perf_counter()
    while scored == 0 or time.perf_counter() - start < seconds:
        scored += step()
    while pending:
        scored += finish()
    took = time.perf_counter() - start
    return scored / took, {"waited for pictures": waited / took}


def width_of(encoder: Encoder) -> int:
    config = encoder.model.config
    return (
        int(getattr(config, "projection_dim", 0) or config.hidden_size)
        if "CLIP L" in encoder.name
        else int(config.hidden_size)
    )


def device_times(three: list[Encoder], batch: int, side: int, device: str) -> dict[str, float]:
    """Milliseconds a picture on the device alone, preparing and computing, with the pictures there already."""
    import torch

    from refbench.networks.large.preprocess import prepare_stack

    stack = torch.randint(0, 256, (batch, side, side, 3), dtype=torch.uint8, device=device)
    found = {}
    for encoder in three:
        with torch.inference_mode():
            prepared = prepare_stack(stack, encoder.how)
        for what, run in {
            f"{encoder.name}, preparing": lambda e=encoder: prepare_stack(stack, e.how),
            f"{encoder.name}, network": lambda e=encoder, p=prepared: e.route.rows(p),
        }.items():
            times = []
            for _ in range(4):
                sync(device)
                start = time.perf_counter()
                with torch.inference_mode():
                    run()
                sync(device)
                times.append(time.perf_counter() - start)
            found[what] = min(times) / batch * 1e3
    return found


def resizing_error(three: list[Encoder], paths: list[Path], device: str) -> float:
    """The largest difference of a normalised pixel between Pillow's route and the device's, odd sizes included."""
    import numpy as np
    import torch
    from PIL import Image

    from refbench.networks.large.preprocess import prepare, prepare_stack

    worst = 0.0
    whole = np.array(Image.open(paths[0]).convert("RGB"))
    for pixels in (whole, whole[: len(whole) // 2 + 1, :], whole[:, :77], whole[:33, :201]):
        pixels = np.ascontiguousarray(pixels)
        for encoder in three:
            there = prepare_stack(torch.from_numpy(pixels)[None].to(device), encoder.how)[0].cpu().numpy()
            worst = max(worst, float(np.abs(there - prepare(pixels, encoder.how)).max()))
    return worst


def set_routes(three: list[Encoder], device: str, dtype: str, batch: int) -> None:
    import torch

    from refbench.networks.large.device import TorchDevice
    from refbench.networks.large.forward import PictureRoute

    for encoder in three:
        encoder.model.to(getattr(torch, dtype))
        encoder.route = PictureRoute(TorchDevice(device, dtype, batch), encoder.how, encoder.forward)


def compile_layers(model: Any) -> None:
    """Compile each layer of the model's longest list of them in place, for batches of one size.

    The layers share one compiled code, so that forty of them take as long as one. The first call compiles.
    """
    import torch

    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    for layer in max(lists, key=len):
        layer.compile(dynamic=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--device", default="", help="cuda, cuda:1 or cpu; the GPU where there is one")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all measured stretches together")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="that decode; as many as there are cores")
    parser.add_argument("--pictures", type=int, default=0, help="files on disk, gone through again and again")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-eager", action="store_true", help="only the compiled way")
    parser.add_argument("--site", default="", help="a folder of further packages, for machines without an index")
    parser.add_argument("--json", default="", help="also write the figures to this file")
    options = parser.parse_args()
    way = find_libraries(options.site)

    import torch
    import transformers

    begun = time.perf_counter()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    tiny = not device.startswith("cuda")
    dtype = {"bf16": "bfloat16", "fp32": "float32"}[options.dtype]
    cores = len(os.sched_getaffinity(0))
    batch, side = options.batch or (4 if tiny else 128), 256 if tiny else 1024
    threads, count = options.threads or cores, options.pictures or (8 if tiny else 256)
    seconds = min(options.seconds, 4.0) if tiny else options.seconds
    name = "CPU" if tiny else torch.cuda.get_device_name(device)
    print(f"{name}, {cores} cores, torch {torch.__version__}, transformers {transformers.__version__}, {way} decodes, {threads} threads, batch {batch}, {dtype}", flush=True)  # fmt: skip
    if tiny:
        print("no GPU: a TINY variant (small random networks, 256 px pictures); the figures say nothing about speed")
    figures: dict[str, Any] = {"device": name, "dtype": dtype, "batch": batch, "tiny": tiny}
    with tempfile.TemporaryDirectory() as folder:
        paths = write_jpegs(Path(folder), count, side, threads)
        size = sum(path.stat().st_size for path in paths) / len(paths)
        print(f"{count} JPEGs of {side} px, {size / 1e3:.0f} kB each", flush=True)
        three = encoders(tiny, device)
        flop = sum(encoder.flop for encoder in three)
        rate = product_rate(device, dtype, tiny)
        ceiling = rate / flop
        print(f"matrix product: {rate / 1e12:.3g} TFLOP/s; three encoders: {flop / 1e12:.3g} TFLOP a picture; ceiling {ceiling:.0f} pictures/s", flush=True)  # fmt: skip
        error = resizing_error(three, paths, device)
        print(f"preparing on the device against Pillow: at most {error:.1e} apart (tolerance 2e-3)", flush=True)
        slow = one_at_a_time(three, paths, device, seconds * 0.2)
        print(f"one at a time, fp32: {slow:.1f} pictures/s", flush=True)
        set_routes(three, device, dtype, batch)
        best, way_of_best = 0.0, ""
        ways = ["eager"] if options.no_compile or tiny else ["compiled"] if options.no_eager else ["eager", "compiled"]
        for kind in ways:
            try:
                if kind == "compiled":
                    start = time.perf_counter()
                    for encoder in three:
                        compile_layers(encoder.model)
                    times = device_times(three, batch, side, device)
                    print(f"compiling and first runs: {time.perf_counter() - start:.0f} s", flush=True)
                else:
                    times = device_times(three, batch, side, device)
                decoder = Decoder(paths, batch, side, threads, way, pin=device.startswith("cuda"))
                fast, more = batched(three, decoder, device, seconds * 0.8 / len(ways))
                decoder.close()
            except Exception as error_of_kind:  # noqa: BLE001 - a compiler that is not there must not cost the rest
                print(f"{kind}: failed, {type(error_of_kind).__name__}: {str(error_of_kind)[:300]}", flush=True)
                continue
            alone = sum(times.values())
            print(f"{kind}, {dtype}: {fast:.1f} pictures/s from disk to scores; on the device alone {1e3 / alone:.1f}; host waited for pictures {more['waited for pictures']:.0%}", flush=True)  # fmt: skip
            for what, value in times.items():
                print(f"    {what}: {value:.3f} ms a picture")
            figures[kind] = {"pictures/s": fast, "ms": times, **more}
            if fast > best:
                best, way_of_best = fast, kind
        print(f"best ({way_of_best}): {best:.1f} pictures/s, {best / slow:.1f} times one at a time in fp32, {best / ceiling:.0%} of the matrix-product ceiling")  # fmt: skip
        if not tiny:
            print(f"target {TARGET:.0f} pictures/s: {'reached' if best >= TARGET else 'NOT reached'}")
        print(f"whole run: {time.perf_counter() - begun:.0f} s")
    figures |= {"pictures/s": best, "one at a time": slow, "ceiling": ceiling, "TFLOP/s": rate / 1e12, "error": error}
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
