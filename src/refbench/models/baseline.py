"""Baselines: what any model is measured against. `truth` gives the golden picture of a case, where it has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from refbench.case import AnyCase, Picture
from refbench.chat.spec import Spec
from refbench.failure import Failure
from refbench.record import RefBenchError

NAMES = ("truth",)


class TruthModel:
    """The ceiling: the targets of the cases scored like a model's outputs."""

    def __init__(self, spec: Spec, cases: Sequence[AnyCase], path: Callable[[Picture], Path]) -> None:
        if spec.what not in NAMES:
            raise RefBenchError(
                f"--model {spec.name}: there is no baseline {spec.what!r}, there are {', '.join(NAMES)}"
            )
        self.name = spec.name
        self.family = ""
        self._path = path
        if not any(case.targets for case in cases):
            raise RefBenchError(f"--model {spec.name}: no case of this benchmark has a golden picture")

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The golden pictures of the case, as many as are asked for."""
        paths = [self._path(picture) for picture in case.targets[: case.request.n_pictures]]
        if not paths or not all(path.is_file() for path in paths):
            return Failure(kind="missing_output", detail=f"{case.id} has no golden picture")
        return tuple(paths)
