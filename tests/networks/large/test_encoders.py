"""Encoders on tiny weights of the real architectures: equal to transformers' own models behind their own processors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.metrics.metric import find_metric
from refbench.metrics.similarity import clip_score, clip_score_paper, image_match, text_image_match
from refbench.networks.large.clip import clip_b16, clip_l14_336
from refbench.networks.large.device import TorchDevice, is_out_of_memory
from refbench.networks.large.encoders import csd_vit_l, dinov2_base, dinov2_giant, siglip_so400m
from refbench.record import RefBenchError

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")

WORDS = ["a red bird", "Two birds, over the sea", "x", "a much longer text " * 30]


def prepared(kind: str, folder: Path, picture: Any) -> Any:
    processor = getattr(transformers, kind).from_pretrained(folder)
    return processor(Image.fromarray(picture), return_tensors="pt")["pixel_values"]


@pytest.fixture(scope="session")
def csd_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as training left it: parallel prefix, OpenAI's names, arguments and optimiser beside the weights."""
    import argparse

    folder = tmp_path_factory.mktemp("csd")
    generator = torch.Generator().manual_seed(4)

    def random(*shape: int) -> Any:
        return torch.randn(shape, generator=generator) * (shape[-1] ** -0.5 if len(shape) > 1 else 0.3)

    width = 128
    state = {
        "conv1.weight": random(width, 3, 14, 14) * 0.3,
        "class_embedding": random(width),
        "positional_embedding": random(17, width),
        "ln_pre.weight": 1 + random(width), "ln_pre.bias": random(width),
        "ln_post.weight": 1 + random(width), "ln_post.bias": random(width),
    }  # fmt: skip
    for n in range(2):
        block = f"transformer.resblocks.{n}"
        state |= {
            f"{block}.attn.in_proj_weight": random(3 * width, width), f"{block}.attn.in_proj_bias": random(3 * width),
            f"{block}.attn.out_proj.weight": random(width, width), f"{block}.attn.out_proj.bias": random(width),
            f"{block}.ln_1.weight": 1 + random(width), f"{block}.ln_1.bias": random(width),
            f"{block}.ln_2.weight": 1 + random(width), f"{block}.ln_2.bias": random(width),
            f"{block}.mlp.c_fc.weight": random(4 * width, width), f"{block}.mlp.c_fc.bias": random(4 * width),
            f"{block}.mlp.c_proj.weight": random(width, 4 * width), f"{block}.mlp.c_proj.bias": random(width),
        }  # fmt: skip
    model = {f"module.backbone.{name}": value for name, value in state.items()}
    model |= {"module.last_layer_style": random(width, 48), "module.last_layer_content": random(width, 48)}
    checkpoint = {"model_state_dict": model, "args": argparse.Namespace(lr=0.1), "iter": np.float64(3), "opt_bb": {}}
    torch.save(checkpoint, folder / "pytorch_model.bin")
    return folder


@pytest.fixture
def networks(
    clip_folder: Path, siglip_folder: Path, dinov2_folder: Path, csd_folder: Path
) -> dict[str, tuple[Callable[..., Any], Path]]:
    return {
        "clip_b16": (clip_b16, clip_folder),
        "siglip_so400m": (siglip_so400m, siglip_folder),
        "dinov2_giant": (dinov2_giant, dinov2_folder),
        "csd_vit_l": (csd_vit_l, csd_folder),
    }


NAMES = ["clip_b16", "siglip_so400m", "dinov2_giant", "csd_vit_l"]


def vectors(features: list[Any]) -> np.ndarray:
    assert not any(isinstance(feature, Failure) for feature in features)
    return np.stack([feature["vector"] for feature in features])


def test_clip_pictures_equal_transformers(clip_folder: Path, pictures: list[Any]) -> None:
    model = transformers.CLIPModel.from_pretrained(clip_folder)
    found = vectors(clip_l14_336(clip_folder)(pictures))
    for row, picture in zip(found, pictures, strict=True):
        with torch.inference_mode():
            expected = model(
                pixel_values=prepared("CLIPImageProcessorPil", clip_folder, picture), input_ids=torch.tensor([[0, 1]])
            ).image_embeds[0]
        assert np.abs(row / np.linalg.norm(row) - expected.numpy()).max() < 1e-5


