"""Tiny networks of the real architectures with random weights, saved by transformers in the real formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from refbench.pictures import Pixels

REASON = "needs the extra neural"
WIDTH = 64

SIZES = [(64, 64), (91, 37), (37, 91), (33, 200), (201, 34), (5, 3), (48, 47), (130, 51)]
"""Heights and widths: square, odd, wide, tall, and smaller than what the network takes."""


@pytest.fixture(scope="session")
def pictures() -> list[Pixels]:
    """One picture of each size: half noise, half soft."""
    found = []
    for number, (height, width) in enumerate(SIZES):
        rng = np.random.default_rng(number)
        y, x = np.mgrid[:height, :width]
        soft = np.stack([127 + 120 * np.sin((x + y * (c + 1)) / (7.0 + number)) for c in range(3)], axis=-1)
        noise = rng.integers(0, 256, (height, width, 3))
        found.append(np.where(rng.random((height, width, 1)) < 0.5, soft, noise).astype(np.uint8))
    return found


def patterned(seed: int, height: int, width: int) -> Pixels:
    """A picture made with whole numbers alone, so that it is the same everywhere."""
    y, x = np.mgrid[:height, :width]
    channels = [(x * (3 + c) + y * (5 + seed) + (x * y) // (7 + c + seed)) % 256 for c in range(3)]
    return np.stack(channels, axis=-1).astype(np.uint8)


def numbers(shapes: dict[str, Sequence[int]], seed: int) -> dict[str, Any]:
    """Weights that depend on names, shapes and seed alone, so that values can be compared across machines."""
    torch = pytest.importorskip("torch", reason=REASON)
    rng = np.random.default_rng(seed)
    found = {}
    for name in sorted(shapes):
        shape = tuple(shapes[name])
        values: NDArray[np.float32] = rng.standard_normal(int(np.prod(shape))).astype(np.float32).reshape(shape)
        values = values * np.float32(max(int(np.prod(shape[1:])), 1) ** -0.5 if len(shape) > 1 else 0.1)
        if name.endswith("running_var"):
            values = np.abs(values) + np.float32(0.5)
        elif name.endswith(".weight") and len(shape) == 1:
            values = values + np.float32(1)
        found[name] = torch.from_numpy(values)
    return found


def shaken(model: Any) -> Any:
    """Random weights of a size at which outputs differ visibly between pictures; biases and norms too."""
    torch = pytest.importorskip("torch", reason=REASON)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.1
            noise = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(noise if parameter.ndim > 1 else parameter + noise)
    return model.eval()


def cut_to(size: int) -> dict[str, Any]:
    return {"size": {"shortest_edge": size}, "crop_size": {"height": size, "width": size}}


@pytest.fixture(scope="session")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of CLIP: config, weights, preprocessor and tokenizer."""
    transformers = pytest.importorskip("transformers", reason=REASON)
    folder = tmp_path_factory.mktemp("clip")
    letters = [chr(c) for c in range(97, 123)] + [",", "."]
    names = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(vocab={name: n for n, name in enumerate(names)}, merges=[])
    tokenizer.save_pretrained(folder)
    both = {"hidden_size": WIDTH, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.CLIPConfig(
        vision_config={**both, "image_size": 56, "patch_size": 14, "projection_dim": 32},
        # As in OpenAI's repositories: with the old number of the end token, the highest one is looked for.
        text_config={**both, "vocab_size": len(names), "eos_token_id": 2, "bos_token_id": 0, "projection_dim": 32},
        projection_dim=32,
    )
    shaken(transformers.CLIPModel(config)).save_pretrained(folder)
    transformers.CLIPImageProcessorPil(**cut_to(56)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def siglip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of SigLIP, text half included."""
    transformers = pytest.importorskip("transformers", reason=REASON)
    folder = tmp_path_factory.mktemp("siglip")
    both = {"hidden_size": WIDTH, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.SiglipConfig(
        vision_config={**both, "image_size": 56, "patch_size": 14}, text_config={**both, "vocab_size": 60}
    )
    shaken(transformers.SiglipModel(config)).save_pretrained(folder)
    transformers.SiglipImageProcessorPil(size={"height": 56, "width": 56}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def dinov2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of DINOv2 as the giant one: gated layers, and positions for another size than pictures come in."""
    transformers = pytest.importorskip("transformers", reason=REASON)
    folder = tmp_path_factory.mktemp("dinov2")
    config = transformers.Dinov2Config(
        hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, image_size=98, patch_size=14, use_swiglu_ffn=True
    )
    shaken(transformers.Dinov2Model(config)).save_pretrained(folder)
    processor = transformers.BitImageProcessorPil(
        size={"shortest_edge": 64},
        crop_size={"height": 56, "width": 56},
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    )
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def cosine_distance() -> Callable[[Any, Any], float]:
    def distance(first: Any, second: Any) -> float:
        a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
        return float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    return distance


@pytest.fixture(scope="session")
def picture_by_rule() -> Callable[[int, int, int], Pixels]:
    return patterned


@pytest.fixture(scope="session")
def weights_by_rule() -> Callable[[dict[str, Sequence[int]], int], dict[str, Any]]:
    return numbers


@pytest.fixture(scope="session")
def with_random_weights() -> Callable[[Any], Any]:
    return shaken
