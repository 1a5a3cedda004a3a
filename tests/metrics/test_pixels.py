"""L1, MSE and SSIM: closed forms, another implementation, odd sizes, and the faults that `corrected` is free of."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.metrics import find_metric
from refbench.metrics.pixels import (
    l1,
    l1_masked,
    l1_masked_paper,
    mse,
    mse_paper,
    rounded_luma,
    ssim,
    structural_similarity,
)


def picture(seed: int, height: int = 60, width: int = 80) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def plain(value: int, height: int = 40, width: int = 50) -> Any:
    return np.full((height, width, 3), value, np.uint8)


def slow_ssim(x: Any, y: Any) -> float:
    """The definition, one window at a time in double precision: Wang et al. on rounded luma, contrast never below 0."""
    axis = np.arange(11) - 5
    kernel = np.exp(-(axis[:, None] ** 2 + axis[None, :] ** 2) / 4.5)
    kernel = (kernel / kernel.sum()).astype(np.float32).astype(np.float64)
    total, count = 0.0, 0
    for top in range(x.shape[0] - 10):
        for left in range(x.shape[1] - 10):
            a, b = (z[top : top + 11, left : left + 11].astype(np.float64) for z in (x, y))
            m, n = (kernel * a).sum(), (kernel * b).sum()
            spread = (kernel * a * a).sum() - m * m + (kernel * b * b).sum() - n * n
            shared = (kernel * a * b).sum() - m * n
            contrast = max((2 * shared + 58.5225) / (spread + 58.5225), 0.0)
            total += contrast * (2 * m * n + 6.5025) / (m * m + n * n + 6.5025)
            count += 1
    return total / count


@pytest.mark.parametrize("height, width", [(11, 11), (13, 40), (300, 12), (40, 37)])
def test_ssim_equals_its_definition(height: int, width: int) -> None:
    a, b = picture(1, height, width), picture(2, height, width)
    near = np.clip(a.astype(int) + np.random.default_rng(3).integers(-9, 10, a.shape), 0, 255).astype(np.uint8)
    for other in (b, near, 255 - a):
        assert ssim(other, a) == pytest.approx(slow_ssim(rounded_luma(other), rounded_luma(a)), abs=1e-8)


def test_ssim_of_a_picture_with_itself_is_one() -> None:
    assert ssim(picture(1, 400, 300), picture(1, 400, 300)) == 1.0


def test_ssim_is_symmetric() -> None:
    a, b = picture(1), picture(2)
    assert ssim(a, b) == pytest.approx(ssim(b, a), abs=1e-12)


def test_ssim_of_two_greys_has_a_closed_form() -> None:
    assert ssim(plain(100), plain(150)) == pytest.approx(
        (2 * 100 * 150 + 6.5025) / (100**2 + 150**2 + 6.5025), abs=1e-6
    )


@pytest.mark.parametrize("height, width", [(1, 1), (10, 400), (400, 3)])
def test_ssim_of_less_than_a_window_is_undefined(height: int, width: int) -> None:
    failure = ssim(picture(1), picture(2, height, width))
    assert isinstance(failure, Failure) and failure.kind == "undefined"
    assert f"{width}x{height}" in failure.detail


def test_luma_is_rounded_as_the_official_float32_product_is() -> None:
    """Of these colours (299 R + 587 G + 114 B) / 1000 is an exact half; single precision sends it up or down."""
    ties = [
        (r, g, b)
        for r in range(0, 256, 5)
        for g in range(0, 256, 3)
        for b in range(0, 256, 5)
        if (299 * r + 587 * g + 114 * b) % 1000 == 500
    ]
    colours = np.array(ties, np.uint8)[None]
    unit = colours.astype(np.float32) / np.float32(255)
    product = unit[..., 0] * np.float32(0.299) + unit[..., 1] * np.float32(0.587) + unit[..., 2] * np.float32(0.114)
    assert np.array_equal(rounded_luma(colours), np.rint(product * np.float32(255)))
    exact = np.rint((colours.astype(int) @ [299, 587, 114]) / 1000)
    assert 0.05 < np.mean(rounded_luma(colours) != exact) < 0.95


def test_structural_similarity_takes_grey_pictures_alone() -> None:
    grey = picture(1)[..., 0]
    assert structural_similarity(grey, grey) == 1.0


@pytest.mark.parametrize("height, width", [(1, 1), (1, 300), (7, 3), (61, 83)])
def test_l1_and_mse_equal_numpy(height: int, width: int) -> None:
    a, b = picture(1, height, width), picture(2, height, width)
    apart = a / 255 - b / 255
    assert l1(a, b) == pytest.approx(np.abs(apart).mean(), abs=1e-12)
    assert mse(a, b) == pytest.approx((apart**2).mean(), abs=1e-12)


def test_l1_of_black_and_white_is_one() -> None:
    assert l1(plain(0), plain(255)) == mse(plain(0), plain(255)) == 1.0


def test_the_output_is_brought_to_the_source_by_pillows_bicubic_filter() -> None:
    a, b = picture(1, 90, 41), picture(2, 64, 64)
    fitted = np.asarray(Image.fromarray(a).resize((64, 64), Image.Resampling.BICUBIC))
    assert l1(a, b) == l1(fitted, b) != l1(b, a)
    assert ssim(a, b) == ssim(fitted, b)


def test_masked_l1_counts_what_is_outside_the_edit_region() -> None:
    source = plain(100, 10, 10)
    output = source.copy()
    output[:5] = 200  # all of the change in the upper half
    mask = np.zeros((10, 10), np.uint8)
    mask[:5] = 255
    for measure in (l1_masked, l1_masked_paper):
        assert measure(output, source, mask) == 0.0
        assert measure(output, source, 255 - mask) == pytest.approx(100 / 255)
        assert measure(output, source, np.zeros_like(mask)) == pytest.approx(l1(output, source))


def test_a_mask_value_of_128_is_still_outside() -> None:
    source, output = plain(0, 4, 4), plain(51, 4, 4)
    mask = np.full((4, 4), 128, np.uint8)
    assert l1_masked(output, source, mask) == pytest.approx(0.2)
    assert isinstance(l1_masked(output, source, mask + 1), Failure)


@pytest.mark.parametrize("measure", [l1_masked, l1_masked_paper])
def test_an_all_white_mask_is_undefined(measure: Any) -> None:
    failure = measure(picture(1), picture(2), np.full((60, 80), 255, np.uint8))
    assert isinstance(failure, Failure) and failure.kind == "undefined"


def test_a_mask_of_another_size_is_resized_by_corrected_only() -> None:
    mask = np.zeros((30, 40), np.uint8)
    mask[:, :20] = 255
    full = np.kron(mask, np.ones((2, 2), np.uint8))
    assert l1_masked(picture(1), picture(2), mask) == l1_masked(picture(1), picture(2), full)
    failure = l1_masked_paper(picture(1), picture(2), mask)
    assert isinstance(failure, Failure) and "40x30" in failure.detail


def test_a_map_of_zeros_and_ones_is_another_scale_in_paper_only() -> None:
    """Official: a nearly black map whose brightest level is 1 counts as white."""
    map_, black = np.ones((8, 8), np.uint8), np.zeros((8, 8), np.uint8)
    assert mse_paper(map_, black) == 1.0
    assert mse(*(np.repeat(grey[..., None], 3, axis=2) for grey in (map_, black))) == pytest.approx(1 / 255**2)


def test_the_official_map_mse_resizes_the_reference_by_area() -> None:
    a, b = picture(1, 20, 30)[..., 0], picture(2, 55, 47)[..., 0]
    small = cv2.resize(b / 255, (30, 20), interpolation=cv2.INTER_AREA)
    assert mse_paper(a, b) == pytest.approx(((a / 255 - small) ** 2).mean(), abs=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        "l1",
        "l1_masked",
        "mse",
        "ssim",
        "colorfulness",
        "canny_l1",
        "colorize_l1",
        "mask_iou",
        "bbox_iou",
        "semantic_iou",
        "pose_pixel",
        "canny_mse",
    ],
)
@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_a_metric_is_found_by_its_name_in_both_protocols(name: str, protocol: str) -> None:
    found = find_metric(name, protocol)
    assert found.name == found.id == name
    assert found.protocol in ("", protocol)
    assert found.summary.endswith((".", "map", "mAP.")) and not found.networks
