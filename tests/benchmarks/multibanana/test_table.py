"""Scores to the table: macro over tasks, the weights of the total, tags with and without, coverage and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import refbench
from refbench import Failure, Score
from refbench.benchmarks import benchmark
from refbench.benchmarks.multibanana.cases import CRITERIA, TASKS
from refbench.case import AnyCase
from refbench.failure import FailureKind
from refbench.tables.table import Row, tabulate
from support.multibanana import Set, every_task, write_dataset

Marks = Sequence[float | FailureKind]


def cases_of(root: Path, sets: Sequence[Set]) -> list[AnyCase]:
    return list(refbench.load("multibanana", write_dataset(root, sets)).cases)


def table(cases: Sequence[AnyCase], marks: Mapping[str, Marks], protocol: str, *, draws: int = 0) -> list[Row]:
    scores = [
        Score(
            case=case.id,
            model="m",
            judge="j",
            metric=criterion,
            protocol=protocol,
            value=None if isinstance(mark, str) else float(mark),
            failure=Failure(kind=mark) if isinstance(mark, str) else None,
        )
        for case in cases
        for criterion, mark in zip(CRITERIA, marks[case.id], strict=True)
    ]
    return tabulate(
        protocol, benchmark("multibanana").scoring.protocols[protocol].aggregate, scores, cases, draws=draws
    )


def row(rows: Sequence[Row], metric: str = "total", **where: str) -> Row:
    (found,) = [r for r in rows if r.metric == metric and dict(r.slice) == where]
    return found


@pytest.fixture
def uneven(tmp_path: Path) -> list[AnyCase]:
    """Three sets of one task and one set of another, in one group."""
    sets = [Set("add", n, 2) for n in ("001", "002", "003")] + [Set("pose", "001", 2)]
    return cases_of(tmp_path, sets)


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_a_task_is_the_mean_of_its_sets_and_a_group_the_mean_of_its_tasks(uneven: list[AnyCase], protocol: str) -> None:
    marks = {"add/001": [2] * 5, "add/002": [4] * 5, "add/003": [6] * 5, "pose/001": [9] * 5}
    rows = table(uneven, marks, protocol)
    assert row(rows, level="task", group="two", task="add").value == 4
    assert row(rows, level="group", group="two").value == 6.5, "not 5.25, which is the mean over sets"
    assert row(rows, level="overall").value == 6.5
    assert row(rows, level="n_refs", n_refs="2").value == 6.5


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_overall_is_the_mean_over_tasks_and_not_over_groups(tmp_path: Path, protocol: str) -> None:
    cases = cases_of(tmp_path, [Set("single", "1", 1), Set("add", "1", 2), Set("pose", "1", 2)])
    rows = table(cases, {"single/1": [1] * 5, "add/1": [4] * 5, "pose/1": [7] * 5}, protocol)
    assert row(rows, level="overall").value == 4
    assert [r.value for r in rows if r.metric == "total" and r.slice["level"] == "group"] == [1, 5.5]


def test_the_total_weighs_instruction_and_references_three_times(uneven: list[AnyCase]) -> None:
    rows = table(uneven, {case.id: [10, 7, 1, 2, 3] for case in uneven}, "corrected")
    assert row(rows, level="overall").value == pytest.approx((3 * 10 + 3 * 7 + 1 + 2 + 3) / 9, abs=1e-8)
    assert [row(rows, criterion, level="overall").value for criterion in CRITERIA] == [10, 7, 1, 2, 3]
    assert row(table(uneven, {case.id: [1] * 5 for case in uneven}, "paper"), level="overall").value == 1


def test_total_is_the_summary_of_the_leaderboard() -> None:
    for protocol in benchmark("multibanana").scoring.protocols.values():
        assert [m.name for m in protocol.aggregate.measures] == [*CRITERIA, "total"]


def test_a_set_counts_by_the_references_it_has(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, [Set("3_back", "1", 3), Set("3_back", "2", 4), Set("4_local", "1", 4)])
    rows = table(cases, {"3_back/1": [2] * 5, "3_back/2": [4] * 5, "4_local/1": [9] * 5}, "corrected")
    assert row(rows, level="n_refs", n_refs="3").value == 2
    assert row(rows, level="n_refs", n_refs="4").value == 6.5
    assert row(rows, level="task", group="background", task="3_back").value == 3


def test_tags_are_means_over_sets_with_and_without(tmp_path: Path) -> None:
    sets = [
        Set("add", "1", 2, "rare"),
        Set("add", "2", 2, ["rare", "scale"]),
        Set("add", "3", 2),
        Set("pose", "1", 2, "rare"),
    ]
    cases = cases_of(tmp_path, sets)
    marks = {"add/1": [2] * 5, "add/2": [4] * 5, "add/3": [8] * 5, "pose/1": [9] * 5}
    rows = table(cases, marks, "corrected")
    assert row(rows, level="tag", tag="rare", has="yes").value == 5
    assert row(rows, level="tag", tag="rare", has="no").value == 8
    assert row(rows, level="tag", tag="scale", has="no").n_expected == 3
    assert not [r for r in rows if r.slice.get("tag") == "font"], "nothing to say of a tag that no set has"


def test_sets_whose_tags_are_unknown_are_neither_with_nor_without(tmp_path: Path) -> None:
    write_dataset(tmp_path, [Set("add", "1", 2, "rare"), Set("add", "2", 2), Set("pose", "1", 2)])
    (tmp_path / "pose/types.json").unlink()
    cases = refbench.load("multibanana", tmp_path).cases
    rows = table(cases, {case.id: [5] * 5 for case in cases}, "corrected")
    assert row(rows, level="tag", tag="rare", has="yes").n_expected == 1
    assert row(rows, level="tag", tag="rare", has="no").n_expected == 1


def test_generators_of_references_are_slices_with_the_intervals_of_figure_12(tmp_path: Path) -> None:
    """Real references beside generated ones do not matter; one of unknown hand keeps a set out."""
    gpt, nano = "GPT-Image-1", "nano banana"
    sources: list[tuple[str, ...]] = [
        (gpt, gpt),
        (gpt, "real"),
        (nano, nano),
        (nano, gpt),
        ("real", "real"),
        ("synthetic", gpt),
    ]
    sets = [Set("add", f"{6 * k + n:03d}", 2, source=words) for k in range(5) for n, words in enumerate(sources)]
    cases = cases_of(tmp_path, sets)
    rows = table(cases, {case.id: [1 + (int(case.id[-3:]) % 6), *[4] * 4] for case in cases}, "paper", draws=400)
    found = {
        r.slice["generator"]: r for r in rows if r.slice["level"] == "generator" and r.metric == "instruction_alignment"
    }
    assert {name: (r.n_cases, r.value) for name, r in found.items()} == {
        "gpt_image_1": (10, 1.5),
        "nano_banana": (5, 3.0),
        "both": (5, 4.0),
    }
    wide = found["gpt_image_1"]
    assert wide.ci95 is not None
    assert wide.ci99 is not None
    assert wide.ci99[0] < wide.ci95[0] < 1.5 < wide.ci95[1] < wide.ci99[1]
    assert {r.slice["level"] for r in rows if r.ci99} == {"source", "generator"}


def test_sources_are_slices_where_they_are_known(tmp_path: Path) -> None:
    cases = cases_of(tmp_path / "a", [Set("add", "1", 2), Set("add", "2", 2, source="generated")])
    rows = table(cases, {"add/1": [3] * 5, "add/2": [5] * 5}, "corrected")
    assert row(rows, level="source", source="real").value == 3
    assert row(rows, level="source", source="generated").value == 5
    unknown = cases_of(tmp_path / "b", [Set("add", "1", 2, source="?"), Set("add", "2", 2, source="?")])
    rows = table(unknown, {"add/1": [3] * 5, "add/2": [5] * 5}, "corrected")
    assert not [r for r in rows if r.slice["level"] == "source"]


def test_failed_samples_are_dropped_in_paper_and_lead_to_bounds(uneven: list[AnyCase]) -> None:
    marks: dict[str, Marks] = {"add/001": [4] * 5, "add/002": [6] * 5, "add/003": ["unparsable"] * 5, "pose/001": [9] * 5}  # fmt: skip
    for protocol in ("paper", "corrected"):
        task = row(table(uneven, marks, protocol), level="task", group="two", task="add")
        assert (task.value, task.n_expected, task.n_scored, task.n_imputed) == (5, 3, 2, 0)
        assert task.failures == {"unparsable": 1}
        assert task.bounds == (pytest.approx(11 / 3, abs=1e-8), pytest.approx(20 / 3, abs=1e-8))


def test_a_task_without_any_score_is_left_out_of_its_group_and_said(uneven: list[AnyCase]) -> None:
    marks: dict[str, Marks] = {"add/001": [4] * 5, "add/002": [6] * 5, "add/003": [5] * 5, "pose/001": ["missing_reply"] * 5}  # fmt: skip
    paper, corrected = (row(table(uneven, marks, name), level="group", group="two") for name in ("paper", "corrected"))
    assert paper.value == 5
    assert corrected.value == 5
    assert "nothing scored in pose" in (corrected.remark or "")
    assert corrected.bounds == (3.0, 7.5)


def test_one_missing_criterion_keeps_the_others(uneven: list[AnyCase]) -> None:
    marks: dict[str, Marks] = {case.id: [6] * 5 for case in uneven} | {"add/001": [3, 3, 3, 3, "unparsable"]}
    rows = table(uneven, marks, "corrected")
    assert row(rows, "instruction_alignment", level="task", group="two", task="add").value == 5
    quality = row(rows, "visual_quality", level="task", group="two", task="add")
    assert (quality.value, quality.n_scored) == (6, 2)
    total = row(rows, level="task", group="two", task="add")
    assert (total.n_expected, total.n_scored, total.failures) == (3, 2, {"unparsable": 1})


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_coverage_adds_up_and_values_lie_within_bounds_and_intervals(tmp_path: Path, protocol: str) -> None:
    cases = cases_of(tmp_path, every_task(4))
    rng = np.random.default_rng(3)
    kinds: tuple[FailureKind, ...] = ("unparsable", "api_error", "missing_reply", "out_of_range")
    marks: dict[str, Marks] = {
        case.id: [kinds[int(rng.integers(4))]] * 5 if rng.random() < 0.1 else [int(m) for m in rng.integers(1, 11, 5)]
        for case in cases
    }
    rows = table(cases, marks, protocol, draws=200)
    assert {r.slice["level"] for r in rows} == {"overall", "group", "task", "n_refs", "tag", "source"}
    assert len([r for r in rows if r.slice["level"] == "task"]) == 36 * 6
    for r in rows:
        assert r.n_expected == r.n_scored + sum(r.failures.values())
        assert r.bounds is not None
        assert 1 <= r.bounds[0] <= r.bounds[1] <= 10
        if r.value is not None:
            assert r.bounds[0] - 1e-9 <= r.value <= r.bounds[1] + 1e-9
        if r.ci95 is not None and r.value is not None:
            assert r.ci95[0] <= r.value <= r.ci95[1]
    for level in ("group", "task", "n_refs"):
        counted = sum(r.n_expected for r in rows if r.metric == "total" and r.slice["level"] == level)
        assert counted == len(cases) == 4 * len(TASKS)
