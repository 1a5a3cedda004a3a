"""Image models by spec: which kinds there are, and how each is made."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
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
from refbench.models.wrappers.tree import Nested, Tree, build_model
from refbench.record import RefBenchError
from refbench.specs import Spec

Placed: TypeAlias = Callable[[Spec, Callable[[Spec], ImageModel]], ImageModel]

ENTRY_POINTS = "refbench.models"
"""The group under which an installed package names kinds of models: callables from a Spec to an ImageModel."""

KINDS: Mapping[str, str] = {
    "folder": "pictures that are there: a folder, a pattern with {id}, or a list",
    "python": "a Python function: package.module:factory or ./file.py:factory",
    "command": "a program: once for every case, or one that stays and speaks JSON lines",
    "http": "a server that speaks our minimal protocol (https too)",
    "openai": "OpenAI's image models, and servers that speak like them",
    "gemini": "Gemini's image models",
    "diffusers": "a pipeline of diffusers, on this machine",
    "baseline": "copy, collage, blend; and truth, the golden picture",
    "steps": "an agent's pictures at one step of a run: steps:RUN?model=A&step=0",
}

# Kind to (module, maker, whether it is made with the transport); loaded when asked for.
_MAKERS: Mapping[str, tuple[str, str, bool]] = {
    "python": ("refbench.models.process.python", "PythonModel", False),
    "command": ("refbench.models.process.command", "CommandModel", False),
    "http": ("refbench.models.api.http", "http_model", True),
    "https": ("refbench.models.api.http", "http_model", True),
    "openai": ("refbench.models.api.openai", "openai_images", True),
    "gemini": ("refbench.models.api.gemini", "gemini_images", True),
    "diffusers": ("refbench.models.diffusers.model", "DiffusersModel", False),
    "baseline": ("refbench.models.baselines.model", "BaselineModel", False),
}


def make_model(
    tree: Tree,
    *,
    cases: Sequence[AnyCase],
    names: Callable[[AnyCase], list[str]],
    path: Callable[[Picture], Path],
    transport: Transport,
    make_vlm: Callable[[Spec], VLM],
    folder: Path,
    placed: Placed = lambda spec, make: make(spec),
) -> FolderModel | StepModel | TruthModel | ImageModel:
    """The model that a spec describes. `names` and `path` say where outputs and golden pictures of a case may be.

    `placed` makes each model that paints, here or elsewhere, with what makes it here.
    """
    if isinstance(tree, Spec) and tree.kind == "folder":
        return FolderModel(tree, cases, names)
    if isinstance(tree, Spec) and tree.kind == "steps":
        return StepModel(tree)
    if isinstance(tree, Spec) and (tree.kind, tree.what) == ("baseline", "truth"):
        return TruthModel(tree, cases, path)
    if isinstance(tree, Nested):
        folder.mkdir(parents=True, exist_ok=True)
    return build_model(tree, lambda spec: placed(spec, lambda leaf: _leaf(leaf, transport, folder)), make_vlm, folder)


def _leaf(spec: Spec, transport: Transport, scratch: Path) -> ImageModel:
    added = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    made: Any
    if spec.kind in _MAKERS:
        module, maker, wired = _MAKERS[spec.kind]
        make = getattr(importlib.import_module(module), maker)
        made = make(spec, transport) if wired else make(spec)
    elif spec.kind in added:
        made = added[spec.kind].load()(spec)
    elif spec.kind in ("folder", "steps"):
        raise RefBenchError(f"--model {spec.name}: pictures of a folder cannot be wrapped: wrap the model that paints")
    else:
        kinds = [*KINDS, "https", *sorted(added)]
        near = difflib.get_close_matches(spec.kind, kinds, n=1)
        hint = f"did you mean {near[0]}:{spec.what}?" if near else f"there are {', '.join(kinds)}"
        raise RefBenchError(f"--model {spec.name}: {spec.kind} is no kind of model: {hint}")
    if hasattr(made, "scratch"):
        made.scratch = scratch
    model: ImageModel = made
    return model
