"""A request as a worker or a command reads it, and its reply as we read that: the words of the JSON-lines protocol."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from refbench.failure import Failure, FailureKind
from refbench.models.given_back import painted
from refbench.models.model import Commission, Painted

_KINDS = frozenset(kind for kinds in get_args(FailureKind) for kind in get_args(kinds))


def request_of(commission: Commission, seed: int, folder: Path) -> dict[str, Any]:
    """All that a worker is told."""
    width, height = commission.size or (None, None)
    return {
        "instruction": commission.instruction,
        "pictures": [{"path": str(shown.path.absolute()), "role": shown.role} for shown in commission.pictures],
        "width": width,
        "height": height,
        "n_pictures": commission.n_pictures,
        "seed": seed,
        "folder": str(folder),
    }


def painted_of(reply: Mapping[str, Any], folder: Path, n_pictures: int, about: Mapping[str, str]) -> Painted:
    """The pictures that a reply names, read at once, or why there are none."""
    given = reply.get("pictures")
    listed = [given] if isinstance(given, str | dict) else given
    failure = _failure(reply)
    if listed and isinstance(listed, list):
        made = painted([_picture(one, folder) for one in listed], n_pictures, who="the worker")
        made = replace(made, failure=failure or made.failure)
    else:
        shown = "no pictures and no error" if not listed else f"pictures that are a {type(listed).__name__}"
        made = Painted(failure=failure or Failure(kind="missing_output", detail=f"the reply has {shown}"))
    cost = reply.get("cost_usd")
    told = reply.get("provenance")
    provenance = {str(k): str(v) for k, v in told.items()} if isinstance(told, dict) else {}
    return replace(
        made,
        cost_usd=float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e6 else None,
        provenance={**about, **provenance},
    )


def _failure(reply: Mapping[str, Any]) -> Failure | None:
    if "error" not in reply or reply["error"] in (None, ""):
        return None
    kind = reply.get("kind")
    return Failure(kind=kind if kind in _KINDS else "missing_output", detail=str(reply["error"])[:2000])


def _picture(one: Any, folder: Path) -> Any:
    """What `encoded` takes: a path, relative to the request's folder, or the bytes of a base64 object."""
    if isinstance(one, str):
        return folder / one
    if isinstance(one, dict) and isinstance(one.get("path"), str):
        return folder / one["path"]
    if isinstance(one, dict) and isinstance(one.get("base64"), str):
        try:
            return base64.b64decode(one["base64"], validate=True)
        except binascii.Error as error:
            return Failure(kind="unreadable_picture", detail=f"the picture is no base64: {error}")
    return one
