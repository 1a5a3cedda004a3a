"""What only the judge of a user's own case sees: the questions of the checklist."""

from __future__ import annotations

from typing import TypeAlias

from refbench.case import Case
from refbench.record import Record


class OwnDetails(Record):
    """Yes/no questions, in the user's words; empty for rubrics that ask none."""

    questions: tuple[str, ...] = ()


OwnCase: TypeAlias = Case[OwnDetails]
