"""Scores to the table: formulas on task means, means over tasks, what is there and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import refbench
from refbench import Failure, Score
from refbench.benchmarks import benchmark
from refbench.benchmarks.icebench.cases import not_applicable
from refbench.benchmarks.icebench.tasks import DIMENSIONS, PARTS, TASKS
from refbench.case import AnyCase
from refbench.failure import FailureKind
from refbench.tables.table import Row, tabulate
from support.icebench import Item, every_task, write_dataset

Value = Callable[[AnyCase, str], float | FailureKind]


def cases_of(root: Path, items: Sequence[Item]) -> list[AnyCase]:
    return list(refbench.load("icebench", write_dataset(root, items)).cases)


def table(cases: Sequence[AnyCase], value: Value, protocol: str = "corrected", *, draws: int = 0) -> list[Row]:
    scores = []
    for case in cases:
        away = not_applicable(case)
        for part in PARTS:
            said = None if part in away else value(case, part)
            scores.append(
                Score(
                    case=case.id,
                    model="m",
                    metric=part,
                    protocol=protocol,
                    value=said if isinstance(said, int | float) else None,
                    failure=Failure(kind=said) if isinstance(said, str) else None,
                    not_applicable=away.get(part),
                )
            )
    return tabulate(protocol, benchmark("icebench").scoring.protocols[protocol].aggregate, scores, cases, draws=draws)


def row(rows: Sequence[Row], metric: str = "score", **where: str) -> Row:
    (found,) = [
        r for r in rows if r.metric == metric and all(r.slice.get(name) == value for name, value in where.items())
    ]
    return found


def fixed(values: Mapping[str, float | FailureKind], default: float | FailureKind = "not_measured") -> Value:
    return lambda case, part: values.get(part, default)


VALUES: dict[str, float | FailureKind] = {
    "aes": 6.0,
    "img": 70.0,
    "clip_cap": 0.3,
    "clip_src": 0.9,
    "l1_raw": 0.2,
    "clip_ref": 0.11,
    "dino_ref": 0.8,
    "style_ref": 0.5,
    "face_ref": 0.4,
    "l1_pose": 0.99,
    "l1_canny": 0.9,
    "l1_depth": 0.85,
    "l1_colorize": 0.95,
    "colorfulness": 0.25,
    "ssim": 0.75,
    "qa": 0.5,
}
SC = (0.9 + 1 - 0.2) / 2
PF_QA = (2 * 0.3 + 0.5) / 2


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
@pytest.mark.parametrize(
    ("task", "score"),
    [
        ("Text-to-Image Creating", (0.6 + 0.7 + 0.6) / 3),
        ("Face Reference Creating", (0.6 + 0.7 + 0.6 + 0.4) / 4),
        ("Style Reference Creating", (0.6 + 0.7 + 0.6 + 0.5) / 4),
        ("Subject Reference Creating", (0.6 + 0.7 + 0.6 + 0.8) / 4),
        ("Color Editing", 0.3 * 0.6 + 0.3 * 0.7 + 0.3 * PF_QA + 0.1 * SC),
        ("Local Text Removal", 0.3 * 0.6 + 0.3 * 0.7 + 0.3 * PF_QA + 0.1 * SC),
        ("Pose-guided Generation", 0.3 * 0.6 + 0.3 * 0.7 + 0.2 * 0.6 + 0.2 * 0.99),
        ("Edge-guided Generation", 0.3 * 0.6 + 0.3 * 0.7 + 0.2 * 0.6 + 0.2 * 0.9),
        ("Depth-guided Generation", 0.3 * 0.6 + 0.3 * 0.7 + 0.2 * 0.6 + 0.2 * 0.85),
        ("Image Colorization", 0.3 * 0.6 + 0.3 * 0.7 + 0.2 * (0.75 * 0.6 + 0.25 * 0.25) + 0.2 * 0.95),
        ("Image Deblurring", 0.3 * 0.6 + 0.3 * 0.7 + 0.2 * 0.7 + 0.2 * 0.75),
        ("Style Transfer", 0.25 * 0.6 + 0.25 * 0.7 + 0.2 * PF_QA + 0.2 * 0.5 + 0.1 * SC),
        ("Virtual Try On", 0.25 * 0.6 + 0.25 * 0.7 + 0.2 * PF_QA + 0.2 * 0.8 + 0.1 * SC),
        ("Face Swap", 0.25 * 0.6 + 0.25 * 0.7 + 0.2 * PF_QA + 0.2 * 0.4 + 0.1 * SC),
    ],
)
def test_the_formula_of_each_task(tmp_path: Path, task: str, score: float, protocol: str) -> None:
    rows = table(cases_of(tmp_path, [Item(task)]), fixed(VALUES), protocol)
    assert row(rows, level="task", task=task).value == pytest.approx(score, abs=1e-8)
    assert row(rows, level="overall").value == pytest.approx(score, abs=1e-8)


def test_a_similarity_to_a_control_map_is_not_turned_round_again(tmp_path: Path) -> None:
    """l1_raw is a distance and the other l1 parts are similarities: each is taken as it is stored."""
    cases = cases_of(tmp_path, [Item("Pose-guided Generation"), Item("Color Editing")])
    rows = table(cases, fixed(VALUES))
    assert row(rows, "controllability", level="task", number="23").value == pytest.approx(0.99)
    assert row(rows, "source_consistency", level="task", number="5").value == pytest.approx(SC)


def test_metrics_are_averaged_before_the_formula_and_tasks_weigh_the_same(tmp_path: Path) -> None:
    items = [Item("Text-to-Image Creating", n) for n in range(3)] + [Item("Image Deblurring")]
    cases = cases_of(tmp_path, items)
    aes = {items[0].id: 2.0, items[1].id: 4.0, items[2].id: 6.0, items[3].id: 8.0}
    rows = table(cases, lambda case, part: aes[case.id] if part == "aes" else VALUES.get(part, 0.0))
    assert row(rows, "aes", level="task", number="1").value == 4
    assert row(rows, "aesthetic", level="overall").value == pytest.approx((0.4 + 0.8) / 2), "not the mean over items"


def test_slices_are_those_of_the_benchmark(tmp_path: Path) -> None:
    rows = table(cases_of(tmp_path, every_task()), fixed(VALUES, 0.5))
    found: dict[str, list[str]] = {}
    for r in rows:
        if r.metric == "score":
            found.setdefault(r.slice["level"], []).append(r.slice.get(r.slice["level"], ""))
    assert found["kind"] == ["Creating", "Editing"]
    assert found["reference"] == ["No-reference", "Reference"]
    assert found["scope"] == ["Controllable", "Global", "Local"]
    assert found["source_type"] == ["Generated Image", "Real Image"]
    assert found["region"] == ["no", "yes"]
    assert found["task"] == list(TASKS)
    assert {r.metric for r in rows if r.slice["level"] == "overall"} >= {*DIMENSIONS, *PARTS, "score", "partial"}


def test_a_dimension_of_a_model_is_the_mean_over_the_tasks_that_have_it(tmp_path: Path) -> None:
    rows = table(cases_of(tmp_path, every_task(1)), fixed(VALUES, 0.5))
    control = [0.99, 0.9, 0.85, 0.95, 0.75]
    assert row(rows, "controllability", level="overall").value == pytest.approx(np.mean(control), abs=1e-8)
    assert row(rows, "controllability", level="scope", scope="Controllable").value == pytest.approx(np.mean(control))
    reference = [0.4, 0.5, 0.8, 0.5, 0.8, 0.8, 0.4]
    assert row(rows, "reference_consistency", level="overall").value == pytest.approx(np.mean(reference), abs=1e-8)


def test_a_measure_has_rows_only_where_it_applies(tmp_path: Path) -> None:
    rows = table(cases_of(tmp_path, every_task(1)), fixed(VALUES, 0.5))
    tasks = {r.slice["task"] for r in rows if r.metric == "face_ref" and r.slice["level"] == "task"}
    assert tasks == {"Face Reference Creating", "Face Swap"}
    assert not [r for r in rows if r.metric == "reference_consistency" and r.slice.get("scope") == "Global"]
    assert all(r.n_expected > 0 for r in rows)
    assert row(rows, "face_ref", level="overall").n_expected == 2


def test_the_score_is_last_and_only_corrected_has_a_partial_one() -> None:
    protocols = benchmark("icebench").scoring.protocols
    assert [m.name for m in protocols["corrected"].aggregate.measures][-2:] == ["partial", "score"]
    names = [m.name for m in protocols["paper"].aggregate.measures]
    assert names[-1] == "score"
    assert "partial" not in names


# --- what is missing -----------------------------------------------------------------------------------------


def test_a_task_has_a_score_only_when_every_part_is_there_and_the_remark_names_the_others(tmp_path: Path) -> None:
    there = {"l1_raw": 0.2, "qa": 1.0}
    rows = table(cases_of(tmp_path, [Item("Color Editing")]), fixed(there))
    score = row(rows, level="task")
    assert score.value is None
    assert "missing aes, img, clip_cap, clip_src" in (score.remark or "")
    assert (score.n_expected, score.n_scored, score.failures) == (1, 0, {"not_measured": 1})


def test_partial_is_the_score_of_what_is_there_with_the_weights_shared_out(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, [Item("Color Editing")])
    partial = row(table(cases, fixed({"l1_raw": 0.2, "qa": 1.0})), "partial", level="task")
    assert partial.value == pytest.approx((0.3 * 1.0 + 0.1 * (1 - 0.2)) / 0.4)
    assert "without aes, img, clip_cap, clip_src" in (partial.remark or "")
    assert (partial.n_expected, partial.n_scored, partial.failures) == (1, 1, {})
    whole = table(cases, fixed(VALUES, 0.5))
    assert row(whole, "partial", level="task").value == row(whole, level="task").value


def test_a_metric_keeps_its_weight_in_a_partial_score(tmp_path: Path) -> None:
    """Colours alone are a quarter of a dimension, and do not become all of it when the caption is missing."""
    cases = cases_of(tmp_path, [Item("Image Colorization")])
    partial = row(table(cases, fixed({"colorfulness": 1.0, "l1_colorize": 0.8})), "partial", level="task")
    assert partial.value == pytest.approx((0.2 * 0.25 * 1.0 + 0.2 * 0.8) / 0.25)


def test_partial_says_nothing_where_nothing_is_there(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, [Item("Color Editing"), Item("Image Deblurring")])
    rows = table(cases, fixed({"ssim": 0.8}))
    assert row(rows, "partial", level="task", number="5").value is None
    overall = row(rows, "partial", level="overall")
    assert overall.value == pytest.approx(0.8)
    assert (overall.n_expected, overall.n_scored) == (2, 1)
    assert "nothing scored in Color Editing" in (overall.remark or "")
    assert "without aes (tasks: 1), img (tasks: 1)" in (overall.remark or "")


def test_overall_says_that_tasks_are_missing_where_the_released_code_does_not(tmp_path: Path) -> None:
    rows = table(cases_of(tmp_path, [Item("Color Editing")]), fixed(VALUES, 0.5), "paper")
    assert "30 of the 31 tasks are not in the data" in (row(rows, level="overall").remark or "")
    complete = table(cases_of(tmp_path / "all", every_task(1)), fixed(VALUES, 0.5))
    assert "tasks" not in (row(complete, level="overall").remark or "")


def test_a_model_with_outputs_for_some_tasks_is_averaged_over_those_and_the_others_are_named(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, [Item("Color Editing"), Item("Image Deblurring"), Item("Face Swap")])
    rows = table(
        cases,
        lambda case, part: VALUES.get(part, 0.5) if case.groups["number"] == "27" else "missing_output",
    )
    overall = row(rows, level="overall")
    assert overall.value == row(rows, level="task", number="27").value
    assert "nothing scored in Color Editing, Face Swap" in (overall.remark or "")
    assert overall.failures == {"missing_output": 2}


def test_laptop_columns_change_no_score_and_no_dimension(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, every_task(1))
    low, high = (table(cases, fixed(VALUES, value)) for value in (0.1, 0.9))
    for name in ("score", "partial", *DIMENSIONS):
        assert [r.value for r in low if r.metric == name] == [r.value for r in high if r.metric == name]
    assert row(low, "face_ref@dlib_face", level="overall").value == pytest.approx(0.1)


def test_clip_ref_is_computed_and_never_scored(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, [Item("Face Reference Creating")])
    first, second = (table(cases, fixed({**VALUES, "clip_ref": value}, 0.5)) for value in (0.1, 0.9))
    assert row(first, level="task").value == row(second, level="task").value
    without = table(cases, fixed({**VALUES, "clip_ref": "undefined"}, 0.5))
    assert row(without, level="task").value == row(first, level="task").value


def test_no_face_is_zero_in_paper_and_a_failure_in_corrected(tmp_path: Path) -> None:
    cases = cases_of(tmp_path, [Item("Face Swap", n) for n in range(2)])
    first = cases[0].id

    def value(case: AnyCase, part: str) -> float | FailureKind:
        return "no_detection" if part == "face_ref" and case.id == first else VALUES.get(part, 0.5)

    paper = row(table(cases, value, "paper"), "face_ref", level="task")
    assert (paper.value, paper.n_imputed, paper.failures) == (pytest.approx(0.2), 1, {"no_detection": 1})
    corrected = row(table(cases, value), "face_ref", level="task")
    assert (corrected.value, corrected.n_imputed, corrected.n_scored) == (pytest.approx(0.4), 0, 1)


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_an_undefined_distance_never_becomes_a_number(tmp_path: Path, protocol: str) -> None:
    """The released code takes 0/0 under a mask that covers everything, and the task's mean is lost with it."""
    cases = cases_of(tmp_path, [Item("Inpainting", n) for n in range(2)])
    first = cases[0].id

    def value(case: AnyCase, part: str) -> float | FailureKind:
        return "undefined" if part == "l1_raw" and case.id == first else VALUES.get(part, 0.5)

    rows = table(cases, value, protocol)
    distance = row(rows, "l1_raw", level="task")
    assert (distance.value, distance.n_scored, distance.failures) == (0.2, 1, {"undefined": 1})
    assert distance.bounds == (pytest.approx(0.1), pytest.approx(0.6))
    assert row(rows, level="task").value is not None


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_coverage_adds_up_and_values_lie_within_bounds_and_intervals(tmp_path: Path, protocol: str) -> None:
    cases = cases_of(tmp_path, every_task(2))
    rng = np.random.default_rng(3)
    kinds: tuple[FailureKind, ...] = ("undefined", "not_measured", "no_detection", "missing_reply")
    drawn = {
        (case.id, part): kinds[int(rng.integers(4))] if rng.random() < 0.1 else float(rng.random())
        for case in cases
        for part in PARTS
    }
    rows = table(cases, lambda case, part: drawn[case.id, part], protocol, draws=200)
    for r in rows:
        assert r.n_expected == r.n_scored + sum(r.failures.values())
        if r.bounds is not None and r.value is not None:
            assert r.bounds[0] - 1e-9 <= r.value <= r.bounds[1] + 1e-9
        if r.ci95 is not None and r.value is not None:
            assert r.ci95[0] <= r.value <= r.ci95[1]
    assert row(rows, level="overall").ci95 is not None
    assert row(rows, level="overall").bounds is None, "parts without a range, and a distance among them"
    assert row(rows, "controllability", level="overall").bounds is not None


def test_a_column_that_failed_everywhere_is_no_number(tmp_path: Path) -> None:
    rows = table(cases_of(tmp_path, every_task(1)), fixed({}, "not_measured"), draws=50)
    assert {r.value for r in rows} == {None}
    assert row(rows, level="overall").failures == {"not_measured": 31}
