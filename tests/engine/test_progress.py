"""What a run says of itself while it goes on: totals from the start, one line, an honest time, and how it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import numpy as np
import orjson
import pytest

import refbench
from refbench.engine.breaker import Breaker
from refbench.engine.evaluation import generate_async
from refbench.engine.options import RunOptions
from refbench.engine.progress import Progress, shown
from refbench.failure import Failure
from refbench.models.model import Commission
from refbench.pictures import encode
from refbench.runs import Run
from support.judge_server import JudgeServer
from support.painters import paint as picture


def own_cases(root: Path, n: int) -> Path:
    path = root / "cases.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps({"id": f"c{i}", "instruction": f"paint {i}"}) for i in range(n)))
    return path


def test_totals_are_those_of_all_cases_from_the_first_one_on() -> None:
    progress = Progress(cases=100, outputs=6, to_make=600, made=72, laid_out=30, expected=60, done=41, asked_again=3)
    progress.tries = lambda: 7
    progress.fail("c1 by A", Failure(kind="timeout"))
    assert progress.line().startswith("72/600 made, 41/~1200 calls, failed 1 timeout, 3 asked again, 7 tries repeated")


def test_the_time_left_is_that_of_what_takes_longest_and_not_said_before_anything_is_known() -> None:
    progress = Progress(cases=10, laid_out=10, expected=100, known=50, to_make=20)
    progress.started = time.monotonic() - 100
    progress.done = 25
    assert progress.seconds_left() is None, "no picture has been made, and how long one takes nobody knows"
    progress.made = 2
    assert progress.seconds_left() == pytest.approx(18 * 50, rel=0.01)
    progress.made = 20
    assert progress.seconds_left() == pytest.approx(25 * 4, rel=0.01), "what was known before costs no time"


def test_how_many_pictures_are_to_be_made_is_known_before_the_first(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "go").touch()
    options = RunOptions.of(
        {
            "benchmark": own_cases(tmp_path, 6),
            "models": f"m=python:{tmp_path / 'slow.py'}:make",
            "out": tmp_path / "run",
            "seeds": 2,
            "generate_concurrency": 1,
        }
    )
    seen: list[tuple[int, int]] = []
    from refbench.engine import generating

    class Watched(generating.Progress):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "made" and value:
                seen.append((self.made, self.to_make))

    from refbench.engine import evaluation

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "Progress", Watched)
        made = asyncio.run(generate_async(options))
    assert made.there == 12
    assert seen == [(n, 12) for n in range(1, 13)]


def test_the_total_of_calls_is_the_true_one_while_the_pictures_of_a_case_are_still_being_made(tmp_path: Path) -> None:
    """One model is ready long before the other: its calls are not taken for those of the whole case."""
    (tmp_path / "slow.py").write_text(SLOW)
    for number in range(6):
        (tmp_path / f"c{number}.png").write_bytes(encode(np.full((8, 8, 3), number, dtype=np.uint8)))
    totals = set()

    class Watched(Progress):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "expected":
                (tmp_path / "go").touch()
            if name in ("laid_out", "done") and value:
                totals.update(part.total for part in self.parts() if part.name == "calls")

    from refbench.engine import evaluation

    with JudgeServer(reply=lambda _: "{}") as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "Progress", Watched)
        refbench.evaluate(
            own_cases(tmp_path, 6),
            models=[f"b=folder:{tmp_path}", f"m=python:{tmp_path / 'slow.py'}:make"],
            judges=f"judge=openai:gpt-4o?base_url={server.url}/v1",
            rubric="five_criteria",
            repair=False,
            out=tmp_path / "run",
            generate_concurrency=1,
        )
    assert totals == {12}


def on_terminal(parent: int, child: int, *words: str, **environment: str) -> bytes:
    """What Python writes to a terminal."""
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env |= {"TERM": "xterm-256color", **environment}
    text = b""
    with subprocess.Popen([sys.executable, *words], stdin=child, stdout=child, stderr=child, env=env) as process:
        os.close(child)
        with contextlib.suppress(OSError):  # how a terminal says that nobody has its other end any more
            while more := os.read(parent, 4096):
                text += more
    os.close(parent)
    assert process.returncode == 0
    return text


def test_on_a_terminal_the_progress_is_one_line_clipped_to_it() -> None:
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    code = (
        "import asyncio, sys\nfrom refbench.engine.progress import Progress, shown\n"
        "from refbench.text.console import PrintableStream\nsys.stderr = PrintableStream(sys.stderr)  # as commands do\n"
        "p = Progress(cases=9, laid_out=9, expected=123456, done=1, to_make=9999, spent_usd=1.5)\n"
        "p.failed['api_error'] = 3\n"
        "async def go():\n    async with shown(p, show=True):\n        await asyncio.sleep(0.7)\n"
        "asyncio.run(go())\n"
    )
    text = on_terminal(parent, child, "-c", code)
    plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", text).decode()
    lines = [line for line in re.split(r"[\r\n]+", plain) if line.strip()]
    assert lines
    assert all(line.startswith("0/9999 made, 1/123456 calls") and line.endswith("…") for line in lines)
    assert max(map(len, lines)) <= 40


def test_quiet_says_nothing_but_the_result(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with shown(Progress(to_make=3), show=True):
            pass

    asyncio.run(go())
    assert "0/3 made" in capsys.readouterr().err
    monkeypatch.setenv("REFBENCH_QUIET", "1")
    asyncio.run(go())
    assert capsys.readouterr().err == ""


def test_colours_are_left_out_on_demand() -> None:
    def printed(*words: str, **environment: str) -> bytes:
        return on_terminal(*pty.openpty(), "-m", "refbench", "demo", "--help", *words, **environment)

    colour = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")
    assert colour.search(printed())
    assert not colour.search(printed("--no-color"))
    assert not colour.search(printed(NO_COLOR="1"))


SLOW = """import time
from pathlib import Path
from PIL import Image

