"""Draws that belong to names: the same for a seed on every machine, whatever was drawn before and by whom."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Item = TypeVar("Item")


def draw(seed: int, *names: object) -> int:
    """A number below 2**64 that belongs to the seed and the names."""
    said = "\0".join([str(seed), *map(str, names)]).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "big")


def pick(count: int, seed: int, *names: object) -> int:
    """One of `count` places. The bias of the remainder is below count / 2**64."""
    return draw(seed, *names) % count


def shuffled(items: Sequence[Item], seed: int, *names: object) -> list[Item]:
    """The items in an order that belongs to the names; Fisher and Yates."""
    found = list(items)
    for last in range(len(found) - 1, 0, -1):
        other = pick(last + 1, seed, *names, last)
        found[last], found[other] = found[other], found[last]
    return found


def quotas(size: int, kinds: Sequence[Item], seed: int) -> dict[Item, int]:
    """How many of each kind make `size`: the same number, and the remainder to kinds of the seed's choice."""
    each, rest = divmod(size, len(kinds)) if kinds else (0, 0)
    more = shuffled(kinds, seed, "remainder")[:rest]
    return {kind: each + (kind in more) for kind in kinds}


def mixed(words: Words, salt: int) -> Words:
    """Each word scrambled with the salt (the finish of splitmix64): a draw for every picture in one step."""
    with np.errstate(over="ignore"):  # arithmetic modulo 2**64 is meant
        x = words ^ np.uint64(salt)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
