"""How maps become people, on maps that are drawn from known people, and the metrics on what the networks find.

Needs no network: the decoders and metrics are arithmetic.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from refbench.extractors.pose import draw_coco, draw_openpose, draw_skeletons
from refbench.failure import Failure
from refbench.metrics.metric import find_metric
from refbench.metrics.pose import found_pose_pixel_paper, openpose_l1_paper, pose_ap, sure_pose_f1
from refbench.networks.large import higherhrnet, openpose
from refbench.networks.large import openpose as openpose_people
from refbench.networks.large.higherhrnet import cheapest_pairs, group
from refbench.networks.large.openpose import feature, find_bodies, find_peaks

PERSON = np.array([
    (60, 20), (60, 40), (45, 40), (40, 60), (38, 80), (75, 40), (80, 60), (82, 80), (52, 85),
    (50, 110), (50, 135), (68, 85), (70, 110), (70, 135), (57, 16), (63, 16), (52, 18), (68, 18),
], np.float64)  # fmt: skip
"""OpenPose's 18 joints of somebody who faces us, in a picture of 150 x 200."""


def drawn_maps(people: list[NDArray[Any]], shape: tuple[int, int] = (150, 200)) -> tuple[Any, Any]:
    """Maps as the network would give them of these people: hills at joints, unit vectors along limbs."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    joints = np.zeros((*shape, 18), np.float32)
    limbs = np.zeros((*shape, 38), np.float32)
    for person in people:
        for number, (px, py) in enumerate(person):
            if px >= 0:
                hill = np.exp(-((x - px) ** 2 + (y - py) ** 2) / 2 / 5**2)
                joints[:, :, number] = np.maximum(joints[:, :, number], hill)
        for number, (a, b) in enumerate(openpose_people.LIMBS):
            if min(person[a][0], person[b][0]) < 0:
                continue
            line = np.zeros(shape, np.uint8)
            cv2.line(line, [int(v) for v in person[a]], [int(v) for v in person[b]], 1, 5)
            away = person[b] - person[a]
            channel = openpose_people._FIELDS[number]
            limbs[line > 0, channel : channel + 2] = away / np.linalg.norm(away)
    return joints, limbs


def test_people_are_put_together_from_their_joints_and_limbs() -> None:
    other = PERSON + np.array([90, 5])
    bodies = find_bodies(*drawn_maps([PERSON, other]))
    assert len(bodies) == 2
    for body, person in zip(sorted(bodies, key=lambda b: b.joints[0, 0]), [PERSON, other], strict=True):
        np.testing.assert_allclose(body.joints[:, :2], person, atol=1)
        assert (body.joints[:, 2] > 0.9).all()


def test_two_halves_are_joined_by_the_limb_between_them() -> None:
    """Neck to hip comes after the arms: until then the legs are nobody's."""
    bodies = find_bodies(*drawn_maps([PERSON]))
    assert len(bodies) == 1


def test_joints_that_are_not_there_stay_unseen() -> None:
    half = PERSON.copy()
    half[[9, 10, 12, 13]] = -1
    (body,) = find_bodies(*drawn_maps([half]))
    np.testing.assert_array_equal(body.joints[[9, 10, 12, 13]], 0)
    assert np.count_nonzero(body.joints[:, 2]) == 14


def test_fewer_than_four_parts_are_nobody() -> None:
    arm = np.full_like(PERSON, -1)
    arm[[2, 3, 4]] = PERSON[[2, 3, 4]]
    assert find_bodies(*drawn_maps([arm])) == []
    arm[1] = PERSON[1]
    assert len(find_bodies(*drawn_maps([arm]))) == 1


def test_nobody_is_empty_arrays() -> None:
    found = feature(find_bodies(np.zeros((40, 30, 18), np.float32), np.zeros((40, 30, 38), np.float32)), (40, 30))
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {"keypoints": (0, 17, 3), "keypoints18": (0, 18, 3), "scores": (0,), "boxes": (0, 4), "size": (2,)}


def test_a_limb_against_the_field_is_none() -> None:
    joints, limbs = drawn_maps([PERSON])
    assert find_bodies(joints, -limbs) == []


def test_peaks_are_those_of_the_official_filter() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    rng = np.random.default_rng(3)
    heat = ndimage.gaussian_filter(rng.random((60, 90)), 4).astype(np.float32)
    heat = (heat - heat.min()) / (heat.max() - heat.min())
    smooth = ndimage.gaussian_filter(heat.astype(np.float64), sigma=3)
    padded = np.pad(smooth, 1)
    wanted = np.ones(heat.shape, dtype=bool)
    for dy, dx in ((0, 1), (2, 1), (1, 0), (1, 2)):
        wanted &= smooth >= padded[dy : dy + 60, dx : dx + 90]
    wanted &= smooth > 0.1
    assert {(p.x, p.y) for p in find_peaks(heat)} == {(x, y) for y, x in zip(*np.nonzero(wanted), strict=True)}


