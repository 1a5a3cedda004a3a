"""Depth networks on tiny weights of the real architectures, prepared as the original code prepares, and their metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from refbench.extractors.depth import depth as depth_extractor
from refbench.failure import Failure
from refbench.metrics.depth import depth_l1, stretched_depth_mse
from refbench.metrics.metric import find_metric
from refbench.metrics.pixels import map_mse
from refbench.networks.large import depth
from refbench.networks.large.depth import DptHybrid, depth_anything_v2_base
from refbench.networks.large.forward import stretched
from refbench.pictures import Pixels
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")
F = torch.nn.functional


@pytest.fixture(scope="module")
def any_folder(tmp_path_factory: pytest.TempPathFactory, with_random_weights: Callable[[Any], Any]) -> Path:
    folder = tmp_path_factory.mktemp("depth_anything")
    backbone = transformers.Dinov2Config(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, image_size=518, patch_size=14,
        out_indices=[1, 2, 3, 4], apply_layernorm=True, reshape_hidden_states=False,
    )  # fmt: skip
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=32, neck_hidden_sizes=[8, 16, 24, 32],
        fusion_hidden_size=16, head_hidden_size=8, patch_size=14,
    )  # fmt: skip
    model = with_random_weights(transformers.DepthAnythingForDepthEstimation(config))
    with torch.no_grad():  # random weights may end below zero everywhere, where the last ReLU leaves nothing
        model.head.conv3.weight.abs_()
        model.head.conv3.bias.fill_(1.0)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def dpt_folder(tmp_path_factory: pytest.TempPathFactory, with_random_weights: Callable[[Any], Any]) -> Path:
    folder = tmp_path_factory.mktemp("dpt")
    config = transformers.DPTConfig(
        is_hybrid=True, hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64, image_size=128,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 32, 32, 32], fusion_hidden_size=16,
        backbone_featmap_shape=[1, 64, 8, 8],
        backbone_config={
            "model_type": "bit", "global_padding": "same", "layer_type": "bottleneck", "depths": [1, 1, 2],
            "embedding_size": 16, "hidden_sizes": [16, 32, 64, 128], "num_groups": 4,
            "out_features": ["stage1", "stage2", "stage3"], "embedding_dynamic_padding": True,
        },
    )  # fmt: skip
    model = with_random_weights(transformers.DPTForDepthEstimation(config))
    with torch.no_grad():
        model.head.head[4].weight.abs_()
        model.head.head[4].bias.fill_(1.0)
    model.save_pretrained(folder)
    return folder


def official_positions(embedding: Any, height: int, width: int) -> Any:
    """As DINOv2 interpolates them: by a factor that is a tenth of a patch too large."""
    side = int((embedding.shape[1] - 1) ** 0.5)
    if (height // 14, width // 14) == (side, side):
        return embedding
    grid = embedding[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
    factor = ((height // 14 + 0.1) / side, (width // 14 + 0.1) / side)
    made = F.interpolate(grid, scale_factor=factor, mode="bicubic", antialias=False)
    assert made.shape[-2:] == (height // 14, width // 14)
    return torch.cat([embedding[:, :1], made.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


def official_depth(model: Any, picture: Pixels) -> Any:
    """The original's infer_image, step by step, with transformers' own model in the middle."""
    height, width = picture.shape[:2]
    scale = max(518 / height, 518 / width)

    def fit(side: float) -> int:
        made = int(np.round(side / 14) * 14)
        return made if made >= 518 else int(np.ceil(side / 14) * 14)

    new = fit(scale * width), fit(scale * height)
    image = cv2.resize(picture / 255.0, new, interpolation=cv2.INTER_CUBIC)
    image = (image - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with torch.no_grad():
        made = model(torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float32))).predicted_depth
        made = F.interpolate(F.relu(made)[:, None], (height, width), mode="bilinear", align_corners=True)
    return made[0, 0].numpy()


@pytest.mark.parametrize("size", [(518, 518), (64, 64), (91, 37), (33, 60)])
def test_depth_is_that_of_the_originals_own_steps(
    any_folder: Path, picture_by_rule: Any, size: tuple[int, int]
) -> None:
    model = transformers.DepthAnythingForDepthEstimation.from_pretrained(any_folder).eval()
    embeddings = model.backbone.embeddings
    embeddings.interpolate_pos_encoding = lambda x, h, w: official_positions(embeddings.position_embeddings, h, w)
    picture = picture_by_rule(3, *size)
    (found,) = depth_anything_v2_base(any_folder)([picture])
    assert not isinstance(found, Failure)
    assert found["map"].dtype == np.float32
    assert found["map"].shape == size
    assert found["map"].std() > 1e-3
    np.testing.assert_allclose(found["map"], official_depth(model, picture), atol=1e-4)


def test_a_square_of_the_networks_own_size_is_what_transformers_gives(any_folder: Path, picture_by_rule: Any) -> None:
    model = transformers.DepthAnythingForDepthEstimation.from_pretrained(any_folder).eval()
    picture = picture_by_rule(1, 518, 518)
    (found,) = depth_anything_v2_base(any_folder)([picture])
    assert not isinstance(found, Failure)
    np.testing.assert_allclose(found["map"], official_depth(model, picture), atol=1e-4)


@pytest.mark.parametrize(
    ("size", "wanted"),
    [((518, 518), (518, 518)), ((480, 640), (518, 686)), ((1024, 768), (686, 518)), ((1000, 1001), (518, 518)), ((100, 51), (1022, 518))],
)  # fmt: skip
def test_the_shorter_side_is_at_least_518_and_both_are_multiples_of_14(
    size: tuple[int, int], wanted: tuple[int, int]
) -> None:
    assert depth.depth_anything_size(*size) == wanted


def test_batches_change_nothing(any_folder: Path, dpt_folder: Path, picture_by_rule: Any) -> None:
    pictures = [picture_by_rule(n, *size) for n, size in enumerate([(70, 70), (70, 70), (128, 64), (70, 70)])]
    for network in (depth_anything_v2_base(any_folder), DptHybrid(dpt_folder)):
        together = network(pictures)
        alone = [network([picture])[0] for picture in pictures]
        for one, other in zip(together, alone, strict=True):
            assert not isinstance(one, Failure)
            assert not isinstance(other, Failure)
            np.testing.assert_allclose(
                one["map"].astype(float), other["map"], atol=1e-4 if one["map"].dtype != np.uint8 else 1
            )


def test_a_strip_is_refused_and_not_turned_into_thousands_of_patches(any_folder: Path) -> None:
    strip = np.zeros((10, 1000, 3), np.uint8)
    assert isinstance(depth_anything_v2_base(any_folder)([strip])[0], Failure)


def test_dpt_of_its_own_size_is_what_transformers_gives(dpt_folder: Path, picture_by_rule: Any) -> None:
    model = transformers.DPTForDepthEstimation.from_pretrained(dpt_folder).eval()
    pixels = torch.from_numpy(picture_by_rule(2, 128, 128).transpose(2, 0, 1)[None].astype(np.float32) / 127.5 - 1)
    with torch.no_grad():
        wanted = model(pixels).predicted_depth
        found = DptHybrid(dpt_folder).depth(pixels)
    assert wanted.std() > 1e-3
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_dpt_gives_a_grey_picture_of_the_pictures_size_from_black_to_white(
    dpt_folder: Path, picture_by_rule: Any
) -> None:
    for size in [(128, 128), (130, 70), (63, 200)]:
        (found,) = DptHybrid(dpt_folder)([picture_by_rule(5, *size)])
        assert not isinstance(found, Failure)
        assert found["map"].dtype == np.uint8
        assert found["map"].shape == size
    network = DptHybrid(dpt_folder)
    picture = picture_by_rule(5, 192, 128)
    with torch.inference_mode():
        raw = network.depth(torch.from_numpy(depth.prepare_midas(picture)[None]))[0].numpy()
    raw = raw - raw.min()
    wanted = (raw / raw.max() * 255).astype(np.uint8)
    (found,) = network([picture])
    np.testing.assert_allclose(
        found["map"].astype(int), cv2.resize(wanted, (128, 192), interpolation=cv2.INTER_AREA), atol=1
    )  # type: ignore[index]


@pytest.mark.parametrize(
    ("size", "wanted"),
    [((512, 512), (512, 512)), ((2048, 1024), (2048, 1024)), ((2000, 3000), (1024, 1536)), ((300, 500), (320, 512)), ((30, 60), (0, 64))],
)  # fmt: skip
def test_midas_sees_multiples_of_64_and_at_most_1024_on_the_shorter_side(
    size: tuple[int, int], wanted: tuple[int, int]
) -> None:
    assert depth.midas_size(*size) == wanted


def test_a_picture_too_small_for_midas_is_a_failure(dpt_folder: Path) -> None:
    assert isinstance(DptHybrid(dpt_folder)([np.zeros((20, 20, 3), np.uint8)])[0], Failure)


def test_a_map_is_stretched_and_a_constant_one_is_undefined() -> None:
    np.testing.assert_array_equal(stretched(np.array([[1.0, 2.0, 3.0]], np.float32)), [[0, 127, 255]])
    constant = stretched(np.ones((4, 4), np.float32))
    assert isinstance(constant, Failure)
    assert constant.kind == "undefined"


def test_depth_mse_is_the_papers_and_undefined_for_a_constant_depth() -> None:
    assert find_metric("depth_mse@depth_anything_v2_base", "paper") is find_metric("depth_mse@depth_anything_v2_base")
    rng = np.random.default_rng(0)
    seen = rng.random((40, 30)).astype(np.float32)
    whole = stretched(seen)
    assert not isinstance(whole, Failure)
    reference = rng.integers(0, 256, (80, 60)).astype(np.uint8)
    assert stretched_depth_mse({"map": seen}, whole) == pytest.approx(0)
    assert stretched_depth_mse({"map": seen}, reference) == pytest.approx(map_mse(whole, reference))
    assert isinstance(stretched_depth_mse({"map": np.zeros((4, 4), np.float32)}, reference), Failure)


def test_depth_l1_compares_at_the_sources_size() -> None:
    shapes = []

    def network(pictures: Any) -> Any:
        shapes.extend(picture.shape for picture in pictures)
        return [{"map": np.full(picture.shape[:2], 51, np.uint8)} for picture in pictures]

    value = depth_l1(np.zeros((20, 20, 3), np.uint8), np.zeros((40, 64, 3), np.uint8), network)
    assert shapes == [(40, 64, 3)]
    assert value == pytest.approx(0.8)


def test_the_real_weights_folder_serves_extractor_and_metric(
    any_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture_by_rule: Any
) -> None:
    from refbench.metrics.measure import measure
    from refbench.networks import network as registry

    folder = tmp_path / "hub" / "depth_anything_v2_base"
    folder.parent.mkdir()
    folder.symlink_to(any_folder)
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(registry, "_LOADED", {})
    picture = picture_by_rule(4, 60, 48)
    made = depth_extractor(picture)
    assert not isinstance(made, Failure)
    assert (made.min(), made.max(), made.shape) == (0, 255, (60, 48))
    found = measure(
        "depth_mse@depth_anything_v2_base", output=picture, reference=np.repeat(made[:, :, None], 3, axis=2)
    )
    assert found.value == pytest.approx(0, abs=1e-4)


def test_weights_of_another_network_are_refused(dpt_folder: Path, any_folder: Path) -> None:
    mixed = {"config.json": any_folder / "config.json", "model.safetensors": dpt_folder / "model.safetensors"}
    with pytest.raises(RefBenchError, match="is not the file of depth_anything_v2_base"):
        depth_anything_v2_base(mixed)


def test_bf16_runs_and_agrees_within_a_hundredth(any_folder: Path, dpt_folder: Path, picture_by_rule: Any) -> None:
    picture = picture_by_rule(5, 128, 192)
    for kind, folder in ((depth_anything_v2_base, any_folder), (DptHybrid, dpt_folder)):
        (one,), (other,) = kind(folder)([picture]), kind(folder, dtype="bf16")([picture])
        assert not isinstance(one, Failure)
        assert not isinstance(other, Failure)
        span = float(one["map"].max()) - float(one["map"].min())
        assert np.abs(one["map"].astype(float) - other["map"]).mean() < 0.05 * max(span, 1.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_depth(any_folder: Path, dpt_folder: Path, picture_by_rule: Any) -> None:
    picture = picture_by_rule(5, 128, 192)
    (one,), (other,) = (
        depth_anything_v2_base(any_folder)([picture]),
        depth_anything_v2_base(any_folder, "cuda")([picture]),
    )
    np.testing.assert_allclose(one["map"], other["map"], atol=2e-3)  # type: ignore[index]
    (one,), (other,) = DptHybrid(dpt_folder)([picture]), DptHybrid(dpt_folder, "cuda")([picture])
    assert np.abs(one["map"].astype(int) - other["map"]).max() <= 2  # type: ignore[index]
