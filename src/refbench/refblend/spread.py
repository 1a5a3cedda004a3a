"""Samples dealt out over pictures as evenly as their offers allow. Knows numbers only, no types and no files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from refbench.refblend.draws import Words

Counts = NDArray[np.int64]
_SWEEPS, _PATIENCE = 30, 3


def rounded(shares: Sequence[float], total: int) -> list[int]:
    """Whole numbers in these proportions with this sum, each within 1 of the exact one (largest remainders)."""
    whole = sum(shares)
    exact = [share * total / whole for share in shares] if whole > 0 else [0.0] * len(shares)
    found = [int(value) for value in exact]
    missing = total - sum(found) if whole > 0 else 0
    by_remainder = sorted(range(len(found)), key=lambda place: (found[place] - exact[place], place))
    for place in by_remainder[:missing]:
        found[place] += 1
    return found


def poured(load: Counts, room: Counts, amount: int, luck: Words) -> Counts:
    """How much each picture gets of `amount`, at most its room, so that the loads end as level as they can.

    As water finds its level; what does not fill the last level goes to the pictures with the lowest `luck`.
    """
    amount = min(amount, int(room.sum()))
    low, high = int(load.min()), int((load + room).max())
    while low < high:  # the lowest level that holds the amount
        level = (low + high) // 2
        low, high = (low, level) if int(np.clip(level - load, 0, room).sum()) >= amount else (level + 1, high)
    found: Counts = np.clip(low - 1 - load, 0, room)
    open_places = np.flatnonzero((load + found < low) & (found < room))
    chosen = np.lexsort((luck[open_places],))[: amount - int(found.sum())]
    found[open_places[chosen]] += 1
    return found


def dealt(
    amounts: Sequence[int], rooms: Callable[[int], Counts], luck: Callable[[int, int], Words], pictures: int
) -> list[Counts]:
    """For every set, how many samples each picture gives to it; `rooms(set)` is how many it can give.

    The sets are poured one after another, those with the fewest pictures first, and then poured again in turn until
    the sum of squared loads falls no more. Each set has its own bounds, so that this leads to the most level loads.
    """
    given: list[Counts] = [np.zeros(pictures, np.int64) for _ in amounts]
    if not pictures:
        return given
    load: Counts = np.zeros(pictures, np.int64)
    order = sorted(range(len(amounts)), key=lambda each: (int(np.count_nonzero(rooms(each))), each))
    best, waited = np.inf, 0
    for sweep in range(_SWEEPS):
        for each in order:
            if not amounts[each]:
                continue
            load -= given[each]
            given[each] = poured(load, rooms(each), amounts[each], luck(each, sweep))
            load += given[each]
        unevenness = float((load.astype(np.float64) ** 2).sum())
        waited = 0 if unevenness < best else waited + 1
        best = min(best, unevenness)
        if waited >= _PATIENCE:
            break
    return given
