"""OpenPose's network on random weights under the names of its checkpoint, against torch's own layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from refbench.failure import Failure
from refbench.networks.large import openpose
from refbench.networks.large.openpose import openpose_body
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
nn = torch.nn


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
                names = (
                    [f"conv5_{n}_CPM_L{branch}" for n in range(1, 6)]
                    if number == 0
                    else [f"Mconv{n}_stage{number + 1}_L{branch}" for n in range(1, 8)]
                )
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
def test_maps_are_those_of_the_published_network(
    reference: Any, folder: Path, picture_by_rule: Any, size: tuple[int, int]
) -> None:
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
    network = openpose_body(folder)
    with torch.no_grad():
        found = network.forward(torch.from_numpy(prepared[None]))
    torch.testing.assert_close(found, torch.cat([limbs, joints], 1), atol=1e-4, rtol=1e-4)
    (people,) = network([picture])
    assert not isinstance(people, Failure)
    assert people["keypoints18"].shape[1:] == (18, 3)


def test_batches_change_nothing(folder: Path, picture_by_rule: Any) -> None:
    network = openpose_body(folder)
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
        openpose_body(tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_maps(folder: Path, picture_by_rule: Any) -> None:
    prepared = openpose.prepare_openpose(picture_by_rule(3, 80, 64))
    assert not isinstance(prepared, Failure)
    here, there = openpose_body(folder), openpose_body(folder, "cuda")
    pixels = torch.from_numpy(prepared[None])
    torch.testing.assert_close(there.forward(pixels.cuda()).cpu(), here.forward(pixels), atol=2e-3, rtol=2e-3)
    (found,) = there([picture_by_rule(3, 80, 64)])
    assert not isinstance(found, Failure)
