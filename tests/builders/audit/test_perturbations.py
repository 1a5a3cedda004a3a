"""What perturbations do to pictures: where they keep to a part, the rest stays; ladders climb; nothing is dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from refbench.analysis.audit.marks import CLEAN
from refbench.builders.audit import looks, subjects
from refbench.builders.audit.catalogue import (
    CLEAN_CALLS,
    PERTURBATIONS,
    Preset,
    Variant,
    named,
    perturbed,
    variants_of,
)
from refbench.builders.audit.filling import filled
from refbench.builders.audit.looks import fine
from refbench.builders.audit.scene import Away, Check, Made, Mask, Opened, Scene, Seeing, file_of
from refbench.case import Case, Picture, Request
from refbench.pictures import Pixels
from refbench.record import RefBenchError

SIDE = 96


class Knows(Seeing):
    """Says of a picture what a test knows of it: a disc in the middle is its subject until it is gone."""

    def feature(self, network: str, pixels: Pixels) -> dict[str, np.ndarray] | None:  # type: ignore[override]
        if network != "u2netp":
            return None
        red = (pixels[..., 0].astype(int) - pixels[..., 2]) > 60
        return {"mask": np.where(red, 255, 0).astype(np.uint8)} if red.any() else None

    @staticmethod
    def lacks(*networks: str) -> str:
        return "" if set(networks) <= {"u2netp"} else "not in this test"


def ground(seed: int) -> Pixels:
    """A blue wall with a pattern."""
    x = np.mgrid[:SIDE, :SIDE][1]
    drawn = np.random.default_rng(seed)
    waves = 40 * np.sin((x + seed) / 5)[..., None] + drawn.normal(0, 8, (SIDE, SIDE, 1))
    return np.clip(np.array([70, 110, 150]) + waves, 0, 255).astype(np.uint8)


def with_disc(pixels: Pixels, radius: int = 18) -> tuple[Pixels, Mask]:
    y, x = np.mgrid[:SIDE, :SIDE]
    disc = (x - SIDE // 2) ** 2 + (y - SIDE // 2 - 8) ** 2 < radius**2
    checked = np.where(((x // 3 + y // 3) % 2)[..., None] > 0, [230, 120, 60], [170, 50, 20])
    return np.where(disc[..., None], checked, pixels).astype(np.uint8), disc


def scene_of(number: int, references: int = 3) -> Scene:
    pictures = tuple(Picture(name=f"{number}_{n}.png", role="subject") for n in range(references))
    text = f"Put the thing of image 1 next to image 2, case {number}."
    case = Case[None](
        id=f"c{number}", cluster=f"c{number}", request=Request(instruction=text, pictures=pictures), details=None
    )
    inputs = tuple(Opened(file_of(ground(100 * number + n))) for n in range(references))
    return Scene(case, (Opened(file_of(with_disc(ground(number))[0])),), inputs, 0, Knows())


@pytest.fixture(scope="module")
def scenes() -> Sequence[Scene]:
    alone = [scene_of(n) for n in range(3)]
    return [replace(scene, others=tuple(alone)) for scene in alone]


def test_the_catalogue_has_all_thirty_four_and_presets_cost_what_they_say() -> None:
    assert list(PERTURBATIONS) == list(range(1, 35))
    assert [one.asks.kind for one in PERTURBATIONS.values()].count("damage") == 18
    for preset, calls in (("quick", 8), ("core", 25)):
        a_case = {(one.number, None if one.positions else strength) for one, strength in variants_of(preset)}  # type: ignore[arg-type]
        assert CLEAN_CALLS[preset] + len(a_case) == calls
    # 40 calls, and beside them two further subjects of the ladder and what is said of judges of pairs.
    assert CLEAN_CALLS["full"] + len({(o.number, None if o.positions else s) for o, s in variants_of("full")}) == 44


def test_a_variant_is_found_by_its_name() -> None:
    for preset in ("quick", "core", "full"):
        for one, strength in variants_of(preset):  # type: ignore[arg-type]
            assert named(one.variant(strength)) == (one, strength)
    assert named(CLEAN)[0].number == 19
    for wrong in ("4:subject_gone", "16:blur@x", "99:none"):
        with pytest.raises(RefBenchError, match="no variant of an audit"):
            named(wrong)


@pytest.mark.parametrize("preset", ["core", "full"])
def test_every_variant_is_made_or_left_out_for_a_reason_and_again_the_same(
    scenes: Sequence[Scene], preset: Preset
) -> None:
    first, again = (list(perturbed(replace(scenes[0], seeing=Knows()), preset)) for _ in range(2))
    wanted = {one.variant(None if one.positions else s) for one, s in variants_of(preset)}
    assert {one.name.partition("@")[0] if "3:ref" in one.name else one.name for one in first} == {CLEAN, *wanted}
    for one, other in zip(first, again, strict=True):
        assert (one.name, one.state, one.reason, one.base) == (other.name, other.state, other.reason, other.base)
        assert (one.state == "made") == (not one.reason)
        if one.made is not None and other.made is not None:
            assert {n: file_of(p) for n, p in one.made.outputs.items()} == {
                n: file_of(p) for n, p in other.made.outputs.items()
            }
    attacks = [one for one in first if one.name.startswith(("27", "28", "30"))]
    assert {one.base for one in attacks} == {"1:other_output"}


INSIDE: Sequence[Callable[[Scene, int], Made | Away]] = (
    subjects.gone,
    subjects.pasted,
    subjects.lifted,
    subjects.recoloured,
    subjects.smoothed,
    subjects.twice,
)


@pytest.mark.parametrize("damage", INSIDE, ids=lambda one: one.__name__)
def test_outside_of_the_mask_and_its_seam_nothing_changes(
    scenes: Sequence[Scene], damage: Callable[[Scene, int], Made | Away]
) -> None:
    made = damage(scenes[0], 1)
    assert isinstance(made, Made)
    assert made.inside is not None
    changed = (np.asarray(made.outputs[0]) != scenes[0].output).any(axis=-1)
    assert changed.any()
    assert not (changed & ~made.inside).any()
    assert not made.inside.all()
    assert all(check.passed for check in made.checks), made.checks


def test_a_subject_is_gone_and_what_fills_the_hole_is_of_the_surroundings(scenes: Sequence[Scene]) -> None:
    made = subjects.gone(scenes[0], 1)
    assert isinstance(made, Made)
    pixels = np.asarray(made.outputs[0]).astype(int)
    assert ((pixels[..., 0] - pixels[..., 2]) > 20).mean() < 0.01, "nothing red is left"
    assert isinstance(subjects.gone(scenes[0], 2), Away)


def beside(columns: Sequence[int]) -> Scene:
    """A scene whose output has small discs in these columns beside the large one."""
    y, x = np.mgrid[:SIDE, :SIDE]
    pixels = with_disc(ground(1))[0]
    for column in columns:
        small = (x - column) ** 2 + (y - SIDE // 2 - 8) ** 2 < 64
        pixels = np.where(small[..., None], [230, 60, 20], pixels).astype(np.uint8)
    return replace(scene_of(1), outputs=(Opened(file_of(pixels)),), seeing=Knows())


def test_a_second_subject_stands_where_it_hides_no_other() -> None:
    free, one_side, both = ([], [80], [15, 80])
    for columns, left in ((free, None), (one_side, True)):
        made = subjects.twice(beside(columns), 1)
        assert isinstance(made, Made)
        changed = (np.asarray(made.outputs[0]) != beside(columns).output).any(axis=(0, 2))
        assert left is None or (np.flatnonzero(changed).max() < SIDE // 2) == left
    away = subjects.twice(beside(both), 1)
    assert isinstance(away, Away)
    assert away.reason == "it would cover another subject"


@pytest.mark.parametrize(("score", "wrong", "plain"), [(0.98, True, False), (0.5, False, False), (None, False, True)])
def test_what_may_be_words_is_mirrored_neither_as_words_nor_as_none(
    score: float | None, wrong: bool, plain: bool
) -> None:
    class Reads(Knows):
        def feature(self, network: str, pixels: Pixels) -> dict[str, np.ndarray] | None:  # type: ignore[override]
            if network == "ppocr":
                return {"lines": np.array(["FEEO"]), "scores": np.array([score])} if score is not None else None
            return super().feature(network, pixels)

    scene = replace(scene_of(1), seeing=Reads())
    assert isinstance(looks.mirrored_wrongly(scene, 1), Made) == wrong
    assert isinstance(looks.mirrored(scene, 1), Made) == plain


def test_a_hole_is_filled_with_the_pattern_around_it() -> None:
    picture = ground(7)
    _, disc = with_disc(picture)
    made = filled(picture, disc, np.random.default_rng(0))
    assert np.array_equal(made[~disc], picture[~disc])
    assert fine(made, disc) > 0.5 * fine(picture, disc), "it has as much detail, not a smear"


def test_ladders_climb(scenes: Sequence[Scene]) -> None:
    for number in (16, 17, 18):
        one = PERTURBATIONS[number]
        made = [one.make(scenes[0], strength) for strength in one.strengths]
        values = [found.checks[0].value for found in made if isinstance(found, Made)]
        assert values == sorted(values, reverse=True)
        assert len(set(values)) == 3


def test_a_damage_that_does_too_little_is_left_out_and_says_what_was_measured() -> None:
    weak = Variant("16:blur@1", Made(checks=(Check(name="fine detail left", value=0.95, most=0.8),)))
    assert (weak.state, weak.reason) == ("too small", "fine detail left 0.95, at most 0.8 is needed")


def test_references_move_with_their_numbers(scenes: Sequence[Scene]) -> None:
    made = PERTURBATIONS[20].make(scenes[0], 1)
    assert isinstance(made, Made)
    assert sorted(made.order) == [0, 1, 2] != list(made.order)
    first, second = made.order.index(0) + 1, made.order.index(1) + 1
    assert made.instruction == f"Put the thing of image {first} next to image {second}, case 0."


def test_one_reference_is_exchanged_at_one_place_of_each_case(scenes: Sequence[Scene]) -> None:
    for scene in scenes:
        swapped = [one for one in perturbed(scene, "core") if one.name.startswith("3:")]
        assert len(swapped) == 1
        place = int(swapped[0].name.partition("@")[2])
        if swapped[0].made is not None:
            assert list(swapped[0].made.inputs) == [place - 1]
