"""Judge files of the released scripts to tables, from Python and from the command line, in both protocols."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import refbench
from refbench import RefBenchError
from refbench.benchmarks.multibanana.cases import CRITERIA
from support.multibanana import MARKS, TOTAL, Set, every_task, reply, write_dataset, write_replies

Refbench = Callable[..., tuple[int, str, str]]


def test_well_formed_files_give_the_same_numbers_in_both_protocols(data: Path, judged: Path) -> None:
    result = refbench.rescore("multibanana", data=data, replies=judged, judge="gpt", models=["m"], draws=0)
    paper, corrected = (result.value(model="m", metric="total", protocol=p, level="overall") for p in ("paper", "corrected"))  # fmt: skip
    assert paper == corrected
    assert result.failure_share() == 0
    assert len(result.scores) == 2 * 5 * len(every_task())
    assert all(row.n_expected == row.n_scored for row in result.table.rows)
    assert {row.judge for row in result.table.rows} == {"gpt"}


def test_the_faults_of_the_released_files_each_have_their_state(tmp_path: Path) -> None:
    sets = [Set("add", f"{n:03d}", 2) for n in range(7)]
    root = write_dataset(tmp_path / "data", sets)
    texts = [
        reply(),
        reply([f"**{mark}**" for mark in MARKS]),
        "Error during evaluation: 429 too many requests",
        "",
        reply([100, 6, 5, 4, 8]),
        reply()[: reply().index("Visual")],
    ]
    write_replies(root, {s.id: text for s, text in zip(sets, texts, strict=False)})
    (root / "add/000_generated.png").write_bytes(b"")
    result = refbench.rescore("multibanana", data=root, replies=root, draws=0)
    rows = {r.protocol: r for r in result.rows(metric="total", level="overall")}
    lost = {"api_error": 1, "empty_reply": 1, "missing_reply": 1}
    assert rows["paper"].failures == lost | {"unparsable": 2}
    assert rows["corrected"].failures == lost | {"out_of_range": 1, "unparsable": 1}
    alignment = {r.protocol: r for r in result.rows(metric="instruction_alignment", level="overall")}
    assert (alignment["paper"].value, alignment["paper"].n_scored) == (53.5, 2)
    assert (alignment["corrected"].value, alignment["corrected"].n_scored) == (7.0, 3)


def test_a_set_that_was_never_generated_is_missing_and_counted(data: Path, judged: Path) -> None:
    for path in (judged / "3_back").iterdir():
        path.unlink()
    result = refbench.rescore("multibanana", data=data, replies=judged, draws=0)
    paper, corrected = (result.rows(metric="total", protocol=p, level="overall")[0] for p in ("paper", "corrected"))
    assert paper.failures == corrected.failures == {"missing_reply": 2}
    assert paper.value is not None
    assert corrected.remark is not None
    assert "nothing scored in 3_back" in corrected.remark
    assert corrected.bounds is not None


def test_the_model_is_named_or_takes_the_folders_name(data: Path, judged: Path) -> None:
    assert refbench.rescore("multibanana", data=data, replies=judged, draws=0).rows()[0].model == "painter"
    with pytest.raises(RefBenchError, match="--model may be given once"):
        refbench.rescore("multibanana", data=data, replies=judged, models=["a", "b"])


def test_one_judge_is_found_and_several_must_be_chosen_from(data: Path, judged: Path) -> None:
    write_replies(judged, {"add/006": reply()}, judge="qwenvl")
    write_replies(judged, {"add/006": reply()}, judge="my_own")
    with pytest.raises(RefBenchError, match="judges gpt, my_own, qwenvl: choose one by --judge"):
        refbench.rescore("multibanana", data=data, replies=judged)
    for judge in ("my_own", "qwenvl"):
        result = refbench.rescore("multibanana", data=data, replies=judged, judge=judge, draws=0)
        (row,) = result.rows(protocol="paper", metric="total", level="overall")
        assert (row.judge, row.n_scored, row.value) == (judge, 1, pytest.approx(TOTAL))
    with pytest.raises(RefBenchError, match=r"--judge gemini: .* has files of gpt, my_own, qwenvl only"):
        refbench.rescore("multibanana", data=data, replies=judged, judge="gemini")


def test_files_for_unknown_sets_are_skipped_and_said(data: Path, judged: Path) -> None:
    write_replies(judged, {"add/999": reply()})
    result = refbench.rescore("multibanana", data=data, replies=judged, draws=0)
    assert "1 replies for items not in the data were skipped (first: add/999_gpt_judge.txt)" in result.notes


def test_directories_may_be_spelt_in_two_ways(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "data", [Set("3_obj", "006", 3)])
    folder = write_replies(tmp_path / "out", {"3_object/006": reply()})
    result = refbench.rescore("multibanana", data=root, replies=folder, draws=0)
    assert result.value(metric="total", protocol="paper", level="overall") == pytest.approx(TOTAL)


@pytest.mark.parametrize("what", ["nothing", "empty", "other"])
def test_a_folder_without_usable_files_is_refused(data: Path, tmp_path: Path, what: str) -> None:
    folder = tmp_path / what
    if what != "nothing":
        (folder / "add").mkdir(parents=True)
    if what == "other":
        write_replies(folder, {"add/999": reply()})
    says = {"nothing": "is not there", "empty": "holds no judge files", "other": "is --data the right one"}[what]
    with pytest.raises(RefBenchError, match=says) as error:
        refbench.rescore("multibanana", data=data, replies=folder)
    assert "\n" not in str(error.value)


def test_evidence_says_where_it_comes_from(data: Path, judged: Path) -> None:
    from refbench.benchmarks import benchmark

    found = benchmark("multibanana").asking.import_replies(refbench.load("multibanana", data), judged, ["m"], None)
    purpose, evidence = next(found.replies())
    assert (purpose.model, purpose.judge, purpose.part) == ("m", "gpt", "all")
    assert dict(evidence.request) == {"imported": "multibanana", "case": purpose.case, "judge": "gpt", "model": "m"}
    assert evidence.provenance == f"painter/{purpose.case}_gpt_judge.txt"


# --- the command line ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["paper", "corrected", "both"])
def test_rescore_prints_the_promised_rows(run_cli: Refbench, data: Path, judged: Path, tmp_path: Path, protocol: str) -> None:  # fmt: skip
    items = tmp_path / "items.jsonl"
    words = ("rescore", "multibanana", "--data", data, "--replies", judged, "--judge", "gpt", "--model", "m")
    code, out, err = run_cli(*words, "--protocol", protocol, "--items", items, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert {row["protocol"] for row in said["rows"]} == ({"paper", "corrected"} if protocol == "both" else {protocol})
    assert {row["metric"] for row in said["rows"]} == {*CRITERIA, "total"}
    for row in said["rows"]:
        assert row["n_expected"] == row["n_scored"] + sum(row["failures"].values())
    lines = [json.loads(line) for line in items.read_text().splitlines()]
    assert len(lines) == len(every_task()) * 5 * (2 if protocol == "both" else 1)


def test_a_run_keeps_the_replies_and_tables_them_again(run_cli: Refbench, data: Path, judged: Path, tmp_path: Path) -> None:  # fmt: skip
    run = tmp_path / "run"
    words = ("rescore", "multibanana", "--data", data, "--replies", judged, "--out", run, "--json")
    first = run_cli(*words, "--protocol", "corrected")
    assert first == run_cli(*words, "--protocol", "corrected")
    assert run_cli("table", run, "--json", "--protocol", "corrected")[1] == first[1]
    assert "total (corrected)" in run_cli("table", run, "--markdown")[1]


def test_too_many_unreadable_files_end_in_exit_code_1(run_cli: Refbench, data: Path, judged: Path) -> None:
    for path in (judged / "add").iterdir():
        path.write_text("Error during evaluation: no")
    words = ("rescore", "multibanana", "--data", data, "--replies", judged, "--protocol", "corrected")
    assert run_cli(*words)[0] == 1
    assert run_cli(*words, "--allow-failures", "0.5")[0] == 0


def test_check_and_describe_tell_the_sets(run_cli: Refbench, data: Path) -> None:
    (data / "add/006_0.png").write_bytes(b"")
    code, out, _ = run_cli("check", "multibanana", "--data", data, "--json")
    said = json.loads(out)
    assert code == 0
    assert said["counts"]["sets"]["group"]["two"] == 22
    assert [anomaly["kind"] for anomaly in said["anomalies"]] == ["unreadable_picture"]
    assert all(anomaly["effect"] for anomaly in said["anomalies"])
    assert "3 back" in run_cli("describe", "multibanana", "--data", data)[1]
    assert json.loads(run_cli("describe", "multibanana", "--data", data, "--json")[1])["roles"] == {"reference": 310}


def test_cases_tell_models_what_they_may_see_and_no_more(run_cli: Refbench, data: Path, tmp_path: Path) -> None:
    assert run_cli("cases", "multibanana", "--data", data, "--out", tmp_path / "cases.jsonl")[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    assert lines[0]["id"] == "single/006"
    assert lines[0]["output"] == "single/006.png"
    assert [len(line["pictures"]) for line in lines[-2:]] == [8, 8]
