"""Pictures to maps: prepared arrays of one shape go through a network together, and every picture gets its own map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.neural.place import Place, package
from refbench.networks.neural.route import NOT_FINITE

Floats: TypeAlias = NDArray[np.float32]


def run_by_shape(
    place: Place, prepared: Sequence[Floats | Failure], forward: Callable[[Any], Any]
) -> list[Floats | Failure]:
    """What `forward` (n x channels x height x width on the device, to n rows of anything) gives for each array.

    Pictures differ in size and nothing is padded, since padding would change the values of its neighbours.
    """
    made: list[Floats | Failure] = [item if isinstance(item, Failure) else NOT_FINITE for item in prepared]
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, item in enumerate(prepared):
        if not isinstance(item, Failure):
            groups.setdefault(item.shape, []).append(number)

    def run(part: Sequence[Floats]) -> list[Floats | Failure]:
        torch = package("torch")
        with torch.inference_mode():
            stack = torch.from_numpy(np.stack(part)).to(place.device, place.torch_dtype)
            rows = forward(stack).to(torch.float32).cpu().numpy()
        return [row if np.isfinite(row).all() else NOT_FINITE for row in rows]

    for numbers in groups.values():
        part = [item for n in numbers if not isinstance(item := prepared[n], Failure)]
        for number, row in zip(numbers, place.run(part, run), strict=True):
            made[number] = row
    return made


def stretched(values: Floats) -> NDArray[np.uint8] | Failure:
    """A map from its smallest to its largest value as 0 to 255, cut off to whole numbers; a constant one has none."""
    low, high = float(values.min()), float(values.max())
    if high <= low:
        # The released code of both benchmarks divides by zero here.
        return Failure(kind="undefined", detail="the map is the same everywhere: it cannot be stretched to 0..255")
    return ((values - np.float32(low)) / np.float32(high - low) * np.float32(255)).astype(np.uint8)
