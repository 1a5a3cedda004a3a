"""OpenPose's network against torch's own layers, and its decoder on maps that are drawn from known people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from refbench.extractors.line_skeleton import draw_skeletons
from refbench.extractors.pose import draw_openpose
from refbench.failure import Failure
from refbench.metrics.metric import find_metric
from refbench.metrics.neural_poses import openpose_l1_paper, sure_pose_f1
from refbench.networks.neural import openpose, openpose_people
from refbench.networks.neural.openpose import OpenPoseBody, feature
from refbench.networks.neural.openpose_people import find_bodies, find_peaks
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
nn = torch.nn

PERSON = np.array([
    (60, 20), (60, 40), (45, 40), (40, 60), (38, 80), (75, 40), (80, 60), (82, 80), (52, 85),
    (50, 110), (50, 135), (68, 85), (70, 110), (70, 135), (57, 16), (63, 16), (52, 18), (68, 18),
], np.float64)  # fmt: skip
"""OpenPose's 18 joints of somebody who faces us, in a picture of 150 x 200."""


def drawn_maps(people: list[NDArray[Any]], shape: tuple[int, int] = (150, 200)) -> tuple[Any, Any]:
    """Maps as the network would give them of these people: hills at joints, unit vectors along limbs."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    joints = np.zeros((*shape, 18), np.float32)
    limbs = np.zeros((*shape, 38), np.float32)
    for person in people:
        for number, (px, py) in enumerate(person):
            if px >= 0:
                hill = np.exp(-((x - px) ** 2 + (y - py) ** 2) / 2 / 5**2)
                joints[:, :, number] = np.maximum(joints[:, :, number], hill)
        for number, (a, b) in enumerate(openpose_people.LIMBS):
            if min(person[a][0], person[b][0]) < 0:
                continue
            line = np.zeros(shape, np.uint8)
            cv2.line(line, [int(v) for v in person[a]], [int(v) for v in person[b]], 1, 5)
            away = person[b] - person[a]
            channel = openpose_people._FIELDS[number]
            limbs[line > 0, channel : channel + 2] = away / np.linalg.norm(away)
    return joints, limbs


def test_people_are_put_together_from_their_joints_and_limbs() -> None:
    other = PERSON + [90, 5]
    bodies = find_bodies(*drawn_maps([PERSON, other]))
    assert len(bodies) == 2
    for body, person in zip(sorted(bodies, key=lambda b: b.joints[0, 0]), [PERSON, other], strict=True):
        np.testing.assert_allclose(body.joints[:, :2], person, atol=1)
        assert (body.joints[:, 2] > 0.9).all()


def test_two_halves_are_joined_by_the_limb_between_them() -> None:
    """Neck to hip comes after the arms: until then the legs are nobody's."""
    bodies = find_bodies(*drawn_maps([PERSON]))
    assert len(bodies) == 1


def test_joints_that_are_not_there_stay_unseen() -> None:
    half = PERSON.copy()
    half[[9, 10, 12, 13]] = -1
    (body,) = find_bodies(*drawn_maps([half]))
    np.testing.assert_array_equal(body.joints[[9, 10, 12, 13]], 0)
    assert np.count_nonzero(body.joints[:, 2]) == 14


def test_fewer_than_four_parts_are_nobody() -> None:
    arm = np.full_like(PERSON, -1)
    arm[[2, 3, 4]] = PERSON[[2, 3, 4]]
    assert find_bodies(*drawn_maps([arm])) == []
    arm[1] = PERSON[1]
    assert len(find_bodies(*drawn_maps([arm]))) == 1


def test_nobody_is_empty_arrays() -> None:
    found = feature(find_bodies(np.zeros((40, 30, 18), np.float32), np.zeros((40, 30, 38), np.float32)), (40, 30))
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {"keypoints": (0, 17, 3), "keypoints18": (0, 18, 3), "scores": (0,), "boxes": (0, 4), "size": (2,)}


def test_a_limb_against_the_field_is_none() -> None:
    joints, limbs = drawn_maps([PERSON])
    assert find_bodies(joints, -limbs) == []


def test_peaks_are_those_of_the_official_filter() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    rng = np.random.default_rng(3)
    heat = ndimage.gaussian_filter(rng.random((60, 90)), 4).astype(np.float32)
    heat = (heat - heat.min()) / (heat.max() - heat.min())
    smooth = ndimage.gaussian_filter(heat.astype(np.float64), sigma=3)
    padded = np.pad(smooth, 1)
    wanted = np.ones(heat.shape, dtype=bool)
    for dy, dx in ((0, 1), (2, 1), (1, 0), (1, 2)):
        wanted &= smooth >= padded[dy : dy + 60, dx : dx + 90]
    wanted &= smooth > 0.1
    assert {(p.x, p.y) for p in find_peaks(heat)} == {(x, y) for y, x in zip(*np.nonzero(wanted), strict=True)}


