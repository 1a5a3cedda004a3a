"""The command line: its contracts, its exit codes, and one clear sentence for everything that goes wrong."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from refbench import __version__
from refbench.cli.app import COMMANDS, GROUPS
from refbench.demo import photographs
from refbench.tables.scoring import score_run

Outcome = tuple[int, str, str]
Refbench = Callable[..., Outcome]


ROW = {"model", "judge", "protocol", "metric", "slice", "value", "n_expected", "n_scored", "n_imputed", "failures", "ci95", "bounds"}  # fmt: skip


def test_rescore_prints_one_object_with_the_promised_rows(run_cli: Refbench, checkout: Path, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    code, out, err = run_cli(
        "rescore", "creval", "--data", checkout, "--replies", checkout / "answer_gpt", "--items", items, "--json"
    )
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["benchmark"] == "creval"
    assert len(said["fingerprint"]) == 16
    for row in said["rows"]:
        assert set(row) >= ROW
        assert row["slice"]["level"] in ("overall", "category", "dimension")
        assert row["metric"] in ("IF", "VC", "VQ", "avg")
        assert row["n_expected"] == row["n_scored"] + sum(row["failures"].values())
        if row["ci95"]:
            assert row["ci95"][0] <= row["value"] <= row["ci95"][1]
    assert len(said["rows"]) == 2 * 2 * 4 * (1 + 3 + 9)
    assert {row["judge"] for row in said["rows"]} == {"gpt-4o"}
    lines = [json.loads(line) for line in items.read_text().splitlines()]
    assert len(lines) == 2 * 2 * 3 * 27
    assert {"case", "model", "metric", "protocol", "score", "answers", "failure"} <= set(lines[0])
    assert all(0 <= line["score"] <= 1 for line in lines)


def test_table_gives_the_same_object_as_the_rescore_that_made_the_run(
    run_cli: Refbench, checkout: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    words = ("rescore", "creval", "--data", checkout, "--replies", checkout / "answer_gpt", "--out", run, "--json")
    first, again = run_cli(*words), run_cli(*words)
    assert first == again
    assert run_cli("table", run, "--json")[1] == first[1]
    paper = json.loads(run_cli("table", run, "--json", "--protocol", "paper")[1])
    assert {row["protocol"] for row in paper["rows"]} == {"paper"}
    assert paper["fingerprint"] != json.loads(first[1])["fingerprint"]


def test_tables_come_as_csv_markdown_and_for_the_eye(run_cli: Refbench, checkout: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    _, shown, _ = run_cli(
        "rescore", "creval", "--data", checkout, "--replies", checkout / "answer_gpt", "--out", run, "--by", "category"
    )
    assert "Customization" in shown
    assert "27/27" in shown
    rows = list(csv.DictReader(io.StringIO(run_cli("table", run, "--csv")[1])))
    assert len(rows) == 208
    assert float(rows[0]["value"]) == json.loads(run_cli("table", run, "--json")[1])["rows"][0]["value"]
    markdown = run_cli("table", run, "--markdown")[1]
    assert "| model | avg (corrected) | 95 % interval |" in markdown
    assert run_cli("table", run, "--markdown", "--json")[0] == 2


def test_models_are_chosen_by_name(run_cli: Refbench, checkout: Path) -> None:
    words = ("rescore", "creval", "--data", checkout, "--replies", checkout / "answer_gpt", "--json", "--model")
    assert {row["model"] for row in json.loads(run_cli(*words, "beta")[1])["rows"]} == {"beta"}
    both = json.loads(run_cli(*words, "beta", "--model", "alpha")[1])
    assert {row["model"] for row in both["rows"]} == {"alpha", "beta"}


def test_check_counts_and_lists_what_is_odd(run_cli: Refbench, checkout: Path) -> None:
    (checkout / "bench/image/item_001.1.png").write_text("no picture")
    code, out, _ = run_cli("check", "creval", "--data", checkout, "--json")
    said = json.loads(out)
    assert code == 0
    assert said["counts"]["cases"] == 27
    assert said["counts"]["questions"]["IF"]["questions"] == 27 * 5
    (anomaly,) = said["anomalies"]
    assert (anomaly["kind"], anomaly["count"], anomaly["places"][0]["case"]) == ("unreadable_picture", 1, "item_001.1")
    assert "unreadable_picture" in run_cli("check", "creval", "--data", checkout)[1]


def test_describe_tells_prompts_pictures_and_groups(run_cli: Refbench, checkout: Path) -> None:
    said = json.loads(run_cli("describe", "creval", "--data", checkout, "--json")[1])
    assert said["cases"] == 27
    assert said["pictures_per_case"] == {"1": 27}
    assert said["groups"]["category"] == {"Customization": 9, "Stylization": 9, "Contextualization": 9}
    assert "Customization: 9" in run_cli("describe", "creval", "--data", checkout)[1]


def test_cases_tell_a_model_nothing_that_only_scorers_may_know(
    run_cli: Refbench, checkout: Path, tmp_path: Path
) -> None:
    out = run_cli("cases", "creval", "--data", checkout)[1]
    first = json.loads(out.splitlines()[0])
    assert first["id"] == "item_000.0"
    assert first["output"] == "item_000.0.png"
    assert Path(first["pictures"][0]["path"]).is_file()
    assert "as asked?" not in out
    assert run_cli("cases", "creval", "--data", checkout, "--out", tmp_path / "cases.csv")[0] == 0
    assert len(list(csv.DictReader(io.StringIO((tmp_path / "cases.csv").read_text())))) == 27


@pytest.mark.parametrize("name", ["scores.csv", "scores.jsonl", "scores.parquet"])
@pytest.mark.parametrize("what", ["scores", "evidence"])
def test_export_writes_what_other_tools_read(
    run_cli: Refbench, checkout: Path, tmp_path: Path, name: str, what: str
) -> None:
    run_cli(
        "rescore",
        "creval",
        "--data",
        checkout,
        "--replies",
        checkout / "answer_gpt",
        "--out",
        tmp_path / "run",
        "--json",
    )
    assert run_cli("export", tmp_path / "run", "--what", what, "--out", tmp_path / name)[0] == 0
    path = tmp_path / name
    if name.endswith("csv"):
        rows = list(csv.DictReader(io.StringIO(path.read_text())))
    elif name.endswith("jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        import pyarrow.parquet

        rows = pyarrow.parquet.read_table(path).to_pylist()
    assert len(rows) == (2 * 2 * 3 * 27 if what == "scores" else 2 * 3 * 27)
    assert {row["model"] for row in rows} == {"alpha", "beta"}


def test_export_has_the_cases_with_what_the_run_has_been_asked_for(
    run_cli: Refbench, checkout: Path, tmp_path: Path
) -> None:
    from refbench.runs import Run

    replies = ["--replies", checkout / "answer_gpt", "--out", tmp_path / "run", "--json"]
    run_cli("rescore", "creval", "--data", checkout, *replies)
    with Run.open(tmp_path / "run").writer() as writer:
        writer.want(4)
    assert run_cli("export", tmp_path / "run", "--what", "cases", "--out", tmp_path / "cases.jsonl")[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"item_{n:03d}.{n % 7}" for n in range(27)]
    assert sum(row["wanted"] for row in rows) == 4
    assert set(rows[0]) >= {"groups", "tags", "cluster", "stratum", "targets", "details", "request"}


def test_merge_says_what_it_did(run_cli: Refbench, checkout: Path, tmp_path: Path) -> None:
    for model in ("alpha", "beta"):
        run_cli(
            "rescore",
            "creval",
            "--data",
            checkout,
            "--replies",
            checkout / "answer_gpt",
            "--model",
            model,
            "--out",
            tmp_path / model,
        )
    code, out, _ = run_cli("merge", tmp_path / "alpha", tmp_path / "beta", "--out", tmp_path / "both")
    assert (code, "162 results taken over" in out) == (0, True)


def test_too_many_unreadable_replies_end_in_exit_code_one(run_cli: Refbench, checkout: Path) -> None:
    for path in sorted((checkout / "answer_gpt/IF/alpha").glob("*.txt"))[:10]:
        path.write_text("I'm sorry, I can't help with that.")
    words = ("rescore", "creval", "--data", checkout, "--replies", checkout / "answer_gpt", "--json")
    code, out, _ = run_cli(*words)
    assert code == 1
    failed = [
        r
        for r in json.loads(out)["rows"]
        if (r["model"], r["metric"], r["protocol"], r["slice"]["level"]) == ("alpha", "IF", "corrected", "overall")
    ]
    assert failed[0]["failures"] == {"refused": 10}
    assert run_cli(*words, "--allow-failures", "0.1")[0] == 0


def test_replies_for_unknown_items_are_skipped_and_said(run_cli: Refbench, checkout: Path) -> None:
    (checkout / "answer_gpt/IF/alpha/stranger.txt").write_text("{}")
    code, out, _ = run_cli("rescore", "creval", "--data", checkout, "--replies", checkout / "answer_gpt", "--json")
    assert code == 0
    assert json.loads(out)["notes"] == ["1 replies for items not in the data were skipped (first: IF/alpha/stranger)"]


def test_the_judge_is_known_for_released_folders_and_can_be_named(run_cli: Refbench, checkout: Path) -> None:
    (checkout / "answer_gpt").rename(checkout / "answer_mine")
    words = ("rescore", "creval", "--data", checkout, "--replies", checkout / "answer_mine", "--json")
    assert json.loads(run_cli(*words)[1])["rows"][0]["judge"] == "mine"
    assert json.loads(run_cli(*words, "--judge", "gemini")[1])["rows"][0]["judge"] == "gemini"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("check creval --data {tmp}/absent", "is not there"),
        ("check creval --data {data}/bench", "did you mean --data"),
        ("check creval --data {tmp}", "did you mean --data"),
        ("check creval --data {tmp}/empty", "is no CREval checkout: neither bench/instruction.json"),
        ("check creval --data {data}/bench/instruction.json", "is a file"),
        ("check crevall --data {data}", "did you mean creval?"),
        ("check creval", "REFBENCH_DATA"),
        ("check creval --data {data} --subset paper873", "paper874"),
        ("rescore creval --data {data} --replies {tmp}/absent", "is not there"),
        ("rescore creval --data {data} --replies {data}", "did you mean"),
        ("rescore creval --data {data} --replies {data}/answer_gpt --model alpa", "did you mean alpha?"),
        ("rescore creval --data {data} --replies {data}/answer_gpt --out {data}", "choose another --out"),
        ("rescore creval --data {data} --replies {data}/answer_gpt --out {tmp}/run --shard 9/8", "--shard 9/8"),
        ("rescore creval --data {data} --replies {data}/answer_gpt --items {tmp}/items.xlsx", "name it .csv, .jsonl or .parquet"),
        ("table {tmp}/absent", "is not there"),
        ("table {data}", "is no run directory"),
        ("export {data} --out {tmp}/x.csv", "is no run directory"),
        ("merge {data} --out {tmp}/x", "is no run directory"),
        ("merge --out {tmp}/x", "at least one run"),
        ("tabel {tmp}", "Unknown command"),
        ("table {tmp} --jsn", "Unknown option"),
        ("rescore creval", "requires an argument"),
        ("check creval --data {data} --protocol papers", "Unknown option"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_exit_code_two(
    run_cli: Refbench, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, says: str
) -> None:
    monkeypatch.delenv("REFBENCH_DATA", raising=False)
    (tmp_path / "empty").mkdir()
    code, out, err = run_cli(*words.format(tmp=tmp_path, data=checkout).split())
    assert code == 2
    assert says in err
    assert "Traceback" not in err
    assert out == ""
    if err.startswith("refbench:"):
        assert err.count("\n") == 1


def test_debug_shows_the_traceback(run_cli: Refbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFBENCH_DEBUG", "")  # the command sets it for other processes; no other test is to see it
    code, _, err = run_cli("table", tmp_path / "absent", "--debug")
    assert code == 2
    assert "Traceback" in err


def test_a_fault_of_ours_is_said_without_a_traceback(
    run_cli: Refbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("refbench.tables.scoring.score_run", lambda *a, **k: 1 / 0)
    code, _, err = run_cli("table", tmp_path)
    assert code == 70
    assert "fault in RefBench (ZeroDivisionError" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("load", "measure", "says"),
    [
        ("[case({}['id'], 'do', {})]", "[]", "line 4, in load: it raised KeyError: 'id'"),
        ("[case('a', 'do', {})]", "case.request.pictures[1]", "line 5, in <lambda>: it raised IndexError"),
    ],
)
def test_a_fault_of_a_benchmark_of_the_users_is_said_to_be_its_own(
    run_cli: Refbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, load: str, measure: str, says: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from refbench.benchmarks.kit import benchmark, case\n\n"
        f"def load(root):\n    return {load}\n"
        f"BENCHMARK = benchmark(name='mine', load=load, measure=lambda case: {measure}, measured={{'likeness': 'lpips'}})"
    )
    code, _, err = run_cli("check", file, "--data", tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert f"refbench: {file}, {says}" in err and "fault in RefBench" not in err
    monkeypatch.setenv("REFBENCH_DEBUG", "")
    assert "Traceback" in run_cli("check", file, "--data", tmp_path, "--debug")[2]


def test_every_command_has_a_help_page(run_cli: Refbench) -> None:
    assert run_cli("--help")[0] == 0
    for name in COMMANDS:
        code, out, _ = run_cli(name, "--help")
        assert code == 0
        assert f"refbench {name}" in out


def test_the_help_shows_every_command_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)


def test_options_of_a_run_are_grouped_and_a_benchmarks_own_are_in_its_help(run_cli: Refbench) -> None:
    code, out, _ = run_cli("run", "--help")
    assert code == 0
    assert all(f"─ {group} ─" in out for group in ("What to run", "Judge", "Limits", "Where", "Output"))
    assert "Name of a benchmark" in out
    assert "[default: None]" not in out
    assert "Exit codes:" in out
    assert "--questions" not in out
    assert "--questions" in run_cli("run", "creval", "--help")[1]
    assert "--show-instruction" in run_cli("run", "--out", "x", "creval", "-h")[1]
    assert "--questions" not in run_cli("run", "--out", "creval", "ideabench", "--help")[1]
    assert run_cli("run", "multibanana", "--questions", "one")[0] == 2


@pytest.mark.slow
def test_the_demo_shows_a_gap_that_is_none_and_runs_every_command_it_prints(
    run_cli: Refbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the photographs or the networks it ends after the released figures, and says what is missing."""
    monkeypatch.delenv("REFBENCH_JUDGE", raising=False)
    monkeypatch.setattr(photographs, "BACKGROUNDS", {"wall": photographs.BACKGROUNDS["wall"]})  # a quarter of it
    code, out, err = run_cli("demo", "--out", tmp_path / "demo")
    assert code == 0, err
    assert "83.16" in out
    assert "83.43" in out
    assert "Cannot resolve qwen-image-edit_output_edit-2509 and gpt-image-1" in out
    typed = [line for line in out.splitlines() if line.startswith("$ refbench ")]
    assert [line.split()[2] for line in typed[:2]] == ["table", "compare"]
    there = [line.split()[2] for line in typed[2:]]
    if not there:
        assert "needs" in out
        return
    assert there[-3:] == ["run", "failures", "view"]
    assert there[:-3] == (["run", "compare"] if "needs" not in out else [])
    assert ("total is the mean of background, subject" in out) == ("needs" not in out)
    judged = score_run(tmp_path / "demo/made-up", draws=0)
    assert {failure["kind"] for failure in judged.failures()} <= {"refused", "unparsable"}
    assert "draws its marks by chance" in out
    files = [path for path in (tmp_path / "demo/site").rglob("*") if path.suffix in (".html", ".json", ".js")]
    pages = b"".join(path.read_bytes() for path in files)
    assert b"nobody has looked at this picture" in pages, "the judge's words, which say what they are"


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stdout.splitlines()[-1].split())


