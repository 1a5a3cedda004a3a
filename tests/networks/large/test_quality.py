"""Quality networks: values of the libraries that the papers used, on weights and pictures made by rule.

The constants were computed once with IQA-PyTorch 0.1.16 (MUSIQ) and torchvision 0.28 (Inception v3, its own
transforms), each with the weights that `weights_by_rule` gives; none of them is needed here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.metrics.similarity import inception_mean
from refbench.networks.large.aesthetics import laion_v1_l14, siglip_aesthetic_v25
from refbench.networks.large.inception import inception_v3
from refbench.networks.large.musiq import Musiq
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")

ByRule = Callable[[dict[str, Any], int], dict[str, Any]]
Picture = Callable[[int, int, int], Any]


def scores(features: list[Any]) -> list[float]:
    assert not any(isinstance(feature, Failure) for feature in features)
    return [float(feature["score"]) for feature in features]


def musiq_shapes(classes: int) -> dict[str, Any]:
    """A small MUSIQ: 128 wide, two layers; the residual stem has one size only."""
    width = 128
    shapes: dict[str, Any] = {
        "conv_root.weight": (64, 3, 7, 7), "block1.conv1.weight": (64, 64, 1, 1), "block1.conv2.weight": (64, 64, 3, 3),
        "block1.conv3.weight": (256, 64, 1, 1), "block1.conv_proj.weight": (256, 64, 1, 1),
        "embedding.weight": (width, 16384), "embedding.bias": (width,), "transformer_encoder.cls": (1, 1, width),
        "transformer_encoder.posembed_input.position_emb": (1, 100, width),
        "transformer_encoder.scaleembed_input.scale_emb": (3, width),
    }  # fmt: skip
    norms = {"gn_root": 64, "block1.gn1": 64, "block1.gn2": 64, "block1.gn3": 256, "block1.gn_proj": 256}
    norms |= {"transformer_encoder.encoder_norm": width}
    for n in range(2):
        block = f"transformer_encoder.transformer.encoderblock_{n}"
        norms |= {f"{block}.norm1": width, f"{block}.norm2": width}
        layers = {f"attention.{part}": (width, width) for part in ("query", "key", "value", "out")}
        for name, shape in {**layers, "mlp.fc1": (384, width), "mlp.fc2": (width, 384)}.items():
            shapes |= {f"{block}.{name}.weight": shape, f"{block}.{name}.bias": shape[:1]}
    for name, size in norms.items():
        shapes |= {f"{name}.weight": (size,), f"{name}.bias": (size,)}
    head = "head" if classes == 1 else "head.0"
    return shapes | {f"{head}.weight": (classes, width), f"{head}.bias": (classes,)}


@pytest.mark.parametrize(("classes", "expected"), [(1, [0.2300026, 0.0331096]), (10, [6.5642018, 6.2947974])])
def test_musiq_equals_iqa_pytorch_after_the_1k_rule(
    classes: int, expected: list[float], weights_by_rule: ByRule, picture_by_rule: Picture, tmp_path: Path
) -> None:
    torch.save({"params": weights_by_rule(musiq_shapes(classes), 5)}, tmp_path / "musiq_koniq_ckpt-e95806b9.pth")
    found = Musiq(tmp_path)([picture_by_rule(1, 120, 200), picture_by_rule(2, 200, 90)])
    assert scores(found) == pytest.approx(expected, abs=2e-5)


def test_musiq_does_not_depend_on_the_batch(weights_by_rule: ByRule, picture_by_rule: Picture, tmp_path: Path) -> None:
    torch.save(weights_by_rule(musiq_shapes(1), 5), tmp_path / "m.pth")
    pictures = [
        picture_by_rule(1, 64, 60),
        picture_by_rule(2, 64, 60),
        picture_by_rule(3, 100, 30),
        picture_by_rule(4, 64, 60),
    ]
    alone = scores(Musiq(tmp_path, batch=1)(pictures))
    assert scores(Musiq(tmp_path, batch=3)(pictures[::-1]))[::-1] == pytest.approx(alone, abs=1e-4)
    assert len({round(score, 4) for score in alone}) == 4


def test_musiq_has_no_score_for_a_thread(weights_by_rule: ByRule, tmp_path: Path) -> None:
    torch.save(weights_by_rule(musiq_shapes(1), 5), tmp_path / "m.pth")
    found = Musiq(tmp_path)([np.zeros((3000, 2, 3), np.uint8)])[0]
    assert isinstance(found, Failure)


def test_another_file_is_not_taken_for_musiq(weights_by_rule: ByRule, tmp_path: Path) -> None:
    shapes = musiq_shapes(1)
    del shapes["block1.conv3.weight"]
    torch.save(weights_by_rule(shapes, 5), tmp_path / "m.pth")
    with pytest.raises(RefBenchError, match=r"lacks block1.conv3.weight"):
        Musiq(tmp_path)


def inception_shapes() -> dict[str, Any]:
    """Every convolution of torchvision's Inception v3: name, channels out and in, kernel."""
    convolutions: dict[str, Any] = {
        "Conv2d_1a_3x3": (32, 3, 3, 3), "Conv2d_2a_3x3": (32, 32, 3, 3), "Conv2d_2b_3x3": (64, 32, 3, 3),
        "Conv2d_3b_1x1": (80, 64, 1, 1), "Conv2d_4a_3x3": (192, 80, 3, 3),
        "Mixed_6a.branch3x3": (384, 288, 3, 3), "Mixed_6a.branch3x3dbl_1": (64, 288, 1, 1),
        "Mixed_6a.branch3x3dbl_2": (96, 64, 3, 3), "Mixed_6a.branch3x3dbl_3": (96, 96, 3, 3),
        "Mixed_7a.branch3x3_1": (192, 768, 1, 1), "Mixed_7a.branch3x3_2": (320, 192, 3, 3),
        "Mixed_7a.branch7x7x3_1": (192, 768, 1, 1), "Mixed_7a.branch7x7x3_2": (192, 192, 1, 7),
        "Mixed_7a.branch7x7x3_3": (192, 192, 7, 1), "Mixed_7a.branch7x7x3_4": (192, 192, 3, 3),
    }  # fmt: skip
    for block, wide, pool in (("5b", 192, 32), ("5c", 256, 64), ("5d", 288, 64)):
        parts = {"branch1x1": (64, wide, 1, 1), "branch5x5_1": (48, wide, 1, 1), "branch5x5_2": (64, 48, 5, 5),
                 "branch3x3dbl_1": (64, wide, 1, 1), "branch3x3dbl_2": (96, 64, 3, 3), "branch3x3dbl_3": (96, 96, 3, 3),
                 "branch_pool": (pool, wide, 1, 1)}  # fmt: skip
        convolutions |= {f"Mixed_{block}.{name}": shape for name, shape in parts.items()}
    for block, c in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        parts = {"branch1x1": (192, 768, 1, 1), "branch7x7_1": (c, 768, 1, 1), "branch7x7_2": (c, c, 1, 7),
                 "branch7x7_3": (192, c, 7, 1), "branch7x7dbl_1": (c, 768, 1, 1), "branch7x7dbl_2": (c, c, 7, 1),
                 "branch7x7dbl_3": (c, c, 1, 7), "branch7x7dbl_4": (c, c, 7, 1), "branch7x7dbl_5": (192, c, 1, 7),
                 "branch_pool": (192, 768, 1, 1)}  # fmt: skip
        convolutions |= {f"Mixed_{block}.{name}": shape for name, shape in parts.items()}
    for block, wide in (("7b", 1280), ("7c", 2048)):
        parts = {"branch1x1": (320, wide, 1, 1), "branch3x3_1": (384, wide, 1, 1), "branch3x3_2a": (384, 384, 1, 3),
                 "branch3x3_2b": (384, 384, 3, 1), "branch3x3dbl_1": (448, wide, 1, 1), "branch3x3dbl_2": (384, 448, 3, 3),
                 "branch3x3dbl_3a": (384, 384, 1, 3), "branch3x3dbl_3b": (384, 384, 3, 1),
                 "branch_pool": (192, wide, 1, 1)}  # fmt: skip
        convolutions |= {f"Mixed_{block}.{name}": shape for name, shape in parts.items()}
    shapes: dict[str, Any] = {f"{name}.conv.weight": shape for name, shape in convolutions.items()}
    for name, shape in convolutions.items():
        shapes |= {f"{name}.bn.{part}": shape[:1] for part in ("weight", "bias", "running_mean", "running_var")}
    return shapes


