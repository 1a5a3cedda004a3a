"""RT-DETR, ViTPose and HigherHRNet on tiny or random weights of the real architectures, against transformers' own
processors and models, torch's own layers and scipy; and the metrics on the people they find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from refbench.extractors.pose import draw_coco
from refbench.failure import Failure
from refbench.metrics.metric import find_metric
from refbench.metrics.network_poses import found_pose_pixel_paper, pose_ap
from refbench.metrics.neural_poses import sure_pose_f1
from refbench.networks.neural import higherhrnet, vitpose
from refbench.networks.neural.higherhrnet import HigherHRNet, folded
from refbench.networks.neural.higherhrnet_people import cheapest_pairs, group
from refbench.networks.neural.vitpose import VitPose
from refbench.networks.neural.vitpose_detector import RTDetr
from refbench.pictures import Pixels
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")
nn = torch.nn

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
def test_the_detector_finds_what_transformers_finds(detector_folder: Path, picture_by_rule: Any, size: tuple[int, int]) -> None:
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
    assert {name: array.shape for name, array in found.items()} == {"keypoints": (0, 17, 3), "scores": (0,), "boxes": (0, 4), "size": (2,)}


def test_the_detector_that_vitpose_needs_is_named_when_it_is_missing(vitpose_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from refbench.networks import network as registry

    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(registry, "_LOADED", {})
    with pytest.raises(RefBenchError, match="refbench fetch rtdetr_r50vd"):
        VitPose(vitpose_folder)


def test_pose_ap_of_a_picture_with_itself_is_one() -> None:
    rng = np.random.default_rng(1)
    people = np.concatenate([rng.random((2, 17, 2)) * 80, np.ones((2, 17, 1))], axis=2).astype(np.float32)
    seen = {"keypoints": people, "scores": np.array([0.9, 0.8]), "boxes": np.array([(0, 0, 80, 80)] * 2), "size": np.array([80, 80])}
    assert find_metric("pose_ap@vitpose_base").function is pose_ap
    assert pose_ap(seen, seen) == pytest.approx(1)


# HigherHRNet: torch's own layers, under the names of the published checkpoint, in a slim width.


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
                    row.append(nn.Sequential(*conv(width, widths[i], 1), nn.Upsample(scale_factor=2 ** (j - i), mode="nearest")))
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
        self.layer1 = nn.Sequential(Block(8, (8, 1), (8, 3), (32, 1)), *(Block(32, (8, 1), (8, 3), (32, 1)) for _ in range(3)))
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
        found = higherhrnet.HigherHRNetNetwork(folded(reference.state_dict()))(pixels)
    for one, other in zip(found, wanted, strict=True):
        assert other.std() > 1e-3
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_heat_is_the_mean_over_both_resolutions_and_the_mirror_image(reference: Any, hrnet_folder: Path, picture_by_rule: Any) -> None:
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
        wanted = [up((parts[0][0] + mirrored[0]) / 2, (512, 512), mode="bilinear"), up(parts[0][1], (512, 512), mode="bilinear"), up(mirrored[1], (512, 512), mode="bilinear")]
        found = HigherHRNet(hrnet_folder)._heat_and_tags(pixels)
    torch.testing.assert_close(found, torch.cat(wanted, 1), atol=1e-4, rtol=1e-4)


def test_a_file_of_another_network_is_refused(tmp_path: Path) -> None:
    torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "pose_higher_hrnet_w32_512.pth")
    with pytest.raises(RefBenchError, match="stage4"):
        HigherHRNet(tmp_path)


def maps_of(people: Any, tags: list[float], missing: dict[int, list[int]] | None = None, size: int = 512) -> tuple[Any, Any]:
    """Heat and tags as the network would give them of these people (17 x 2 each)."""
    y, x = np.mgrid[:size, :size]
    heat = np.zeros((17, size, size), np.float32)
    marks = np.full((17, size, size, 2), 50, np.float32)
    for number, (person, tag) in enumerate(zip(people, tags, strict=True)):
        for joint, (px, py) in enumerate(person):
            away = (x - px) ** 2 + (y - py) ** 2
            height = 0.05 if joint in (missing or {}).get(number, []) else 0.9
            heat[joint] = np.maximum(heat[joint], height * np.exp(-away / 2 / 4**2))
            marks[joint][away < 15**2] = tag
    return heat, marks


@pytest.fixture(scope="module")
def couple() -> Any:
    rng = np.random.default_rng(5)
    return [rng.integers(40, 220, (17, 2)).astype(float), rng.integers(280, 470, (17, 2)).astype(float)]


def test_joints_are_grouped_by_their_tags(couple: Any) -> None:
    people, scores = group(*maps_of(couple, [1.0, 4.0]))
    assert people.shape == (2, 17, 3)
    assert (scores > 0.8).all()
    for person in couple:
        nearest = min(people, key=lambda p: np.abs(p[:, :2] - person).max())
        np.testing.assert_allclose(nearest[:, :2], person + 0.5, atol=0.3)


def test_a_missing_joint_is_filled_in_where_heat_and_tag_agree(couple: Any) -> None:
    heat, tags = maps_of(couple, [1.0, 4.0], {0: [9, 10]})
    people, scores = group(heat, tags)
    first = min(people, key=lambda p: np.abs(p[0, :2] - couple[0][0]).max())
    np.testing.assert_allclose(first[[9, 10], :2], couple[0][[9, 10]] + 0.5, atol=0.3)
    np.testing.assert_allclose(first[[9, 10], 2], 0.05, atol=1e-3)
    assert scores.min() < scores.max(), "joints that were filled in do not count"


def test_nobody_is_no_people() -> None:
    people, scores = group(np.zeros((17, 32, 32), np.float32), np.zeros((17, 32, 32, 2), np.float32))
    assert people.shape == (0, 17, 3)
    assert scores.shape == (0,)


def test_people_are_given_in_the_pictures_pixels(couple: Any) -> None:
    heat, tags = maps_of(couple, [1.0, 4.0])
    maps = np.concatenate([heat, tags[..., 0], tags[..., 1]])
    found = higherhrnet.people(maps, (1024, 256, 3))
    assert found["size"].tolist() == [1024, 256]
    first = min(found["keypoints"], key=lambda p: p[:, 1].mean())
    np.testing.assert_allclose(first[:, :2], (couple[0] + 0.5) * [0.5, 2], atol=0.6)
    assert found["boxes"].shape == (2, 4)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, 7), (7, 4), (30, 30), (2, 30)])
def test_the_matching_is_the_cheapest(shape: tuple[int, int]) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    for seed in range(10):
        cost = np.random.default_rng(seed).normal(size=shape) * 100
        rows, columns = optimize.linear_sum_assignment(cost)
        pairs = cheapest_pairs(cost)
        assert len({r for r, _ in pairs}) == len({c for _, c in pairs}) == len(rows)
        assert sum(cost[r, c] for r, c in pairs) == pytest.approx(cost[rows, columns].sum())


def test_higherhrnet_runs_on_whole_pictures_and_batches_change_nothing(
    hrnet_folder: Path, tmp_path: Path
) -> None:
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


def test_the_papers_pixel_score_and_the_corrected_f1_take_higherhrnets_people(couple: Any) -> None:
    heat, tags = maps_of(couple, [1.0, 4.0])
    found = dict(higherhrnet.people(np.concatenate([heat, tags[..., 0], tags[..., 1]]), (512, 512, 3)))
    assert find_metric("pose_pixel@higherhrnet_w32", "paper").function is found_pose_pixel_paper
    assert find_metric("pose_f1@higherhrnet_w32").function is sure_pose_f1
    people = found["keypoints"].copy()
    people[:, :, 2] = 1
    drawing = draw_coco(people, (512, 512))
    value = sure_pose_f1(found, reference=drawing)
    assert isinstance(value, float)
    assert value > 0.99
    assert 0.3 < found_pose_pixel_paper(found, cv2.dilate(drawing, np.ones((2, 2), np.uint8)).astype(np.uint8)) <= 1
