"""Scene: a case with a good output, as a perturbation sees it; what is made of it; and what networks say of its
pictures, each asked once."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.networks.network import Feature, load_network, why_not
from refbench.pictures import Pixels, decode, encode, resize
from refbench.record import Record, canonical_json

Mask = NDArray[np.bool_]
"""Height x width: what belongs to something in a picture."""

BESIDE = ("mask", "source")
"""Roles of pictures that are no references."""
MOST_DONORS = 8
"""Other cases that are looked at for what this one needs (an output, a face), in the order that the seed gives them."""


class Check(Record):
    """What was measured of a damage before its use, and the bound that it has to keep."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def passed(self) -> bool:
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    def __str__(self) -> str:
        bound = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        return f"{self.name} {self.value:.3g}, {bound} is needed"


@dataclass(frozen=True)
class Made:
    """A variant of a scene. What is None or empty is as in the scene."""

    outputs: Mapping[int, Pixels | bytes] = field(default_factory=dict)
    """Other pictures in the place of outputs, by their number from 0; bytes are a file as it is."""
    inputs: Mapping[int, Pixels | bytes] = field(default_factory=dict)
    """Other pictures in the place of the request's, as the judge is shown them."""
    order: tuple[int, ...] = ()
    """The request's pictures in another order: which of them comes first, second, ..."""
    instruction: str | None = None
    text: str = ""
    """The change of the judge's text, by its name in `wording.py`."""
    checks: tuple[Check, ...] = ()
    inside: Mask | None = None
    """Where the output may differ from the scene's, seam included, for damages that keep to a part of the picture."""


@dataclass(frozen=True)
class Away:
    """Why a scene has no such variant: its kind of case has nothing to damage, or a network that is needed is away."""

    reason: str


ValueT = TypeVar("ValueT")


LENT = ("dlib_face", "mobilenet_v2")
"""Networks that are asked about pictures of other cases too."""
_TURNS: dict[str, threading.Lock] = defaultdict(threading.Lock)


def _turn_of(network: str) -> threading.Lock:
    """One picture at a time goes through a network: not all of them can be asked by several threads."""
    with _NEW:
        return _TURNS[network]


_NEW = threading.Lock()


class Seeing:
    """What networks say of pictures. Each is asked once about each picture, whoever wants to know."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Any] = {}
        self._turn = threading.Lock()

    @staticmethod
    def lacks(*networks: str) -> str:
        """Why one of these networks cannot be asked here; empty where all can."""
        return next((reason for name in networks if (reason := why_not(name))), "")

    def feature(self, network: str, pixels: Pixels) -> Feature | None:
        """What the network gives for a picture; None where it finds nothing, or is not here."""
        return self.once(network, pixels, lambda: self._asked(network, pixels))

    def once(self, what: str, pixels: Pixels, make: Callable[[], ValueT]) -> ValueT:
        """Something about a picture that is costly to tell."""
        place = what, hashlib.sha256(pixels.tobytes()).hexdigest()
        if place not in self._known:
            made = make()
            with self._turn:
                self._known.setdefault(place, made)
        known: ValueT = self._known[place]
        return known

    def distance(self, one: Pixels, other: Pixels) -> float:
        """LPIPS (AlexNet) of two pictures at no more than 256 pixels a side; 0 is the same."""
        size = _small(one)
        pair = resize(one, size, "box"), resize(other, size, "box")
        with _turn_of("lpips_alex"):
            found = load_network("lpips_alex")([pair])[0]
        return 0.0 if isinstance(found, Failure) else float(found)

    def forget(self) -> None:
        """Let go of what only this scene's own perturbations ask for: masks and filled pictures are large."""
        with self._turn:
            self._known = {place: known for place, known in self._known.items() if place[0] in LENT}

    @staticmethod
    def _asked(network: str, pixels: Pixels) -> Feature | None:
        if why_not(network):
            return None
        with _turn_of(network):
            found = load_network(network)([np.ascontiguousarray(pixels)])[0]
        return None if isinstance(found, Failure) else found


def _small(pixels: Pixels) -> tuple[int, int]:
    height, width = pixels.shape[:2]
    scale = min(1.0, 256 / max(height, width))
    return max(64, round(width * scale)), max(64, round(height * scale))


@dataclass(frozen=True)
class Opened:
    """A picture by its file, which is known to be one. Pixels are decoded when they are asked for: those of a
    whole audit would not fit into memory."""

    data: bytes

    @property
    def pixels(self) -> Pixels:
        return _pixels(self.data)


@lru_cache(maxsize=32)
def _pixels(data: bytes) -> Pixels:
    pixels = decode(data)
    assert not isinstance(pixels, Failure)
    return pixels


def file_of(picture: Pixels | bytes) -> bytes:
    """The picture as a file: lossless, so that what was not changed stays as it is."""
    return picture if isinstance(picture, bytes) else encode(np.ascontiguousarray(picture), "png")


@dataclass(frozen=True)
class Scene:
    """A case with an output that is known to be good, its pictures, and the scenes that can lend some of theirs."""

    case: AnyCase
    outputs: tuple[Opened, ...]
    inputs: tuple[Opened, ...]
    seed: int
    seeing: Seeing
    others: Sequence[Scene] = ()
    """Those of other cases; a perturbation asks for them by `donors`."""

    @property
    def output(self) -> Pixels:
        """The output, or the first of several."""
        return self.outputs[0].pixels

    @property
    def instruction(self) -> str:
        return self.case.request.instruction

    @cached_property
    def references(self) -> tuple[int, ...]:
        """Which of the request's pictures are references, not the source or a mask."""
        return tuple(n for n, picture in enumerate(self.case.request.pictures) if picture.role not in BESIDE)

    def with_outputs(self, outputs: Mapping[int, Pixels | bytes]) -> Scene:
        """The scene with other pictures in the place of its outputs."""
        opened = tuple(Opened(file_of(outputs[n])) if n in outputs else old for n, old in enumerate(self.outputs))
        return replace(self, outputs=opened)

    def draws(self, what: str) -> np.random.Generator:
        """Random numbers that depend on the seed, the case and the purpose alone."""
        told = canonical_json([self.seed, self.case.id, what])
        return np.random.default_rng(int.from_bytes(hashlib.sha256(told).digest()[:8]))

    def donors(self, what: str) -> list[Scene]:
        """Scenes of other clusters, in an order of the purpose's own."""
        there = [other for other in self.others if other.case.cluster != self.case.cluster]
        order = self.draws(f"donors {what}").permutation(len(there))[:MOST_DONORS]
        return [there[int(place)] for place in order]


def each(scene: Scene, change: Callable[[Pixels], Pixels]) -> dict[int, Pixels | bytes]:
    """Every output, changed alike."""
    return {number: change(opened.pixels) for number, opened in enumerate(scene.outputs)}


def difference(one: Pixels, other: Pixels) -> float:
    """Mean absolute difference of two pictures at the first one's size, 0 to 255."""
    height, width = one.shape[:2]
    moved = resize(other, (width, height), "box")
    return float(np.abs(one.astype(np.int16) - moved.astype(np.int16)).mean())
