"""Damages of real photographs, by the real networks: they pass their own checks, and keep to their part of the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from refbench.builders.audit.catalogue import PERTURBATIONS, Variant
from refbench.builders.audit.scene import Made, Opened, Scene, Seeing
from refbench.networks import why_not
from refbench.tables.scoring import load

FACES = ("i2i_0023", "laion_2373479627780162056")
KEPT_WITHIN = (4, 7, 8, 9, 10, 11, 12, 13, 14)


@pytest.fixture(autouse=True)
def no_networks() -> None:
    """These need them; without weights they are skipped."""
    if reason := Seeing.lacks("u2netp", "yolov4_tiny", "dlib_face", "blazepose", "ppocr", "lpips_alex"):
        pytest.skip(f"{reason} (refbench fetch local)")


@pytest.fixture
def photographs(creval_mini: Path) -> Callable[[int | Sequence[str]], list[Scene]]:
    """Photographs as outputs that are good: those of these names, or so many of all."""

    def opened(which: int | Sequence[str]) -> list[Scene]:
        dataset = load("creval", creval_mini)
        cases = sorted(dataset.cases, key=lambda case: case.id)
        chosen = cases[:: len(cases) // which] if isinstance(which, int) else [c for c in cases if c.id in which]
        scenes = []
        for case in chosen:
            picture = Opened(dataset.path(case.request.pictures[0]).read_bytes())
            scenes.append(Scene(case, (picture,), (picture,), 0, Seeing()))
        return [replace(scene, others=tuple(scenes)) for scene in scenes]

    return opened


def test_another_persons_face_is_another_persons_and_the_rest_of_the_picture_stays(
    photographs: Callable[[Sequence[str]], list[Scene]],
) -> None:
    scenes = photographs(FACES)
    assert len(scenes) == len(FACES)
    made = PERTURBATIONS[9].make(scenes[0], 1)
    assert isinstance(made, Made)
    assert made.checks[0].value >= 0.25
    assert made.inside is not None
    changed = (np.asarray(made.outputs[0]) != scenes[0].output).any(axis=-1)
    assert changed.any()
    assert not (changed & ~made.inside).any()


@pytest.mark.slow
def test_four_in_five_of_applicable_damages_pass_their_own_check(
    photographs: Callable[[int], list[Scene]],
) -> None:
    assert why_not("mobilenet_v2") is None
    states: dict[int, Counter[str]] = {number: Counter() for number in KEPT_WITHIN}
    for scene in photographs(40):
        for number in KEPT_WITHIN:
            made = PERTURBATIONS[number].make(scene, 1)
            states[number][Variant("", made).state] += 1
            if isinstance(made, Made):
                assert made.inside is not None
                changed = (np.asarray(made.outputs[0]) != scene.output).any(axis=-1)
                assert not (changed & ~made.inside).any(), (number, scene.case.id)
    applicable = {number: count["made"] + count["too small"] for number, count in states.items()}
    total = sum(count["made"] for count in states.values()) / sum(applicable.values())
    assert total >= 0.8, states
    assert all(states[n]["made"] >= 0.8 * applicable[n] for n in KEPT_WITHIN if applicable[n] >= 20), states
