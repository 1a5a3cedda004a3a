"""The official code's values on the golden inputs, to 1e-6: all of them come out of the `paper` functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from refbench.metrics.colour import colorfulness_paper, colorize_l1
from refbench.metrics.edges import canny_l1_paper
from refbench.metrics.overlap import box_iou
from refbench.metrics.pixels import l1, l1_masked, l1_masked_paper, mse_paper, ssim
from refbench.metrics.pose import pose_pixel_paper
from refbench.metrics.regions import MIN_REGION, exact_colours
from refbench.metrics.spatial import bbox_iou_paper, is_set, mask_iou_paper, semantic_iou_paper, thresholded_box

GOLDEN = Path(__file__).resolve().parents[3] / "shared/golden"
pytestmark = pytest.mark.skipif(
    not (GOLDEN / "inputs.npz").exists(), reason="the golden values are not beside this checkout"
)


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    with np.load(GOLDEN / "inputs.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def official() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((GOLDEN / "official_values.json").read_text())["values"]
    return values


def jpeg(bgr: Any) -> Any:
    """As OpenCV writes and reads a .jpg; MultiRef's arrays are BGR."""
    return cv2.imdecode(cv2.imencode(".jpg", bgr)[1], cv2.IMREAD_COLOR)


VALUES = {
    "ice_raw": lambda g: {"l1_raw": l1(g["B"], g["A"])},
    "ice_canny": lambda g: {"l1_canny": canny_l1_paper(g["B"], g["A"])},
    "ice_colorize": lambda g: {"l1_colorize": colorize_l1(g["B"], g["A"])},
    "ice_raw_masked": lambda g: {"l1_raw": l1_masked_paper(g["B"], g["A"], g["mask"])},
    "ice_raw_self": lambda g: {"l1_raw": l1(g["A"], g["A"])},
    "ice_colorfulness_A": lambda g: colorfulness_paper(g["A"]),
    "ice_colorfulness_B_resized": lambda g: colorfulness_paper(g["B"], g["A"]),
    "mr_bbox_from_drawn_box_30_20_90_60": lambda g: [thresholded_box(g["box"])],
    "mr_bbox_iou": lambda g: bbox_iou_paper(g["A"], g["box"], output_box=(30, 20, 90, 60)),
    "mr_mask_sum": lambda g: int(is_set(g["mask"]).sum()),
    "mr_iou": lambda g: mask_iou_paper(g["mk2"], g["mask"]),
    "mr_mse_gray_resize": lambda g: mse_paper(g["A"][..., 0], g["B"][..., 0]),
    "mr_mse_zero_map": lambda g: mse_paper(np.zeros((96, 128), np.uint8), g["B"][..., 0]),
    "mr_mse_01_quirk": lambda g: mse_paper(*((g[name][..., 0] > 127).astype(np.uint8) for name in "AB")),
    "mr_pose_score_png": lambda g: pose_pixel_paper(g["p"], g["q"]),
    "mr_pose_score_jpg_ref": lambda g: pose_pixel_paper(g["p"], jpeg(g["q"])),
    "mr_semantic_mean_matched_iou": lambda g: semantic_iou_paper(g["s1"], g["s2"][..., 0]),
    "mr_semantic_counts": lambda g: [exact_colours(a, MIN_REGION).count for a in (g["s1"], g["s2"][..., 0])],
    "ice_ssim_B_vs_A": lambda g: ssim(g["B"], g["A"]),
    "ice_ssim_self": lambda g: ssim(g["A"], g["A"]),
}  # fmt: skip


@pytest.mark.parametrize("key", VALUES)
def test_the_official_value_comes_out(key: str, given: dict[str, Any], official: dict[str, Any]) -> None:
    value, wanted = VALUES[key](given), official[key]
    if isinstance(wanted, dict):
        assert value == {name: pytest.approx(number, abs=1e-6) for name, number in wanted.items()}
    elif isinstance(wanted, list):
        assert np.asarray(value, float).tolist() == np.asarray(wanted, float).tolist()
    else:
        assert value == pytest.approx(wanted, abs=1e-6)


def test_every_official_value_is_reproduced(official: dict[str, Any]) -> None:
    assert set(VALUES) == set(official)


def test_ssim_is_far_nearer_than_it_must_be(given: dict[str, Any], official: dict[str, Any]) -> None:
    """Rounding luma in true arithmetic misses this value by 5.5e-6, a window that sums to 1 by 4.8e-7."""
    assert ssim(given["B"], given["A"]) == pytest.approx(official["ice_ssim_B_vs_A"], abs=1e-9)


def test_both_protocols_agree_where_the_released_code_has_no_fault(given: dict[str, Any]) -> None:
    assert l1_masked(given["B"], given["A"], given["mask"]) == l1_masked_paper(given["B"], given["A"], given["mask"])


def test_the_whole_picture_is_the_official_reference_box(given: dict[str, Any]) -> None:
    assert box_iou((30, 20, 90, 60), (0, 0, 127, 95)) == pytest.approx(2400 / (127 * 95))
