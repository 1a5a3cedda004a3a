"""People and their joints: the geometry without weights, the network on real photographs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.networks import Feature, networks
from refbench.networks.small.blazepose import LEAST_JOINTS, Pose, Region, gated, refined, region_of
from refbench.networks.small.mediapipe import FACE, POSE, Hit, Square, anchors, around, cut, decode, iou, merge
from refbench.pictures import Pixels, resize
from refbench.pictures import decode as decode_picture

Load = Callable[[str], Any]
HEAD, ARMS, LEGS = slice(0, 5), slice(5, 11), slice(13, 17)


@pytest.fixture
def photo(creval_mini: Path) -> Callable[[str], Pixels]:
    def load(name: str) -> Pixels:
        pixels = decode_picture((creval_mini / "bench/image" / name).read_bytes())
        assert not isinstance(pixels, Failure)
        return pixels

    return load


def hit(x: float, y: float, score: float, side: float = 10) -> Hit:
    box = np.array([x, y, x + side, y + side], np.float32)
    return Hit(box, np.full((4, 2), [x, y], np.float32), score)


def test_the_detectors_have_as_many_anchors_as_rows_of_output() -> None:
    assert anchors(POSE).shape == (2254, 2)
    assert anchors(FACE).shape == (2304, 2)
    assert anchors(POSE)[0] == pytest.approx([0.5 / 28, 0.5 / 28])
    assert anchors(POSE)[-1] == pytest.approx([6.5 / 7, 6.5 / 7])


def test_a_row_of_zeros_lies_on_its_anchor_in_picture_pixels() -> None:
    logits = np.full(2254, -100, np.float32)
    logits[30] = 3.0
    (found,) = decode(np.zeros((2254, 12), np.float32), logits, anchors(POSE), POSE, Square(100, -20, 280))
    middle = anchors(POSE)[30] * 280 + [100, -20]
    assert found.points == pytest.approx(np.tile(middle, (4, 1)))
    assert found.box == pytest.approx(np.tile(middle, 2))
    assert found.score == pytest.approx(1 / (1 + np.exp(-3)))


def test_hits_of_one_thing_become_one_weighted_by_score() -> None:
    (one, other) = merge([hit(0, 0, 0.9), hit(2, 0, 0.6), hit(50, 50, 0.5)])
    assert one.box[0] == pytest.approx(0.8)
    assert one.score == 0.9
    assert other.score == 0.5


def test_iou_of_boxes() -> None:
    a, b = np.array([0, 0, 2, 2], np.float32), np.array([1, 1, 3, 3], np.float32)
    assert iou(a, a) == 1
    assert iou(a, b) == pytest.approx(1 / 7)
    assert iou(a, a + 5) == 0
    assert iou(a * 0, a * 0) == 0


def test_cutting_the_whole_picture_gives_it_back_and_a_turn_turns_it() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    assert (cut(pixels, Square(0, 0, 64), 0.0, 64) == pixels).all()
    assert np.abs(cut(pixels, Square(0, 0, 64), np.pi, 64).astype(int) - pixels[::-1, ::-1]).max() <= 1


def test_a_large_picture_is_averaged_before_it_is_sampled() -> None:
    stripes = np.zeros((1024, 1024, 3), np.uint8)
    stripes[:, ::2] = 255
    small = cut(stripes, Square(0, 0, 1024), 0.0, 128)[8:-8, 8:-8]
    assert small.min() >= 126
    assert small.max() <= 129


def test_beyond_the_picture_everything_is_black() -> None:
    wide = np.full((20, 80, 3), 200, np.uint8)
    square = cut(wide, around(wide), 0.0, 80)
    assert square[:28].max() == 0
    assert square[32:48, 2:-2].min() == 200


def test_a_person_who_stands_is_not_turned_and_one_who_lies_is() -> None:
    def lying(top: tuple[float, float]) -> Hit:
        return Hit(np.zeros(4, np.float32), np.array([(50, 50), top, (0, 0), (0, 0)], np.float32), 1.0)

    assert region_of(lying((50, 10))).angle == pytest.approx(0)
    assert region_of(lying((90, 50))).angle == pytest.approx(np.pi / 2)
    assert region_of(lying((50, 10))).square.side == pytest.approx(2 * 40 * 1.25)


def test_a_sure_heat_map_moves_a_landmark_and_an_unsure_one_does_not() -> None:
    heat = np.full((64, 64, 1), -50, np.float32)
    at = np.array([[20.5 / 64, 30.5 / 64]], np.float32)
    assert (refined(at, heat) == at).all()
    heat[31, 22, 0] = 5.0
    assert refined(at, heat)[0] == pytest.approx([22 / 64, 31 / 64], abs=1e-6)


def test_joints_off_the_picture_or_unsure_are_invisible() -> None:
    points = np.tile(np.array([[10.0, 10.0]], np.float32), (39, 1))
    points[27] = (10, 64)  # left ankle, one pixel below the frame
    sure = np.ones(39, np.float32)
    sure[25] = 0.4  # left knee
    body = Pose(points, sure, np.ones(39, np.float32), 1.0, Region(Square(0, 0, 64), 0.0))
    joints = gated(body, np.zeros((64, 48, 3), np.uint8))
    assert joints.shape == (17, 3)
    assert np.flatnonzero(joints[:, 2] == 0).tolist() == [13, 15]


def test_the_object_detectors_weights_are_the_same_in_both_entries() -> None:
    own = {w.file: w for w in networks()["blazepose"].weights}["yolov4-tiny.weights"]
    assert own in networks()["yolov4_tiny"].weights


def test_nobody_is_an_empty_array_and_no_failure(local_weights: Load) -> None:
    network = local_weights("blazepose")
    for pixels in (np.zeros((64, 64, 3), np.uint8), np.full((1, 1, 3), 255, np.uint8), np.zeros((900, 3, 3), np.uint8)):
        (found,) = network([pixels])
        assert found["keypoints"].shape == (0, 17, 3)
        assert found["boxes"].shape == (0, 4)
        assert found["size"].tolist() == list(pixels.shape[:2])


@pytest.mark.parametrize(
    ("name", "people"),
    [
        ("i2i_0032.jpg", 1),  # a skater
        ("v2v_235.png", 1),  # a dancer, one leg above the head
        ("laion_-1928045627026357654.jpg", 2),  # a couple
        ("i2i_0135.png", 2),  # skiers, small
        ("v2v_549.png", 4),  # baseball
        ("i2i_0166.png", 0),  # a bird, which the pose detector alone takes for a person
        ("i2i_0066.jpg", 0),  # a dog on a skateboard
        ("HQ-Edit_126_29.jpg", 0),  # a grandfather clock
    ],
)
def test_everybody_in_a_photograph_gets_one_skeleton(
    local_weights: Load, photo: Callable[[str], Pixels], name: str, people: int
) -> None:
    (found,) = local_weights("blazepose")([photo(name)])
    assert len(found["keypoints"]) == people
    assert ((found["keypoints"][:, :, 2] > 0).sum(axis=1) >= LEAST_JOINTS).all()


@pytest.mark.parametrize("name", ["laion_2373479627780162056.jpg", "laion_-1301993215697188132.jpg", "v2v_125.png"])
def test_a_portrait_gets_no_legs(local_weights: Load, photo: Callable[[str], Pixels], name: str) -> None:
    (found,) = local_weights("blazepose")([photo(name)])
    (person,) = found["keypoints"]
    assert (person[HEAD, 2] > 0).all()
    assert (person[LEGS, 2] == 0).all()


def test_the_joints_of_a_skater_are_where_they_are(local_weights: Load, photo: Callable[[str], Pixels]) -> None:
    (found,) = local_weights("blazepose")([photo("i2i_0032.jpg")])
    person = found["keypoints"][0]
    # Read off the picture (500 x 500) by eye.
    seen = {
        0: (242, 140),
        5: (260, 190),
        6: (195, 150),
        8: (142, 115),
        9: (269, 275),
        10: (152, 55),
        13: (260, 288),
        15: (252, 405),
        16: (137, 452),
    }
    for joint, place in seen.items():
        assert np.linalg.norm(person[joint, :2] - place) < 25, joint


def test_a_mirrored_picture_has_mirrored_people(local_weights: Load, photo: Callable[[str], Pixels]) -> None:
    pixels = photo("i2i_0032.jpg")
    plain, turned = (found["keypoints"][0] for found in local_weights("blazepose")([pixels, pixels[:, ::-1]]))
    swapped = turned[[0, *(i + (1 if i % 2 else -1) for i in range(1, 17))]]
    gaps = np.hypot(pixels.shape[1] - 1 - swapped[:, 0] - plain[:, 0], swapped[:, 1] - plain[:, 1])
    assert np.median(gaps) < 8


def same(a: Feature, b: Feature) -> bool:
    return all(np.array_equal(a[key], b[key]) for key in a)


@pytest.mark.slow
def test_batch_order_and_threads_change_nothing(local_weights: Load, photo: Callable[[str], Pixels]) -> None:
    network = local_weights("blazepose")
    pictures = [photo(name) for name in ("i2i_0032.jpg", "laion_-1928045627026357654.jpg", "i2i_0166.png")]
    together = network(pictures)
    backwards = network(pictures[::-1])[::-1]
    with ThreadPoolExecutor(3) as pool:
        alone = [found for (found,) in pool.map(lambda p: network([p]), pictures)]
    for a, b, c in zip(together, backwards, alone, strict=True):
        assert same(a, b)
        assert same(a, c)


def test_twice_the_size_gives_the_same_skeleton_at_twice_the_place(
    local_weights: Load, photo: Callable[[str], Pixels]
) -> None:
    pixels = photo("v2v_235.png")
    plain, twice = (f["keypoints"][0] for f in local_weights("blazepose")([pixels, resize(pixels, (1024, 1024))]))
    assert np.median(np.linalg.norm(twice[:, :2] / 2 - plain[:, :2], axis=1)) < 6


def test_legs_squeezed_into_the_frame_of_a_portrait_are_dropped() -> None:
    """The network puts small, sure legs into a picture that ends at the waist; the head says that they are too short."""
    from refbench.networks.small.blazepose import uncompleted

    pixels = np.zeros((512, 512, 3), np.uint8)
    seen = [(224, 128), (249, 111), (203, 104), (270, 122), (185, 108), (281, 227), (131, 194), (301, 340), (97, 307),
            (282, 386), (125, 395), (248, 402), (144, 393), (338, 351), (105, 337), (262, 485), (116, 484)]  # fmt: skip
    joints = np.array([(x, y, 1.0) for x, y in seen], np.float32)
    portrait = uncompleted(joints, np.array([29, 0, 402, 470], np.float32), pixels)
    assert not portrait[13:, 2].any()
    assert portrait[:11, 2].all()
    # A whole body in the same picture keeps its legs, and so does one whose bones fit its head.
    assert uncompleted(joints, np.array([29, 0, 402, 300], np.float32), np.zeros((900, 512, 3), np.uint8))[13:, 2].all()
    tall = joints.copy()
    tall[:5, :2] = (tall[:5, :2] - tall[0, :2]) * 0.4 + tall[0, :2]
    assert uncompleted(tall, np.array([29, 0, 402, 510], np.float32), pixels)[13:, 2].all()
