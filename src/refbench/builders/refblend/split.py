"""The split into training and test pictures: near-duplicates and pictures of one subject are never on both sides.

It is made before samples are planned, and references come from the own side alone, so that nothing of a test sample is
ever seen in training, not even as the reference of another one.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Literal

from refbench.builders.kit.split import clusters, drawn_for_test
from refbench.builders.refblend.sources import LabelledPicture
from refbench.pictures.collection import SAME_LOOKS, lookalikes

Side = Literal["train", "test"]
RULE = (
    f"Pictures whose perceptual hashes (64 bits of the lowest frequencies) differ in at most {SAME_LOOKS} bits, "
    "and those of one subject, are on one side, and theirs too; references come from the same side."
)


def lookalike_groups(pictures: Sequence[LabelledPicture]) -> tuple[int, ...]:
    """The number of each picture's group of near-duplicates. Remembered: the split and every pool ask, and a
    million pictures take 15 s."""
    return _groups(tuple(picture.looks for picture in pictures))


@lru_cache(maxsize=1)
def _groups(looks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(group) for group in lookalikes(looks))


def connected_pictures(pictures: Sequence[LabelledPicture]) -> list[list[str]]:
    """The hashes of near-duplicates and of pictures of one subject, and of whatever these lead to, together."""
    groups: dict[str, list[tuple[str, object]]] = {}
    for picture, look in zip(pictures, lookalike_groups(pictures), strict=True):
        subject = [] if picture.subject is None else [("subject", picture.subject)]
        groups[picture.sha256] = [("looks", look), *subject]
    return clusters(groups)


def sides(
    pictures: Sequence[LabelledPicture], test_share: float, seed: int = 0, useful: Container[str] | None = None
) -> dict[str, Side]:
    """The side of each picture, by hash: whole clusters go to the test side in drawn order while they fit its share.

    The share is one of the `useful` pictures (by file), those that can be targets; of all where nothing is said.
    """
    counted = {picture.sha256 for picture in pictures if useful is None or picture.file in useful}
    tested = drawn_for_test(connected_pictures(pictures), test_share, seed, lambda members: len(counted & set(members)))
    return {picture.sha256: "test" if picture.sha256 in tested else "train" for picture in pictures}