here = Path(__file__).parent

def paint(request, seed):
    with (here / "begun").open("a") as log:
        log.write(request.instruction + "\\n")
    while not (here / "go").exists():
        time.sleep(0.01)
    return Image.new("RGB", (64, 64), (int(request.instruction.split()[1]) * 9, seed, 3))

def make():
    return paint
"""


def begun(root: Path) -> int:
    return len((root / "begun").read_text().splitlines()) if (root / "begun").exists() else 0


def generate_slowly(root: Path) -> subprocess.Popen[str]:
    (root / "slow.py").write_text(SLOW)
    words = ["generate", own_cases(root, 12), "--model", f"m=python:{root / 'slow.py'}:make?workers=2"]
    return subprocess.Popen(
        [sys.executable, "-m", "refbench", *map(str, words), "--out", str(root / "run")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def until(line: str, process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    while line not in (said := process.stderr.readline()):
        assert said or process.poll() is None
    return said


@pytest.mark.parametrize(
    ("number", "to_stop_now", "code", "ended"),
    [
        (signal.SIGINT, "press Ctrl-C again to stop now", 130, "interrupted"),
        (signal.SIGTERM, "asked to end by SIGTERM", 75, "asked to end"),
    ],
)
def test_an_interrupt_of_generate_begins_no_picture_more_and_keeps_those_in_flight(
    tmp_path: Path, number: signal.Signals, to_stop_now: str, code: int, ended: str
) -> None:
    """Eight pictures are asked of two workers at once: the six that wait are taken back."""
    with generate_slowly(tmp_path) as process:
        while begun(tmp_path) < 2:
            time.sleep(0.01)
        process.send_signal(number)
        assert "stopping, " in until(to_stop_now, process)
        (tmp_path / "go").touch()
        out, said = process.communicate()
    assert process.returncode == code
    assert f"Exit code {code}: {ended}. The same command goes on" in said
    assert "Traceback" not in said
    assert begun(tmp_path) == 2
    outputs = Run.open(tmp_path / "run").outputs()
    assert [output.failure for output in outputs] == [None, None], "what was not begun is not on record"
    assert "2 outputs in" in out
    assert "failed: none" in out


def test_a_second_interrupt_of_generate_ends_at_once_in_a_sentence(tmp_path: Path) -> None:
    with generate_slowly(tmp_path) as process:
        while begun(tmp_path) < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        until("press Ctrl-C again to stop now", process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "stopped; what was recorded is safe, run the same command again to go on" in said


def test_an_interrupt_from_python_finishes_what_is_in_flight_and_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a notebook's stop button does it: the thread that waits for `evaluate` is interrupted."""
    here = threading.get_ident()

    def paint(request: Commission, seed: int) -> bytes:
        painted.append(request.instruction)
        if len(painted) == 1:
            signal.pthread_kill(here, signal.SIGINT)
            while not stopped.wait(0.01):
                pass
        return picture(request.instruction)

    class Heard(io.StringIO):
        def write(self, text: str) -> int:
            if "stopping, " in text:
                stopped.set()
            return super().write(text)

    painted: list[str] = []
    stopped = threading.Event()
    monkeypatch.setattr(sys, "stderr", Heard())
    with pytest.raises(KeyboardInterrupt):
        refbench.evaluate(own_cases(tmp_path, 6), models={"m": paint}, metrics="colorfulness", out=tmp_path / "run")
    assert len(painted) == 1
    assert len([output for output in Run.open(tmp_path / "run").outputs() if output.failure is None]) == 1
    done = refbench.evaluate(own_cases(tmp_path, 6), models={"m": paint}, metrics="colorfulness", out=tmp_path / "run")
    assert not done.stopped
    assert len(painted) == 6


