"""Face likeness: plain arithmetic on vectors as the networks give them, and both protocols on one picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import refbench
from refbench.benchmarks.icebench.table import CORRECTED, PAPER
from refbench.failure import Failure
from refbench.metrics import find_metric
from refbench.metrics.faces import arcface_match, arcface_match_paper, face_match
from refbench.metrics.measure import why_not_measured
from refbench.metrics.views import VIEWS


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


def test_the_metric_names_its_network_and_the_free_one_is_the_default() -> None:
    assert find_metric("face_match", "paper").id == "face_match@dlib_face"
    assert find_metric("face_match").id == "face_match@dlib_face"


INSIGHTFACE = {"corrected": 0.173353, "paper": 0.051479}


def turned(*degrees: float, order: Sequence[int] = ()) -> dict[str, np.ndarray]:
    """Faces whose vectors point into those directions, of lengths that must not matter."""
    vectors = np.zeros((len(degrees), 512), np.float32)
    vectors[:, 0], vectors[:, 1] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    vectors *= 3 + np.arange(len(degrees))[:, None]
    return {"vectors": vectors, "order": np.array(order or range(len(degrees)), np.int32)}


@pytest.mark.parametrize("match", [arcface_match, arcface_match_paper])
def test_the_outputs_face_most_alike_counts_by_its_cosine(match: Callable[..., float | Failure]) -> None:
    assert match(turned(90, 20, 60), turned(0)) == pytest.approx(math.cos(math.radians(20)), abs=1e-6)
    assert match(turned(180), turned(0)) == pytest.approx(-1)  # a cosine may be negative, and stays so
    assert match(turned(30), turned(30)) == pytest.approx(1)


def test_the_paper_asks_for_the_face_the_detector_was_surest_of_and_corrected_for_the_largest() -> None:
    reference = turned(0, 90, order=(1, 0))
    assert arcface_match(turned(10), reference) == pytest.approx(math.cos(math.radians(10)), abs=1e-6)
    assert arcface_match_paper(turned(10), reference) == pytest.approx(math.cos(math.radians(80)), abs=1e-6)


@pytest.mark.parametrize("match", [arcface_match, arcface_match_paper])
@pytest.mark.parametrize(("output", "reference", "side"), [(0, 1, "output"), (1, 0, "reference"), (0, 0, "output")])
def test_no_face_for_arcface_is_a_failure_in_both_protocols(
    match: Callable[..., float | Failure], output: int, reference: int, side: str
) -> None:
    value = match(turned(*[10] * output), turned(*[10] * reference))
    assert isinstance(value, Failure)
    assert value.kind == "no_detection"
    assert side in value.detail


def test_only_the_papers_aggregate_takes_no_face_for_zero() -> None:
    assert PAPER.imputed == {"no_detection": 0.0}
    assert not CORRECTED.imputed


@pytest.mark.parametrize("match", [arcface_match, arcface_match_paper])
def test_an_arcface_vector_without_a_direction_is_undefined(match: Callable[..., float | Failure]) -> None:
    for bad in (0.0, np.nan):
        faces = turned(0, 10)
        faces["vectors"][1] = bad
        value = match(faces, turned(0))
        assert isinstance(value, Failure)
        assert value.kind == "undefined"


@pytest.mark.parametrize("network", ["arcface_buffalo_l", "arcface_mbf"])
def test_only_the_paper_shows_arcface_red_for_blue(network: str) -> None:
    views = {
        protocol: [given.of.view for given in find_metric(f"face_match@{network}", protocol).inputs if given.of]
        for protocol in ("paper", "corrected")
    }
    assert views == {"paper": ["channels_swapped"] * 2, "corrected": ["whole"] * 2}
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    swapped = VIEWS["channels_swapped"].apply(pixels, {})
    np.testing.assert_array_equal(swapped, pixels[..., [2, 1, 0]])


def test_both_protocols_measure_a_photograph_as_insightface_does(creval_mini: Path) -> None:
    """From insightface 2.1: BGR and the larger of two people, RGB and the one the detector is surer of."""
    reason = why_not_measured("face_match@arcface_mbf")
    if reason is not None:
        pytest.skip(reason)
    images = creval_mini / "bench/image"
    for protocol, wanted in INSIGHTFACE.items():
        found = refbench.measure(
            "face_match@arcface_mbf",
            protocol=protocol,
            output=images / "v2v_785.png",
            reference=images / "i2i_0068.jpg",
        )
        assert found.value == pytest.approx(wanted, abs=2e-3)
