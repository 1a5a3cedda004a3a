"""Opening a run runs no Python that came with it, unless its user has run that very file before, names it, or says so."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import refbench
from conftest import Refbench
from refbench.benchmarks import trust
from refbench.record import RefBenchError
from refbench.runs.run import RunInfo
from support.checkout import plain_items, write_checkout, write_replies

BENCH = """
from pathlib import Path
from refbench.benchmarks.kit import Measured, benchmark
from refbench.case import Case, Picture, Request

Path({sign!r}).touch()

def load(root):
    for n in range(3):
        pictures = (Picture(name=f"{{n}}.png", role="source"),)
        yield Case[dict](id=f"c{{n}}", request=Request(instruction="Do.", pictures=pictures), cluster="c", details={{}})

BENCHMARK = benchmark(
    name="mine", load=load, measure=lambda case: [Measured("l1", "l1", {{"source": case.request.pictures[0]}})],
    measured={{"l1": (0, 1)}},
)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody who has run nothing yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run(tmp_path: Path, home: Path) -> Path:
    """A run that somebody else has made with a file of theirs; whoever runs that file leaves a sign."""
    for folder in ("data", "out"):
        (tmp_path / folder).mkdir()
        for n in range(3):
            name = f"c{n}" if folder == "out" else str(n)
            (tmp_path / folder / f"{name}.png").write_bytes(picture(n if folder == "out" else n + 3))
    (tmp_path / "mine.py").write_text(BENCH.format(sign=str(tmp_path / "sign")))
    models = [f"A=folder:{tmp_path / 'out'}", f"B=folder:{tmp_path / 'out'}"]
    refbench.evaluate(str(tmp_path / "mine.py"), data=tmp_path / "data", models=models, out=tmp_path / "run")
    for record in (home / "refbench/trusted").iterdir():
        record.unlink()
    _forget(tmp_path)
    return tmp_path / "run"


def picture(number: int) -> bytes:
    import numpy as np

    from refbench.pictures import encode

    return encode(np.full((8, 8, 3), 20 * number, np.uint8))


def _forget(folder: Path) -> None:
    """What this process has run already is not run again: as if it were another process."""
    from refbench.benchmarks import registry

    registry._run_file.cache_clear()
    (folder / "sign").unlink(missing_ok=True)


COMMANDS = [
    ("table",),
    ("view", "--out", "site"),
    ("view", "--brief", "--out", "brief.html"),
    ("export", "--out", "scores.csv"),
    ("compare",),
    ("grid", "--out", "grid.png"),
    ("precision",),
    ("agree",),
    ("why",),
    ("items",),
    ("sample", "--for-humans", "10"),
    ("plan",),
]


