"""The papers' tables of agreement, each one command on data of that shape."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclopts import App
from scipy import stats as scipy_stats

from refbench.cli.agree import agree_command

Agree = Callable[..., dict[str, Any]]

SIX_POINTS = """model,Aesthetic,VIEScore,EditScore,CREval-Qwen3-VL,CREval-GPT4o,Human
Bagel,5.56,6.02,7.28,72.59,68.99,49.98
FLUX.1-Kontext [dev],5.81,7.17,7.36,80.38,75.05,51.77
Qwen-Image-Edit,5.82,6.83,7.97,83.02,79.18,63.49
GPT-Image-1,6.05,6.73,8.21,83.15,78.01,63.21
Gemini 2.5 Flash Image,5.77,7.39,7.92,87.14,81.78,66.14
Seedream 4.0,5.88,7.49,8.13,88.47,84.31,72.01
"""


@pytest.fixture
def agree(capsys: pytest.CaptureFixture[str]) -> Agree:
    """Run the command; what it prints as JSON."""
    app = App(default_command=agree_command)

    def run(*words: object) -> dict[str, Any]:
        assert app([*map(str, words), "--json"], result_action="return_value") == 0
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        return said

    return run


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def find(said: dict[str, Any], **wanted: object) -> list[dict[str, Any]]:
    return [row for row in said["rows"] if all(row[key] == value for key, value in wanted.items())]


def noisy(rng: np.random.Generator, truth: np.ndarray, spread: float, low: int = 1, high: int = 5) -> np.ndarray:
    return np.clip(np.round(truth + rng.normal(0, spread, len(truth))), low, high)


def test_creval_table_3_gives_the_coefficients_that_the_paper_does_not_print(agree: Agree, tmp_path: Path) -> None:
    (tmp_path / "table3.csv").write_text(SIX_POINTS)
    said = agree(tmp_path / "table3.csv", "--level", "system")
    assert said["humans"] == ["Human"]
    wanted = {  # measured from the printed points, shared/spec/creval.md B8
        "CREval-GPT4o": (0.948, 1.0, 1.0),
        "CREval-Qwen3-VL": (0.913, 0.943, 0.867),
        "EditScore": (0.908, 0.600, 0.467),
        "VIEScore": (0.677, 0.829, 0.733),
        "Aesthetic": (0.570, 0.429, 0.333),
    }
    for judge, figures in wanted.items():
        (row,) = find(said, first=judge, second="Human")
        assert row["n"] == 6
        found = [row[name]["value"] for name in ("pearson", "spearman", "kendall")]
        assert found == pytest.approx(figures, abs=5e-4)
        assert row["pearson"]["ci95"] is None, "six means hold no cases to resample"
        assert row["mse"] is None
        assert "--scale" in row["missing"]["mse"]


def test_multiref_table_4_has_a_row_for_each_judge_axis_and_split_and_a_human_human_row(
    agree: Agree, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    spreads = {"Gemini-2.0-Flash": 1.6, "GPT-4o-mini": 1.2, "GPT-4o": 1.0, "human 1": 0.8, "human 2": 0.8}
    rows, kept = [], {}
    for split in ("real-world", "synthetic"):
        for axis in ("IQ", "IF", "SF"):
            truth = rng.uniform(1, 5, 60)
            marks = {rater: noisy(rng, truth, spread) for rater, spread in spreads.items()}
            kept[split, axis] = marks
            rows += [(f"{split} {i}", split, axis, *(m[i] for m in marks.values())) for i in range(60)]
    path = write(tmp_path / "scores.csv", ["case", "split", "metric", *spreads], rows)
    said = agree(path, "--level", "item", "--by", "split", "--scale", "same", "--draws", 60)
    assert said["humans"] == ["human 1", "human 2"]
    for (split, axis), marks in kept.items():
        people = (marks["human 1"] + marks["human 2"]) / 2
        for judge in ("Gemini-2.0-Flash", "GPT-4o-mini", "GPT-4o"):
            (row,) = find(said, first=judge, second="mean of 2 humans", metric=axis, group=f"split={split}")
            assert row["n"] == 60
            assert row["pearson"]["value"] == pytest.approx(scipy_stats.pearsonr(marks[judge], people)[0])
            assert row["spearman"]["value"] == pytest.approx(scipy_stats.spearmanr(marks[judge], people)[0])
            assert row["mse"]["value"] == pytest.approx(np.mean((marks[judge] - people) ** 2))
            assert row["mae"]["value"] == pytest.approx(np.mean(np.abs(marks[judge] - people)))
            assert row["pearson"]["ci95"][0] < row["pearson"]["value"] < row["pearson"]["ci95"][1]
        (row,) = find(said, kind="human-pairs", metric=axis, group=f"split={split}")
        assert row["pearson"]["value"] == pytest.approx(scipy_stats.pearsonr(marks["human 1"], marks["human 2"])[0])
        (row,) = find(said, kind="humans", metric=axis, group=f"split={split}")
        assert row["alpha"]["value"] > 0.4


def test_multibanana_table_4_has_pearson_spearman_and_kappa_of_stated_bins(agree: Agree, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    truth = rng.uniform(1, 10, 32)
    raters = {
        name: noisy(rng, truth, 1.5, 1, 10)
        for name in ("GPT-5", "Gemini 2.5", "Qwen3-VL", "human_1", "human_2", "human_3")
    }
    rows = [(i, *(marks[i] for marks in raters.values())) for i in range(32)]
    path = write(tmp_path / "scores.csv", ["sample", *raters], rows)
    said = agree(path, "--level", "item", "--scale", "1-10:1-10", "--bins", 3, "--draws", 60)
    people = np.mean([raters[f"human_{n}"] for n in (1, 2, 3)], axis=0)
    for judge in ("GPT-5", "Gemini 2.5", "Qwen3-VL"):
        (row,) = find(said, first=judge, kind="judge-human")
        assert row["second"] == "mean of 3 humans"
        assert row["bins"] == "3 equal bins of 1 to 10"
        assert row["spearman"]["value"] == pytest.approx(scipy_stats.spearmanr(raters[judge], people)[0])
        first, second = np.digitize(raters[judge], [4, 7]), np.digitize(people, [4, 7])
        chance = sum(np.mean(first == c) * np.mean(second == c) for c in range(3))
        assert row["kappa"]["value"] == pytest.approx((np.mean(first == second) - chance) / (1 - chance))
    assert len(find(said, kind="human-human")) == 3
    assert {row["first"] for row in find(said, kind="human-others")} == {"human_1", "human_2", "human_3"}
    (mean,) = find(said, kind="human-pairs")
    pairs = [row["pearson"]["value"] for row in find(said, kind="human-human")]
    assert mean["pearson"]["value"] == pytest.approx(np.mean(pairs))


def test_multibanana_table_9_is_the_mean_over_ten_parts_with_students_interval(agree: Agree, tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    metrics = ("instruction_alignment", "reference_consistency", "total")
    rows = []
    for metric in metrics:
        for model in ("Nano Banana", "GPT-Image-1"):
            truth = rng.uniform(1, 10, 120)
            gpt, gemini = noisy(rng, truth, 2, 1, 10), noisy(rng, truth, 2, 1, 10)
            rows += [(i, model, metric, gpt[i], gemini[i]) for i in range(120)]
    path = write(tmp_path / "scores.csv", ["case", "model", "metric", "gpt-5", "gemini-2.5"], rows)
    said = agree(path, "--level", "item", "--partitions", 10, "--scale", "same")
    plain = agree(path, "--level", "item", "--scale", "same", "--draws", 0)
    for metric in metrics:
        (row,) = find(said, metric=metric)
        (whole,) = find(plain, metric=metric)
        assert (row["first"], row["second"], row["n"]) == ("gpt-5", "gemini-2.5", 240)
        assert row["pearson"]["value"] == pytest.approx(whole["pearson"]["value"], abs=0.03)
        low, high = row["pearson"]["ci95"]
        assert low + high == pytest.approx(2 * row["pearson"]["value"])
        assert 0.005 < high - low < 0.15


def test_multibanana_table_10_is_the_standard_error_over_three_seeds_by_references(
    agree: Agree, tmp_path: Path
) -> None:
    rng = np.random.default_rng(10)
    rows, means = [], {}
    for n_refs in range(3, 9):
        marks = rng.uniform(1, 10, (3, 20))
        means[n_refs] = marks.mean(axis=1)
        rows += [
            (f"{n_refs}/{i}", n_refs, "Nano Banana", seed, "mean", marks[seed, i])
            for seed in range(3)
            for i in range(20)
        ]
    path = write(tmp_path / "scores.csv", ["case", "n_refs", "model", "seed", "judge", "score"], rows)
    said = agree(path, "--repeats", "seed", "--by", "n_refs")
    assert said["rows"] == []
    found = {row["group"]: row for row in said["steadiness"]}
    for n_refs, of_seed in means.items():
        row = found[f"n_refs={n_refs}"]
        assert row["standard_error"] == pytest.approx(scipy_stats.sem(of_seed))
        assert (row["repeats"], row["n_items"]) == (3, 20)


def test_idea_bench_table_11_counts_questions_without_an_answer(agree: Agree, tmp_path: Path) -> None:
    asked = {"FLUX-1": 306, "DALL-E 3": 306, "SD3": 306, "Pixart": 306, "InstructPix2Pix": 30, "MagicBrush": 30, "Emu2": 150, "OmniGen": 150}  # fmt: skip
    failed = {"Gemini 1.5 pro": (1, 5, 6, 0, 0, 0, 1, 2), "GPT-4o": (160, 167, 162, 174, 5, 8, 81, 80)}
    printed = {"Gemini 1.5 pro": (0.33, 1.63, 1.96, 0, 0, 0, 0.67, 1.33, 0.95), "GPT-4o": (52.29, 54.58, 52.95, 56.86, 16.67, 26.67, 54.0, 53.33, 52.84)}  # fmt: skip
    rows = [
        (f"question {i}", model, judge, "" if i < bad else i % 2)
        for judge, counts in failed.items()
        for (model, n), bad in zip(asked.items(), counts, strict=True)
        for i in range(n)
    ]
    path = write(tmp_path / "answers.csv", ["case", "model", "judge", "score"], rows)
    said = agree(path, "--failures", "--draws", 0)
    for judge, rates in printed.items():
        found = [row["rate"] for row in said["failures"] if row["judge"] == judge]
        assert found == pytest.approx(rates, abs=0.011), "the paper prints 162/306 as 52.95"


def test_idea_bench_table_12_is_a_correlation_over_models_within_each_category(agree: Agree, tmp_path: Path) -> None:
    # Human and judge figures of the project's page for text to image; other cases than the paper's Table 12.
    people = {"FLUX-1": 46.06, "SD3": 24.04, "DALL-E 3": 24.34, "Pixart": 14.44, "Emu2": 17.98, "OmniGen": 21.41}
    judge = {"FLUX-1": 83.33, "SD3": 56.30, "DALL-E 3": 55.56, "Pixart": 26.30, "Emu2": 35.80, "OmniGen": 46.30}
    rows = [(model, "T2I", people[model], judge[model], 1 + i) for i, model in enumerate(people)]
    rows += [(model, "I2I", people[model], -judge[model], 2 * i) for i, model in enumerate(people)]
    path = write(tmp_path / "scores.csv", ["model", "category", "human", "Gemini-1.5-pro", "Gemini-1.5-flash"], rows)
    said = agree(path, "--level", "system", "--by", "category")
    (row,) = find(said, first="Gemini-1.5-pro", second="human", group="category=T2I")
    x, y = list(judge.values()), list(people.values())
    assert row["n"] == 6
    assert row["spearman"]["value"] == pytest.approx(scipy_stats.spearmanr(x, y)[0])
    assert row["pearson"]["value"] == pytest.approx(scipy_stats.pearsonr(x, y)[0])
    (opposite,) = find(said, first="Gemini-1.5-pro", second="human", group="category=I2I")
    assert opposite["pearson"]["value"] == pytest.approx(-row["pearson"]["value"])
    assert len(find(said, first="Gemini-1.5-flash", second="human")) == 3
