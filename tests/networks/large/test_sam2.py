"""SAM 2 on tiny weights of the real architecture: masks in boxes and by a grid, against transformers' own model used
step by step as SAM 2's generator uses it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.extractors import EXTRACTORS
from refbench.extractors.semantic_map import semantic_map
from refbench.failure import Failure
from refbench.networks import Feature
from refbench.networks.large.sam2 import LOW_IOU, STRICT, MaskSettings, Sam2, prepare_sam2
from refbench.pictures import Pixels
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")
F = torch.nn.functional

LOOSE = MaskSettings(4, 5, -9.0, 0.5, 0.02, 2.0, 0)
"""Random weights give masks that no real setting would keep: unsure, unstable, and all over the picture."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, with_random_weights: Callable[[Any], Any]) -> Path:
    made = tmp_path_factory.mktemp("sam2")
    backbone = {
        "model_type": "sam2_hiera_det_model", "hidden_size": 16, "image_size": [128, 128], "patch_kernel_size": [7, 7],
        "patch_stride": [4, 4], "patch_padding": [3, 3], "query_stride": [2, 2],
        "window_positional_embedding_background_size": [7, 7], "blocks_per_stage": [1, 1, 2, 1],
        "embed_dim_per_stage": [16, 32, 64, 128], "num_attention_heads_per_stage": [1, 2, 4, 8],
        "window_size_per_stage": [8, 4, 8, 4], "global_attention_blocks": [3],
    }  # fmt: skip
    config = transformers.Sam2Config(
        vision_config={
            "model_type": "sam2_vision_model", "backbone_config": backbone, "backbone_channel_list": [128, 64, 32, 16],
            "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]], "fpn_hidden_size": 32, "fpn_top_down_levels": [2, 3],
        },
        prompt_encoder_config={"hidden_size": 32, "image_size": 128, "patch_size": 16, "mask_input_channels": 8},
        mask_decoder_config={
            "hidden_size": 32, "mlp_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "iou_head_hidden_dim": 32,
        },
    )  # fmt: skip
    torch.manual_seed(0)
    with_random_weights(transformers.Sam2Model(config)).save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return transformers.Sam2Model.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def network(folder: Path) -> Sam2:
    return Sam2(folder)


def pixels_of(picture: Pixels) -> Any:
    """As SAM 2's own transforms: to [0, 1], squeezed with antialiasing, normalised."""
    x = torch.from_numpy(picture.transpose(2, 0, 1).copy())[None].float() / 255
    x = F.interpolate(x, (128, 128), mode="bilinear", antialias=True)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (x - mean[:, None, None]) / std[:, None, None]


def all_masks(model: Any, picture: Pixels, settings: MaskSettings) -> Any:
    """SAM 2's generator without any thrift: every mask at full size, all at once. Gives the map of numbers."""
    height, width = picture.shape[:2]
    places = np.linspace(0.5 / settings.side, 1 - 0.5 / settings.side, settings.side)
    points = torch.tensor([[x * 128, y * 128] for y in places for x in places], dtype=torch.float32)
    kept = []
    with torch.no_grad():
        pixels = pixels_of(picture)
        for point in points:
            first = model(
                pixel_values=pixels,
                input_points=point.reshape(1, 1, 1, 2),
                input_labels=torch.ones(1, 1, 1, dtype=torch.int32),
            )
            for number in range(3):
                mask, score = first.pred_masks[:, 0, number], first.iou_scores[0, 0, number]
                if settings.refined:
                    again = model(
                        pixel_values=pixels, input_points=point.reshape(1, 1, 1, 2),
                        input_labels=torch.ones(1, 1, 1, dtype=torch.int32),
                        input_masks=mask[:, None].clamp(-32, 32), multimask_output=False,
                    )  # fmt: skip
                    mask, score = again.pred_masks[:, 0, 0], again.iou_scores[0, 0, 0]
                if settings.least_area:
                    mask = cleaned_by_scipy(mask, settings.least_area)
                large = F.interpolate(mask[:, None], (height, width), mode="bilinear")[0, 0]
                low = int((large > -settings.offset).sum())
                if (
                    score > settings.least_iou
                    and low
                    and int((large > settings.offset).sum()) / low >= settings.least_stability
                ):
                    kept.append((float(score), (large > 0).numpy()))
    chosen: list[Any] = []
    for score, mask in sorted(kept, key=lambda k: -k[0]):
        y, x = np.nonzero(mask)
        box = (x.min(), y.min(), x.max(), y.max()) if len(x) else (0, 0, 0, 0)
        if not any(iou(box, other) > settings.overlap for _, _, other in chosen):
            chosen.append((score, mask, box))
    numbers = np.zeros((height, width), np.uint16)
    for number, (_, mask, _) in enumerate(sorted(chosen, key=lambda c: -int(c[1].sum())), 1):
        numbers[mask] = number
    return numbers, len(chosen)


