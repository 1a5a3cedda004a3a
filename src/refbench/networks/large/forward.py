"""The forward pass: pictures are prepared, batched and run, and each gets its own feature or map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.large.device import TorchDevice, package
from refbench.networks.large.preprocess import Preparation, by_size, prepare, prepare_stack, refusal, upload
from refbench.networks.network import Feature
from refbench.pictures import Pixels

NOT_FINITE = Failure(kind="undefined", detail="the network gave a number that is not finite")


@dataclass
class PictureRoute:
    """`forward` takes prepared pictures (n x 3 x height x width, in the place's dtype) and gives n rows.

    `gives` names the array of each feature.
    """

    place: TorchDevice
    how: Preparation
    forward: Callable[[Any], Any]
    gives: str = "vector"

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        features: list[Feature | Failure] = [refusal(picture, self.how) or {} for picture in pictures]
        good = [n for n, refused in enumerate(features) if not isinstance(refused, Failure)]
        for n, row in zip(good, self.place.run([pictures[n] for n in good], self._batch), strict=True):
            features[n] = row
        return features

    def _batch(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        torch = package("torch")
        with torch.inference_mode():
            if self.place.on_gpu:
                prepared = self._prepared_there(pictures)
            else:
                prepared = torch.from_numpy(np.stack([prepare(picture, self.how) for picture in pictures]))
            rows = self.rows(prepared).cpu().numpy()
        return [{self.gives: row} if np.isfinite(row).all() else NOT_FINITE for row in rows]

    def _prepared_there(self, pictures: Sequence[Pixels]) -> Any:
        torch = package("torch")
        parts: list[Any] = [None] * len(pictures)
        for positions in by_size(pictures):
            stack = prepare_stack(upload([pictures[n] for n in positions], self.place.device), self.how)
            for position, row in zip(positions, stack, strict=True):
                parts[position] = row
        return torch.stack(parts)

    def rows(self, prepared: Any) -> Any:
        """The network over pictures that are prepared, on the device, as fp32 rows."""
        made = self.forward(prepared.to(self.place.device, self.place.torch_dtype))
        return made.to(package("torch").float32)

    def of_stack(self, stack: Any) -> Any:
        """Rows of pictures of one size that are on the device already (n x height x width x 3, uint8)."""
        with package("torch").inference_mode():
            return self.rows(prepare_stack(stack, self.how))


Floats: TypeAlias = NDArray[np.float32]


@dataclass
class MapRoute:
    """Pictures of any sizes to maps: `prepare` gives an array (channels x height x width) or a failure, `forward` takes
    arrays of one shape (n x channels x height x width, on the device) to n rows of anything, and `finish` makes each
    row and its picture a feature."""

    place: TorchDevice
    prepare: Callable[[Pixels], Floats | Failure]
    forward: Callable[[Any], Any]
    finish: Callable[[Floats, Pixels], Feature | Failure]

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        rows = _run_by_shape(self.place, [self.prepare(picture) for picture in pictures], self.forward)
        return [
            row if isinstance(row, Failure) else self.finish(row, picture)
            for row, picture in zip(rows, pictures, strict=True)
        ]


def _run_by_shape(
    place: TorchDevice, prepared: Sequence[Floats | Failure], forward: Callable[[Any], Any]
) -> list[Floats | Failure]:
    """What `forward` gives for each array. Nothing is padded: padding would change the values of its neighbours."""
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
