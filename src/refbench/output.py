"""Output: what one model gave for one case, or why it gave nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import model_validator

from refbench.failure import Failure
from refbench.pictures import PictureFacts
from refbench.record import Record


class StoredPicture(Record):
    """A picture in the run's blobs, named by the hash of its bytes."""

    sha256: str
    format: str
    width: int
    height: int

    @classmethod
    def of(cls, facts: PictureFacts) -> Self:
        return cls(sha256=facts.sha256, format=facts.format, width=facts.width, height=facts.height)


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


def painting(outputs: Sequence[Output]) -> list[str]:
    """What a picture took and cost, for models that were run here; steps on the way are counted in."""
    found = []
    for model in dict.fromkeys(output.model for output in outputs):
        final = [o for o in outputs if o.model == model and o.step is None and o.pictures]
        seconds = [o.seconds for o in final if o.seconds is not None]
        costs = [o.cost_usd for o in outputs if o.model == model and o.cost_usd is not None]
        partial = sum("partial" in o.provenance for o in final)
        words = [f"{sum(seconds) / len(seconds):.1f} s"] if seconds else []
        words += [f"{sum(costs) / len(final):.4f} usd"] if costs and final else []
        if words:
            found.append(f"{model}: {' and '.join(words)} a case")
        if partial:
            found.append(f"{model}: {partial} of {len(final)} cases have fewer pictures than were asked for")
    return found