def test_coco_joints_are_the_same_places_without_the_neck() -> None:
    (body,) = find_bodies(*drawn_maps([PERSON]))
    found = feature([body], (150, 200))
    nose, left_eye, right_eye, left_ear, right_ear, left_shoulder, right_shoulder = found["keypoints"][0, :7, :2]
    assert [left_eye[0] > nose[0], left_ear[0] > left_eye[0], left_shoulder[0] > right_shoulder[0]] == [True] * 3
    assert right_eye[0] > right_ear[0]
    assert set(openpose.TO_COCO) == set(range(18)) - {1}
    x1, y1, x2, y2 = found["boxes"][0]
    np.testing.assert_allclose([x1, y1, x2, y2], [*PERSON.min(axis=0), *PERSON.max(axis=0)], atol=1)


def by_area(maps: Any, size: tuple[int, int]) -> Any:
    return np.stack([cv2.resize(m, size, interpolation=cv2.INTER_AREA) for m in np.moveaxis(maps, 2, 0)], axis=2)


def test_the_maps_of_a_known_person_come_back_at_the_pictures_size() -> None:
    """From maps at an eighth of 184 rows to pixels of a larger picture, past the padding."""
    shape = (300, 410)
    person = PERSON * 2
    joints, limbs = drawn_maps([person], shape)
    small = (round(410 * 184 / 300), 184)
    padded = (-(-small[0] // 8), 23)
    whole = np.concatenate([limbs, joints, np.zeros((*shape, 1), np.float32)], axis=2)
    # What the network sees of it: the picture reduced, with a margin at the right.
    reduced = by_area(whole, small)
    wide = np.zeros((184, padded[0] * 8, 57), np.float32)
    wide[:, : small[0]] = reduced
    maps = by_area(wide, padded).transpose(2, 0, 1)
    found = openpose.people(np.ascontiguousarray(maps), np.zeros((*shape, 3), np.uint8))
    assert len(found["keypoints18"]) == 1
    seen = found["keypoints18"][0]
    np.testing.assert_allclose(seen[seen[:, 2] > 0, :2], person[seen[:, 2] > 0], atol=8)
    assert np.count_nonzero(seen[:, 2]) >= 14


def test_skeletons_look_like_those_drawn_from_coco_joints() -> None:
    joints = np.concatenate([PERSON, np.ones((18, 1))], axis=1)[None]
    joints[0, 1, :2] = (joints[0, 2, :2] + joints[0, 5, :2]) / 2  # where COCO's neck would be
    ours = draw_skeletons(joints, (150, 200))
    other = draw_openpose(joints[:, openpose.TO_COCO], (150, 200))
    assert ours.any()
    # They differ by the rounding of a limb's angle to whole degrees, and by nothing else.
    assert np.count_nonzero((ours != other).any(axis=2)) < 0.1 * np.count_nonzero(other.any(axis=2))
    assert not draw_skeletons(joints * [1, 1, 0], (150, 200)).any()


def test_pose_l1_of_the_drawing_itself_is_one_and_of_nobody_nearly() -> None:
    (body,) = find_bodies(*drawn_maps([PERSON]))
    found = feature([body], (150, 200))
    source = draw_skeletons(found["keypoints18"], (150, 200))
    output = np.zeros((75, 100, 3), np.uint8)
    assert openpose_l1_paper(output, source, lambda pictures: [found for _ in pictures]) == pytest.approx(1, abs=5e-3)
    nobody = feature([], (150, 200))
    value = openpose_l1_paper(output, source, lambda pictures: [nobody for _ in pictures])
    assert isinstance(value, float)
    assert 0.8 < value < 0.99
    assert find_metric("pose_l1@openpose_body", "paper").function is openpose_l1_paper


def test_pose_f1_counts_joints_of_low_heat() -> None:
    (body,) = find_bodies(*drawn_maps([PERSON]))
    found = dict(feature([body], (150, 200)))
    source = draw_skeletons(found["keypoints18"], (150, 200))
    found["keypoints"] = found["keypoints"] * np.array([1, 1, 0.3], np.float32)
    value = sure_pose_f1(found, source=source)
    assert isinstance(value, float)
    assert value > 0.95
    assert sure_pose_f1(feature([], (150, 200)), source=source) == 0
    assert isinstance(sure_pose_f1(found, source=np.zeros_like(source)), Failure)
    assert find_metric("pose_f1@openpose_body").function is sure_pose_f1


def test_pose_ap_of_a_picture_with_itself_is_one() -> None:
    rng = np.random.default_rng(1)
    people = np.concatenate([rng.random((2, 17, 2)) * 80, np.ones((2, 17, 1))], axis=2).astype(np.float32)
    seen = {
        "keypoints": people,
        "scores": np.array([0.9, 0.8]),
        "boxes": np.array([(0, 0, 80, 80)] * 2),
        "size": np.array([80, 80]),
    }
    assert find_metric("pose_ap").function is pose_ap
    assert pose_ap(seen, seen) == pytest.approx(1)


def maps_of(
    people: Any, tags: list[float], missing: dict[int, list[int]] | None = None, size: int = 512
) -> tuple[Any, Any]:
    """Heat and tags as the network would give them of these people (17 x 2 each)."""
    y, x = np.mgrid[:size, :size]
    heat = np.zeros((17, size, size), np.float32)
    marks = np.full((17, size, size, 2), 50, np.float32)
    for number, (person, tag) in enumerate(zip(people, tags, strict=True)):
        for joint, (px, py) in enumerate(person):
            away = (x - px) ** 2 + (y - py) ** 2
            height = 0.05 if joint in (missing or {}).get(number, []) else 0.9
            heat[joint] = np.maximum(heat[joint], height * np.exp(-away / 2 / 4**2))
            marks[joint][away < 15**2] = tag
    return heat, marks


@pytest.fixture(scope="module")
def couple() -> Any:
    rng = np.random.default_rng(5)
    return [rng.integers(40, 220, (17, 2)).astype(float), rng.integers(280, 470, (17, 2)).astype(float)]


def test_joints_are_grouped_by_their_tags(couple: Any) -> None:
    people, scores = group(*maps_of(couple, [1.0, 4.0]))
    assert people.shape == (2, 17, 3)
    assert (scores > 0.8).all()
    for person in couple:
        nearest = min(people, key=lambda p: np.abs(p[:, :2] - person).max())
        np.testing.assert_allclose(nearest[:, :2], person + 0.5, atol=0.3)


def test_a_missing_joint_is_filled_in_where_heat_and_tag_agree(couple: Any) -> None:
    heat, tags = maps_of(couple, [1.0, 4.0], {0: [9, 10]})
    people, scores = group(heat, tags)
    first = min(people, key=lambda p: np.abs(p[0, :2] - couple[0][0]).max())
    np.testing.assert_allclose(first[[9, 10], :2], couple[0][[9, 10]] + 0.5, atol=0.3)
    np.testing.assert_allclose(first[[9, 10], 2], 0.05, atol=1e-3)
    assert scores.min() < scores.max(), "joints that were filled in do not count"


def test_nobody_is_no_people() -> None:
    people, scores = group(np.zeros((17, 32, 32), np.float32), np.zeros((17, 32, 32, 2), np.float32))
    assert people.shape == (0, 17, 3)
    assert scores.shape == (0,)


def test_people_are_given_in_the_pictures_pixels(couple: Any) -> None:
    heat, tags = maps_of(couple, [1.0, 4.0])
    maps = np.concatenate([heat, tags[..., 0], tags[..., 1]])
    found = higherhrnet.people(maps, np.zeros((1024, 256, 3), np.uint8))
    assert found["size"].tolist() == [1024, 256]
    first = min(found["keypoints"], key=lambda p: p[:, 1].mean())
    np.testing.assert_allclose(first[:, :2], (couple[0] + 0.5) * [0.5, 2], atol=0.6)
    assert found["boxes"].shape == (2, 4)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, 7), (7, 4), (30, 30), (2, 30)])
