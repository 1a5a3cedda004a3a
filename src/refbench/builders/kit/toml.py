"""TOML files of users, read with an error that names the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from refbench.record import RefBenchError


def read_toml(path: Path, option: str = "") -> dict[str, Any]:
    """What the file says; `option` is named beside a file that cannot be read."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RefBenchError(f"{option} {path} cannot be read: {error.strerror}".strip()) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RefBenchError(f"{path} is not valid TOML: {error}") from error
