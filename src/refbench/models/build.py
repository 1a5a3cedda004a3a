"""From a spec to an image model."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeAlias

from refbench.calls import Transport
from refbench.case import AnyCase, Picture
from refbench.chat.vlm import VLM
from refbench.models.baselines.model import TruthModel
from refbench.models.folder import FolderModel
from refbench.models.model import ImageModel
from refbench.models.steps import StepModel
from refbench.record import RefBenchError
from refbench.specs import MODEL_PLUG_INS, MODELS, Spec, nearest

Placed: TypeAlias = Callable[[Spec, Callable[[Spec], ImageModel]], ImageModel]

# By kind the module and what in it makes the model, loaded when it is asked for, and what that needs beside the spec.
_MAKERS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "python": ("process.python", "PythonModel", ("folder",)),
    "command": ("process.command", "CommandModel", ("folder",)),
    "http": ("api.http", "http_model", ("transport", "folder")),
    "https": ("api.http", "http_model", ("transport", "folder")),
    "openai": ("api.openai", "openai_images", ("transport", "folder")),
    "gemini": ("api.gemini", "gemini_images", ("transport", "folder")),
    "diffusers": ("diffusers.model", "DiffusersModel", ()),
    "baseline": ("baselines.model", "BaselineModel", ()),
    "overflow": ("wrappers.overflow", "Overflow", ("model", "folder")),
    "turns": ("wrappers.turns", "Turns", ("model", "folder")),
    "ablate": ("wrappers.inputs", "Ablate", ("model",)),
    "suffix": ("wrappers.inputs", "Suffix", ("model",)),
    "rephrase": ("wrappers.rephrase", "Rephrase", ("vlm", "model", "folder")),
    "ipr": ("agents.agent", "Agent", ("vlm", "model", "folder")),
    "cafg": ("agents.agent", "Agent", ("vlm", "model", "folder")),
    "sra": ("agents.agent", "Agent", ("vlm", "model", "folder")),
}


@dataclass(frozen=True)
class ModelSetup:
    """What models are made with: how they call, whom their planners ask, and where they keep what lasts a moment.

    `cases`, `names` and `path` say which outputs and golden pictures are looked for, and where. `placed` makes each
    model that paints, here or elsewhere, with what makes it here.
    """

    transport: Transport
    make_vlm: Callable[[Spec], VLM]
    folder: Path
    cases: Sequence[AnyCase] = ()
    names: Callable[[AnyCase], list[str]] = lambda case: []
    path: Callable[[Picture], Path] = lambda picture: Path(picture.name)
    placed: Placed = lambda spec, make: make(spec)


def make_model(spec: Spec, setup: ModelSetup) -> FolderModel | StepModel | TruthModel | ImageModel:
    """The model that a spec describes: pictures that are there, or whoever paints them."""
    if spec.kind == "folder":
        return FolderModel(spec, setup.cases, setup.names)
    if spec.kind == "steps":
        return StepModel(spec)
    if (spec.kind, spec.what) == ("baseline", "truth"):
        return TruthModel(spec, setup.cases, setup.path)
    return make_painter(spec, setup)


def make_painter(spec: Spec, setup: ModelSetup) -> ImageModel:
    """The model that paints, wrappers from the inside out."""
    if spec.model is None:
        return setup.placed(spec, lambda placed: _unwrapped(placed, setup))
    setup.folder.mkdir(parents=True, exist_ok=True)
    model = make_painter(spec.model, setup)
    vlm = setup.make_vlm(spec.vlm) if spec.vlm is not None else None
    return _made(spec, model=model, vlm=vlm, folder=setup.folder)


def _unwrapped(spec: Spec, setup: ModelSetup) -> ImageModel:
    if spec.kind in _MAKERS:
        return _made(spec, transport=setup.transport, folder=setup.folder)
    added = {point.name: point for point in entry_points(group=MODEL_PLUG_INS)}
    if spec.kind in added:
        model: ImageModel = added[spec.kind].load()(spec)
        return model
    if spec.kind in ("folder", "steps"):
        raise RefBenchError(f"--model {spec.name}: pictures of a folder cannot be wrapped: wrap the model that paints")
    hint = nearest(spec.kind, [*MODELS, "https", *sorted(added)], f":{spec.what}")
    raise RefBenchError(f"--model {spec.name}: {spec.kind} is no kind of model: {hint}")


def _made(spec: Spec, **surroundings: Any) -> ImageModel:
    module, maker, needs = _MAKERS[spec.kind]
    make = getattr(importlib.import_module(f"refbench.models.{module}"), maker)
    model: ImageModel = make(spec, *(surroundings[need] for need in needs))
    return model
