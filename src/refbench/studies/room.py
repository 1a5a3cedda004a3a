"""What there is for a rater to mark: items that are free, and items that others have open."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from refbench.record import counted
from refbench.studies.plan import LEASE
from refbench.studies.study import Study


class Room(NamedTuple):
    """Items that a rater has not marked yet."""

    free: int
    held: int
    """They lack a rater, and others have them open."""
    until: float
    """When the first of these is free if it is not marked by then."""
    full: int
    """They have all their raters."""

    def __str__(self) -> str:
        until = f" (the first until {datetime.fromtimestamp(self.until):%H:%M})" if self.held else ""
        have = "has" if self.full == 1 else "have"
        return (
            f"{counted(self.free, 'item')} free, {self.held} held by others{until}, {self.full} {have} all their raters"
        )


def room_of(study: Study, rater: str) -> Room:
    """How many items are free for a rater, and what is with the others."""
    items = [item.id for item in study.items.values() if item.use == "item"]
    left = [name for name in items if rater not in study.marks.givers.get(name, ())]
    lacking = [name for name in left if not study.is_full(name, rater)]
    held = [name for name in lacking if not study.is_free(name, rater)]
    ends = [
        lease.time + LEASE
        for name in held
        for who, lease in study.leases.of_item[name].items()
        if who in study.leases.held(name, study.clock(), rater)
    ]
    return Room(len(lacking) - len(held), len(held), min(ends, default=0), len(left) - len(lacking))
