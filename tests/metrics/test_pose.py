"""Poses: drawn skeletons, and keypoints against COCO's own evaluation."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from typing import Any

import cv2
import numpy as np
import pytest

from refbench.extractors.pose import draw_coco
from refbench.failure import Failure
from refbench.metrics.keypoints import SIGMAS, Poses, average_precision, oks, person_area, scaled_keypoints
from refbench.metrics.pose import pose_pixel, pose_pixel_paper, skeleton_f1

STANDING = [(0, -9), (0.5, -9.4), (-0.5, -9.4), (1, -9), (-1, -9), (2, -7), (-2, -7), (3, -4), (-3, -4), (3.2, -1), (-3.2, -1), (1.3, -1), (-1.3, -1), (1.5, 3), (-1.5, 3), (1.6, 7), (-1.6, 7)]  # fmt: skip


def person(x: float, y: float, unit: float) -> Any:
    return np.concatenate([np.array(STANDING) * unit + (x, y), np.full((17, 1), 2.0)], axis=1)


def jpeg(rgb: Any) -> Any:
    return np.ascontiguousarray(cv2.imdecode(cv2.imencode(".jpg", rgb[..., ::-1])[1], cv2.IMREAD_COLOR)[..., ::-1])


@pytest.mark.parametrize("side", [400, 900, 1500])
def test_a_skeleton_is_its_own_jpeg_copy(side: int) -> None:
    """Fault 4 of MultiRef-Bench: with a threshold of 0, JPEG ringing is foreground."""
    drawn = draw_coco(person(side / 2, side / 2, side / 22)[None], (side, side), seed=3)
    assert pose_pixel_paper(drawn, jpeg(drawn)) < 0.3
    assert pose_pixel(drawn, jpeg(drawn)) == pose_pixel(jpeg(drawn), drawn) == 1.0


def test_line_width_and_colour_do_not_matter_but_place_does() -> None:
    body = person(300, 300, 26)[None]
    thin, other = draw_coco(body, (600, 600), seed=1), draw_coco(body, (600, 600), seed=2)
    thick = cv2.dilate(other, np.ones((3, 3), np.uint8))
    assert pose_pixel(np.asarray(thick, np.uint8), thin) == 1.0
    assert pose_pixel(draw_coco(person(340, 300, 26)[None], (600, 600)), thin) < 0.3  # type: ignore[operator]


def test_skeletons_of_two_sizes_are_compared_at_the_outputs() -> None:
    body = person(300, 300, 26)[None]
    small = draw_coco(scaled_keypoints(body, (600, 600), (300, 300)), (300, 300))
    assert skeleton_f1(draw_coco(body, (600, 600)), small, tolerance=4.0) > 0.95  # type: ignore[operator]


def test_no_skeleton_in_the_output_is_zero_and_none_at_all_is_undefined() -> None:
    black, drawn = np.zeros((600, 600, 3), np.uint8), draw_coco(person(300, 300, 26)[None], (600, 600))
    assert pose_pixel(black, drawn) == pose_pixel_paper(black, drawn) == 0.0
    assert pose_pixel_paper(black, black) == 0.0
    failure = pose_pixel(black, black)
    assert isinstance(failure, Failure) and failure.kind == "undefined"


def test_oks_has_a_closed_form() -> None:
    body = person(100, 100, 8)
    assert oks(body, body, 900.0) == 1.0
    moved = body.copy()
    moved[:, 0] += 5
    assert oks(moved, body, 900.0) == pytest.approx(np.exp(-25 / (2 * 900 * (2 * SIGMAS) ** 2)).mean(), abs=1e-12)


def test_only_visible_joints_count() -> None:
    body = person(100, 100, 8)
    body[5:, 2] = 0
    moved = body.copy()
    moved[5:, :2] += 50
    assert oks(moved, body, 900.0) == 1.0
    body[:, 2] = 0
    assert isinstance(oks(moved, body, 900.0), Failure)


def test_a_persons_area_is_half_its_box() -> None:
    assert person_area((0, 0, 10, 20)) == pytest.approx(0.53 * 200)


def crowd(seed: int, pictures: int = 12) -> list[Poses]:
    """Random people and findings of them: some near, some far, some doubled, some missed."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(pictures):
        count = int(rng.integers(1, 5))
        wanted, areas = np.zeros((count, 17, 3)), np.zeros(count)
        for i in range(count):
            centre, size = rng.uniform(80, 400, 2), rng.uniform(40, 160)
            wanted[i, :, :2] = np.round(centre + rng.uniform(-size, size, (17, 2)), 2)
            wanted[i, :, 2] = rng.integers(0, 3, 17)
            wanted[i, 0, 2] = 2
            areas[i] = round(size * size * 1.5, 2)
        many = int(rng.integers(0, count + 2))
        people = np.zeros((many, 17, 3))
        for j in range(many):
            meant = wanted[int(rng.integers(0, count))]
            people[j, :, :2] = np.round(meant[:, :2] + rng.normal(0, rng.uniform(1, 12), (17, 2)), 2)
            people[j, :, 2] = 1
        found.append(Poses(people, np.round(rng.random(many), 3), wanted, areas))
    return found


