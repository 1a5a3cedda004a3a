"""Which rater is shown what: exactly as many raters as wanted, sides balanced, no two of one case in a row."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

from refbench.studies.design import Training
from refbench.studies.gold import with_exchanges
from refbench.studies.items import Item, ItemOutput
from refbench.studies.plan import LEASE, order_of
from refbench.studies.shown import Acknowledgement
from refbench.studies.study import Study
from support.studies import mark, picture, rate_items, study
from support.study_raters import answer_all, answer_one, item_of, marks_by

SAME = marks_by(lambda item: 0.5)


class Clock:
    """A clock that a test sets."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def pair_items(folder: Path, cases: int, models: tuple[str, ...] = ("a", "b", "c")) -> list[Item]:
    shown = {m: picture(folder, f"{m}.png", n) for n, m in enumerate(models)}
    return [
        Item(
            id=f"case{case:02d} {first} {second}",
            case=f"case{case:02d}",
            screen="pair",
            outputs=tuple(ItemOutput(model=m, pictures=(shown[m],)) for m in (first, second)),
        )
        for case in range(cases)
        for first, second in combinations(models, 2)
    ]


def test_every_item_ends_with_exactly_the_raters_it_wants_whoever_comes(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 7), overlap=3)
    raters = [made.raters.add() for _ in range(5)]
    going = True
    while going:  # one item each in turn, as raters who work at the same time
        going = sum(answer_one(made, rater, SAME) is not None for rater in raters) > 0
    given = Counter(one.item for one in made.marks.given())
    assert set(given.values()) == {3} and len(given) == 7
    assert all(made.progress(rater).finished for rater in raters)
    assert made.status().covered == {3: 7}


def test_an_open_item_is_kept_for_half_an_hour_and_then_goes_to_another(tmp_path: Path) -> None:
    clock = Clock()
    made = study(tmp_path, rate_items(tmp_path, 2), clock, overlap=1)
    first, second = made.raters.add(), made.raters.add()
    opened = made.next_items(first, 2)
    assert len(opened) == 2
    assert made.next_items(second, 2) == []
    clock.now += LEASE + 1
    assert len(made.next_items(second, 2)) == 2
    late = made.take(first, mark(opened[0].item, 1, IQ=3, IF=3))
    assert isinstance(late, Acknowledgement)  # what somebody has done is never thrown away


def test_no_rater_sees_two_items_of_one_case_in_a_row(tmp_path: Path) -> None:
    items = rate_items(tmp_path, 6, ("m", "n", "o"))
    made = study(tmp_path, items)
    rater = made.raters.add()
    cases = []
    for _ in items:
        shown = made.next_items(rater)[0]
        cases.append(item_of(made, rater, shown).case)
        answer_one(made, rater, SAME)
    assert all(a != b for a, b in pairwise(cases))
    orders = {tuple(order_of(name, items, 0)) for name in ("r1", "r2", "r3")}
    assert len(orders) == 3  # each rater has an order of their own


def test_sides_are_balanced_for_each_pair_of_models_and_each_rater(tmp_path: Path) -> None:
    made = study(tmp_path, pair_items(tmp_path, 10), screen="pair", criteria=(), overlap=5)
    for _ in range(5):
        rater = made.raters.add()
        assert answer_all(made, rater, lambda item, shown: {"preference": "0"}) == 30
    sides: Counter[tuple[str, tuple[str, ...], tuple[int, ...]]] = Counter()
    for lease in made.leases.all.values():
        sides[lease.rater, made.items[lease.item].models, lease.order] += 1
    assert set(sides.values()) == {5}  # of 10 cases, for each of 3 pairs and 5 raters: half exactly
    preferred = Counter(str(one.values["preference"]) for one in made.marks.given())
    assert abs(preferred["0"] / 150 - 0.5) <= 0.01  # always the left one: neither model wins by that


def test_gold_and_repeats_are_mixed_in_and_look_like_any_other_item(tmp_path: Path) -> None:
    plain = rate_items(tmp_path, 45)
    criteria = study(tmp_path / "other", plain[:1]).design.criteria
    gold = with_exchanges(
        plain, [c.model_copy(update={"gold": True}) for c in criteria], {"gold": 8, "training": 0}, {}
    )
    made = study(tmp_path / "s", [*plain, *gold], gold=8, repeats_every=15, overlap=1)
    rater = made.raters.add()
    seen = []
    while shown := made.next_items(rater):
        assert shown[0].phase == "item"
        seen.append(item_of(made, rater, shown[0]))
        answer_one(made, rater, SAME)
    uses = Counter(item.use for item in seen)
    assert uses == {"item": 48, "gold": 8}  # 45 items, three of them twice
    places = [place for place, item in enumerate(seen) if item.use == "gold"]
    assert max(places) - min(places) > 25  # spread over the whole
    twice = [name for name, n in Counter(item.id for item in seen).items() if n == 2]
    assert len(twice) == 3
    for name in twice:
        first, second = (place for place, item in enumerate(seen) if item.id == name)
        assert second - first >= 8


def test_training_tells_what_is_right_and_may_be_repeated_once(tmp_path: Path) -> None:
    plain = rate_items(tmp_path, 12)
    criteria = study(tmp_path / "other", plain[:1]).design.criteria
    extra = with_exchanges(
        plain, [c.model_copy(update={"gold": True}) for c in criteria], {"gold": 0, "training": 5}, {}
    )
    made = study(tmp_path / "s", [*plain, *extra], training=Training())
    learner = made.raters.add()
    states = []
    for k in range(10):
        shown = made.next_items(learner)[0]
        assert shown.phase == "training"
        high = k < 5
        values = {"IQ": 5 if high else 1, "IF": 5 if high else 1}
        told = made.take(learner, mark(shown.item, k, **values))
        assert isinstance(told, Acknowledgement)
        assert {one.right for one in told.feedback} == {not high} and told.why["en"]
        states.append(told.training)
    assert (states[4], states[9]) == ("again", "passed")
    assert made.next_items(learner)[0].phase == "item"
    hopeless = made.raters.add()
    for k in range(10):
        made.take(hopeless, mark(made.next_items(hopeless)[0].item, 100 + k, IQ=5, IF=5))
    assert made.progress(hopeless).training == "failed" and made.next_items(hopeless) == []


def test_what_was_skipped_comes_back_once_and_does_not_count_as_done(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 3), overlap=1)
    rater = made.raters.add()
    first = made.next_items(rater)[0].item
    made.take(rater, {**mark(first, 1), "values": {}, "skip": True})
    assert (made.progress(rater).done, made.progress(rater).skipped) == (0, 1)
    others = []
    for k in range(2):
        shown = made.next_items(rater)[0]
        others.append(shown.item)
        made.take(rater, mark(shown.item, 10 + k, IQ=1, IF=1))
    assert first not in others
    assert made.next_items(rater)[0].item == first
    assert not made.progress(rater).finished
    made.take(rater, {**mark(first, 3), "values": {}, "skip": True})
    assert made.next_items(rater) == [] and made.progress(rater).finished
    assert len(list(made.marks.given())) == 2


def test_a_reopened_study_shows_the_same_sides(tmp_path: Path) -> None:
    made = study(tmp_path, pair_items(tmp_path, 5), screen="pair", criteria=())
    rater = made.raters.add()
    shown = made.next_items(rater, 5)
    assert Study.open(tmp_path).next_items(rater, 5) == shown
