"""Which picture gets which dimension: balanced over nine, and only where the picture suits; splits that never mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from refbench.benchmarks.creval.details import DIMENSIONS
from refbench.builders.folder import split_names
from refbench.refblend.draws import draw, shuffled


def quotas(size: int, seed: int) -> Counter[int]:
    """Items for each dimension: the same number, and the remainder to dimensions of the seed's choice."""
    each, rest = divmod(size, len(DIMENSIONS))
    order = shuffled(tuple(DIMENSIONS), seed, "remainder")
    return Counter({number: each + (order.index(number) < rest) for number in DIMENSIONS})


def deal(suits: Mapping[str, Collection[int]], places: Mapping[int, int]) -> dict[str, int]:
    """A dimension for as many pictures as can have one, in their order, none beyond its open places.

    A picture goes where most places are open; where none is, an earlier one moves if it suits elsewhere.
    """
    seated: dict[int, list[str]] = {number: [] for number, many in places.items() if many > 0}

    def seat(picture: str, tried: set[int]) -> bool:
        fitting = [number for number in suits[picture] if number in seated and number not in tried]
        fitting.sort(key=lambda number: (len(seated[number]) - places[number], number))
        for number in fitting:
            if len(seated[number]) < places[number]:
                seated[number].append(picture)
                return True
        for number in fitting:
            tried.add(number)
            for place, other in enumerate(seated[number]):
                if seat(other, tried):
                    seated[number][place] = picture
                    return True
        return False

    for picture in suits:
        seat(picture, set())
    found = {picture: number for number, pictures in seated.items() for picture in pictures}
    return {picture: found[picture] for picture in suits if picture in found}


class Splits:
    """Who goes to the test split: a share of every dimension, decided when a picture is dealt.

    What is dropped later moves nobody, and of pictures that look alike only one is ever dealt, so that no two splits
    hold the same.
    """

    def __init__(self, test_share: float | None, seed: int) -> None:
        self.names = split_names(test_share)
        self._share = test_share
        # Dimensions start at different places of the count: with few items each, all would round the same way.
        order = shuffled(tuple(DIMENSIONS), seed, "split")
        first = draw(seed, "split") / 2**64
        self._start = {number: (order.index(number) / len(order) + first) % 1.0 for number in order}
        self._dealt: Counter[int] = Counter()

    def of_next(self, class_id: int) -> str:
        """The split of the next item of a dimension; empty where there is only one."""
        if self._share is None:
            return ""
        at = self._start[class_id] + self._share * self._dealt[class_id]
        self._dealt[class_id] += 1
        return "test" if int(at + self._share) > int(at) else "dev"