def test_importing_refbench_and_asking_for_help_load_nothing_heavy() -> None:
    heavy = {"numpy", "cv2", "scipy", "torch", "PIL", "pyarrow"}
    assert not heavy & modules_after("import refbench")
    ask = "sys.argv = ['refbench', '--help']\nfrom refbench.cli.app import main\ntry: main()\nexcept SystemExit: pass"
    assert not heavy & modules_after(ask)
    assert "numpy" in modules_after("import refbench; refbench.rescore")


def test_public_names_are_all_there() -> None:
    import refbench

    for name in refbench.__all__:
        assert getattr(refbench, name) is not None
    with pytest.raises(AttributeError):
        _ = refbench.nothing


def test_output_into_a_closed_pipe_is_no_error(checkout: Path) -> None:
    command = f"{sys.executable} -m refbench cases creval --data {checkout} | head -n 1"
    ended = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--port", "8000", "--out", "site"), "only live pages"),
        (("--port", "8000", "--brief"), "only live pages"),
        (("--pictures", "thumbs"), "written with --out"),
        (("--port", "99999"), "no port"),
    ],
)
def test_view_says_which_of_its_options_do_not_go_together(
    run_cli: Refbench, words: tuple[str, ...], said: str
) -> None:
    code, _, err = run_cli("view", "runs/x", *words)
    assert code == 2
    assert said in err


