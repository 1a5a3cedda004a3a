"""The split: no picture, near-duplicate or subject is on both sides, and it does not depend on order or names."""

from __future__ import annotations

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbench.builders.refblend.sources import LabelledPicture
from refbench.builders.refblend.split import connected_pictures, sides


def picture(number: int, looks: int | None = None, subject: str | None = None) -> LabelledPicture:
    spread = random.Random(number).getrandbits(64) if looks is None else looks
    sha256 = hashlib.sha256(str(number).encode()).hexdigest()
    name = f"{number}.png"
    return LabelledPicture(
        name=name, path=name, sha256=sha256, width=9, height=9, format="png", looks=spread, subject=subject
    )


def test_the_share_is_met_with_single_pictures_and_never_exceeded() -> None:
    many = [picture(n) for n in range(200)]
    assert len(connected_pictures(many)) == 200
    assert list(sides(many, 0.1).values()).count("test") == 20
    assert set(sides(many, 0.0).values()) == {"train"}
    assert set(sides(many, 1.0).values()) == {"test"}


def test_the_share_is_one_of_those_that_can_be_targets() -> None:
    many = [picture(n) for n in range(100)]
    useful = {p.file for p in many[:20]}
    found = sides(many, 0.1, useful=useful)
    tested = [p for p in many if found[p.sha256] == "test"]
    assert len(tested) == 2
    assert {p.file for p in tested} <= useful


def test_near_duplicates_and_subjects_hang_together_through_each_other() -> None:
    chain = [
        picture(0, 0),
        picture(1, 0b1111111111, "cat"),
        picture(2, None, "cat"),
        picture(3),
        picture(4, None, "dog"),
    ]
    first, *others = ({one.sha256 for one in part} for part in (chain[:3], chain[3:4], chain[4:]))
    assert sorted(map(set, connected_pictures(chain)), key=len, reverse=True) == [first, *others]


@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 2**13), st.sampled_from([None, "a", "b"])), max_size=25
    ),
    st.floats(0, 1),
    st.integers(0, 5),
)
def test_nothing_alike_is_ever_on_both_sides(made: list[tuple[int, str | None]], share: float, seed: int) -> None:
    pictures = [picture(n, looks, subject) for n, (looks, subject) in enumerate(made)]
    found = sides(pictures, share, seed)
    for one in pictures:
        for other in pictures:
            if (one.looks ^ other.looks).bit_count() <= 10 or (one.subject and one.subject == other.subject):
                assert found[one.sha256] == found[other.sha256]
    assert list(found.values()).count("test") <= round(share * len(pictures))
    assert sides(list(reversed(pictures)), share, seed) == found


@pytest.mark.parametrize("seed", range(3))
def test_another_seed_is_another_split(seed: int) -> None:
    many = [picture(n) for n in range(60)]
    assert sides(many, 0.3, seed) != sides(many, 0.3, seed + 1)