def words_of(command: tuple[str, ...], run: Path) -> list[object]:
    name, *rest = command
    if name in ("compare", "why"):
        return [name, f"{run}:A", f"{run}:B", *rest]
    if name == "plan":
        asked = ["--rubric", "five_criteria", "--judge", "openai:gpt-4o", "--model", "A=baseline:copy"]
        return [name, run.parent / "cases.jsonl", *asked, "--like", run]
    return [name, run, *rest]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_runs_code_that_came_with_a_run(
    run: Path, run_cli: Refbench, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(run.parent)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (run.parent / "cases.jsonl").write_text(json.dumps({"id": "c0", "instruction": "Do.", "source": "data/0.png"}))
    code, _, err = run_cli(*words_of(command, run))
    assert not (run.parent / "sign").exists()
    assert code == 2, err
    assert "--trust-run" in err
    assert "you have not run this file before" in err


def test_it_is_said_once_and_only_for_that_very_file(run: Path, run_cli: Refbench, tmp_path: Path) -> None:
    assert run_cli("table", run)[0] == 2
    assert run_cli("table", run, "--trust-run")[0] == 0
    assert (tmp_path / "sign").exists()
    _forget(tmp_path)
    assert run_cli("compare", f"{run}:A", f"{run}:B")[0] == 0
    kept = run / "benchmark/benchmark.py"
    kept.write_text(kept.read_text() + "\n# another\n")
    told = json.loads((run / "run.json").read_text())
    told["kept"] = {"benchmark.py": hashlib.sha256(kept.read_bytes()).hexdigest()}
    info = RunInfo.model_validate(told)
    (run / "run.json").write_text(info.model_copy(update={"digest": info.sum}).model_dump_json())
    _forget(tmp_path)
    code, _, err = run_cli("table", run)
    assert (code, (tmp_path / "sign").exists()) == (2, False), err


@pytest.mark.parametrize("way", ["run", "named", "python"])
def test_who_has_run_the_file_or_names_it_is_not_asked(run: Path, run_cli: Refbench, tmp_path: Path, way: str) -> None:
    mine = tmp_path / "mine.py"
    if way == "run":
        again = run_cli(
            "run", mine, "--data", tmp_path / "data", "--model", f"A=folder:{tmp_path / 'out'}", "--out", run
        )
        assert again[0] == 0, again
    elif way == "named":
        assert run_cli("table", run, "--benchmark", mine)[0] == 0
    else:
        refbench.score_run(run, reader=mine)
    assert run_cli("table", run)[0] == 0


def test_what_needs_no_code_is_read_without(run: Path, run_cli: Refbench, tmp_path: Path) -> None:
    for what in ("evidence", "outputs", "cases", "annotations"):
        assert run_cli("export", run, "--what", what, "--out", tmp_path / f"{what}.jsonl")[0] == 0
    assert run_cli("merge", run, "--out", tmp_path / "merged")[0] == 0
    assert run_cli("check", run)[0] == 0
    assert not (tmp_path / "sign").exists()


def test_a_run_of_a_shipped_benchmark_never_runs_a_file_of_its_own(home: Path, tmp_path: Path) -> None:
    """Nor one that its name points to."""
    items = plain_items(4)
    root = write_checkout(tmp_path / "data", items, pictures=False)
    write_replies(root / "answer_gpt", "a", items)
    out = tmp_path / "run"
    first = refbench.rescore("creval", data=root, replies=root / "answer_gpt", out=out, draws=0)
    (out / "benchmark").mkdir()
    evil = out / "benchmark/benchmark.py"
    evil.write_text(BENCH.format(sign=str(tmp_path / "sign")))
    with trust.trusting_runs():
        assert refbench.score_run(out, draws=0).table == first.table
    told = json.loads((out / "run.json").read_text())
    for name in (str(evil), "run/benchmark/benchmark.py", "../x"):
        info = RunInfo.model_validate({**told, "benchmark": name})
        (out / "run.json").write_text(info.model_copy(update={"digest": info.sum}).model_dump_json())
        evil.rename(out / "other.py") if evil.exists() else None
        with pytest.raises(RefBenchError, match="neither shipped nor installed"):
            refbench.score_run(out, draws=0)
    assert not (tmp_path / "sign").exists()


def test_a_file_may_not_take_the_name_of_a_shipped_benchmark(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BENCH.format(sign=str(tmp_path / "sign")).replace('"mine"', '"creval"'))
    with pytest.raises(RefBenchError, match=r"name='creval' is that of a benchmark of RefBench"):
        refbench.benchmarks.benchmark(str(tmp_path / "mine.py"))


def test_processes_that_note_at_once_lose_nothing(home: Path) -> None:
    script = (
        "import sys; from refbench.benchmarks import trust\n"
        "for n in range(100): trust.remember(str(n % 50).encode() + sys.argv[1].encode() * (n % 2))"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, name], env=os.environ) for name in ("a", "b")]
    assert [process.wait() for process in running] == [0, 0]
    sources = [str(n).encode() + name * (n % 2) for n in range(50) for name in (b"a", b"b")]
    assert all(trust.may_run(source) for source in sources)
    assert len(list((home / "refbench/trusted").iterdir())) == len(set(sources))


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/x"])
def test_without_a_place_to_note_it_nothing_is_trusted_and_nothing_breaks(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", place)
    trust.remember(b"x")
    assert not trust.may_run(b"x")


NEIGHBOUR = "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent))\n{}\n" + BENCH


def _made(root: Path, out: str) -> str:
    """The fingerprint of a run by a process that has imported nothing yet."""
    _forget(root)
    for name in ("neighbour_of_mine", "deeper_of_mine"):
        sys.modules.pop(name, None)
    models = [f"A=folder:{root / 'out'}"]
    return refbench.evaluate(root / "mine.py", data=root / "data", models=models, out=root / out).table.fingerprint


def test_a_file_beside_the_kept_one_is_never_run(
    run: Path, run_cli: Refbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the kept file is trusted and looks for its neighbours; what they say belongs to the benchmark."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source = NEIGHBOUR.replace("{}", "import neighbour_of_mine", 1).format(sign=str(tmp_path / "other"))
    (tmp_path / "mine.py").write_text(source)
    (tmp_path / "neighbour_of_mine.py").write_text("import deeper_of_mine\n")
    (tmp_path / "deeper_of_mine.py").write_text("rule = 1\n")
    first = _made(tmp_path, "beside")
    (tmp_path / "beside/benchmark/neighbour_of_mine.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')")
    code, _, err = run_cli("table", tmp_path / "beside")
    assert not (tmp_path / "pwned").exists()
    assert (code, "imports files from beside it, which a run does not keep: name the file" in err) == (2, True), err
    code, out, err = run_cli("table", tmp_path / "beside", "--benchmark", tmp_path / "mine.py", "--json")
    assert (code, json.loads(out)["fingerprint"]) == (0, first), err
    assert "does not keep what its benchmark imports (deeper_of_mine.py, neighbour_of_mine.py)" in out
    (tmp_path / "deeper_of_mine.py").write_text("rule = 2\n")
    with pytest.raises(RefBenchError, match="the code of the benchmark mine changed"):
        _made(tmp_path, "beside")
    assert _made(tmp_path, "new") != first


def test_a_neighbour_that_an_older_run_did_not_count_is_not_found_in_it(
    run: Path, run_cli: Refbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    source = NEIGHBOUR.replace("{}", "import stray_of_mine", 1).format(sign=str(tmp_path / "other")).encode()
    (run / "benchmark/benchmark.py").write_bytes(source)
    (run / "benchmark/stray_of_mine.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')")
    told = json.loads((run / "run.json").read_text())
    told |= {
        "kept": {"benchmark.py": hashlib.sha256(source).hexdigest()},
        "code": hashlib.sha256(source).hexdigest()[:16],
    }
    info = RunInfo.model_validate(told)
    (run / "run.json").write_text(info.model_copy(update={"digest": info.sum}).model_dump_json())
    code, _, err = run_cli("table", run, "--trust-run")
    assert not (tmp_path / "pwned").exists()
    assert code == 2
    assert "it imports stray_of_mine, which is not installed here" in err
