"""Image models: whoever gives a picture for a request. For now: pictures that are already there."""

from pathlib import Path
from typing import Protocol

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.models.baseline import TruthModel
from refbench.models.folder import FolderModel


class GivenOutputs(Protocol):
    """Outputs that need not be made: their model's name and family, and the file for a case."""

    name: str
    family: str

    def find(self, case: AnyCase, seed: int = 0) -> Path | Failure: ...


__all__ = ["FolderModel", "GivenOutputs", "TruthModel"]
