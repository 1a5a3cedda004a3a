"""Faces: how two detectors agree, and the real network on photographs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.networks.network import weights_folder
from refbench.networks.small.dlib_face import _Face, agreed
from refbench.networks.small.mediapipe import Hit
from refbench.pictures import Pixels, decode, resize
from support.campaigns import slow

Load = Callable[[str], Any]
PEOPLE = (
    "laion_-1301993215697188132.jpg",
    "laion_2373479627780162056.jpg",
    "i2i_0023.jpg",
    "v2v_785.png",
    "i2i_0068.jpg",
)


@pytest.fixture
def photo(creval_mini: Path) -> Callable[[str], Pixels]:
    def load(name: str) -> Pixels:
        pixels = decode((creval_mini / "bench/image" / name).read_bytes())
        assert not isinstance(pixels, Failure)
        return pixels

    return load


def box(x: float, side: float = 40) -> Any:
    return np.array([x, 0, x + side, side], np.float32)


def seen(x: float, score: float) -> Hit:
    return Hit(box(x), np.zeros((6, 2), np.float32), score)


def test_a_face_that_both_detectors_see_has_the_box_of_the_one_dlib_was_trained_on() -> None:
    (face,) = agreed([_Face(box(2), 0.1)], [seen(0, 0.62)], [])
    assert face.box == pytest.approx(box(2))
    assert face.score == 0.62


def test_a_face_that_one_detector_sees_only_faintly_is_none() -> None:
    assert agreed([_Face(box(0), 0.65)], [], []) == []
    assert agreed([], [seen(0, 0.65)], []) == []
    assert agreed([], [], [seen(0, 0.77)]) == []


def test_a_face_seen_clearly_or_twice_needs_no_second_detector() -> None:
    assert len(agreed([_Face(box(0), 1.2)], [], [])) == 1
    assert len(agreed([], [seen(0, 0.8)], [])) == 1
    assert len(agreed([], [], [seen(0, 0.9)])) == 1
    assert len(agreed([], [seen(0, 0.65)], [seen(1, 0.7)])) == 1


def test_no_face_is_an_empty_array(local_weights: Load) -> None:
    for pixels in (np.full((80, 120, 3), 90, np.uint8), np.zeros((1, 1, 3), np.uint8), np.zeros((3, 700, 3), np.uint8)):
        (found,) = local_weights("dlib_face")([pixels])
        assert found["vectors"].shape == (0, 128)
        assert found["boxes"].shape == (0, 4)


def test_a_dog_with_sunglasses_is_no_face(local_weights: Load, photo: Callable[[str], Pixels]) -> None:
    (found,) = local_weights("dlib_face")([photo("1718663831.0327306.jpg")])
    assert len(found["scores"]) == 0


def test_the_largest_face_comes_first(local_weights: Load, photo: Callable[[str], Pixels]) -> None:
    (found,) = local_weights("dlib_face")([photo("laion_-1928045627026357654.jpg")])
    assert len(found["boxes"]) == 2
    areas = (found["boxes"][:, 2] - found["boxes"][:, 0]) * (found["boxes"][:, 3] - found["boxes"][:, 1])
    assert areas[0] > areas[1]


@pytest.mark.parametrize("people", [PEOPLE[:2], slow(PEOPLE)])
def test_the_same_face_is_nearer_than_another(
    local_weights: Load, photo: Callable[[str], Pixels], people: Sequence[str]
) -> None:
    network = local_weights("dlib_face")
    pictures = [photo(name) for name in people]
    vectors = [found["vectors"][0] for found in network(pictures)]
    away = np.array([[np.linalg.norm(a - b) for b in vectors] for a in vectors])
    assert away[~np.eye(len(people), dtype=bool)].min() > 0.6
    for vector, pixels in zip(vectors, pictures, strict=True):
        height, width = pixels.shape[:2]
        brighter = np.clip(pixels.astype(int) * 1.3 + 15, 0, 255).astype(np.uint8)
        for changed in (pixels[:, ::-1], brighter, resize(pixels, (width // 2, height // 2))):
            (found,) = network([np.ascontiguousarray(changed)])
            assert np.linalg.norm(found["vectors"] - vector, axis=1).min() < 0.35


def test_a_vector_is_the_one_dlib_gives_for_the_file_it_opens_itself(local_weights: Load, creval_mini: Path) -> None:
    """dlib opens files as RGB, so that swapped channels here would give another vector."""
    network = local_weights("dlib_face")
    dlib = importlib.import_module("dlib")
    file = creval_mini / "bench/image/v2v_785.png"
    pixels = dlib.load_rgb_image(str(file))
    own = decode(file.read_bytes())
    assert not isinstance(own, Failure)
    (found,) = network([own])
    left, top, right, bottom = (round(float(v)) for v in found["boxes"][0])
    points = dlib.shape_predictor(str(weights_folder() / "shape_predictor_5_face_landmarks.dat"))
    model = dlib.face_recognition_model_v1(str(weights_folder() / "dlib_face_recognition_resnet_model_v1.dat"))
    shape = points(pixels, dlib.rectangle(left, top, right - 1, bottom - 1))
    assert found["vectors"][0] == pytest.approx(np.array(model.compute_face_descriptor(pixels, shape)), abs=1e-5)
    (swapped,) = network([np.ascontiguousarray(own[:, :, ::-1])])
    assert np.linalg.norm(found["vectors"][0] - swapped["vectors"][0]) > 0.02


@pytest.mark.slow
def test_batch_order_and_threads_change_nothing(local_weights: Load, photo: Callable[[str], Pixels]) -> None:
    network = local_weights("dlib_face")
    pictures = [photo(name) for name in PEOPLE[:3]]
    together = network(pictures)
    backwards = network(pictures[::-1])[::-1]
    with ThreadPoolExecutor(3) as pool:
        alone = [found for (found,) in pool.map(lambda p: network([p]), pictures)]
    for a, b, c in zip(together, backwards, alone, strict=True):
        assert all(np.array_equal(a[key], b[key]) and np.array_equal(a[key], c[key]) for key in a)
