"""Measuring in a run: beside judging or without, resumed, both protocols, and nothing lost to one bad picture."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from refbench.engine import evaluate
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.report.leaderboard import leaderboard
from refbench.runs import Run
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from refbench.tables.table import OVERALL
from support.judge_server import JudgeServer

pytestmark = pytest.mark.usefixtures("one_worker")
BENCH = '''
import json
from refbench.benchmarks.kit import Call, Measured, benchmark
from refbench.case import Case, Picture, Request
from refbench.metrics import metric
from refbench.pictures import Pixels

@metric(better="higher", range=(0, 1))
def brightness(output: Pixels) -> float:
    """Mean of all channels."""
    return float(output.mean()) / 255

@metric(better="higher", range=(0, 1))
def deadly(output: Pixels) -> float:
    """Ends its process on a white picture."""
    import os, signal
    if output.min() == 255:
        os.kill(os.getpid(), signal.SIGSEGV)
    return 0.5

def load(root):
    for line in (root / "cases.jsonl").read_text().splitlines():
        item = json.loads(line)
        source = Picture(name=item["source"], role="source")
        yield Case(id=item["id"], request=Request(instruction="Edit.", pictures=(source,)), cluster=item["id"], details={})

def ask(case, material):
    return ["", material.output, "Give a mark from 1 to 5 as JSON."]

def read(case, reply):
    return {"quality": json.loads(reply)["quality"]}

def measure(case):
    (source,) = case.request.pictures
    return [Measured("l1", "l1", {"source": source}), Measured("brightness", "brightness"), *MORE]

MORE = []
BENCHMARK = benchmark(name="mine", load=load, judge=[Call("quality", {"quality": (1, 5)}, ask, read)],
                      measure=measure, measured={"l1": (0, 1), "brightness": (0, 1), **{m.part: (0, 1) for m in MORE}})
'''


def write_work(root: Path, n: int = 6) -> Path:
    rng = np.random.default_rng(1)
    for folder in ("src", "a", "b"):
        (root / folder).mkdir()
    with (root / "cases.jsonl").open("w") as file:
        for i in range(n):
            for folder in ("src", "a", "b"):
                (root / folder / f"c{i}.png").write_bytes(encode(rng.integers(0, 200, (12, 16, 3), dtype=np.uint8)))
            file.write(json.dumps({"id": f"c{i}", "source": f"src/c{i}.png"}) + "\n")
    (root / "mine.py").write_text(BENCH)
    return root


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))
    return write_work(tmp_path)


def run(work: Path, **changes: object) -> Result:
    arguments = {"models": [f"A=folder:{work / 'a'}", f"B=folder:{work / 'b'}"], "data": work, "out": work / "run"}
    return evaluate(str(work / "mine.py"), **{**arguments, **changes}).result


def overall(result: Result, metric: str, model: str = "A") -> float | None:
    (row,) = [r for r in result.table.rows if (r.metric, r.model, r.slice["level"]) == (metric, model, "overall")]
    return row.value


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(float)


def test_outputs_are_measured_without_any_judge(work: Path) -> None:
    result = run(work)
    gaps = [np.abs(pixels(work / f"a/c{i}.png") - pixels(work / f"src/c{i}.png")).mean() / 255 for i in range(6)]
    assert overall(result, "l1") == pytest.approx(np.mean(gaps), abs=1e-6)
    assert overall(result, "brightness", "B") == pytest.approx(
        np.mean([pixels(work / f"b/c{i}.png").mean() / 255 for i in range(6)]), abs=1e-6
    )
    assert all(score.not_asked for score in result.scores if score.metric == "quality")


def test_measurements_stand_beside_every_judge(work: Path) -> None:
    with JudgeServer(reply=lambda text: '{"quality": 4}') as server:
        judges = [f"{name}=openai:{name}?base_url={server.url}/v1" for name in ("x", "y")]
        result = run(work, judges=judges)
    systems = {(s.model, s.judge) for s in result.scores}
    assert systems == {(m, j) for m in "AB" for j in "xy"}
    assert all(s.value is not None for s in result.scores)
    by = {(s.model, s.case, s.judge): s.value for s in result.scores if s.metric == "l1"}
    assert all(by[m, c, "x"] == by[m, c, "y"] for m, c, _ in by)


def test_a_judge_may_come_later_and_nothing_is_measured_twice(work: Path) -> None:
    run(work)
    before = len([e for _, e in Run.open(work / "run").evidence() if e.kind == "measure"])
    with JudgeServer(reply=lambda text: '{"quality": 2}') as server:
        result = run(work, judges=[f"x=openai:x?base_url={server.url}/v1"])
    after = [e for _, e in Run.open(work / "run").evidence() if e.kind == "measure"]
    assert before == len(after) == 6 * 2 * 2
    assert all(s.value is not None for s in result.scores)


def test_the_table_is_made_again_from_the_run_alone(work: Path) -> None:
    live = run(work)
    for folder in ("a", "b", "src"):
        for path in (work / folder).iterdir():
            path.unlink()
    again = score_run(work / "run")
    assert [r.value for r in again.table.rows] == [r.value for r in live.table.rows]
    assert again.table.fingerprint == live.table.fingerprint


def test_one_unreadable_picture_costs_its_own_measurements(work: Path) -> None:
    (work / "src/c2.png").write_bytes(b"\x89PNG\r\n\x1a\n cut off")
    (work / "b/c4.png").unlink()
    result = run(work)
    failed = {(s.case, s.model, s.metric): s.failure.kind for s in result.scores if s.failure and s.metric != "quality"}
    assert failed == {
        ("c2", "A", "l1"): "unreadable_picture",
        ("c2", "B", "l1"): "unreadable_picture",
        ("c4", "B", "l1"): "missing_output",
        ("c4", "B", "brightness"): "missing_output",
    }


@pytest.mark.slow
def test_a_metric_that_kills_its_process_is_lost_alone(work: Path) -> None:
    (work / "mine.py").write_text(BENCH.replace("MORE = []", "MORE = [Measured('deadly', 'deadly')]"))
    (work / "a/c3.png").write_bytes(encode(np.full((12, 16, 3), 255, np.uint8)))
    result = run(work)
    failed = {(s.case, s.model, s.metric): s.failure for s in result.scores if s.failure and s.metric != "quality"}
    assert set(failed) == {("c3", "A", "deadly")}
    assert failed["c3", "A", "deadly"].kind == "worker_died"
    assert "signal 11" in failed["c3", "A", "deadly"].detail


def test_a_metric_whose_network_is_not_here_is_not_measured_and_says_what_to_do(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(work / "nothing"))
    lpips = "MORE = [Measured('lpips', 'lpips', {'source': Picture(name='src/c0.png', role='source')})]"
    (work / "mine.py").write_text(BENCH.replace("MORE = []", lpips))
    result = run(work)
    assert {s.failure.kind for s in result.scores if s.metric == "lpips" and s.failure} == {"not_measured"}
    assert all(s.value is None for s in result.scores if s.metric == "lpips")
    (note,) = [n for n in result.notes if n.startswith("lpips")]
    assert "refbench fetch lpips" in note or "pip install" in note
    assert result.failure_share(missing=True) == 0.0


def test_every_part_of_a_metric_that_is_not_here_says_so_and_none_waits(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(work / "nothing"))
    one = "Measured('{}', 'lpips', {{'source': Picture(name='src/c0.png', role='source')}})"
    more = f"MORE = [{one.format('first')}, {one.format('second')}]"
    less = 'lower=("first", "second"), measured'
    (work / "mine.py").write_text(BENCH.replace("MORE = []", more).replace("measured=", f"{less}=", 1))
    result = run(work)
    for part in ("first", "second"):
        states = {(s.not_asked, s.failure and s.failure.kind) for s in result.scores if s.metric == part}
        assert states == {(False, "not_measured")}
    assert any(note.startswith("first, second were not measured: ") for note in result.notes), result.notes


def test_only_the_parts_that_were_asked_for_are_measured(work: Path) -> None:
    result = run(work, metrics=["l1"])
    assert overall(result, "l1") is not None
    assert overall(result, "brightness") is None
    with pytest.raises(RefBenchError, match="measures brightness, l1"):
        run(work, metrics=["lpipz"])


def test_an_output_turned_by_exif_is_measured_upright(work: Path) -> None:
    """Camera-style orientation: the stored pixels lie on their side, `corrected` turns them up."""
    upright = pixels(work / "src/c1.png").astype(np.uint8)
    picture = Image.fromarray(cv2.rotate(upright, cv2.ROTATE_90_COUNTERCLOCKWISE))
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(work / "a/c1.png", exif=exif)
    result = run(work)
    (value,) = [s.value for s in result.scores if (s.case, s.model, s.metric) == ("c1", "A", "l1")]
    assert value == 0.0


def test_shards_measure_their_part_and_make_one_table(work: Path) -> None:
    from refbench.runs import Shard

    whole = run(work, out=work / "whole")
    for i in (1, 2, 3):
        parts = run(work, out=work / "sharded", shard=Shard.parse(f"{i}/3"))
    assert [r.value for r in parts.table.rows] == [r.value for r in whole.table.rows]


def test_a_killed_run_measures_only_what_was_missing(work: Path) -> None:
    """The process is killed in the middle; what it had recorded is not measured again."""
    pid = os.fork()
    if pid == 0:
        os.environ["KILLED_AT"] = "1"
        try:
            import refbench.engine.measuring as measuring

            real = measuring.MeasuringRun._record

            async def dying(self: object, *rest: object, **more: object) -> None:
                await real(self, *rest, **more)  # type: ignore[arg-type]
                await self._written(0)  # type: ignore[attr-defined]
                os.kill(os.getpid(), signal.SIGKILL)

            measuring.MeasuringRun._record = dying  # type: ignore[assignment, method-assign]
            run(work)
        finally:
            os._exit(1)
    os.waitpid(pid, 0)
    there = {e.id for _, e in Run.open(work / "run").evidence()}
    assert 0 < len(there) < 24
    result = run(work)
    assert all(s.value is not None for s in result.scores if s.metric != "quality")
    assert len({e.id for _, e in Run.open(work / "run").evidence()}) == 24


def test_of_a_distance_less_is_better_everywhere(work: Path) -> None:
    """Model A gives back the source, B noise: A is first, and the run says so also when it is read again."""
    for i in range(6):
        (work / f"a/c{i}.png").write_bytes((work / f"src/c{i}.png").read_bytes())
    result = run(work)
    assert result.bench.scoring.lower == {"l1"}
    assert score_run(work / "run").bench.scoring.lower == {"l1"}
    only = run(work, metrics=["l1"], out=work / "only")
    assert [line.model for line in leaderboard(only, dict(OVERALL))] == ["A", "B"]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("Measured('gap', 'l1_raw', {'source': SOURCE})", "no metric is called 'l1_raw': did you mean l1?"),
        ("Measured('gap', 'lpips@lpips_alx', {'source': SOURCE})", "did you mean lpips_alex?"),
        ("Measured('gap', 'mse', {'before': SOURCE})", "the picture 'before', but it takes"),
        (
            "Measured('gap', 'ssim', {'source': SOURCE}, {'caption': 'a hat'})",
            "the fact 'caption', but it takes no facts",
        ),
        ("Measured('gap', 'ssim', {'source': SOURCE, 'output': SOURCE})", "the picture 'output', but it takes source"),
        ("Measured('gap', 'ssim')", "which needs source: no case gives it"),
        ("Measured('gap', 'l1', {'source': SOURCE})", "of which lower is better"),
        ("Measured('gap', 'inception_mean')", "protocol paper only"),
    ],
)
def test_what_can_never_be_measured_is_refused_before_anything_starts(work: Path, named: str, said: str) -> None:
    source = "SOURCE = Picture(name='src/c0.png', role='source')\n"
    (work / "mine.py").write_text(BENCH.replace("MORE = []", f"{source}MORE = [{named}]"))
    with pytest.raises(RefBenchError, match=re.escape(said)):
        run(work)
    assert not (work / "run").exists()


def test_a_part_that_was_not_declared_is_refused(work: Path) -> None:
    (work / "mine.py").write_text(BENCH.replace("*MORE]", "Measured('other', 'brightness')]"))
    with pytest.raises(RefBenchError, match="it measures 'other', but its measured parts are brightness, l1"):
        run(work)
