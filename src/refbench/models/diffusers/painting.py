"""A loaded pipeline of diffusers and what it makes of requests: pictures decoded, instruction worded, size and noise
decided, painted in batches. Runs in one worker thread and knows no event loop.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from refbench.calls.weights import HalvedBatches
from refbench.failure import Failure
from refbench.machine import use_threads
from refbench.models.diffusers.loading import DIFFUSERS, Found, load
from refbench.models.diffusers.pipelines import EDITED, Plain, Shape, arranged
from refbench.models.model import Commission, Painted
from refbench.pictures import Pixels, encode, read_pixels

_TOKEN = re.compile(r"<image(\d+)>")
_SEEDS = 2**32


@dataclass(frozen=True)
class Manner:
    """How every request is painted: arguments of the calls, and what is done about sizes."""

    arguments: Mapping[str, Plain]
    size: tuple[int, int] | None = None
    """Width and height, whatever a request wants."""
    max_side: int | None = None
    """Pictures with a longer side are shown smaller."""


@dataclass(frozen=True)
class Order:
    """One request as the pipeline gets it."""

    commission: Commission
    seed: int
    pictures: int = 1
    """How many are painted of it, each with noise of its own."""
    gone: Callable[[], bool] = lambda: False
    """Whether nobody waits for it any more."""


@dataclass(frozen=True)
class Ready:
    """One picture to be painted: the instruction, what is shown, decoded, and the noise."""

    order: Order
    instruction: str
    shown: tuple[Image.Image, ...]
    mask: Image.Image | None
    references: tuple[Image.Image, ...]
    size: tuple[int, int] | None
    asked: bool
    """Whether the size was asked for; else it is that of a picture."""
    seed: int

    @property
    def alike(self) -> tuple[Any, ...]:
        """What has to be equal for two to be painted in one call."""
        sizes = tuple(picture.size for picture in (*self.shown, *self.references))
        return (self.size, self.asked, sizes, self.mask is None or self.mask.size)


def ready(shape: Shape, manner: Manner, order: Order, step: int) -> list[Ready] | Failure:
    """The pictures to be painted of an order. `step` divides every width and height that the pipeline can make."""
    placed = arranged(shape, order.commission.pictures)
    if isinstance(placed, Failure):
        return placed
    masks = () if placed.mask is None else (placed.mask,)
    opened: list[list[Image.Image]] = []
    for paths in (placed.pictures, masks, placed.references):
        opened.append([])
        for path in paths:
            image = _image(path, manner.max_side)
            if isinstance(image, Failure):
                return image
            opened[-1].append(image)
    shown, mask, references = opened
    size, asked = _size(shape, manner, order.commission, shown, step)
    return [
        Ready(
            order=order,
            instruction=tagged(shape.entry.tag, order.commission.instruction, len(shown)),
            shown=tuple(shown),
            mask=mask[0].convert("L") if mask else None,
            references=tuple(references),
            size=size,
            asked=asked,
            seed=noise_seed(order.seed, number),
        )
        for number in range(min(order.pictures, order.commission.n_pictures))
    ]


def _size(
    shape: Shape, manner: Manner, commission: Commission, shown: list[Image.Image], step: int
) -> tuple[tuple[int, int] | None, bool]:
    """The size to paint, the nearest that the pipeline can make, and whether it was asked for."""
    if not shape.sized:
        return None, False
    asked = manner.size or commission.size
    size = asked or _followed(shape, manner, commission, shown)
    if size is None:
        return None, False
    width, height = (max(step, round(side / step) * step) for side in size)
    return (width, height), asked is not None


def _followed(shape: Shape, manner: Manner, commission: Commission, shown: list[Image.Image]) -> tuple[int, int] | None:
    """The size that a picture of the request gives, where the pipeline's own default would be a worse one."""
    if shape.entry.follows and shown:
        return shown[0].size
    roles = [picture.role for picture in commission.pictures if not (shape.mask and picture.role == "mask")]
    source = next((roles.index(role) for role in EDITED if role in roles), None)
    if shape.entry.source_side is None or source is None or source == len(shown) - 1:
        return None
    side = manner.arguments.get("output_resolution", shape.entry.source_side)
    width, height = shown[source].size
    across = float(side) * (width / height) ** 0.5
    return round(across / 32) * 32, round(across * height / width / 32) * 32  # in 32s, as the pipeline's own


