"""The plan: which item a rater is shown next, and on which side each output stands.

Nothing is dealt out beforehand: an item goes to whoever asks while it has fewer raters than the overlap wants, marks
and open leases counted together, so that each ends with exactly that many, however many raters come and stay.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from refbench.record import Record
from refbench.studies.design import StudyDesign
from refbench.studies.items import Item
from refbench.studies.log import Log
from refbench.studies.marks import Place

FILE = "leases.jsonl"
LEASE = 30 * 60
"""Seconds for which an open item is kept for whoever has it."""
RENEW = 5 * 60
"""Seconds after which a lease that is looked at again is written anew."""
APART = 8
"""Items between the two times that a repeat is shown."""

Phase = Literal["training", "item"]


class Lease(Record):
    """An item that a rater was shown, and how."""

    rater: str
    item: str
    occasion: int = 0
    order: tuple[int, ...] = ()
    """Which output stands in each place."""
    phase: Phase = "item"
    time: float
    released: bool = False

    @property
    def place(self) -> Place:
        return self.rater, self.item, self.occasion


class Step(NamedTuple):
    """What a rater is to do next."""

    item: str
    occasion: int
    phase: Phase


class Leases:
    """Who has which item open, and how each was shown: kept, so that a reload or a restart shows the same."""

    def __init__(self, folder: Path) -> None:
        self._log = Log(folder / FILE, Lease, flush=False)
        self.all: dict[Place, Lease] = {}
        self.of_item: dict[str, dict[str, Lease]] = defaultdict(dict)
        """By item and rater, of first occasions."""
        self.lines = 0
        """How many were read: whether anything is new."""
        self.of_rater: dict[str, dict[Place, Lease]] = defaultdict(dict)
        self.refresh()

    def refresh(self) -> list[Lease]:
        """Take in what was appended since; returns those that are no renewals."""
        fresh, new = [], self._log.new()
        known = set(self.all) if self._log.anew else self.all
        if self._log.anew:
            self.all.clear()
            self.of_item.clear()
            self.of_rater.clear()
        for lease in new:
            self.lines += 1
            if lease.place not in known and lease.place not in self.all:
                fresh.append(lease)
            self.all[lease.place] = lease
            self.of_rater[lease.rater][lease.place] = lease
            if lease.occasion == 0:
                self.of_item[lease.item][lease.rater] = lease
        return fresh

    def add(self, leases: Iterable[Lease]) -> list[Lease]:
        """Append leases; returns those that are no renewals, as `refresh` does."""
        lines = list(leases)
        if lines:
            self._log.append(lines)
        return self.refresh()

    def held(self, item: str, now: float, but: str) -> set[str]:
        """Other raters who have the item open now."""
        leases = self.of_item.get(item, {})
        return {r for r, lease in leases.items() if r != but and not lease.released and now - lease.time < LEASE}


def order_of(rater: str, items: Sequence[Item], seed: int) -> list[str]:
    """The rater's own order: shuffled by seed, never two items of one case in a row where that can be avoided."""
    shuffled = sorted(items, key=lambda item: _draw(seed, rater, item.id))
    left: dict[str, deque[int]] = defaultdict(deque)
    for place, item in enumerate(shuffled):
        left[item.case].append(place)
    of_size: dict[int, set[str]] = defaultdict(set)
    for case, places in left.items():
        of_size[len(places)].add(case)
    most, head, last = max(of_size, default=0), 0, ""
    done = [False] * len(shuffled)
    found: list[str] = []
    for remaining in range(len(shuffled), 0, -1):
        while not of_size[most]:
            most -= 1
        while done[head]:
            head += 1
        case = next(iter(of_size[most]))
        # A case that has more than half of what is left comes now, or two of it meet in the end.
        if 2 * most <= remaining or case == last:
            open_now = (k for k in range(head, len(shuffled)) if not done[k] and shuffled[k].case != last)
            case = shuffled[next(open_now, head)].case
        place = left[case].popleft()
        of_size[len(left[case]) + 1].remove(case)
        of_size[len(left[case])].add(case)
        done[place] = True
        found.append(shuffled[place].id)
        last = case
    return found


