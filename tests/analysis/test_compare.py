"""Comparisons: gaps, tests and contributions repeat the benchmark's own aggregate exactly, and say what they are of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from refbench import Failure, Score
from refbench.analysis.compare import Comparison, Pair, Systems, compare_columns, paired_gap
from refbench.analysis.compare.draws import Resampling, draw_pairs
from refbench.analysis.compare.pairing import Pairings, who_meets
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import CORRECTED, PAPER, released_scores
from refbench.benchmarks.kit import Call
from refbench.benchmarks.kit import benchmark as declared
from refbench.benchmarks.multibanana.cases import CRITERIA, TASKS, MultiBananaDetails
from refbench.case import AnyCase, Request
from refbench.runs.run import fair_order
from refbench.stats import holm
from refbench.tables.table import Aggregate, Measure, Slice, columns_of, slice_mean, tabulate
from support.campaigns import slow
from support.sentences import contradictions, parse

Data = tuple[Sequence[AnyCase], Sequence[Score]]


def compared(aggregate: Aggregate, cases: Sequence[AnyCase], scores: Sequence[Score], **options: object) -> Comparison:
    known = {field.name for field in fields(Systems)}
    facts = {"benchmark": "b", "title": "B", "protocol": "p", **{k: v for k, v in options.items() if k in known}}
    asked = {"draws": 200, **{k: v for k, v in options.items() if k not in known}}
    systems = Systems(aggregate, columns_of(scores, cases), cases, **facts)  # type: ignore[arg-type]
    return compare_columns(systems, **asked)  # type: ignore[arg-type]


def overall(aggregate: Aggregate, cases: Sequence[AnyCase], scores: Sequence[Score], metric: str) -> dict[str, float]:
    rows = tabulate("p", aggregate, scores, cases, draws=0)
    return {
        r.model: r.value for r in rows if r.slice["level"] == "overall" and r.metric == metric and r.value is not None
    }


@pytest.fixture(scope="module")
def released() -> Data:
    cases, scores = released_scores()
    return cases, scores


def of(scores: Sequence[Score], *models: str) -> list[Score]:
    return [score for score in scores if score.model in models]


def banana() -> tuple[Aggregate, Data]:
    """Ten sets of three tasks in seven clusters: the overall number is a macro average, the total weighted."""
    tasks = list(TASKS)[:3]
    rng = np.random.default_rng(4)
    details = MultiBananaDetails.model_construct(tags_known=True)
    cases = [
        AnyCase(
            id=str(i),
            request=Request(instruction=""),
            groups={"task": tasks[min(i // 3, 2)], "n_refs": "2", "source": "unknown"},
            cluster=str(i % 7),
            stratum="",
            details=details,
        )
        for i in range(10)
    ]
    return benchmark("multibanana").scoring.protocols["corrected"].aggregate, (cases, _drawn(rng, cases, CRITERIA))


def geometric() -> tuple[Aggregate, Data]:
    """A total that is a geometric mean, taken case by case."""
    made = declared(
        name="tiny",
        load=lambda root: [],
        judge=[Call("j", {"x": (1, 10), "y": (1, 10)}, lambda case, material: [], lambda case, reply: {})],
        total="geometric_mean",
    )
    rng = np.random.default_rng(5)
    cases = [
        AnyCase(id=str(i), request=Request(instruction=""), groups={"g": str(i % 2)}, cluster=str(i // 2), details=None)
        for i in range(12)
    ]
    return next(iter(made.scoring.protocols.values())).aggregate, (cases, _drawn(rng, cases, ("x", "y")))


def _drawn(rng: np.random.Generator, cases: Sequence[AnyCase], metrics: Sequence[str]) -> list[Score]:
    return [
        Score(case=c.id, model=m, judge="j", metric=q, protocol="p", value=float(rng.integers(1 + (m == "a"), 10)))
        for c in cases
        for m in ("a", "b")
        for q in metrics
    ]


SWAP = {"a": "b", "b": "a"}


@pytest.mark.parametrize("make", [banana, geometric])
@pytest.mark.slow
def test_p_is_that_of_really_swapping_the_scores_of_whole_clusters(make: Callable[[], tuple[Aggregate, Data]]) -> None:
    """Every swap written out as scores and tabled: macro averages and case-wise totals included."""
    aggregate, (cases, scores) = make()
    metric = aggregate.measures[-1].name
    cluster = {case.id: case.cluster for case in cases}
    names = sorted(set(cluster.values()))
    gaps = []
    for swapped in product([False, True], repeat=len(names)):
        flipped = {name for name, swap in zip(names, swapped, strict=True) if swap}
        there = [s.model_copy(update={"model": SWAP[s.model]}) if cluster[s.case] in flipped else s for s in scores]
        value = overall(aggregate, cases, there, metric)
        gaps.append(value["a"] - value["b"])
    exact = np.mean(np.abs(gaps) >= abs(gaps[0]) - 1e-9)
    (pair,) = compared(aggregate, cases, scores).pairs
    assert pair.gap == pytest.approx(gaps[0])
    assert pair.p_flips == pytest.approx(exact)
    assert 0 < exact < 0.9
    assert pair.n_clusters == len(names)


@pytest.mark.parametrize("make", [banana, geometric])
def test_a_slice_contributes_what_the_second_gains_by_the_firsts_scores_there(
    make: Callable[[], tuple[Aggregate, Data]],
) -> None:
    aggregate, (cases, scores) = make()
    metric = aggregate.measures[-1].name
    (pair,) = compared(aggregate, cases, scores).pairs
    lent = {(s.case, s.metric): s.value for s in of(scores, "a")}
    before = overall(aggregate, cases, scores, metric)["b"]
    assert pair.drivers
    for driver in pair.drivers:
        names = {key: value for key, value in driver.slice.items() if key not in ("level", "group")}
        inside = {c.id for c in cases if all(c.groups.get(key) == value for key, value in names.items())}
        if driver.slice["level"] == "group":
            inside = {c.id for c in cases if TASKS[c.groups["task"]].group == driver.slice["group"]}
        raised = [
            s.model_copy(update={"value": lent[s.case, s.metric]}) if s.model == "b" and s.case in inside else s
            for s in scores
        ]
        assert driver.n_cases == len(inside)
        assert driver.contribution == pytest.approx(overall(aggregate, cases, raised, metric)["b"] - before)


def test_contributions_add_up_and_the_gap_is_the_difference_of_the_table(released: Data) -> None:
    cases, scores = released
    mine = of(scores, "seedream4-0", "Bagel")
    table = overall(PAPER, cases, mine, "avg")
    (pair,) = compared(PAPER, cases, mine).pairs
    assert pair.gap == pytest.approx(table["Bagel"] - table["seedream4-0"])
    assert pair.values == pytest.approx((table["Bagel"], table["seedream4-0"]))
    sums: dict[str, float] = defaultdict(float)
    for driver in pair.drivers:
        sums[driver.slice["level"]] += driver.contribution
        assert driver.ci95 is not None
        assert driver.ci95[0] < driver.contribution < driver.ci95[1]
        assert driver.share == pytest.approx(driver.contribution / pair.gap, abs=1e-5)
    assert dict(sums) == pytest.approx({"category": pair.gap, "dimension": pair.gap})
    sizes = [abs(driver.contribution) for driver in pair.drivers]
    assert sizes == sorted(sizes, reverse=True)


def test_a_plain_mean_has_the_interval_and_effect_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(8)
    cases = [
        AnyCase(id=str(i), request=Request(instruction=""), groups={"category": "c", "dimension": "Surreal Fantasy"}, cluster=str(i), details=None)
        for i in range(300)
    ]  # fmt: skip
    a, b = np.clip(rng.normal([[0.6], [0.5]], 0.15, (2, 300)), 0, 1)
    scores = [
        Score(case=str(i), model=m, metric=q, protocol="p", value=float(v[i]))
        for m, v in (("a", a), ("b", b))
        for q in ("IF", "VC", "VQ")
        for i in range(300)
    ]
    (pair,) = compared(CORRECTED, cases, scores, metric="IF", draws=2000).pairs
    test = stats.ttest_rel(100 * a, 100 * b)
    low, high = test.confidence_interval()
    assert pair.ci95 == pytest.approx((low, high), abs=0.08 * (high - low))
    assert pair.effect == pytest.approx(test.statistic / np.sqrt(300), abs=1e-5)
    assert (pair.wins, pair.ties, pair.losses) == (int((a > b).sum()), 0, int((a < b).sum()))


def test_a_pair_is_of_cases_that_both_have_and_every_other_is_accounted_for(released: Data) -> None:
    cases, scores = released
    mine = of(scores, "Bagel", "OmniGen2")
    fail = {
        ("Bagel", cases[0].id): "refused",
        ("OmniGen2", cases[1].id): "unparsable",
        ("OmniGen2", cases[0].id): "timeout",
    }
    broken = [
        s.model_copy(update={"value": None, "failure": Failure(kind=fail[s.model, s.case])})  # type: ignore[arg-type]
        if (s.model, s.case) in fail and s.metric == "VC"
        else s
        for s in mine
    ]
    (pair,) = compared(CORRECTED, cases, broken).pairs
    assert pair.left_out == {"Bagel: refused by the judge": 1, "OmniGen2: unparsable": 1}
    assert pair.n_cases == len(cases) - 2
    kept = [case for case in cases if case.id not in (cases[0].id, cases[1].id)]
    table = overall(CORRECTED, kept, [s for s in mine if s.case not in (cases[0].id, cases[1].id)], "avg")
    assert pair.gap == pytest.approx(table["Bagel"] - table["OmniGen2"])


def test_too_few_shared_cases_are_a_state_and_no_part_of_the_family(released: Data) -> None:
    cases, scores = released
    gone = Failure(kind="missing_output")
    third = [s.model_copy(update={"model": "none", "value": None, "failure": gone}) for s in of(scores, "Bagel")]
    found = compared(PAPER, cases, [*of(scores, "Bagel", "OmniGen2"), *third])
    assert found.family == 1
    states = {(pair.first, pair.second): pair for pair in found.pairs}
    empty = states["Bagel", "none"]
    assert (empty.gap, empty.p, empty.p_adjusted, empty.resolved) == (None, None, None, False)
    assert empty.failure is not None
    assert empty.sentence == "Bagel and none cannot be compared on B avg (p): they share 0 scored cases."
    assert empty.left_out == {"none: missing_output": len(cases)}


def test_a_model_and_itself_are_not_resolved_and_not_called_equal(released: Data) -> None:
    cases, scores = released
    twin = [s.model_copy(update={"model": "twin"}) for s in of(scores, "Bagel")]
    (pair,) = compared(PAPER, cases, [*of(scores, "Bagel"), *twin]).pairs
    assert (pair.gap, pair.p, pair.ties, pair.effect, pair.resolved) == (0, 1, len(cases), None, False)
    assert "equal" not in pair.sentence
    assert pair.sentence.startswith("Cannot resolve Bagel and twin")


def test_pairs_turned_round_have_the_opposite_gap_and_the_same_p(released: Data) -> None:
    cases, scores = released
    mine = of(scores, "gpt-image-1", "OmniGen2")
    (one,) = compared(PAPER, cases, mine, models=["gpt-image-1", "OmniGen2"]).pairs
    (other,) = compared(PAPER, cases, mine, models=["OmniGen2", "gpt-image-1"]).pairs
    assert one.gap == pytest.approx(-(other.gap or 0))
    assert one.p == other.p
    assert (one.wins, one.losses) == (other.losses, other.wins)


def test_the_sentence_has_all_that_belongs_to_the_claim(released: Data) -> None:
    cases, scores = released
    names = ("seedream4-0", "gpt-image-1", "qwen-image-edit_output_edit-2509")
    found = compared(PAPER, cases, of(scores, *names), seeds=dict.fromkeys(names, 1), models=names)
    first, _, last = found.pairs
    assert first.resolved
    assert first.ci95 is not None
    low, high = first.ci95
    assert first.sentence == (
        f"seedream4-0 scores {first.gap:.2f} points above gpt-image-1 on B avg (p; 95 % CI {low:.2f} to {high:.2f}; "
        f"p < 0.0001, Holm over 3 pairs; n = 904 cases, 1 seed, judge gpt-4o)."
    )
    assert not last.resolved
    assert last.sentence.startswith(
        "Cannot resolve gpt-image-1 and qwen-image-edit_output_edit-2509 on B avg: the gap is -0.73"
    )
    assert "would be found at least 4 times in 5 with this n" in last.sentence


def test_the_family_is_corrected_by_holm(released: Data) -> None:
    cases, scores = released
    found = compared(PAPER, cases, scores)
    assert found.family == len(found.pairs) == 28
    assert [pair.p_adjusted for pair in found.pairs] == pytest.approx(holm([pair.p or 0 for pair in found.pairs]))
    assert len(compared(PAPER, cases, scores, against="Bagel").pairs) == 7


def test_the_same_seed_gives_the_same_comparison(released: Data) -> None:
    cases, scores = released
    mine = of(scores, "gpt-image-1", "qwen-image-edit_output_edit-2509")
    once = compared(PAPER, cases, mine)
    assert compared(PAPER, cases, mine) == once
    assert compared(PAPER, cases, mine, seed=1).pairs[0].p != once.pairs[0].p


def test_the_interval_is_that_of_the_paired_gap(released: Data) -> None:
    cases, scores = released
    mine = of(scores, "gpt-image-1", "Bagel")
    (pair,) = compared(PAPER, cases, mine, metric="VC").pairs
    gap = paired_gap(PAPER, mine, cases, (("Bagel", "gpt-4o"), ("gpt-image-1", "gpt-4o")), "VC", draws=200)
    assert gap.ci95 == pytest.approx(pair.ci95)


def pair_of(first: np.ndarray, second: np.ndarray) -> Pair:
    """Two models with these marks from 0 to 1, NaN where the model refused, each case a cluster of its own."""
    cases = [
        AnyCase(id=str(i), request=Request(instruction=""), cluster=str(i), stratum="", details=None)
        for i in range(len(first))
    ]
    refused = {"failure": Failure(kind="refused", by_model=True)}
    scores = [
        Score(case=str(i), model=m, metric="m", protocol="p", **(refused if np.isnan(x) else {"value": float(x)}))  # type: ignore[arg-type]
        for m, marks in (("a", first), ("b", second))
        for i, x in enumerate(marks)
    ]
    aggregate = Aggregate(
        (Measure("m", ("m",)),),
        lambda some: [Slice("overall", {}, np.ones(len(some), dtype=np.bool_))],
        lambda mean, where: {"m": slice_mean(mean, "m", where)},
        imputed={},
    )
    columns = columns_of(scores, cases)
    (pair,) = compare_columns(Systems(aggregate, columns, cases, "b", "B", "p"), draws=200).pairs
    return pair


def test_what_would_be_found_is_said_only_where_it_is_known_and_possible() -> None:
    rng = np.random.default_rng(4)
    known = pair_of(*rng.beta(2, 2, (2, 60)))
    assert known.detectable is not None
    one_apart = pair_of(np.ones(50), np.r_[0.0, np.ones(49)])
    assert one_apart.detectable is None, "a single cluster that differs tells nothing about the spread"
    beyond = pair_of(*(np.arange(16).reshape(2, 8) % 3 % 2 * 1.0))
    assert beyond.detectable is None, "no difference on the scale would be large enough"
    marks = rng.beta(2, 2, (2, 60))
    whole = pair_of(*marks)
    marks[0, :6] = np.nan
    broken = pair_of(*marks)
    assert whole.detectable is not None
    assert broken.detectable is not None
    assert broken.detectable > whole.detectable + 0.05, "whatever the failed cases had scored"


def test_intervals_of_gaps_agree_with_the_test_and_stay_on_the_scale() -> None:
    few = pair_of(np.linspace(0.7, 0.71, 4), np.full(4, 0.5))
    assert few.p is not None
    assert few.p > 0.05
    assert few.ci95 is not None
    assert few.ci95[0] == 0
    wild = pair_of(np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]))
    assert wild.ci95 == (-1, 1)
    full = pair_of(np.ones(6), np.zeros(6))
    assert full.resolved
    assert full.ci95 == pytest.approx((2 * 0.025 ** (1 / 6) - 1, 1))
    equal = pair_of(np.full(8, 0.75), np.full(8, 0.5))
    assert "no interval, as the differences do not vary" in equal.sentence


def test_judges_meet_themselves_and_others_only_without_a_common_one() -> None:
    systems = [("A", "x"), ("A", "y"), ("B", "Y"), ("B", "x"), ("C", "z")]
    assert who_meets(systems, ["A", "B"]) == [(0, 3), (1, 2)]
    assert who_meets(systems, ["A", "C"]) == [(0, 4), (1, 4)]


def null_errors(
    cases: Sequence[AnyCase], scores: Sequence[Score], models: Sequence[str], trials: int, flips: int
) -> tuple[float, float]:
    """How often any of all pairs is claimed where nothing differs: each case's scores are dealt to the models at
    random. With Holm, and without."""
    columns = columns_of(of(scores, *models), cases)
    (measure,) = [m for m in PAPER.measures if m.name == "avg"]
    pairs = Pairings(PAPER, columns, PAPER.filled(columns), measure, cases)
    pairings = [pairs.of(a, b) for a, b in who_meets(columns.systems, sorted(models))]
    rng = np.random.default_rng(20251115)
    rows = np.arange(len(models))[:, None]
    corrected = plain = 0
    for trial in range(trials):
        dealt = rng.permuted(np.broadcast_to(rows, (len(models), len(cases))), axis=0)
        values = {m: v[dealt, np.arange(len(cases))] for m, v in columns.values.items()}
        drawn = draw_pairs(PAPER, values, cases, pairings, "avg", Resampling(2, flips, trial), by_slice=False)
        found = [pair.p or 0.0 for pair in drawn]
        corrected += min(holm(found)) <= 0.05
        plain += min(found) <= 0.05
    return corrected / trials, plain / trials


@pytest.mark.slow
def test_family_wise_error_is_kept_on_released_scores_without_any_difference(released: Data) -> None:
    cases, scores = released
    sample = fair_order(cases)[:200]
    ids = {case.id for case in sample}
    models = ["Bagel", "OmniGen2", "gpt-image-1", "seedream4-0"]
    trials = 300
    corrected, plain = null_errors(sample, [s for s in scores if s.case in ids], models, trials, 399)
    noise = 2.6 * np.sqrt(0.05 * 0.95 / trials)
    assert corrected <= 0.05 + noise
    assert plain > 0.05 + noise  # without the correction the same simulation does show an error
    assert corrected >= 0.005  # and with it the test still claims something


def test_pairs_are_records(released: Data) -> None:
    cases, scores = released
    found = compared(PAPER, cases, of(scores, "Bagel", "OmniGen2"))
    assert Comparison.model_validate_json(found.model_dump_json()) == found
    assert isinstance(found.pairs[0], Pair)


def test_the_leading_slices_are_one_a_level_and_none_of_more_than_half_the_cases(released: Data) -> None:
    cases, scores = released
    (pair,) = compared(PAPER, cases, of(scores, "Bagel", "seedream4-0")).pairs
    assert [driver.slice["level"] for driver in pair.leading] == ["category", "dimension"]
    for driver in pair.leading:
        rivals = [d for d in pair.drivers if d.slice["level"] == driver.slice["level"]]
        assert abs(driver.contribution) == max(abs(d.contribution) for d in rivals)
    aggregate, (sets, marks) = geometric()
    lopsided = [c.model_copy(update={"groups": {"g": "most" if i else "few"}}) for i, c in enumerate(sets)]
    (pair,) = compared(aggregate, lopsided, marks).pairs
    assert max(pair.drivers, key=lambda one: abs(one.contribution or 0)).slice["g"] == "most"
    assert pair.leading == (), "the second largest is not named as the largest"


def test_a_claimed_gap_is_never_printed_as_zero(released: Data) -> None:
    cases, scores = released
    mine = of(scores, "Bagel")
    shifted = [s.model_copy(update={"model": "better", "value": (s.value or 0) + 1e-5}) for s in mine]
    (pair,) = compared(PAPER, cases, [*mine, *shifted]).pairs
    assert pair.resolved
    assert "Bagel scores 0.001 below better" in pair.sentence


def test_slices_without_a_part_in_the_gap_do_not_lead(released: Data) -> None:
    cases, scores = released
    mine = of(scores, "Bagel")
    (pair,) = compared(PAPER, cases, [*mine, *(s.model_copy(update={"model": "twin"}) for s in mine)]).pairs
    assert pair.drivers
    assert pair.leading == ()


def shifted(scores: Sequence[Score], model: str, name: str, by: float) -> list[Score]:
    return [
        s.model_copy(update={"model": name, "value": min(1.0, max(0.0, (s.value or 0) + by))})
        for s in of(scores, model)
    ]


@pytest.mark.parametrize("count", [33, slow(40)])
def test_a_large_family_is_resolved_where_its_gaps_are_clear(released: Data, count: int) -> None:
    """Of 33 models the correction is over 528 pairs: a p with a floor of one in ten thousand flips resolved none."""
    cases, scores = released
    kept = fair_order(cases)[:200]
    ids = {case.id for case in kept}
    rng = np.random.default_rng(1)
    columns = columns_of([s for s in of(scores, "Bagel") if s.case in ids], kept)
    values = {
        m: np.clip(v / count * np.arange(1, count + 1)[:, None] + rng.normal(0, 0.002, (count, len(kept))), 0, 1)
        for m, v in columns.values.items()
    }
    many = type(columns).of_values([(f"m{i}", "j") for i in range(count)], values)
    systems = Systems(PAPER, many, kept, "b", "B", "p")
    found = compare_columns(systems, models=[f"m{i}" for i in range(count)], draws=200)
    assert found.family == count * (count - 1) // 2
    assert all(pair.resolved for pair in found.pairs)
    assert all(contradictions(parse(pair.sentence)) == [] for pair in found.pairs)
    assert {driver.ci95 for pair in found.pairs for driver in pair.drivers} == {None}


def test_a_p_that_no_flip_reaches_is_said_to_be_below_its_bound() -> None:
    cases = [AnyCase(id=str(i), request=Request(instruction=""), cluster=str(i), details=None) for i in range(15)]
    scores = [
        Score(case=str(i), model=m, judge="j", metric=q, protocol="p", value=5.0 + (m == "a") + 0.01 * (i + (m == "a") * (i % 3)))
        for i in range(15)
        for m in ("a", "b")
        for q in ("x", "y")
    ]  # fmt: skip
    (pair,) = compared(geometric()[0], cases, scores, draws=100).pairs
    assert pair.p_is_bound
    assert pair.p is not None
    assert 2**-14 <= pair.p <= 1 / 500, "between the exact p and one in all flips drawn"
    assert "; p < 0.00" in pair.sentence


@pytest.mark.parametrize(("n", "models"), [(5, 2), (8, 8), (10, 8)])
def test_clusters_too_few_for_any_claim_are_said_before_anything_else(n: int, models: int) -> None:
    cases = [AnyCase(id=str(i), request=Request(instruction=""), cluster=str(i), details=None) for i in range(n)]
    rng = np.random.default_rng(2)
    scores = [
        Score(case=str(i), model=f"m{m}", judge="j", metric=q, protocol="p", value=float(1 + m + 0.1 * rng.random()))
        for i in range(n)
        for m in range(models)
        for q in ("x", "y")
    ]
    found = compared(geometric()[0], cases, scores)
    assert found.family == models * (models - 1) // 2
    for pair in found.pairs:
        assert not pair.resolved
        assert pair.hopeless is not None
        assert pair.hopeless.startswith(f"{n} clusters cannot show a difference whatever the data")
        assert pair.sentence.endswith(f"{pair.hopeless}.")


def refusing(scores: Sequence[Score], model: str, share: float, *, by_model: bool) -> list[Score]:
    """The scores with the model's worst cases gone."""
    total: dict[str, float] = defaultdict(float)
    for s in of(scores, model):
        total[s.case] += s.value or 0
    gone = set(sorted(total, key=lambda case: total[case])[: round(share * len(total))])
    failure = Failure(kind="refused", by_model=by_model)
    return [
        s.model_copy(update={"value": None, "failure": failure}) if s.model == model and s.case in gone else s
        for s in scores
    ]