def test_clip_texts_equal_transformers_padded_and_cut_to_77(clip_folder: Path) -> None:
    model = transformers.CLIPModel.from_pretrained(clip_folder)
    tokenizer = transformers.CLIPTokenizer.from_pretrained(clip_folder)
    said = tokenizer(WORDS, padding="max_length", max_length=77, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        expected = model(**said, pixel_values=torch.zeros(1, 3, 56, 56)).text_embeds.numpy()
    found = vectors(clip_l14_336(clip_folder)(WORDS))
    assert np.abs(found / np.linalg.norm(found, axis=1, keepdims=True) - expected).max() < 1e-5


def test_pictures_and_texts_may_come_in_any_mixture(clip_folder: Path, pictures: list[Any]) -> None:
    clip = clip_b16(clip_folder)
    mixed = clip([pictures[0], WORDS[0], pictures[1], WORDS[1]])
    assert np.abs(vectors(mixed)[[0, 2]] - vectors(clip(pictures[:2]))).max() < 1e-5
    assert np.abs(vectors(mixed)[[1, 3]] - vectors(clip(WORDS[:2]))).max() < 1e-5


def test_an_empty_text_has_no_vector(clip_folder: Path) -> None:
    assert isinstance(clip_b16(clip_folder)([" \n"])[0], Failure)


def test_only_a_text_that_is_too_long_differs_without_its_end_marker(clip_folder: Path) -> None:
    """torchmetrics slices tokens instead of truncating; the highest token is then the first one, whatever follows."""
    clip = clip_b16(clip_folder)
    short, long, other = clip(["a red bird", WORDS[3], "quite different words " * 30])
    assert np.array_equal(short["vector"], short["sliced"])
    assert np.abs(long["vector"] - long["sliced"]).max() > 1e-3
    assert np.abs(long["vector"] - other["vector"]).max() > 1e-3
    assert np.abs(long["sliced"] - other["sliced"]).max() < 1e-5


def test_siglip_equals_transformers(siglip_folder: Path, pictures: list[Any]) -> None:
    model = transformers.SiglipVisionModel.from_pretrained(siglip_folder)
    found = vectors(siglip_so400m(siglip_folder)(pictures))
    for row, picture in zip(found, pictures, strict=True):
        with torch.inference_mode():
            expected = model(prepared("SiglipImageProcessorPil", siglip_folder, picture)).pooler_output[0].numpy()
        assert np.abs(row - expected).max() < 1e-4


def test_dinov2_is_the_mean_of_all_tokens_of_transformers(dinov2_folder: Path, pictures: list[Any]) -> None:
    model = transformers.Dinov2Model.from_pretrained(dinov2_folder)
    found = vectors(dinov2_base(dinov2_folder)(pictures))
    for row, picture in zip(found, pictures, strict=True):
        with torch.inference_mode():
            tokens = model(prepared("BitImageProcessorPil", dinov2_folder, picture)).last_hidden_state[0]
        assert tokens.shape[0] == 17
        assert np.abs(row - tokens.mean(0).numpy()).max() < 1e-4


def test_csd_equals_openai_s_trunk_times_the_style_matrix(csd_folder: Path, pictures: list[Any]) -> None:
    """Written out with torch's own attention, in the order and under the names of OpenAI's code."""
    state = torch.load(csd_folder / "pytorch_model.bin", weights_only=False)["model_state_dict"]
    w = {name.removeprefix("module."): value for name, value in state.items()}
    norm = torch.nn.functional.layer_norm

    def block(x: Any, n: int) -> Any:
        b = f"backbone.transformer.resblocks.{n}"
        y = norm(x, (128,), w[f"{b}.ln_1.weight"], w[f"{b}.ln_1.bias"])
        attention = torch.nn.MultiheadAttention(128, 2, batch_first=True)
        names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        attention.load_state_dict({name: w[f"{b}.attn.{name}"] for name in names})
        x = x + attention(y, y, y, need_weights=False)[0]
        y = norm(x, (128,), w[f"{b}.ln_2.weight"], w[f"{b}.ln_2.bias"])
        y = y @ w[f"{b}.mlp.c_fc.weight"].T + w[f"{b}.mlp.c_fc.bias"]
        y = y * torch.sigmoid(1.702 * y)
        return x + y @ w[f"{b}.mlp.c_proj.weight"].T + w[f"{b}.mlp.c_proj.bias"]

    square = [picture for picture in pictures if picture.shape[0] == picture.shape[1]]
    found = vectors(csd_vit_l(csd_folder)(square))
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56})
    for row, picture in zip(found, square, strict=True):
        with torch.inference_mode():
            seen = processor(Image.fromarray(picture), return_tensors="pt")["pixel_values"]
            x = torch.nn.functional.conv2d(seen, w["backbone.conv1.weight"], stride=14).flatten(2).transpose(1, 2)
            x = torch.cat([w["backbone.class_embedding"].view(1, 1, -1), x], 1) + w["backbone.positional_embedding"]
            x = norm(x, (128,), w["backbone.ln_pre.weight"], w["backbone.ln_pre.bias"])
            for n in range(2):
                x = block(x, n)
            pooled = norm(x[:, 0], (128,), w["backbone.ln_post.weight"], w["backbone.ln_post.bias"])
            expected = (pooled @ w["last_layer_style"])[0].numpy()
        assert np.abs(row - expected).max() < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_neither_batch_nor_order_changes_a_vector(name: str, networks: dict[str, Any], pictures: list[Any]) -> None:
    make, folder = networks[name]
    alone = vectors(make(folder, batch=1)(pictures))
    together = vectors(make(folder, batch=5)(pictures))
    backwards = vectors(make(folder, batch=3)(pictures[::-1]))[::-1]
    assert np.abs(alone).max() > 0.1
    assert np.abs(together - alone).max() < 1e-4
    assert np.abs(backwards - alone).max() < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_bf16_stays_close_and_does_not_depend_on_the_batch(
    name: str, networks: dict[str, Any], pictures: list[Any], cosine_distance: Callable[[Any, Any], float]
) -> None:
    make, folder = networks[name]
    fp32 = vectors(make(folder)(pictures))
    alone = vectors(make(folder, dtype="bf16", batch=1)(pictures))
    together = vectors(make(folder, dtype="bf16", batch=8)(pictures))
    assert all(cosine_distance(a, b) < 1e-2 for a, b in zip(alone, together, strict=True))
    assert all(cosine_distance(a, b) < 1e-2 for a, b in zip(alone, fp32, strict=True))


