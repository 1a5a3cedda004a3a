"""The stitched picture has the release's measures, and the card its number."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refbench.benchmarks.ideabench.judge import count_card, stitched
from refbench.failure import Failure


def write(path: Path, size: tuple[int, int], colour: tuple[int, int, int], mode: str = "RGB") -> Path:
    Image.new("RGB", size, colour).convert(mode).save(path)
    return path


def opened(data: bytes | Failure) -> np.ndarray:
    assert not isinstance(data, Failure)
    picture = Image.open(io.BytesIO(data))
    assert (picture.format, picture.mode) == ("JPEG", "RGB")
    return np.asarray(picture).astype(int)


def near(pixel: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return bool(np.abs(pixel - colour).max() <= 6)


RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 160, 0), (0, 0, 255), (255, 255, 255)


def test_references_are_above_outputs_and_as_high_as_the_first(tmp_path: Path) -> None:
    references = [write(tmp_path / "a.png", (100, 50), RED), write(tmp_path / "b.png", (33, 50), GREEN)]
    outputs = [write(tmp_path / "c.png", (60, 80), BLUE), write(tmp_path / "d.png", (60, 120), BLUE)]
    pixels = opened(stitched(references, outputs))
    # References become 160x80 and int(80 * 33 / 50) = 52 wide; outputs stay: 60 + 20 + 60, 120 high.
    assert pixels.shape == (80 + 20 + 120, 160 + 20 + 52, 3)
    assert near(pixels[40, 80], RED)
    assert near(pixels[40, 160 + 20 + 26], GREEN)
    assert near(pixels[40, 170], WHITE)
    assert near(pixels[90, 80], WHITE)
    assert near(pixels[100 + 60, 30], BLUE)
    assert near(pixels[100 + 60, 80 + 30], BLUE)
    assert near(pixels[100 + 100, 30], WHITE), "the shorter output hangs from the top"
    assert near(pixels[100 + 60, 200], WHITE), "rows begin at the left edge"


def test_outputs_alone_are_one_row(tmp_path: Path) -> None:
    outputs = [write(tmp_path / f"{n}.png", (30, 40), BLUE) for n in range(3)]
    assert opened(stitched([], outputs)).shape == (40, 130, 3)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA"])
def test_other_modes_are_stitched_too(tmp_path: Path, mode: str) -> None:
    output = write(tmp_path / "a.png", (30, 40), (102, 102, 102), mode)
    assert near(opened(stitched([output], [output]))[20, 15], (102, 102, 102))


def test_a_picture_that_cannot_be_opened_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"nothing")
    said = stitched([], [tmp_path / "a.png"])
    assert isinstance(said, Failure)
    assert said.kind == "unreadable_picture"
    assert "a.png" in said.detail


@pytest.mark.parametrize("number", [1, 4, 10])
def test_the_card_shows_the_number_large_and_in_the_middle(number: int) -> None:
    pixels = opened(count_card(number))
    assert pixels.shape == (512, 512, 3)
    rows, columns = np.nonzero(pixels.mean(axis=2) < 100)
    assert 150 < rows.max() - rows.min() < 256, "not the tiny fallback font of the released script"
    assert abs((rows.max() + rows.min()) / 2 - 256) < 45
    assert abs((columns.max() + columns.min()) / 2 - 256) < 25
