"""Measuring many metrics: pictures decoded once, features computed once, values independent of how work is grouped."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import refbench
from refbench.failure import Failure
from refbench.metrics import Grey, find_metric, metric
from refbench.metrics import measure as measuring
from refbench.metrics import measure as opened
from refbench.metrics.measure import Job, Measurer, why_not_measured
from refbench.networks import Feature, cache, network
from refbench.networks.cache import FeatureCache
from refbench.networks.network import NetworkInfo
from refbench.pictures import Pixels, encode
from refbench.record import RefBenchError


class Brightness:
    """A network that is nothing but a mean, and counts what it is shown."""

    seen: ClassVar[Counter[int]] = Counter()
    batches: ClassVar[list[int]] = []

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        Brightness.batches.append(len(pictures))
        found: list[Feature | Failure] = []
        for picture in pictures:
            Brightness.seen[int(picture.astype(np.int64).sum())] += 1
            dark = Failure(kind="no_detection", detail="all black")
            found.append({"vector": np.array([picture.mean()], np.float32)} if picture.any() else dark)
        return found


@metric("brighter", better="higher", range=(-255, 255), of={"output": "brightness", "reference": "brightness"})
def brighter(output: Feature, reference: Feature) -> float:
    """How much brighter the output is."""
    return float(output["vector"][0] - reference["vector"][0])


@metric("odd", better="higher", range=(0, 1))
def odd(output: Pixels) -> float:
    """Gives what no score may be."""
    return {1: float("nan"), 2: 7.0, 3: 1.0000001}[int(output[0, 0, 0])] if output[0, 0, 0] < 4 else 1 / 0


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Brightness]:
    info = NetworkInfo(name="brightness", gives="embedding", purpose="tests", factory="x:y", licence="Apache-2.0")
    known = {"brightness": info}
    monkeypatch.setattr(network, "networks", lambda: known)
    monkeypatch.setattr(measuring, "load_network", lambda name, device, dtype: Brightness())
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))
    Brightness.seen.clear()
    Brightness.batches.clear()
    return Brightness


def picture(path: Path, seed: int, size: tuple[int, int] = (20, 24)) -> str:
    path.write_bytes(encode(np.random.default_rng(seed).integers(1, 255, (*size, 3), dtype=np.uint8)))
    return str(path)


def jobs(folder: Path, models: str = "ab", n: int = 5) -> list[Job]:
    return [
        Job(
            metric="brighter@brightness",
            pictures={
                "output": picture(folder / f"{m}{i}.png", ord(m) * 100 + i),
                "reference": picture(folder / f"r{i}.png", i),
            },
        )
        for i in range(n)
        for m in models
    ]


def test_a_reference_shared_by_models_is_looked_at_once(tmp_path: Path, net: type[Brightness]) -> None:
    Measurer()(jobs(tmp_path))
    assert len(net.seen) == 15
    assert set(net.seen.values()) == {1}


def test_a_second_model_does_not_pay_for_the_references_again(tmp_path: Path, net: type[Brightness]) -> None:
    first = Measurer()(jobs(tmp_path, "a"))
    again = Measurer()(jobs(tmp_path, "ab"))
    assert set(net.seen.values()) == {1}
    assert [m.value for m in again[::2]] == [m.value for m in first]


def test_a_failure_of_the_network_is_cached_and_carried(tmp_path: Path, net: type[Brightness]) -> None:
    (tmp_path / "black.png").write_bytes(encode(np.zeros((8, 8, 3), np.uint8)))
    job = Job(
        metric="brighter@brightness",
        pictures={"output": str(tmp_path / "black.png"), "reference": picture(tmp_path / "r.png", 1)},
    )
    for _ in range(2):
        (found,) = Measurer()([job])
        assert found.failure == Failure(kind="no_detection", detail="all black")
        assert found.value is None
    assert net.seen[0] == 1


def test_values_do_not_depend_on_batch_size_chunk_or_order(
    tmp_path: Path, net: type[Brightness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFBENCH_CACHE", "off")
    asked = jobs(tmp_path)
    whole = [m.value for m in Measurer(batch=64)(asked)]
    single = [Measurer(batch=1)([job])[0].value for job in asked]
    backwards = [m.value for m in Measurer(batch=3)(asked[::-1])][::-1]
    assert whole == single == backwards


def test_weights_or_version_changed_means_nothing_old_is_found(
    tmp_path: Path, net: type[Brightness], monkeypatch: pytest.MonkeyPatch
) -> None:
    Measurer()(jobs(tmp_path, "a"))
    newer = network.networks()["brightness"].model_copy(update={"version": 2})
    monkeypatch.setattr(network, "networks", lambda: {"brightness": newer})
    Measurer()(jobs(tmp_path, "a"))
    assert set(net.seen.values()) == {2}


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path, net: type[Brightness]) -> None:
    (tmp_path / "file").write_text("not a folder")
    found = Measurer(cache=FeatureCache(tmp_path / "file" / "x"))(jobs(tmp_path, "a"))
    assert all(m.value is not None for m in found)


def test_features_come_back_from_the_cache_as_they_were(tmp_path: Path, net: type[Brightness]) -> None:
    info = network.networks()["brightness"]
    rng = np.random.default_rng(0)
    features: dict[str, Feature | Failure] = {
        "people": {"keypoints": rng.random((3, 17, 3), np.float32), "scores": rng.random(3)},
        "nobody": {"keypoints": np.zeros((0, 17, 3), np.float32), "scores": np.zeros(0)},
        "mask": {"mask": (rng.random((400, 300)) > 0.5).astype(np.uint8) * 255},
        "text": {"lines": np.array(["abc", "日本語"]), "scores": np.array([0.9, 0.8])},
        "none": Failure(kind="no_detection", detail="no subject"),
        "late": Failure(kind="timeout"),
    }
    store = FeatureCache(tmp_path / "store")
    store.put(info, "float32", features)
    store.close()
    back = FeatureCache(tmp_path / "store").get(info, "float32", list(features))
    assert set(back) == set(features) - {"late"}  # what may go well next time is not kept
    assert back["none"] == features["none"]
    for name in ("people", "nobody", "mask", "text"):
        kept: Any = back[name]
        for array, value in features[name].items():  # type: ignore[union-attr]
            assert kept[array].dtype == value.dtype
            assert np.array_equal(kept[array], value)


def test_every_picture_is_decoded_once_for_all_its_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: Counter[int] = Counter()
    real = opened.decode

    def counting(data: bytes, **rest: Any) -> Any:
        decoded[hash(data)] += 1
        return real(data, **rest)

    monkeypatch.setattr(opened, "decode", counting)
    source, outputs = picture(tmp_path / "s.png", 0), [picture(tmp_path / f"o{i}.png", i + 1) for i in range(3)]
    names = ("l1", "ssim", "colorize_l1", "colorfulness", "canny_l1", "edge_f1")
    asked = [Job(metric=name, pictures={"output": o, "source": source}) for o in outputs for name in names]
    found = Measurer()(asked)
    assert all(m.value is not None for m in found)
    assert len(decoded) == 4
    assert set(decoded.values()) == {1}


def test_what_is_no_number_in_the_range_is_a_failure(tmp_path: Path) -> None:
    def of(value: int) -> Any:
        return refbench.measure("odd", output=np.full((4, 4, 3), value, np.uint8))

    assert of(1).failure.kind == "undefined"
    assert of(2).failure.kind == "out_of_range"
    assert of(3).value == 1.0
    assert of(9).failure.kind == "undefined"
    assert "ZeroDivisionError" in of(9).failure.detail


def test_files_and_arrays_measure_alike(tmp_path: Path) -> None:
    paths = [picture(tmp_path / f"{i}.png", i) for i in (1, 2)]
    arrays = [np.asarray(Image.open(path)) for path in paths]
    for name in ("l1", "ssim", "colorize_l1"):
        by_file = refbench.measure(name, output=paths[0], source=paths[1]).value
        assert refbench.measure(name, output=arrays[0], source=arrays[1]).value == by_file


def test_sizes_that_differ_are_said(tmp_path: Path) -> None:
    small, large = picture(tmp_path / "a.png", 1, (16, 16)), picture(tmp_path / "b.png", 2, (32, 48))
    assert refbench.measure("l1", output=small, source=large).sizes == {"output": (16, 16), "source": (48, 32)}
    assert refbench.measure("l1", output=small, source=small).sizes == {}


def test_paper_sees_a_turned_picture_as_it_is_stored(tmp_path: Path) -> None:
    upright = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(upright).copy()).save(tmp_path / "turned.png", exif=exif)
    turned = str(tmp_path / "turned.png")
    assert refbench.measure("l1", output=turned, source=upright).value == 0.0
    assert refbench.measure("l1", output=turned, source=upright, protocol="paper").value > 0.1  # type: ignore[operator]


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_paper_sees_what_multiref_s_release_reads_with_opencv_turned(suffix: str, tmp_path: Path) -> None:
    """OpenCV itself is the oracle: the release reads maps, and outputs of which it takes edges, by `cv2.imread`."""
    upright = np.zeros((40, 60, 3), np.uint8)
    upright[8:20, 10:50] = 200
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = str(tmp_path / f"turned.{suffix}")
    Image.fromarray(np.rot90(upright).copy()).save(turned, exif=exif)
    read = cv2.imread(turned)
    assert read is not None and read.shape == upright.shape, "OpenCV turns it"
    edges = np.asarray(cv2.Canny(cv2.cvtColor(read, cv2.COLOR_BGR2GRAY), 100, 200), np.uint8)
    assert refbench.measure("canny_mse", output=turned, reference=edges, protocol="paper").value == 0.0
    for name in ("mask_iou", "semantic_iou", "pose_pixel", "bbox_iou"):
        as_read = np.ascontiguousarray(read[:, :, ::-1])
        found = refbench.measure(name, output=upright, reference=turned, protocol="paper").value
        assert found == refbench.measure(name, output=upright, reference=as_read, protocol="paper").value, name
    stored = np.asarray(Image.open(turned).convert("RGB"))
    by_pillow = refbench.measure("pose_pixel", output=turned, reference=stored, protocol="paper").value
    assert by_pillow == 1.0, "outputs that the release opens with Pillow stay as they are stored"


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_paper_sees_sixteen_bits_as_the_release_does_and_corrected_scales_them(
    suffix: str, channels: int, tmp_path: Path
) -> None:
    """ICE-Bench opens pictures with Pillow, which cuts grey values off at 255 and takes the upper byte of colours."""
    deep = np.random.default_rng(channels).integers(0, 1 << 16, (40, 48, channels), dtype=np.uint16)
    deep[..., 3:] = (1 << 16) - 1
    output, source = tmp_path / f"output{suffix}", tmp_path / "source.png"
    cv2.imwrite(str(output), deep)
    source.write_bytes(encode(np.full((40, 48, 3), 120, np.uint8)))

    def l1(protocol: str) -> float | None:
        return refbench.measure("l1", protocol=protocol, output=output, source=source).value

    released = np.asarray(Image.open(output).convert("RGB"), dtype=np.float64)
    assert l1("paper") == pytest.approx(np.abs(released - 120).mean() / 255, abs=1e-9)
    scaled = np.rint(deep[..., :3] / 257.0)
    assert l1("corrected") == pytest.approx(np.abs(scaled - 120).mean() / 255, abs=1e-4)


def test_a_transparent_picture_is_white_there_and_paper_shows_what_lies_under(tmp_path: Path) -> None:
    rgba = np.zeros((10, 10, 4), np.uint8)
    Image.fromarray(rgba).save(tmp_path / "clear.png")
    clear, white, black = (
        str(tmp_path / "clear.png"),
        np.full((10, 10, 3), 255, np.uint8),
        np.zeros((10, 10, 3), np.uint8),
    )
    assert refbench.measure("l1", output=clear, source=white).value == 0.0
    assert refbench.measure("l1", output=clear, source=black, protocol="paper").value == 0.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "ssim", "output": np.zeros((9, 9, 3), np.uint8)}, "ssim needs --source"),
        ({"name": "sim"}, "did you mean ssim"),
        ({"name": "ssim", "output": "x", "source": "y", "mask": "z"}, "does not look at mask"),
        ({"name": "edge_f1", "protocol": "paper", "output": "x", "source": "y"}, "add --protocol corrected"),
    ],
)
def test_mistakes_are_one_sentence(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        refbench.measure(**arguments)


def test_a_picture_that_is_not_there_is_a_failure_of_the_measurement(tmp_path: Path) -> None:
    found = refbench.measure("l1", output=tmp_path / "no.png", source=np.zeros((4, 4, 3), np.uint8))
    assert found.failure is not None
    assert found.failure.kind == "unreadable_picture"
    assert "no.png" in found.failure.detail


def test_a_metric_without_its_network_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    reason = why_not_measured("lpips@lpips_alex")
    assert reason is not None
    assert "refbench fetch lpips_alex" in reason or "pip install 'refbench[local]'" in reason
    with pytest.raises(RefBenchError, match="refbench"):
        refbench.measure("lpips", output=np.zeros((64, 64, 3), np.uint8), source=np.zeros((64, 64, 3), np.uint8))


def test_the_cache_can_be_moved_and_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "features"
    monkeypatch.setenv("REFBENCH_CACHE", "off")
    assert cache.cache_folder() is None


def untyped(output) -> float:  # type: ignore[no-untyped-def]
    return 0.0


def of_floats(output: NDArray[np.float64]) -> float:
    return 0.0


def of_a_list(output: Pixels, caption: list[str]) -> float:
    return 0.0


def without_output(source: Pixels) -> float:
    return 0.0


def of_anything(output: Pixels, **more: Pixels) -> float:
    return 0.0


def of_a_feature(output: Feature) -> float:
    return 0.0


def misspelt(output: Pixle) -> float:  # type: ignore[name-defined]  # noqa: F821
    return 0.0


def ssim(output: Pixels) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (untyped, "the argument output has no type: write Pixels"),
        (of_floats, "the argument output has the type .*float64.*: write Pixels"),
        (of_a_list, r"the argument caption has the type list\[str\]"),
        (without_output, "needs the argument output"),
        (of_anything, r"given by name: \*\*more"),
        (of_a_feature, "output comes from a network, which `of` must name"),
        (misspelt, "'Pixle' is not defined"),
        (ssim, "ssim is a metric of RefBench: give yours another name"),
    ],
)
def test_a_metric_that_cannot_be_called_is_refused_where_it_is_defined(function: Any, said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        metric(better="higher", range=(0, 1))(function)


def test_an_array_is_pixels_and_a_setting_with_a_default_is_no_input() -> None:
    @metric(better="lower", range=(0, 1))
    def darkness(output: np.ndarray, mask: Grey | None = None, floor: int = 51) -> float:
        assert floor == 51
        return 1 - float(output.mean()) / 255

    kinds = {given.name: given.kind for given in find_metric("darkness").inputs}
    assert kinds == {"output": "pixels", "mask": "grey"}
    assert refbench.measure("darkness", output=np.full((4, 4, 3), 51, np.uint8)).value == pytest.approx(0.8)


@pytest.mark.parametrize("given", [None, "0.5", [1, 2], {"value": 1}])
def test_what_is_not_a_number_is_no_value(tmp_path: Path, given: Any) -> None:
    @metric("numberless", better="higher", range=(0, 1))
    def numberless(output: Pixels) -> float:
        """Gives back what it likes."""
        return given  # type: ignore[no-any-return]

    measured = refbench.measure("numberless", output=np.zeros((4, 4, 3), np.uint8))
    assert measured.value is None
    assert measured.failure is not None and measured.failure.kind == "undefined"
    assert "numberless gave" in measured.failure.detail and "is not a number" in measured.failure.detail


def test_a_plug_in_that_cannot_be_loaded_is_said_and_the_other_metrics_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point = EntryPoint("mine", "no_such_package.metrics", "refbench.metrics")
    monkeypatch.setattr(sys.modules["refbench.metrics.metric"], "entry_points", lambda group: [point])
    sys.modules["refbench.metrics.metric"]._load_all.cache_clear()
    assert find_metric("ssim").id == "ssim"
    assert "the plug-in no_such_package.metrics cannot be loaded" in capsys.readouterr().err
