"""The faults of the released evaluation, by their numbers in docs/multiref.md: `paper` has them, `corrected` does not."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from refbench.benchmarks.kit.definition import Dataset
from refbench.benchmarks.multiref.anomalies import anomalies
from refbench.benchmarks.multiref.benchmark import BENCHMARK
from refbench.benchmarks.multiref.cases import load
from refbench.benchmarks.multiref.measures import measuring
from refbench.failure import Failure
from refbench.metrics.pose import pose_pixel, pose_pixel_paper
from refbench.metrics.spatial import bbox_iou, bbox_iou_paper, semantic_iou, semantic_iou_paper
from refbench.score import Score
from support.multiref import BOX, SIZE, Blend, original, reference_map, write_synthetic

DOCS = Path(__file__).resolve().parents[3] / "docs/multiref.md"


def jpeg(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(cv2.imdecode(cv2.imencode(".jpg", pixels)[1], cv2.IMREAD_COLOR), np.uint8)


def grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.uint8)


def test_fault_1_the_reference_box_is_the_box_and_not_the_frame() -> None:
    drawing = reference_map("bbox", original())
    right, frame = tuple(map(float, BOX)), (0.0, 0.0, SIZE[1] - 1.0, SIZE[0] - 1.0)
    assert bbox_iou_paper(drawing, drawing, output_box=frame) == 1, "a box around everything is perfect"
    assert bbox_iou(drawing, drawing, BOX, output_box=right) == 1
    whole = bbox_iou(drawing, drawing, BOX, output_box=frame)
    assert isinstance(whole, float)
    assert whole < 0.3
    twice = (2 * BOX[0], 2 * BOX[1], 2 * BOX[2], 2 * BOX[3])
    larger = np.zeros((2 * SIZE[0], 2 * SIZE[1], 3), np.uint8)
    assert bbox_iou(larger, drawing, BOX, output_box=twice) == 1, "sizes may differ"


def test_fault_2_one_picture_has_no_fid_in_corrected() -> None:
    assert "fid" in {m.name for m in BENCHMARK.scoring.protocols["paper"].aggregate.measures}
    assert "fid" not in {m.name for m in BENCHMARK.scoring.protocols["corrected"].aggregate.measures}


def test_fault_4_a_skeleton_equals_its_own_jpeg_copy() -> None:
    # Between pixels of the block grid, where the ringing of thin lines is worst.
    drawing = np.zeros((256, 256, 3), np.uint8)
    cv2.line(drawing, (40, 30), (203, 219), (180, 200, 220), 1)
    cv2.line(drawing, (40, 200), (200, 55), (180, 200, 220), 1)
    stored = jpeg(drawing)
    assert pose_pixel_paper(drawing, stored) < 0.5
    assert pose_pixel(drawing, stored) == pytest.approx(1, abs=0.05)


def test_fault_5_colours_of_one_luma_are_two_regions_and_surplus_regions_cost() -> None:
    left_right = np.zeros((100, 200, 3), np.uint8)
    left_right[:, :100], left_right[:, 100:] = (200, 110, 110), (110, 156, 110)
    assert len(np.unique(grey(left_right))) == 1, "as grey they are one"
    one = np.full((100, 200, 3), (200, 110, 110), np.uint8)
    assert semantic_iou_paper(one, grey(left_right)) == 1
    assert semantic_iou(one, left_right) == pytest.approx(0.25), "half of one of two regions"
    assert semantic_iou(left_right, left_right) == 1


def test_fault_6_boxes_and_masks_are_grounded_by_the_caption_of_the_case(tmp_path: Path) -> None:
    case = load(write_synthetic(tmp_path, [Blend("a", ("bbox", "caption"))])).cases[0]
    told = [m.facts["caption"] for m in measuring(case) if m.part == "bbox"]
    assert told == ["a bright box number 0 in the dark"]
    assert measuring(case) == measuring(case), "nothing is drawn or generated on the way"


def test_fault_7_what_the_model_never_saw_is_not_what_it_is_scored_against(dataset: Dataset) -> None:
    drawn = 0
    for case in dataset.cases:
        seen = set(case.request.pictures)
        for measured in measuring(case):
            if measured.protocol != "paper":
                assert set(measured.pictures.values()) <= seen
            elif "reference" in measured.pictures and measured.pictures["reference"] not in seen:
                drawn += 1
    assert drawn == 12, "style and subject, by the paper's network and by the laptop's"


def test_fault_7_a_missing_file_is_told_and_its_type_stays_expected(tmp_path: Path) -> None:
    root = write_synthetic(tmp_path, [Blend("a", ("canny", "caption"))])
    (root / "images/canny/a_0.png").unlink()
    dataset = load(root)
    assert [a.kind for a in anomalies(dataset) if "canny" in a.detail] == ["missing_picture"]
    assert "canny" in {m.part for m in measuring(dataset.cases[0])}
    assert "canny" not in BENCHMARK.asking.not_applicable(dataset.cases[0])


def test_fault_8_a_failed_metric_is_a_failure_and_never_nan() -> None:
    with pytest.raises(ValidationError):
        Score(case="a", model="m", metric="canny", protocol="paper", value=math.nan)


def test_fault_17_no_caption_is_no_reference_and_not_the_word_none(tmp_path: Path) -> None:
    changes = {"conditions.caption": "  ", "instructions.original_prompts": "Paint <bbox_image>."}
    dataset = load(write_synthetic(tmp_path, [Blend("a", ("bbox", "caption"), changes=changes)]))
    case = dataset.cases[0]
    assert case.details.of_type("caption")[0].caption is None
    assert BENCHMARK.asking.not_applicable(case)["caption"] == "the data names no caption for this case"
    assert all("caption" not in m.facts for m in measuring(case))
    assert "missing_reference" in {a.kind for a in anomalies(dataset)}


def test_fault_19_nothing_depends_on_luck(tmp_path: Path) -> None:
    items = [Blend("a", ("style", "caption")), Blend("b", ("subject", "caption"))]
    first, second = (load(write_synthetic(tmp_path / name, items)) for name in ("one", "two"))
    assert [case.key for case in first.cases] == [case.key for case in second.cases]


def test_every_fault_of_the_evaluation_has_its_line() -> None:
    text = DOCS.read_text()
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 17, 19):
        assert f"\n| {number} | " in text, number


def test_an_undefined_box_is_a_failure() -> None:
    black = np.zeros((*SIZE, 3), np.uint8)
    value = bbox_iou(black, black, output_box=(0, 0, 5, 5))
    assert isinstance(value, Failure)
    assert value.kind == "undefined"
