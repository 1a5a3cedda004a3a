"""The template of workers, end to end: its own process, and its own environment where one is named, with tiny networks.

REFBENCH_RECIPE_PYTHON is the interpreter of an environment made from recipes/pinned_diffusers/requirements.txt; without
it the worker runs in this one, whose diffusers is RefBench's own. The oracle is that environment's diffusers, by hand.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refbench.models.model import Commission, Painted, Shown
from refbench.models.process.command import CommandModel
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.tiny_diffusers import OLD_NAMES, noise_picture, pixels

pytest.importorskip("diffusers", reason="needs the extra diffusers")
pytestmark = OLD_NAMES
PYTHON = os.environ.get("REFBENCH_RECIPE_PYTHON", sys.executable)
ROOT = Path(__file__).resolve().parents[3]
WORKER = ROOT / "recipes/pinned_diffusers/pinned_diffusers_worker.py"
EDIT, INPAINT = "StableDiffusionInstructPix2PixPipeline", "StableDiffusionInpaintPipeline"

BY_HAND = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
import diffusers, torch
from PIL import Image
from tiny_pipelines import stable_diffusion
here = Path(sys.argv[2])
source, mask = Image.open(here / "1.png"), Image.open(here / "2.png").convert("L")
for kind, channels, more in (
    ("StableDiffusionInstructPix2PixPipeline", 8, {"guidance_scale": 6}),
    ("StableDiffusionInpaintPipeline", 9, {"mask_image": mask, "strength": 1.0, "width": 48, "height": 32}),
):
    pipeline = getattr(diffusers, kind).from_pretrained(stable_diffusion(kind, here / kind, channels))
    noise = torch.Generator().manual_seed(3)
    pipeline(prompt="a cat", image=source, num_inference_steps=2, generator=noise, **more).images[0].save(here / f"{kind}.png")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two networks, a source (1), a mask (2), and what is painted of them by hand."""
    folder = tmp_path_factory.mktemp("made")
    noise_picture(folder, 1, 48, 32)
    noise_picture(folder, 2, 48, 32, "mask")
    subprocess.run([PYTHON, "-W", "ignore", "-c", BY_HAND, str(ROOT / "tests/support"), str(folder)], check=True)
    return folder


def ask(folder: Path, kind: str, options: str, *orders: tuple[Commission, int]) -> list[Painted]:
    line = f"{shlex.join([PYTHON, str(WORKER), '--weights', str(folder / kind), '--pipeline', kind])} {options}"
    line += " --device cpu --dtype float32 --set num_inference_steps=2"
    model = CommandModel(Spec.parse(f"m=command:{line}?mode=worker&timeout=120", "--model"))

    async def work() -> list[Painted]:
        try:
            return [await model.generate(*order) for order in orders]
        finally:
            await model.close()

    return asyncio.run(work())


def test_the_template_paints_what_its_diffusers_paints(made: Path, picture: Callable[..., Shown]) -> None:
    source, other = Shown(made / "1.png", "source"), picture(9)
    orders = [
        (Commission("a cat", shown), seed) for shown, seed in (((source,), 3), ((source,), 4), ((source, other), 3))
    ]
    painted, again, too_many = ask(made, EDIT, "--set guidance_scale=6", *orders)
    expected = np.asarray(Image.open(made / f"{EDIT}.png"))
    assert np.array_equal(pixels(painted), expected)
    assert not np.array_equal(pixels(again), expected)
    assert painted.provenance["pipeline"] == EDIT
    assert painted.provenance["set"] == '{"guidance_scale": 6, "num_inference_steps": 2}'
    assert too_many.failure is not None and "was shown 2 pictures" in too_many.failure.detail


def test_the_template_shows_a_mask_and_a_white_one_where_there_is_none(made: Path) -> None:
    source, mask = Shown(made / "1.png", "source"), Shown(made / "2.png", "mask")
    orders = [(Commission("a cat", shown, size=(48, 32)), 3) for shown in ((mask, source), (source,))]
    masked, whole = ask(made, INPAINT, "--mask mask_image --set strength=1.0", *orders)
    expected = np.asarray(Image.open(made / f"{INPAINT}.png"))
    assert np.array_equal(pixels(masked), expected)
    assert not np.array_equal(pixels(whole), expected)


def test_an_argument_that_the_pipeline_lacks_ends_the_run(made: Path) -> None:
    with pytest.raises(RefBenchError, match=f"{EDIT} has no argument stepps"):
        ask(made, EDIT, "--set stepps=2", (Commission("a cat"), 0))
