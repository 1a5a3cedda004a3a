"""Output: what one model gave for one case, or why it gave nothing."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import model_validator

from refbench.failure import Failure
from refbench.record import Record


class StoredPicture(Record):
    """A picture in the run's blobs, named by the hash of its bytes."""

    sha256: str
    format: str
    width: int
    height: int


class Output(Record):
    """The pictures of one (case, model, seed, step), or a Failure; `step` is None for the final one."""

    case: str
    model: str
    seed: int = 0
    step: int | None = None
    pictures: tuple[StoredPicture, ...] = ()
    failure: Failure | None = None
    seconds: float | None = None
    cost_usd: float | None = None
    provenance: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _one_state(self) -> Output:
        if bool(self.pictures) == (self.failure is not None):
            raise ValueError("an Output has pictures or a failure, exactly one of them")
        return self
