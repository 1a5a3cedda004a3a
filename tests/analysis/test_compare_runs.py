"""What `compare` is given: runs, models of runs, released figures; matched by case, with every difference said."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import refbench
from refbench.analysis.compare import Comparison
from refbench.analysis.compare.runs import compare, split_operand
from refbench.cli.app import app, main
from refbench.cli.compare import compare_command
from refbench.output import Output, StoredPicture
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.tables.scoring import score_run
from support.checkout import plain_items, reply_text, write_checkout, write_replies

if "compare" not in app:
    app.command("refbench.cli.compare:compare_command", name="compare")

DRAWS = 200


def run_of(root: Path, name: str, replies: str = "answer_gpt", judge: str | None = None) -> Path:
    out = root.parent / name
    refbench.rescore("creval", data=root, replies=root / replies, judge=judge, out=out, draws=0)
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 27 items and two models that nobody here writes to."""
    items = plain_items(27)
    root = write_checkout(tmp_path_factory.mktemp("compared") / "creval", items)
    for model in ("alpha", "beta"):
        write_replies(root / "answer_gpt", model, items)
    return run_of(root, "x")


def test_a_run_and_two_models_of_it_are_the_same_comparison_as_of_the_result(run: Path) -> None:
    whole = compare([run], draws=DRAWS)
    assert [(pair.first, pair.second, pair.judge) for pair in whole.pairs] == [("alpha", "beta", "gpt-4o")]
    assert whole.protocol == "corrected"
    assert whole.metric == "avg"
    assert whole.differences == ()
    assert compare([f"{run}:alpha", f"{run}:beta"], draws=DRAWS) == whole
    (turned,) = compare([f"{run}:beta", f"{run}:alpha"], draws=DRAWS).pairs
    assert (turned.first, turned.second) == ("beta", "alpha")
    result = score_run(run, draws=0)
    assert result.compare("alpha", "beta", draws=DRAWS) == whole
    assert result.compare(protocol="corrected", judges=["gpt-4o"], draws=DRAWS) == whole
    table = {
        model: result.value(model=model, metric="avg", protocol="corrected", level="overall") or 0
        for model in ("alpha", "beta")
    }
    assert whole.pairs[0].gap == pytest.approx(table["alpha"] - table["beta"])


def test_models_of_two_runs_meet_on_the_cases_both_have(tmp_path: Path) -> None:
    items = plain_items(27)
    many = write_checkout(tmp_path / "many", items)
    write_replies(many / "answer_gpt", "alpha", items)
    few = write_checkout(tmp_path / "few", items[:18])
    write_replies(few / "answer_gpt", "beta", items[:18])
    found = compare([run_of(many, "x"), run_of(few, "y")], draws=DRAWS)
    (pair,) = found.pairs
    assert pair.n_cases == 18
    assert pair.left_out == {"beta: not among its cases": 9}
    assert "cases: x 27, y 18" in found.differences
    assert any(line.startswith("fingerprint: x ") for line in found.differences)


def test_the_fingerprint_that_is_said_is_the_one_of_the_table(tmp_path: Path) -> None:
    items = plain_items(27)
    roots = [write_checkout(tmp_path / name, items[:n]) for name, n in (("many", 27), ("few", 18))]
    for root in roots:
        write_replies(root / "answer_gpt", root.name, items[: 27 if root.name == "many" else 18])
    runs = [run_of(root, f"run-{root.name}") for root in roots]
    (line,) = [line for line in compare(runs, draws=DRAWS).differences if line.startswith("fingerprint")]
    for run in runs:
        assert f"{run.name} {score_run(run).table.fingerprint}" in line


def test_the_same_model_in_two_runs_carries_its_run_and_another_judge_is_said(checkout: Path) -> None:
    write_replies(checkout / "answer_other", "alpha", plain_items(27), seed=5)
    found = compare(
        [f"{run_of(checkout, 'x')}:alpha", run_of(checkout, "y", "answer_other", "other-judge")], draws=DRAWS
    )
    (pair,) = found.pairs
    assert (pair.first, pair.second) == ("alpha (x)", "alpha (y)")
    assert (pair.judge, pair.second_judge) == ("gpt-4o", "other-judge")
    assert "judge: x gpt-4o, y other-judge" in found.differences
    assert "judges gpt-4o and other-judge" in pair.sentence


