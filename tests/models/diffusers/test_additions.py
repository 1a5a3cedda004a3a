"""What options put around a pipeline paints what diffusers paints when its users do the same by hand."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.models.diffusers.painting import Manner, Order, ready
from refbench.models.diffusers.pipelines import shape_of
from refbench.models.model import Commission, Shown
from refbench.record import RefBenchError
from support.tiny_diffusers import OLD_NAMES, Pipelines, model, paint, pixels
from support.tiny_pipelines import ip_adapter, lora, redux

torch = pytest.importorskip("torch", reason="needs the extra diffusers")
diffusers = pytest.importorskip("diffusers", reason="needs the extra diffusers")

pytestmark = OLD_NAMES


def loaded(folder: Path, **more: Any) -> Any:
    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder, **more)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def painted_by(pipeline: Any, seed: int = 0, **arguments: Any) -> Any:
    return np.asarray(pipeline(generator=torch.Generator().manual_seed(seed), **arguments).images[0])


def opened(*shown: Shown) -> list[Image.Image]:
    return [Image.open(one.path).convert("RGB") for one in shown]


@pytest.mark.parametrize("base", ["xl", "flux"])
def test_an_ip_adapter_is_shown_all_pictures(
    tiny: Pipelines, tmp_path: Path, picture: Callable[..., Shown], base: str
) -> None:
    adapter = ip_adapter(tmp_path / "repository", tiny(base))
    first, second = picture(1, 40, 30, "subject"), picture(2, 30, 40, "style")
    encoder = f"&ip_encoder={adapter.parent / 'image_encoder'}" if base == "flux" else ""
    options = f"steps=2&guidance=3&width=32&height=32&ip_adapter={adapter}&ip_scale=0.7{encoder}"
    both, one = paint(
        tiny(base), options, (Commission("a cat", (first, second)), 5), (Commission("a cat", (first,)), 5)
    )
    by_hand = loaded(tiny(base))
    where = {"subfolder": "", "weight_name": adapter.name}
    if base == "flux":
        where |= {
            "image_encoder_pretrained_model_name_or_path": str(adapter.parent / "image_encoder"),
            "image_encoder_dtype": torch.float32,
        }
    by_hand.load_ip_adapter(str(adapter.parent), **where)
    by_hand.set_ip_adapter_scale(0.7)
    same = {"prompt": "a cat", "num_inference_steps": 2, "guidance_scale": 3.0, "width": 32, "height": 32}
    expected = painted_by(by_hand, 5, ip_adapter_image=[opened(first, second)], **same)
    assert np.array_equal(pixels(both), expected)
    assert not np.array_equal(pixels(both), pixels(one))


def test_redux_hears_the_instruction_and_sees_every_picture(
    tiny: Pipelines, tmp_path: Path, picture: Callable[..., Shown]
) -> None:
    folder = redux(tmp_path / "redux")
    first, second = picture(1, 40, 30, "subject"), picture(2, 30, 40, "style")
    asked = [("a cat", (first, second)), ("a dog", (first, second)), ("a cat", (first,))]
    options = f"steps=2&guidance=2.5&width=32&height=32&redux={folder}"
    both, other_words, one = paint(tiny("flux"), options, *((Commission(*each), 5) for each in asked))
    by_hand = loaded(tiny("flux"))
    names = ("text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2")
    prior = diffusers.FluxPriorReduxPipeline.from_pretrained(folder, **{n: getattr(by_hand, n) for n in names})
    told = prior(opened(first, second), prompt="a cat")
    same = {"num_inference_steps": 2, "guidance_scale": 2.5, "width": 32, "height": 32}
    assert np.array_equal(pixels(both), painted_by(by_hand, 5, **told, **same))
    assert not np.array_equal(pixels(both), pixels(other_words))
    assert not np.array_equal(pixels(both), pixels(one))


def test_icedit_gives_the_right_panel_of_its_diptych(tiny: Pipelines, picture: Callable[..., Shown]) -> None:
    source = picture(1, 60, 45)
    (painted,) = paint(tiny("fill"), "steps=2&guidance=50&diptych=32", (Commission("it snows", (source,)), 5))
    panel = opened(source)[0].resize((32, 24), Image.Resampling.BICUBIC)
    both, mask = Image.new("RGB", (64, 24)), Image.fromarray(np.repeat(np.uint8([[0, 255]]), 32, 1).repeat(24, 0))
    both.paste(panel, (0, 0))
    both.paste(panel, (32, 0))
    words = (
        "A diptych with two side-by-side images of the same scene. "
        "On the right, the scene is exactly the same as on the left but it snows"
    )
    expected = painted_by(
        loaded(tiny("fill")), 5, prompt=words, image=both, mask_image=mask, num_inference_steps=2, guidance_scale=50.0,
        width=64, height=24,
    )  # fmt: skip
    assert np.array_equal(pixels(painted), expected[:, 32:])
    (masked,) = paint(tiny("fill"), "steps=1&diptych=32", (Commission("x", (source, picture(2, 60, 45, "mask"))), 0))
    assert masked.failure is not None and masked.failure.kind == "undefined"


@pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs peft")
def test_a_lora_is_in_the_picture_and_in_the_identity(
    tiny: Pipelines, tmp_path: Path, picture: Callable[..., Shown]
) -> None:
    folder = lora(tmp_path / "lora", tiny("fill"))
    order = (Commission("a cat", (picture(1, 32, 32), picture(2, 32, 32, "mask"))), 0)
    (plain,), (painted,) = (paint(tiny("fill"), f"steps=2{more}", order) for more in ("", f"&lora={folder}"))
    by_hand = loaded(tiny("fill"))
    by_hand.load_lora_weights(str(folder))
    source, mask = opened(*order[0].pictures)
    expected = painted_by(
        by_hand, prompt="a cat", image=source, mask_image=mask.convert("L"), num_inference_steps=2, width=32, height=32
    )
    assert np.array_equal(pixels(painted), expected)
    assert not np.array_equal(pixels(painted), pixels(plain))
    named = model(tiny("fill"), f"lora={folder}").canonical()["lora"]
    file = folder / "pytorch_lora_weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert model(tiny("fill"), f"lora={folder}").canonical()["lora"] != named


@pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs peft")
def test_a_lora_of_another_network_is_no_model(tiny: Pipelines, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"unet.down.lora_A.weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(RefBenchError, match=r"^lora=\S+other.safetensors has no weights for FluxPipeline"):
        paint(tiny("flux"), f"steps=1&lora={tmp_path / 'other.safetensors'}", (Commission("a cat", size=(32, 32)), 0))


def test_weights_that_do_not_fit_are_told_by_their_name(
    tiny: Pipelines, tmp_path: Path, picture: Callable[..., Shown]
) -> None:
    adapter = ip_adapter(tmp_path / "xl", tiny("xl"))
    order = (Commission("a cat", (picture(1),)), 0)
    options = f"steps=1&ip_encoder={adapter.parent / 'image_encoder'}&ip_adapter="
    with pytest.raises(RefBenchError, match=r"^ip_adapter=\S+adapter.safetensors does not fit in FluxPipeline \("):
        paint(tiny("flux"), f"{options}{adapter}", order)
    with pytest.raises(RefBenchError, match=r"^ip_adapter=\S+xl: name the file"):
        paint(tiny("xl"), f"{options}{adapter.parent}", order)


def test_cosxl_edit_scales_what_it_is_shown(tiny: Pipelines, picture: Callable[..., Shown]) -> None:
    source = picture(1, 32, 32)
    (painted,) = paint(tiny("cosxl"), "steps=2&guidance=7", (Commission("a cat", (source,)), 0))
    arguments = {"prompt": "a cat", "image": opened(source)[0], "num_inference_steps": 2, "guidance_scale": 7.0}
    size = {"width": 32, "height": 32}
    right, wrong = (loaded(tiny("cosxl"), is_cosxl_edit=truly) for truly in (True, False))
    assert np.array_equal(pixels(painted), painted_by(right, **arguments, **size))
    assert not np.array_equal(pixels(painted), painted_by(wrong, **arguments, **size))


def test_a_control_map_keeps_its_shape(tiny: Pipelines, picture: Callable[..., Shown]) -> None:
    shown = picture(1, 48, 32, "depth")
    (painted,) = paint(tiny("control"), "steps=1&guidance=30", (Commission("a cat", (shown,)), 0))
    expected = painted_by(
        loaded(tiny("control")), prompt="a cat", control_image=opened(shown)[0], num_inference_steps=1,
        guidance_scale=30.0, width=48, height=32,
    )  # fmt: skip
    assert np.array_equal(pixels(painted), expected)


def test_fill_paints_in_the_shape_of_its_picture(tiny: Pipelines, picture: Callable[..., Shown]) -> None:
    source, mask = picture(1, 48, 32), picture(2, 48, 32, "mask")
    (painted,) = paint(tiny("fill"), "steps=1&guidance=30", (Commission("a cat", (source, mask)), 0))
    expected = painted_by(
        loaded(tiny("fill")), prompt="a cat", image=opened(source)[0], mask_image=opened(mask)[0].convert("L"),
        num_inference_steps=1, guidance_scale=30.0, width=48, height=32,
    )  # fmt: skip
    assert np.array_equal(pixels(painted), expected)


@pytest.mark.parametrize("kind", ["QwenImageEditPlusPipeline", "QwenImage21Pipeline"])
@pytest.mark.parametrize(
    ("roles", "wanted"),
    [
        (("source", "subject"), (1184, 896)),  # the size that diffusers gives a lone source of 40 x 30
        (("subject", "source"), None),  # the last one, which the pipeline follows by itself
        (("source",), None),
        (("subject", "style"), None),
    ],
)
def test_a_result_has_the_shape_of_its_source(
    picture: Callable[..., Shown], kind: str, roles: tuple[str, ...], wanted: tuple[int, int] | None
) -> None:
    shape = shape_of(getattr(diffusers, kind), "x")
    sizes = {"source": (40, 30), "subject": (30, 60), "style": (30, 60)}
    shown = tuple(picture(number, *sizes[role], role) for number, role in enumerate(roles))
    readied = ready(shape, Manner({}), Order(Commission("a cat", shown), 0), 16)
    assert not isinstance(readied, Failure)
    assert readied[0].size == wanted


@pytest.mark.parametrize(
    ("base", "options", "said"),
    [
        ("kontext", "ip_adapter={here}", "FluxKontextPipeline takes no ip_adapter="),
        ("text", "redux={here}", "redux= is for a FluxPipeline"),
        ("flux", "diptych=512", "diptych= is for a FluxFillPipeline"),
        ("fill", "diptych=512&width=64&height=64", "leave width and height out"),
        ("flux", "ip_encoder={here}", "is of an ip_adapter=, which is not there"),
        ("flux", "redux=/nowhere", "redux=/nowhere: there is no such file or directory"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_loaded(
    tiny: Pipelines, tmp_path: Path, base: str, options: str, said: str
) -> None:
    with pytest.raises(RefBenchError, match=said):
        model(tiny(base), options.format(here=tmp_path))


def test_without_peft_a_lora_says_what_to_install(
    tiny: Pipelines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "peft" else known(name, *more))
    with pytest.raises(RefBenchError, match=r"--model m: lora= needs peft: pip install 'refbench\[lora\]'"):
        model(tiny("flux"), f"lora={tmp_path}")
