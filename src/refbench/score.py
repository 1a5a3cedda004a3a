"""Score: one measurement in one of four states: a value, a Failure, not applicable, or not asked for yet."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

from pydantic import model_validator

from refbench.evidence import Purpose
from refbench.failure import Failure
from refbench.record import Record

_SMALL = 1.5
"""What scores from 0 to 1 stay below, means and bounds of them included."""


class Score(Record):
    """One measurement of one model on one case, as one protocol reads the evidence.

    A pure function of Case, Output and Evidence: recomputed whenever a reader improves, never stored as
    the only copy. `not_applicable` says why this measure does not concern the case: it lowers what is
    expected and is neither a value nor a failure. `not_asked` is what a run has not come to yet: expected, but
    nothing has failed.
    """

    case: str
    model: str
    metric: str
    protocol: str
    judge: str | None = None
    seed: int = 0
    repeat: int = 0
    value: float | None = None
    failure: Failure | None = None
    not_applicable: str | None = None
    not_asked: bool = False
    lost_repeats: int = 0
    """Of the judge's repeats behind a value, those that could not be read: the others stand for them."""
    answers: tuple[str | None, ...] = ()
    """What the judge answered, question by question, where the measure is made of answers."""

    @classmethod
    def of(
        cls,
        purpose: Purpose,
        metric: str,
        protocol: str,
        state: float | Failure | str,
        answers: tuple[str | None, ...] = (),
    ) -> Self:
        """The score that evidence for a purpose gives: a value, a failure, or the reason why it does not apply."""
        return cls(
            case=purpose.case,
            model=purpose.model,
            judge=purpose.judge,
            metric=metric,
            protocol=protocol,
            seed=purpose.seed,
            repeat=purpose.repeat,
            value=None if isinstance(state, Failure | str) else state,
            failure=state if isinstance(state, Failure) else None,
            not_applicable=state if isinstance(state, str) else None,
            answers=answers,
        )

    @model_validator(mode="after")
    def _one_state(self) -> Score:
        states = (self.value is not None) + (self.failure is not None) + (self.not_applicable is not None)
        if states + self.not_asked != 1:
            raise ValueError("a Score is a value, a failure, not applicable or not asked, exactly one of them")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError("a Score's value is finite; say Failure('undefined') otherwise")
        return self


def digits_of(values: Iterable[float | None]) -> int:
    """Digits after the point: four for scores from 0 to 1, two for marks and percentages."""
    return 4 if all(value is None or not abs(value) > _SMALL for value in values) else 2
