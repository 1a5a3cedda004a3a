"""Boxes and masks that networks see in an output, against references: with arrays as a network gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.metrics.spatial import (
    box_iou,
    detected_bbox_iou,
    detected_bbox_iou_paper,
    subject_mask_iou,
    subject_mask_iou_paper,
    surest_box,
)
from refbench.networks import Feature
from refbench.pictures import Pixels
from support.multiref import BOX, SIZE, original, reference_map

COVERED = (BOX[0], BOX[1], BOX[2] + 1, BOX[3] + 1)


class Detector:
    """Stands where a network stands, and says what it is told to say: the arithmetic behind it is under test."""

    def __init__(self, boxes: Sequence[Sequence[float]], scores: Sequence[float] = ()) -> None:
        self.found = {
            "boxes": np.array(boxes, np.float32).reshape(-1, 4),
            "scores": np.array(scores or [0.9] * len(boxes), np.float32),
        }

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self.found for _ in pictures]


def blank(scale: int = 1) -> Pixels:
    return np.zeros((scale * SIZE[0], scale * SIZE[1], 3), np.uint8)


def test_the_surest_detection_counts_and_neither_the_first_nor_the_best_match() -> None:
    detector = Detector([(0, 0, 5, 5), (1, 1, 60, 40), COVERED], [0.4, 0.9, 0.5])
    assert surest_box(blank(), detector) == (1, 1, 60, 40)
    value = detected_bbox_iou(blank(), reference_map("bbox", original()), detector, COVERED)
    assert value == pytest.approx(box_iou((1, 1, 60, 40), COVERED))


def test_no_detection_is_a_failure_and_not_a_zero() -> None:
    for function in (detected_bbox_iou, detected_bbox_iou_paper):
        value = function(blank(), reference_map("bbox", original()), Detector([]))
        assert isinstance(value, Failure)
        assert value.kind == "no_detection"


def test_a_box_in_an_output_of_another_size_is_compared_at_that_size() -> None:
    twice = [2 * value for value in COVERED]
    drawing = reference_map("bbox", original())
    assert detected_bbox_iou(blank(2), drawing, Detector([twice]), COVERED) == pytest.approx(1)
    # The release compares pixels of two sizes, with a reference that is the whole frame.
    frame = (0.0, 0.0, SIZE[1] - 1.0, SIZE[0] - 1.0)
    value = detected_bbox_iou_paper(blank(2), drawing, Detector([twice]), COVERED)
    assert value == pytest.approx(box_iou((twice[0], twice[1], twice[2], twice[3]), frame))


def test_without_numbers_the_box_is_read_from_the_drawing() -> None:
    value = detected_bbox_iou(blank(), reference_map("bbox", original()), Detector([COVERED]))
    assert isinstance(value, float)
    assert 0.8 < value < 1, "the line is two pixels wide"


def test_an_empty_drawing_has_no_box_to_compare_with() -> None:
    value = detected_bbox_iou(blank(), blank(), Detector([COVERED]))
    assert isinstance(value, Failure)
    assert value.kind == "undefined"


def test_a_mask_is_compared_at_the_size_of_the_output() -> None:
    mask = reference_map("mask", original())[:, :, 0]
    large = {"mask": np.repeat(np.repeat(mask, 2, axis=0), 2, axis=1)}
    assert subject_mask_iou(large, mask) == subject_mask_iou_paper(large, mask) == 1
    half = {"mask": mask.copy()}
    half["mask"][:, : (BOX[0] + BOX[2] + 1) // 2] = 0
    assert subject_mask_iou(half, mask) == 0.5


def test_an_empty_reference_mask_is_undefined_and_zero_only_in_paper() -> None:
    found = {"mask": reference_map("mask", original())[:, :, 0]}
    nothing = np.zeros(SIZE, np.uint8)
    assert subject_mask_iou_paper(found, nothing) == 0
    value = subject_mask_iou(found, nothing)
    assert isinstance(value, Failure)
    assert value.kind == "undefined"


def test_masks_survive_jpeg() -> None:
    import cv2

    mask = reference_map("mask", original())[:, :, 0]
    stored = cv2.imdecode(cv2.imencode(".jpg", mask, [cv2.IMWRITE_JPEG_QUALITY, 60])[1], cv2.IMREAD_GRAYSCALE)
    assert len(np.unique(stored)) > 2
    assert subject_mask_iou({"mask": mask}, np.asarray(stored, np.uint8)) == 1
