"""The plan: allowed sets only, offered references only, proportions kept, pictures used evenly, seeds obeyed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations, permutations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from refbench.builders.kit.draws import draw, mixed, shuffled
from refbench.builders.refblend.blending import Pools
from refbench.builders.refblend.plan import (
    MANY,
    Offer,
    SamplePlan,
    count_choices,
    draw_choices,
    fill_evenly,
    largest_remainders,
    plan,
    spread_evenly,
)
from refbench.builders.refblend.presets import load_rules
from refbench.builders.refblend.rules import allowed_sets
from refbench.builders.refblend.types import TYPES, Type
from refbench.record import RefBenchError
from support.campaigns import searched

ALL = dict.fromkeys(TYPES, 1)
SEVERAL: Mapping[Type, int] = {"subject": 2, "pose": 3}

offers = st.lists(st.dictionaries(st.sampled_from(TYPES), st.integers(0, 4), max_size=10), min_size=1, max_size=12).map(
    lambda rows: [Offer(f"pictures/{number}.png", counts) for number, counts in enumerate(rows)]
)
preset_names = st.sampled_from(["table7", "matrix", "paper-rules"])
several = st.sampled_from([{}, SEVERAL])


def samples(made: SamplePlan) -> list[tuple[Any, ...]]:
    return [(sample.id, sample.picture, sample.types, sample.instances) for sample in made]


@searched(12, 60, offers, preset_names, several, st.integers(0, 120), st.integers(0, 3))
def test_every_sample_is_allowed_offered_and_different(
    given_offers: list[Offer], preset: str, several: Mapping[Type, int], n: int, seed: int
) -> None:
    rules = load_rules(preset)
    made = plan(given_offers, rules, n=n, several=several, seed=seed)
    sets, by_picture = set(allowed_sets(rules)), {offer.picture: offer.counts for offer in given_offers}
    found = list(made)
    assert len(found) == len(made) == sum(quota.planned for quota in made.quotas)
    for sample in found:
        assert sample.types in sets
        for kind, taken in zip(sample.types, sample.instances, strict=True):
            assert 1 <= len(taken) <= several.get(kind, 1) and list(taken) == sorted(set(taken))
            assert taken[0] >= 0 and taken[-1] < by_picture[sample.picture][kind]
    assert len({sample.id for sample in found}) == len(set(samples(made))) == len(found), "no duplicates"


@searched(8, 30, offers, preset_names, st.integers(0, 120), st.integers(0, 3), st.randoms(use_true_random=False))
def test_the_plan_depends_on_the_seed_and_not_on_the_order_of_the_pictures(
    given_offers: list[Offer], preset: str, n: int, seed: int, luck: Any
) -> None:
    rules = load_rules(preset)
    first = plan(given_offers, rules, n=n, seed=seed)
    luck.shuffle(given_offers)
    second = plan(iter(given_offers), rules, n=n, seed=seed)
    assert samples(first) == samples(second) and first.quotas == second.quotas
    assert samples(first) == samples(first), "it may be read more than once"


@searched(12, 60, offers, preset_names, st.integers(0, 200))
def test_proportions_are_kept_or_the_shortfall_is_what_the_pictures_lack(
    given_offers: list[Offer], preset: str, n: int
) -> None:
    rules = load_rules(preset)
    made = plan(given_offers, rules, n=n)
    wanted = rules.proportions or dict.fromkeys(allowed_sets(rules), 1.0)
    counted = Counter(sample.types for sample in made)
    assert sum(quota.asked for quota in made.quotas) == n
    for quota in made.quotas:
        assert abs(quota.asked - n * wanted[quota.types] / sum(wanted.values())) < 1
        possible = 0
        for offer in given_offers:
            ways = 1
            for kind in quota.types:
                ways *= offer.counts.get(kind, 0)
            possible += ways
        assert counted[quota.types] == quota.planned == min(quota.asked, possible)
        assert quota.possible == possible and quota.shortfall == max(0, quota.asked - possible)
    assert {quota.types for quota in made.shortfalls} == {q.types for q in made.quotas if q.planned < q.asked}


def test_the_whole_of_table_7_is_planned_to_the_last_sample() -> None:
    rules = load_rules("table7")
    rich: list[Offer] = [Offer(f"{number}.png", {**ALL, "subject": 10, "style": 10}) for number in range(9000)]
    made = plan(rich, rules, n=100_728, seed=3)
    assert {quota.types: quota.planned for quota in made.quotas} == rules.proportions
    loads = Counter(sample.picture for sample in made)
    assert (min(loads.values()), max(loads.values())) == (11, 12), "100,728 / 9,000 = 11.19"


def test_another_seed_is_another_plan() -> None:
    rules = load_rules("table7")
    many = [Offer(f"{number}.png", {**ALL, "subject": 4}) for number in range(50)]
    first, second = (set(samples(plan(many, rules, n=200, seed=seed))) for seed in (0, 1))
    assert len(first - second) > 50


def test_what_no_picture_offers_falls_short_and_nothing_takes_its_place() -> None:
    made = plan([Offer("a.png", {"canny": 1, "caption": 1})], load_rules("table7"), n=1000)
    assert samples(made) and {sample.types for sample in made} == {("canny", "caption")}
    assert len(made) == 1 and sum(quota.shortfall for quota in made.quotas) == 999
    sentences = [str(quota) for quota in made.shortfalls]
    assert "canny+caption: 1 of 34 planned, 1 pictures offer 1 of it." in sentences
    assert "caption+pose: 0 of 21 planned, no picture offers it." in sentences


def test_without_a_number_the_plan_is_exhaustive() -> None:
    rules = load_rules("matrix")
    everything = [Offer("a.png", ALL), Offer("b.png", {**ALL, "style": 0, "subject": 3})]
    made = plan(everything, rules)
    by_picture = {name: [sample.types for sample in made if sample.picture == name] for name in ("a.png", "b.png")}
    assert sorted(by_picture["a.png"]) == sorted(allowed_sets(rules))
    assert sorted(by_picture["b.png"]) == sorted(types for types in allowed_sets(rules) if "style" not in types)
    assert not made.shortfalls
    twice = plan(everything, rules, repeats=2)
    extra = Counter(sample.types for sample in twice if sample.picture == "b.png")
    assert extra["canny", "subject"] == 2 and extra["canny", "caption"] == 1


def test_several_poses_and_subjects_are_given_where_asked_for() -> None:
    rules = load_rules("table7")
    people = [Offer(f"{number}.png", {"pose": 4, "caption": 1, "style": 2}) for number in range(40)]
    made = plan(people, rules, n=2000, several={"pose": 3})
    counted = Counter(len(s.instances[s.types.index("pose")]) for s in made)
    assert set(counted) == {1, 2, 3}, counted
    with pytest.raises(RefBenchError, match="allows several of pose, subject"):
        plan(people, rules, n=1, several={"canny": 2})


def test_own_proportions_are_kept_and_forbidden_ones_refused() -> None:
    rules = load_rules("matrix")
    many = [Offer(f"{number}.png", ALL) for number in range(30)]
    made = plan(many, rules, n=10, proportions={("canny", "style"): 3, ("caption", "depth"): 1})
    assert {q.types: q.planned for q in made.quotas if q.asked} == {("canny", "style"): 8, ("caption", "depth"): 2}
    with pytest.raises(RefBenchError, match=r"canny\+sketch is wanted, but matrix forbids it"):
        plan(many, rules, n=10, proportions={("canny", "sketch"): 1})
    with pytest.raises(RefBenchError, match="has a proportion"):
        plan(many, rules, n=10, proportions={})


@pytest.mark.parametrize(
    "rows, options, told",
    [
        ([Offer("a", ALL), Offer("a", ALL)], {"n": 1}, "a is offered twice"),
        ([Offer("a", {"canny": -1})], {"n": 1}, "a: -1 references"),
        ([Offer("a", ALL)], {"n": -1}, "-1 samples"),
        ([Offer("a", ALL)], {"n": 1, "repeats": 0}, "repeats 0"),
    ],
)
def test_what_cannot_be_planned_is_told(rows: list[Offer], options: dict[str, Any], told: str) -> None:
    with pytest.raises(RefBenchError, match=told):
        plan(rows, load_rules("table7"), **options)


def test_rules_without_any_set_and_no_pictures_at_all() -> None:
    with pytest.raises(RefBenchError, match=r"allows no set of the types in use \(canny\)"):
        plan([], load_rules("table7").restricted(types=("canny",)), n=1)
    empty = plan([], load_rules("table7"), n=50)
    assert len(empty) == 0 and list(empty) == [] and sum(quota.shortfall for quota in empty.quotas) == 50


def test_ids_are_of_the_sample_alone() -> None:
    rules = load_rules("table7")
    pair = [Offer("a.png", ALL), Offer("b.png", ALL)]
    whole = {(sample.picture, sample.types): sample.id for sample in plan(pair, rules)}
    alone = {(sample.picture, sample.types): sample.id for sample in plan(pair[:1], rules, seed=9)}
    assert alone.items() <= whole.items()
    assert whole["a.png", ("canny", "caption")].startswith("canny+caption-")


@pytest.mark.parametrize("shares, total, found", [([1, 1, 1], 10, [4, 3, 3]), ([3, 0, 1], 2, [2, 0, 0]), ([1], 0, [0]), ([], 0, [])])  # fmt: skip
def test_rounding_gives_the_largest_remainders_one_more(shares: list[float], total: int, found: list[int]) -> None:
    assert largest_remainders(shares, total) == found


@searched(25, 100, st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.integers(0, 10**6))
def test_rounded_shares_sum_up_and_are_within_one(shares: list[float], total: int) -> None:
    found = largest_remainders(shares, total)
    if sum(shares) > 0:
        assert sum(found) == total
        assert all(abs(n - share * total / sum(shares)) < 1 + 1e-6 for n, share in zip(found, shares, strict=True))


small = st.integers(1, 5).flatmap(
    lambda pictures: st.lists(st.lists(st.integers(0, 3), min_size=pictures, max_size=pictures), min_size=1, max_size=4)
)


@searched(20, 80, small, st.integers(0, 10), st.integers(0, 5))
def test_pictures_are_used_as_evenly_as_a_maximal_flow_can(rooms: list[list[int]], amount: int, seed: int) -> None:
    """The oracle: the smallest load under which SciPy's maximal flow still places every sample."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    room = np.array(rooms, np.int64)
    sets, pictures = room.shape
    amounts = [min(amount + place, int(row.sum())) for place, row in enumerate(room)]
    words = np.array([draw(seed, number) for number in range(pictures)], np.uint64)
    made = np.array(
        spread_evenly(amounts, lambda s: room[s], lambda s, sweep: mixed(words, draw(seed, s, sweep)), pictures)
    )
    assert (made <= room).all() and made.sum(axis=1).tolist() == amounts

    def fits(load: int) -> bool:
        graph = np.zeros((sets + pictures + 2,) * 2, np.int32)
        graph[0, 1 : 1 + sets] = amounts
        graph[1 : 1 + sets, 1 + sets : -1] = room
        graph[1 + sets : -1, -1] = load
        return bool(maximum_flow(csr_matrix(graph), 0, sets + pictures + 1).flow_value == sum(amounts))

    best = next(load for load in range(sum(amounts) + 1) if fits(load))
    assert made.sum(axis=0).max() == best


