"""What judges are worth on the test part: by other libraries' figures, beside people and a constant, and as gates."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from refbench.builders.filter_judge.asking import Judged
from refbench.builders.filter_judge.dataset import FilterSet, write_set
from refbench.builders.filter_judge.gate import Cuts, Gate
from refbench.builders.filter_judge.report import CONSTANT, EVERYTHING, PEOPLE, area, report_of
from refbench.failure import Failure
from support.commands import called
from support.filter_marks import write_marks
from support.judge_server import JudgeServer

CUTS = {"caption": Cuts(n=99, keep=4, drop=1)}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> FilterSet:
    root = tmp_path_factory.mktemp("marked")
    write_set(write_marks(root, 160, raters=3), root / "pictures", root / "set")
    return FilterSet(root / "set")


def noisy(held: FilterSet) -> Judged:
    """Whole marks near people's, and one reference without any."""
    rng = np.random.default_rng(0)
    said = {
        s.id: {axis: float(np.clip(round(mean + rng.normal(0, 0.8)), 1, 5)) for axis, mean in s.means().items()}
        for s in held.part("test")
    }
    lost = next(s.id for s in held.part("test") if s.type == "caption")
    del said[lost]
    gate = Gate(judge="x", model="x", parameters={}, prompts={}, set_sha256=held.sha256, cuts=CUTS)
    return Judged("noisy", said, {lost: Failure(kind="refused")}, gate)


def test_figures_are_those_of_scipy_and_of_plain_arithmetic(held: FilterSet) -> None:
    judged = noisy(held)
    report = report_of(held, [judged], draws=200)
    row = next(r for r in report.agreement if (r.type, r.axis, r.judge) == ("canny", "quality", "noisy"))
    samples = [s for s in held.part("test") if s.type == "canny"]
    x = [judged.said[s.id]["quality"] for s in samples]
    y = [float(np.mean([*s.marks["quality"].values()])) for s in samples]
    assert row.n == len(samples) == 16
    assert row.pearson.value == pytest.approx(stats.pearsonr(x, y).statistic)
    assert row.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert row.mae.value == pytest.approx(np.mean(np.abs(np.array(x) - y)))
    assert row.mae.interval is not None
    assert row.mae.interval[0] < row.mae.value < row.mae.interval[1]


def test_people_stand_beside_each_other_and_a_constant_beside_the_judge(held: FilterSet) -> None:
    rows = {r.judge: r for r in report_of(held, [noisy(held)], draws=200).agreement if r.type == "caption"}
    samples = [s for s in held.part("test") if s.type == "caption"]
    gaps = [
        abs(mark - np.mean([m for other, m in by.items() if other != rater]))
        for s in samples
        for by in [s.marks["alignment"]]
        for rater, mark in by.items()
    ]
    assert rows[PEOPLE].mae.value == pytest.approx(np.mean(gaps))
    trained = [s.means()["alignment"] for s in held.part("train") if s.type == "caption" and not s.made]
    level = np.mean(trained)
    assert rows[CONSTANT].mae.value == pytest.approx(np.mean([abs(level - s.means()["alignment"]) for s in samples]))
    assert (rows[CONSTANT].pearson.value, rows[CONSTANT].p_constant) == (None, None)
    assert rows["noisy"].n == len(samples) - 1, "a reference without a mark has none"
    assert rows["noisy"].p_constant is not None
    assert rows["noisy"].p_constant < 0.05


def test_a_gate_is_judged_by_what_it_keeps(held: FilterSet) -> None:
    judged = noisy(held)
    rows = {(r.type, r.at): r for r in report_of(held, [judged], draws=0).gates}
    row = rows["caption", "cuts"]
    samples = [s for s in held.part("test") if s.type == "caption"]
    good = {s.id for s in samples if s.means()["alignment"] >= 3}
    kept = {s.id for s in samples if judged.said.get(s.id, {"alignment": 0})["alignment"] >= 4}
    assert (row.n, row.good, row.kept) == (16, len(good), len(kept))
    assert row.precision == pytest.approx(len(good & kept) / len(kept))
    assert row.recall == pytest.approx(len(good & kept) / len(good))
    assert row.kept + row.dropped + row.to_people == 16
    assert row.to_people >= 1, "what has no mark goes to people"
    low = stats.binomtest(len(good & kept), len(kept), alternative="greater").proportion_ci(0.95, "exact").low
    assert row.precision_bound == pytest.approx(low, abs=1e-9)
    assert (rows["canny", "cuts"].kept, rows["canny", "cuts"].to_people) == (0, 16), "no cut: all go to people"
    assert rows[EVERYTHING, "3"].n == 32


def test_the_area_is_that_of_mann_and_whitney() -> None:
    rng = np.random.default_rng(1)
    score, good = rng.integers(1, 6, 60).astype(float), rng.random(60) < 0.6
    u = stats.mannwhitneyu(score[good], score[~good]).statistic
    assert area(score, good) == pytest.approx(u / (good.sum() * (~good).sum()))
    assert area(score, np.ones(60, bool)) is None


def test_the_command_reports_two_judges_and_writes_marks_that_agree_reads(
    held: FilterSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def reply(text: str) -> str:
        axes = re.findall(r'"(alignment|quality)"', text)
        return json.dumps({axis: 1 + len(text) * 7 % 5 for axis in axes})

    with JudgeServer(reply=reply) as server:
        specs = [f"{name}=openai:{name}?base_url={server.url}/v1" for name in ("one", "two")]
        code, out, _ = called("calibrate", held.root, "--judge", specs[0], "--out", tmp_path / "judge")
        assert code == 0
        words = ["filter", "test", held.root, tmp_path / "judge", specs[1], "--out", tmp_path / "report"]
        code, out, err = called(*words)
        asked = len(server.requests)
        assert (code, called(*words, "--json")[0], len(server.requests)) == (0, 0, asked)
    assert all(word in out for word in (PEOPLE, CONSTANT, "one", "two", "precision"))
    report = json.loads((tmp_path / "report" / "report.json").read_bytes())
    assert report["failed"] == {"one": 0, "two": 0}
    rows = list(csv.DictReader((tmp_path / "report" / "marks.csv").read_text().splitlines()))
    assert {row["rater"] for row in rows} == {"r0", "r1", "r2", "one", "two"}
    code, out, err = called("agree", tmp_path / "report" / "marks.csv", "--level", "item", "--scale", "same")
    assert (code, "one" in out) == (0, True), err


def test_a_gate_of_another_set_is_refused(held: FilterSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    other = write_set(write_marks(tmp_path, 40), tmp_path / "pictures", tmp_path / "set")
    assert other["seed"] == 0
    with JudgeServer(reply=lambda text: '{"alignment": 4, "quality": 4}') as server:
        spec = f"one=openai:one?base_url={server.url}/v1"
        called("calibrate", tmp_path / "set", "--judge", spec, "--out", tmp_path / "judge")
        code, _, err = called("filter", "test", held.root, tmp_path / "judge", "--out", tmp_path / "report")
    assert (code, "was calibrated on another set" in err) == (2, True)
