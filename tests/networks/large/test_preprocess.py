"""Preparing pictures: equal to transformers' own processors on the CPU, and to Pillow, bit for bit, in matrices."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.networks.large import resample
from refbench.networks.large.preprocess import (
    CLIP_MEAN,
    CLIP_STD,
    HALF,
    Preparation,
    preparation,
    prepare,
    prepare_stack,
    refusal,
)
from refbench.pictures import decode, resize
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")

CUT = {"size": {"shortest_edge": 56}, "crop_size": {"height": 56, "width": 56}}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
PROCESSORS = [
    ("CLIPImageProcessorPil", CUT),
    ("CLIPImageProcessorPil", {"size": {"shortest_edge": 56}, "crop_size": {"height": 51, "width": 45}}),
    ("SiglipImageProcessorPil", {"size": {"height": 56, "width": 56}}),
    ("BitImageProcessorPil", {"size": {"shortest_edge": 64}, "crop_size": {"height": 56, "width": 56}, **IMAGENET}),
]


@pytest.mark.parametrize(("kind", "settings"), PROCESSORS)
def test_preparing_equals_the_reference_processor(
    kind: str, settings: dict[str, Any], pictures: list[Any], tmp_path: Path
) -> None:
    processor = getattr(transformers, kind)(**settings)
    processor.save_pretrained(tmp_path)
    how = preparation(tmp_path / "preprocessor_config.json")
    for picture in pictures:
        expected = processor(Image.fromarray(picture), return_tensors="np")["pixel_values"][0]
        assert np.abs(prepare(picture, how) - expected).max() < 1e-4
        there = prepare_stack(torch.from_numpy(picture)[None], how)[0].numpy()
        assert np.abs(there - expected).max() < 1e-4


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1"])
def test_greyscale_and_alpha_files_equal_the_reference_processor(mode: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (73, 41, 4), dtype=np.uint8), "RGBA").convert(mode)
    file = io.BytesIO()
    picture.save(file, "PNG")
    processor = transformers.CLIPImageProcessorPil(**CUT)
    processor.save_pretrained(tmp_path)
    expected = processor(Image.open(io.BytesIO(file.getvalue())), return_tensors="np")["pixel_values"][0]
    decoded = decode(file.getvalue())
    assert isinstance(decoded, np.ndarray)
    assert np.abs(prepare(decoded, preparation(tmp_path / "preprocessor_config.json")) - expected).max() < 1e-4


@pytest.mark.parametrize("kernel", ["bicubic", "bilinear"])
@pytest.mark.parametrize(
    ("size", "to"),
    [((96, 96), (32, 32)), ((37, 91), (224, 551)), ((640, 481), (384, 384)), ((481, 640), (384, 384)), ((3, 5), (224, 373)),
     ((1, 1), (16, 16)), ((1500, 40), (56, 56)), ((64, 64), (64, 128)), ((64, 64), (33, 64)), ((2400, 2300), (31, 29))],
)  # fmt: skip
def test_resizing_in_matrices_equals_pillow_to_the_bit(size: tuple[int, int], to: tuple[int, int], kernel: Any) -> None:
    """Noise of black and white is the hardest: every weight counts in full, and overshoots are clipped."""
    noise = np.random.default_rng(1).integers(0, 2, (*size, 3), dtype=np.uint8) * np.uint8(255)
    grey = np.random.default_rng(2).integers(0, 256, (*size, 3), dtype=np.uint8)
    stack = torch.from_numpy(np.stack([noise, grey])).permute(0, 3, 1, 2)
    made = resample.resize_on_device(stack, to, kernel).permute(0, 2, 3, 1).numpy()
    for picture, found in zip((noise, grey), made, strict=True):
        assert np.array_equal(found, resize(picture, (to[1], to[0]), kernel))


def test_a_window_of_the_result_is_that_part_of_it() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (1, 3, 70, 90), dtype=np.uint8)
    stack = torch.from_numpy(picture)
    whole = resample.resize_on_device(stack, (35, 45))
    part = resample.resize_on_device(stack, (35, 45), window=(3, 7, 20, 21))
    assert torch.equal(part, whole[..., 3:23, 7:28])


def test_sums_beyond_what_floats_hold_exactly_are_computed_in_double() -> None:
    assert {block.pieces.dtype for block in resample._blocks(9000, 20, 0, 20, "bicubic", "cpu")} == {torch.float64}
    for block in resample._blocks(1024, 336, 0, 336, "bicubic", "cpu"):
        assert block.pieces.dtype == torch.float32
        # TF32 keeps 11 significant bits: whole numbers up to 2,048 are exact in it.
        assert block.pieces.abs().max() <= 2048


def test_a_very_long_picture_is_resized_only_where_it_is_kept() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (2, 3000, 3), dtype=np.uint8)
    how = Preparation(CLIP_MEAN, CLIP_STD, short_side=224, crop=(224, 224))
    assert how.resized(2, 3000) == (224, 336000)
    assert prepare(picture, how).shape == (3, 224, 224)


def test_an_odd_margin_is_cut_as_the_library_cuts_it() -> None:
    floor = Preparation(HALF, HALF, short_side=10, crop=(10, 10))
    rounded = Preparation(HALF, HALF, short_side=10, crop=(10, 10), centre="round")
    assert [floor.window(10, width)[1] for width in (11, 13, 15)] == [0, 1, 2]
    assert [rounded.window(10, width)[1] for width in (11, 13, 15)] == [0, 2, 2]


def test_the_1k_rule_brings_every_picture_to_a_height_of_1024() -> None:
    """icebench.md C.3: (int(w*1024/h), 1024), bicubic, also upwards."""
    picture = np.random.default_rng(0).integers(0, 256, (100, 77, 3), dtype=np.uint8)
    how = Preparation(HALF, HALF, size=(64, 64), height_first=1024)
    by_hand = Image.fromarray(picture).resize((int(77 * 1024 / 100), 1024), Image.Resampling.BICUBIC)
    by_hand = by_hand.resize((64, 64), Image.Resampling.BICUBIC)
    expected = (np.asarray(by_hand).transpose(2, 0, 1) / 255.0 - 0.5) / 0.5
    assert np.abs(prepare(picture, how) - expected).max() < 1e-6
    assert np.abs(prepare_stack(torch.from_numpy(picture)[None], how)[0].numpy() - expected).max() < 1e-6
    assert how.first(1024, 5000) == (1024, 5000)


def test_a_picture_too_thin_for_the_1k_rule_is_a_failure() -> None:
    how = Preparation(HALF, HALF, height_first=1024)
    for shape in ((3000, 2, 3), (1, 60000, 3)):
        refused = refusal(np.zeros(shape, np.uint8), how)
        assert refused is not None
        assert refused.kind == "undefined"
    assert refusal(np.zeros((5, 5, 3), np.uint8), how) is None


def test_pixels_divided_twice_land_where_multiref_put_them() -> None:
    """multiref.md B.2, caption: normalised pixels in [-1.79, -1.47] instead of [-1.79, 2.15]."""
    ramp = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    how = Preparation(CLIP_MEAN, CLIP_STD, rescaled_twice=True)
    for made in (prepare(ramp, how), prepare_stack(torch.from_numpy(ramp)[None], how)[0].numpy()):
        assert round(float(made.min()), 2) == -1.79
        assert round(float(made.max()), 2) == -1.47


@pytest.mark.parametrize("size", [224, {"shortest_edge": 224}])
def test_both_spellings_of_a_preprocessor_are_read(size: Any, tmp_path: Path) -> None:
    said = {
        "size": size,
        "crop_size": 224,
        "resample": 3,
        "image_mean": CLIP_MEAN,
        "image_std": CLIP_STD,
        "do_center_crop": True,
    }
    (tmp_path / "p.json").write_text(json.dumps(said))
    how = preparation(tmp_path / "p.json")
    assert (how.short_side, how.crop, how.kernel) == (224, (224, 224), "bicubic")


@pytest.mark.parametrize("change", [{"resample": 1}, {"size": {"longest_edge": 5}}, {"crop_size": 300}])
def test_an_unknown_preprocessor_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    said = {"size": 224, "crop_size": 224, "image_mean": CLIP_MEAN, "image_std": CLIP_STD} | change
    (tmp_path / "p.json").write_text(json.dumps(said))
    with pytest.raises(RefBenchError, match="not known"):
        preparation(tmp_path / "p.json")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_gpu_sees_the_pixels_that_the_cpu_sees(pictures: list[Any]) -> None:
    how = Preparation(CLIP_MEAN, CLIP_STD, short_side=56, crop=(56, 56))
    for picture in pictures:
        there = prepare_stack(torch.from_numpy(picture)[None].to("cuda"), how)[0].cpu().numpy()
        assert np.abs(there - prepare(picture, how)).max() < 2e-3
