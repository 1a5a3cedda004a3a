"""SCRFD and ArcFace: a small detector made here, and the real weights against values of the insightface package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.networks import load_network, network_info, why_not
from refbench.networks.fetch import fetch
from refbench.networks.small.arcface import (
    SIZES,
    TEMPLATE,
    ArcFace,
    Scrfd,
    arcface_buffalo_l,
    decoded,
    letterbox,
    not_overlapping,
    similarity,
    upright,
)
from refbench.networks.small.graph import Graph
from refbench.pictures import Pixels, decode, resize
from refbench.record import RefBenchError

Load = Callable[[str], Any]
Pattern = Callable[[int, int, int], Pixels]


def little_detector() -> bytes:
    """Nine outputs as SCRFD has them; a face is a bright square that just fills a cell of 8, 16 or 32 pixels."""
    graph = Graph(picture=(1, 3, "height", "width"))
    stands_out = np.zeros((2, 3, 3, 3), np.float32)
    stands_out[:, 0] = -1 / 8
    stands_out[:, 0, 1, 1] = 1
    scores, boxes, points = {}, {}, {}
    for stride in (8, 16, 32):
        cells = graph.op("AveragePool", "picture", kernel_shape=[stride] * 2, strides=[stride] * 2)

        def flat(x: str, numbers: int) -> str:
            # As in the real files: rows, columns, anchors, then the numbers of each.
            turned = graph.op("Transpose", x, perm=[2, 3, 0, 1])
            return graph.op("Reshape", turned, graph.constant(np.array([-1, numbers], np.int64)))

        def always(values: np.ndarray, cells: str = cells) -> str:
            twice = np.tile(values.ravel().astype(np.float32), 2)
            return flat(graph.conv(cells, np.zeros((len(twice), 3, 1, 1), np.float32), twice), values.size)

        scores[f"score_{stride}"] = flat(graph.conv(cells, stands_out, np.full(2, -1.0), pad=1), 1)
        boxes[f"box_{stride}"] = always(np.array([0, 0, 1, 1]))
        points[f"points_{stride}"] = always(TEMPLATE / 112)
    return graph.model(**scores, **boxes, **points)


def little_vectors() -> bytes:
    """512 numbers out of the means of 28 x 28 pixels, by a fixed matrix."""
    graph = Graph(faces=("n", 3, 112, 112))
    means = graph.op("AveragePool", "faces", kernel_shape=[28] * 2, strides=[28] * 2)
    matrix = np.random.default_rng(5).standard_normal((48, 512)).astype(np.float32)
    return graph.model(vectors=graph.op("MatMul", graph.op("Flatten", means), graph.constant(matrix)))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    for module in ("onnx", "onnxruntime"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    folder = tmp_path_factory.mktemp("weights")
    (folder / "det_10g.onnx").write_bytes(little_detector())
    (folder / "w600k_r50.onnx").write_bytes(little_vectors())
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def detector(weights: dict[str, Path]) -> Scrfd:
    return Scrfd(weights["det_10g.onnx"], "cpu")


@pytest.fixture(scope="module")
def network(weights: dict[str, Path]) -> ArcFace:
    return arcface_buffalo_l(weights, "cpu")


def squares(*where: tuple[int, int, int, int], side: int = 640) -> Pixels:
    """Black, but for squares (x, y, side, brightness)."""
    pixels = np.zeros((side, side, 3), np.uint8)
    for x, y, wide, bright in where:
        pixels[y : y + wide, x : x + wide] = bright
    return pixels


def test_a_face_has_the_box_of_its_square(detector: Scrfd) -> None:
    for x, y, side in ((64, 160, 32), (48, 80, 16), (8, 600, 8)):
        found = detector.at(squares((x, y, side, 255)), 640)
        np.testing.assert_allclose(found.boxes, [[x, y, x + side, y + side]], atol=1e-4)
        np.testing.assert_allclose(found.points[0], (x, y) + TEMPLATE / 112 * side, atol=1e-3)
        assert found.scores == pytest.approx([0.992], abs=1e-3)


def test_boxes_are_in_pixels_of_the_picture_whatever_size_the_detector_saw(detector: Scrfd) -> None:
    twice = resize(squares((64, 160, 32, 255)), (1280, 1280), "nearest")
    np.testing.assert_allclose(detector.at(twice, 640).boxes, [[128, 320, 192, 384]], atol=1e-3)
    tall = np.vstack([squares((64, 160, 32, 255), side=320), np.zeros((320, 320, 3), np.uint8)])
    np.testing.assert_allclose(detector.at(tall, 640).boxes, [[64, 160, 96, 192]], atol=1e-3)


def test_a_face_too_large_for_the_first_size_is_found_at_a_smaller_one(detector: Scrfd) -> None:
    """ICE-Bench's way: 640, 480, 384, 256, 128, until a face appears."""
    close = squares((160, 160, 160, 255))
    assert [len(detector.at(close, side).scores) for side in SIZES] == [0, 0, 0, 0, 1]
    np.testing.assert_allclose(detector(close).boxes, [[160, 160, 320, 320]], atol=1e-3)