def test_water_finds_its_level() -> None:
    load, room = np.array([0, 5, 2, 9]), np.array([3, 9, 9, 0])
    luck = np.array([0, 1, 2, 3], np.uint64)
    assert fill_evenly(load, room, 6, luck).tolist() == [3, 0, 3, 0]
    assert fill_evenly(load, room, 7, luck).tolist() == [3, 1, 3, 0]
    assert fill_evenly(load, room, 99, luck).tolist() == [3, 9, 9, 0], "no more than there is room for"


@pytest.mark.parametrize("candidates, most", [(0, 2), (1, 1), (5, 1), (5, 2), (4, 9)])
def test_choices_are_counted_and_all_of_them_can_be_drawn(candidates: int, most: int) -> None:
    ways = [taken for size in range(1, most + 1) for taken in combinations(range(candidates), size)]
    assert count_choices(candidates, most) == len(ways)
    drawn = draw_choices([(candidates, most), (2, 1)], 2 * len(ways), 7, "a.png")
    assert sorted(drawn) == sorted((taken, (other,)) for taken in ways for other in (0, 1))


def test_more_choices_than_anyone_needs_are_not_counted() -> None:
    assert comb(2000, 3) > MANY == count_choices(2000, 3)


def test_a_draw_belongs_to_its_names_for_ever() -> None:
    """Fixed values: other draws would make other datasets from the same seed."""
    assert (draw(0, "a", 1), draw(5, "ü", ("a",))) == (13675636746056083729, 12280075646687007224)
    assert [hex(int(x)) for x in mixed(np.array([0, 1], np.uint64), 1)] == ["0x5692161d100b05e5", "0x0"]
    orders = Counter(tuple(shuffled("abc", seed)) for seed in range(6000))
    assert set(orders) == set(permutations("abc")) and min(orders.values()) > 850, orders


def test_a_pool_has_the_other_pictures_of_the_group() -> None:
    pools = Pools({"c": "cats", "a": "cats", "x": "dogs", "b": "cats"})
    assert [pools.count(picture) for picture in ("a", "b", "c", "x", "unknown")] == [2, 2, 2, 0, 0]
    assert [[pools.candidate(picture, n) for n in (0, 1)] for picture in "abc"] == [["b", "c"], ["a", "c"], ["a", "b"]]
    with pytest.raises(IndexError):
        pools.candidate("x", 0)
