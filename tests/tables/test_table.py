"""Tables: coverage always adds up, bounds hold, intervals cover, and failures never become numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from refbench import Failure, Score
from refbench.analysis.compare import paired_gap
from refbench.benchmarks.creval.table import CORRECTED, PAPER, released_scores
from refbench.case import AnyCase, Request
from refbench.tables.table import Aggregate, Mean, Measure, Row, Slice, slice_mean, tabulate


@pytest.fixture(scope="module")
def released() -> tuple[list[AnyCase], list[Score]]:
    cases, scores = released_scores()
    return cases, [s for s in scores if s.model in ("Bagel", "seedream4-0")]


def pick(rows: Sequence[Row], **wanted: str) -> Row:
    (row,) = [
        r
        for r in rows
        if all(
            (r.slice.get(k) if k in ("level", "category", "dimension") else getattr(r, k)) == v
            for k, v in wanted.items()
        )
    ]
    return row


def fail(scores: Sequence[Score], kind: str, every: int, metric: str = "IF") -> list[Score]:
    changed = []
    for number, score in enumerate(scores):
        if score.metric == metric and number % every == 0:
            failure = Failure(kind=kind)  # type: ignore[arg-type]
            changed.append(score.model_copy(update={"value": None, "failure": failure}))
        else:
            changed.append(score)
    return changed


def test_expected_is_scored_plus_failed_in_every_row(released: tuple[list[AnyCase], list[Score]]) -> None:
    cases, scores = released
    for aggregate in (CORRECTED, PAPER):
        for row in tabulate("p", aggregate, fail(scores, "unparsable", 7), cases, draws=0):
            assert row.n_expected == row.n_scored + sum(row.failures.values())
            assert row.n_imputed == (sum(row.failures.values()) if aggregate is PAPER else 0)


def test_a_failure_lowers_coverage_and_not_the_score(released: tuple[list[AnyCase], list[Score]]) -> None:
    cases, scores = released
    whole = pick(tabulate("p", CORRECTED, scores, cases, draws=0), model="Bagel", metric="IF", level="overall")
    part = pick(
        tabulate("p", CORRECTED, fail(scores, "refused", 5), cases, draws=0),
        model="Bagel",
        metric="IF",
        level="overall",
    )
    zero = pick(
        tabulate("p", PAPER, fail(scores, "refused", 5), cases, draws=0), model="Bagel", metric="IF", level="overall"
    )
    assert part.value == pytest.approx(whole.value, abs=2)
    assert zero.value is not None
    assert whole.value is not None
    assert zero.value < whole.value - 10


def test_bounds_hold_whatever_the_failed_cases_would_have_scored(released: tuple[list[AnyCase], list[Score]]) -> None:
    cases, scores = released
    truth = tabulate("p", CORRECTED, scores, cases, draws=0)
    failed = tabulate("p", CORRECTED, fail(scores, "api_error", 6, "VQ"), cases, draws=0)
    for known, bounded in zip(truth, failed, strict=True):
        assert bounded.bounds is not None
        assert known.value is not None
        assert bounded.bounds[0] - 1e-9 <= known.value <= bounded.bounds[1] + 1e-9
        if not bounded.failures:
            assert bounded.bounds == (bounded.value, bounded.value)


def test_a_missing_reply_is_not_imputed_even_in_paper(released: tuple[list[AnyCase], list[Score]]) -> None:
    # The released aggregation does not count files that are not there.
    cases, scores = released
    row = pick(
        tabulate("p", PAPER, fail(scores, "missing_reply", 3), cases, draws=0),
        model="Bagel",
        metric="IF",
        level="overall",
    )
    assert row.n_imputed == 0
    assert row.failures["missing_reply"] > 0


def test_not_applicable_lowers_what_is_expected(released: tuple[list[AnyCase], list[Score]]) -> None:
    cases, scores = released
    changed = [
        s.model_copy(update={"value": None, "not_applicable": "no face"}) if s.case == cases[0].id else s
        for s in scores
    ]
    row = pick(tabulate("p", CORRECTED, changed, cases, draws=0), model="Bagel", metric="avg", level="overall")
    assert (row.n_expected, row.n_scored, row.failures) == (len(cases) - 1, len(cases) - 1, {})


def test_an_unscored_dimension_is_left_out_of_its_category_and_said(
    released: tuple[list[AnyCase], list[Score]],
) -> None:
    cases, scores = released
    lost = {case.id for case in cases if case.groups["dimension"] == "Surreal Fantasy"}
    absent = {"value": None, "failure": Failure(kind="missing_reply")}
    changed = [s.model_copy(update=absent) if s.case in lost else s for s in scores]
    rows = tabulate("p", CORRECTED, changed, cases, draws=0)
    row = pick(rows, model="Bagel", metric="IF", level="category", category="Customization")
    parts = [
        r.value
        for r in rows
        if (r.model, r.metric, r.slice.get("category")) == ("Bagel", "IF", "Customization")
        and r.slice["level"] == "dimension"
    ]
    assert row.value == pytest.approx(sum(v for v in parts if v is not None) / 2)
    assert row.remark == "nothing scored in Surreal Fantasy"
    assert row.failures == {"missing_reply": len(lost)}


def test_a_gap_in_the_scores_is_an_error_and_not_a_smaller_table(released: tuple[list[AnyCase], list[Score]]) -> None:
    cases, scores = released
    with pytest.raises(ValueError, match="not even a failure"):
        tabulate("p", CORRECTED, scores[:-1], cases, draws=0)
    with pytest.raises(ValueError, match="two scores"):
        tabulate("p", CORRECTED, [*scores, scores[0]], cases, draws=0)


def test_small_slices_carry_a_remark_and_equal_scores_an_interval_only_at_the_end_of_the_scale(
    released: tuple[list[AnyCase], list[Score]],
) -> None:
    cases, scores = released
    few = [case for case in cases if case.groups["dimension"] == "Commercial Design"][:12]
    chosen = [s for s in scores if s.case in {case.id for case in few}]
    row = pick(tabulate("p", CORRECTED, chosen, few), model="Bagel", metric="avg", level="overall")
    assert row.remark == "small n: 12 clusters"
    perfect, equal = ([s.model_copy(update={"value": value}) for s in chosen] for value in (1.0, 0.5))
    row = pick(tabulate("p", CORRECTED, perfect, few), model="Bagel", metric="avg", level="overall")
    assert row.value == 100.0
    assert row.ci95 is not None
    assert row.ci95[0] < 75, "twelve of twelve do not exclude that one in five fails"
    assert row.ci95[1] == 100.0
    row = pick(tabulate("p", CORRECTED, equal, few), model="Bagel", metric="avg", level="overall")
    assert (row.value, row.ci95) == (50.0, None)
    assert row.remark is not None


def numbered(clusters: Sequence[int], strata: Sequence[int]) -> list[AnyCase]:
    return [
        AnyCase(id=str(i), request=Request(instruction=""), cluster=str(c), stratum=str(h), details=None)
        for i, (c, h) in enumerate(zip(clusters, strata, strict=True))
    ]


def covered(aggregate: Aggregate, cases: Sequence[AnyCase], marks: np.ndarray, truth: float) -> float:
    """How often intervals of the overall number hold the truth, each row of marks being a model."""
    scores = [
        Score(case=str(i), model=f"m{m:03d}", metric="m", protocol="p", value=float(value))
        for m, row in enumerate(marks)
        for i, value in enumerate(row)
    ]
    rows = [r for r in tabulate("p", aggregate, scores, cases, draws=300) if r.slice["level"] == "overall"]
    return float(np.mean([r.ci95 is None or r.ci95[0] <= truth <= r.ci95[1] for r in rows]))


@pytest.mark.parametrize("sizes", [[5] * 20, [40] + [1] * 19, [30, 30] + [1] * 18])
def test_intervals_cover_also_where_one_cluster_has_most_of_the_cases(sizes: list[int]) -> None:
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    marks = (np.random.default_rng(2).random((150, len(sizes))) < 0.5)[:, cluster].astype(float)
    everything = np.ones(len(cluster), dtype=np.bool_)
    aggregate = Aggregate(
        (Measure("m", ("m",)),),
        lambda _: [Slice("overall", {}, everything)],
        lambda mean, where: {"m": slice_mean(mean, "m", where)},
        imputed={},
    )
    assert covered(aggregate, numbered(cluster, [0] * len(cluster)), marks, 0.5) >= 0.9


def test_intervals_cover_where_means_are_of_means() -> None:
    """Two categories of two tasks each, of 5 and 45 cases: worth 36 cases of equal weight, not 100."""
    task = np.repeat(np.arange(4), [5, 45, 5, 45])
    tasks = [Slice("task", {"task": str(k)}, task == k) for k in range(4)]
    categories = [
        Slice("category", {"category": str(k)}, np.isin(task, [2 * k, 2 * k + 1]), (tasks[2 * k], tasks[2 * k + 1]))
        for k in range(2)
    ]
    overall = Slice("overall", {}, np.ones(100, dtype=np.bool_), tuple(categories))
    assert 1 / np.sum(overall.weights(overall.members) ** 2) == pytest.approx(16 / (2 / 5 + 2 / 45))

    def score(mean: Mean, where: Slice) -> np.ndarray:
        if not where.parts:
            return mean("m", where.members)
        return np.asarray(np.mean([score(mean, part) for part in where.parts], axis=0))

    aggregate = Aggregate(
        (Measure("m", ("m",)),),
        lambda _: [overall, *categories, *tasks],
        lambda mean, where: {"m": score(mean, where)},
        imputed={},
    )
    marks = (np.random.default_rng(5).random((200, 100)) < 0.5).astype(float)
    assert covered(aggregate, numbered(range(100), task), marks, 0.5) >= 0.92


def test_clusters_that_are_worth_less_than_their_number_have_that_said() -> None:
    sizes = [400] + [1] * 99
    cases = numbered(np.repeat(np.arange(100), sizes), [0] * 499)
    scores = [Score(case=c.id, model="a", metric="m", protocol="p", value=i % 2) for i, c in enumerate(cases)]
    aggregate = Aggregate(
        (Measure("m", ("m",)),),
        lambda _: [Slice("overall", {}, np.ones(499, dtype=np.bool_))],
        lambda mean, where: {"m": slice_mean(mean, "m", where)},
        imputed={},
    )
    (row,) = tabulate("p", aggregate, scores, cases, draws=100)
    assert row.remark == "small n: 100 clusters, worth 1.6 of equal weight"


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """Samples drawn from the released scores; the longer simulation is perf/interval_coverage.py."""
    cases, scores = released_scores()
    models = ("Bagel", "gpt-image-1", "seedream4-0")
    rng = np.random.default_rng(11)
    values = {(s.model, s.metric, s.case): s.value for s in scores if s.model in models}
    truth = {
        (r.model, r.metric, tuple(r.slice.items())): r.value
        for r in tabulate("p", CORRECTED, [s for s in scores if s.model in models], cases, draws=0)
    }
    by_stratum = {d: [c for c in cases if c.stratum == d] for d in {c.stratum for c in cases}}
    hits = {"overall": [0, 0], "category": [0, 0]}
    for _ in range(60):
        sample = [c for group in by_stratum.values() for c in rng.choice(np.array(group, dtype=object), len(group))]
        renamed = [c.model_copy(update={"id": str(i), "cluster": str(i)}) for i, c in enumerate(sample)]
        drawn = [
            Score(case=str(i), model=m, metric=q, protocol="p", judge="j", value=values[m, q, c.id])
            for i, c in enumerate(sample)
            for m in models
            for q in ("IF", "VC", "VQ")
        ]
        for row in tabulate("p", CORRECTED, drawn, renamed, draws=400):
            level = row.slice["level"]
            if level in hits and row.ci95:
                true = truth[row.model, row.metric, tuple(row.slice.items())]
                assert true is not None
                hits[level][0] += row.ci95[0] <= true <= row.ci95[1]
                hits[level][1] += 1
    for level, (covered, tried) in hits.items():
        assert 0.92 <= covered / tried <= 0.975, (level, covered / tried)


def test_a_model_does_not_differ_from_itself_and_pairs_are_antisymmetric(
    released: tuple[list[AnyCase], list[Score]],
) -> None:
    cases, scores = released
    twin = [s.model_copy(update={"model": "twin"}) for s in scores if s.model == "Bagel"]
    same = paired_gap(PAPER, [*scores, *twin], cases, (("Bagel", "gpt-4o"), ("twin", "gpt-4o")), "avg")
    assert same.gap == 0
    assert not same.resolved
    one = paired_gap(PAPER, scores, cases, (("seedream4-0", "gpt-4o"), ("Bagel", "gpt-4o")), "avg")
    other = paired_gap(PAPER, scores, cases, (("Bagel", "gpt-4o"), ("seedream4-0", "gpt-4o")), "avg")
    assert one.gap == pytest.approx(-other.gap)
    assert one.resolved
    assert one.gap > 10
