"""Finds a diffusers repository, on the hub or in a folder, and loads its pipeline, without any code of its own."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from refbench.calls.weights import DTYPES, Library, Remedies, content_of
from refbench.models.diffusers.additions import NOTHING, Added, Additions
from refbench.models.diffusers.pipelines import Shape, shape_of
from refbench.models.papers import gone
from refbench.record import RefBenchError

DIFFUSERS = Library("diffusers", "diffusers", ("torch", "transformers", "diffusers"))
_INDEX = "model_index.json"
_COSXL = ("StableDiffusionXLInstructPix2PixPipeline", "EDMEulerScheduler")
_OWN = "run it with your own code as python:FILE:FACTORY or command:..."


@dataclass(frozen=True)
class Source:
    """Which weights, and how they are held."""

    where: str
    """A directory, or the id of a repository on the hub."""
    revision: str | None
    variant: str | None
    device: str
    dtype: str
    offload: str
    safety: bool


@dataclass(frozen=True)
class Found:
    """A repository whose index has been read: its pipeline's class, and the commit where it came from the hub."""

    source: Source
    shape: Shape
    commit: str
    parts: frozenset[str] = frozenset()
    """Names of its networks and other parts."""
    own: Mapping[str, bool] = field(default_factory=dict)
    """Arguments of its class that its files do not keep."""
    around: Additions = NOTHING

    @property
    def identity(self) -> str:
        """The name of the weights in records: other weights are another model, also in the same place."""
        folder = Path(self.source.where).expanduser()
        if folder.is_dir():
            return f"{folder.resolve().name}@{content_of(folder, folder.rglob('*'))}"
        return f"{self.source.where}@{self.source.revision}" if self.source.revision else self.source.where


def find(source: Source) -> Found:
    """Read the repository's index, and nothing heavy yet."""
    DIFFUSERS.check_installed(source.where)
    path = _index_path(source)
    try:
        index = orjson.loads(path.read_bytes())
        named = index["_class_name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RefBenchError(f"diffusers:{source.where}: its {_INDEX} names no pipeline ({error!r})") from error
    shape = shape_of(_pipeline(source, named), f"diffusers:{source.where}")
    for needed in shape.entry.needs:
        if importlib.util.find_spec(needed) is None:
            raise RefBenchError(f"diffusers:{source.where}: its {shape.name} needs {needed}: pip install {needed}")
    folder = Path(source.where).expanduser().is_dir()
    # diffusers forgets this one when it saves CosXL-Edit; without it the picture's latents are not scaled.
    cosxl = shape.name == _COSXL[0] and _COSXL[1] in (index.get("scheduler") or ())
    own = {"is_cosxl_edit": True} if cosxl else {}
    return Found(source, shape, "" if folder else path.parent.name, frozenset(index), own)


def load(found: Found) -> tuple[Any, Added]:
    """The pipeline, ready to paint, and what is around it."""
    source = found.source
    torch, diffusers = DIFFUSERS.load("torch"), DIFFUSERS.load("diffusers")
    more: dict[str, Any] = {} if source.safety else {"safety_checker": None, "requires_safety_checker": False}
    more |= found.own
    if source.variant:
        more["variant"] = source.variant
    try:
        folder = str(Path(source.where).expanduser())
        if found.commit:
            # The commit of the index, so that weights of another one never stand behind its name.
            folder = diffusers.DiffusionPipeline.download(
                source.where, revision=found.commit, variant=source.variant, trust_remote_code=False
            )
        # Not by DiffusionPipeline: it would take the class from the folder again, and code of the folder with it.
        kind = getattr(diffusers, found.shape.name)
        pipeline = kind.from_pretrained(folder, torch_dtype=getattr(torch, DTYPES[source.dtype]), **more)
        pipeline.set_progress_bar_config(disable=True)
        added = found.around.loaded(pipeline, DIFFUSERS)
        added.to(source.device)
        return _placed(pipeline, source), added
    except RefBenchError:
        raise
    except Exception as error:
        raise RefBenchError(f"diffusers:{source.where} cannot be used: {_remedy(source, error)}") from error


def _placed(pipeline: Any, source: Source) -> Any:
    if source.offload == "none":
        return pipeline.to(source.device)
    if source.offload == "model":
        pipeline.enable_model_cpu_offload(device=source.device)
    else:
        pipeline.enable_sequential_cpu_offload(device=source.device)
    return pipeline


def _index_path(source: Source) -> Path:
    folder = DIFFUSERS.folder(source.where)
    if folder is not None:
        if (folder / _INDEX).is_file():
            return folder / _INDEX
        if (folder / f"modular_{_INDEX}").is_file():
            raise RefBenchError(f"diffusers:{source.where} is a modular pipeline, which is not supported: {_OWN}")
        raise RefBenchError(f"diffusers:{source.where} has no {_INDEX}: give the directory that hf download wrote")
    hub = DIFFUSERS.load("huggingface_hub")
    try:
        return Path(hub.hf_hub_download(source.where, _INDEX, revision=source.revision))
    except Exception as error:
        if (ended := gone("diffusers", source.where)) is not None:
            raise RefBenchError(f"diffusers:{source.where} {ended.said}: {ended.now} has the same weights") from error
        raise RefBenchError(f"diffusers:{source.where} cannot be used: {_remedy(source, error)}") from error


def _pipeline(source: Source, named: Any) -> type[Any]:
    diffusers = DIFFUSERS.load("diffusers")
    if not isinstance(named, str):
        raise RefBenchError(f"diffusers:{source.where} needs code of its repository, which is never run here: {_OWN}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside diffusers, raised while a class is first looked up
        try:
            pipeline = getattr(diffusers, named, None)
        except (RuntimeError, ImportError) as error:
            words = " ".join(str(error).split())[:200]
            raise RefBenchError(f"diffusers:{source.where}: its {named} cannot be imported ({words})") from error
    if not isinstance(pipeline, type) or not issubclass(pipeline, diffusers.DiffusionPipeline):
        raise RefBenchError(
            f"diffusers:{source.where}: diffusers {diffusers.__version__} has no {named}: "
            f"take a newer one (pip install -U diffusers), or {_OWN}"
        )
    return pipeline


def _remedy(source: Source, error: Exception) -> str:
    remedies = Remedies(
        source.where,
        source.revision,
        source.device,
        DIFFUSERS,
        too_large="offload=model or dtype=bf16",
        own_code=_OWN,
        otherwise="its files are not what diffusers expects",
        no_index=f"has no {_INDEX}, so it is no diffusers repository",
    )
    if source.variant and "variant" in str(error):
        return f"it has no weights of variant={source.variant}"
    return remedies.of(error)
