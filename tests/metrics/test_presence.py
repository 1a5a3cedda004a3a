"""Whether something of a reference is anywhere in an output."""

from __future__ import annotations

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.metrics.presence import object_count, reference_found
from refbench.networks import Feature
from refbench.pictures import Pixels

RED, GREEN = (200, 20, 20), (20, 200, 20)


def objects(*found: tuple[str, float]) -> Feature:
    return {"labels": np.array([label for label, _ in found]), "scores": np.array([score for _, score in found])}


def test_things_of_the_references_kind_are_counted_for_each_that_it_has() -> None:
    output = objects(("dog", 0.9), ("cat", 0.8), ("dog", 0.5), ("dog", 0.2))
    assert object_count(output, objects(("dog", 0.9))) == 2
    assert object_count(output, objects(("dog", 0.9), ("dog", 0.4))) == 1
    assert object_count(output, objects(("car", 0.9), ("dog", 0.4))) == 0, "the surest kind is meant"
    unknown = object_count(output, objects(("dog", 0.1)))
    assert isinstance(unknown, Failure)
    assert isinstance(object_count(output, objects()), Failure)


class Colours:
    """A network whose vector is the mean colour, which one can compute by hand; it counts what it is shown."""

    def __init__(self) -> None:
        self.shown = 0

    def __call__(self, pictures: list[Pixels]) -> list[Feature | Failure]:
        self.shown += len(pictures)
        return [{"vector": picture.reshape(-1, 3).mean(axis=0)} for picture in pictures]


def masks(pictures: list[Pixels]) -> list[Feature | Failure]:
    """What is not black stands out; nothing where all is."""
    seen = [picture.max(axis=2) > 0 for picture in pictures]
    return [{"mask": one} if one.any() else Failure(kind="no_detection", detail="nothing") for one in seen]


def test_the_part_of_the_output_that_is_most_like_the_references_subject_counts() -> None:
    reference = np.zeros((40, 40, 3), np.uint8)
    reference[10:20, 10:30] = RED
    output = np.full((60, 60, 3), GREEN, np.uint8)
    output[:20, :20] = RED  # one of the thirds
    network = Colours()
    assert reference_found(output, reference, network, masks) == pytest.approx(1.0)
    assert network.shown == 1 + 1 + 9 + 25
    green = np.full((60, 60, 3), GREEN, np.uint8)
    red, other = np.array(RED, float), np.array(GREEN, float)
    wanted = red @ other / np.linalg.norm(red) / np.linalg.norm(other)
    assert reference_found(green, reference, Colours(), masks) == pytest.approx(wanted)
    again = reference_found(output, reference, network, masks)
    assert again == pytest.approx(1.0)
    assert network.shown == 36 + 1, "the parts of an output are looked at once for all references"


def test_a_reference_in_which_nothing_stands_out_is_taken_whole() -> None:
    black = np.zeros((8, 8, 3), np.uint8)
    found = reference_found(np.full((9, 9, 3), GREEN, np.uint8), black, Colours(), masks)
    assert isinstance(found, Failure), "black has no direction"
