"""What commands say about failures: whose they are, how they count, and why an exit code is not 0."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from support.icebench import every_task, write_dataset, write_outputs
from support.ideabench import write_picture
from support.judge_server import Faults, JudgeServer
from support.printed import Cell, read_head, read_terminal

Outcome = tuple[int, str, str]
Refbench = Callable[..., Outcome]


def ice(tmp_path: Path, url: str) -> tuple[object, ...]:
    """Twelve items of which the judge is asked about eight, and outputs for all."""
    items = [item for item in every_task(1) if item.spec.number in (1, 2, 3, 4, 5, 6, 7, 8, 17, 18, 19, 20)]
    write_dataset(tmp_path / "data", items)
    write_outputs(tmp_path / "out", items)
    judge = f"j=openai:x?base_url={url}/v1"
    data, model = tmp_path / "data", f"m=folder:{tmp_path / 'out'}"
    words = ("--data", data, "--model", model, "--judge", judge, "--out", tmp_path / "run", "--metrics", "l1_raw")
    return ("run", "icebench", *words)


def test_failures_of_a_part_that_the_summary_does_without_are_shown_and_explained(
    run_cli: Refbench, tmp_path: Path
) -> None:
    with JudgeServer(reply=lambda text: "I would rather not say.") as judge:
        code, out, err = run_cli(*ice(tmp_path, judge.url))
    assert code == 1
    assert "m: scored apart from partial: qa 0/8 (8 unparsable)." in out
    assert (
        "Exit code 1: 8 of 16 replies and measurements failed, 50.0 %, which is more than the 2 % that --allow-failures allows"
        in err
    )
    assert "(8 unparsable)" in err
    assert "--retry unparsable asks again" in err
    assert re.search(r"\n  8 unparsable, one of them \S+ by m, judged by j: unparsable", err)
    assert f"refbench failures {tmp_path / 'run'} lists each" in err
    assert "did you mean unparsable?" in run_cli("failures", tmp_path / "run", "--kind", "unparsible")[2]
    words = ("table", tmp_path / "run", "--protocol", "corrected")
    assert "qa 0/8 (8 unparsable)" in run_cli(*words)[1]
    assert "qa 0/8 (8 unparsable)" in run_cli(*words, "--markdown")[1]


def test_json_is_alone_on_standard_output_and_the_reason_beside_it(run_cli: Refbench, tmp_path: Path) -> None:
    with JudgeServer(reply=lambda text: "I would rather not say.") as judge:
        code, out, err = run_cli(*ice(tmp_path, judge.url), "--json")
    assert code == 1
    assert json.loads(out)["benchmark"] == "icebench"
    assert err.startswith("Exit code 1: ")


def test_what_may_pass_is_said_to_be_tried_again(run_cli: Refbench, tmp_path: Path) -> None:
    with JudgeServer(status=500, error={"error": {"message": "no"}}) as judge:
        code, _, err = run_cli(*ice(tmp_path, judge.url), "--json")
    assert code == 1
    assert "the same command tries api_error again" in err


def test_a_budget_that_is_spent_is_said_with_what_is_left(run_cli: Refbench, tmp_path: Path) -> None:
    with JudgeServer(reply=lambda text: "1", faults=Faults()) as judge:
        words = list(ice(tmp_path, judge.url))
        at = words.index("--judge") + 1
        words[at] = f"{words[at]}&price=1000,1000"
        code, out, err = run_cli(*words, "--budget", "0.000001usd")
    assert code == 3
    assert "usd; 8 of the replies and measurements are not asked for yet. The same command with a larger" in err
    assert "m: scored apart from partial: qa 0/8 (8 not asked yet)." in out
    assert "missing_reply" not in out


def test_unreadable_replies_that_were_imported_are_explained(run_cli: Refbench, checkout: Path) -> None:
    for path in sorted((checkout / "answer_gpt/IF/alpha").glob("*.txt"))[:10]:
        path.write_text("I'm sorry, I can't help with that.")
    code, _, err = run_cli("rescore", "creval", "--data", checkout, "--replies", checkout / "answer_gpt", "--json")
    assert code == 1
    assert "Exit code 1: 10 of 162 replies failed, 6.2 %" in err
    assert "(10 refused)" in err
    assert "--retry" not in err, "nobody is asked here"


def refusing(checkout: Path, tmp_path: Path, lost: int = 9) -> Path:
    """Outputs for a small CREval from a model that gives no picture for the hardest cases: those it would fail."""
    sources = sorted((checkout / "bench/image").iterdir())
    folder = tmp_path / "shy"
    folder.mkdir()
    for source in sources[lost:]:
        (folder / source.name).write_bytes(source.read_bytes())
    return folder


def numbers(out: str) -> dict[str, Cell]:
    return {key[3]: cell for key, cell in read_terminal(out).items() if key[2] == "corrected"}


def test_a_models_own_failures_have_bounds_beside_them_and_count_as_the_worst_on_demand(
    run_cli: Refbench, checkout: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with JudgeServer() as judge:
        model, judges = f"shy=folder:{refusing(checkout, tmp_path)}", f"j=openai:x?base_url={judge.url}/v1"
        words = ("run", "creval", "--data", checkout, "--model", model, "--judge", judges, "--out", run)
        code, plain, _ = run_cli(*words, "--allow-failures", "1")
        worst = run_cli(*words, "--allow-failures", "1", "--refusals", "worst")[1]
        asked = len(judge.requests)
    assert code == 0
    assert asked == 18 * 3, "how failures count is not asked of anybody"
    said = numbers(plain)["avg"]
    assert said.n == "18/27"
    low, high = re.findall(r"avg would be between (\S+) and (\S+)\.\n", plain)[0]
    assert "shy: 9 of 27 cases failed (9 missing_output by the model)" in plain
    assert float(low) < float(said.value) < float(high)
    assert read_head(plain).refusals == "conditional"
    counted = numbers(worst)["avg"]
    assert (counted.value, counted.n) == (low, "18/27")
    assert "shy: 9 of 27 cases failed (9 missing_output by the model), 9 of them counted as the worst value." in worst
    assert "would be between" not in worst, "none is left that may have scored anything"
    assert read_head(worst).refusals == "worst"
    assert read_head(worst).fingerprint != read_head(plain).fingerprint
    for form in ("--json", "--csv", "--markdown", "--latex"):
        text = run_cli("table", run, "--refusals", "worst", form)[1]
        assert "worst" in text
        assert low in text or form in ("--json", "--csv")
    assert run_cli("table", run, "--refusals", "worst")[1] in worst
    assert run_cli("table", run, "--refusals", "mild")[0] == 2
    assert run_cli("view", run, "--out", tmp_path / "site", "--pictures", "thumbs", "--refusals", "worst")[0] == 0
    written = "".join(path.read_text() for path in (tmp_path / "site").rglob("*.js"))
    assert "count as the worst value" in written
    assert run_cli("precision", run, "--refusals", "worst", "--json")[0] == 0


def test_a_picture_that_a_case_lacks_is_the_datas_fault_and_said_before_and_after(
    run_cli: Refbench, tmp_path: Path
) -> None:
    """Nobody is to be asked again for it: the file has to be put there."""
    cases = tmp_path / "cases.jsonl"
    (tmp_path / "out").mkdir()
    for name in ("a", "b", "out/a", "out/b", "out/c"):
        write_picture(tmp_path / f"{name}.png", name, (64, 64))
    rows = [{"id": n, "instruction": "paint", "source": f"{p}.png"} for n, p in (("a", "a"), ("b", "b"), ("c", "nope"))]
    cases.write_text("\n".join(map(json.dumps, rows)))
    lacks = "1 case has a picture that is missing or broken, c: nope.png"
    code, out, _ = run_cli("check", cases)
    assert code == 0
    assert "missing_picture" in out
    with JudgeServer() as judge:
        judges = f"j=openai:x?base_url={judge.url}/v1&price=1,1"
        words = (cases, "--rubric", "five_criteria", "--model", f"A=folder:{tmp_path / 'out'}", "--judge", judges)
        assert f"{lacks} is not there" in run_cli("plan", *words)[1]
        code, out, err = run_cli("run", *words, "--out", tmp_path / "run")
    assert code == 1
    assert f"Warning: {lacks} is not there." in err
    assert "unreadable_picture of the case" in out
    assert f"Note: {lacks}" in out
    assert "--retry unreadable_picture" not in err
    assert "put the pictures of the cases right" in err


def test_failures_are_listed_with_case_model_cause_and_what_was_replied(run_cli: Refbench, tmp_path: Path) -> None:
    with JudgeServer(reply=lambda text: "I would rather\nnot say.") as judge:
        run_cli(*ice(tmp_path, judge.url))
    code, out, _ = run_cli("failures", tmp_path / "run")
    assert code == 0
    assert "8 failures of the kind unparsable: --retry unparsable asks again" in out
    assert re.search(r"\n  \S+ by m, judged by j: \S+.*\n      replied 2 times: I would rather not say\.\n", out)
    found = json.loads(run_cli("failures", tmp_path / "run", "--kind", "unparsable", "--json")[1])
    assert found["kinds"] == {"unparsable": 8}
    assert {row["model"] for row in found["failures"]} == {"m"}
    assert set(found["failures"][0]["replies"]) == {"I would rather\nnot say."}
    assert run_cli("failures", tmp_path / "run", "--kind", "refused")[1].endswith("failed as refused.\n")
    assert run_cli("failures", tmp_path / "run", "--kind", "refusal")[0] == 2


def test_a_reply_without_any_of_its_marks_is_one_failure(run_cli: Refbench, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"id": "c1", "instruction": "Paint."}\n')
    write_picture(tmp_path / "out/c1.png", "a", (64, 64))
    with JudgeServer(reply=lambda text: "I would rather not say.") as judge:
        words = ("--judge", f"j=openai:gpt-4o?base_url={judge.url}/v1", "--out", tmp_path / "run")
        model = f"A=folder:{tmp_path / 'out'}"
        run_cli("run", tmp_path / "cases.jsonl", "--rubric", "five_criteria", "--model", model, *words)
    out = run_cli("failures", tmp_path / "run")[1]
    assert out.startswith("1 failure of the kind unparsable")
    assert out.count("replied") == 1
    assert "(and 4 more of this reply)" in out
    (row,) = json.loads(run_cli("failures", tmp_path / "run", "--json")[1])["failures"]
    assert len(row["causes"]) == 5


def test_a_reply_that_fails_in_two_ways_is_one_failure_that_either_kind_finds(
    run_cli: Refbench, tmp_path: Path
) -> None:
    (tmp_path / "cases.jsonl").write_text('{"id": "c1", "instruction": "Paint."}\n')
    write_picture(tmp_path / "out/c1.png", "a", (64, 64))
    with JudgeServer(reply=lambda text: '{"instruction_alignment": 42, "visual_quality": 4}') as judge:
        words = ("--judge", f"j=openai:gpt-4o?base_url={judge.url}/v1", "--out", tmp_path / "run")
        model = f"A=folder:{tmp_path / 'out'}"
        err = run_cli("run", tmp_path / "cases.jsonl", "--rubric", "five_criteria", "--model", model, *words)[2]
    found = json.loads(run_cli("failures", tmp_path / "run", "--json")[1])
    (row,) = found["failures"]
    assert {"out_of_range", "unparsable"} == set(row["kinds"])
    assert "1 of 1 replies failed, 100.0 %, which is more" in err
    assert sum(found["kinds"].values()) == 1
    for kind in row["kinds"]:
        assert (
            f"(and {len(row['causes']) - 1} more of this reply)"
            in run_cli("failures", tmp_path / "run", "--kind", kind)[1]
        )


def test_a_kind_of_which_there_is_nothing_to_retry_is_said(run_cli: Refbench, tmp_path: Path) -> None:
    with JudgeServer(reply=lambda text: "I'm sorry, but I can't help with that.") as judge:
        words = ice(tmp_path, judge.url)
        run_cli(*words)
        asked = len(judge.requests)
        err = run_cli(*words, "--retry", "out_of_range")[2]
        assert "--retry out_of_range: nothing in " in err
        assert len(judge.requests) == asked
        err = run_cli(*words, "--retry", "refused")[2]
        assert len(judge.requests) > asked, "a refusal in ordinary words is a refusal"
        assert "nothing is asked again" not in err
