"""Fixtures of the networks: those whose weights are in the weights folder, and patterns with known values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refbench.networks import load_network, why_not
from refbench.pictures import Pixels


@pytest.fixture(scope="session")
def local_weights() -> Callable[[str], Any]:
    """The network of a name; the test is skipped where it cannot run, with the command that would help."""

    def load(name: str) -> Any:
        reason = why_not(name)
        if reason is not None:
            pytest.skip(f"{reason} (refbench fetch local)")
        return load_network(name)

    return load


@pytest.fixture(scope="session")
def pattern() -> Callable[[int, int, int], Pixels]:
    """A picture made with whole numbers alone, so that it is the same everywhere: (seed, height, width)."""

    def make(seed: int, height: int, width: int) -> Pixels:
        y, x = np.mgrid[:height, :width]
        channels = [(x * (3 + c) + y * (5 + seed) + (x * y) // (7 + c + seed)) % 256 for c in range(3)]
        return np.stack(channels, axis=-1).astype(np.uint8)

    return make