def test_a_model_gains_nothing_by_refusing_its_worst_cases(released: Data) -> None:
    """Its gap on the cases both have goes up by more than a point, and was called resolved."""
    cases, scores = released
    names = "Flux1-Kontext-Pro", "Flux1-Kontext-dev"
    (honest,) = compared(CORRECTED, cases, of(scores, *names), models=names).pairs
    sly = refusing(of(scores, *names), "Flux1-Kontext-Pro", 0.1, by_model=True)
    (pair,) = compared(CORRECTED, cases, sly, models=names).pairs
    assert honest.gap is not None
    assert pair.gap is not None
    assert pair.gap > honest.gap + 1
    assert pair.p_adjusted is not None
    assert pair.p_adjusted < 0.05
    assert not pair.resolved
    assert pair.undone
    assert pair.bounds is not None
    assert pair.bounds[0] < honest.gap < pair.bounds[1]
    assert "90 cases left out (Flux1-Kontext-Pro: refused (its own) 90)" in pair.sentence
    assert pair.sentence.endswith("but what failed could undo it.")
    strict = CORRECTED.counting_refusals(())
    (worst,) = compared(strict, cases, sly, models=names, refusals="worst").pairs
    assert worst.gap is not None
    assert worst.gap < honest.gap
    assert (worst.n_cases, worst.imputed, worst.bounds) == (904, (90, 0), None)
    assert worst.resolved
    assert "a model's own failures as the worst" in worst.sentence
    assert "90 failed pictures counted as the worst value (Flux1-Kontext-Pro 90)" in worst.sentence


