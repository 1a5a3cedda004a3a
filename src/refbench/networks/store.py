"""The weights folder of the user: which files are there, and whether they are what the registry says."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from refbench.networks.network import NetworkInfo, WeightsFile
from refbench.record import RefBenchError

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
    again = f"refbench fetch {info.name}" + ("" if info.commercial else " --accept-licence")
    found = {}
    for weights in info.weights:
        path = folder / weights.file
        if not path.is_file():
            raise RefBenchError(f"the weights of {info.name} are not here: {again}")
        if sha256_of(path) != weights.here_sha256:
            raise RefBenchError(f"{path} is damaged or of another version (its sha256 differs): {again}")
        found[weights.file] = path
    return found


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
