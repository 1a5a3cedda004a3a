"""Boxes, masks and semantic maps: the faults of the released code, and that `corrected` is free of them."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from refbench.extractors.bbox import draw_box
from refbench.failure import Failure
from refbench.metrics.overlap import box_iou
from refbench.metrics.regions import Labels, best_pairs, colour_regions, exact_colours, match_regions
from refbench.metrics.spatial import (
    bbox_iou,
    bbox_iou_paper,
    drawn_box,
    mask_iou,
    mask_iou_paper,
    outlined_box,
    scaled_box,
    semantic_iou,
    semantic_iou_paper,
    thresholded_box,
)
from support.campaigns import slow


def jpeg(rgb: Any, quality: int = 95) -> Any:
    data = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return np.ascontiguousarray(cv2.imdecode(data, cv2.IMREAD_COLOR)[..., ::-1])


def semantic_map(seed: int, regions: int = 27, height: int = 768, width: int = 1024) -> Any:
    """Overlapping ellipses in random colours on black, painted from large to small, as the released extractor does."""
    rng = np.random.default_rng(seed)
    drawing = np.zeros((height, width, 3), np.uint8)
    for number in range(regions):
        colour = [int(v) for v in rng.uniform(0.4, 1.0, 3) * 255]
        centre = int(rng.integers(0, width)), int(rng.integers(0, height))
        radius = int(200 * (1 - number / regions)) + 24
        cv2.ellipse(drawing, centre, (radius, radius // 2), float(rng.uniform(0, 180)), 0, 360, colour, -1)
    return drawing


def grey(rgb: Any) -> Any:
    return cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)


def test_iou_of_boxes_has_a_closed_form() -> None:
    assert box_iou((0, 0, 10, 10), (5, 0, 15, 10)) == pytest.approx(50 / 150)
    assert box_iou((0, 0, 10, 10), (0, 0, 10, 10)) == 1.0
    assert box_iou((0, 0, 10, 10), (20, 20, 30, 30)) == 0.0
    assert box_iou((3, 3, 3, 3), (3, 3, 3, 3)) == 0.0


def test_the_official_reference_box_is_the_whole_picture_and_ours_is_the_drawn_one() -> None:
    """Fault 1 of MultiRef-Bench."""
    reference = draw_box((40, 30, 120, 90), (160, 200))
    assert thresholded_box(reference) == (0, 0, 199, 159)
    assert drawn_box(reference) == (39, 29, 121, 91)
    assert bbox_iou(reference, reference) == 1.0
    assert bbox_iou_paper(reference, reference) == pytest.approx(82 * 62 / (199 * 159))


def test_a_reference_box_is_scaled_to_the_output() -> None:
    """Fault 1, second half: the release compares pixels of two sizes."""
    output = np.zeros((400, 400, 3), np.uint8)
    reference = np.zeros((200, 100, 3), np.uint8)
    assert bbox_iou(output, reference, box=(10, 20, 50, 100), output_box=(40, 40, 200, 200)) == 1.0
    assert scaled_box((10, 20, 50, 100), (200, 100), (400, 400)) == (40, 40, 200, 200)
    half = cv2.resize(draw_box((40, 40, 200, 200), (400, 400)), (200, 200), interpolation=cv2.INTER_AREA)
    assert bbox_iou(draw_box((40, 40, 200, 200), (400, 400)), np.asarray(half, np.uint8)) > 0.97  # type: ignore[operator]


def test_a_box_through_jpeg_is_the_same_box() -> None:
    reference = draw_box((40, 30, 120, 90), (160, 200))
    assert bbox_iou(reference, jpeg(reference)) > 0.95  # type: ignore[operator]


@pytest.mark.parametrize("thickness", [1, 2, 3, 5, 8])
def test_a_drawn_box_is_where_it_was_drawn_whatever_the_width_of_its_lines(thickness: int) -> None:
    drawn = np.zeros((160, 200, 3), np.uint8)
    cv2.rectangle(drawn, (40, 30), (120, 90), (200, 90, 130), thickness)
    found = outlined_box(drawn)
    assert found is not None
    assert np.abs(np.subtract(found, (40, 30, 120, 90))).max() <= 0.5
    assert box_iou(found, (40, 30, 120, 90)) > 0.97


def test_a_filled_box_is_taken_as_it_is() -> None:
    drawn = np.zeros((160, 200, 3), np.uint8)
    drawn[30:90, 40:120] = 255
    assert outlined_box(drawn) == (40, 30, 120, 90)
    dot = np.zeros((9, 9, 3), np.uint8)
    dot[4, 4] = 255
    assert outlined_box(dot) == (4, 4, 5, 5)


def test_no_box_in_the_output_is_no_detection_and_none_in_the_reference_is_undefined() -> None:
    black, box = np.zeros((50, 50, 3), np.uint8), draw_box((10, 10, 30, 30), (50, 50))
    for measure in (bbox_iou, bbox_iou_paper):
        failure = measure(black, box)
        assert isinstance(failure, Failure) and failure.kind == "no_detection"
    failure = bbox_iou(box, black)
    assert isinstance(failure, Failure) and failure.kind == "undefined"


def test_masks_of_two_sizes_and_through_jpeg_agree() -> None:
    mask = np.zeros((64, 96), np.uint8)
    mask[16:48, 32:64] = 255
    large = np.kron(mask, np.ones((2, 2), np.uint8))
    stored = cv2.imdecode(cv2.imencode(".jpg", large)[1], cv2.IMREAD_GRAYSCALE)
    for measure in (mask_iou, mask_iou_paper):
        assert measure(mask, large) == measure(mask, np.asarray(stored, np.uint8)) == 1.0
        assert measure(mask // 255, mask) == 1.0
        assert measure(mask, np.full_like(mask, 255)) == pytest.approx(1 / 6)


def test_two_empty_masks_are_undefined_and_officially_zero() -> None:
    empty = np.zeros((8, 8), np.uint8)
    assert mask_iou_paper(empty, empty) == 0.0
    failure = mask_iou(empty, empty)
    assert isinstance(failure, Failure) and failure.kind == "undefined"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_the_matching_is_scipys(rows: int, columns: int, seed: int) -> None:
    gain = np.random.default_rng(seed).random((rows, columns)).round(2)
    pairs = best_pairs(gain)
    assert len(pairs) == min(rows, columns) == len({r for r, _ in pairs}) == len({c for _, c in pairs})
    assert sum(gain[pair] for pair in pairs) == pytest.approx(gain[linear_sum_assignment(gain, maximize=True)].sum())


def test_regions_are_matched_once_each() -> None:
    first = Labels(np.array([[1, 1, 2, 2]], np.int32), 2)
    second = Labels(np.array([[3, 3, 3, 1]], np.int32), 3)
    assert match_regions(first, second) == [(1, 3, pytest.approx(2 / 3)), (2, 1, pytest.approx(1 / 2))]


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
def test_a_map_through_jpeg_keeps_its_regions(seed: int) -> None:
    """Fault 5 of MultiRef-Bench: read as grey, colours merge and JPEG splits the rest into a hundred levels."""
    drawn = semantic_map(seed)
    assert semantic_iou(drawn, drawn) == 1.0
    assert exact_colours(grey(jpeg(drawn)), 1).count > 90
    # Slivers of a region and colours that happen to be near are lost: 0.96 and 0.88 on average.
    for quality, least in ((95, 0.92), (75, 0.79)):
        assert semantic_iou(jpeg(drawn, quality), drawn) > least  # type: ignore[operator]
    assert semantic_iou(drawn, semantic_map(seed + 50)) < 0.3  # type: ignore[operator]


def test_colours_of_equal_luma_are_two_regions() -> None:
    drawn = np.zeros((100, 100, 3), np.uint8)
    drawn[:50], drawn[50:] = (200, 120, 120), (123, 159, 120)
    assert grey(drawn[:50]).mean() == grey(drawn[50:]).mean()
    assert colour_regions(drawn).count == 2
    assert exact_colours(grey(drawn), 300).count == 1


def test_missing_and_surplus_regions_cost() -> None:
    """Officially unmatched regions are free: one region of the right shape is enough."""
    wanted = np.zeros((100, 100, 3), np.uint8)
    for number in range(4):
        wanted[:, 25 * number : 25 * number + 25] = 120 + 30 * number
    one = np.zeros_like(wanted)
    one[:, :25] = 200
    assert semantic_iou(one, wanted) == semantic_iou(wanted, one) == pytest.approx(1 / 4)
    assert semantic_iou_paper(one, grey(wanted)) > 0.6


def test_background_is_no_region() -> None:
    black, drawn = np.zeros((80, 80, 3), np.uint8), semantic_map(1, 3, 80, 80)
    assert semantic_iou(black, drawn) == 0.0
    failure = semantic_iou(drawn, black)
    assert isinstance(failure, Failure) and failure.kind == "undefined"


def test_a_photograph_taken_for_a_map_gives_a_number_all_the_same() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    assert 0.0 <= semantic_iou(noise, semantic_map(1, 5, 120, 160)) <= 1.0  # type: ignore[operator]
