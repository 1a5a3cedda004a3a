"""From a spec to an image model."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from refbench.calls.transport import Transport
from refbench.case import AnyCase, Picture
from refbench.chat.vlm import VLM
from refbench.failure import without_keys
from refbench.models import AnyModel, GivenOutputs, ImageModel
from refbench.models.api.job_journal import JobJournal
from refbench.models.model import Commission, Painted, Startable
from refbench.models.presets import preset_options
from refbench.record import RefBenchError
from refbench.specs import MODEL_PLUG_INS, MODELS, Spec, from_plug_in, nearest, plug_in_identity, plug_ins

Placed: TypeAlias = Callable[[Spec, Callable[[Spec], ImageModel]], ImageModel]

# By kind the module and what in it makes the model, loaded when it is asked for, and what that needs beside the spec.
_MAKERS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "folder": ("folder", "FolderModel", ("cases", "names", "listed", "extensions")),
    "steps": ("steps", "StepModel", ()),
    "truth": ("baselines.model", "TruthModel", ("cases", "path")),
    "python": ("process.python", "PythonModel", ("folder",)),
    "command": ("process.command", "CommandModel", ("folder",)),
    "http": ("api.http", "http_model", ("transport", "folder")),
    "https": ("api.http", "http_model", ("transport", "folder")),
    "openai": ("api.openai", "openai_images", ("transport", "folder")),
    "gemini": ("api.gemini", "gemini_images", ("transport", "folder")),
    "bfl": ("api.bfl", "bfl_model", ("transport", "folder", "jobs")),
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

    `cases`, `names`, `listed`, `extensions` and `path` say which outputs and golden pictures are looked for, and where.
    `placed` makes each model that paints, here or elsewhere, with what makes it here. `timeout`, where it is given,
    holds for models in processes of their own whose specs say none.
    """

    transport: Transport
    make_vlm: Callable[[Spec], VLM]
    folder: Path
    cases: Sequence[AnyCase] = ()
    names: Callable[[AnyCase], list[str]] = lambda case: []
    listed: Callable[[Path, Sequence[AnyCase]], Mapping[str, str] | None] | None = None
    extensions: Sequence[str] = ()
    path: Callable[[Picture], Path] = lambda picture: Path(picture.name)
    placed: Placed = lambda spec, make: make(spec)
    timeout: float | None = None
    jobs: JobJournal = field(default_factory=JobJournal)
    """Requests for pictures that are with a provider."""


def make_model(spec: Spec, setup: ModelSetup) -> AnyModel:
    """The model that a spec describes: pictures that are there, or whoever paints them."""
    if not is_given(spec):
        return make_painter(spec, setup)
    kind = "truth" if spec.kind == "baseline" else spec.kind
    outputs: GivenOutputs = _made(
        kind,
        spec,
        cases=setup.cases,
        names=setup.names,
        listed=setup.listed,
        extensions=setup.extensions,
        path=setup.path,
    )
    return outputs


def is_given(spec: Spec) -> bool:
    """Whether a spec means pictures that are there already, so that nothing is painted."""
    return spec.kind in ("folder", "steps") or (spec.kind, spec.what) == ("baseline", "truth")


def make_painter(spec: Spec, setup: ModelSetup) -> ImageModel:
    """The model that paints, wrappers from the inside out."""
    if spec.model is None:
        if setup.timeout is not None and spec.kind in ("python", "command"):
            spec = spec.model_copy(update={"options": {"timeout": f"{setup.timeout:g}", **spec.options}})
        return setup.placed(spec, lambda placed: _unwrapped(placed, setup))
    setup.folder.mkdir(parents=True, exist_ok=True)
    model = make_painter(spec.model, setup)
    vlm = setup.make_vlm(_as_in_the_paper(spec.vlm, spec.name)) if spec.vlm is not None else None
    wrapper: ImageModel = _made(spec.kind, spec, model=model, vlm=vlm, folder=setup.folder)
    return wrapper


def _as_in_the_paper(vlm: Spec, name: str) -> Spec:
    """The VLM with the settings of its `preset=`, where it names one."""
    return vlm.model_copy(update={"options": preset_options(vlm.options, "vlm", f"--model {name}")})


def _unwrapped(spec: Spec, setup: ModelSetup) -> ImageModel:
    if is_given(spec):
        raise RefBenchError(f"--model {spec.name}: pictures of a folder cannot be wrapped: wrap the model that paints")
    model: ImageModel
    if spec.kind in _MAKERS:
        model = _made(spec.kind, spec, transport=setup.transport, folder=setup.folder, jobs=setup.jobs)
        return model
    added: ImageModel | None = from_plug_in(spec, MODEL_PLUG_INS, ImageModel, f"--model {spec.name}")
    if added is not None:
        return PlugInModel(spec, added)
    hint = nearest(spec.kind, [*MODELS, "https", *plug_ins(MODEL_PLUG_INS)], f":{spec.what}")
    raise RefBenchError(f"--model {spec.name}: {without_keys(spec.kind)} is no kind of model: {hint}")


def _made(kind: str, spec: Spec, **surroundings: Any) -> Any:
    module, maker, needs = _MAKERS[kind]
    make = getattr(importlib.import_module(f"refbench.models.{module}"), maker)
    return make(spec, *(surroundings[need] for need in needs))


class PlugInModel(Startable):
    """A plug-in's model, known by its spec's options beside what it says of itself."""

    def __init__(self, spec: Spec, model: ImageModel) -> None:
        self.name = spec.name  # what the run's records are kept under, whatever the plug-in calls it
        self.traits = model.traits
        self._spec = spec
        self._model = model

    def canonical(self) -> Mapping[str, str]:
        return {**self._model.canonical(), **plug_in_identity(self._spec)}

    async def start(self) -> None:
        if isinstance(self._model, Startable):
            await self._model.start()

    async def generate(self, commission: Commission, seed: int) -> Painted:
        return await self._model.generate(commission, seed)

    async def close(self) -> None:
        await self._model.close()