@pytest.mark.slow
def test_bounds_that_leave_out_zero_are_undone_by_failures_and_chance_together_only(released: Data) -> None:
    cases, scores = released
    names = "gpt-image-1", "Bagel"
    for share in np.arange(0.01, 0.3, 0.005):
        broken = refusing(of(scores, *names), "gpt-image-1", share, by_model=False)
        (pair,) = compared(CORRECTED, cases, broken, models=names).pairs
        if not pair.resolved:
            break
    assert pair.bounds is not None and pair.bounds_ci95 is not None
    assert pair.bounds_ci95[0] <= 0 < pair.bounds[0], "the first share at which it is undone"
    low, high = pair.bounds_ci95
    assert pair.sentence.endswith(
        f"; on the cases both have it is more than chance explains, but with those that failed and chance together the "
        f"gap could be {low:+.2f} to {high:+.2f}."
    )
    assert contradictions(parse(pair.sentence)) == []


def test_failures_of_a_judge_widen_the_bounds_whatever_refusals_count_as(released: Data) -> None:
    cases, scores = released
    names = "gpt-image-1", "Bagel"
    broken = refusing(of(scores, *names), "gpt-image-1", 0.02, by_model=False)
    found = [
        compared(aggregate, cases, broken, models=names, refusals=refusals).pairs[0]
        for aggregate, refusals in ((CORRECTED, "conditional"), (CORRECTED.counting_refusals(()), "worst"))
    ]
    assert found[0].bounds == found[1].bounds is not None
    assert found[0].resolved, "few failures cannot undo a gap of ten points"
    assert found[0].n_cases == found[1].n_cases == 904 - 18


