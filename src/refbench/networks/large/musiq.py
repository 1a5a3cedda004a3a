"""MUSIQ: quality of a picture from patches of it at several scales (Ke et al., ICCV 2021), written for torch.

The numbers of the network, and the names of its weights, are those of the converted checkpoints that ICE-Bench uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.forward import PictureRoute
from refbench.networks.large.preprocess import HALF, Preparation, by_size
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.networks.network import Feature
from refbench.pictures import Pixels

_PATCH = 32
_LONGER_SIDES = (224, 384)
_GRID = 10
_HEAD = 64
"""Width of an attention head: six of them in the released 384."""

_CONVOLUTIONS = (
    "conv_root",
    "block1.conv1",
    "block1.conv2",
    "block1.conv3",
    "block1.conv_proj",
)
_TOKENS = "transformer_encoder"


class Musiq:
    """MUSIQ trained on KonIQ-10k, 0 to 100. Pictures are first brought to a height of 1024 px, as ICE-Bench does."""

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 4) -> None:
        checkpoint = Checkpoint.of("musiq_koniq", paths, device, dtype, batch)
        how = Preparation(HALF, HALF, height_first=1024)
        self.pictures = PictureRoute(checkpoint.place, how, MusiqNetwork(checkpoint), gives="score")

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        features: list[Feature | Failure] = [{}] * len(pictures)
        # Every size has its own number of patches: only pictures of one size go through together.
        for positions in by_size(pictures):
            for position, made in zip(positions, self.pictures([pictures[n] for n in positions]), strict=True):
                features[position] = made
        return features


class MusiqNetwork:
    """The network itself: pictures (n x 3 x height x width, -1 to 1) to n scores."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        state = checkpoint.state()
        self._blocks = sum(key.endswith(".norm1.weight") for key in state)
        self._out = "head" if "head.weight" in state else "head.0"
        needed = [f"{conv}.weight" for conv in _CONVOLUTIONS]
        needed += [f"{_TOKENS}.posembed_input.position_emb", f"{_TOKENS}.scaleembed_input.scale_emb", f"{_TOKENS}.cls"]
        needed += ["embedding.weight", "embedding.bias", f"{_TOKENS}.encoder_norm.weight"]
        needed += [
            f"{self._block(n)}.{part}.weight" for n in range(max(self._blocks, 1)) for part in ("mlp.fc2", "norm2")
        ]
        checkpoint.need(state, [*needed, f"{self._out}.weight", f"{self._out}.bias"])
        for conv in _CONVOLUTIONS:
            state[f"{conv}.weight"] = _standardised(state[f"{conv}.weight"].float())
        self._w = checkpoint.placed(state)

    def __call__(self, pictures: Any) -> Any:
        torch, w = package("torch"), self._w
        tokens, places, scales = [], [], []
        for number, scaled in enumerate(self._scales(pictures)):
            patches, rows, columns = _patches(scaled)
            tokens.append(self._embedded(patches))
            places.append(_hashed(rows, columns, pictures.device))
            scales.append(torch.full((rows * columns,), number, device=pictures.device))
        x = torch.cat(tokens, dim=1)
        x = x + w[f"{_TOKENS}.posembed_input.position_emb"][0][torch.cat(places)]
        x = x + w[f"{_TOKENS}.scaleembed_input.scale_emb"][torch.cat(scales)]
        x = torch.cat([w[f"{_TOKENS}.cls"].expand(len(x), -1, -1), x], dim=1)
        for number in range(self._blocks):
            block = self._block(number)
            x = x + self._attention(self._norm(x, f"{block}.norm1"), f"{block}.attention")
            y = self._linear(self._norm(x, f"{block}.norm2"), f"{block}.mlp.fc1")
            x = x + self._linear(torch.nn.functional.gelu(y), f"{block}.mlp.fc2")
        made = self._linear(self._norm(x[:, :1], f"{_TOKENS}.encoder_norm"), self._out)[:, 0]
        if made.shape[1] == 1:
            return made[:, 0]
        # Trained on opinions from 1 to n instead of their mean: the mean of the distribution.
        return (made.softmax(1) * torch.arange(1, made.shape[1] + 1, device=made.device)).sum(1)

    def _scales(self, pictures: Any) -> list[Any]:
        """The picture at the two sizes (by the longer side, torch's plain bicubic) and as it is."""
        height, width = pictures.shape[-2:]
        sizes = []
        for longer in _LONGER_SIDES:
            ratio = longer / max(height, width)
            size = max(round(height * ratio), 1), max(round(width * ratio), 1)
            interpolate = package("torch").nn.functional.interpolate
            # In fp32 also where the network runs in bf16: pixels are not what its rounding is for.
            scaled = interpolate(pictures.float(), size, mode="bicubic", align_corners=False)
            sizes.append(scaled.to(pictures.dtype))
        return [*sizes, pictures]

    def _embedded(self, patches: Any) -> Any:
        """Tokens of the patches (n x count x 3 x 32 x 32): a small residual network, then one linear layer."""
        functional = package("torch").nn.functional
        n, count = patches.shape[:2]
        x = functional.conv2d(_same(patches.flatten(0, 1), 7, 2), self._w["conv_root.weight"], stride=2)
        x = functional.relu(self._group(x, "gn_root", 1e-6))
        x = functional.max_pool2d(_same(x, 3, 2), 3, 2)
        y = functional.relu(self._group(functional.conv2d(x, self._w["block1.conv1.weight"]), "block1.gn1", 1e-4))
        y = functional.conv2d(y, self._w["block1.conv2.weight"], padding=1)
        y = functional.relu(self._group(y, "block1.gn2", 1e-4))
        y = self._group(functional.conv2d(y, self._w["block1.conv3.weight"]), "block1.gn3", 1e-4)
        aside = self._group(functional.conv2d(x, self._w["block1.conv_proj.weight"]), "block1.gn_proj", 1e-4)
        x = functional.relu(y + aside)
        # Channels last: the order that the weights were trained with in JAX.
        return self._linear(x.permute(0, 2, 3, 1).reshape(n, count, -1), "embedding")

    def _attention(self, x: Any, name: str) -> Any:
        n, length, width = x.shape
        query, key, value = (
            self._linear(x, f"{name}.{part}").reshape(n, length, width // _HEAD, _HEAD).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        made = package("torch").nn.functional.scaled_dot_product_attention(query, key, value)
        return self._linear(made.transpose(1, 2).reshape(n, length, width), f"{name}.out")

    def _block(self, number: int) -> str:
        return f"{_TOKENS}.transformer.encoderblock_{number}"

    def _linear(self, x: Any, name: str) -> Any:
        return package("torch").nn.functional.linear(x, self._w[f"{name}.weight"], self._w[f"{name}.bias"])

    def _norm(self, x: Any, name: str) -> Any:
        norm = package("torch").nn.functional.layer_norm
        return norm(x, x.shape[-1:], self._w[f"{name}.weight"], self._w[f"{name}.bias"], 1e-6)

    def _group(self, x: Any, name: str, eps: float) -> Any:
        return package("torch").nn.functional.group_norm(x, 32, self._w[f"{name}.weight"], self._w[f"{name}.bias"], eps)


def _standardised(weight: Any) -> Any:
    """Each filter with mean 0 and deviation 1. The conversion divides by the sample deviation (n - 1), where the
    original divides by the population's; ICE-Bench's numbers are the conversion's."""
    weight = weight - weight.mean((1, 2, 3), keepdim=True)
    return weight / (weight.std((1, 2, 3), keepdim=True) + 1e-5)


def _same(x: Any, kernel: int, stride: int) -> Any:
    """Padded as TensorFlow's SAME: as little as possible, the spare pixel behind."""
    pads = []
    for size in (x.shape[-1], x.shape[-2]):
        spare = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads += [spare // 2, spare - spare // 2]
    return package("torch").nn.functional.pad(x, pads)


def _patches(pictures: Any) -> tuple[Any, int, int]:
    """Patches of 32 px, row by row (n x count x 3 x 32 x 32), of the padded pictures; and how many down and across."""
    padded = _same(pictures, _PATCH, _PATCH)
    n, channels, height, width = padded.shape
    rows, columns = height // _PATCH, width // _PATCH
    cut = padded.reshape(n, channels, rows, _PATCH, columns, _PATCH).permute(0, 2, 4, 1, 3, 5)
    return cut.reshape(n, rows * columns, channels, _PATCH, _PATCH), rows, columns


def _hashed(rows: int, columns: int, device: Any) -> Any:
    """Which of the 10 x 10 learnt positions each patch has: the nearest, however many patches there are."""
    torch = package("torch")
    grid = torch.arange(_GRID, dtype=torch.float32).view(1, 1, _GRID)
    across, down = (
        torch.nn.functional.interpolate(grid, count, mode="nearest").view(-1).long() for count in (columns, rows)
    )
    return (down[:, None] * _GRID + across[None, :]).reshape(-1).to(device)