def test_a_batch_that_does_not_fit_is_halved_and_an_item_that_does_not_is_a_failure() -> None:
    place = TorchDevice("cpu", batch=8)
    tried = []

    def run(items: Any) -> list[int]:
        tried.append(len(items))
        if len(items) > 2 or 5 in items:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [item * 10 for item in items]

    found = place.run(list(range(8)), run)
    assert [item for item in found if not isinstance(item, Failure)] == [0, 10, 20, 30, 40, 60, 70]
    assert isinstance(found[5], Failure)
    assert found[5].transient
    assert tried[:4] == [8, 4, 2, 2]
    assert place.batch == 1


def test_other_errors_than_of_memory_are_not_swallowed() -> None:
    def run(items: Any) -> list[int]:
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes"):
        TorchDevice("cpu").run([1], run)
    assert is_out_of_memory(
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate")
    )


@pytest.mark.parametrize(
    ("device", "dtype", "said"),
    [
        ("cuda", "fp32", "no GPU here"),
        ("gpu", "fp32", "choose cpu, cuda"),
        ("cpu", "fp8", "choose float32 or bfloat16"),
    ],
)
def test_a_wrong_device_or_dtype_is_said_in_a_sentence(device: str, dtype: str, said: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RefBenchError, match=said):
        TorchDevice(device, dtype)


