"""Published totals of RISEBench, KRIS-Bench, MICo-Bench and EditReward-Bench from their own columns, through our
aggregates; and those that cannot be had from their columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from refbench.benchmarks import benchmark
from refbench.benchmarks.editrewardbench.benchmark import DIMENSIONS, GROUP_OF
from refbench.benchmarks.krisbench.benchmark import CATEGORIES
from refbench.benchmarks.micobench.benchmark import TASKS
from support.public import case_of, printed, tabled

RISE, KRIS, MICO, PAIRS = map(benchmark, ("risebench", "krisbench", "micobench", "editrewardbench"))
OVERALL = ("level", "overall")
VINTAGES = ("leaderboard since 2026-04-23", "leaderboard before 2026-04-23", "BAGEL EVAL.md")
SIZES = {"temporal": 85, "causal": 90, "spatial": 100, "logical": 85}


@pytest.mark.parametrize(("vintage", "rows"), [*zip(VINTAGES, (20, 19, 2), strict=True)])
@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_risebench_overall_is_the_mean_over_cases(protocol: str, vintage: str, rows: int) -> None:
    cases = [case_of(f"{name} {n}", category=name) for name, size in SIZES.items() for n in range(size)]
    table = printed(RISE, table=vintage, metric="accuracy")
    assert len(table) == rows
    for row, numbers in table.items():
        by = {dict(place[1:]).get("category"): value for place, value in numbers.items()}
        found = tabled(RISE, protocol, cases, {"accuracy": [by[case.groups["category"]] / 100 for case in cases]})
        assert found["accuracy", OVERALL] == pytest.approx(by[None], abs=0.08), row


def test_risebench_changed_its_completion_rule_and_both_vintages_are_kept_apart() -> None:
    rows = {
        vintage: next(
            iter(v for row, v in printed(RISE, table=vintage, metric="accuracy").items() if "GPT-Image-1," in row)
        )
        for vintage in VINTAGES[:2]
    }
    assert [rows[vintage]["accuracy", OVERALL] for vintage in VINTAGES[:2]] == [30.0, 28.9]


KNOWLEDGE = [
    case_of(f"{name} {n}", knowledge=row["knowledge"], dimension=row["dimension"], category=name)
    for name, row in CATEGORIES.items()
    for n in range(int(row["cases"]))
]
WITH_KNOWLEDGE = [CATEGORIES[case.groups["category"]]["kind"] == "knowledge" for case in KNOWLEDGE]


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_kris_totals_are_means_over_cases_in_five_rows_of_six(protocol: str) -> None:
    table = printed(KRIS, table="KRIS")
    assert len(table) == 6
    for row, numbers in table.items():
        by = {dict(place[1:]).get("knowledge"): value for place, value in numbers.items()}
        marks = [by[case.groups["knowledge"]] / 100 for case in KNOWLEDGE]
        found = tabled(KRIS, protocol, KNOWLEDGE, dict.fromkeys(("VC", "IF", "VQ"), marks))
        if row.startswith("UniWorld-V1"):
            assert (found["avg", OVERALL], by[None]) == (pytest.approx(46.57, abs=0.01), 50.27), "above all its parts"
        else:
            assert found["avg", OVERALL] == pytest.approx(by[None], abs=0.011), row


def test_kris_as_bagel_has_it_pools_all_marks() -> None:
    """From the marks of its seven dimensions to theirs, to those of the kinds of knowledge, and to the total."""
    paper = KRIS.scoring.protocols["paper"]
    pooled = replace(KRIS.scoring, protocols={"paper": replace(paper, aggregate=paper.formulas["pooled"])})
    table = printed(KRIS, table="BAGEL EVAL.md")
    assert len(table) == 2
    for row, numbers in table.items():
        marks = {
            metric: [
                numbers.get((metric, ("level", "dimension"), ("dimension", case.groups["dimension"])), np.nan) / 100
                for case in KNOWLEDGE
            ]
            for metric in ("VC", "IF", "KP", "VQ")
        }
        assert [not np.isnan(mark) for mark in marks["KP"]] == WITH_KNOWLEDGE
        found = tabled(replace(KRIS, scoring=pooled), "paper", KNOWLEDGE, marks)
        unlike = {place for place in numbers if place[0] == "avg" and abs((found[place] or 0) - numbers[place]) > 0.011}
        assert not unlike, (row, {place: (found[place], numbers[place]) for place in unlike})
        by_case = tabled(KRIS, "paper", KNOWLEDGE, marks)["avg", OVERALL]
        assert by_case is not None and 0.15 < by_case - numbers["avg", OVERALL] < 0.25, "the other rule gives more"


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_mico_overall_is_the_mean_over_cases_in_nine_rows_of_twelve(protocol: str) -> None:
    cases = [case_of(f"{task}/{n}", task=task) for task, size in TASKS.items() for n in range(size)]
    unlike = {"Qwen-Image-2509": (26.39, 27.47), "OmniGen2": (31.98, 31.42), "OmniGen2-MICo": (34.15, 33.82)}
    table = printed(MICO)
    assert len(table) == 12
    for row, numbers in table.items():
        by = {dict(place[1:]).get("task"): value for place, value in numbers.items()}
        found = tabled(MICO, protocol, cases, {"score": [by[case.groups["task"]] for case in cases]})["score", OVERALL]
        if (label := row.split(",")[0]) in unlike:
            assert (round(found or 0, 2), by[None]) == unlike[label]
        else:
            assert found == pytest.approx(by[None], abs=0.051), row
    macro = sum(value for place, value in table_row(table, "Qwen-Image-2509").items() if place[1] != OVERALL) / 4
    assert macro == pytest.approx(27.47, abs=0.005), "this row is the mean over tasks"


def table_row(table: dict[str, dict], label: str) -> dict:  # type: ignore[type-arg]
    return next(numbers for row, numbers in table.items() if row.startswith(f"{label},"))


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_editreward_overall_is_the_mean_over_thirteen_tasks_in_all_36_cells(protocol: str) -> None:
    cases = [case_of(task, group=group, task=task, dimension="overall") for task, group in GROUP_OF.items()]
    cells = 0
    for row, numbers in printed(PAIRS).items():
        for dimension in DIMENSIONS:
            by = {dict(place[1:]).get("group"): value for place, value in numbers.items() if place[0] == dimension}
            marks = {dimension: [by[case.groups["group"]] for case in cases]}
            found = tabled(PAIRS, protocol, cases, marks)
            assert found[dimension, OVERALL] == pytest.approx(by[None], abs=0.00101), (row, dimension)
            cells += 1
    assert cells == 36
