"""HigherHRNet on random weights, slim, under the names of the published checkpoint, against torch's own layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from refbench.failure import Failure
from refbench.networks.large import higherhrnet
from refbench.networks.large.higherhrnet import HigherHRNet, folded_convolutions
from refbench.pictures import Pixels
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
nn = torch.nn


def conv(inside: int, out: int, size: int, stride: int = 1) -> list[Any]:
    return [nn.Conv2d(inside, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out)]


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, inside: int, *widths: tuple[int, int]) -> None:
        super().__init__()
        self.count = len(widths)
        before = inside
        for n, (out, size) in enumerate(widths, 1):
            layer, norm = conv(before, out, size)
            setattr(self, f"conv{n}", layer)
            setattr(self, f"bn{n}", norm)
            before = out
        self.downsample = nn.Sequential(*conv(inside, before, 1)) if before != inside else None

    def forward(self, x: Any) -> Any:
        y = x
        for n in range(1, self.count + 1):
            y = getattr(self, f"bn{n}")(getattr(self, f"conv{n}")(y))
            y = torch.relu(y) if n < self.count else y
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class Module(nn.Module):  # type: ignore[misc]
    def __init__(self, widths: list[int], outputs: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*(Block(w, (w, 3), (w, 3)) for _ in range(4))) for w in widths)
        self.fuse_layers = nn.ModuleList()
        for i in range(outputs):
            row = nn.ModuleList()
            for j, width in enumerate(widths):
                if j > i:
                    row.append(
                        nn.Sequential(
                            *conv(width, widths[i], 1), nn.Upsample(scale_factor=2 ** (j - i), mode="nearest")
                        )
                    )
                elif j == i:
                    row.append(nn.Identity())
                else:
                    steps = [nn.Sequential(*conv(width, width, 3, 2), nn.ReLU()) for _ in range(i - j - 1)]
                    row.append(nn.Sequential(*steps, nn.Sequential(*conv(width, widths[i], 3, 2))))
            self.fuse_layers.append(row)

    def forward(self, xs: list[Any]) -> list[Any]:
        xs = [branch(x) for branch, x in zip(self.branches, xs, strict=True)]
        return [torch.relu(sum(layer(x) for layer, x in zip(row, xs, strict=True))) for row in self.fuse_layers]


class Reference(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(3, 8, 3, 2)
        self.conv2, self.bn2 = conv(8, 8, 3, 2)
        self.layer1 = nn.Sequential(
            Block(8, (8, 1), (8, 3), (32, 1)), *(Block(32, (8, 1), (8, 3), (32, 1)) for _ in range(3))
        )
        widths = [width * 2**n for n in range(4)]

        def new(inside: int, out: int) -> Any:
            return nn.Sequential(nn.Sequential(*conv(inside, out, 3, 2), nn.ReLU()))

        self.transition1 = nn.ModuleList([nn.Sequential(*conv(32, widths[0], 3), nn.ReLU()), new(32, widths[1])])
        self.transition2 = nn.ModuleList([nn.Identity(), nn.Identity(), new(widths[1], widths[2])])
        self.transition3 = nn.ModuleList([nn.Identity()] * 3 + [new(widths[2], widths[3])])
        self.stage2 = nn.Sequential(Module(widths[:2], 2))
        self.stage3 = nn.Sequential(*(Module(widths[:3], 3) for _ in range(4)))
        self.stage4 = nn.Sequential(Module(widths, 4), Module(widths, 4), Module(widths, 1))
        self.final_layers = nn.ModuleList([nn.Conv2d(width, 34, 1), nn.Conv2d(width, 17, 1)])
        up = nn.Sequential(nn.ConvTranspose2d(width + 34, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        blocks = [nn.Sequential(Block(width, (width, 3), (width, 3))) for _ in range(4)]
        self.deconv_layers = nn.ModuleList([nn.Sequential(up, *blocks)])

    def forward(self, x: Any) -> tuple[Any, Any]:
        x = torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))
        x = self.layer1(x)
        xs = self.stage2([layer(x) for layer in self.transition1])
        xs = self.stage3([*xs, self.transition2[2](xs[-1])])
        xs = self.stage4([*xs, self.transition3[3](xs[-1])])
        coarse = self.final_layers[0](xs[0])
        return coarse, self.final_layers[1](self.deconv_layers[0](torch.cat([xs[0], coarse], 1)))


@pytest.fixture(scope="module")
def reference() -> Any:
    torch.manual_seed(3)
    made = Reference().eval()
    for name, value in made.named_buffers():
        if name.endswith("running_mean"):
            value.normal_(0, 0.2)
        elif name.endswith("running_var"):
            value.uniform_(0.5, 2)
    return made


@pytest.fixture(scope="module")
def hrnet_folder(tmp_path_factory: pytest.TempPathFactory, reference: Any) -> Path:
    folder = tmp_path_factory.mktemp("higherhrnet")
    torch.save(reference.state_dict(), folder / "pose_higher_hrnet_w32_512.pth")
    return folder


def test_both_maps_are_those_of_the_published_architecture(reference: Any) -> None:
    pixels = torch.randn(2, 3, 128, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = reference(pixels)
        found = higherhrnet.HigherHRNetNetwork(folded_convolutions(reference.state_dict()))(pixels)
    for one, other in zip(found, wanted, strict=True):
        assert other.std() > 1e-3
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_heat_is_the_mean_over_both_resolutions_and_the_mirror_image(
    reference: Any, hrnet_folder: Path, picture_by_rule: Any
) -> None:
    pixels = torch.from_numpy(higherhrnet.prepare_higherhrnet(picture_by_rule(2, 70, 90))[None])
    pairs = [0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15]
    up = nn.functional.interpolate
    with torch.no_grad():
        parts = []
        for image in (pixels, torch.flip(pixels, [3])):
            coarse, fine = reference(image)
            coarse = up(coarse, fine.shape[2:], mode="bilinear")
            parts.append(((coarse[:, :17] + fine) / 2, coarse[:, 17:]))
        mirrored = [torch.flip(part, [3])[:, pairs] for part in parts[1]]
        wanted = [
            up((parts[0][0] + mirrored[0]) / 2, (512, 512), mode="bilinear"),
            up(parts[0][1], (512, 512), mode="bilinear"),
            up(mirrored[1], (512, 512), mode="bilinear"),
        ]
        found = HigherHRNet(hrnet_folder)._heat_and_tags(pixels)
    torch.testing.assert_close(found, torch.cat(wanted, 1), atol=1e-4, rtol=1e-4)


def test_a_file_of_another_network_is_refused(tmp_path: Path) -> None:
    torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "pose_higher_hrnet_w32_512.pth")
    with pytest.raises(RefBenchError, match="stage4"):
        HigherHRNet(tmp_path)


def test_higherhrnet_runs_on_whole_pictures_and_batches_change_nothing(hrnet_folder: Path, tmp_path: Path) -> None:
    """With the heat of random weights lowered until a few peaks are left: of noise there are hundreds."""
    noise = np.random.default_rng(0).integers(0, 256, (2, 60, 80, 3)).astype(np.uint8)
    pictures: list[Pixels] = [np.asarray(cv2.GaussianBlur(picture, (0, 0), 6), np.uint8) for picture in noise]
    pixels = torch.from_numpy(np.stack([higherhrnet.prepare_higherhrnet(picture) for picture in pictures]))
    with torch.inference_mode():
        heat = HigherHRNet(hrnet_folder)._heat_and_tags(pixels)[:, :17]
    state = torch.load(hrnet_folder / "pose_higher_hrnet_w32_512.pth", weights_only=True)
    lower = heat.amax((0, 2, 3)) - 0.103
    lower = torch.maximum(lower, lower[higherhrnet._MIRRORED,])
    state["final_layers.1.bias"] -= 2 * lower  # the fine map is half of the heat; the coarse one feeds the fine one
    torch.save(state, tmp_path / "pose_higher_hrnet_w32_512.pth")
    network = HigherHRNet(tmp_path)
    counts = []
    for one, picture in zip(network(pictures), pictures, strict=True):
        other = network([picture])[0]
        assert not isinstance(one, Failure)
        assert not isinstance(other, Failure)
        np.testing.assert_array_equal(one["keypoints"], other["keypoints"])
        counts.append(len(one["keypoints"]))
    assert 1 <= max(counts) < 40, counts


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_maps(hrnet_folder: Path, picture_by_rule: Any) -> None:
    pixels = torch.from_numpy(higherhrnet.prepare_higherhrnet(picture_by_rule(2, 70, 90))[None])
    with torch.inference_mode():
        here = HigherHRNet(hrnet_folder)._heat_and_tags(pixels)
        there = HigherHRNet(hrnet_folder, "cuda")._heat_and_tags(pixels.cuda()).cpu()
    torch.testing.assert_close(there, here, atol=2e-3, rtol=2e-3)