def test_too_little_memory_is_said_before_anything_is_loaded(
    clip_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refbench.networks.large.device.free_bytes", lambda device: 1000.0)
    with pytest.raises(
        RefBenchError, match=r"clip_b16 needs .* GB on cpu, where 0.0 GB are free: choose dtype bfloat16"
    ):
        clip_b16(clip_folder)


def test_weights_that_lack_something_are_refused_not_filled_with_noise(clip_folder: Path, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    shutil.copytree(clip_folder, tmp_path / "c")
    state = load_file(clip_folder / "model.safetensors")
    del state["visual_projection.weight"]
    save_file(state, tmp_path / "c/model.safetensors")
    with pytest.raises(RefBenchError, match=r"lacks visual_projection.weight; run refbench fetch clip_b16"):
        clip_b16(tmp_path / "c")
    (tmp_path / "c/model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(RefBenchError, match="damaged"):
        clip_b16(tmp_path / "c")


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    import pickle

    class Hostile:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"last_layer_style": Hostile()}))
    with pytest.raises(RefBenchError, match="not only weights"):
        csd_vit_l(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_the_metrics_on_clip(clip_folder: Path, pictures: list[Any]) -> None:
    """Both protocols of clip_score against transformers, the paper's with the input divided by 255 twice."""
    clip = clip_b16(clip_folder)
    picture, text = clip([pictures[0], WORDS[0]])
    expected = float(image_match(picture, text))
    assert text_image_match(picture, text) == pytest.approx(expected)
    assert clip_score(picture, text) == pytest.approx(max(100 * expected, 0))
    model = transformers.CLIPModel.from_pretrained(clip_folder)
    processor = transformers.CLIPImageProcessorPil.from_pretrained(clip_folder)
    ids = transformers.CLIPTokenizer.from_pretrained(clip_folder)(WORDS[0], return_tensors="pt")
    tensor = torch.from_numpy(
        np.asarray(Image.fromarray(pictures[0]).resize((56, 56), Image.Resampling.BICUBIC)) / 255.0
    )
    with torch.inference_mode():
        seen = processor(tensor.permute(2, 0, 1).float(), return_tensors="pt")["pixel_values"]
        assert float(seen.max()) < -1.4
        out = model(**ids, pixel_values=seen)
    value = clip_score_paper(pictures[0], text, clip)  # type: ignore[arg-type]
    assert value == pytest.approx(max(100 * float((out.image_embeds @ out.text_embeds.T)[0, 0]), 0), abs=1e-3)


def test_opposite_vectors_score_zero_and_empty_ones_nothing() -> None:
    one = {"vector": np.array([1.0, 0.0], np.float32)}
    assert clip_score(one, {"vector": -one["vector"]}) == 0
    assert isinstance(image_match(one, {"vector": np.zeros(2, np.float32)}), Failure)


def test_the_metrics_are_there_under_their_names() -> None:
    for network in ("clip_b16", "clip_l14_336", "dinov2_base", "dinov2_giant", "csd_vit_l", "siglip_so400m"):
        assert find_metric(f"image_match@{network}").networks == (network,)
    assert find_metric("image_match").networks == ("mobilenet_v2",)
    for name in (
        "text_image_match@clip_l14_336",
        "masked_image_match@dinov2_giant",
        "clip_score@clip_b16",
    ):
        assert find_metric(name).id == name
    assert find_metric("clip_score@clip_b16", "paper").function is clip_score_paper
    assert find_metric("inception_mean@inception_v3", "paper").id == "inception_mean@inception_v3"
    for name in ("aesthetic@siglip_aesthetic_v25", "aesthetic@laion_v1_l14", "musiq@musiq_koniq"):
        assert find_metric(name).id == name


def test_a_folder_of_one_s_own_serves_the_whole_way_to_a_measurement(
    clip_folder: Path, pictures: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registry, weights folder, loading, planner, metric: nothing of it is told that the weights are tiny."""
    import shutil

    from refbench.metrics.measure import measure
    from refbench.networks import network

    shutil.copytree(clip_folder, tmp_path / "weights/hub/clip_l14_336")
    shutil.copytree(clip_folder, tmp_path / "weights/hub/clip_b16")
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setenv("REFBENCH_CACHE", "off")
    monkeypatch.setattr(network, "_LOADED", {})
    clip = clip_l14_336(clip_folder)
    picture, other, text = clip([pictures[1], pictures[2], WORDS[1]])
    found = measure("text_image_match@clip_l14_336", protocol="paper", output=pictures[1], caption=WORDS[1])
    assert found.value == pytest.approx(float(text_image_match(picture, text)), abs=1e-5)
    found = measure("image_match@clip_l14_336", protocol="paper", output=pictures[1], reference=pictures[2])
    assert found.value == pytest.approx(float(image_match(picture, other)), abs=1e-5)
    values = {
        p: measure("clip_score@clip_b16", protocol=p, output=pictures[1], caption=WORDS[0])
        for p in ("paper", "corrected")
    }
    assert values["corrected"].value is not None
    assert values["paper"].value is not None
    assert measure("clip_score@clip_b16", output=pictures[1], caption=" ").failure is not None
    # Two wide pictures that differ at their ends only: the centre crop of the released code sees no difference.
    wide = np.full((40, 160, 3), 128, np.uint8)
    ends = wide.copy()
    ends[:, :30] = (255, 0, 0)
    ends[:, -30:] = (0, 0, 255)
    for name in ("image_match@clip_l14_336", "image_match@clip_b16"):
        assert measure(name, protocol="paper", output=ends, reference=wide).value == pytest.approx(1.0, abs=1e-5)
        seen = measure(name, output=ends, reference=wide).value
        assert seen is not None
        assert seen < 0.9999