def test_the_bounds_of_a_gap_are_those_of_the_two_tables(released: Data) -> None:
    cases, scores = released
    broken = refusing(refusing(of(scores, "Bagel", "OmniGen2"), "Bagel", 0.05, by_model=True), "OmniGen2", 0.03, by_model=False)  # fmt: skip
    rows = {
        row.model: row
        for row in tabulate("p", CORRECTED, broken, cases, draws=0)
        if row.metric == "avg" and row.slice["level"] == "overall"
    }
    a, b = rows["Bagel"].bounds, rows["OmniGen2"].bounds
    assert a is not None
    assert b is not None
    (pair,) = compared(CORRECTED, cases, broken).pairs
    assert pair.bounds == pytest.approx((a[0] - b[1], a[1] - b[0]))
    assert pair.bounds_ci95 is not None
    assert pair.bounds_ci95[0] < pair.bounds[0] < pair.bounds[1] < pair.bounds_ci95[1]


def test_a_comparison_under_the_papers_protocol_counts_failures_as_the_paper_does(released: Data) -> None:
    cases, scores = released
    names = "Bagel", "OmniGen2"
    kind = next(iter(PAPER.imputed))
    broken = [
        s.model_copy(update={"value": None, "failure": Failure(kind=kind)})  # type: ignore[arg-type]
        if (s.model, s.case) == ("Bagel", cases[0].id)
        else s
        for s in of(scores, *names)
    ]
    (pair,) = compared(PAPER, cases, broken, models=names).pairs
    table = overall(PAPER, cases, broken, "avg")
    assert pair.gap == pytest.approx(table["Bagel"] - table["OmniGen2"])
    assert (pair.n_cases, pair.imputed, pair.bounds) == (904, (1, 0), None)
    assert "1 failed picture counted as the protocol says (Bagel 1)" in pair.sentence


