"""Tiny pipelines of diffusers by name, and what models make of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.models.diffusers.model import DiffusersModel
from refbench.models.model import Commission, Painted, Shown
from refbench.pictures import Pixels, decode, encode
from refbench.specs import Spec
from support import tiny_pipelines
from support.tiny_pipelines import flux, stable_diffusion, stable_diffusion_xl

OLD_NAMES = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
"""Marks for tests in which diffusers, transformers and torch warn about one another's old names."""


class Pipelines:
    """Folders of saved pipelines by name, each made when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, name: str) -> Path:
        folder = self.root / name
        if folder.is_dir():
            return folder
        whole = {"several": "klein", "cosxl": "cosxl_edit", "sd3": "stable_diffusion_3"}.get(name, name)
        if whole in ("klein", "cosxl_edit", "stable_diffusion_3", "pixart", "omnigen", "qwen_edit"):
            made: Path = getattr(tiny_pipelines, whole)(folder)
            return made
        fluxes = {
            "flux": ("FluxPipeline", 16),
            "kontext": ("FluxKontextPipeline", 16),
            "fill": ("FluxFillPipeline", 48),
            "control": ("FluxControlPipeline", 32),
        }
        if name in fluxes:
            kind, channels = fluxes[name]
            return flux(kind, folder, channels)
        if name == "xl":
            return stable_diffusion_xl("StableDiffusionXLPipeline", folder)
        kind, channels = {
            "text": ("StableDiffusionPipeline", 4),
            "checked": ("StableDiffusionPipeline", 4),
            "edit": ("StableDiffusionInstructPix2PixPipeline", 8),
            "inpaint": ("StableDiffusionInpaintPipeline", 9),
        }[name]
        return stable_diffusion(kind, folder, channels, checked=name == "checked")


def model(folder: Path, options: str = "steps=2") -> DiffusersModel:
    return DiffusersModel(Spec.parse(f"m=diffusers:{folder}?device=cpu&{options}", "--model"))


def paint(folder: Path, options: str, *orders: tuple[Commission, int]) -> list[Painted]:
    """What a model makes of all orders at once."""

    async def work() -> list[Painted]:
        one = model(folder, options)
        try:
            return await asyncio.gather(*(one.generate(commission, seed) for commission, seed in orders))
        finally:
            await one.close()

    return asyncio.run(work())


def pixels(painted: Painted, number: int = 0) -> Pixels:
    assert painted.failure is None, painted.failure
    found = decode(painted.pictures[number])
    assert not isinstance(found, Failure)
    return found


def noise_picture(folder: Path, number: int, width: int = 64, height: int = 80, role: str = "source") -> Shown:
    """A picture of noise, in black and white where it is a mask."""
    path = folder / f"{number}.png"
    noise = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
    path.write_bytes(encode(np.where(noise > 127, np.uint8(255), np.uint8(0)) if role == "mask" else noise))
    return Shown(path, role)
