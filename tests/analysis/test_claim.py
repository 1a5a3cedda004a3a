"""Reviewing a claimed gap without a run: from released item scores where there are any, else from borrowed ones."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from refbench.analysis.claim import ClaimOptions, review
from refbench.analysis.compare.runs import load_sources
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.cli.claim import claim_command
from refbench.record import RefBenchError


@lru_cache(maxsize=2)
def item_avgs(subset: str | None = None) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """The average of each released item, by the paper's weights, straight from the file."""
    cases, scores = released_scores(subset)
    place = {case.id: i for i, case in enumerate(cases)}
    avgs = {score.model: np.zeros(len(cases)) for score in scores}
    for score in scores:
        avgs[score.model][place[score.case]] += {"IF": 40, "VC": 40, "VQ": 20}[score.metric] * (score.value or 0.0)
    return avgs


def test_the_spread_is_that_of_the_released_item_scores() -> None:
    spreads = [np.std(a - b, ddof=1) for a, b in combinations(item_avgs().values(), 2)]
    found = review("creval", ClaimOptions(gap=1.5))
    assert found.spread.of_pair == pytest.approx((min(spreads), max(spreads)), rel=1e-4)
    assert found.spread.of_model == pytest.approx(
        [end([np.std(row, ddof=1) for row in item_avgs().values()]) for end in (min, max)], rel=1e-4
    )
    assert (found.spread.n_pairs, found.spread.borrowed, found.n) == (28, False, 874)


def test_the_p_of_two_rows_with_released_scores_is_the_paired_t_of_their_gap() -> None:
    found = review("creval", ClaimOptions(rows=("Bagel", "OmniGen2")))
    avgs = item_avgs("paper874")
    apart = avgs["Bagel"] - avgs["OmniGen2"]
    assert found.spread.exact and found.p[0] == found.p[1]
    t = found.gap / (apart.std(ddof=1) / len(apart) ** 0.5)
    assert found.p[0] == pytest.approx(2 * stats.t.sf(abs(t), len(apart) - 1), rel=1e-3)
    assert found.gap == pytest.approx(apart.mean(), abs=0.02)  # printed to two digits
    assert load_sources(["creval:Bagel", "creval:OmniGen2"], None, None)  # compare has the whole answer


def test_without_released_scores_the_range_is_borrowed_and_said_to_be() -> None:
    found = review("multibanana", ClaimOptions(gap=0.3, n=3769, judge="gpt-5"))
    cases, scores = released_scores()
    place = {case.id: i for i, case in enumerate(cases)}
    columns: dict[tuple[str, str], np.ndarray] = {}  # type: ignore[type-arg]
    for score in scores:
        columns.setdefault((score.metric, score.model), np.zeros(len(cases)))[place[score.case]] = score.value or 0.0
    columns |= {("avg", model): values / 100 for model, values in item_avgs().items()}
    shares = [np.std(columns[a] - columns[b], ddof=1) for a, b in combinations(columns, 2) if a[0] == b[0]]
    assert found.spread.of_pair == pytest.approx((9 * min(shares), 9 * max(shares)), rel=1e-4)
    assert found.spread.borrowed and "MultiBanana has released none" in found.sentence
    # The paper has numbers of tasks and groups only: what an overall one would be a mean of is not known.
    assert found.verdict == "the gap is more than chance, however marks spread, if it is of a mean over all cases alike"
    assert any("the paper prints no overall number" in note for note in found.notes)
    assert review("creval", ClaimOptions(gap=30)).verdict == "the gap is more than chance, however marks spread"
    # Whatever the spread: differences of -9 and +9 only, with a mean of 0.3.
    worst = (81 - 0.09) ** 0.5 * (3769 / 3768) ** 0.5
    assert found.p_at_most == pytest.approx(2 * stats.t.sf(0.3 / (worst / 3769**0.5), 3768), rel=1e-4)


def test_of_a_mean_over_tasks_of_unknown_size_nothing_holds_however_marks_spread() -> None:
    found = review("multibanana", ClaimOptions(rows=("Nano Banana", "GPT-Image-1")))
    assert found.p_at_most is None
    assert found.verdict.endswith("if marks spread as CREval's do and the parts have equally many cases")
    assert any("parts of unequal size" in note for note in found.notes)


def test_a_small_gap_is_left_open_with_what_would_settle_it() -> None:
    found = review("multibanana", ClaimOptions(gap=0.06, n=3769))
    assert found.verdict == "whether the gap is more than chance depends on what was not released"
    assert found.p[0] < 0.05 < found.p[1]
    assert found.release[0].startswith("the scores of both models case by case")
    assert review("multibanana", ClaimOptions(gap=0.01)).verdict == (
        "the gap cannot be told from chance, if marks spread as CREval's do"
    )


def test_the_cases_it_would_take_do_find_the_gap() -> None:
    found = review("creval", ClaimOptions(gap=1.0))
    assert found.cases_needed is not None
    for n, spread in zip(found.cases_needed, found.spread.of_pair, strict=True):
        error = spread / n**0.5
        power = stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, 1.0 / error)
        assert power == pytest.approx(0.8, abs=0.01)


def test_the_family_is_that_of_the_published_table() -> None:
    found = review("creval", ClaimOptions(rows=("Bagel", "Bagel (think)")))
    models = {v.label for v in benchmark("creval").reporting.published() if v.slice["level"] == "overall"}
    assert found.family == len(models) * (len(models) - 1) // 2
    assert found.p_corrected[0] == min(1.0, found.p[0] * found.family)


def test_means_near_the_end_of_a_scale_leave_less_room() -> None:
    found = review("ideabench", ClaimOptions(rows=("FLUX-1", "Emu2"), n=100))
    assert found.values is not None
    most = sum((value * (100 - value)) ** 0.5 for value in found.values)
    assert found.spread.of_pair[1] <= most + 1e-9


def test_the_command_says_it_in_eighty_columns_and_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert claim_command("multibanana", gap=0.3, n=3769, judge="gpt-5") == 0
    printed = capsys.readouterr().out
    assert "What the claimant would have to release" in printed and "borrowed from CREval's" in printed
    assert claim_command("creval", rows=("Bagel", "OmniGen2"), json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["first"] == "Bagel" and told["spread"]["exact"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "give the claimed gap as --gap 0.3, or two published rows"),
        ({"gap": 1.0, "rows": ("a", "b")}, "give the claimed gap as --gap 0.3, or two published rows"),
        ({"gap": 30.0}, "goes from 1 to 10 only"),
        ({"gap": 0.1, "metric": "avg"}, "--metric avg: MultiBanana has"),
        ({"gap": 0.1, "n": 1}, "a gap takes two cases"),
        ({"rows": ("Nano Banana", "x")}, "the published rows of MultiBanana are Nano Banana"),
        ({"rows": ("Nano Banana", "Nano Banana")}, "both are Nano Banana; give two"),
        ({"gap": 0.1, "family": 0}, "at least 1"),
        ({"gap": 0.1, "scale": "1 to 5"}, "write the lowest and the highest"),
    ],
)
def test_what_cannot_be_reviewed_is_said(given: dict[str, object], says: str) -> None:
    with pytest.raises(RefBenchError, match=says):
        claim_command("multibanana", **given)  # type: ignore[arg-type]


def test_a_number_without_ends_needs_its_scale() -> None:
    with pytest.raises(RefBenchError, match="has no two ends: say what it can range over, as --scale 0-1"):
        claim_command("icebench", gap=0.02)
    assert review("icebench", ClaimOptions(gap=0.02, scale=(0, 1))).scale == (0, 1)
