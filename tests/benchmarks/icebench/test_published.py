"""The paper's means through the real aggregate: an oracle that needs no pictures, no network and no judge."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence

import pytest

from conftest import SHARED
from refbench.benchmarks.icebench.cases import ICECase, ICEDetails, groups_of
from refbench.benchmarks.icebench.table import DERIVED, PAPER, SCORE, derived, notes, printed, published
from refbench.benchmarks.icebench.tasks import PARTS, QA, SUPPORTED, TASKS
from refbench.benchmarks.kit.published import PublishedValue
from refbench.case import Request
from refbench.failure import Failure
from refbench.output import Output
from refbench.score import Score
from refbench.tables.table import tabulate

# By the released formulas on the printed means, worked out apart from this code.
OVERALL = {
    "ACE": 0.5644,
    "OmniGen": 0.5690,
    "ACE++": 0.5940,
    "FLUX": 0.6408,
    "FLUX-Control": 0.6042,
    "IP-Adapter": 0.6000,
    "InstructPix2Pix": 0.4819,
    "MagicBrush": 0.4997,
    "OminiControl": 0.5855,
    "UltraEdit": 0.5163,
}


def cases_of_tasks() -> list[ICECase]:
    """One case for each task, whose scores are the task's means."""
    details = ICEDetails()
    return [
        ICECase(
            id=name,
            request=Request(instruction=""),
            groups=groups_of(task, details),
            cluster=name,
            stratum=name,
            details=details,
        )
        for name, task in TASKS.items()
    ]


def scores_of(values: Sequence[PublishedValue]) -> list[Score]:
    cells = {(value.label, value.slice["task"], value.metric): value.value for value in values}
    absent = Failure(kind="missing_output", detail="the tables have no number")
    found = []
    for label in dict.fromkeys(value.label for value in values):
        for name, task in TASKS.items():
            for part in PARTS:
                place = {"case": name, "model": label, "metric": part, "protocol": "paper"}
                value = cells.get((label, name, part))
                if part not in task.parts:
                    found.append(Score(**place, not_applicable=f"no part of {name}"))
                elif value is None:
                    found.append(Score(**place, failure=absent))
                else:
                    found.append(Score(**place, value=value))
    return found


def test_overall_scores_of_all_models_follow_from_the_printed_means() -> None:
    assert {p.label: p.value for p in derived() if p.slice["level"] == "overall"} == OVERALL


def test_the_shipped_scores_follow_from_the_printed_means_by_the_aggregate_of_paper() -> None:
    rows = tabulate("paper", PAPER, scores_of(printed()), cases_of_tasks(), draws=0)
    scored = [row for row in rows if row.metric == SCORE and row.value is not None]
    ours = [
        (row.model, row.slice, round(row.value or 0, 4)) for row in scored if row.slice["level"] in ("overall", "task")
    ]
    assert ours == [(p.label, p.slice, p.value) for p in derived()]
    for p in derived():
        judged = p.slice["level"] == "overall" or QA in TASKS[p.slice["task"]].scored
        assert p.judge == ("Qwen2-VL-72B" if judged else "")


def test_every_derived_task_score_is_reproduced_to_four_decimals() -> None:
    path = SHARED / "published/icebench_derived_task_scores.csv"
    if not path.exists():
        pytest.skip("the derived scores are not beside this checkout")
    ours = {(p.label, p.slice.get("task", "")): p.value for p in derived()}
    with path.open(encoding="utf-8") as file:
        theirs = {(row["model"], row["slice"].partition(": ")[2]): float(row["value"]) for row in csv.DictReader(file)}
    assert len(theirs) == 139
    assert ours == theirs


def test_the_two_local_text_tasks_go_by_name_because_table_8_swaps_their_numbers() -> None:
    ours = {(p.label, p.slice["task"]): (p.value, p.slice["number"]) for p in derived() if "task" in p.slice}
    assert ours["ACE", "Local Text Render"] == (0.5514, "22")
    assert ours["ACE", "Local Text Removal"] == (0.5910, "21")


def test_every_number_of_the_tables_is_there() -> None:
    assert Counter(p.table for p in printed()) == {"3": 9, "4": 76, "5": 77, "6": 48, "7": 360, "8": 144}
    assert {p.slice["task"] for p in printed()} == set(TASKS)
    for value in printed():
        assert value.model is None, "no model's files were released"
        assert value.metric in TASKS[value.slice["task"]].parts
        assert value.judge == ("Qwen2-VL-72B" if value.metric == "qa" else "")


def test_printed_distances_of_controls_are_similarities_as_the_columns_are() -> None:
    cells = {(p.label, p.slice["task"], p.metric): p.value for p in printed()}
    assert cells["ACE", "Pose-guided Generation", "l1_pose"] == pytest.approx(1 - 0.009)
    assert cells["ACE", "Edge-guided Generation", "l1_canny"] == pytest.approx(1 - 0.091)
    assert max(v for (_, task, metric), v in cells.items() if metric == "l1_raw") < 0.5, "those stay distances"


def test_derived_scores_are_told_from_printed_ones() -> None:
    assert {p.table for p in published() if p.metric == "score"} == {DERIVED}
    assert len(published()) == 714 + 139


def test_table_2_agrees_with_the_printed_means_but_for_three_cells() -> None:
    there = {model: {int(v.slice["number"]) for v in printed() if v.label == model} for model in SUPPORTED}
    assert {model: there[model] - SUPPORTED[model] for model in there if there[model] - SUPPORTED[model]} == {
        "ACE++": {2, 4},
        "UltraEdit": {18},
    }
    assert [model for model in there if SUPPORTED[model] - there[model]] == []


def test_a_dash_of_table_2_is_said_of_the_model_that_is_called_so_and_of_no_other() -> None:
    cases = [case for case in cases_of_tasks() if case.groups["number"] in ("1", "2", "17")]
    gone = Failure(kind="missing_output")
    outputs = [Output(case=cases[0].id, model=name, failure=gone) for name in ("ace", "ACE_++", "mine", "ip adapter")]
    assert notes(cases, outputs) == [
        "ACE_++: not supported by ACE++, says the paper's Table 2: Text-to-Image Creating, Face Reference Creating",
        "ip adapter: not supported by IP-Adapter, says the paper's Table 2: Text-to-Image Creating, Inpainting",
    ]
