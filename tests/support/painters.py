"""Image models of the tests: small, deterministic, and they remember what they were shown."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from refbench.failure import Failure
from refbench.models.model import Commission, Painted, Step, Traits
from refbench.pictures import encode


@dataclass
class Painter:
    """Paints noise that belongs to the instruction and the seed."""

    name: str = "painter"
    traits: Traits = field(default_factory=Traits)
    settings: Mapping[str, str] = field(default_factory=lambda: {"kind": "painter"})
    latency: float = 0.0
    together: int = 0
    """Nothing is painted before so many pictures were asked for at once."""
    steps: int = 0
    refuses: str = ""
    kill_at: int = 0
    give: int | None = None
    asked: list[tuple[Commission, int]] = field(default_factory=list)
    closed: bool = False
    in_flight: int = 0
    most_in_flight: int = 0
    _met: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def canonical(self) -> Mapping[str, str]:
        return self.settings

    async def generate(self, commission: Commission, seed: int) -> Painted:
        self.asked.append((commission, seed))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.in_flight >= self.together:
            self._met.set()
        await self._met.wait()
        await asyncio.sleep(self.latency)
        self.in_flight -= 1
        if self.kill_at and len(self.asked) >= self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.refuses and self.refuses in commission.instruction:
            return Painted(failure=Failure(kind="refused", detail="not this"), seconds=0.1)
        count = commission.n_pictures if self.give is None else self.give
        pictures = tuple(paint(f"{commission.instruction} {seed} {n}") for n in range(count))
        steps = tuple(
            Step(f"step {n}", (paint(f"{commission.instruction} step {n}"),), cost_usd=0.01) for n in range(self.steps)
        )
        return Painted(pictures, seconds=0.2, cost_usd=0.05, steps=steps, provenance={"by": "hand"})

    async def close(self) -> None:
        self.closed = True


def paint(text: str) -> bytes:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return encode(np.random.default_rng(seed).integers(0, 255, (16, 16, 3), dtype=np.uint8))