def test_inception_equals_torchvision(weights_by_rule: ByRule, picture_by_rule: Picture, tmp_path: Path) -> None:
    torch.save(weights_by_rule(inception_shapes(), 3), tmp_path / "inception_v3_google-0cc3c7bd.pth")
    network = inception_v3(tmp_path)
    feature, other = network([picture_by_rule(1, 333, 500), picture_by_rule(2, 300, 299)])
    assert not isinstance(feature, Failure)
    assert not isinstance(other, Failure)
    assert feature["vector"].shape == (2048,)
    assert feature["vector"][[0, 2, 1000, 2047]] == pytest.approx([2.0467e-4, 0, 0.0357515, 0.0039415], abs=1e-5)
    assert inception_mean(feature) == pytest.approx(0.0907040, abs=1e-5)
    alone = network([picture_by_rule(2, 300, 299)])[0]
    assert not isinstance(alone, Failure)
    assert np.abs(alone["vector"] - other["vector"]).max() < 1e-4


def test_the_fid_of_one_picture_is_its_squared_mean() -> None:
    """multiref.md B.2: scalar mean against 0, the trace term is 0."""
    vector = np.array([0.5, 0.1, 0.3], np.float32)
    assert inception_mean({"vector": vector}) == pytest.approx(0.3**2)


