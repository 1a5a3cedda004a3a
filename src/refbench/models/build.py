"""From a spec to an image model."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from refbench.calls.transport import Transport
from refbench.case import AnyCase, Picture
from refbench.chat.vlm import VLM
from refbench.models import AnyModel, GivenOutputs, ImageModel
from refbench.record import RefBenchError
from refbench.specs import MODEL_PLUG_INS, MODELS, Spec, from_plug_in, nearest, plug_ins

Placed: TypeAlias = Callable[[Spec, Callable[[Spec], ImageModel]], ImageModel]

# By kind the module and what in it makes the model, loaded when it is asked for, and what that needs beside the spec.
_MAKERS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "folder": ("folder", "FolderModel", ("cases", "names")),
    "steps": ("steps", "StepModel", ()),
    "truth": ("baselines.model", "TruthModel", ("cases", "path")),
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


def make_model(spec: Spec, setup: ModelSetup) -> AnyModel:
    """The model that a spec describes: pictures that are there, or whoever paints them."""
    if not is_given(spec):
        return make_painter(spec, setup)
    kind = "truth" if spec.kind == "baseline" else spec.kind
    outputs: GivenOutputs = _made(kind, spec, cases=setup.cases, names=setup.names, path=setup.path)
    return outputs


def is_given(spec: Spec) -> bool:
    """Whether a spec means pictures that are there already, so that nothing is painted."""
    return spec.kind in ("folder", "steps") or (spec.kind, spec.what) == ("baseline", "truth")


def make_painter(spec: Spec, setup: ModelSetup) -> ImageModel:
    """The model that paints, wrappers from the inside out."""
    if spec.model is None:
        return setup.placed(spec, lambda placed: _unwrapped(placed, setup))
    setup.folder.mkdir(parents=True, exist_ok=True)
    model = make_painter(spec.model, setup)
    vlm = setup.make_vlm(spec.vlm) if spec.vlm is not None else None
    wrapper: ImageModel = _made(spec.kind, spec, model=model, vlm=vlm, folder=setup.folder)
    return wrapper


def _unwrapped(spec: Spec, setup: ModelSetup) -> ImageModel:
    if is_given(spec):
        raise RefBenchError(f"--model {spec.name}: pictures of a folder cannot be wrapped: wrap the model that paints")
    model: ImageModel
    if spec.kind in _MAKERS:
        model = _made(spec.kind, spec, transport=setup.transport, folder=setup.folder)
        return model
    added: ImageModel | None = from_plug_in(spec, MODEL_PLUG_INS, ImageModel, f"--model {spec.name}")
    if added is not None:
        from refbench.models.plug_in import PlugInModel

        return PlugInModel(spec, added)
    hint = nearest(spec.kind, [*MODELS, "https", *plug_ins(MODEL_PLUG_INS)], f":{spec.what}")
    raise RefBenchError(f"--model {spec.name}: {spec.kind} is no kind of model: {hint}")


def _made(kind: str, spec: Spec, **surroundings: Any) -> Any:
    module, maker, needs = _MAKERS[kind]
    make = getattr(importlib.import_module(f"refbench.models.{module}"), maker)
    return make(spec, *(surroundings[need] for need in needs))