def test_coco_joints_are_the_same_places_without_the_neck() -> None:
    (body,) = find_bodies(*drawn_maps([PERSON]))
    found = feature([body], (150, 200))
    nose, left_eye, right_eye, left_ear, right_ear, left_shoulder, right_shoulder = found["keypoints"][0, :7, :2]
    assert [left_eye[0] > nose[0], left_ear[0] > left_eye[0], left_shoulder[0] > right_shoulder[0]] == [True] * 3
    assert right_eye[0] > right_ear[0]
    assert set(openpose.TO_COCO) == set(range(18)) - {1}
    x1, y1, x2, y2 = found["boxes"][0]
    np.testing.assert_allclose([x1, y1, x2, y2], [*PERSON.min(axis=0), *PERSON.max(axis=0)], atol=1)


class Reference(nn.Module):  # type: ignore[misc]
    """The published architecture: VGG's first ten layers, a first stage of 3 x 3 and five of 7 x 7."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        trunk: list[tuple[str, Any]] = []
        inside = 3
        for name in [name for group in openpose.TRUNK for name in group]:
            if name in ("conv2_1", "conv3_1", "conv4_1"):
                trunk.append((f"pool_{name}", nn.MaxPool2d(2, 2)))
            trunk += [(name, nn.Conv2d(inside, width, 3, 1, 1)), (f"relu_{name}", nn.ReLU())]
            inside = width
        self.trunk = nn.ModuleDict(trunk)
        self.stages = nn.ModuleList()
        for number in range(6):
            branches = nn.ModuleDict()
            for branch, out in ((1, 38), (2, 19)):
                sizes = [3, 3, 3, 1, 1] if number == 0 else [7] * 5 + [1, 1]
                names = [f"conv5_{n}_CPM_L{branch}" for n in range(1, 6)] if number == 0 else [f"Mconv{n}_stage{number + 1}_L{branch}" for n in range(1, 8)]
                layers, before = [], width if number == 0 else width + 57
                for name, size in zip(names, sizes, strict=True):
                    after = out if name == names[-1] else width
                    layers.append((name, nn.Conv2d(before, after, size, 1, size // 2)))
                    before = after
                branches[str(branch)] = nn.ModuleDict(layers)
            self.stages.append(branches)

    def forward(self, x: Any) -> tuple[Any, Any]:
        for layer in self.trunk.values():
            x = layer(x)
        seen = x
        for stage in self.stages:
            out = []
            for branch in ("1", "2"):
                y = seen
                layers = list(stage[branch].values())
                for layer in layers[:-1]:
                    y = torch.relu(layer(y))
                out.append(layers[-1](y))
            seen = torch.cat([*out, x], 1)
        return out[0], out[1]


@pytest.fixture(scope="module")
def reference() -> Any:
    torch.manual_seed(1)
    return Reference().eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, reference: Any) -> Path:
    made = tmp_path_factory.mktemp("openpose")
    state = {".".join(name.split(".")[-2:]): value for name, value in reference.state_dict().items()}
    torch.save(state, made / "body_pose_model.pth")
    return made


def test_the_file_holds_the_92_layers_of_the_published_checkpoint() -> None:
    assert len(openpose.layers()) == len(set(openpose.layers())) == 92


@pytest.mark.parametrize("size", [(64, 64), (91, 37), (37, 91)])
def test_maps_are_those_of_the_published_network(reference: Any, folder: Path, picture_by_rule: Any, size: tuple[int, int]) -> None:
    picture = picture_by_rule(3, *size)
    blue_first = np.ascontiguousarray(picture[:, :, ::-1])
    scale = 0.5 * 368 / size[0]
    small = cv2.resize(blue_first, (0, 0), fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    height, width = small.shape[:2]
    padded = np.full((-(-height // 8) * 8, -(-width // 8) * 8, 3), 128, np.uint8)
    padded[:height, :width] = small
    with torch.no_grad():
        limbs, joints = reference(torch.from_numpy(padded.transpose(2, 0, 1)[None].astype(np.float32) / 256 - 0.5))
    prepared = openpose.prepare_openpose(picture)
    assert not isinstance(prepared, Failure)
    network = OpenPoseBody(folder)
    with torch.no_grad():
        found = network._network(torch.from_numpy(prepared[None]))
    torch.testing.assert_close(found, torch.cat([limbs, joints], 1), atol=1e-4, rtol=1e-4)
    (people,) = network([picture])
    assert not isinstance(people, Failure)
    assert people["keypoints18"].shape[1:] == (18, 3)


def by_area(maps: Any, size: tuple[int, int]) -> Any:
    return np.stack([cv2.resize(m, size, interpolation=cv2.INTER_AREA) for m in np.moveaxis(maps, 2, 0)], axis=2)


def test_the_maps_of_a_known_person_come_back_at_the_pictures_size() -> None:
    """From maps at an eighth of 184 rows to pixels of a larger picture, past the padding."""
    shape = (300, 410)
    person = PERSON * 2
    joints, limbs = drawn_maps([person], shape)
    small = (round(410 * 184 / 300), 184)
    padded = (-(-small[0] // 8), 23)
    whole = np.concatenate([limbs, joints, np.zeros((*shape, 1), np.float32)], axis=2)
    # What the network sees of it: the picture reduced, with a margin at the right.
    reduced = by_area(whole, small)
    wide = np.zeros((184, padded[0] * 8, 57), np.float32)
    wide[:, : small[0]] = reduced
    maps = by_area(wide, padded).transpose(2, 0, 1)
    found = openpose.people(np.ascontiguousarray(maps), np.zeros((*shape, 3), np.uint8))
    assert len(found["keypoints18"]) == 1
    seen = found["keypoints18"][0]
    np.testing.assert_allclose(seen[seen[:, 2] > 0, :2], person[seen[:, 2] > 0], atol=8)
    assert np.count_nonzero(seen[:, 2]) >= 14


def test_batches_change_nothing(folder: Path, picture_by_rule: Any) -> None:
    network = OpenPoseBody(folder)
    pictures = [picture_by_rule(n, *size) for n, size in enumerate([(64, 64), (80, 64), (64, 64)])]
    for one, picture in zip(network(pictures), pictures, strict=True):
        other = network([picture])[0]
        assert not isinstance(one, Failure)
        assert not isinstance(other, Failure)
        np.testing.assert_allclose(one["keypoints18"], other["keypoints18"], atol=1e-4)


def test_a_file_without_a_layer_is_refused(tmp_path: Path, folder: Path) -> None:
    state = torch.load(folder / "body_pose_model.pth", weights_only=True)
    state.pop("Mconv7_stage6_L2.weight")
    torch.save(state, tmp_path / "body_pose_model.pth")
    with pytest.raises(RefBenchError, match="Mconv7_stage6_L2"):
        OpenPoseBody(tmp_path)


def test_skeletons_look_like_those_drawn_from_coco_joints() -> None:
    joints = np.concatenate([PERSON, np.ones((18, 1))], axis=1)[None]
    joints[0, 1, :2] = (joints[0, 2, :2] + joints[0, 5, :2]) / 2  # where COCO's neck would be
    ours = draw_skeletons(joints, (150, 200))
    other = draw_openpose(joints[:, openpose.TO_COCO], (150, 200))
    assert ours.any()
    # They differ by the rounding of a limb's angle to whole degrees, and by nothing else.
    assert np.count_nonzero((ours != other).any(axis=2)) < 0.1 * np.count_nonzero(other.any(axis=2))
    assert not draw_skeletons(joints * [1, 1, 0], (150, 200)).any()


def test_pose_l1_of_the_drawing_itself_is_one_and_of_nobody_nearly(folder: Path) -> None:
    (body,) = find_bodies(*drawn_maps([PERSON]))
    found = feature([body], (150, 200))
    source = draw_skeletons(found["keypoints18"], (150, 200))
    output = np.zeros((75, 100, 3), np.uint8)
    assert openpose_l1_paper(output, source, lambda pictures: [found for _ in pictures]) == pytest.approx(1, abs=5e-3)
    nobody = feature([], (150, 200))
    value = openpose_l1_paper(output, source, lambda pictures: [nobody for _ in pictures])
    assert isinstance(value, float)
    assert 0.8 < value < 0.99
    assert find_metric("pose_l1@openpose_body", "paper").function is openpose_l1_paper


def test_pose_f1_counts_joints_of_low_heat() -> None:
    (body,) = find_bodies(*drawn_maps([PERSON]))
    found = dict(feature([body], (150, 200)))
    source = draw_skeletons(found["keypoints18"], (150, 200))
    found["keypoints"] = found["keypoints"] * np.array([1, 1, 0.3], np.float32)
    value = sure_pose_f1(found, source=source)
    assert isinstance(value, float)
    assert value > 0.95
    assert sure_pose_f1(feature([], (150, 200)), source=source) == 0
    assert isinstance(sure_pose_f1(found, source=np.zeros_like(source)), Failure)
    assert find_metric("pose_f1@openpose_body").function is sure_pose_f1
