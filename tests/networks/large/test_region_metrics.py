"""Boxes, masks and semantic maps of an output against the reference's, with arrays as the networks give them; and the
arithmetic on masks beside SAM 2. Needs no network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refbench.extractors.semantic_map import paint
from refbench.failure import Failure
from refbench.metrics.metric import find_metric
from refbench.metrics.spatial import (
    box_iou,
    first_box,
    grounded_bbox_iou,
    grounded_bbox_iou_paper,
    grounded_mask_iou,
    grounded_mask_iou_paper,
    segmented_iou,
    segmented_iou_paper,
    semantic_iou,
    semantic_iou_paper,
)
from refbench.networks.large.sam2 import (
    DEFAULT,
    LOW_IOU,
    STRICT,
    MaskSettings,
    grid_points,
    mask_box,
    surviving,
    without_specks,
)
from refbench.pictures import Pixels

CAPTION = "a red bird over the sea"


class Grounder:
    """Stands where a network stands; the arithmetic behind it is under test."""

    def __init__(self, *boxes: Any) -> None:
        self.found = {"boxes": np.array(boxes, np.float32).reshape(-1, 4), "scores": np.ones(len(boxes), np.float32)}
        self.captions: list[str] = []

    def __call__(self, pictures: Any) -> Any:
        return [self.found for _ in pictures]

    def ground(self, picture: Any, caption: str) -> Any:
        self.captions.append(caption)
        return self.found


class BoxSegmenter:
    def __call__(self, pictures: Any) -> Any:
        raise AssertionError("a mask in a box was asked for")

    def in_box(self, picture: Any, box: Any) -> Any:
        x1, y1, x2, y2 = (int(v) for v in box)
        made = np.zeros(picture.shape[:2], np.uint8)
        made[y1:y2, x1:x2] = 255
        return made


def drawing(box: tuple[int, int, int, int]) -> Any:
    made = np.zeros((60, 80, 3), np.uint8)
    made[box[1] : box[3], box[0] : box[2]] = 200
    return made


def test_the_first_box_counts_and_is_looked_for_by_the_cases_caption() -> None:
    grounder = Grounder((10, 10, 40, 40), (0, 0, 80, 60))
    output, box = np.zeros((120, 160, 3), np.uint8), (5, 5, 20, 20)
    value = grounded_bbox_iou(output, drawing(box), grounder, CAPTION, (5.0, 5.0, 20.0, 20.0))
    assert value == pytest.approx(1)
    assert grounder.captions == [CAPTION]
    paper = grounded_bbox_iou_paper(output, drawing(box), grounder, CAPTION, (5.0, 5.0, 20.0, 20.0))
    assert paper == pytest.approx(box_iou((10, 10, 40, 40), (0, 0, 79, 59)))
    assert first_box(output, grounder, None) == (10, 10, 40, 40)
    assert grounder.captions == [CAPTION] * 2


def test_nothing_found_is_no_detection_and_not_zero() -> None:
    reference = drawing((5, 5, 20, 20))
    output = np.zeros((60, 80, 3), np.uint8)
    values = [
        grounded_bbox_iou(output, reference, Grounder(), CAPTION),
        grounded_bbox_iou_paper(output, reference, Grounder(), CAPTION),
        grounded_mask_iou(output, reference[:, :, 0], BoxSegmenter(), Grounder(), CAPTION),
        grounded_mask_iou_paper(output, reference[:, :, 0], BoxSegmenter(), Grounder(), CAPTION),
    ]
    assert [value.kind for value in values if isinstance(value, Failure)] == ["no_detection"] * 4


def test_the_mask_is_that_in_the_first_box() -> None:
    reference = drawing((5, 5, 20, 20))[:, :, 0]
    output = np.zeros((60, 80, 3), np.uint8)
    for function in (grounded_mask_iou, grounded_mask_iou_paper):
        assert function(output, reference, BoxSegmenter(), Grounder((5, 5, 20, 20)), CAPTION) == pytest.approx(1)
        assert function(output, reference, BoxSegmenter(), Grounder((5, 5, 20, 35)), CAPTION) == pytest.approx(0.5)
    assert isinstance(
        grounded_mask_iou(output, np.zeros_like(reference), BoxSegmenter(), Grounder((5, 5, 20, 35))), Failure
    )
    assert grounded_mask_iou_paper(output, np.zeros_like(reference), BoxSegmenter(), Grounder((5, 5, 20, 35))) == 0


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_metrics_name_all_their_networks(protocol: str) -> None:
    assert find_metric("bbox_iou@florence2_large", protocol).networks == ("florence2_large",)
    assert find_metric("mask_iou@sam2_1_large+florence2_large", protocol).networks == (
        "sam2_1_large",
        "florence2_large",
    )


def test_the_three_settings_are_those_of_the_paper() -> None:
    assert (STRICT.side, STRICT.batch, STRICT.least_iou, STRICT.least_stability) == (24, 32, 0.93, 0.96)
    assert (STRICT.offset, STRICT.overlap, STRICT.least_area, STRICT.refined) == (0.85, 0.85, 300, True)
    assert replace(STRICT, least_iou=0.8, least_stability=0.8, offset=0.8) == LOW_IOU
    assert MaskSettings(32, 64, 0.8, 0.95, 1.0, 0.7, 0, False) == DEFAULT


def test_holes_are_filled_and_islands_removed_up_to_a_size() -> None:
    logits = np.full((20, 20), -3, np.float32)
    logits[2:12, 2:12] = 4
    logits[5:7, 5:7] = -1  # a hole of four
    logits[15, 15] = 2  # an island of one
    cleaned = without_specks(logits, 4)
    assert (cleaned[2:12, 2:12] > 0).all()
    assert cleaned[15, 15] == -10
    assert cleaned[5, 5] == 10
    np.testing.assert_array_equal(without_specks(logits, 0), logits)
    np.testing.assert_array_equal(without_specks(logits, 3)[5:7, 5:7], -1)


def test_of_overlapping_boxes_the_surest_stays() -> None:
    boxes = np.array([(0, 0, 10, 10), (0, 0, 10, 9), (20, 20, 30, 30), (5, 5, 5, 9), (5, 5, 5, 9)])
    assert surviving(boxes, np.array([0.5, 0.9, 0.7, 0.1, 0.1]), 0.7) == [1, 2, 3, 4]
    assert surviving(boxes, np.array([0.5, 0.9, 0.7, 0.1, 0.1]), 0.95) == [1, 2, 0, 3, 4]
    assert surviving(np.zeros((0, 4)), np.zeros(0), 0.7) == []


def test_points_lie_in_the_middles_of_a_grid() -> None:
    np.testing.assert_allclose(grid_points(2), [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)])
    assert mask_box(np.eye(4, dtype=bool)) == (0, 0, 3, 3)
    assert mask_box(np.zeros((4, 4), dtype=bool)) == (0, 0, 0, 0)


def quarters() -> Any:
    numbers = np.zeros((80, 80), np.uint16)
    numbers[:40, :40], numbers[:40, 40:], numbers[40:, :40] = 1, 2, 3
    return numbers


class Segmenter:
    """Stands where SAM 2 stands, and says what it is told to say; remembers the settings."""

    def __init__(self, numbers: Any) -> None:
        self.numbers, self.settings = numbers, []

    def __call__(self, pictures: Any) -> Any:
        return [self.regions(picture, STRICT) for picture in pictures]

    def regions(self, picture: Pixels, settings: MaskSettings) -> Any:
        self.settings.append(settings)
        return {"map": self.numbers}


def test_semantic_iou_equals_that_of_the_painted_maps() -> None:
    numbers = quarters()
    shifted = np.roll(numbers, 6, axis=1)
    wanted = paint(numbers, seed=1)
    output = np.zeros((80, 80, 3), np.uint8)
    grey = np.asarray(wanted.astype(float) @ [0.299, 0.587, 0.114], dtype=np.uint8)
    for seen in (numbers, shifted):
        assert segmented_iou({"map": seen}, wanted) == pytest.approx(semantic_iou(paint(seen, seed=7), wanted))
        value = segmented_iou_paper(output, grey, Segmenter(seen))
        assert value == pytest.approx(semantic_iou_paper(paint(seen, seed=7), grey))
    assert segmented_iou({"map": numbers}, wanted) == 1


def test_missing_regions_cost_and_nothing_found_is_zero_in_corrected_but_an_error_in_paper() -> None:
    wanted = paint(quarters())
    one = np.where(quarters() == 1, 1, 0).astype(np.uint16)
    assert segmented_iou({"map": one}, wanted) == pytest.approx(1 / 3)
    nothing = np.zeros((80, 80), np.uint16)
    assert segmented_iou({"map": nothing}, wanted) == 0
    value = segmented_iou_paper(np.zeros((80, 80, 3), np.uint8), wanted[:, :, 0], Segmenter(nothing))
    assert isinstance(value, Failure)
    assert value.kind == "no_detection"
    assert isinstance(segmented_iou({"map": one}, np.zeros_like(wanted)), Failure)


def test_paper_takes_the_default_setting_up_to_2000_pixels() -> None:
    segmenter = Segmenter(np.zeros((10, 10), np.uint16))
    for side in (2000, 2001):
        segmented_iou_paper(np.zeros((10, side, 3), np.uint8), np.zeros((10, 10), np.uint8), segmenter)
    assert segmenter.settings == [DEFAULT, STRICT]


def test_both_protocols_have_the_metric() -> None:
    assert find_metric("semantic_iou@sam2_1_large", "paper").protocol == "paper"
    assert find_metric("semantic_iou@sam2_1_large").protocol == "corrected"


def test_a_map_is_painted_in_as_many_colours_as_it_has_regions() -> None:
    numbers = np.arange(400, dtype=np.uint16).reshape(20, 20)
    colours = np.unique(paint(numbers, 3).reshape(-1, 3), axis=0)
    assert len(colours) == 400
    assert colours[1:].min() >= 102
    np.testing.assert_array_equal(paint(numbers, 3), paint(numbers, 3))