def test_an_unbounded_measure_is_not_resolved_beside_a_models_own_failures(released: Data) -> None:
    cases, scores = released
    open_ended = replace(CORRECTED, measures=tuple(replace(m, low=None, high=None) for m in CORRECTED.measures))
    names = "gpt-image-1", "Bagel"
    for by_model in (True, False):
        broken = refusing(of(scores, *names), "gpt-image-1", 0.02, by_model=by_model)
        (pair,) = compared(open_ended, cases, broken, models=names).pairs
        assert pair.resolved != by_model
        assert "is not known, as the measure has no finite range" in pair.sentence


def test_a_lost_seed_is_counted_and_bounds_the_gap() -> None:
    aggregate, (cases, scores) = geometric()
    second = [s.model_copy(update={"seed": 1}) for s in scores]
    gone = Failure(kind="refused", by_model=True)
    second = [
        s.model_copy(update={"value": None, "failure": gone}) if (s.model, s.case) == ("a", "3") else s for s in second
    ]
    (pair,) = compared(aggregate, cases, [*scores, *second], seeds={"a": 2, "b": 2}).pairs
    assert pair.n_cases == 12
    assert (pair.left_out, pair.lost) == ({}, (1, 0))
    assert pair.bounds is not None
    assert pair.bounds[0] < pair.bounds[1]
    assert "1 failed picture left out of the cases compared (a 1)" in pair.sentence


