"""From a run to a table of people's marks and back: what a study shows, what it exports, what the run makes of it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from refbench.cli.app import app
from refbench.engine import evaluate
from refbench.evidence import PEOPLE
from refbench.runs import Run
from refbench.studies.items import Item
from refbench.studies.reading import alphas, read
from refbench.studies.shown import Shown
from refbench.studies.study import Study
from refbench.studies.tables import people_result
from support.brief_runs import evaluated
from support.ideabench import Design, designs, write_checkout, write_outputs
from support.judge_server import JudgeServer
from support.study_raters import answer_all, marks_by

ITEMS = 24
QUALITY = {"alpha": 0.8, "beta": 0.5, "gamma": 0.3}


def cli(*words: object) -> int:
    code = app([str(word) for word in words], result_action="return_value")
    assert isinstance(code, int)
    return code


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "test")
        models = {"alpha": (0.8, 0.7, 0), "beta": (0.5, 0.5, 1), "gamma": (0.3, 0.6, 0)}
        yield evaluated(tmp_path_factory.mktemp("rated"), models, cases=12)


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def rated(folder: Path, run: Path, *, raters: int = 3) -> Study:
    """A study of the run's outputs that three people have finished, each a little different."""
    assert cli("study", "new", folder, "--from", run, "--screen", "rate", "--items", ITEMS) == 0
    study = Study.open(folder)
    for number in range(raters):
        rng = np.random.default_rng(number)
        noisy = marks_by(lambda item, rng=rng: QUALITY.get(item.models[0], 0.5) + float(rng.normal(0, 0.1)))
        answer_all(study, study.raters.add(), noisy, active=float(rng.uniform(8, 12)))
    return study


def krippendorff(units: list[list[float]]) -> float:
    """Alpha of interval data from its definition: squared distances within units against those of all pairs."""
    units = [unit for unit in units if len(unit) > 1]
    marks = [mark for unit in units for mark in unit]
    within = sum(sum((a - b) ** 2 for a in unit for b in unit) / (len(unit) - 1) for unit in units)
    return 1 - within / (sum((a - b) ** 2 for a in marks for b in marks) / (len(marks) - 1))