INTERRUPTED = """
import threading, time
from refbench.cli import app
def stop(*words, **how):
    raise KeyboardInterrupt
app.app = stop
threading.Thread(target=time.sleep, args=(60,)).start()  # which the interpreter waits for
app.main()
"""


def test_an_interrupt_of_a_command_that_is_ending_is_no_traceback() -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("refbench: stopped;")
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_command_that_is_asked_to_end_before_it_has_begun_has_the_code_for_the_queue(number: signal.Signals) -> None:
    asked = f"import os; os.kill(os.getpid(), {int(number)})"
    code = INTERRUPTED.replace("raise KeyboardInterrupt", asked).replace("60", "0")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stderr == "refbench: stopped; what was recorded is safe, run the same command again to go on\n"
    assert ended.returncode == 75


def test_the_version_comes_with_the_environment_for_a_report(run_cli: Refbench) -> None:
    lines = run_cli("--version")[1].splitlines()
    assert lines[0] == __version__
    assert lines[1].startswith("Python 3.")
    assert "numpy " in lines[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(run_cli: Refbench, shell: str) -> None:
    code, out, _ = run_cli("completion", shell)
    assert code == 0
    assert all(name in out for name in ("refbench", "compare", "failures", "generate"))
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=out, text=True, check=True)


def test_a_folder_without_its_kind_is_named_with_it(run_cli: Refbench, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"id": "a", "instruction": "x"}')
    code, _, err = run_cli(
        "run", cases, "--rubric", "five_criteria", "--model", "copy=out/copy", "--out", tmp_path / "r"
    )
    assert code == 2
    assert "for example copy=folder:out/copy" in err
    assert not (tmp_path / "r").exists(), "a mistaken command leaves nothing that blocks the next one"