def cleaned_by_scipy(mask: Any, least: int) -> Any:
    ndimage = pytest.importorskip("scipy.ndimage")
    made = mask[0].numpy().copy()
    for region, value in ((made <= 0, 10.0), (made > 0, -10.0)):
        labels, count = ndimage.label(region, structure=np.ones((3, 3)))
        for number in range(1, count + 1):
            if np.count_nonzero(labels == number) <= least:
                made[labels == number] = value
    return torch.from_numpy(made)[None]


def iou(a: Any, b: Any) -> float:
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union else 0.0


@pytest.mark.parametrize("size", [(128, 128), (60, 91), (91, 37)])
@pytest.mark.parametrize(("refined", "least_area"), [(False, 0), (True, 0), (True, 12)])
def test_the_regions_of_a_picture_are_those_of_sam2s_generator(
    network: Sam2, model: Any, picture_by_rule: Any, size: tuple[int, int], refined: bool, least_area: int
) -> None:
    settings = replace(LOOSE, refined=refined, least_area=least_area)
    picture = picture_by_rule(2, *size)
    wanted, count = all_masks(model, picture, settings)
    found = network.regions(picture, settings)
    assert not isinstance(found, Failure)
    assert len(found["scores"]) == len(found["areas"]) == count > 1
    assert found["map"].dtype == np.uint16
    assert list(found["areas"]) == sorted(found["areas"], reverse=True)
    assert np.mean(found["map"] == wanted) > 0.999


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_how_many_points_go_together_changes_nothing(network: Sam2, picture_by_rule: Any, batch: int) -> None:
    picture = picture_by_rule(4, 70, 90)
    settings = replace(LOOSE, refined=True)
    one, other = network.regions(picture, settings), network.regions(picture, replace(settings, batch=batch))
    assert not isinstance(one, Failure)
    assert not isinstance(other, Failure)
    np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-4)
    assert np.mean(one["map"] == other["map"]) > 0.999