def places_of(rater: str, n: int, total: int, seed: int, what: str) -> list[int]:
    """After how many items each gold item comes (or each of what else is spread): one in each of n equal stretches, at
    a place drawn by seed."""
    edges = [total * k // n for k in range(n + 1)] if n else []
    return [
        low + int(_draw(seed, rater, f"{what} {k}") * max(1, high - low))
        for k, (low, high) in enumerate(pairwise(edges))
    ]


def chosen(rater: str, names: Sequence[str], n: int, seed: int, what: str) -> list[str]:
    """n of these, drawn for the rater."""
    return sorted(names, key=lambda name: _draw(seed, rater, f"{what} {name}"))[:n]


Seen = Mapping[tuple[str, tuple[str, ...], tuple[int, ...]], int]
"""How often a rater, and anybody (as ""), has seen outputs of these models in this order."""


def sides(item: Item, rater: str, seen: Seen, seed: int) -> tuple[int, ...]:
    """The order in which outputs are shown. Of two, the one that this rater, then all raters, have seen less often for
    these two models; of more, a shuffle by seed."""
    n, models = len(item.outputs), item.models
    if n != 2:
        rng = np.random.default_rng(int(_draw(seed, rater, f"order {item.id}") * 2**53))
        return tuple(int(place) for place in rng.permutation(n))
    drawn = (0, 1) if _draw(seed, rater, f"side {item.id}") < 0.5 else (1, 0)
    options = [drawn, drawn[::-1]]
    return min(options, key=lambda order: (seen.get((rater, models, order), 0), seen.get(("", models, order), 0)))


def _draw(seed: int, rater: str, name: str) -> float:
    """A number in [0, 1) that belongs to the rater and the name."""
    digest = hashlib.sha256(f"{seed}\0{rater}\0{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


class RaterPlan:
    """What is fixed for one rater: the order, which gold items and checks come and when, and what is repeated."""

    def __init__(self, rater: str, design: StudyDesign, items: Mapping[str, Item]) -> None:
        of_use: dict[str, list[Item]] = defaultdict(list)
        for item in items.values():
            of_use[item.use].append(item)
        self.rater = rater
        self.order = order_of(rater, of_use["item"], design.seed)
        self.quota = min(len(self.order), design.per_rater or len(self.order))
        self.training = chosen(
            rater, [i.id for i in of_use["training"]], design.training.items, design.seed, "training"
        )
        self.checks: dict[str, int] = {}
        """After how many items each gold item and each explicit check comes."""
        for what, n in (("gold", design.gold), ("attention", design.attention)):
            names = chosen(rater, [i.id for i in of_use[what]], n, design.seed, what)
            self.checks |= zip(names, places_of(rater, len(names), self.quota, design.seed, what), strict=True)
        self.n_repeats = self.quota // design.repeats_every if design.repeats_every else 0
        self.repeat_after = [design.repeats_every * (k + 1) for k in range(self.n_repeats)]

    @property
    def total(self) -> int:
        """Items that the rater is shown when all of the quota can be had, training apart."""
        return self.quota + len(self.checks) + self.n_repeats

    def repeats_of(self, n_items: int) -> int:
        """Repeats that come among so many items."""
        return min(sum(after <= n_items for after in self.repeat_after), max(0, n_items - APART))

    def extra(self, n_items: int, done: Collection[tuple[str, int]], first: Sequence[str]) -> Step | None:
        """The gold item, check or repeat that is due after so many items: where there are fewer items than the rater
        might have had, there are fewer of these. `first` are the items that the rater marked, in order."""
        for item, after in sorted(self.checks.items(), key=lambda one: one[1]):
            if (item, 0) not in done and n_items >= after:
                return Step(item, 0, "item")
        repeated = [item for item, occasion in done if occasion == 1]
        if len(repeated) < self.n_repeats and n_items >= self.repeat_after[len(repeated)]:
            early = [item for item in first[: max(0, len(first) - APART)] if item not in repeated]
            if early:
                return Step(early[int(_draw(0, self.rater, f"repeat {len(repeated)}") * len(early))], 1, "item")
        return None
