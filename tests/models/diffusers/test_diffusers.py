"""diffusers models paint what the pipelines of diffusers paint when they are called by hand, with the same settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.models.model import Commission, Shown
from support.tiny_diffusers import OLD_NAMES, Pipelines, paint, pixels

torch = pytest.importorskip("torch", reason="needs the extra diffusers")
diffusers = pytest.importorskip("diffusers", reason="needs the extra diffusers")

pytestmark = OLD_NAMES


def by_hand(folder: Path, seed: int = 0, **arguments: Any) -> Any:
    """The oracle: diffusers as its users call it, with pictures as Pillow images."""
    pipeline = diffusers.DiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    return np.asarray(pipeline(generator=torch.Generator().manual_seed(seed), **arguments).images[0])


def opened(shown: Shown) -> Image.Image:
    return Image.open(shown.path).convert("RGB")


def test_text_to_image_is_what_diffusers_paints(tiny: Pipelines) -> None:
    commission = Commission("a cat", size=(48, 32))
    (painted,) = paint(tiny("text"), "steps=3&guidance=5&negative_prompt=dog", (commission, 7))
    expected = by_hand(
        tiny("text"),
        7,
        prompt="a cat",
        negative_prompt="dog",
        num_inference_steps=3,
        guidance_scale=5.0,
        width=48,
        height=32,
    )
    assert np.array_equal(pixels(painted), expected)
    assert painted.provenance["pipeline"] == "StableDiffusionPipeline"
    assert painted.cost_usd == 0 and painted.seconds is not None


def test_flux_paints_what_diffusers_paints(tiny: Pipelines) -> None:
    (painted,) = paint(tiny("flux"), "steps=2&guidance=2.5&width=48&height=32", (Commission("a cat", size=(64, 64)), 7))
    expected = by_hand(
        tiny("flux"), 7, prompt="a cat", num_inference_steps=2, guidance_scale=2.5, width=48, height=32
    )  # what the spec says comes before what the request asks for
    assert np.array_equal(pixels(painted), expected)


@pytest.mark.parametrize(
    ("name", "more"), [("sd3", {"negative_prompt": "dog"}), ("pixart", {"use_resolution_binning": False})]
)
def test_models_of_the_papers_for_text_alone_paint_what_diffusers_paints(
    tiny: Pipelines, name: str, more: dict[str, Any]
) -> None:
    said = "&".join(f"{key}={str(value).lower()}" for key, value in more.items())
    (painted,) = paint(tiny(name), f"steps=2&guidance=5&{said}", (Commission("a cat", size=(48, 32)), 7))
    expected = by_hand(
        tiny(name), 7, prompt="a cat", num_inference_steps=2, guidance_scale=5.0, width=48, height=32, **more
    )
    assert np.array_equal(pixels(painted), expected)
    assert "(untested)" not in painted.provenance["pipeline"]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_half_precision_paints_nearly_the_same(tiny: Pipelines, dtype: str) -> None:
    commission = Commission("a cat", size=(32, 32))
    (full,) = paint(tiny("text"), "steps=2", (commission, 0))
    (half,) = paint(tiny("text"), f"steps=2&dtype={dtype}", (commission, 0))
    assert half.provenance["dtype"] == dtype
    assert 0 < np.abs(pixels(full).astype(int) - pixels(half)).mean() < 4


def test_an_edit_is_what_diffusers_paints(tiny: Pipelines, picture: Callable[..., Shown]) -> None:
    shown = picture(1, 48, 32)
    (painted,) = paint(tiny("edit"), "steps=3&guidance=6&image_guidance=1.2", (Commission("a cat", (shown,)), 3))
    expected = by_hand(
        tiny("edit"),
        3,
        prompt="a cat",
        image=opened(shown),
        num_inference_steps=3,
        guidance_scale=6.0,
        image_guidance_scale=1.2,
    )
    assert np.array_equal(pixels(painted), expected)


def test_several_references_are_shown_in_their_order(tiny: Pipelines, picture: Callable[..., Shown]) -> None:
    first, second = picture(1, 64, 80), picture(2, 96, 64, "style")
    commissions = [
        Commission("a cat", (first, second)),
        Commission("a cat", (second, first)),
        Commission("a cat", (first,)),
    ]
    size = {"width": 64, "height": 64}
    both, turned, one = paint(tiny("several"), "steps=2&guidance=1&width=64&height=64", *((c, 0) for c in commissions))
    for painted, shown in ((both, [first, second]), (turned, [second, first]), (one, [first])):
        expected = by_hand(
            tiny("several"),
            prompt="a cat",
            image=[opened(s) for s in shown],
            num_inference_steps=2,
            guidance_scale=1.0,
            **size,
        )
        assert np.array_equal(pixels(painted), expected)
    assert not np.array_equal(pixels(both), pixels(turned))
    assert not np.array_equal(pixels(both), pixels(one))


def test_omnigen_is_shown_its_pictures_under_the_names_that_it_knows(
    tiny: Pipelines, picture: Callable[..., Shown]
) -> None:
    pytest.importorskip("torchvision", reason="OmniGen needs torchvision")
    first, second = picture(1, 48, 32), picture(2, 64, 48, "style")
    orders = [("put <image2> into <image1>", (first, second)), ("a cat", (second,)), ("a cat", ())]
    worded = ["put <img><|image_2|></img> into <img><|image_1|></img>", "<img><|image_1|></img> a cat", "a cat"]
    commissions = [(Commission(words, shown, size=(48, 32)), 7) for words, shown in orders]
    painted = paint(tiny("omnigen"), "steps=2&guidance=3&image_guidance=1.6", *commissions)
    for one, prompt, (_, shown) in zip(painted, worded, orders, strict=True):
        torch.manual_seed(7)  # it reads pictures with noise of torch's own, whatever generator it is given
        expected = by_hand(
            tiny("omnigen"), 7, prompt=prompt, input_images=[opened(s) for s in shown] or None, num_inference_steps=2,
            guidance_scale=3.0, img_guidance_scale=1.6, width=48, height=32,
        )  # fmt: skip
        assert np.array_equal(pixels(one), expected)
    assert "(untested)" not in painted[0].provenance["pipeline"]


def test_qwen_image_edit_paints_what_diffusers_paints(
    tiny: Pipelines, picture: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torchvision", reason="Qwen-Image-Edit needs torchvision")
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as module

    monkeypatch.setattr(
        module, "VAE_IMAGE_SIZE", 64 * 64
    )  # its pictures are read at 1024 x 1024, which takes a CPU long
    first, second = picture(1, 48, 32), picture(2, 32, 48, "subject")
    (painted,) = paint(tiny("qwen_edit"), "steps=2&guidance=4", (Commission("a cat", (first, second), (64, 32)), 7))
    expected = by_hand(
        tiny("qwen_edit"), 7, prompt="a cat", image=[opened(first), opened(second)], num_inference_steps=2,
        true_cfg_scale=4.0, negative_prompt=" ", width=64, height=32,
    )  # fmt: skip
    assert np.array_equal(pixels(painted), expected)
    assert "(untested)" not in painted.provenance["pipeline"]


def test_a_model_of_several_references_paints_without_any(tiny: Pipelines) -> None:
    (painted,) = paint(tiny("several"), "steps=1&guidance=1", (Commission("a cat", size=(64, 48)), 0))
    assert pixels(painted).shape == (48, 64, 3)


def test_a_mask_goes_where_the_pipeline_wants_it(tiny: Pipelines, picture: Callable[..., Shown]) -> None:
    source, mask = picture(1, 48, 32), picture(2, 48, 32, "mask")
    (painted,) = paint(tiny("inpaint"), "steps=2&strength=1.0", (Commission("a cat", (mask, source)), 0))
    expected = by_hand(
        tiny("inpaint"), prompt="a cat", image=opened(source), mask_image=opened(mask).convert("L"), num_inference_steps=2,
        strength=1.0, width=48, height=32,
    )  # fmt: skip
    assert np.array_equal(pixels(painted), expected)


def test_kontext_keeps_the_shape_of_its_picture_and_the_size_that_is_asked(
    tiny: Pipelines, picture: Callable[..., Shown]
) -> None:
    shown = picture(1, 96, 64)
    (painted,) = paint(tiny("kontext"), "steps=1&_auto_resize=false", (Commission("a cat", (shown,), size=(96, 64)), 0))
    expected = by_hand(
        tiny("kontext"), prompt="a cat", image=opened(shown), num_inference_steps=1, _auto_resize=False, width=96, height=64,
        max_area=96 * 64,
    )  # fmt: skip
    assert np.array_equal(pixels(painted), expected)
    (followed,) = paint(
        tiny("kontext"), "steps=1&_auto_resize=false&max_area=24576", (Commission("a cat", (shown,)), 0)
    )
    assert pixels(followed).shape == (128, 192, 3)  # without a size it would be a square


def test_a_seed_is_a_picture_whatever_was_painted_before(tiny: Pipelines) -> None:
    commission = Commission("a cat", size=(32, 32))
    a, b, c, d = paint(
        tiny("text"), "steps=2", (commission, 1), (commission, 2), (commission, 1), (commission, 2**32 + 1)
    )
    assert a.pictures == c.pictures
    assert len({a.pictures, b.pictures, d.pictures}) == 3  # torch itself takes 1 and 2**32 + 1 for the same seed


@pytest.mark.parametrize("name", ["text", "flux", "edit", "inpaint"])
def test_a_batch_changes_no_picture(tiny: Pipelines, picture: Callable[..., Shown], name: str) -> None:
    shown = {
        "edit": lambda n: (picture(n, 32, 32),),
        "inpaint": lambda n: (picture(n, 32, 32), picture(n + 10, 32, 32, "mask")),
    }.get(name, lambda n: ())
    orders = [
        (Commission(f"a {word}", shown(n), size=(32, 32)), n) for n, word in enumerate(["cat", "dog barking", "owl"])
    ]
    alone = paint(tiny(name), "steps=2&negative_prompt=bird", *orders)
    together = paint(tiny(name), "steps=2&negative_prompt=bird&batch=3", *orders)
    assert [painted.provenance.get("batch") for painted in together] == ["3"] * 3
    for one, other in zip(alone, together, strict=True):
        assert np.abs(pixels(one).astype(int) - pixels(other)).max() <= 1


def test_requests_that_differ_in_size_are_not_painted_together(tiny: Pipelines) -> None:
    orders = [(Commission("a cat", size=(32, 32)), 0), (Commission("a cat", size=(48, 32)), 0)]
    small, wide = paint(tiny("text"), "steps=1&batch=2", *orders)
    assert pixels(small).shape == (32, 32, 3) and pixels(wide).shape == (32, 48, 3)
