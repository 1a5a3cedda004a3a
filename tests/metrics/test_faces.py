"""Face likeness: plain arithmetic on vectors as the network gives them."""

from __future__ import annotations

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.metrics import find_metric
from refbench.metrics.faces import face_match


def faces(*distances: float) -> dict[str, np.ndarray]:
    """Faces that lie that far from the origin, each in a direction of its own."""
    vectors = np.zeros((len(distances), 128), np.float32)
    for number, away in enumerate(distances):
        vectors[number, number] = away
    return {"vectors": vectors, "boxes": np.zeros((len(distances), 4)), "scores": np.ones(len(distances))}


def test_the_same_vector_is_one_and_dlibs_threshold_is_point_four() -> None:
    assert face_match(faces(0.7), faces(0.7)) == pytest.approx(1)
    assert face_match(faces(0.6), faces(0.0)) == pytest.approx(0.4)


def test_the_nearest_face_of_the_output_counts() -> None:
    assert face_match(faces(0.9, 0.2, 0.5), faces(0.0)) == pytest.approx(0.8)


def test_the_largest_face_of_the_reference_counts() -> None:
    assert face_match(faces(0.0), faces(0.3, 0.0)) == pytest.approx(0.7)


def test_strangers_are_zero_and_never_below() -> None:
    assert face_match(faces(1.4), faces(0.0)) == 0


@pytest.mark.parametrize(("output", "reference", "side"), [(0, 1, "output"), (1, 0, "reference"), (0, 0, "output")])
def test_no_face_is_a_failure_that_names_the_side(output: int, reference: int, side: str) -> None:
    value = face_match(faces(*[0.1] * output), faces(*[0.1] * reference))
    assert isinstance(value, Failure)
    assert value.kind == "no_detection"
    assert side in value.detail


def test_a_vector_without_numbers_is_undefined() -> None:
    value = face_match(faces(np.nan), faces(0.1))
    assert isinstance(value, Failure)
    assert value.kind == "undefined"


def test_the_metric_names_its_network() -> None:
    assert find_metric("face_match", "paper").id == "face_match@dlib_face"
