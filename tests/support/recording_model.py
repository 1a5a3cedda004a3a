"""An ImageModel that paints flat pictures, another colour each time, and remembers what it was asked and shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from refbench.models.model import Commission, Painted, Shown, Traits
from refbench.pictures import encode


def flat(number: int, size: tuple[int, int] = (12, 10)) -> bytes:
    """A picture of one colour, which tells the number."""
    return encode(np.full((size[1], size[0], 3), (number * 37 % 256, number, 200), np.uint8))


def write_pictures(folder: Path, *roles: str) -> tuple[Shown, ...]:
    """One file a role, all different."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number, role in enumerate(roles):
        path = folder / f"{number}.png"
        path.write_bytes(flat(100 + number))
        found.append(Shown(path, role))
    return tuple(found)


@dataclass
class Ask:
    """One request: the pictures' bytes are read when it comes, as a real model would."""

    commission: Commission
    seed: int
    data: list[bytes]

    @property
    def roles(self) -> list[str]:
        return [shown.role for shown in self.commission.pictures]


@dataclass
class RecordingModel:
    """`results` are given in order where there are any; otherwise as many pictures as are asked for."""

    traits: Traits = field(default_factory=Traits)
    results: Sequence[Painted] = ()
    name: str = "recording"
    asks: list[Ask] = field(default_factory=list)
    closed: bool = False

    def canonical(self) -> Mapping[str, str]:
        return {"kind": "recording", "what": self.name}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        self.asks.append(Ask(commission, seed, [shown.path.read_bytes() for shown in commission.pictures]))
        number = len(self.asks)
        if number <= len(self.results):
            return self.results[number - 1]
        pictures = tuple(flat(10 * number + i) for i in range(commission.n_pictures))
        return Painted(pictures=pictures, seconds=1.0, cost_usd=0.25, provenance={"call": str(number)})

    async def close(self) -> None:
        self.closed = True


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
