"""Which candidates a sample takes of each of its types: how many choices there are, and different ones drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb
from typing import TypeAlias

from refbench.refblend.draws import pick

Choice: TypeAlias = tuple[tuple[int, ...], ...]
"""For each type the numbers of the candidates taken, rising, from 0."""

MANY = 1_000_000
"""More choices than this are not counted: no picture gives that many samples to one set."""
_TRIES = 8


def count_choices(candidates: int, most: int) -> int:
    """In how many ways at least 1 and at most `most` of the candidates can be taken, at most MANY."""
    found = 0
    for size in range(1, min(candidates, most) + 1):
        found += comb(candidates, size)
        if found >= MANY:
            return MANY
    return found


def draw_choices(offered: Sequence[tuple[int, int]], wanted: int, seed: int, *names: object) -> list[Choice]:
    """`wanted` different choices; `offered` has candidates and the most that may be taken, type by type.

    How many are taken is drawn before which: otherwise nearly all samples would have as many as they may.
    """
    found: dict[Choice, None] = {}
    for number in range(wanted):
        for attempt in range(_TRIES):
            choice = tuple(
                _drawn(candidates, most, seed, *names, number, attempt, place)
                for place, (candidates, most) in enumerate(offered)
            )
            if choice not in found:
                break
        else:  # nearly all are taken: the first that is left
            choice = next(each for each in _all_choices(offered) if each not in found)
        found[choice] = None
    return list(found)


def _drawn(candidates: int, most: int, seed: int, *names: object) -> tuple[int, ...]:
    if candidates == 1:
        return (0,)
    most = min(candidates, most)
    size = 1 if most == 1 else 1 + pick(most, seed, *names, "size")
    taken: set[int] = set()
    number = 0
    while len(taken) < size:
        taken.add(pick(candidates, seed, *names, number))
        number += 1
    return tuple(sorted(taken))


def _all_choices(offered: Sequence[tuple[int, int]]) -> Iterator[Choice]:
    """One after another; itertools.product would first make a list of every type's."""
    if not offered:
        yield ()
        return
    (candidates, most), *rest = offered
    for size in range(1, min(candidates, most) + 1):
        for first in combinations(range(candidates), size):
            for others in _all_choices(rest):
                yield (first, *others)
