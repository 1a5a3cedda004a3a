"""Scores to the table: type means, avg, splits, categories, coverage, and rows as shares of the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from refbench.benchmarks.kit.definition import Dataset
from refbench.benchmarks.multiref.benchmark import BENCHMARK
from refbench.benchmarks.multiref.cases import load
from refbench.benchmarks.multiref.measures import derived, ratio_to_truth
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.score import Score
from refbench.tables.table import Row, tabulate
from support.multiref import Blend, Request, blends, requests, truth_outputs, write_checkout, write_synthetic

Value = float | Failure | None
Give = Callable[[AnyCase, str], Value]


def table(cases: Sequence[AnyCase], protocol: str = "corrected", draws: int = 0, **models: Give) -> list[Row]:
    """The table of models whose scores a function gives; None leaves a score not measured."""
    scores: list[Score] = []
    for model, give in models.items():
        for case in cases:
            away = BENCHMARK.asking.not_applicable(case)
            mine: dict[str, Score] = {}
            names = [
                metric for part, metrics in BENCHMARK.asking.parts.items() for metric in metrics if part != "derived"
            ]
            for name in names:
                value = give(case, name)
                mine[name] = score(
                    case,
                    model,
                    name,
                    protocol,
                    away.get(name) or (Failure(kind="not_measured") if value is None else value),
                )
            for name, made in derived(case, protocol, mine).items():
                mine[name] = score(case, model, name, protocol, made)
            scores += mine.values()
    return tabulate(protocol, BENCHMARK.scoring.protocols[protocol].aggregate, scores, cases, draws=draws)


def score(case: AnyCase, model: str, metric: str, protocol: str, value: float | Failure | str) -> Score:
    return Score(
        case=case.id,
        model=model,
        metric=metric,
        protocol=protocol,
        value=value if isinstance(value, float) else None,
        failure=value if isinstance(value, Failure) else None,
        not_applicable=value if isinstance(value, str) else None,
    )


def row(rows: Sequence[Row], metric: str, model: str = "m", **where: str) -> Row:
    (found,) = [r for r in rows if r.metric == metric and r.model == model and dict(r.slice) == where]
    return found


def constant(**values: float) -> Give:
    return lambda case, name: values.get(name, values.get("other"))


SYNTHETIC = {"level": "split", "split": "synthetic"}
REAL = {"level": "split", "split": "real-world"}


def test_a_type_is_the_mean_over_the_cases_that_have_it(tmp_path: Path) -> None:
    cases = load(write_checkout(tmp_path, blends(2), requests())).cases
    rows = table(cases, m=lambda case, name: 0.2 if case.id.endswith("_0") else 0.6)
    canny = row(rows, "canny", **SYNTHETIC)
    assert (canny.value, canny.n_expected, canny.n_scored) == (pytest.approx(0.4), 2, 2)
    assert row(rows, "subject", **SYNTHETIC).n_expected == 6
    assert row(rows, "canny", **REAL).n_expected == 0


def test_avg_is_a_mean_of_type_means_and_fidelity_a_mean_of_cases(tmp_path: Path) -> None:
    items = [Blend("a", ("canny", "subject")), Blend("b", ("depth", "subject")), Blend("c", ("depth", "subject"))]
    cases = load(write_synthetic(tmp_path, items)).cases
    values = {
        "a": {"canny": 0.5, "subject": 0.1},
        "b": {"depth": 0.0, "subject": 0.7},
        "c": {"depth": 0.2, "subject": 0.7},
    }
    rows = table(cases, m=lambda case, name: values[case.id[-1]].get(name))
    canny, depth, subject = 0.5, 0.1, 0.5
    assert row(rows, "avg", level="overall").value == pytest.approx((1 - canny + 1 - depth + subject) / 3)
    per_case = [(0.5 + 0.1) / 2, (1.0 + 0.7) / 2, (0.8 + 0.7) / 2]
    assert row(rows, "fidelity", level="overall").value == pytest.approx(sum(per_case) / 3)
    assert row(rows, "fidelity", level="overall").bounds is not None


def test_without_one_of_its_types_there_is_no_avg(dataset: Dataset) -> None:
    rows = table(dataset.cases, m=lambda case, name: None if name == "sketch" else 0.5)
    missing = row(rows, "avg", **SYNTHETIC)
    assert missing.value is None
    assert missing.failures == {"not_measured": 1}
    assert missing.remark == "no average without a value for sketch"
    here = row(rows, "avg", level="combination", split="synthetic", combination="canny+subject")
    assert here.value == 0.5, "a combination is about its own types"


def test_marks_are_fifths_captions_fiftieths_and_aesthetics_tenths(dataset: Dataset) -> None:
    rows = table(dataset.cases, m=constant(IQ=4.0, IF=3.0, SF=1.0, caption=30.0, aesthetics=6.1, other=0.5))
    assert [row(rows, axis, level="overall").value for axis in ("IQ", "IF", "SF")] == [0.8, 0.6, 0.2]
    assert row(rows, "caption", **SYNTHETIC).value == 0.6
    assert row(rows, "aesthetics", **SYNTHETIC).value == pytest.approx(0.61)


def test_the_real_world_number_is_the_mean_of_categories_and_not_of_cases(tmp_path: Path) -> None:
    items = [Request(1, 1), Request(2, 1), Request(3, 1), Request(4, 2)]
    cases = load(write_checkout(tmp_path, blends(), items)).cases
    rows = table(cases, m=lambda case, name: {"4": 5.0}.get(case.id[-1], 1.0))
    assert row(rows, "IQ", **REAL).value == pytest.approx((1 / 5 + 5 / 5) / 2)
    assert row(rows, "IQ", level="category", split="real-world", category="element_addition").value == 1
    assert row(rows, "IQ", **SYNTHETIC).value == 0.2
    assert row(rows, "IQ", level="overall").value == pytest.approx((0.2 + 0.6) / 2), "both splits weigh the same"


def test_a_case_of_unknown_category_is_in_no_mean_of_categories(tmp_path: Path) -> None:
    cases = load(write_checkout(tmp_path, blends(), [Request(1, 1), Request(2, "?")])).cases
    rows = table(cases, m=lambda case, name: 5.0 if case.id == "real-world/2" else 1.0)
    assert row(rows, "IQ", **REAL).value == 0.2
    assert row(rows, "IQ", level="category", split="real-world", category="unknown").value == 1
    nothing_known = load(write_checkout(tmp_path / "b", blends(), [Request(1, "?"), Request(2, "?")])).cases
    assert row(table(nothing_known, m=constant(other=5.0)), "IQ", **REAL).value == 1, "then it is a mean over cases"


def test_a_category_without_any_mark_is_left_out_and_said(dataset: Dataset) -> None:
    rows = table(dataset.cases, m=lambda case, name: None if case.groups.get("category") == "style_appearance" else 5.0)
    assert row(rows, "IQ", **REAL).value == 1
    assert row(rows, "IQ", **REAL).remark == "nothing scored in style_appearance"
    assert row(rows, "canny", level="overall").remark is None, "the real-world split has no edges to miss"


def test_slices_are_splits_categories_combinations_and_numbers_of_references(dataset: Dataset) -> None:
    rows = table(dataset.cases, m=constant(other=0.5))
    assert {r.slice["level"] for r in rows} == {"overall", "split", "category", "combination", "n_refs"}
    assert {r.slice["n_refs"] for r in rows if r.slice["level"] == "n_refs" and r.slice["split"] == "synthetic"} == {
        "2",
        "3",
    }


def test_fid_is_a_column_of_paper_only(dataset: Dataset) -> None:
    paper = table(dataset.cases, "paper", m=constant(inception_mean=0.11, other=0.5))
    assert row(paper, "fid", **SYNTHETIC).value == pytest.approx(0.11)
    assert "fid" not in {r.metric for r in table(dataset.cases, m=constant(other=0.5))}


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_coverage_adds_up_and_values_lie_within_bounds_and_intervals(tmp_path: Path, protocol: str) -> None:
    import numpy as np

    cases = load(write_checkout(tmp_path, blends(6), requests(30))).cases
    rng = np.random.default_rng(1)
    values: dict[tuple[str, str], float | Failure] = {}

    def give(case: AnyCase, name: str) -> float | Failure:
        mark = name in ("IQ", "IF", "SF") or name.startswith("judged")
        fresh: float | Failure = float(rng.integers(1, 6)) if mark else float(rng.random())
        return values.setdefault((case.id, name), Failure(kind="no_detection") if rng.random() < 0.1 else fresh)

    rows = table(cases, protocol, draws=200, m=give)
    for r in rows:
        assert r.n_expected == r.n_scored + sum(r.failures.values())
        if r.bounds is not None and r.value is not None:
            assert r.bounds[0] - 1e-9 <= r.value <= r.bounds[1] + 1e-9, r
        if r.ci95 is not None and r.value is not None:
            assert r.ci95[0] <= r.value <= r.ci95[1], r
    assert row(rows, "avg", **SYNTHETIC).ci95 is not None
    assert row(rows, "fidelity", **SYNTHETIC).bounds is not None


def test_the_truth_is_listed_with_its_files(dataset: Dataset) -> None:
    listed = truth_outputs(dataset)
    assert [case for case, _ in listed] == [case.id for case in dataset.cases]
    assert all(path.is_file() for _, path in listed)
    listed[0][1].unlink()
    assert len(truth_outputs(dataset)) == len(listed) - 1


def test_ratios_are_shares_of_the_truth_with_errors_turned_round(dataset: Dataset) -> None:
    rows = table(
        dataset.cases,
        truth=constant(IQ=4.0, canny=0.0, subject=0.8, other=0.5),
        m=constant(IQ=3.0, canny=0.1, subject=0.6, other=0.5),
    )
    ratios = ratio_to_truth(rows)
    assert len(ratios) == len(rows)
    assert row(ratios, "IQ / truth", level="overall").value == pytest.approx(0.75)
    assert row(ratios, "canny / truth", **SYNTHETIC).value == pytest.approx(0.9)
    assert row(ratios, "subject / truth", **SYNTHETIC).value == pytest.approx(0.75)
    assert row(ratios, "avg / truth", "truth", **SYNTHETIC).value == 1
    assert row(ratios, "canny / truth", **REAL).value is None
    assert all(r.ci95 is None and r.bounds is None for r in ratios)


def test_no_ratio_where_the_truth_was_not_scored_or_is_nothing(dataset: Dataset) -> None:
    mine = constant(other=0.5, IQ=2.0)
    assert ratio_to_truth(table(dataset.cases, m=mine)) == []
    rows = ratio_to_truth(table(dataset.cases, truth=lambda case, name: None, m=mine))
    found = row(rows, "IQ / truth", level="overall")
    assert (found.value, found.remark) == (None, "no value of the truth")
    flat = ratio_to_truth(table(dataset.cases, truth=constant(other=0.0), m=mine))
    assert row(flat, "bbox / truth", **SYNTHETIC).remark == "the truth's value is not above 0"


def test_the_papers_ratios_follow_from_its_tables() -> None:
    from refbench.benchmarks.multiref.table import published

    avg = {p.label: p.value for p in published() if p.metric == "avg"}
    assert avg["OmniGen"] / avg["Ground Truth"] == pytest.approx(0.654, abs=0.0005)
    assert avg["ACE"] / avg["Ground Truth"] == pytest.approx(0.780, abs=0.0005)