def test_a_case_whose_pictures_failed_in_different_ways_says_all_of_them() -> None:
    aggregate, (cases, scores) = geometric()
    ways = [Failure(kind="refused"), Failure(kind="out_of_range"), Failure(kind="refused", by_model=True)]
    drawn = [
        s.model_copy(update={"seed": seed, **({"value": None, "failure": way} if lost else {})})
        for seed, way in enumerate(ways)
        for s in scores
        for lost in [(s.model, s.case) == ("a", "3")]
    ]
    (pair,) = compared(aggregate, cases, drawn, seeds={"a": 3, "b": 3}).pairs
    assert pair.left_out == {"a: mixed (out_of_range, refused (its own), refused by the judge)": 1}


def test_where_less_is_better_the_winner_wins_and_no_judge_is_named_for_what_none_gave(released: Data) -> None:
    aggregate, (cases, scores) = geometric()
    smaller = [s.model_copy(update={"value": (s.value or 0) / 20}) if s.model == "a" else s for s in scores]
    two = [*smaller, *(s.model_copy(update={"judge": "k"}) for s in smaller)]
    (pair,) = (found := compared(aggregate, cases, two, metric="x", lower={"x"}, measured={"x"})).pairs
    assert (pair.wins, pair.ties, pair.losses) == (12, 0, 0)
    assert (pair.judge, pair.second_judge, found.family) == (None, None, 1)
    assert pair.gap is not None
    assert pair.gap < 0
    assert found.better(pair.gap)
    assert "points below (better than) b on B x (lower is better)" in pair.sentence or not pair.resolved
    assert "no judge" in pair.sentence
    assert "judge j" not in pair.sentence