def noise_seed(seed: int, number: int) -> int:
    """The seed of a request's picture. torch's generator uses 32 bits of it: larger ones must not share a picture."""
    if number == 0 and 0 <= seed < _SEEDS:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4])


def tagged(tag: str | None, instruction: str, count: int) -> str:
    """The instruction with every picture named as the pipeline wants it: `<image2>` where it says so, else in front."""
    if tag is None or count == 0:
        return instruction
    tags = [tag.format(n=number + 1) for number in range(count)]
    text = _TOKEN.sub(lambda found: tags[int(found[1]) - 1] if 1 <= int(found[1]) <= count else found[0], instruction)
    return " ".join([*(name for name in tags if name not in text), text])


def _image(path: Path, max_side: int | None) -> Image.Image | Failure:
    pixels = read_pixels(path)
    if isinstance(pixels, Failure):
        return pixels
    image = Image.fromarray(pixels)
    longest = max(image.size)
    if max_side is None or longest <= max_side:
        return image
    width, height = (max(1, round(side * max_side / longest)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def pixels_of(image: Any) -> Pixels | None:
    """8-bit RGB as diffusers itself would round it; None where the numbers are no picture."""
    if isinstance(image, Image.Image):
        return np.asarray(image.convert("RGB"))
    values = np.asarray(image, np.float32)
    if not np.isfinite(values).all():
        return None
    return (values * 255).round().clip(0, 255).astype(np.uint8)


@dataclass(frozen=True)
class _Made:
    """What came of one picture."""

    picture: bytes | None
    failure: Failure | None
    seconds: float
    together: int = 1


class _NobodyWaitsError(Exception):
    """Ends a call between two steps."""


class Painter:
    """A pipeline, loaded. Not to be used by two threads at once."""

    def __init__(self, found: Found, manner: Manner) -> None:
        self.shape = found.shape
        self._manner = manner
        self._device = found.source.device
        self._dtype = found.source.dtype
        self._torch = DIFFUSERS.load("torch")
        use_threads()
        self._pipeline: Any
        self._pipeline, self._added = load(found)
        # What divides every width and height that the pipeline can make.
        config = getattr(getattr(self._pipeline, "image_processor", None), "config", None)
        self._step = int(getattr(config, "vae_scale_factor", 0) or getattr(self._pipeline, "vae_scale_factor", 8))
        self._began = 0.0
        self._batches = HalvedBatches(DIFFUSERS, self._device, self._together, self._failed)
        on_gpu = self._device.startswith("cuda")
        provenance = {
            "pipeline": self.shape.name if self.shape.entry.tested else f"{self.shape.name} (untested)",
            "diffusers": str(DIFFUSERS.load("diffusers").__version__),
            "torch": str(self._torch.__version__),
            "device": str(self._torch.cuda.get_device_name(self._device)) if on_gpu else self._device,
            "dtype": self._dtype,
            "threads": str(self._torch.get_num_threads()) if self._device == "cpu" else "",
            "revision": found.commit,
            **self._added.commits,
        }
        self.provenance = {key: value for key, value in provenance.items() if value}

    def paint(self, orders: Sequence[Order]) -> list[Painted]:
        """What becomes of each order, in their order; whatever is wrong with one stays with that one."""
        readied: dict[int, list[Ready] | Failure] = {
            place: ready(self.shape, self._manner, order, self._step) for place, order in enumerate(orders)
        }
        groups: dict[Any, list[tuple[int, Ready]]] = {}
        for place, units in readied.items():
            for number, unit in enumerate([] if isinstance(units, Failure) else units):
                key = unit.alike if self.shape.entry.together else (place, number)
                groups.setdefault(key, []).append((place, unit))
        made: dict[int, list[_Made]] = {place: [] for place in readied}
        for group in groups.values():
            for (place, _), one in zip(group, self._batches.run([unit for _, unit in group]), strict=True):
                made[place].append(one)
        return [
            Painted(failure=units) if isinstance(units, Failure) else self._painted(orders[place], made[place])
            for place, units in readied.items()
        ]

    def _painted(self, order: Order, made: list[_Made]) -> Painted:
        pictures = tuple(one.picture for one in made if one.picture is not None)
        failure = next((one.failure for one in made if one.failure is not None), None)
        wanted = order.commission.n_pictures
        if failure is None and len(pictures) < wanted:
            failure = Failure(
                kind="missing_output",
                detail=f"{len(pictures)} of {wanted} pictures: {self.shape.name} paints one a request, "
                f"wrap it in rephrase or write max_pictures={wanted} for as many draws of the same instruction",
            )
        elif failure is not None and pictures:
            detail = f"{len(pictures)} of {wanted} pictures: {failure.detail}"
            failure = Failure(kind="missing_output", detail=detail)
        together = max(one.together for one in made)
        return Painted(
            pictures=pictures,
            failure=failure,
            seconds=sum(one.seconds for one in made),
            cost_usd=0.0,
            provenance=self.provenance | ({"batch": str(together)} if together > 1 else {}),
        )

    def _together(self, units: list[Ready]) -> list[_Made]:
        self._began = time.perf_counter()
        try:
            pictures = self._call(units)
        except _NobodyWaitsError:
            stopped = Failure(kind="timeout", detail="stopped between two steps: nobody waited any more")
            return [_Made(None, stopped, time.perf_counter() - self._began) for _ in units]
        seconds = time.perf_counter() - self._began
        return [_Made(*self._finished(picture), seconds, len(units)) for picture in pictures]

    def _failed(self, unit: Ready, why: str, full: bool) -> _Made:
        if full:
            why = f"a single picture does not fit in the memory of {self._device}: write offload=model ({why})"
        return _Made(None, Failure(kind="api_error", detail=why), time.perf_counter() - self._began)

    def _call(self, units: list[Ready]) -> list[Any]:
        """One call of the pipeline: a picture, or None for what its safety checker blacked out, of each unit."""
        torch, shape = self._torch, self.shape
        arguments: dict[str, Any] = {**self._manner.arguments, "prompt": [unit.instruction for unit in units]}
        if shape.pictures is not None and units[0].shown:
            arguments[shape.pictures] = [list(unit.shown) if shape.entry.several else unit.shown[0] for unit in units]
        if shape.mask is not None and units[0].mask is not None:
            arguments[shape.mask] = [unit.mask for unit in units]
        if shape.entry.reference is not None and units[0].references:
            arguments[shape.entry.reference] = [unit.references[0] for unit in units]
        # Noise is drawn on the CPU, so that a seed means the same picture on every device, but for rounding.
        arguments["generator"] = [torch.Generator("cpu").manual_seed(unit.seed) for unit in units]
        if len(units) == 1:
            one = ("prompt", "generator", shape.pictures, shape.mask, shape.entry.reference)
            arguments |= {name: arguments[name][0] for name in one if name in arguments}
        elif "negative_prompt" in arguments:
            arguments["negative_prompt"] = [arguments["negative_prompt"]] * len(units)
        size = units[0].size
        if size is not None:
            arguments["width"], arguments["height"] = size
            if shape.entry.area and units[0].asked:
                arguments[shape.entry.area] = size[0] * size[1]
        if "output_type" in shape.parameters:
            arguments["output_type"] = "np"
        if "callback_on_step_end" in shape.parameters:
            arguments["callback_on_step_end"] = _stopper(units)
        devices = [self._device] if self._device.startswith("cuda") else []
        # Some pipelines draw a picture's latents from the global generator (OmniGen does), which is seeded too then.
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(units[0].seed)
            output = self._pipeline(**self._added.arguments(arguments, self._step))
        images = list(output.images if hasattr(output, "images") else output[0])
        flags = getattr(output, "nsfw_content_detected", None) or getattr(output, "nsfw_detected", None)
        if len(images) != len(units):
            raise RuntimeError(f"{shape.name} gave {len(images)} pictures for {len(units)} requests")
        return [None if flags and flags[place] else self._added.picture(image) for place, image in enumerate(images)]

    def _finished(self, image: Any) -> tuple[bytes | None, Failure | None]:
        if image is None:
            return None, Failure(kind="refused", detail="the pipeline's safety checker blacked the picture out")
        pixels = pixels_of(image)
        if pixels is None:
            detail = f"not a picture: numbers overflowed in {self._dtype}, write dtype=fp32 or dtype=bf16"
            return None, Failure(kind="unreadable_picture", detail=detail)
        return encode(pixels), None


def _stopper(units: list[Ready]) -> Callable[..., dict[str, Any]]:
    def look(*_: Any) -> dict[str, Any]:
        if all(unit.order.gone() for unit in units):
            raise _NobodyWaitsError
        return {}

    return look