def test_two_judges_of_one_run_each_meet_themselves_and_are_one_family(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(checkout, "x")
    for model in ("alpha", "beta"):
        write_replies(checkout / "answer_other", model, plain_items(27), seed=5)
    refbench.rescore("creval", data=checkout, replies=checkout / "answer_other", judge="other", out=run, draws=0)
    found = compare([run], draws=DRAWS)
    assert [(pair.judge, pair.second_judge) for pair in found.pairs] == [("gpt-4o", "gpt-4o"), ("other", "other")]
    assert found.family == 2
    compare_command(str(run), draws=DRAWS)
    said = " ".join(capsys.readouterr().out.split())
    for judge in ("gpt-4o", "other"):
        assert f"largest parts of alpha - beta (judge {judge})" in said
    one = compare([run], judge="OTHER", draws=DRAWS)
    assert [pair.judge for pair in one.pairs] == ["other"]
    assert one.pairs[0].gap == found.pairs[1].gap


def test_cases_that_changed_between_runs_take_no_part(tmp_path: Path) -> None:
    items = plain_items(27)
    one = write_checkout(tmp_path / "one", items)
    other = write_checkout(tmp_path / "other", items)
    file = other / "bench/instruction.json"
    said = json.loads(file.read_text())
    said[0]["input_prompt"] = "Turn it into glass instead."
    file.write_text(json.dumps(said))
    for root, model in ((one, "alpha"), (other, "beta")):
        write_replies(root / "answer_gpt", model, items)
    found = compare([run_of(one, "x"), run_of(other, "y")], draws=DRAWS)
    assert found.pairs[0].n_cases == 26
    assert any("1 cases have the same id but other content" in line for line in found.differences)


def test_a_failed_reply_leaves_its_case_out_of_both_sides(checkout: Path) -> None:
    stem = plain_items(27)[4].stem
    (checkout / f"answer_gpt/VC/beta/{stem}.txt").write_text("Hm.")
    (pair,) = compare([run_of(checkout, "x")], draws=DRAWS).pairs
    assert pair.n_cases == 26
    assert pair.left_out == {"beta: unparsable": 1}


def test_released_figures_are_compared_under_the_paper_protocol_and_say_so() -> None:
    found = compare(["creval:seedream4-0", "creval:Bagel"], draws=DRAWS)
    (pair,) = found.pairs
    assert found.protocol == "paper"
    assert pair.n_cases == 904
    assert any("paper protocol" in note for note in found.notes)
    assert (pair.first, pair.second, pair.judge) == ("seedream4-0", "Bagel", "gpt-4o")
    with pytest.raises(RefBenchError, match="--protocol corrected"):
        compare(["creval:seedream4-0", "creval:Bagel"], protocol="corrected")


def test_a_run_of_the_released_replies_has_the_released_scores_case_by_case(creval_mini: Path, tmp_path: Path) -> None:
    run = tmp_path / "mini"
    refbench.rescore("creval", data=creval_mini, replies=creval_mini / "answer_gpt", models=["Bagel"], out=run, draws=0)
    found = compare([f"{run}:Bagel", "creval:Bagel", "creval:seedream4-0"], draws=DRAWS)
    same, better = found.pairs[:2]
    assert (same.first, same.second) == ("Bagel (mini)", "Bagel (released)")
    assert (same.gap, same.ties, same.n_cases, same.p) == (0, 123, 123, 1)
    assert same.left_out == {"Bagel (mini): not among its cases": 781}
    assert better.second == "seedream4-0 (released)"
    assert better.resolved
    assert any("by id only" in line for line in found.differences)


def test_the_difference_in_judge_against_released_figures_is_spelled_out(creval_mini: Path, tmp_path: Path) -> None:
    run = tmp_path / "qwen"
    refbench.rescore("creval", data=creval_mini, replies=creval_mini / "answer_qwen", out=run, draws=0)
    found = compare([run, "creval:seedream4-0"], draws=DRAWS)
    assert "judge: qwen qwen3-vl, released gpt-4o" in found.differences
    assert any(
        line.endswith("left out unless the protocol or --refusals gives it a value") for line in found.differences
    )
    assert "judges qwen3-vl and gpt-4o" in found.pairs[0].sentence


def test_operands_with_colons_find_the_run_first(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    assert split_operand("x:alpha") == ("x", "alpha")
    assert split_operand("x/") == ("x", None)
    assert split_operand("x:org/model:7b") == ("x", "org/model:7b")
    assert split_operand("creval:Bagel") == ("creval", "Bagel")
    assert split_operand("creval") == ("creval", None)


@pytest.mark.parametrize(
    ("operands", "said"),
    [
        (["{run}:gamma"], "there is no model gamma; the models are alpha, beta"),
        (["{run}:alpha"], "there is one model to compare (alpha): name at least two"),
        (["creval:nobody"], "there is no model nobody"),
        (["multibanana:x"], "no item scores of MultiBanana were released"),
        (["nowhere/run:x"], "nowhere/run is not there"),
        (["nonsense:x"], "give RUN_DIR, RUN_DIR:MODEL, or BENCHMARK:MODEL"),
        (["{run}", "multibanana:x"], "only models on the same benchmark can be compared"),
        (["{run}", "--metric", "zz"], "--metric zz: CREval (corrected) has IF, VC, VQ, avg"),
        (["{run}", "--judge", "zz"], "--judge zz: the judges are gpt-4o"),
        (["{run}", "--against", "zz"], "--against zz: the models are alpha, beta"),
        (["{run}", "--by", "zz"], "--by zz: this comparison has the levels category, dimension"),
        (["{run}", "--draws", "3"], "--draws 3"),
        (["{run}", "--data", "."], "--data is for released figures"),
        (["{run}", "--protocol", "zz"], "--protocol zz: choose corrected, paper or both"),
        (["{run}", "--protocol", "both"], "--protocol both: a comparison is under one protocol"),
        ([], "name what to compare"),
    ],
)
def test_a_mistake_is_one_sentence(
    operands: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = cli(capsys, monkeypatch)(*(word.replace("{run}", str(run)) for word in operands))
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["refbench", "compare", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_the_command_prints_pairs_and_sentences_or_one_object(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refbench_compare = cli(capsys, monkeypatch)
    code, shown, err = refbench_compare(run, "--draws", DRAWS, "--by", "category")
    assert (code, err) == (0, "")
    (pair,) = compare([run], draws=DRAWS).pairs
    assert pair.sentence in shown
    assert "Stylization" in shown
    code, printed, err = refbench_compare(run, "--draws", DRAWS, "--json")
    assert (code, err) == (0, "")
    assert Comparison.model_validate_json(printed) == compare([run], draws=DRAWS)


def test_several_seeds_are_counted(checkout: Path) -> None:
    path = run_of(checkout, "x")
    run = Run.open(path)
    picture = StoredPicture(sha256="0" * 64, format="png", width=1, height=1)
    with run.writer() as writer:
        for seed in (0, 1):
            writer.add_output(Output(case=plain_items(1)[0].stem, model="alpha", seed=seed, pictures=(picture,)))
    (pair,) = compare([path], draws=DRAWS).pairs
    assert pair.seeds == (2, 1)
    assert "2 and 1 seeds" in pair.sentence


def test_markup_in_a_model_name_stays_text(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = plain_items(27)
    name = "[bold]odd[/bold]"
    for metric in ("IF", "VC", "VQ"):
        folder = checkout / "answer_gpt" / metric / "odd"
        folder.mkdir()
        for item in items:
            (folder / f"{item.stem}.txt").write_text(reply_text([(qid, "Yes") for qid, *_ in item.of(metric)]))
        folder.rename(folder.parent / name.replace("/", "∕"))
    run = run_of(checkout, "x")
    code, shown, _ = cli(capsys, monkeypatch)(run, "--draws", DRAWS)
    assert code == 0
    assert "[bold]odd" in shown