def test_the_matching_is_the_cheapest(shape: tuple[int, int]) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    for seed in range(10):
        cost = np.random.default_rng(seed).normal(size=shape) * 100
        rows, columns = optimize.linear_sum_assignment(cost)
        pairs = cheapest_pairs(cost)
        assert len({r for r, _ in pairs}) == len({c for _, c in pairs}) == len(rows)
        assert sum(cost[r, c] for r, c in pairs) == pytest.approx(cost[rows, columns].sum())


def test_the_papers_pixel_score_and_the_corrected_f1_take_higherhrnets_people(couple: Any) -> None:
    heat, tags = maps_of(couple, [1.0, 4.0])
    found = dict(
        higherhrnet.people(np.concatenate([heat, tags[..., 0], tags[..., 1]]), np.zeros((512, 512, 3), np.uint8))
    )
    assert find_metric("pose_pixel@higherhrnet_w32", "paper").function is found_pose_pixel_paper
    assert find_metric("pose_f1@higherhrnet_w32").function is sure_pose_f1
    people = found["keypoints"].copy()
    people[:, :, 2] = 1
    drawing = draw_coco(people, (512, 512))
    value = sure_pose_f1(found, reference=drawing)
    assert isinstance(value, float)
    assert value > 0.99
    assert 0.3 < found_pose_pixel_paper(found, cv2.dilate(drawing, np.ones((2, 2), np.uint8)).astype(np.uint8)) <= 1