def test_memory_that_runs_out_halves_the_points(
    network: Sam2, picture_by_rule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture, whole, tried = picture_by_rule(4, 70, 90), Sam2._masks, []

    def small(self: Sam2, picture: Pixels, settings: MaskSettings, batch: int) -> Any:
        tried.append(batch)
        if batch > 2:
            raise torch.OutOfMemoryError("out of memory")
        return whole(self, picture, settings, batch)

    wanted = network.regions(picture, LOOSE)
    monkeypatch.setattr(Sam2, "_masks", small)
    found = network.regions(picture, LOOSE)
    assert tried == [5, 2]
    np.testing.assert_array_equal(found["map"], wanted["map"])  # type: ignore[index]


@pytest.mark.parametrize("size", [(128, 128), (60, 91)])
def test_the_mask_in_a_box_is_that_of_transformers_model(
    network: Sam2, model: Any, picture_by_rule: Any, size: tuple[int, int]
) -> None:
    picture, box = picture_by_rule(3, *size), (10.0, 5.0, 50.0, 45.0)
    scale = torch.tensor([128 / size[1], 128 / size[0]] * 2)
    with torch.no_grad():
        made = model(
            pixel_values=pixels_of(picture),
            input_boxes=(torch.tensor(box) * scale).reshape(1, 1, 4),
            multimask_output=False,
        )
        wanted = F.interpolate(made.pred_masks[0], size, mode="bilinear")[0, 0].numpy() > 0
    found = network.in_box(picture, box)
    if not wanted.any():
        assert isinstance(found, Failure)
        return
    assert not isinstance(found, Failure)
    assert set(np.unique(found)) <= {0, 255}
    assert np.mean((found > 0) == wanted) > 0.999


def test_the_repositorys_own_file_serves_which_is_that_of_the_video_network(
    folder: Path, model: Any, network: Sam2, picture_by_rule: Any, tmp_path: Path
) -> None:
    """The hub holds SAM 2.1 with its memory for videos; pictures need none of it."""
    config = transformers.Sam2VideoConfig(
        vision_config=model.config.vision_config.to_dict(),
        prompt_encoder_config=model.config.prompt_encoder_config.to_dict(),
        mask_decoder_config=model.config.mask_decoder_config.to_dict(),
        image_size=128, memory_attention_hidden_size=32, memory_attention_num_layers=1, memory_encoder_hidden_size=32,
        memory_attention_feed_forward_hidden_size=32, memory_encoder_output_channels=16, mask_downsampler_embed_dim=32,
        memory_fuser_embed_dim=32, memory_fuser_intermediate_dim=32, memory_attention_rope_feat_sizes=[8, 8],
    )  # fmt: skip
    video = transformers.Sam2VideoModel(config)
    told = video.load_state_dict(model.state_dict(), strict=False)
    assert not told.unexpected_keys
    video.save_pretrained(tmp_path)
    assert '"sam2_video"' in (tmp_path / "config.json").read_text("utf-8")
    picture, box = picture_by_rule(3, 128, 128), (10.0, 5.0, 80.0, 85.0)
    np.testing.assert_array_equal(Sam2(tmp_path).in_box(picture, box), network.in_box(picture, box))


def test_no_mask_that_is_sure_enough_is_an_empty_map(network: Sam2, picture_by_rule: Any) -> None:
    found = network.regions(picture_by_rule(1, 50, 60), replace(LOOSE, least_iou=99.0))
    assert not isinstance(found, Failure)
    assert not found["map"].any()
    assert found["areas"].shape == found["scores"].shape == (0,)


def test_pictures_are_prepared_as_sam2_prepares_them(picture_by_rule: Any) -> None:
    picture = picture_by_rule(1, 201, 77)
    torch.testing.assert_close(prepare_sam2(picture, 128), pixels_of(picture)[0], atol=1e-5, rtol=1e-5)


def test_the_extractor_paints_what_the_network_finds(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture_by_rule: Any
) -> None:
    from refbench.networks import network as registry

    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "sam2_1_large").symlink_to(folder)
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    monkeypatch.setattr(registry, "_LOADED", {})
    with pytest.raises(RefBenchError, match="differs"):  # the registry knows the hash of the real file
        semantic_map(picture_by_rule(2, 60, 60))
    module = sys.modules["refbench.extractors.semantic_map"]  # the package has the function under this name
    asked: list[MaskSettings] = []

    class Recording(Sam2):
        def regions(self, picture: Pixels, settings: MaskSettings = STRICT) -> Feature | Failure:
            asked.append(settings)
            return super().regions(picture, settings)

    monkeypatch.setattr(module, "load_network", lambda name, device: Recording(folder))
    for name in ("semantic_map", "semantic_map_low_iou"):
        run = EXTRACTORS[name].run
        assert run is not None
        run(picture_by_rule(2, 60, 60), 0, "cpu")
    assert asked == [STRICT, LOW_IOU] and (STRICT.least_iou, LOW_IOU.least_iou) == (0.93, 0.8)
    made = semantic_map(picture_by_rule(2, 60, 60), setting="low_iou")
    assert isinstance(made, Failure) or made.shape == (60, 60, 3)
    with pytest.raises(RefBenchError, match="unknown"):
        semantic_map(picture_by_rule(2, 60, 60), setting="lax")


def test_bf16_runs_and_agrees_roughly(folder: Path, network: Sam2, picture_by_rule: Any) -> None:
    picture = picture_by_rule(3, 128, 128)
    one, other = (
        network.in_box(picture, (10.0, 5.0, 80.0, 85.0)),
        Sam2(folder, dtype="bfloat16").in_box(picture, (10.0, 5.0, 80.0, 85.0)),
    )
    assert not isinstance(one, Failure)
    assert not isinstance(other, Failure)
    assert np.mean(one == other) > 0.9


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_regions(folder: Path, network: Sam2, picture_by_rule: Any) -> None:
    picture = picture_by_rule(4, 70, 90)
    there = Sam2(folder, "cuda")
    settings = replace(LOOSE, refined=True, least_area=12)
    one, other = network.regions(picture, settings), there.regions(picture, settings)
    np.testing.assert_allclose(np.sort(one["scores"]), np.sort(other["scores"]), atol=2e-3)  # type: ignore[index]
    boxed = [net.in_box(picture, (10.0, 5.0, 60.0, 65.0)) for net in (network, there)]
    assert not any(isinstance(mask, Failure) for mask in boxed)
    assert np.mean(boxed[0] == boxed[1]) > 0.99