def test_pictures_leave_a_run_under_readable_names(run_cli: Refbench, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(
        "".join(f'{{"id": "{name}", "instruction": "x"}}\n' for name in ("a/b", "a b", "c"))
    )
    (tmp_path / "model.py").write_text(
        "from PIL import Image\n\ndef make():\n"
        "    return lambda request, seed: Image.new('RGB', (8, 8), (seed, 2, 3))\n"
    )
    model = f"m=python:{tmp_path / 'model.py'}:make"
    words = ("generate", tmp_path / "cases.jsonl", "--model", model, "--seeds", 2, "--out", tmp_path / "run")
    assert run_cli(*words)[0] == 0
    code, out, _ = run_cli("export", tmp_path / "run", "--pictures", tmp_path / "pictures")
    assert (code, out) == (0, f"6 pictures in {tmp_path / 'pictures'}\n")
    names = sorted(path.name for path in (tmp_path / "pictures" / "m").iterdir())
    assert {"c.png", "c_s1.png", "a_b.png", "a_b_s1.png"} <= set(names)
    assert len(names) == 6
    assert run_cli("export", tmp_path / "run")[0] == 2


@pytest.mark.parametrize(
    "words",
    [("compare", "creval:Bagel", "creval:OmniGen2"), ("grid", "run"), ("paper", "run"), ("audit", "make", "run")],
)
def test_a_seed_below_zero_is_refused_in_a_sentence(
    words: tuple[str, ...], run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    code, _, said = run_cli(*words, "--seed", -1, *(("--out", "x") if words[0] != "compare" else ()))
    assert code == 2
    assert "a seed is 0 or more" in said


def test_more_resamples_than_a_machine_holds_are_refused(run_cli: Callable[..., tuple[int, str, str]]) -> None:
    code, _, said = run_cli("compare", "creval:Bagel", "creval:OmniGen2", "--draws", 10**10)
    assert code == 2
    assert "100,000 resamples are the most" in said
