"""Finds a diffusers repository, on the hub or in a folder, and loads its pipeline, without any code of its own."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from refbench.models.diffusers.pipelines import Shape, shape_of
from refbench.record import RefBenchError

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_INDEX = "model_index.json"
_SMALL, _WEIGHTS = (".json", ".jinja", ".txt", ".model"), (".safetensors", ".bin")
_SAMPLES, _SAMPLE = 64, 16384
_OWN = "run it with your own code as python:FILE:FACTORY or command:..."
_EXTRA = "pip install 'refbench[diffusers]'"


def package(name: str) -> Any:
    """A package of the extra `diffusers`, imported where it is needed and never before."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch and transformers about each other, while they are imported
            return importlib.import_module(name)
    except ImportError as error:
        raise RefBenchError(f"diffusers models need {name} ({error}): {_EXTRA}") from error


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

    @property
    def identity(self) -> str:
        """The name of the weights in records: other weights are another model, also in the same place."""
        folder = Path(self.source.where).expanduser()
        if folder.is_dir():
            return f"{folder.resolve().name}@{_content(folder)}"
        return f"{self.source.where}@{self.source.revision}" if self.source.revision else self.source.where


def find(source: Source) -> Found:
    """Read the repository's index, and nothing heavy yet."""
    for name in ("torch", "transformers", "diffusers"):
        if importlib.util.find_spec(name) is None:
            raise RefBenchError(f"diffusers:{source.where} needs {name}: {_EXTRA}")
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
    return Found(source, shape, "" if folder else path.parent.name, frozenset(index))


def load(found: Found) -> Any:
    """The pipeline, ready to paint."""
    source = found.source
    torch, diffusers = package("torch"), package("diffusers")
    more: dict[str, Any] = {} if source.safety else {"safety_checker": None, "requires_safety_checker": False}
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
        return _placed(pipeline, source)
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
    folder = Path(source.where).expanduser()
    if folder.is_dir():
        if (folder / _INDEX).is_file():
            return folder / _INDEX
        if (folder / f"modular_{_INDEX}").is_file():
            raise RefBenchError(f"diffusers:{source.where} is a modular pipeline, which is not supported: {_OWN}")
        raise RefBenchError(f"diffusers:{source.where} has no {_INDEX}: give the directory that hf download wrote")
    if source.where.startswith((".", "/", "~")) or source.where.count("/") > 1:
        raise RefBenchError(f"diffusers:{source.where}: there is no such directory")
    hub = package("huggingface_hub")
    try:
        return Path(hub.hf_hub_download(source.where, _INDEX, revision=source.revision))
    except Exception as error:
        raise RefBenchError(f"diffusers:{source.where} cannot be used: {_remedy(source, error)}") from error


def _pipeline(source: Source, named: Any) -> type[Any]:
    diffusers = package("diffusers")
    if not isinstance(named, str):
        raise RefBenchError(f"diffusers:{source.where} needs code of its repository, which is never run here: {_OWN}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside diffusers, raised while a class is first looked up
        try:
            found = getattr(diffusers, named, None)
        except (RuntimeError, ImportError) as error:
            told = " ".join(str(error).split())[:200]
            raise RefBenchError(f"diffusers:{source.where}: its {named} cannot be imported ({told})") from error
    if not isinstance(found, type) or not issubclass(found, diffusers.DiffusionPipeline):
        raise RefBenchError(
            f"diffusers:{source.where}: diffusers {diffusers.__version__} has no {named}: "
            f"take a newer one (pip install -U diffusers), or {_OWN}"
        )
    return found


def _remedy(source: Source, error: Exception) -> str:
    """What went wrong with finding or loading, in one sentence with the way out."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    told = " ".join(str(error).split())[:200]
    page = f"{os.environ.get('HF_ENDPOINT') or 'https://huggingface.co'}/{source.where}"
    if "GatedRepoError" in kinds:
        return f"its repository is gated: accept its licence at {page} and run hf auth login"
    if "RepositoryNotFoundError" in kinds:
        return f"{page} is not there or private: check the name, or run hf auth login"
    if "RevisionNotFoundError" in kinds:
        return f"{page} has no revision {source.revision}"
    if "RemoteEntryNotFoundError" in kinds:  # which is also an error of HTTP
        return f"{page} has no {_INDEX}, so it is no diffusers repository"
    offline = {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "HTTPError", "ConnectionError", "TimeoutError"}
    if kinds & offline:
        return (
            f"it is not on this machine and the hub cannot be reached: run hf download {source.where} --local-dir DIR "
            "where there is a network, and write diffusers:DIR"
        )
    if "HFValidationError" in kinds:
        return "write OWNER/NAME of a repository on the hub, or a directory"
    if "OutOfMemoryError" in kinds:
        return f"it does not fit in the memory of {source.device}: write offload=model or dtype=bf16"
    if "trust_remote_code" in told:
        return f"it needs code of its repository, which is never run here: {_OWN}"
    if source.device != "cpu" and "cuda" in told.casefold():
        return f"device={source.device} is not there or in trouble ({told})"
    if "ImportError" in kinds:
        return f"it needs one more package ({told})"
    if source.variant and "variant" in told:
        return f"it has no weights of variant={source.variant}"
    return f"its files are not what diffusers expects ({told or type(error).__name__})"


def _content(folder: Path) -> str:
    """A hash of the small files whole and of samples all over the weights, whose sizes do not change in training."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        if name.startswith(".") or file.suffix not in (*_SMALL, *_WEIGHTS):
            continue
        size = file.stat().st_size
        digest.update(f"{name} {size}\n".encode())
        with file.open("rb") as opened:
            if file.suffix in _SMALL:
                digest.update(opened.read())
                continue
            for sample in range(_SAMPLES):
                opened.seek(max(0, size - _SAMPLE) * sample // (_SAMPLES - 1))
                digest.update(opened.read(_SAMPLE))
    return digest.hexdigest()[:16]
