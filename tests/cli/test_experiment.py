"""Experiment files: what they say is what is run, the command line comes first, and mistakes name the key."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.cli.app import main
from refbench.engine import RunOptions, evaluate
from refbench.engine.options import read_experiment
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.specs import Spec
from support.five_criteria import FIVE
from support.judge_server import JudgeServer


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_its_keys_are_the_arguments_of_evaluate() -> None:
    arguments = dict(inspect.signature(evaluate).parameters)
    assert arguments.pop("show").default is False
    assert list(arguments) == sorted(RunOptions.model_fields, key=list(arguments).index)
    defaults = {name: field.default for name, field in RunOptions.model_fields.items()}
    for name in set(arguments) - {"benchmark", "models", "out", "settings"}:
        assert arguments[name].default == defaults[name], name


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("kind = 'baseline'\nwhat = 'copy'", "baseline:copy"),
        ("kind = 'openai'\nwhat = 'gpt-image-1'\nquality = 'high'", "openai:gpt-image-1?quality=high"),
        ("kind = 'truncate'\nmodel = 'nano=gemini:nano-banana'", "truncate(nano=gemini:nano-banana)"),
        (
            "kind = 'ipr'\nplanner = 'openai:gpt-5?temperature=0'\nsteps = 3\n"
            "model = { kind = 'suffix', text = 'more; (or) less', model = 'baseline:blend' }",
            'ipr(suffix(baseline:blend; text="more; (or) less"); planner=openai:gpt-5?temperature=0; steps=3)',
        ),
    ],
)
def test_a_model_as_a_table_is_the_same_as_in_one_line(tmp_path: Path, table: str, line: str) -> None:
    written = read_experiment(write(tmp_path / "table.toml", f"[models.A]\n{table}"))["models"]
    assert written == [Spec.parse(f"A={line}")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sedds = 3", "sedds: there is no such key: did you mean seeds"),
        ("name = 'x'", "did you mean benchmark"),
        ("seeds = 'many'", "seeds: it should be a valid integer"),
        ("batch = 'perhaps'", "batch: it should be a valid boolean"),
        ("protocol = 'mine'", "protocol: it should be 'paper', 'corrected' or 'both'"),
        ("models = 3", "models: it should be a list of specs"),
        ("[models]\nA = 3", "models.A: give a spec"),
        ("[models.A]\nkind = 'ipr'\nmodel = 'baseline:copy'", "models.A: ipr asks a VLM"),
        ("[models.A]\nkind = 'turnz'\nmodel = 'baseline:copy'", "models.A: no wrapper is called 'turnz'"),
        ("[models.A]\nkind = 'folder'", "models.A: folder needs what"),
        ("judges = [1]", "judges[0]: give a spec"),
        ("judges = 'openai:gpt-4o'", "judges: it should be a list of specs"),
        ("[settings]\nx = [1]", "settings.x"),
        ("seeds = ", "is not valid TOML"),
        ("making = 3", "making is called generate_concurrency now"),
        ("ask = 'paper'", "ask is a setting: write it under [settings]"),
        ("max_side = 512", "max_side is a setting: write it under [settings]"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path / "experiment.toml", text)
    with pytest.raises(RefBenchError) as error:
        read_experiment(path)
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["refbench", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    (tmp_path / "ref.png").write_bytes(encode(np.zeros((8, 8, 3), dtype=np.uint8)))
    rows = [
        {"id": f"c{n}", "instruction": "Paint.", "references": [{"path": "ref.png", "role": "style"}]} for n in range(4)
    ]
    return write(tmp_path / "cases.jsonl", "\n".join(map(json.dumps, rows)))


def test_an_experiment_runs_and_the_command_line_comes_first(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    reply = json.dumps(dict.fromkeys(FIVE, 5))
    with JudgeServer(reply=lambda text: reply) as server:
        path = write(
            tmp_path / "experiment.toml",
            f"""
            benchmark = "{cases}"
            rubric = "five_criteria"
            out = "{tmp_path / "run"}"
            limit = 2
            seeds = 2
            judges = {{ j = "openai:gpt-4o?base_url={server.url}/v1" }}
            [models]
            plain = "baseline:copy"
            [models.worded]
            kind = "suffix"
            text = "in oil; on canvas"
            model = {{ kind = "baseline", what = "copy" }}
            [settings]
            max_side = 256
            """,
        )
        code, out, err = run(
            monkeypatch, capsys, "run", path, "--seeds", 1, "--limit", 3, "--set", "max_side=128", "--json"
        )
    assert (code, err) == (0, "")
    table = json.loads(out)
    assert {row["model"] for row in table["rows"]} == {"plain", "worded"}
    assert next(row["n_expected"] for row in table["rows"]) == 3, "--limit comes before limit"
    opened = Run.open(tmp_path / "run")
    assert {output.seed for output in opened.outputs()} == {0}, "--seeds comes before seeds"
    assert opened.info.settings["max_side"] == "128"


def test_what_neither_file_nor_command_line_says_is_asked_for(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "experiment.toml", "seeds = 1")
    assert "benchmark is missing" in run(monkeypatch, capsys, "run", path)[2]
    write(path, f'benchmark = "{cases}"')
    assert "give at least one --model" in run(monkeypatch, capsys, "run", path)[2]
    code, _, err = run(monkeypatch, capsys, "run", path, "--model", "baseline:copy")
    assert "give --out DIR" in err
    assert code == 2
    assert "is not there" in run(monkeypatch, capsys, "run", tmp_path / "absent.toml")[2]


def test_an_option_of_another_name_or_benchmark_is_explained(run_cli: Any) -> None:
    for command in ("run", "generate"):
        code, _, err = run_cli(command, "cases.jsonl", "--making", "3")
        assert code == 2 and "--making is called --generate-concurrency now" in err
    code, _, err = run_cli("run", "creval", "--prompt", "enhanced", "--model", "a=folder:x")
    assert code == 2 and "--prompt is a setting of multiref, not of this benchmark" in err


def test_plan_and_generate_take_models_and_judges_from_an_experiment(tmp_path: Path, run_cli: Any) -> None:
    cases = write(tmp_path / "cases.jsonl", '{"id": "a", "instruction": "Paint a tree."}\n')
    judge = write(tmp_path / "judge.py", "def ask(prompt): return '{}'\ndef paint(request): return None\n")
    text = f"benchmark = '{cases}'\nrubric = 'five_criteria'\nout = '{tmp_path}/run'\n"
    lists = f"models = ['a=python:{judge}:paint']\njudges = ['j=python:{judge}:ask']\n"
    code, out, err = run_cli("plan", write(tmp_path / "full.toml", text + lists))
    assert code == 0 and "1 case, 1 model, 1 call" in out, err
    code, out, err = run_cli("generate", tmp_path / "full.toml")
    assert code == 1 and "failed: 1 missing_output" in out, err
    code, _, err = run_cli("generate", write(tmp_path / "bare.toml", text))
    assert code == 2 and "give at least one --model" in err


def test_a_timeout_holds_for_functions_and_commands_whose_specs_say_none(tmp_path: Path, run_cli: Any) -> None:
    cases = write(tmp_path / "cases.jsonl", '{"id": "a", "instruction": "Paint a tree."}\n')
    slow = write(tmp_path / "slow.py", "import time\ndef paint(request): time.sleep(3600)\n")
    text = f"benchmark = '{cases}'\nout = '{tmp_path}/run'\ntimeout = 0.3\n"
    lists = f"""models = ['a=python:{slow}:paint', 'b=command:sh -c "sleep 9999" {{instruction}} {{output}}']\n"""
    code, out, err = run_cli("generate", write(tmp_path / "slow.toml", text + lists))
    assert code == 1 and "failed: 2 timeout" in out, err