def test_a_face_at_the_first_size_ends_the_search(detector: Scrfd) -> None:
    both = squares((160, 160, 160, 255), (544, 544, 32, 255))
    np.testing.assert_allclose(detector(both).boxes, [[544, 544, 576, 576]], atol=1e-3)


def test_of_boxes_that_overlap_by_more_than_two_fifths_the_best_stays() -> None:
    boxes = np.array([[0, 0, 9, 9], [0, 0, 9, 9], [20, 0, 29, 9], [20, 5, 29, 14]], np.float32)
    assert not_overlapping(boxes) == [0, 2, 3]  # the last two share 50 of 150 pixels, a third


def test_the_last_pixel_counts_in_overlaps_as_in_the_package() -> None:
    assert not_overlapping(np.array([[0, 0, 6, 3], [3, 0, 9, 3]], np.float32)) == [
        0,
        1,
    ]  # 16 of 40 pixels: just allowed
    assert not_overlapping(np.array([[0, 0, 7, 3], [3, 0, 10, 3]], np.float32)) == [0]  # 20 of 44; 12 of 30 without it


def test_a_score_of_just_a_half_is_a_face() -> None:
    def outputs(score: float) -> list[np.ndarray]:
        counts = [2 * (128 // stride) ** 2 for stride in (8, 16, 32)]
        found = [np.zeros((count, width), np.float32) for width in (1, 4, 10) for count in counts]
        found[1][2 * (3 * 8 + 5)] = score
        found[4][2 * (3 * 8 + 5)] = (1, 0.5, 2, 1.5)
        return found

    assert len(decoded(outputs(0.4999), 128, 1).scores) == 0
    np.testing.assert_array_equal(decoded(outputs(0.5), 128, 0.5).boxes, [[128, 80, 224, 144]])
    with_batch = [array[None] for array in outputs(0.5)]
    np.testing.assert_array_equal(decoded(with_batch, 128, 0.5).boxes, [[128, 80, 224, 144]])


@pytest.mark.parametrize(
    ("height", "width", "inside"),
    [(500, 700, (457, 640)), (700, 500, (640, 457)), (64, 64, (640, 640)), (3, 4000, (1, 640)), (4000, 3, (640, 1))],
)
def test_pictures_of_any_shape_lie_in_the_upper_left(height: int, width: int, inside: tuple[int, int]) -> None:
    square, scale = letterbox(np.full((height, width, 3), 200, np.uint8), 640)
    assert square[: inside[0], : inside[1]].min() == 200
    assert square[inside[0] :].sum() == square[:, inside[1] :].sum() == 0
    assert scale == inside[0] / height


def test_a_turn_is_recovered() -> None:
    angle, scale, shift = 0.4, 1.7, np.array([12.0, -30.0])
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    found = similarity(TEMPLATE, TEMPLATE @ turn.T + shift)
    assert found is not None
    np.testing.assert_allclose(found, np.column_stack([turn, shift]), atol=1e-4)


def test_points_that_do_not_fit_are_brought_nearest_as_scikit_image_does() -> None:
    points = np.array([[100.5, 90.25], [160, 84], [133, 120.5], [112, 150], [158.5, 146]], np.float32)
    # SimilarityTransform of scikit-image 0.26, through insightface 2.1.
    wanted = np.array([[0.6355465487, -0.0526768076, -22.1506575], [0.0526768076, 0.6355465487, -10.1845262]])
    found = similarity(points, TEMPLATE)
    assert found is not None
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_the_turn_is_the_least_squares_one_and_never_mirrors() -> None:
    """In complex numbers a similarity without mirroring is y = a x + b, and least squares a plain quotient."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        points = rng.normal(100, 30, (5, 2))
        x, y = (p[:, 0] + 1j * p[:, 1] for p in (points - points.mean(axis=0), TEMPLATE - TEMPLATE.mean(axis=0)))
        a = (x.conj() @ y) / (x.conj() @ x)
        found = similarity(points, TEMPLATE)
        assert found is not None
        np.testing.assert_allclose(found[:, :2], [[a.real, -a.imag], [a.imag, a.real]], atol=1e-5)


def test_points_in_one_place_are_undefined(pattern: Pattern) -> None:
    for points in (np.full((5, 2), 7.0), np.full((5, 2), np.nan)):
        face = upright(pattern(0, 50, 50), points)
        assert isinstance(face, Failure)
        assert face.kind == "undefined"


def test_a_face_that_is_upright_already_stays_as_it_is(pattern: Pattern) -> None:
    face = pattern(0, 112, 112)
    np.testing.assert_array_equal(upright(face, TEMPLATE), face)
    larger = np.zeros((200, 300, 3), np.uint8)
    larger[50:162, 90:202] = face
    np.testing.assert_array_equal(upright(larger, TEMPLATE + np.array([90, 50])), face)


def test_faces_come_largest_first_and_keep_the_detectors_order(network: ArcFace) -> None:
    (found,) = network([squares((64, 160, 32, 240), (400, 400, 16, 255))])
    assert isinstance(found, dict)
    np.testing.assert_allclose(found["boxes"], [[64, 160, 96, 192], [400, 400, 416, 416]], atol=1e-3)
    assert found["scores"][0] < found["scores"][1]
    assert found["order"].tolist() == [1, 0]
    assert found["vectors"].shape == (2, 512)


def test_nobody_is_empty_arrays(network: ArcFace) -> None:
    for pixels in (squares(), np.zeros((1, 1, 3), np.uint8), np.zeros((3, 4000, 3), np.uint8)):
        (found,) = network([pixels])
        assert isinstance(found, dict)
        assert {name: array.shape for name, array in found.items()} == {
            "boxes": (0, 4), "scores": (0,), "points": (0, 5, 2), "vectors": (0, 512), "order": (0,),
        }  # fmt: skip


def test_batch_and_order_change_nothing(network: ArcFace) -> None:
    pictures = [squares((64, 160, 32, 255)), squares(), squares((400, 400, 16, 230), (32, 32, 32, 250))]
    alone = [network([pixels])[0] for pixels in pictures]
    for found in (network(pictures), network(pictures[::-1])[::-1]):
        for one, other in zip(alone, found, strict=True):
            assert isinstance(one, dict) and isinstance(other, dict)
            assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", ["arcface_mbf", "arcface_buffalo_l"])
def test_weights_for_research_only_are_not_fetched_unasked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    assert not network_info(name).commercial
    assert network_info(name).group == "paper"  # never part of `refbench fetch local`
    with pytest.raises(RefBenchError, match=f"weights of {name} are under .*non-commercial.* add --accept-licence"):
        fetch([name])
    said = str(why_not(name))
    assert said.endswith(f"refbench fetch {name} --accept-licence") or "pip install 'refbench[local]'" in said


def test_files_of_ones_own_serve_and_others_of_that_name_are_refused(
    weights: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    folder = tmp_path / "hub/arcface_buffalo_l"
    folder.mkdir(parents=True)
    for name, path in weights.items():
        (folder / name).write_bytes(path.read_bytes())
    assert why_not("arcface_buffalo_l") is None
    with pytest.raises(RefBenchError, match=r"det_10g\.onnx is damaged .* refbench fetch arcface_buffalo_l"):
        load_network("arcface_buffalo_l")


def drawn(side: int) -> Pixels:
    """A face of ovals: simple, and face enough for the detector."""
    y, x = np.mgrid[:side, :side] / side
    picture = np.empty((side, side, 3))
    picture[:] = (120, 150, 180)

    def oval(across: float, down: float, wide: float, high: float, colour: tuple[int, int, int], soft: float) -> None:
        inside = 1 - ((x - across) / wide) ** 2 - ((y - down) / high) ** 2
        share = np.clip(inside / soft + 0.5, 0, 1)[..., None]
        picture[:] = picture * (1 - share) + np.array(colour) * share

    oval(0.5, 0.44, 0.27, 0.36, (60, 40, 30), 0.12)  # hair
    oval(0.5, 0.52, 0.22, 0.30, (225, 180, 150), 0.4)
    for eye in (0.41, 0.59):
        oval(eye, 0.40, 0.06, 0.015, (70, 50, 40), 0.12)
        oval(eye, 0.46, 0.045, 0.025, (245, 245, 245), 0.12)
        oval(eye, 0.46, 0.020, 0.022, (50, 35, 30), 0.12)
    oval(0.5, 0.56, 0.03, 0.06, (200, 150, 125), 1.0)  # nose
    for nostril in (0.488, 0.512):
        oval(nostril, 0.60, 0.010, 0.008, (120, 70, 60), 0.6)
    oval(0.5, 0.69, 0.075, 0.028, (180, 70, 75), 0.5)  # mouth
    oval(0.5, 0.69, 0.06, 0.006, (110, 40, 45), 0.5)
    return np.rint(picture).astype(np.uint8)


# From insightface 2.1 (0.7.3 gives the same) on onnxruntime 1.31.1, which was handed BGR: boxes with scores, points,
# the first six of the 512 numbers and the length of the vector.
DRAWN = (
    [86.168587, 79.963997, 230.317596, 254.993134, 0.718759],
    [125.091, 145.68663, 190.73038, 145.22971, 158.15114, 176.61739, 137.10643, 219.02962, 183.50491, 218.95045],
    [0.51324, 2.051689, 1.169795, 0.260356, 1.797613, 0.87054],
    23.102493,
)
# The same picture handed over as RGB, as ICE-Bench does.
DRAWN_SWAPPED = (
    [87.121002, 78.858406, 228.22168, 257.119751, 0.700976],
    [125.58336, 147.19028, 191.21111, 147.05167, 159.51115, 177.52866, 137.14798, 220.32181, 183.655, 220.41789],
    [0.603181, 1.634714, 0.565504, 0.646624, 1.149093, 0.641681],
    21.652134,
)


@pytest.mark.parametrize(("turn", "wanted"), [(1, DRAWN), (-1, DRAWN_SWAPPED)])
def test_a_drawn_face_is_what_the_insightface_package_says(local_weights: Load, turn: int, wanted: Any) -> None:
    (found,) = local_weights("arcface_mbf")([np.ascontiguousarray(drawn(320)[..., ::turn])])
    box, points, numbers, length = wanted
    np.testing.assert_allclose(np.append(found["boxes"][0], found["scores"]), box, atol=1e-3)
    np.testing.assert_allclose(found["points"][0].ravel(), points, atol=1e-3)
    # The warp rounds to 8 bit, and its matrix is float64 here: over 122 faces the cosine was above 0.999997.
    np.testing.assert_allclose(found["vectors"][0, :6], numbers, atol=0.01)
    assert np.linalg.norm(found["vectors"][0]) == pytest.approx(length, abs=0.01)


def test_the_vector_of_a_face_is_the_insightface_packages(local_weights: Load, pattern: Pattern) -> None:
    found = local_weights("arcface_mbf").vector(pattern(0, 112, 112))
    wanted = [-0.1799787, -0.1636622, -0.26744035, 0.24233562, 0.06549847, -0.29207993, 0.79536235, 0.01186185]
    np.testing.assert_allclose(found[:8], wanted, atol=1e-4)
    assert np.linalg.norm(found) == pytest.approx(6.935566, abs=1e-4)


@pytest.fixture
def photo(creval_mini: Path) -> Callable[[str], Pixels]:
    def load(name: str) -> Pixels:
        pixels = decode((creval_mini / "bench/image" / name).read_bytes())
        assert not isinstance(pixels, Failure)
        return pixels

    return load


def test_two_people_on_a_photograph_are_where_the_package_finds_them(
    local_weights: Load, photo: Callable[[str], Pixels]
) -> None:
    """The detector is surer of the smaller face."""
    (found,) = local_weights("arcface_mbf")([photo("i2i_0068.jpg")])
    wanted = [[426.497131, 213.590012, 482.229492, 284.034485], [228.880417, 198.025848, 282.17807, 268.483917]]
    np.testing.assert_allclose(found["boxes"], wanted, atol=0.05)
    np.testing.assert_allclose(found["scores"], [0.691085, 0.868159], atol=1e-3)
    assert found["order"].tolist() == [1, 0]
    lengths = np.linalg.norm(found["vectors"], axis=1)
    np.testing.assert_allclose(lengths, [16.443724, 21.674986], atol=0.05)
    assert found["vectors"][0] @ found["vectors"][1] / lengths.prod() == pytest.approx(0.011944, abs=2e-3)


def test_the_same_face_is_nearer_than_another(local_weights: Load, photo: Callable[[str], Pixels]) -> None:
    network = local_weights("arcface_mbf")
    names = ("laion_-1301993215697188132.jpg", "laion_2373479627780162056.jpg", "i2i_0023.jpg", "v2v_785.png")
    pictures = [photo(name) for name in names]
    vectors = np.array([found["vectors"][0] / np.linalg.norm(found["vectors"][0]) for found in network(pictures)])
    assert (vectors @ vectors.T)[~np.eye(len(names), dtype=bool)].max() < 0.25
    for vector, pixels in zip(vectors, pictures, strict=True):
        height, width = pixels.shape[:2]
        brighter = np.clip(pixels.astype(int) * 1.3 + 15, 0, 255).astype(np.uint8)
        for changed in (pixels[:, ::-1], brighter, resize(pixels, (width // 2, height // 2))):
            (found,) = network([np.ascontiguousarray(changed)])
            others = found["vectors"] / np.linalg.norm(found["vectors"], axis=1, keepdims=True)
            assert (others @ vector).max() > 0.6
