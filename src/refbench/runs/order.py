"""The order of the cases: any prefix of it is a fair sample."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from refbench.case import AnyCase


def fair_order(cases: Sequence[AnyCase], seed: int = 0) -> list[AnyCase]:
    """Cases shuffled within strata and dealt out in proportion, the same for the same seed.

    A run that stops early (budget, deadline) has then about the same share of every stratum.
    """
    strata: dict[str, list[AnyCase]] = defaultdict(list)
    for case in cases:
        strata[case.stratum].append(case)
    placed = []
    for name, members in strata.items():
        members.sort(key=lambda case: _draw(seed, case.id))
        offset = _draw(seed, name)
        placed += [((rank + offset) / len(members), name, case) for rank, case in enumerate(members)]
    return [case for *_, case in sorted(placed, key=lambda place: place[:2])]


def _draw(seed: int, name: str) -> float:
    """A number in [0, 1) that belongs to the name; independent of the other cases, so subsets keep their order."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{name}".encode()).digest()[:7], "big") / 2**56
