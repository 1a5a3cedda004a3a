"""What becomes of requests that a diffusers pipeline refuses, cannot take, or that nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refbench.models.diffusers import painting
from refbench.models.diffusers.painting import Order, Painter, noise_seed, tagged
from refbench.models.model import Commission, Painted, Shown
from refbench.pictures import facts_of
from support.tiny_diffusers import OLD_NAMES, Pipelines, model, paint, pixels

torch = pytest.importorskip("torch", reason="needs the extra diffusers")
diffusers = pytest.importorskip("diffusers", reason="needs the extra diffusers")

pytestmark = OLD_NAMES


def test_what_the_safety_checker_blacks_out_is_refused(tiny: Pipelines) -> None:
    (painted,) = paint(tiny("checked"), "steps=1", (Commission("a cat", size=(32, 32)), 0))
    assert painted.pictures == () and painted.failure is not None and painted.failure.kind == "refused"
    (unchecked,) = paint(tiny("checked"), "steps=1&safety=off", (Commission("a cat", size=(32, 32)), 0))
    assert pixels(unchecked).any()


def test_numbers_that_overflowed_are_no_black_picture(tiny: Pipelines, tmp_path: Path) -> None:
    pipeline = diffusers.DiffusionPipeline.from_pretrained(tiny("text"))
    with torch.no_grad():
        pipeline.vae.decoder.conv_out.bias.fill_(float("nan"))
    pipeline.save_pretrained(tmp_path / "broken")
    (painted,) = paint(tmp_path / "broken", "steps=1", (Commission("a cat", size=(32, 32)), 0))
    assert painted.failure is not None and painted.failure.kind == "unreadable_picture"
    assert "overflowed in fp32" in painted.failure.detail


def test_a_picture_is_an_encoded_file_of_the_nearest_size(tiny: Pipelines) -> None:
    (painted,) = paint(tiny("flux"), "steps=1", (Commission("a cat", size=(50, 33)), 0))
    facts = facts_of(painted.pictures[0])
    assert (facts.format, facts.width, facts.height) == ("png", 48, 32)  # it paints multiples of 4


def test_several_draws_only_where_they_are_wanted(tiny: Pipelines) -> None:
    commission = Commission("a cat", size=(32, 32), n_pictures=3)
    (one,) = paint(tiny("text"), "steps=1", (commission, 4))
    assert len(one.pictures) == 1 and one.failure is not None and one.failure.kind == "missing_output"
    assert one.failure.detail.startswith("1 of 3 pictures: StableDiffusionPipeline paints one a request")
    (three,) = paint(tiny("text"), "steps=1&max_pictures=4", (commission, 4))
    assert three.failure is None and len(set(three.pictures)) == 3
    assert three.pictures[0] == one.pictures[0]


@pytest.mark.parametrize(
    ("name", "roles", "told"),
    [
        (
            "text",
            ["source"],
            "StableDiffusionPipeline paints from text alone, the request shows 1 picture: use rephrase",
        ),
        ("edit", [], "StableDiffusionInstructPix2PixPipeline edits a picture, the request shows none"),
        ("edit", ["source", "style"], "takes 1 picture, the request shows 2: choose an overflow policy"),
        ("edit", ["source", "mask"], "takes 1 picture, the request shows 2: drop the mask with ablate"),
        ("inpaint", ["source"], "paints what a mask marks, the request has no picture of the role mask"),
        ("inpaint", ["source", "style", "mask"], "takes 1 picture and a mask, the request shows 3"),
    ],
)
def test_what_a_pipeline_cannot_be_shown_is_said(
    tiny: Pipelines, picture: Callable[..., Shown], name: str, roles: list[str], told: str
) -> None:
    shown = tuple(picture(number, 32, 32, role) for number, role in enumerate(roles))
    (painted,) = paint(tiny(name), "steps=1", (Commission("a cat", shown), 0))
    assert painted.failure is not None and painted.failure.kind == "undefined"
    assert told in painted.failure.detail


def test_a_broken_picture_or_a_complaint_of_the_pipeline_stays_with_its_request(
    tiny: Pipelines, picture: Callable[..., Shown], tmp_path: Path
) -> None:
    (tmp_path / "cut.png").write_bytes(picture(1).path.read_bytes()[:99])
    orders = [(Shown(tmp_path / "cut.png", "source"),), (picture(2, 32, 32),), (picture(3),)]
    cut, small, good = paint(
        tiny("several"), "steps=1&guidance=1", *((Commission("a cat", shown), 0) for shown in orders)
    )
    assert cut.failure is not None and cut.failure.kind == "unreadable_picture" and "cut.png" in cut.failure.detail
    assert small.failure is not None and small.failure.kind == "api_error" and "too small" in small.failure.detail
    assert pixels(good).shape == (80, 64, 3)


def test_pictures_are_shown_no_larger_than_wanted(tiny: Pipelines, picture: Callable[..., Shown]) -> None:
    (painted,) = paint(tiny("edit"), "steps=1&max_side=32", (Commission("a cat", (picture(1, 96, 48),)), 0))
    assert pixels(painted).shape == (16, 32, 3)


def test_a_request_nobody_waits_for_stops_between_two_steps(tiny: Pipelines) -> None:
    one = model(tiny("text"), "steps=50")
    asked: list[None] = []
    order = Order(Commission("a cat", size=(32, 32)), 0, gone=lambda: len(asked) >= 3 or asked.append(None))
    (painted,) = Painter(one._found, one._manner).paint([order])
    assert len(asked) == 3 and painted.failure is not None and painted.failure.kind == "timeout"
    asyncio.run(one.close())


def test_a_cancelled_request_frees_the_pipeline(tiny: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, steps = threading.Event(), []
    real = painting._stopper

    def counted(units: Any) -> Any:
        look = real(units)

        def step(*told: Any) -> Any:
            steps.append(told[1])
            begun.set()
            return look(*told)

        return step

    monkeypatch.setattr(painting, "_stopper", counted)

    async def work() -> None:
        one = model(tiny("text"), "steps=900")
        task = asyncio.create_task(one.generate(Commission("a cat", size=(32, 32)), 0))
        assert await asyncio.to_thread(begun.wait, 60), task.result().failure
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await one.close()

    asyncio.run(work())
    assert 1 <= len(steps) < 900


def test_weights_are_loaded_once_for_all_threads(tiny: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    real = painting.load
    monkeypatch.setattr(painting, "load", lambda found: loaded.append(found.shape.name) or real(found))
    one = model(tiny("text"))
    made: dict[int, Painted] = {}

    def ask(seed: int) -> None:
        made[seed] = asyncio.run(one.generate(Commission("a cat", size=(32, 32)), seed))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(one.close())
    assert loaded == ["StableDiffusionPipeline"]
    assert len({pixels(painted).tobytes() for painted in made.values()}) == 4


def test_pictures_are_named_in_the_instruction_where_a_pipeline_wants_that() -> None:
    tag = "<img><|image_{n}|></img>"
    assert tagged(tag, "add a hat", 2) == "<img><|image_1|></img> <img><|image_2|></img> add a hat"
    assert tagged(tag, "put <image2> on <image1>", 2) == "put <img><|image_2|></img> on <img><|image_1|></img>"
    assert tagged(tag, "put <image9> here", 1) == "<img><|image_1|></img> put <image9> here"
    assert tagged(tag, "a cat", 0) == tagged(None, "a cat", 2) == "a cat"


def test_seeds_fit_what_torch_uses_of_them() -> None:
    seeds = {noise_seed(seed, number) for seed in (0, 1, -1, 2**32, 2**40) for number in range(20)}
    assert len(seeds) == 100 and all(0 <= seed < 2**32 for seed in seeds)
    first, same = (torch.Generator().manual_seed(seed) for seed in (1, 2**32 + 1))
    assert torch.equal(torch.randn(4, generator=first), torch.randn(4, generator=same))
