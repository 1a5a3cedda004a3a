"""Published numbers: beside a table only where they are the same measurement, and every table says what it is."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.benchmarks.multibanana.cases import CRITERIA, TASKS, MultiBananaCase, MultiBananaDetails
from refbench.case import Request
from refbench.record import RefBenchError
from refbench.report import print_result, to_csv, to_json, to_markdown
from refbench.report.latex.write import to_latex
from refbench.score import Score
from refbench.tables.result import Result
from refbench.tables.scoring import Origin, result_of
from support.multibanana import every_task

HEADING = "published, with the official wording"
OWN = {"prompts": "own"}


def creval(settings: dict[str, str] | None = None, *, judge: str = "gpt-4o", subset: str | None = "paper874") -> Result:
    """Released scores of one model; with settings, as if a judge had given them in a run of one's own."""
    cases, scores = released_scores(subset)
    mine = [score.model_copy(update={"judge": judge}) for score in scores if score.model == "Bagel"]
    asked = {judge: {"model": judge, "parameters": {}}} if settings is not None else None
    return result_of(benchmark("creval"), cases, mine, Origin(subset, settings or {}, asked or {}), draws=0)


def multibanana(settings: dict[str, str], judge: str) -> Result:
    cases = [
        MultiBananaCase(
            id=s.id,
            request=Request(instruction=""),
            groups={"group": TASKS[s.task_dir].group, "task": s.task_dir, "n_refs": str(s.n_refs), "source": s.source},
            cluster=s.id,
            stratum=s.task_dir,
            details=MultiBananaDetails(task_dir=s.task_dir, number=s.number),
        )
        for s in every_task()
    ]
    scores = [
        Score(case=case.id, model="mine", judge=judge, metric=criterion, protocol=protocol, value=7.0)
        for protocol in ("corrected", "paper")
        for case in cases
        for criterion in CRITERIA
    ]
    asked = {judge: {"model": judge, "parameters": {}}}
    return result_of(benchmark("multibanana"), cases, scores, Origin(None, settings or {}, asked or {}), draws=0)


def test_a_benchmark_whose_replies_cannot_be_imported_has_no_official_wording(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A judge who could not be asked anything has left no record of being asked, as imported replies have none."""
    bench = benchmark("creval")
    outside = replace(bench, asking=replace(bench.asking, import_replies=None))
    result = replace(creval(), bench=outside)
    assert result.wording == "the benchmark's wording"
    assert "official wording" not in shown(result, capsys).splitlines()[0]


def shown(result: Result, capsys: pytest.CaptureFixture[str], by: str = "overall") -> str:
    print_result(result, by=by)
    return capsys.readouterr().out


def test_marks_under_our_own_rubric_have_no_published_numbers_beside_them(capsys: pytest.CaptureFixture[str]) -> None:
    result = multibanana(OWN, "GPT-5")
    assert result.published() == []
    printed = shown(result, capsys, by="group")
    lines = [line for line in printed.splitlines() if "Nano Banana 7.817" in line]
    assert lines
    said = f"judge mean(GPT-5,Gemini-2.5) and all cases ({len(result.cases)} of 3769 here)"
    head = f"{HEADING}, {said}: not the same measurement (Table 3 of "
    assert all(line.startswith(head) for line in lines)
    assert not any(line.startswith("published:") for line in printed.splitlines())


def test_the_same_judge_in_other_words_is_not_the_same_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    same, own = creval(), creval(OWN)
    assert "published" in shown(same, capsys).splitlines()[2]
    assert {value.label for value in same.published()} == {"Bagel"}
    assert own.published() == []
    printed = shown(own, capsys)
    assert "published" not in printed.splitlines()[2]
    assert f"{HEADING}: not the same measurement (Table S1 of arXiv 2603.26174, judge GPT-4o): Bagel 68.82" in printed


@pytest.mark.parametrize(
    ("result", "differs"),
    [
        (creval({"prompts": "official"}), ""),
        (creval({"prompts": "official", "questions": "one"}), "the official wording"),
        (creval({"prompts": "official", "max_side": "512"}), "the official wording"),
        (creval(judge="strict"), "judge GPT-4o"),
        (creval(subset=None), "subset paper874"),
        (creval({"prompts": "own"}, judge="strict", subset=None), "the official wording, judge GPT-4o and subset paper874"),
    ],
)  # fmt: skip
def test_what_differs_is_said(result: Result, differs: str) -> None:
    assert {said for said, _ in result.published_apart()} == ({differs} if differs else set())
    assert bool(result.published()) == (not differs)


def test_numbers_of_a_part_of_the_cases_are_not_those_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    whole = creval()
    some = {case.id for case in whole.cases[:116]}
    few = result_of(
        whole.bench,
        whole.cases[:116],
        [score for score in whole.scores if score.case in some],
        Origin("paper874"),
        draws=0,
    )
    assert few.published() == []
    assert {said for said, _ in few.published_apart()} == {"all cases (116 of 874 here)"}
    printed = shown(few, capsys)
    assert "published, with all cases (116 of 874 here): not the same measurement (Table S1" in printed
    assert "the same judge and wording" not in printed


def test_a_judge_is_who_answers_not_what_it_is_called() -> None:
    cases, scores = released_scores("paper874")
    mine = [score.model_copy(update={"judge": "gpt-4o"}) for score in scores if score.model == "Bagel"]
    other = {"gpt-4o": {"model": "a-small-one", "parameters": {}}}
    bench, settings = benchmark("creval"), {"prompts": "official"}
    lying = result_of(bench, cases, mine, Origin("paper874", settings or {}, other), draws=0)
    assert {said for said, _ in lying.published_apart()} == {"judge GPT-4o"}
    assert "judge gpt-4o (a-small-one)" in lying.measured_by()


@pytest.mark.parametrize(("settings", "wording"), [(None, "official wording"), (OWN, "own wording")])
def test_every_table_names_judge_wording_and_protocol(
    settings: dict[str, str] | None, wording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = creval(settings)
    head = f"judge gpt-4o; {wording}; protocol paper"
    assert head in shown(result, capsys)
    assert head in to_markdown(result)
    assert f"Protocol paper (reader 1, grading 1, aggregate 1). Judge gpt-4o, {wording}." in to_latex(result)
    rows = list(csv.DictReader(io.StringIO(to_csv(result))))
    assert {(row["judge"], row["wording"], row["protocol"]) for row in rows} == {("gpt-4o", wording, "paper")}
    said = json.loads(to_json(result))
    assert said["wording"] == wording
    assert bool(said["published"]) == (wording == "official wording")
    assert {value["differs"] for value in said["published_apart"]} == ({"the official wording"} if settings else set())


def test_ice_benchs_scores_are_the_judges_too_where_its_answers_are_a_part() -> None:
    judges = {
        value.slice.get("task", "overall"): value.judge
        for value in benchmark("icebench").reporting.published()
        if value.metric == "score"
    }
    assert judges["overall"] == judges["Color Editing"] == "Qwen2-VL-72B"
    assert judges["Text-to-Image Creating"] == ""


def test_a_value_of_two_judges_asks_for_the_judge() -> None:
    one, other = creval(), creval(judge="strict")
    both = result_of(one.bench, one.cases, [*one.scores, *other.scores], Origin("paper874"), draws=0)
    with pytest.raises(RefBenchError, match=r"2 rows match .*: name judge of one"):
        both.value(model="Bagel", metric="avg", protocol="paper", level="overall")
