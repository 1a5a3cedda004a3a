"""Servers that speak OpenAI's image paths, each in its own way: how they take pictures, masks, sizes and seeds, as far
as that is known. A fact that is not here is not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal
from urllib.parse import urlsplit

from refbench.record import RefBenchError

Size = tuple[int, int]


def nearest_shape(size: Size, shapes: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The shape whose ratio of sides is nearest, as factors: 2:1 is as far from 1:1 as 1:2 is."""
    wanted = size[0] / size[1]
    return min(shapes, key=lambda shape: max(wanted * shape[1] / shape[0], shape[0] / shape[1] / wanted))


@dataclass(frozen=True)
class Sizes:
    """The sizes that a model makes: a few shapes, or any whose sides, pixels and ratio are within limits."""

    shapes: tuple[Size, ...] = ()
    step: int = 1
    longest: int = 1 << 16
    pixels: tuple[int, int] = (1, 1 << 32)
    ratio: float = math.inf

    def makes(self, size: Size) -> bool:
        if self.shapes:
            return size in self.shapes
        least, most = self.pixels
        wide, high = size
        return (
            wide % self.step == high % self.step == 0
            and 0 < max(size) <= min(self.longest, self.ratio * min(size))
            and least <= wide * high <= most
        )

    def exact(self, wanted: Size) -> Size | None:
        """The size itself, its sides rounded to the step; None where the model does not make it."""
        rounded = tuple(max(self.step, round(side / self.step) * self.step) for side in wanted)
        size = rounded[0], rounded[1]
        return size if self.shapes or self.makes(size) else None

    def nearest(self, wanted: Size) -> Size:
        """The size that is made and comes nearest: the ratio is kept, as far as the model goes."""
        if self.shapes:
            shape = nearest_shape(wanted, self.shapes)
            return int(shape[0]), int(shape[1])
        sides = [max(side, max(wanted) / self.ratio) for side in wanted]
        area = min(max(sides[0] * sides[1], self.pixels[0]), self.pixels[1])
        scale = min(math.sqrt(area / (sides[0] * sides[1])), self.longest / max(sides))
        sides = [side * scale for side in sides]
        around = [
            [
                step * self.step
                for step in range(max(1, math.floor(side / self.step) - 1), math.ceil(side / self.step) + 2)
            ]
            for side in sides
        ]
        made = [(wide, high) for wide, high in product(*around) if self.makes((wide, high))]
        return min(made, key=lambda size: sum(abs(math.log(a / b)) for a, b in zip(size, sides, strict=True)))


@dataclass(frozen=True)
class Server:
    """How one kind of server takes a request."""

    hosts: tuple[str, ...] = ()
    """Hosts, their subdomains included, at which it is known to answer."""
    pictures: Literal["form", "json"] = "form"
    path: Literal["edits", "generations"] = "edits"
    """Where requests with pictures go."""
    objects: bool = False
    """Whether a picture in JSON is an object with its address, and several have a field of their own."""
    counts: bool = True
    """Whether it takes `n`."""
    seeds: bool = True
    sends: Mapping[str, Any] = field(default_factory=dict)
    """What is sent unless the spec says otherwise: its own defaults would change the pictures."""
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    """By the beginning of the model's name; without an entry any size is sent as it is."""
    ratios: tuple[tuple[float, float], ...] = ()
    """Instead of a size it takes one of these ratios."""
    limits: tuple[int | None, int | None] = (None, None)
    """Most pictures in and out."""
    links: tuple[str, ...] = ()
    """Hosts where its pictures may lie; they are fetched without the key."""
    drops_mask: bool = False
    """Whether it takes the form's `mask` and does not look at it."""
    misnamed: Mapping[str, str] = field(default_factory=dict)
    """What people call its fields, and how it does; it drops what it does not know without a word."""

    def sizes_of(self, model: str) -> Sizes | None:
        return next((sizes for beginning, sizes in self.sizes.items() if model.startswith(beginning)), None)


_DIFFUSERS = {
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "cfg": "true_cfg_scale",
    "cfg_scale": "true_cfg_scale",
}
_SEEDREAM_4 = Sizes(pixels=(921_600, 16_777_216), ratio=16)
_SEEDREAM = Sizes(pixels=(3_686_400, 16_777_216), ratio=16)
_WIDE = ((1, 1), (4, 3), (3, 2), (16, 9), (2, 1), (19.5, 9), (20, 9))

SERVERS: Mapping[str, Server] = {
    "openai": Server(
        seeds=False,
        limits=(16, 10),
        sizes={
            "gpt-image-2": Sizes(step=16, longest=3840, pixels=(655_360, 8_294_400), ratio=3),
            "": Sizes(shapes=((1024, 1024), (1536, 1024), (1024, 1536))),
        },
    ),
    "ark": Server(
        hosts=("volces.com", "bytepluses.com"),
        pictures="json",
        path="generations",
        counts=False,
        seeds=False,
        sends={"watermark": False, "sequential_image_generation": "disabled"},
        sizes={"doubao-seedream-4-0": _SEEDREAM_4, "seedream-4-0": _SEEDREAM_4, "": _SEEDREAM},
        limits=(14, 1),
        links=("volces.com", "bytepluses.com"),
    ),
    "xai": Server(
        hosts=("x.ai",),
        pictures="json",
        objects=True,
        seeds=False,
        ratios=(*_WIDE, *((high, wide) for wide, high in _WIDE[1:])),
        limits=(3, 10),
        links=("x.ai",),
    ),
    "vllm-omni": Server(drops_mask=True, misnamed=_DIFFUSERS),
    "sglang": Server(drops_mask=True, misnamed=_DIFFUSERS),
    "other": Server(),
}


def server_at(base_url: str) -> str:
    """The name of the server that is known to answer at an address; `other` where none is."""
    host = urlsplit(base_url).hostname or ""
    return next((name for name, server in SERVERS.items() if under(host, server.hosts)), "other")


def under(host: str, names: Sequence[str]) -> bool:
    """Whether a host is one of these or below one."""
    return any(host == name or host.endswith(f".{name}") for name in names)


def check_server(name: str, mask: str, options: Mapping[str, Any], where: str) -> None:
    """Refuses what a server is known to drop without a word."""
    server = SERVERS[name]
    if server.drops_mask and mask == "field":
        raise RefBenchError(
            f"{where}: {name} takes the form's mask and never looks at it, so the picture would be edited everywhere: "
            "leave mask=field out, and the mask goes as a picture among the pictures"
        )
    for option in options:
        if option in server.misnamed:
            raise RefBenchError(
                f"{where}: {name} drops {option}= without a word: it is called {server.misnamed[option]}= there"
            )
