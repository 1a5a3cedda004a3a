"""What users write behind the question mark of `python:` and `command:`: numbers, GPUs, and what a model can do."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from refbench.models.model import Traits
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of

TRAITS = ("family", "open_weights", "max_references", "max_pictures", "roles", "size", "usd_a_picture")
WORKERS = ("gpus", "workers", "timeout", "load_timeout", "log", "version")
TIMEOUT_S = 600.0
LOAD_TIMEOUT_S = 1800.0  # weights may have to come over the network first

_WHOLE = 1 << 20  # bytes: larger files are weights, of which samples tell
_SAMPLE = 1 << 16


def traits_of(spec: Spec) -> Traits:
    """What the user says that the model can do; nothing is guessed but the family."""
    options = spec.options
    roles = options.get("roles")
    return Traits(
        family=options.get("family") or family_of(spec.name),
        open_weights=_yes_or_no(spec, "open_weights"),
        max_references=whole(spec, "max_references", least=0),
        max_pictures=whole(spec, "max_pictures"),
        roles=tuple(role.strip() for role in roles.split(",")) if roles else None,
        size=_size(spec),
        usd_a_picture=positive(spec, "usd_a_picture"),
    )


def whole(spec: Spec, key: str, *, least: int = 1) -> int | None:
    text = spec.options.get(key)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
        raise RefBenchError(f"--model {spec.name}: {key}={text} must be a whole number from {least}")
    return int(text)


def positive(spec: Spec, key: str) -> float | None:
    text = spec.options.get(key)
    if text is None:
        return None
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) or float(text) <= 0:
        raise RefBenchError(f"--model {spec.name}: {key}={text} must be a number above 0")
    return float(text)


def environments(spec: Spec) -> list[dict[str, str]]:
    """One environment for each worker: `gpus=4` (the first four), `gpus=0,2` (those), `workers` on each of them."""
    each = whole(spec, "workers") or 1
    text = spec.options.get("gpus")
    if text is None:
        return [{} for _ in range(each)]
    seen = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    if re.fullmatch(r"\d+", text) and int(text) > 0:
        if seen and int(text) > len(seen):
            raise RefBenchError(f"--model {spec.name}: gpus={text}, but CUDA_VISIBLE_DEVICES has {len(seen)}")
        devices = seen[: int(text)] if seen else [str(n) for n in range(int(text))]
    elif re.fullmatch(r"[\w-]+(,[\w-]+)+,?", text) or text.endswith(","):
        devices = [part for part in text.split(",") if part]
    else:
        raise RefBenchError(f"--model {spec.name}: gpus={text} must be how many, or which (gpus=0,2; one alone: 3,)")
    return [{"CUDA_VISIBLE_DEVICES": device} for device in devices for _ in range(each)]


def log_of(spec: Spec) -> Path | None:
    """Where to what workers print is appended."""
    path = Path(spec.options["log"]) if spec.options.get("log") else None
    if path is not None and not path.parent.is_dir():
        raise RefBenchError(f"--model {spec.name}: log={path}: there is no directory {path.parent}")
    return path


def digest(path: Path) -> str:
    """A hash of a file's content; of a large one its size and three samples."""
    with path.open("rb") as file:
        size = path.stat().st_size
        if size <= _WHOLE:
            return hashlib.sha256(file.read()).hexdigest()[:16]
        content = hashlib.sha256(str(size).encode())
        for at in (0, size // 2, size - _SAMPLE):
            file.seek(at)
            content.update(file.read(_SAMPLE))
        return content.hexdigest()[:16]


def only(spec: Spec, known: tuple[str, ...]) -> None:
    """Refuse options that nobody would read: a misspelt one would silently change nothing."""
    for key in spec.options:
        if key not in known:
            raise RefBenchError(f"--model {spec.name}: there is no option {key}, there are {', '.join(known)}")


def settings(options: Mapping[str, str]) -> dict[str, str]:
    """The options that change pictures, as `canonical` tells them."""
    silent = {*WORKERS, "batch", "family", "open_weights", "max_references", "max_pictures", "roles", "usd_a_picture"}
    return {key: value for key, value in sorted(options.items()) if key not in silent}


def _yes_or_no(spec: Spec, key: str) -> bool | None:
    text = spec.options.get(key)
    if text is None:
        return None
    if text not in ("yes", "no", "true", "false", "1", "0"):
        raise RefBenchError(f"--model {spec.name}: {key}={text} must be yes or no")
    return text in ("yes", "true", "1")


def _size(spec: Spec) -> tuple[int, int] | None:
    text = spec.options.get("size")
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    if match is None or min(int(match[1]), int(match[2])) < 1:
        raise RefBenchError(f"--model {spec.name}: size={text} must be width x height, for example 1024x768")
    return int(match[1]), int(match[2])
