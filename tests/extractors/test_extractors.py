"""Extractors: the formats of the spec, drawings that can be read back, and networks where they are installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from refbench.extractors import EXTRACTORS, Extracted
from refbench.extractors.bbox import COLOUR, bbox, draw_box
from refbench.extractors.canny import canny
from refbench.extractors.mask import mask
from refbench.extractors.pose import LIMBS, draw_coco, draw_openpose, find_people, line_widths, pose
from refbench.extractors.sketch import sketch_dodge
from refbench.failure import Failure
from refbench.networks import why_not

STANDING = [(0, -9), (0.5, -9.4), (-0.5, -9.4), (1, -9), (-1, -9), (2, -7), (-2, -7), (3, -4), (-3, -4), (3.2, -1), (-3.2, -1), (1.3, -1), (-1.3, -1), (1.5, 3), (-1.5, 3), (1.6, 7), (-1.6, 7)]  # fmt: skip


def person(x: float, y: float, unit: float) -> Any:
    return np.concatenate([np.array(STANDING) * unit + (x, y), np.full((17, 1), 2.0)], axis=1)


def photograph() -> Any:
    """A real photograph of one person, from scikit-image, which the weights' users may have."""
    if importlib.util.find_spec("skimage") is None:
        pytest.skip("scikit-image, whose sample photograph this needs, is not installed")
    from skimage import data  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return np.ascontiguousarray(data.astronaut())


def need(network: str) -> None:
    reason = why_not(network)
    if reason:
        pytest.skip(reason)


def test_canny_is_opencvs_on_grey_in_one_channel() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    pixels = np.asarray(cv2.GaussianBlur(pixels, (0, 0), 2), np.uint8)
    bgr = np.ascontiguousarray(pixels[..., ::-1])
    assert np.array_equal(canny(pixels), cv2.Canny(cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY), 100, 200))
    assert canny(pixels).shape == (40, 60) and set(np.unique(canny(pixels))) <= {0, 255}


@pytest.mark.parametrize(
    "height, width, shape", [(600, 800, (256, 341)), (800, 600, (341, 256)), (100, 100, (256, 256))]
)
def test_a_sketch_has_a_shorter_side_of_256_and_dark_lines_on_white(
    height: int, width: int, shape: tuple[int, int]
) -> None:
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, width // 2 :] = 190
    drawn = sketch_dodge(pixels)
    assert drawn.shape == shape
    assert drawn[:, :40].min() > 250 and drawn[:, -40:].min() > 250, "flat areas are white, however dark they were"
    assert drawn.min() < 170, "the edge is a line"
    assert sketch_dodge(pixels, side=None).shape == (height, width)


def test_a_black_picture_is_a_blank_sheet() -> None:
    assert sketch_dodge(np.zeros((50, 50, 3), np.uint8)).min() == 255


def test_a_box_is_drawn_in_the_specs_colour_and_width() -> None:
    drawn = draw_box((30, 20, 90, 60), (96, 128))
    colours = np.unique(drawn.reshape(-1, 3), axis=0).tolist()
    assert colours == [[0, 0, 0], [0xA3, 0x51, 0xFB]] == [[0, 0, 0], list(COLOUR)]
    columns = np.flatnonzero(drawn.any(axis=(0, 2)))
    assert (columns[0], columns[-1]) == (29, 91), "as the golden picture of this box has it"


@pytest.mark.parametrize(
    "longer, widths", [(500, (1, 2)), (1000, (1, 2)), (1001, (2, 3)), (2000, (2, 3)), (2001, (8, 18)), (4000, (16, 36))]
)
def test_line_widths_follow_the_longer_side(longer: int, widths: tuple[int, int]) -> None:
    assert line_widths((300, longer)) == line_widths((longer, 300, 3)) == widths


def test_skeletons_have_the_same_colours_under_a_seed_and_none_is_dark() -> None:
    people = np.stack([person(150, 200, 15), person(350, 200, 15)])
    first = draw_coco(people, (400, 500), seed=4)
    assert np.array_equal(first, draw_coco(people, (400, 500), seed=4))
    assert not np.array_equal(first, draw_coco(people, (400, 500), seed=5))
    colours = [c for c in np.unique(first.reshape(-1, 3), axis=0).tolist() if any(c)]
    assert len(colours) == 2 and min(min(c) for c in colours) >= 128


