"""The drawing network on random weights of the real architecture, against torch's own layers, and its metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.extractors.sketch import sketch
from refbench.failure import Failure
from refbench.metrics.edges import sketch_mse
from refbench.networks.large.drawings import informative_drawings, prepare_drawing
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
nn = torch.nn


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        one = [nn.ReflectionPad2d(1), nn.Conv2d(256, 256, 3), nn.InstanceNorm2d(256), nn.ReLU()]
        self.conv_block = nn.Sequential(*one, nn.ReflectionPad2d(1), nn.Conv2d(256, 256, 3), nn.InstanceNorm2d(256))

    def forward(self, x: Any) -> Any:
        return x + self.conv_block(x)


class Reference(nn.Module):  # type: ignore[misc]
    """The published architecture in torch's layers, under the names of its checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.model0 = nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 64, 7), nn.InstanceNorm2d(64), nn.ReLU())
        down = [[nn.Conv2d(n, 2 * n, 3, stride=2, padding=1), nn.InstanceNorm2d(2 * n), nn.ReLU()] for n in (64, 128)]
        self.model1 = nn.Sequential(*down[0], *down[1])
        self.model2 = nn.Sequential(*(Residual() for _ in range(3)))
        up = [
            [nn.ConvTranspose2d(2 * n, n, 3, stride=2, padding=1, output_padding=1), nn.InstanceNorm2d(n), nn.ReLU()]
            for n in (128, 64)
        ]
        self.model3 = nn.Sequential(*up[0], *up[1])
        self.model4 = nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(64, 1, 7), nn.Sigmoid())

    def forward(self, x: Any) -> Any:
        for part in (self.model0, self.model1, self.model2, self.model3, self.model4):
            x = part(x)
        return x


@pytest.fixture(scope="module")
def reference() -> Any:
    torch.manual_seed(0)
    return Reference().eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, reference: Any) -> Path:
    made = tmp_path_factory.mktemp("drawings")
    torch.save(reference.state_dict(), made / "netG_A_latest.pth")
    return made


@pytest.mark.parametrize("size", [(64, 64), (91, 37), (37, 91), (300, 200)])
def test_a_drawing_is_that_of_the_published_network(
    reference: Any, folder: Path, picture_by_rule: Any, size: tuple[int, int]
) -> None:
    picture = picture_by_rule(2, *size)
    short = min(size)
    small = Image.fromarray(picture).resize((256 * size[1] // short, 256 * size[0] // short), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.asarray(small).transpose(2, 0, 1)[None].copy()).float() / 255
    with torch.no_grad():
        wanted = reference(pixels)[0, 0].numpy()
    (found,) = informative_drawings(folder)([picture])
    assert not isinstance(found, Failure)
    assert found["map"].dtype == np.uint8
    assert abs(min(found["map"].shape) - 256) < 4
    np.testing.assert_allclose(found["map"], wanted * 255, atol=1 + 1e-2)
    assert found["map"].std() > 1


def test_batches_change_nothing(folder: Path, picture_by_rule: Any) -> None:
    network = informative_drawings(folder)
    pictures = [picture_by_rule(n, *size) for n, size in enumerate([(64, 64), (80, 64), (64, 64)])]
    for one, picture in zip(network(pictures), pictures, strict=True):
        assert not isinstance(one, Failure)
        np.testing.assert_allclose(one["map"].astype(int), network([picture])[0]["map"], atol=1)  # type: ignore[index]


def test_a_strip_is_refused() -> None:
    assert isinstance(prepare_drawing(np.zeros((2, 100, 3), np.uint8)), Failure)


def test_a_file_without_a_layer_is_refused(tmp_path: Path, reference: Any) -> None:
    state = {name: value for name, value in reference.state_dict().items() if not name.startswith("model2.2")}
    torch.save(state, tmp_path / "netG_A_latest.pth")
    with pytest.raises(RefBenchError, match=r"model2\.2"):
        informative_drawings(tmp_path)


def test_the_picture_itself_has_no_error_and_another_has(
    folder: Path, picture_by_rule: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from refbench.networks import network as registry

    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "informative_drawings").symlink_to(folder)
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    monkeypatch.setattr(registry, "_LOADED", {})
    first, second = (picture_by_rule(n, 80, 60) for n in (1, 6))
    drawn = sketch(first)
    assert not isinstance(drawn, Failure)
    network = informative_drawings(folder)
    same, other = network([first, second])
    assert not isinstance(same, Failure)
    assert not isinstance(other, Failure)
    assert sketch_mse(same, drawn) == pytest.approx(0, abs=1e-5)
    assert sketch_mse(other, drawn) > sketch_mse(same, drawn)