def test_single_judges_beside_their_mean_are_a_family_of_their_own(released: Data) -> None:
    cases, scores = released
    mine = of(scores, "Bagel", "OmniGen2")
    everyone = [s.model_copy(update={"judge": judge}) for s in mine for judge in ("j", "k", "mean")]
    found = compared(PAPER, cases, everyone, mean_of_judges="mean")
    assert found.family == 1
    assert [(p.judge, p.supplementary, p.family) for p in found.pairs] == [
        ("mean", False, 1),
        ("j", True, 2),
        ("k", True, 2),
    ]
    assert found.pairs[0].p_adjusted == found.pairs[0].p
    assert "Holm over 2 pairs of single judges" in found.pairs[1].sentence
    assert compared(PAPER, cases, [s for s in everyone if s.judge != "mean"]).family == 2


def test_effect_and_gap_never_have_different_signs() -> None:
    """A macro average of a small and a large part, in which most cases go against the gap."""
    aggregate, (cases, scores) = banana()
    turned = [
        s.model_copy(update={"value": 10.0 if (s.model == "a") == (s.case in ("0", "1", "2")) else 9.0}) for s in scores
    ]
    turned = [s.model_copy(update={"value": 1.0}) if s.model == "b" and s.case == "0" else s for s in turned]
    (pair,) = compared(aggregate, cases, turned).pairs
    assert pair.gap is not None
    assert pair.effect is not None
    assert pair.gap * pair.effect > 0
