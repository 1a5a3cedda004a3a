"""DISTS: how different two pictures are in structure and texture (Ding et al., 2020), on the VGG16 that LPIPS uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refbench.failure import Failure
from refbench.networks.large.device import Place, package
from refbench.networks.large.forward import NOT_FINITE
from refbench.networks.large.preprocess import IMAGENET_MEAN, IMAGENET_STD, by_size, upload
from refbench.networks.large.weights import Paths, file_of, named, need, placed, read_state
from refbench.pictures import Pixels

_STAGES = ((0, 1), (2, 3), (4, 5, 6), (7, 8, 9), (10, 11, 12))
"""Which convolutions of VGG16 lie between two poolings."""
_TINY = 1e-6

Pair = tuple[Pixels, Pixels]


class Dists:
    """Distances of pairs, 0 (alike) to 1. Pictures are compared at the size they have."""

    name = "dists"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 4) -> None:
        files = named(paths)
        self._place = place = Place(device, dtype, batch)
        backbone = file_of(files, self.name, "lpips_vgg.safetensors")
        mixture = file_of(files, self.name, "dists.safetensors", "weights.pt")
        state, mixed = read_state(backbone, self.name), read_state(mixture, self.name)
        need(state, [f"VGG16_0/Conv_{n}/kernel" for stage in _STAGES for n in stage], backbone, self.name)
        need(mixed, ("alpha", "beta"), mixture, self.name)
        # Flax keeps a kernel as height, width, in, out.
        kernels = {
            key: value.permute(3, 2, 0, 1).contiguous() if key.endswith("kernel") else value
            for key, value in state.items()
            if key.startswith("VGG16_0/")
        }
        self._w: Mapping[str, Any] = placed(kernels, place)
        total = mixed["alpha"].double().sum() + mixed["beta"].double().sum()
        self._alpha, self._beta = (
            (mixed[part].double() / total).float().flatten().to(place.device) for part in ("alpha", "beta")
        )

    def __call__(self, pairs: Sequence[Pair]) -> list[float | Failure]:
        found: list[float | Failure] = [NOT_FINITE] * len(pairs)
        for positions in by_size([first for first, _ in pairs]):
            alike = []
            for position in positions:
                if pairs[position][0].shape != pairs[position][1].shape:
                    found[position] = Failure(kind="undefined", detail="DISTS compares pictures of one size")
                else:
                    alike.append(position)
            for position, made in zip(alike, self._place.run([pairs[n] for n in alike], self._batch), strict=True):
                found[position] = made
        return found

    def _batch(self, pairs: Sequence[Pair]) -> list[float | Failure]:
        torch = package("torch")
        with torch.inference_mode():
            stack = upload([picture for pair in pairs for picture in pair], self._place.device)
            maps = self._maps(stack.permute(0, 3, 1, 2).to(torch.float32) / 255.0)
            alike = torch.zeros(len(pairs), device=stack.device)
            start = 0
            for level in maps:
                first, second = level[0::2].float(), level[1::2].float()
                alpha, beta = (part[start : start + level.shape[1]] for part in (self._alpha, self._beta))
                alike += _alike(first, second, alpha, beta)
                start += level.shape[1]
            distances = (1.0 - alike).cpu().numpy()
        return [max(float(d), 0.0) if np.isfinite(d) else NOT_FINITE for d in distances]

    def _maps(self, x: Any) -> list[Any]:
        """The pictures themselves and what VGG16 makes of them at five depths; its max pooling is a blur here."""
        torch = package("torch")
        functional = torch.nn.functional
        maps = [x]
        mean, std = (torch.tensor(c, device=x.device).view(3, 1, 1) for c in (IMAGENET_MEAN, IMAGENET_STD))
        x = ((x - mean) / std).to(self._place.torch_dtype)
        side = torch.tensor([0.25, 0.5, 0.25], device=x.device, dtype=x.dtype)
        for depth, stage in enumerate(_STAGES):
            if depth:
                blur = (side[:, None] * side).expand(x.shape[1], 1, 3, 3)
                x = (functional.conv2d(x * x, blur, stride=2, padding=1, groups=x.shape[1]) + 1e-12).sqrt()
            for n in stage:
                name = f"VGG16_0/Conv_{n}"
                x = functional.relu(functional.conv2d(x, self._w[f"{name}/kernel"], self._w[f"{name}/bias"], padding=1))
            maps.append(x)
        return maps


def _alike(first: Any, second: Any, alpha: Any, beta: Any) -> Any:
    """The weighted sum over channels of likeness in mean (texture) and in covariance (structure)."""
    mean1, mean2 = first.mean((2, 3)), second.mean((2, 3))
    d1, d2 = first - mean1[:, :, None, None], second - mean2[:, :, None, None]
    texture = (2 * mean1 * mean2 + _TINY) / (mean1**2 + mean2**2 + _TINY)
    structure = (2 * (d1 * d2).mean((2, 3)) + _TINY) / ((d1 * d1).mean((2, 3)) + (d2 * d2).mean((2, 3)) + _TINY)
    return texture @ alpha + structure @ beta
