"""Pictures of equal requests, painted once for several runs: looked up by who paints, what is shown and the seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from refbench.models.model import Commission, Painted
from refbench.output import Output
from refbench.pictures import regular_bytes
from refbench.record import content_key
from refbench.runs import Run

REQUEST, SHARED = "request", "shared"
"""Keys of an output's provenance: of what request it is, and which run it was taken from instead of being painted."""


class _Known(NamedTuple):
    run: Run
    output: Output


class SharedPictures:
    """What other runs have painted. Of models that take steps only the last picture is taken over."""

    def __init__(self, runs: Iterable[Path] = ()) -> None:
        self._known: dict[str, _Known] = {}
        for run in map(Run.open, runs):
            for output in run.outputs():
                key = output.provenance.get(REQUEST)
                if key and output.pictures and output.step is None and SHARED not in output.provenance:
                    self._known.setdefault(key, _Known(run, output))

    def key(self, who: str, commission: Commission, seed: int) -> str:
        """What tells this request from every other; empty where a picture of it cannot be read."""
        try:
            shown = [[p.role, hashlib.sha256(regular_bytes(p.path)).hexdigest()] for p in commission.pictures]
        except (OSError, ValueError):
            return ""
        return content_key([who, commission.instruction, shown, commission.size, commission.n_pictures, seed])

    def painted(self, key: str) -> Painted | None:
        """The pictures of an equal request, at no further cost; None where nobody has painted them."""
        known = self._known.get(key)
        if known is None:
            return None
        run, output = known
        try:
            pictures = tuple(regular_bytes(run.blobs.path(p.sha256, p.format)) for p in output.pictures)
        except (OSError, ValueError):
            return None
        provenance = {name: said for name, said in output.provenance.items() if name != REQUEST}
        return Painted(pictures, seconds=output.seconds, provenance={**provenance, SHARED: run.path.name})
