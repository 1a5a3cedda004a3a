"""Poses of found people against photographs and drawings: with people as a network gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refbench.extractors.pose import draw_coco, draw_openpose
from refbench.failure import Failure
from refbench.metrics import find_metric
from refbench.metrics.pose import found_pose_l1_paper, found_pose_pixel_paper, pose_ap, pose_f1
from refbench.pictures import decode, encode, resize

SIZE = (480, 640)
# A standing person in shares of its box, COCO's order.
STANDING = np.array(
    [(0.5, 0.08), (0.54, 0.06), (0.46, 0.06), (0.58, 0.08), (0.42, 0.08), (0.7, 0.22), (0.3, 0.22), (0.85, 0.38), (0.15, 0.38),
     (0.9, 0.52), (0.1, 0.52), (0.62, 0.54), (0.38, 0.54), (0.64, 0.76), (0.36, 0.76), (0.65, 0.98), (0.35, 0.98)]
)  # fmt: skip


def person(x: float, y: float = 60, width: float = 120, height: float = 360) -> Any:
    return np.concatenate([STANDING * [width, height] + [x, y], np.full((17, 1), 0.9)], axis=1)


def people(*found: Any, size: tuple[int, int] = SIZE) -> dict[str, Any]:
    joints = np.array(found, np.float32).reshape(-1, 17, 3)
    low, high = joints[:, :, :2].min(axis=1), joints[:, :, :2].max(axis=1)
    return {
        "keypoints": joints,
        "scores": np.linspace(0.9, 0.5, len(joints), dtype=np.float32),
        "boxes": np.concatenate([low, high], axis=1),
        "size": np.array(size, np.int32),
    }


NOBODY = people()


def test_the_same_people_have_an_average_precision_of_one() -> None:
    both = people(person(40), person(400))
    assert pose_ap(both, both) == pytest.approx(1)


def test_one_of_two_people_is_half() -> None:
    # 51 of the 101 levels of recall are reached with one of two.
    assert pose_ap(people(person(40)), people(person(40), person(400))) == pytest.approx(51 / 101)


def test_a_pose_is_compared_at_the_references_size() -> None:
    halved = person(40) * [0.5, 0.5, 1]
    assert pose_ap(people(halved, size=(240, 320)), people(person(40))) == pytest.approx(1)


def test_another_place_is_another_pose() -> None:
    assert pose_ap(people(person(300)), people(person(40))) == 0


def test_nobody_in_the_output_is_zero_and_nobody_in_the_reference_is_no_measurement() -> None:
    assert pose_ap(NOBODY, people(person(40))) == 0
    value = pose_ap(people(person(40)), NOBODY)
    assert isinstance(value, Failure)
    assert value.kind == "no_detection"
    assert "reference" in value.detail


@pytest.mark.parametrize("draw", [draw_openpose, draw_coco])
def test_a_drawing_of_the_same_people_is_found_again_in_either_style(draw: Any) -> None:
    found = people(person(40), person(400))
    drawing = draw(found["keypoints"], SIZE)
    assert pose_f1(found, drawing) == pytest.approx(1)
    assert pose_f1(found, source=drawing) == pytest.approx(1)
    jpeg = decode(encode(drawing, "jpeg") if draw is draw_coco else encode(drawing))
    assert not isinstance(jpeg, Failure)
    assert pose_f1(found, jpeg) == pytest.approx(1, abs=0.03)
    assert pose_f1(found, resize(drawing, (1280, 960), "bilinear")) == pytest.approx(1, abs=0.05)


def test_a_small_step_aside_is_forgiven_and_a_large_one_is_not() -> None:
    drawing = draw_openpose(person(40)[None], SIZE)
    near, far = pose_f1(people(person(46)), drawing), pose_f1(people(person(340)), drawing)
    assert isinstance(near, float)
    assert near > 0.95
    assert far == 0


def test_nobody_in_the_output_scores_zero_where_l1_scores_near_one() -> None:
    drawing = draw_openpose(person(40)[None], SIZE)
    assert pose_f1(NOBODY, drawing) == 0
    assert found_pose_l1_paper(NOBODY, drawing) > 0.95


def test_an_empty_or_missing_drawing_is_undefined() -> None:
    for drawing in (np.zeros((*SIZE, 3), np.uint8), None):
        value = pose_f1(people(person(40)), drawing)
        assert isinstance(value, Failure)
        assert value.kind == "undefined"


def test_l1_of_the_same_drawing_is_one_and_of_another_size_fits() -> None:
    found = people(person(40))
    # Pillow's and OpenCV's greys differ by a level at most.
    assert found_pose_l1_paper(found, draw_openpose(found["keypoints"], SIZE)) == pytest.approx(1, abs=1e-3)
    twice = draw_openpose(found["keypoints"] * [2, 2, 1], (960, 1280))
    assert found_pose_l1_paper(found, twice) == pytest.approx(1, abs=1e-3)


def test_the_official_pixel_score_gives_a_found_pose_less_than_one_and_nobody_zero() -> None:
    found = people(person(40))
    drawing = draw_coco(found["keypoints"], SIZE)
    # The release's lines are wider than the reference's, which costs precision even for the very same pose.
    same = found_pose_pixel_paper(found, drawing)
    assert 0.2 < same < 0.9
    assert found_pose_pixel_paper(people(person(300)), drawing) < 0.05
    assert found_pose_pixel_paper(NOBODY, drawing) == 0


def test_the_metrics_name_their_network_and_protocol() -> None:
    assert find_metric("pose_ap").id == "pose_ap@blazepose"
    assert find_metric("pose_f1@blazepose", "paper").protocol == ""
    assert find_metric("pose_l1@blazepose", "paper").id == "pose_l1@blazepose"
    assert find_metric("pose_pixel@blazepose", "paper").networks == ("blazepose",)