def test_a_skeleton_has_nineteen_limbs_between_the_joints_it_says() -> None:
    assert len(LIMBS) == len({frozenset(limb) for limb in LIMBS}) == 19
    body = person(200, 200, 15)
    drawn = draw_coco(body[None], (400, 400))
    for a, b in LIMBS:
        x, y = (body[a, :2] + body[b, :2]) / 2
        assert drawn[int(y) - 1 : int(y) + 2, int(x) - 1 : int(x) + 2].any()


def test_invisible_joints_are_not_drawn() -> None:
    body = person(200, 200, 15)
    body[11:, 2] = 0.2  # no legs
    drawn = draw_coco(body[None], (400, 400))
    assert drawn[:190].any() and not drawn[200:].any()
    assert not draw_openpose(body[None], (400, 400))[200:].any()


def test_an_openpose_drawing_has_a_neck_between_the_shoulders_and_red_noses() -> None:
    body = person(200, 250, 15)
    drawn = draw_openpose(body[None], (500, 400))
    neck = (body[5, :2] + body[6, :2]) / 2
    assert drawn[int(neck[1]), int(neck[0])].any()
    only_nose = body.copy()
    only_nose[1:, 2] = 0
    disc = draw_openpose(only_nose[None], (500, 400))
    assert disc[115, 200].tolist() == [255, 0, 0]
    assert np.flatnonzero(disc.any(axis=(0, 2))).tolist() == list(range(196, 205)), "a disc of radius 4"


def test_openpose_limbs_are_blended_over_what_is_there() -> None:
    body = person(200, 250, 15)
    body[:, 2] = 0
    body[[6, 8], 2] = 1  # right shoulder and elbow: one limb, the third of the list
    drawn = draw_openpose(body[None], (500, 400))
    middle = (body[6, :2] + body[8, :2]) / 2
    assert drawn[int(middle[1]), int(middle[0])].tolist() == [153, 102, 0], "0.6 of (255, 170, 0) over black"


def test_every_extractor_says_what_it_does_and_needs() -> None:
    assert list(EXTRACTORS) == [
        "canny",
        "sketch_dodge",
        "mask",
        "bbox",
        "pose",
        "depth",
        "sketch",
        "semantic_map",
        "semantic_map_low_iou",
        "caption",
    ]
    for extractor in EXTRACTORS.values():
        assert extractor.summary and (extractor.run is not None or extractor.gives == "text")
        for network in extractor.networks:
            why_not(network)  # raises for a network that is not in the registry


def test_a_map_of_one_channel_is_written_as_one_channel(tmp_path: Path) -> None:
    path = tmp_path / "edges.png"
    path.write_bytes(Extracted(np.eye(20, dtype=np.uint8) * 255).png())
    assert cv2.imread(str(path), cv2.IMREAD_UNCHANGED).shape == (20, 20)


def test_the_mask_of_a_portrait_covers_the_person() -> None:
    need("u2netp")
    found = mask(photograph())
    assert not isinstance(found, Failure)
    assert found.shape == (512, 512) and set(np.unique(found)) == {0, 255}
    assert found[250:300, 200:250].mean() > 250, "the suit"
    assert 0.2 < found.mean() / 255 < 0.9


def test_the_box_of_a_portrait_is_the_person() -> None:
    need("yolov4_tiny")
    found = bbox(photograph(), label="person")
    assert not isinstance(found, Failure)
    drawing, (x1, y1, x2, y2) = found
    assert drawing.shape == (512, 512, 3)
    assert x1 < 180 < 270 < x2 and y1 < 100 < 400 < y2
    failure = bbox(photograph(), label="giraffe")
    assert isinstance(failure, Failure) and failure.kind == "no_detection"


def test_the_pose_of_a_portrait_has_its_nose_where_it_is() -> None:
    need("blazepose")
    people = find_people(photograph())
    assert not isinstance(people, Failure) and len(people) == 1
    nose = people[0, 0]
    assert abs(nose[0] - 225) < 25 and abs(nose[1] - 120) < 30
    drawn = pose(photograph(), seed=1)
    assert not isinstance(drawn, Failure)
    assert drawn.shape == (512, 512, 3) and drawn.any()


def test_nobody_in_the_picture_is_no_detection() -> None:
    need("blazepose")
    failure = pose(np.full((256, 256, 3), 200, np.uint8))
    assert isinstance(failure, Failure) and failure.kind == "no_detection"
