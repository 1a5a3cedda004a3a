"""Similarity by networks: the arithmetic without any, and the metrics where the weights are there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.metrics import find_metric
from refbench.metrics.measure import measure
from refbench.metrics.similarity import cosine, image_match, lpips_alex
from refbench.metrics.views import VIEWS, inside_mask_white, mask_crop
from refbench.networks import why_not
from refbench.pictures import Pixels, resize


def picture(seed: int, height: int = 60, width: int = 80) -> Pixels:
    return np.random.default_rng(seed).integers(0, 250, (height, width, 3), dtype=np.uint8)


def smooth(seed: int, height: int = 96, width: int = 128) -> Pixels:
    return resize(picture(seed, 6, 8), (width, height))


def needs(name: str) -> None:
    reason = why_not(name)
    if reason is not None:
        pytest.skip(reason)


def test_cosine_is_one_minus_one_or_the_angle() -> None:
    a = np.array([3, 4], np.float32)
    assert cosine(a, 7 * a) == pytest.approx(1, abs=1e-12)
    assert cosine(a, -a) == pytest.approx(-1, abs=1e-12)
    assert cosine(a, np.array([4, -3])) == pytest.approx(0, abs=1e-12)
    assert cosine(np.array([1, 0]), np.array([1, 1])) == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize("bad", [[0, 0], [np.nan, 1], [np.inf, 1]])
def test_a_vector_without_a_direction_is_undefined(bad: list[float]) -> None:
    for found in (cosine(np.array(bad), np.ones(2)), image_match({"vector": np.ones(2)}, {"vector": np.array(bad)})):
        assert isinstance(found, Failure) and found.kind == "undefined"


def test_vectors_too_long_or_short_for_their_squares_still_have_an_angle() -> None:
    tiny, huge = np.array([1e-30, 1e-30], np.float32), np.array([1e30, 0], np.float32)
    assert cosine(tiny, huge) == pytest.approx(np.sqrt(0.5), rel=1e-6)


def absolute_difference(pairs: Sequence[tuple[Pixels, Pixels]]) -> list[float | Failure]:
    return [float(np.abs(a.astype(float) - b).mean()) for a, b in pairs]


def test_an_output_of_another_size_is_brought_to_the_sources() -> None:
    output, source = picture(0, 30, 40), picture(1)
    fitted = resize(output, (80, 60), "bicubic")
    assert lpips_alex(output, source, absolute_difference) == absolute_difference([(fitted, source)])[0]


def test_a_distance_that_is_no_number_is_undefined() -> None:
    found = lpips_alex(picture(0), picture(1), lambda pairs: [float("nan") for _ in pairs])
    assert isinstance(found, Failure) and found.kind == "undefined"


def test_the_paper_paints_the_outside_of_the_mask_white() -> None:
    pixels, mask = picture(0), np.zeros((60, 80), np.uint8)
    mask[10:20, 30:50] = 255
    mask[0, 0] = 128  # marks nothing: only what is above 128 does
    found = inside_mask_white(pixels, {"mask": mask})
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found[10:20, 30:50], pixels[10:20, 30:50])
    assert (found[mask <= 128] == 255).all()


def test_a_mask_of_another_size_or_in_colour_marks_the_same() -> None:
    pixels, mask = picture(0), np.zeros((120, 160, 3), np.uint8)
    mask[20:40, 60:100] = 255
    found = inside_mask_white(pixels, {"mask": mask})
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found[12:18, 32:48], pixels[12:18, 32:48])
    assert (found[:8] == 255).all() and (found[:, :28] == 255).all()


def test_the_corrected_view_is_the_masks_box_on_a_white_square() -> None:
    pixels, mask = picture(0), np.zeros((60, 80), np.uint8)
    mask[10:20, 30:50] = 255
    found = mask_crop(pixels, {"mask": mask})
    assert isinstance(found, np.ndarray) and found.shape == (20, 20, 3)
    np.testing.assert_array_equal(found[5:15], pixels[10:20, 30:50])
    assert (found[:5] == 255).all() and (found[15:] == 255).all()


def test_a_subject_at_the_edge_is_seen_whole_by_the_corrected_view() -> None:
    # The official route paints all else white and crops the centre: of a wide picture the ends are lost.
    pixels, mask = picture(0, 40, 400), np.zeros((40, 400), np.uint8)
    mask[:, :30] = 255
    found = mask_crop(pixels, {"mask": mask})
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found[:, 5:35], pixels[:, :30])


def test_an_empty_mask_is_undefined_in_the_corrected_view() -> None:
    found = mask_crop(picture(0), {"mask": np.zeros((60, 80), np.uint8)})
    assert isinstance(found, Failure) and found.kind == "undefined"


@pytest.mark.parametrize("view", [name for name, view in VIEWS.items() if "mask" in view.inputs])
def test_without_a_mask_every_view_is_the_whole(view: str) -> None:
    pixels = picture(0)
    np.testing.assert_array_equal(VIEWS[view].apply(pixels, {}), pixels)


def test_ids_carry_the_network_and_lpips_alone_means_alexnet() -> None:
    assert find_metric("lpips").id == "lpips@lpips_alex"
    assert find_metric("lpips@lpips_vgg").networks == ("lpips_vgg",)
    assert find_metric("subject_match", "paper").inputs[0].of.view == "inside_mask_white"  # type: ignore[union-attr]
    assert find_metric("subject_match").inputs[0].of.view == "mask_crop"  # type: ignore[union-attr]
    assert find_metric("nsfw").better == "lower"


def test_lpips_of_a_picture_and_itself_is_zero_and_grows_with_the_change() -> None:
    needs("lpips_alex")
    source = smooth(1)
    noise = np.random.default_rng(5).normal(0, 1, source.shape)
    values = [
        measure("lpips", output=np.clip(source + s * noise, 0, 255).astype(np.uint8), source=source).value
        for s in (0, 10, 40)
    ]
    assert values[0] == 0
    assert 0 < values[1] < values[2]  # type: ignore[operator]


def test_a_picture_is_nearer_to_itself_turned_round_than_to_another() -> None:
    needs("mobilenet_v2")
    a, b = smooth(1), picture(2)
    itself, other = (measure("image_match@mobilenet_v2", output=o, reference=a).value for o in (a[:, ::-1].copy(), b))
    assert itself is not None and other is not None and itself > other
    assert measure("image_match@mobilenet_v2", output=a, reference=a).value == pytest.approx(1, abs=1e-6)


def test_only_what_the_mask_marks_counts_for_the_subject() -> None:
    needs("mobilenet_v2")
    subject = smooth(1, 64, 64)
    output = picture(3, 200, 300)
    output[100:164, 200:264] = subject
    mask = np.zeros((200, 300, 3), np.uint8)
    mask[100:164, 200:264] = 255
    found = measure("subject_match@mobilenet_v2", output=output, reference=subject, mask=mask)
    assert found.value == pytest.approx(1, abs=1e-6)
