"""Image models: whoever gives a picture for a request. Pictures that are there, or made on demand."""

from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.models.model import ImageModel


@runtime_checkable
class GivenOutputs(Protocol):
    """Outputs that need not be made: their model's name and family, and the files for a case, in order."""

    name: str
    family: str
    one_seed: str
    """Why there is one picture for every request, whatever the seed; "" where seeds tell several apart."""

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure: ...


AnyModel: TypeAlias = GivenOutputs | ImageModel


def seeds_for(model: AnyModel, seeds: int) -> range:
    """The seeds that a model is asked for when so many are wanted: the same picture twice would not be two."""
    return range(seeds if isinstance(model, ImageModel) or not model.one_seed else 1)


__all__ = ["AnyModel", "GivenOutputs", "ImageModel", "seeds_for"]
