"""The plan: which picture gives which sets of references, to wanted proportions or exhaustively.

Pure arithmetic on what the pictures offer: it depends on the offers, the rules and the seed, not on their order, nor on
who works on what. What cannot be met is told set by set; nothing takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, pairwise
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.builders.kit.draws import Words, draw, mixed, pick
from refbench.builders.refblend.rules import Rules, allowed_sets, share_of
from refbench.builders.refblend.types import TYPES, Type, TypeSet, name_of
from refbench.record import Record, RefBenchError

Choice: TypeAlias = tuple[tuple[int, ...], ...]
"""For each type the numbers of the candidates taken, rising, from 0."""

Counts = NDArray[np.int64]
MANY = 1_000_000
"""More choices than this are not counted: no picture gives that many samples to one set."""
_TRIES = 8
_SWEEPS, _PATIENCE = 30, 3


@dataclass(frozen=True, slots=True)
class Offer:
    """What one picture offers: of each type the number of candidates (one edge map, three poses, 16 other pictures of
    the same style); a type that is not named is not offered."""

    picture: str
    counts: Mapping[Type, int]


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """One sample to be made: `instances` are the numbers of the candidates, type by type as in `types`."""

    picture: str
    types: TypeSet
    instances: Choice

    @property
    def id(self) -> str:
        return f"{name_of(self.types)}-{draw(0, self.picture, self.types, self.instances):016x}"


class Quota(Record):
    """What became of one set: asked for, planned, and how many pictures and different samples there are for it."""

    types: TypeSet
    asked: int
    """As the proportions want it."""
    planned: int
    pictures: int
    possible: int
    """Different samples that the pictures offer, as far as the plan may repeat a set."""

    @property
    def shortfall(self) -> int:
        return self.asked - self.planned

    def __str__(self) -> str:
        """The shortfall as a sentence."""
        why = f"{self.pictures} pictures offer {self.possible} of it" if self.pictures else "no picture offers it"
        return f"{name_of(self.types)}: {self.planned} of {self.asked} planned, {why}."


@dataclass(frozen=True)
class SamplePlan:
    """The samples, made one by one as they are read, picture by picture; the same however often."""

    seed: int
    quotas: tuple[Quota, ...]
    """For every allowed set, also those of which nothing is planned."""
    _pictures: Sequence[str] = field(repr=False)
    _counts: NDArray[np.int64] = field(repr=False)
    _most: Mapping[Type, int] = field(repr=False)
    _entries: tuple[Counts, Counts, Counts] = field(repr=False)
    """Picture, set and how many: only those above 0, picture by picture."""

    def __len__(self) -> int:
        return int(self._entries[2].sum())

    def __iter__(self) -> Iterator[PlannedSample]:
        for picture, which, wanted in zip(*(part.tolist() for part in self._entries), strict=True):
            yield from self._of(picture, which, wanted)

    @property
    def shortfalls(self) -> tuple[Quota, ...]:
        return tuple(quota for quota in self.quotas if quota.shortfall)

    def _of(self, picture: int, which: int, wanted: int) -> Iterator[PlannedSample]:
        name, types = self._pictures[picture], self.quotas[which].types
        offered = [(int(self._counts[picture, _PLACE[kind]]), self._most.get(kind, 1)) for kind in types]
        for choice in draw_choices(offered, wanted, self.seed, name, *types):
            yield PlannedSample(name, types, choice)


_PLACE: Mapping[Type, int] = {kind: place for place, kind in enumerate(TYPES)}


def plan(
    offers: Iterable[Offer],
    rules: Rules,
    *,
    n: int | None = None,
    proportions: Mapping[TypeSet, float] | None = None,
    several: Mapping[Type, int] | None = None,
    repeats: int | None = None,
    seed: int = 0,
) -> SamplePlan:
    """`n` samples in these proportions (those of the rules, else all sets equally often); without `n`, exhaustively.

    `several` is the most references of a type in one sample, 1 for types that it does not name. `repeats` is how often
    a picture may give the same set, each time with other candidates: 1 for an exhaustive plan, else as often as there
    are candidates. Pictures are used as evenly as their offers allow.
    """
    sets = allowed_sets(rules)
    if not sets:
        raise RefBenchError(f"{rules.name} allows no set of the types in use ({', '.join(rules.use)}): use more types")
    if n is not None and n < 0:
        raise RefBenchError(f"{n} samples cannot be planned: give 0 or more")
    if repeats is not None and repeats < 1:
        raise RefBenchError(f"repeats {repeats}: a set that a picture gives is given at least once")
    most = instances_of(rules, several or {})
    pictures, counts = _table(offers)
    limit = repeats or (1 if n is None else MANY)

    def rooms(which: int) -> Counts:
        return np.minimum(_choices(counts, sets[which], most), limit)

    possible = [(int(np.count_nonzero(room)), int(room.sum())) for room in map(rooms, range(len(sets)))]
    if n is None:
        asked = [total for _, total in possible]
        given = [rooms(which) for which in range(len(sets))]
    else:
        asked = largest_remainders(_shares(rules, sets, proportions), n)
        words = np.array([draw(seed, name) for name in pictures], np.uint64)
        given = spread_evenly(
            asked,
            rooms,
            lambda which, sweep: mixed(words, draw(seed, sweep, *sets[which])),
            len(pictures),
        )
    quotas = tuple(
        Quota(types=types, asked=wanted, planned=int(dealt_out.sum()), pictures=able, possible=total)
        for types, wanted, dealt_out, (able, total) in zip(sets, asked, given, possible, strict=True)
    )
    return SamplePlan(seed, quotas, pictures, counts, most, _entries(given))


def _entries(given: Sequence[Counts]) -> tuple[Counts, Counts, Counts]:
    parts = [np.flatnonzero(each) for each in given]
    picture = np.concatenate(parts)
    which = np.concatenate([np.full(len(part), place) for place, part in enumerate(parts)])
    wanted = np.concatenate([each[part] for each, part in zip(given, parts, strict=True)])
    order = np.lexsort((which, picture))
    return picture[order], which[order], wanted[order]


def instances_of(rules: Rules, several: Mapping[Type, int]) -> Mapping[Type, int]:
    """The most references of each type in one sample, as asked for; RefBenchError where the rules allow one alone."""
    for kind, most in several.items():
        if most < 1 or (most > 1 and not rules.several(kind)):
            allowed = [each for each in TYPES if rules.several(each)]
            raise RefBenchError(
                f"{most} references of type {kind} in one sample: {rules.name} allows several of {', '.join(allowed)}"
            )
    return dict(several)


def _table(offers: Iterable[Offer]) -> tuple[list[str], NDArray[np.int64]]:
    """Pictures by name, so that the order of the input does not matter, and their counts in the order of TYPES."""
    rows: list[tuple[str, bytes]] = []
    for offer in offers:
        row = np.zeros(len(TYPES), np.int64)
        for kind, count in offer.counts.items():
            if count < 0:
                raise RefBenchError(f"{offer.picture}: {count} references of type {kind} cannot be offered")
            row[_PLACE[kind]] = count
        rows.append((offer.picture, row.tobytes()))
    rows.sort()
    names = [name for name, _ in rows]
    for name, following in pairwise(names):
        if name == following:
            raise RefBenchError(f"{name} is offered twice: give every picture once")
    counts = np.frombuffer(b"".join(row for _, row in rows), np.int64).reshape(len(rows), len(TYPES))
    return names, counts


def _choices(counts: NDArray[np.int64], types: TypeSet, most: Mapping[Type, int]) -> Counts:
    """How many different samples of the set each picture can give, at most MANY."""
    choices: Counts = np.ones(len(counts), np.int64)
    for kind in types:
        values, place = np.unique(counts[:, _PLACE[kind]], return_inverse=True)
        ways = np.array([count_choices(int(value), most.get(kind, 1)) for value in values], np.int64)
        choices = np.minimum(choices * ways[place], MANY) if len(values) else choices
    return choices


def _shares(rules: Rules, sets: Sequence[TypeSet], proportions: Mapping[TypeSet, float] | None) -> list[float]:
    shares = share_of(rules, sets) if proportions is None else proportions
    for types, share in shares.items():
        if types not in sets and share:
            raise RefBenchError(f"{name_of(types)} is wanted, but {rules.name} forbids it: see refbench blend explain")
    weights = [float(shares.get(types, 0.0)) for types in sets]
    if not sum(weights) > 0:
        raise RefBenchError(f"no set that {rules.name} allows has a proportion: give some, or plan exhaustively")
    return weights


def largest_remainders(shares: Sequence[float], total: int) -> list[int]:
    """Whole numbers in these proportions with this sum, each within 1 of the exact one (largest remainders)."""
    whole = sum(shares)
    if not whole > 0:
        return [0] * len(shares)
    exact = [share * total / whole for share in shares]
    numbers = [int(value) for value in exact]
    by_remainder = sorted(range(len(numbers)), key=lambda place: (numbers[place] - exact[place], place))
    for place in by_remainder[: total - sum(numbers)]:
        numbers[place] += 1
    return numbers


def fill_evenly(load: Counts, room: Counts, amount: int, luck: Words) -> Counts:
    """How much each picture gets of `amount`, at most its room, so that the loads end as level as they can.

    As water finds its level; what does not fill the last level goes to the pictures with the lowest `luck`.
    """
    amount = min(amount, int(room.sum()))
    low, high = int(load.min()), int((load + room).max())
    while low < high:  # the lowest level that holds the amount
        level = (low + high) // 2
        low, high = (low, level) if int(np.clip(level - load, 0, room).sum()) >= amount else (level + 1, high)
    taken: Counts = np.clip(low - 1 - load, 0, room)
    open_places = np.flatnonzero((load + taken < low) & (taken < room))
    chosen = np.lexsort((luck[open_places],))[: amount - int(taken.sum())]
    taken[open_places[chosen]] += 1
    return taken


def spread_evenly(
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
            given[each] = fill_evenly(load, rooms(each), amounts[each], luck(each, sweep))
            load += given[each]
        unevenness = float((load.astype(np.float64) ** 2).sum())
        waited = 0 if unevenness < best else waited + 1
        best = min(best, unevenness)
        if waited >= _PATIENCE:
            break
    return given


@lru_cache(maxsize=4096)
def count_choices(candidates: int, most: int) -> int:
    """In how many ways at least 1 and at most `most` of the candidates can be taken, at most MANY."""
    count = 0
    for size in range(1, min(candidates, most) + 1):
        count += comb(candidates, size)
        if count >= MANY:
            return MANY
    return count


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