@pytest.fixture(scope="module")
def study(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return rated(tmp_path_factory.mktemp("studied") / "study", run)


def test_the_alpha_of_an_export_is_that_of_the_definition(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "people.csv"
    assert cli("study", "export", study.path, "--out", out) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert {row["metric"] for row in rows} >= {"instruction_alignment", "visual_quality", "total"}
    found = {one.metric: one.alpha for one in alphas(read(study).rows)}
    for metric in found:
        units: dict[tuple[str, str], list[float]] = {}
        for row in rows:
            if row["metric"] == metric:
                units.setdefault((row["case"], row["model"]), []).append(float(row["score"]))
        assert len(units) == ITEMS and all(len(unit) == 3 for unit in units.values())
        assert found[metric] == pytest.approx(krippendorff(list(units.values())), abs=1e-9)


def test_agree_finds_the_same_alpha_and_totals_by_the_runs_formula(
    run: Path, study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "people.csv"
    cli("study", "export", study.path, "--out", out)
    capsys.readouterr()
    assert cli("agree", run, "--humans", out, "--scale", "1-10", "--level", "item", "--json", "--draws", "0") == 0
    told = json.loads(capsys.readouterr().out)
    together = {row["metric"]: row for row in told["rows"] if "3 together" in str(row) and row.get("level") == "item"}
    assert together, told["rows"][0]
    for one in alphas(read(study).rows):
        assert together[one.metric]["alpha"]["value"] == pytest.approx(one.alpha, abs=1e-9)
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    marks = {(r["case"], r["model"], r["rater"], r["metric"]): float(r["score"]) for r in rows}
    case, model, rater, _ = next(iter(marks))
    weights = dict.fromkeys(("instruction_alignment", "reference_consistency"), 3.0)
    weights |= dict.fromkeys(("background_subject_match", "physical_realism", "visual_quality"), 1.0)
    total = sum(weight * marks[case, model, rater, name] for name, weight in weights.items()) / 9
    assert marks[case, model, rater, "total"] == pytest.approx(total)


def test_people_stand_in_the_runs_table_beside_the_judge_and_can_be_compared(
    own_run: Path, study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli("study", "export", study.path, "--into", own_run) == 0
    assert cli("study", "export", study.path, "--into", own_run) == 0  # once more changes nothing
    acts = [act for purpose, act in Run.open(own_run).evidence() if purpose.judge == PEOPLE]
    assert len(acts) == ITEMS * 3
    capsys.readouterr()
    assert cli("table", own_run, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    people = {
        r["model"]: r
        for r in told["rows"]
        if r["judge"] == "people" and r["metric"] == "visual_quality" and not r["slice"].get("kind")
    }
    by_model: dict[str, dict[str, list[float]]] = {}
    for row in read(study).kept():
        if row.metric == "visual_quality" and row.value is not None:
            by_model.setdefault(row.model, {}).setdefault(row.item, []).append(row.value)
    for model, items in by_model.items():
        assert people[model]["value"] == pytest.approx(np.mean([np.mean(marks) for marks in items.values()]))
    judged = {
        r["model"]: r["value"]
        for r in told["rows"]
        if r["judge"] == "eye" and r["metric"] == "total" and not r["slice"].get("kind")
    }
    assert len(judged) == 3 and not any(r["judge"] == "mean" for r in told["rows"])
    assert any("people: 3 raters of 24 outputs; their alpha:" in note for note in told["notes"])
    assert cli("compare", own_run, "--judge", "people") == 0
    assert "judge people" in capsys.readouterr().out


def test_the_same_run_command_goes_on_as_if_nobody_had_marked_anything(
    run: Path, own_run: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    cli("study", "export", study.path, "--into", own_run)
    root = run.parent
    models = [w for k, name in enumerate(QUALITY) for w in ("--model", f"{name}=folder:{root / f'm{k}'}")]
    judge = "eye=openai:gpt-4o?base_url=http://127.0.0.1:9/v1"  # nobody is there: all is on record
    more = ("--judge", judge, "--rubric", "five_criteria", "--out", own_run, "--retry", "unparsable")
    assert cli("run", root / "cases.jsonl", *models, *more) in (0, 1)
    assert cli("failures", own_run) == 0 and cli("agree", own_run, "--failures") == 0


def test_marks_that_changed_replace_those_of_the_last_import(own_run: Path, tmp_path: Path) -> None:
    study = rated(tmp_path / "study", own_run, raters=2)
    cli("study", "export", tmp_path / "study", "--into", own_run)
    third = study.raters.add()
    answer_all(study, third, marks_by(lambda item: 0.4))
    mark = next(m for m in study.marks.given() if m.rater == "r01" and study.items[m.item].use == "item")
    again = {**mark.values, "visual_quality": 1.0 if mark.values["visual_quality"] != 1 else 2.0}
    study.marks.add([mark.model_copy(update={"id": "changed-0001", "values": again})])
    study.marks.sync()
    cli("study", "export", tmp_path / "study", "--into", own_run, "--everybody")
    acts = {p: act for p, act in Run.open(own_run).evidence() if p.judge == PEOPLE}
    raters = {str(act.request["rater"]) for act in acts.values()}
    assert raters == {"r01", "r02", "r03"} - read(study).left_out
    item = study.items[mark.item]
    mine = [
        a for p, a in acts.items() if p.case == item.case and p.model == item.models[0] and a.request["rater"] == "r01"
    ]
    assert [json.loads(act.reply or "")["visual_quality"] for act in mine] == [again["visual_quality"]]


def test_a_second_study_says_whose_marks_stand_there_already(
    own_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for name in ("one", "two"):
        rated(tmp_path / name, own_run, raters=2)
        capsys.readouterr()
        assert cli("study", "export", tmp_path / name, "--into", own_run) == 0
        said.append(" ".join(capsys.readouterr().out.split()))
    first = f"{2 * ITEMS * len(Study.open(tmp_path / 'one').design.criteria)} marks of {ITEMS} outputs by 2 raters"
    assert first in said[0] and "other stud" not in said[0]
    assert first in said[1] and "marks of 2 raters of 1 other study stand there already" in said[1]


def test_what_nobody_marked_is_no_call_that_a_run_would_make(
    own_run: Path, study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    cli("study", "export", study.path, "--into", own_run)
    capsys.readouterr()
    assert cli("table", own_run) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "4 of 12 cases not marked by anybody; those of a study come in with refbench study export --into" in said
    assert "goes on with what it asks for" not in said


def test_precision_ranks_people_by_themselves_and_counts_them_as_no_judge(
    own_run: Path, study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli("precision", own_run, "--json") == 0
    before = json.loads(capsys.readouterr().out)
    cli("study", "export", study.path, "--into", own_run)
    capsys.readouterr()
    assert cli("precision", own_run, "--json") == 0
    after = json.loads(capsys.readouterr().out)
    assert after["shares"] == before["shares"]
    for one, same in zip(after["variances"], before["variances"], strict=True):
        assert one["error"] == pytest.approx(same["error"], rel=1e-9)
        assert all(one[name] == same[name] for name in ("model", "n_judges", "n_repeats", "variance", "merged"))
    assert [one["judge"] for one in after["judges"]] == ["eye", "people"]
    assert any(note.startswith("people are none of the judges") for note in after["notes"])
    assert cli("precision", own_run, "--json", "--judge", "people") == 0
    theirs = json.loads(capsys.readouterr().out)
    assert {(one["n_judges"], one["n_repeats"]) for one in theirs["variances"]} == {(1, 3)}
    assert any("repeats are raters" in note for note in theirs["notes"])


def test_correct_and_sample_read_and_give_what_a_study_writes_and_takes(run: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "items.csv"
    assert cli("sample", run, "--for-humans", "24", "--aim", "means", "--out", drawn) == 0
    assert cli("study", "new", tmp_path / "s", "--from", run, "--screen", "rate", "--sample", drawn) == 0
    study = Study.open(tmp_path / "s")
    assert sum(item.use == "item" for item in study.items.values()) == 24
    for _ in range(2):
        answer_all(study, study.raters.add(), marks_by(lambda item: QUALITY.get(item.models[0], 0.5)))
    out = tmp_path / "people.csv"
    assert cli("study", "export", tmp_path / "s", "--out", out) == 0
    assert "probability" in out.read_text().splitlines()[0]
    assert cli("correct", run, "--humans", out, "--scale", "1-10") == 0


def test_a_set_shows_all_models_of_a_case_and_exports_each(run: Path, tmp_path: Path) -> None:
    assert (
        cli("study", "new", tmp_path / "s", "--from", run, "--screen", "set", "--rubric", "creval", "--items", "8") == 0
    )
    study = Study.open(tmp_path / "s")

    def by_model(item: Item, shown: Shown) -> dict[str, float]:
        """Marks by what the rater sees in each place: the model of the output there."""
        lease = next(one for one in study.leases.all.values() if one.item == item.id and one.rater == rater.id)
        values = {}
        for entry in shown.entries:
            assert entry.output is not None
            right = item.allowed.get(f"{lease.order[entry.output]}.{entry.name.partition('.')[2]}")
            model = item.models[lease.order[entry.output]]
            values[entry.name] = 0 if right else {"alpha": 5, "beta": 3, "gamma": 1}[model]
        return values

    rater = study.raters.add()
    answer_all(study, rater, by_model)
    means = {(row.model, row.metric): row.value for row in read(study).rows}
    assert means["alpha", "IF"] == 5 and means["beta", "VC"] == 3 and means["gamma", "VQ"] == 1


def test_pairs_are_a_round_robin_and_make_an_arena(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli("study", "new", tmp_path / "s", "--from", run, "--screen", "pair", "--items", "30") == 0
    study = Study.open(tmp_path / "s")
    met = [item.models for item in study.items.values() if item.use == "item"]
    assert {met.count(pair) for pair in combinations(("alpha", "beta", "gamma"), 2)} <= {9, 10, 11}
    for number in range(3):
        rng = np.random.default_rng(number)
        rater = study.raters.add()

        def better(item: Item, shown: Shown, rng: np.random.Generator = rng, who: str = rater.id) -> dict[str, str]:
            lease = study.leases.all[who, item.id, max(o for r, i, o in study.leases.all if (r, i) == (who, item.id))]
            first = item.allowed or rng.random() < (0.75 if item.models[0] < item.models[1] else 0.25)
            return {"preference": str(lease.order.index(0 if first else 1))}

        answer_all(study, rater, better)
    capsys.readouterr()
    assert cli("study", "export", tmp_path / "s", "--out", tmp_path / "pairs.csv") == 0
    said = capsys.readouterr().out
    assert said.index("alpha") < said.index("gamma") and "strength" in said
    assert len((tmp_path / "pairs.csv").read_text().splitlines()) == 91


def test_a_plan_says_what_it_can_show_and_writes_nothing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli("study", "new", tmp_path / "s", "--from", run, "--screen", "rate", "--items", "30", "--plan") == 0
    said = capsys.readouterr().out
    for line in ("32 items  0.46 to 0.84", "100 items  0.58 to 0.79", "300 items  0.64 to 0.75"):
        assert line in said
    assert not (tmp_path / "s").exists()
    told = {}
    for screen in ("rate", "set", "pair"):
        new = ("study", "new", tmp_path / "s", "--from", run, "--screen", screen, "--items", 12, "--plan")
        assert cli(*new) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert ("correlation" in said) is (screen != "pair")
        assert cli(*new, "--json") == 0
        told[screen] = json.loads(capsys.readouterr().out)
        assert f"12 screens of {told[screen]['outputs']} outputs, {told[screen]['marks']} marks in all" in said
    criteria = told["rate"]["marks"] // (12 * 3)
    assert criteria > 1 and [told[screen]["outputs"] for screen in told] == [12, 35, 24]  # one output failed
    assert [told[screen]["marks"] for screen in told] == [12 * 3 * criteria, 35 * 3 * criteria, 12 * 3]
    each = {screen: one["minutes_per_rater"] / one["per_rater"] for screen, one in told.items()}
    assert each["set"] == pytest.approx(35 / 12 * each["rate"]) and each["pair"] == pytest.approx(20 / 60)


def test_a_preregistered_design_that_changes_is_said_to_have_changed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "h.txt").write_text("alpha is better than beta\n\nbeta is better than gamma\n")
    new = ("study", "new", tmp_path / "s", "--from", run, "--screen", "rate", "--items", "12")
    assert cli(*new, "--preregister", tmp_path / "h.txt") == 0
    design = Study.open(tmp_path / "s").design
    assert design.preregistration is not None and len(design.preregistration.hypotheses) == 2
    capsys.readouterr()
    cli("study", "export", tmp_path / "s")
    assert "the design was changed" not in capsys.readouterr().out
    toml = tmp_path / "s" / "study.toml"
    toml.write_text(toml.read_text().replace("gold = 0.75", "gold = 0.5"))
    cli("study", "export", tmp_path / "s")
    assert "the design was changed after it was preregistered" in capsys.readouterr().out


def test_ideabench_is_tabled_by_people_over_all_cases_with_the_gates_of_its_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [
        Design(d.slug, d.uid, d.category, d.number, d.inputs, d.outputs, d.number == 1, d.count_question)
        for d in designs(2)
    ]  # the second case of each task has questions for people only
    write_checkout(tmp_path / "data", made)
    for model in ("good", "poor"):
        write_outputs(tmp_path / model, made)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    out = tmp_path / "run"
    with JudgeServer(reply=lambda text: '{"reason": "seen", "score": 1}') as server:
        models = [f"{model}=folder:{tmp_path / model}" for model in ("good", "poor")]
        judges = [f"judge=openai:gpt-5?base_url={server.url}/v1"]
        evaluate("ideabench", data=tmp_path / "data", subset="all", models=models, judges=judges, out=out)
    assert cli("study", "new", tmp_path / "s", "--from", out, "--screen", "questions", "--items", "100") == 0
    study = Study.open(tmp_path / "s")
    items = [item for item in study.items.values() if item.use == "item"]
    assert len(items) == 2 * len(made) and all(len(item.questions) == 6 for item in items)
    assert items[0].questions[0].no == "it is not" and items[0].questions[5].needs == (0, 1, 2, 3)

    def answers(item: Item, shown: Shown) -> dict[str, int]:
        if item.use != "item":
            return {"Q1": 0, "Q2": 0}
        if item.models[0] == "good":
            return {"Q1": 1, "Q2": 1, "Q3": 1, "Q4": 0}  # a no in the fourth closes the last two
        return {"Q1": 0, "Q2": 1}

    for _ in range(2):
        answer_all(study, study.raters.add(), answers)
    result = people_result(study, read(study), draws=100)
    table = {row.model: row for row in result.rows(metric="score", level="overall")}
    assert table["good"].value == pytest.approx(100 * 3 / 6)
    assert table["poor"].value == pytest.approx(100 * 1 / 6)
    assert table["good"].n_scored == len(made)
    capsys.readouterr()
    assert cli("study", "table", tmp_path / "s", "--by", "category") == 0
    assert "people" in capsys.readouterr().out
    assert cli("study", "export", tmp_path / "s", "--out", tmp_path / "people.csv") == 0
    laid_out = ("--level", "system", "--by", "category", "--scale", "0-1", "--draws", "0")
    capsys.readouterr()
    assert cli("agree", out, "--humans", tmp_path / "people.csv", *laid_out, "--json") == 0
    found = {row["group"] for row in json.loads(capsys.readouterr().out)["rows"] if row["metric"] == "score"}
    assert {"category=T2I", "category=I2I", "category=Is2I", "category=T2Is", "category=I(s)2Is"} <= found
