"""RT-DETR and ViTPose on tiny weights of the real architectures, against transformers' own processors and models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.networks.large import vitpose
from refbench.networks.large.vitpose import RTDetr, VitPose
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")

BOXES = np.array([(10.0, 8.0, 40.0, 60.0), (30.0, 2.0, 79.0, 30.0), (-5.0, 40.0, 20.0, 70.0)])


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


@pytest.fixture(scope="module")
def vitpose_folder(tmp_path_factory: pytest.TempPathFactory, with_random_weights: Callable[[Any], Any]) -> Path:
    folder = tmp_path_factory.mktemp("vitpose")
    config = transformers.VitPoseConfig(
        backbone_config={
            "model_type": "vitpose_backbone", "image_size": [64, 48], "patch_size": [16, 16], "hidden_size": 32,
            "num_hidden_layers": 2, "num_attention_heads": 2, "out_indices": [2],
        },
        num_labels=17,
    )  # fmt: skip
    model = with_random_weights(transformers.VitPoseForPoseEstimation(config))
    with torch.no_grad():
        model.head.conv.bias.fill_(2.0)
    model.save_pretrained(folder)
    transformers.VitPoseImageProcessorPil(size={"height": 64, "width": 48}).save_pretrained(folder)
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
    (found,) = RTDetr(detector_folder)([picture])
    assert not isinstance(found, Failure)
    assert len(found["scores"]) == len(wanted["scores"]) > 1
    np.testing.assert_allclose(found["scores"], wanted["scores"], atol=1e-4)
    limits = np.array([size[1], size[0]] * 2)
    np.testing.assert_allclose(found["boxes"], np.clip(wanted["boxes"].numpy(), 0, limits), atol=1e-2)
    assert [str(label) for label in found["labels"]] == [model.config.id2label[int(n)] for n in wanted["labels"]]


def test_the_detectors_batches_change_nothing(detector_folder: Path, picture_by_rule: Any) -> None:
    network = RTDetr(detector_folder)
    pictures = [picture_by_rule(n, 50 + n, 60) for n in range(3)]
    for one, picture in zip(network(pictures), pictures, strict=True):
        other = network([picture])[0]
        assert not isinstance(one, Failure)
        assert not isinstance(other, Failure)
        np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-4)


def test_joints_are_those_of_transformers_processor_and_model(vitpose_folder: Path, picture_by_rule: Any) -> None:
    picture = picture_by_rule(3, 80, 90)
    model = transformers.VitPoseForPoseEstimation.from_pretrained(vitpose_folder).eval()
    processor = transformers.VitPoseImageProcessorPil.from_pretrained(vitpose_folder)
    sized = [[[x1, y1, x2 - x1, y2 - y1] for x1, y1, x2, y2 in BOXES]]
    inputs = processor(Image.fromarray(picture), boxes=sized, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    (wanted,) = processor.post_process_pose_estimation(outputs, boxes=sized)
    for box, pixels, heat, pose in zip(BOXES, inputs["pixel_values"], outputs.heatmaps, wanted, strict=True):
        view = vitpose.person_view(box, (64, 48))
        crop = (vitpose.warped(picture, view, (64, 48)) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        # A pixel at a half may round either way.
        assert np.mean(np.abs(crop.transpose(2, 0, 1) - pixels.numpy()) < 1e-4) > 0.99
        joints = vitpose.decode(heat.numpy(), view)
        np.testing.assert_allclose(joints[:, 2], pose["scores"], atol=1e-5)
        np.testing.assert_allclose(joints[:, :2], pose["keypoints"], atol=2e-2)


def test_people_come_from_the_detectors_boxes_of_people_alone(vitpose_folder: Path, picture_by_rule: Any) -> None:
    def detector(pictures: Any) -> Any:
        labels = np.array(["person", "car", "person"])
        return [{"boxes": BOXES, "scores": np.array([0.5, 0.9, 0.4]), "labels": labels} for _ in pictures]

    network = VitPose(vitpose_folder, detector=detector)
    (found,) = network([picture_by_rule(3, 80, 90)])
    assert not isinstance(found, Failure)
    assert {tuple(box) for box in found["boxes"].tolist()} <= {tuple(BOXES[0]), tuple(BOXES[2])}
    assert len(found["keypoints"]) >= 1
    assert list(found["scores"]) == sorted(found["scores"], reverse=True)
    seen = found["keypoints"][found["keypoints"][:, :, 2] > 0]
    assert (seen[:, 2] >= 0.3).all()
    assert (seen[:, :2] >= 0).all()


def test_nobody_is_empty_arrays(vitpose_folder: Path, picture_by_rule: Any) -> None:
    def detector(pictures: Any) -> Any:
        return [{"boxes": np.zeros((0, 4)), "scores": np.zeros(0), "labels": np.zeros(0, "U1")} for _ in pictures]

    (found,) = VitPose(vitpose_folder, detector=detector)([picture_by_rule(3, 80, 90)])
    assert {name: array.shape for name, array in found.items()} == {
        "keypoints": (0, 17, 3),
        "scores": (0,),
        "boxes": (0, 4),
        "size": (2,),
    }


def test_the_detector_that_vitpose_needs_is_named_when_it_is_missing(
    vitpose_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from refbench.networks import network as registry

    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(registry, "_LOADED", {})
    with pytest.raises(RefBenchError, match="refbench fetch rtdetr_r50vd"):
        VitPose(vitpose_folder)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_people(detector_folder: Path, vitpose_folder: Path, picture_by_rule: Any) -> None:
    picture = picture_by_rule(2, 80, 90)
    (here,), (there,) = RTDetr(detector_folder)([picture]), RTDetr(detector_folder, "cuda")([picture])
    # Random weights: which of many equally good proposals is looked at is a matter of rounding, for one or two of them.
    apart = np.abs(np.sort(here["scores"]) - np.sort(there["scores"]))  # type: ignore[index]
    assert np.mean(apart < 2e-3) > 0.8
    found = [
        VitPose(vitpose_folder, device, detector=RTDetr(detector_folder)).people(picture, BOXES, np.ones(3))
        for device in ("cpu", "cuda")
    ]
    assert not any(isinstance(people, Failure) for people in found)
    np.testing.assert_allclose(found[0]["scores"], found[1]["scores"], atol=2e-3)  # type: ignore[index]