def test_a_model_that_only_fails_is_asked_nothing_more_and_says_where_its_code_failed(tmp_path: Path) -> None:
    def paint(request: Commission, seed: int) -> bytes:
        asked.append(request.instruction)
        raise ValueError(f"no weights for call {len(asked)}")

    asked: list[str] = []
    words = {"models": {"m": paint}, "metrics": "colorfulness", "out": tmp_path / "run", "generate_concurrency": 1}
    done = refbench.evaluate(own_cases(tmp_path, 12), **words, give_up_after=3)  # type: ignore[arg-type]
    assert len(asked) == 3
    (said,) = done.given_up
    assert said.startswith("m was stopped after 3 failures in a row, all alike (missing_output: the function raised")
    assert "test_progress.py:" in said
    assert "in paint: raise ValueError(" in said
    assert len(Run.open(tmp_path / "run").outputs()) == 3, "what was not asked for is not on record"
    refbench.evaluate(own_cases(tmp_path, 12), **words, give_up_after=0)  # type: ignore[arg-type]
    assert len(asked) == 3 + 12


def test_a_judge_that_only_fails_is_asked_nothing_more_and_one_that_refuses_is(tmp_path: Path) -> None:
    def answer(prompt: object, repeat: int = 0) -> str:
        asked.append(1)
        raise ValueError("no server")

    asked: list[int] = []
    folder = tmp_path / "out"
    folder.mkdir()
    for n in range(12):
        (folder / f"c{n}.png").write_bytes(picture(f"c{n}"))
    words = {"models": f"A=folder:{folder}", "rubric": "five_criteria", "out": tmp_path / "run", "concurrency": 1}
    done = refbench.evaluate(own_cases(tmp_path, 12), judges={"j": answer}, **words, give_up_after=4)  # type: ignore[arg-type]
    assert len(asked) == 4
    assert done.stopped == "failures"
    assert done.given_up[0].startswith("j was stopped after 4 failures in a row, all alike (api_error")
    refusing = Breaker(2)
    for _ in range(5):
        refusing.note("j", Failure(kind="refused", detail="no"))
    assert not refusing.stopped


def test_failures_are_alike_whatever_ids_and_times_they_quote_and_a_success_ends_their_row() -> None:
    breaker = Breaker(3)
    for number in (17, 18):
        breaker.note("j", Failure(kind="api_error", detail=f"request req-{number}af failed"))
    breaker.note("j", None)
    for number in (19, 20):
        breaker.note("j", Failure(kind="api_error", detail=f"request req-{number}af failed"))
    assert not breaker.stopped
    breaker.note("j", Failure(kind="api_error", detail="request req-21af failed"))
    assert "j was stopped after 3 failures" in breaker.stopped["j"]