# COCOeval of pycocotools 2.0.11 on crowd(seed), measured once.
COCO_AP = [0.21134475842542236, 0.31212837849415775, 0.24655541097165254, 0.2368794892791766, 0.28426710150006596, 0.14018659558263522, 0.1937530306546798, 0.276813949494497]  # fmt: skip


@pytest.mark.parametrize("seed", range(len(COCO_AP)))
def test_average_precision_is_cocos(seed: int) -> None:
    assert average_precision(crowd(seed)) == pytest.approx(COCO_AP[seed], abs=1e-12)


@pytest.mark.skipif(importlib.util.find_spec("pycocotools") is None, reason="pycocotools is not installed")
def test_average_precision_is_what_pycocotools_says_now() -> None:
    from pycocotools.coco import COCO  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from pycocotools.cocoeval import COCOeval  # type: ignore[import-not-found,import-untyped,unused-ignore]

    for seed in range(20, 26):
        scenes = crowd(seed)
        truth: dict[str, Any] = {
            "images": [{"id": i} for i in range(1, len(scenes) + 1)],
            "categories": [{"id": 1}],
            "annotations": [],
        }
        results = []
        for image, poses in enumerate(scenes, 1):
            for body, area in zip(poses.wanted, poses.areas, strict=True):
                truth["annotations"].append(
                    {
                        "id": len(truth["annotations"]) + 1,
                        "image_id": image,
                        "category_id": 1,
                        "keypoints": body.ravel().tolist(),
                        "num_keypoints": int((body[:, 2] > 0).sum()),
                        "area": float(area),
                        "bbox": [0, 0, 9, 9],
                        "iscrowd": 0,
                    }
                )
            for body, score in zip(poses.found, poses.scores, strict=True):
                results.append(
                    {"image_id": image, "category_id": 1, "keypoints": body.ravel().tolist(), "score": float(score)}
                )
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO()
            coco.dataset = truth
            coco.createIndex()
            evaluation = COCOeval(coco, coco.loadRes(results), "keypoints")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        assert average_precision(scenes) == pytest.approx(evaluation.stats[0], abs=1e-9)


def test_average_precision_of_one_picture_from_nothing_to_all() -> None:
    wanted = np.stack([person(100, 120, 8), person(300, 120, 8)])
    areas = np.array([4000.0, 4000.0])
    right = Poses(wanted, np.array([0.9, 0.8]), wanted, areas)
    half = Poses(wanted[:1], np.array([0.9]), wanted, areas)
    none = Poses(np.zeros((0, 17, 3)), np.zeros(0), wanted, areas)
    assert average_precision([right]) == pytest.approx(1.0)
    assert average_precision([half]) == pytest.approx(51 / 101)
    assert average_precision([none]) == 0.0


def test_average_precision_without_anyone_to_find_is_undefined() -> None:
    nobody = Poses(person(9, 9, 1)[None], np.array([0.5]), np.zeros((0, 17, 3)), np.zeros(0))
    failure = average_precision([nobody])
    assert isinstance(failure, Failure) and failure.kind == "undefined"


def test_one_persons_double_is_a_false_finding() -> None:
    wanted = person(100, 120, 8)[None]
    twice = Poses(np.concatenate([wanted, wanted]), np.array([0.9, 0.95]), wanted, np.array([4000.0]))
    assert average_precision([twice]) == pytest.approx(1.0)  # the second comes after full recall
    both = [twice, Poses(wanted, np.array([0.1]), wanted, np.array([4000.0]))]
    assert average_precision(both) == pytest.approx((51 + 50 * 2 / 3) / 101)