def test_the_aesthetic_head_equals_plain_layers_on_transformers(
    siglip_folder: Path, pictures: list[Any], tmp_path: Path
) -> None:
    """Names as the released head has them, with a dropout between every two layers."""
    import shutil

    shutil.copytree(siglip_folder, tmp_path / "s")
    sizes, generator = (64, 1024, 128, 64, 16, 1), torch.Generator().manual_seed(0)
    head = {}
    for n, (wide, out) in enumerate(itertools.pairwise(sizes)):
        head[f"scoring_head.{2 * n}.weight"] = torch.randn(out, wide, generator=generator) * 2 * wide**-0.5
        head[f"scoring_head.{2 * n}.bias"] = torch.randn(out, generator=generator) * 0.1
    torch.save(head, tmp_path / "s/aesthetic_predictor_v2_5.pth")
    found = scores(siglip_aesthetic_v25(tmp_path / "s")(pictures[:4]))
    model = transformers.SiglipVisionModel.from_pretrained(siglip_folder)
    processor = transformers.SiglipImageProcessorPil.from_pretrained(siglip_folder)
    for picture, score in zip(pictures[:4], found, strict=True):
        image = Image.fromarray(picture)
        image = image.resize((int(image.width * 1024 / image.height), 1024))
        with torch.inference_mode():
            value = model(processor(image, return_tensors="pt")["pixel_values"]).pooler_output
            value = torch.nn.functional.normalize(value)
            for n in range(5):
                value = value @ head[f"scoring_head.{2 * n}.weight"].T + head[f"scoring_head.{2 * n}.bias"]
        assert score == pytest.approx(float(value), abs=1e-4)
    assert len({round(score, 3) for score in found}) == 4
    (tmp_path / "s/aesthetic_predictor_v2_5.pth").unlink()
    with pytest.raises(RefBenchError, match=r"needs aesthetic_predictor_v2_5.pth"):
        siglip_aesthetic_v25(tmp_path / "s")


def test_laion_s_predictor_equals_one_layer_on_transformers(
    with_random_weights: Callable[[Any], Any], pictures: list[Any], tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    config = transformers.CLIPVisionConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=56,
        patch_size=14,
        projection_dim=32,
    )
    model = with_random_weights(transformers.CLIPVisionModelWithProjection(config))
    model.save_pretrained(tmp_path)
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56})
    processor.save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    weight, bias = torch.randn(1, 32, generator=torch.Generator().manual_seed(1)), torch.tensor([5.0])
    save_file({**state, "predictor.weight": weight, "predictor.bias": bias}, tmp_path / "model.safetensors")
    found = scores(laion_v1_l14(tmp_path)(pictures))
    for picture, score in zip(pictures, found, strict=True):
        with torch.inference_mode():
            seen = processor(Image.fromarray(picture), return_tensors="pt")["pixel_values"]
            vector = torch.nn.functional.normalize(model(seen).image_embeds)
        assert score == pytest.approx(float(vector @ weight.T + bias), abs=1e-4)
    together = scores(laion_v1_l14(tmp_path, dtype="bf16")(pictures))
    assert together == pytest.approx(found, abs=0.1)
