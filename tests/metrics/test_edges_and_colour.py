"""Edges and colour: what the released measures miss and the corrected ones see."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from refbench.extractors.canny import canny
from refbench.failure import Failure
from refbench.metrics.colour import colorfulness, colorfulness_paper, colorize_l1, pillow_luma
from refbench.metrics.edges import canny_l1, canny_l1_paper, canny_mse, canny_mse_paper, edge_f1
from refbench.metrics.overlap import tolerant_f1


def scene(seed: int = 0, side: int = 256) -> Any:
    """Plain shapes on a plain ground: clear edges and large flat areas."""
    rng = np.random.default_rng(seed)
    pixels = np.full((side, side, 3), 90, np.uint8)
    for _ in range(4):
        x, y, r = (int(v) for v in rng.integers(side // 6, side * 5 // 6, 3))
        cv2.circle(pixels, (x, y), r // 4, [int(v) for v in rng.integers(0, 256, 3)], -1)
    return pixels


def as_picture(grey: Any) -> Any:
    return np.repeat(grey[..., None], 3, axis=2)


def test_an_output_without_edges_scores_high_officially_and_nothing_in_edge_f1() -> None:
    """Fault 6 of ICE-Bench: edge maps are mostly black, so a flat grey output has nearly full marks."""
    edges = canny(scene())
    flat = np.full((256, 256, 3), 128, np.uint8)
    assert canny_l1_paper(flat, as_picture(edges)) > 0.95
    assert edge_f1(flat, edges) == 0.0
    assert edge_f1(scene(), edges) == 1.0
    assert edge_f1(scene(5), edges) < 0.5  # type: ignore[operator]


def test_edges_that_only_colour_has_are_edges_in_paper_only() -> None:
    """Red and green of equal luma: the released code takes Canny of the colour picture."""
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:, :32], pixels[:, 32:] = (200, 0, 0), (0, 102, 0)
    black = np.zeros((64, 64, 3), np.uint8)
    assert np.ptp(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)) <= 1
    assert canny_l1_paper(pixels, black) < 1.0
    assert canny_l1(pixels, black) == 1.0


def test_edge_f1_forgives_two_pixels_at_1024_and_no_more() -> None:
    drawn = np.zeros((1024, 64), bool)
    drawn[:, 30] = True
    assert tolerant_f1(drawn, np.roll(drawn, 2, axis=1), 2.0) == 1.0
    assert tolerant_f1(drawn, np.roll(drawn, 3, axis=1), 2.0) == 0.0


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    wanted = np.zeros((40, 40), bool)
    wanted[10, :], wanted[30, :20] = True, True
    found = np.zeros_like(wanted)
    found[10, :] = True  # all of it right, two thirds of what is wanted
    assert tolerant_f1(found, wanted, 1.0) == pytest.approx(2 * 1 * (2 / 3) / (1 + 2 / 3))


def test_no_edges_on_either_side_is_undefined() -> None:
    failure = edge_f1(np.zeros((32, 32, 3), np.uint8), np.zeros((32, 32), np.uint8))
    assert isinstance(failure, Failure) and failure.kind == "undefined"


def test_an_edge_map_through_jpeg_is_the_same_edge_map() -> None:
    edges = canny(scene())
    stored = cv2.imdecode(cv2.imencode(".jpg", edges)[1], cv2.IMREAD_GRAYSCALE)
    assert edge_f1(scene(), np.asarray(stored, dtype=np.uint8)) > 0.97  # type: ignore[operator]


def test_a_faithful_output_of_another_size_is_not_punished_for_its_size() -> None:
    """Officially the map of 512 px is smeared down to 256 and then differs from crisp edges everywhere."""
    small, large = (
        scene(1, 256),
        np.asarray(Image.fromarray(scene(1, 256)).resize((512, 512), Image.Resampling.BICUBIC)),
    )
    reference = canny(large)
    assert canny_mse(large, reference) == canny_mse_paper(large, reference) == 0.0
    assert canny_mse(small, reference) < canny_mse_paper(small, reference)


def test_canny_mse_of_a_flat_output_is_the_share_of_edges() -> None:
    reference = canny(scene())
    share = np.mean(reference > 0)
    flat = np.full((256, 256, 3), 77, np.uint8)
    assert canny_mse(flat, reference) == pytest.approx(share)
    assert canny_mse_paper(flat, reference) == pytest.approx(share)


def test_grey_has_no_colour() -> None:
    grey = as_picture(np.random.default_rng(0).integers(0, 256, (30, 40), dtype=np.uint8))
    assert colorfulness(grey) == colorfulness_paper(grey) == 0.0


def test_colourfulness_equals_its_two_definitions() -> None:
    pixels = np.random.default_rng(0).integers(0, 180, (50, 70, 3), dtype=np.uint8)
    red, green, blue = (pixels[..., i].astype(float) for i in range(3))
    across, down = red - green, (red + green) / 2 - blue
    signed = np.hypot(across.std(), down.std()) + 0.3 * np.hypot(across.mean(), down.mean())
    a, d = np.abs(across) / 255, np.abs(down) / 255
    official = np.sqrt(a.std() ** 2 + d.std() ** 2) + 0.3 * np.sqrt(a.mean() ** 2 + d.mean() ** 2)
    assert colorfulness(pixels) == pytest.approx(signed / 109, abs=1e-9)
    assert colorfulness_paper(pixels) == pytest.approx(official, abs=1e-9)


def test_colourfulness_stays_in_its_range_where_the_official_one_has_none() -> None:
    """Fault 9 of ICE-Bench: the official value has another scale than what it is averaged with."""
    pixels = np.zeros((60, 60, 3), np.uint8)
    pixels[:30] = (255, 0, 0)
    pixels[30:] = (0, 0, 255)
    assert colorfulness(pixels) == 1.0
    assert find_range("colorfulness", "paper") == (0, None) and find_range("colorfulness", "corrected") == (0, 1)


def find_range(name: str, protocol: str) -> Any:
    from refbench.metrics import find_metric

    return find_metric(name, protocol).range


def test_the_sign_of_opponent_colours_counts() -> None:
    """Half red, half green is more colourful than all red. Of absolute values, as in the release, it is not."""
    red, both = np.zeros((20, 20, 3), np.uint8), np.zeros((20, 20, 3), np.uint8)
    red[...] = both[:10] = (120, 0, 0)
    both[10:] = (0, 120, 0)
    assert colorfulness_paper(both) == pytest.approx(colorfulness_paper(red))
    assert colorfulness(both) > colorfulness(red)


def test_colourising_is_measured_on_luma_alone() -> None:
    rng = np.random.default_rng(0)
    grey = as_picture(rng.integers(60, 200, (30, 40), dtype=np.uint8))
    tinted = np.clip(grey.astype(int) + np.array([20, -10, 0]), 0, 255).astype(np.uint8)
    luma = np.asarray(Image.fromarray(tinted).convert("L"))
    assert colorize_l1(grey, grey) == 1.0
    assert colorize_l1(tinted, grey) == pytest.approx(1 - np.abs(luma / 255 - grey[..., 0] / 255).mean(), abs=1e-9)
    assert np.array_equal(pillow_luma(tinted), luma)
