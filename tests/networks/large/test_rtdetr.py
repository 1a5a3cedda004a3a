"""RT-DETR on tiny weights of the real architecture, against transformers' own processor and model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.networks.large.rtdetr import rtdetr_r50vd

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")


@pytest.fixture(scope="module")
def detector_folder(tmp_path_factory: pytest.TempPathFactory, with_random_weights: Callable[[Any], Any]) -> Path:
    folder = tmp_path_factory.mktemp("rtdetr")
    config = transformers.RTDetrConfig(
        backbone_config=transformers.RTDetrResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_indices=[2, 3, 4]
        ),
        encoder_hidden_dim=32, encoder_in_channels=[16, 16, 16], encoder_ffn_dim=64, encoder_attention_heads=2, d_model=32,
        num_queries=15, decoder_in_channels=[32, 32, 32], decoder_ffn_dim=64, decoder_layers=2, decoder_attention_heads=2,
        id2label={0: "person", 1: "bicycle", 2: "car"}, label2id={"person": 0, "bicycle": 1, "car": 2},
    )  # fmt: skip
    model = with_random_weights(transformers.RTDetrForObjectDetection(config))
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "class_embed" in name and name.endswith("bias"):
                value.zero_()  # it begins where nothing is likely
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("size", [(64, 64), (91, 37)])
def test_the_detector_finds_what_transformers_finds(
    detector_folder: Path, picture_by_rule: Any, size: tuple[int, int]
) -> None:
    picture = picture_by_rule(2, *size)
    processor = transformers.RTDetrImageProcessorPil()
    model = transformers.RTDetrForObjectDetection.from_pretrained(detector_folder).eval()
    with torch.no_grad():
        made = model(**processor(Image.fromarray(picture), return_tensors="pt"))
    (wanted,) = processor.post_process_object_detection(made, threshold=0.3, target_sizes=[size])
    (found,) = rtdetr_r50vd(detector_folder)([picture])
    assert not isinstance(found, Failure)
    assert len(found["scores"]) == len(wanted["scores"]) > 1
    np.testing.assert_allclose(found["scores"], wanted["scores"], atol=1e-4)
    limits = np.array([size[1], size[0]] * 2)
    np.testing.assert_allclose(found["boxes"], np.clip(wanted["boxes"].numpy(), 0, limits), atol=1e-2)
    assert [str(label) for label in found["labels"]] == [model.config.id2label[int(n)] for n in wanted["labels"]]


def test_the_detectors_batches_change_nothing(detector_folder: Path, picture_by_rule: Any) -> None:
    network = rtdetr_r50vd(detector_folder)
    pictures = [picture_by_rule(n, 50 + n, 60) for n in range(3)]
    for one, picture in zip(network(pictures), pictures, strict=True):
        other = network([picture])[0]
        assert not isinstance(one, Failure)
        assert not isinstance(other, Failure)
        np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_objects(detector_folder: Path, picture_by_rule: Any) -> None:
    picture = picture_by_rule(2, 80, 90)
    (here,), (there,) = rtdetr_r50vd(detector_folder)([picture]), rtdetr_r50vd(detector_folder, "cuda")([picture])
    # Random weights: which of many equally good proposals is looked at is a matter of rounding, for one or two of them.
    apart = np.abs(np.sort(here["scores"]) - np.sort(there["scores"]))  # type: ignore[index]
    assert np.mean(apart < 2e-3) > 0.8
