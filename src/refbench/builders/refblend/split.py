"""The split into training and test pictures: near-duplicates and pictures of one subject are never on both sides.

It is made before samples are planned, and references come from the own side alone, so that nothing of a test sample is
ever seen in training, not even as the reference of another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Literal

from refbench.builders.kit.draws import draw
from refbench.builders.refblend.sources import SourcePicture
from refbench.pictures.collection import SAME_LOOKS, lookalikes

Side = Literal["train", "test"]
RULE = (
    f"Pictures whose perceptual hashes (64 bits of the lowest frequencies) differ in at most {SAME_LOOKS} bits, "
    "and those of one subject, are on one side, and theirs too; references come from the same side."
)


def alike(pictures: Sequence[SourcePicture]) -> tuple[int, ...]:
    """The number of each picture's group of near-duplicates. Remembered: all pairs are compared (7 s for 64,000
    pictures), and the split and every pool ask."""
    return _groups(tuple(picture.looks for picture in pictures))


@lru_cache(maxsize=1)
def _groups(looks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(group) for group in lookalikes(looks))


def clusters(pictures: Sequence[SourcePicture]) -> list[int]:
    """The number of each picture's cluster: near-duplicates and pictures of one subject, and whatever these lead to."""
    looks = alike(pictures)
    head = list(range(len(pictures)))

    def top(place: int) -> int:
        while head[place] != place:
            head[place] = head[head[place]]
            place = head[place]
        return place

    first: dict[tuple[str, object], int] = {}
    for place, picture in enumerate(pictures):
        names: list[tuple[str, object]] = [("looks", looks[place])]
        if picture.subject is not None:
            names.append(("subject", picture.subject))
        for name in names:
            one, other = top(first.setdefault(name, place)), top(place)
            head[max(one, other)] = min(one, other)
    return [top(place) for place in range(len(pictures))]


def sides(
    pictures: Sequence[SourcePicture], test_share: float, seed: int = 0, useful: Container[str] | None = None
) -> dict[str, Side]:
    """The side of each picture, by hash: whole clusters go to the test side in drawn order while they fit its share.

    The share is one of the `useful` pictures (by file), those that can be targets; of all where nothing is said.
    """
    cluster = clusters(pictures)
    members: dict[int, list[str]] = {}
    sizes: Counter[int] = Counter()
    for place, picture in zip(cluster, pictures, strict=True):
        members.setdefault(place, []).append(picture.sha256)
        sizes[place] += useful is None or picture.file in useful
    room = round(test_share * sum(sizes.values()))
    found: dict[str, Side] = {}
    # A cluster is drawn by its smallest hash: the order of the files does not matter.
    for place in sorted(members, key=lambda place: draw(seed, "split", min(members[place]))):
        side: Side = "test" if 0 < sizes[place] <= room else "train"
        room -= sizes[place] if side == "test" else 0
        found.update(dict.fromkeys(members[place], side))
    return found
