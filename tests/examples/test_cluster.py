"""The batch files: a server for each shard, waited for and ended; a clean stop near the end of the time, and requeueing.

No SLURM here: `sbatch` and `scontrol` stand in with what their manuals say of options, variables and output, and `vllm`
with its command line, `/health`, and a judge behind it. The scripts and `refbench` are the real ones.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from refbench.pictures import encode
from refbench.runs import Run
from refbench.tables.scoring import score_run

CLUSTER = Path(__file__).resolve().parents[2] / "examples/cluster"
TESTS = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(path for path in CLUSTER.iterdir() if path.suffix in (".sh", ".sbatch"))
CASES = 8

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("bash", "curl", "setsid"))),
    reason="the batch files are for Linux, with bash and curl",
)

VLLM = """#!{python}
import os, sys, time
sys.path.insert(0, {tests!r})
assert sys.argv[1] == "serve", sys.argv
model, options = sys.argv[2], dict(zip(sys.argv[3::2], sys.argv[4::2]))
with open("server.log", "a") as log:
    log.write(f"{{model}} {{options['--host']}} {{os.getpid()}}\\n")
if os.environ.get("VLLM_DIES"):
    sys.exit("CUDA out of memory")
from aiohttp import web
from support.judge_server import answer, text_of, wire

begun = time.monotonic()

async def health(request):
    return web.Response(status=200 if time.monotonic() - begun > 0.2 else 503)

async def models(request):
    return web.json_response({{"object": "list", "data": [{{"id": model, "root": model}}]}})

async def chat(request):
    body = await request.json()
    with open("asked.log", "a") as log:
        log.write(body["model"] + "\\n")
    import asyncio
    await asyncio.sleep(float(os.environ.get("VLLM_LATENCY", 0)))
    return web.json_response(wire(request.path, answer(text_of(body)), refused=False))

app = web.Application(client_max_size=1 << 28)
app.add_routes([web.get("/health", health), web.get("/v1/models", models), web.post("/v1/chat/completions", chat)])
web.run_app(app, host=options["--host"], port=int(options["--port"]), print=None, access_log=None)
"""

SBATCH = """#!{python}
# Runs each task of the array, one after the other, from a copy of the script as slurmd does; queues what asks for it.
import os, re, shutil, signal, subprocess, sys, time
words = sys.argv[1:]
options = []
while words and words[0].startswith("--"):
    options.append(words.pop(0))
script, arguments = words[0], words[1:]
lines = re.findall(r"^#SBATCH (--.+)$", open(script).read(), re.M)
given = dict(line.lstrip("-").partition("=")[::2] for line in lines + options)
env = dict(os.environ, SLURM_SUBMIT_DIR=os.getcwd())
for pair in given.get("export", "ALL").split(",")[1:]:
    name, _, value = pair.partition("=")
    env[name] = value
job = str(4711 + sum(line.startswith("sbatch") for line in open("slurm.log")) if os.path.exists("slurm.log") else 4711)
with open("slurm.log", "a") as log:
    log.write(f"sbatch {{os.path.basename(script)}} {{' '.join(options)}}\\n")
first, last = map(int, os.environ.get("ARRAY", given["array"]).split("-")) if "array" in given else (0, 0)
env["SLURM_JOB_ID"] = job
warn = re.fullmatch(r"B:(\\w+)@\\d+", given.get("signal", ""))
for task in range(first, last + 1):
    if "array" in given:
        env |= {{"SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": str(task),
                 "SLURM_ARRAY_TASK_COUNT": str(last - first + 1), "SLURM_ARRAY_TASK_MIN": str(first)}}
    for attempt in range(5):
        copy = f"spool-{{job}}"
        shutil.copy(script, copy)
        with open(f"job-{{job}}.log", "a") as out:
            running = subprocess.Popen(["bash", copy, *arguments], env=env, stdout=out, stderr=out,
                                       start_new_session=True)
            send = os.environ.get("SEND")
            if send and attempt == 0 and warn:
                while not (os.path.exists("asked.log") and open("asked.log").read()):
                    time.sleep(0.01)
                running.send_signal(getattr(signal, f"SIG{{send}}"))  # B: the batch shell only
            code = running.wait()
        with open("slurm.log", "a") as log:
            log.write(f"task {{task}} ended with {{code}}\\n")
        if not os.path.exists(f"requeue-{{job}}_{{task}}"):
            break
        os.remove(f"requeue-{{job}}_{{task}}")
print(job)
"""

SCONTROL = """#!/bin/sh
test "$1" = requeue && touch "requeue-$2"
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to submit from: cases, two models' pictures, and the commands of a cluster on the path."""
    here = tmp_path / "submitted here"
    (here / "bin").mkdir(parents=True)
    refbench = f'#!/bin/sh\nexec {sys.executable} -m refbench "$@"\n'
    filled = {"python": sys.executable, "tests": str(TESTS)}
    for name, text in (("vllm", VLLM), ("sbatch", SBATCH), ("scontrol", SCONTROL), ("refbench", refbench)):
        path = here / "bin" / name
        path.write_text(text if name in ("refbench", "scontrol") else text.format(**filled))
        path.chmod(0o755)
    with (here / "cases.jsonl").open("w") as file:
        for n in range(CASES):
            file.write(json.dumps({"id": f"c{n}", "instruction": f"Paint {n}."}) + "\n")
            for model in "AB":
                picture = here / "out" / model / f"c{n}.png"
                picture.parent.mkdir(parents=True, exist_ok=True)
                picture.write_bytes(encode(np.full((8, 8, 3), 9 * n + ord(model), dtype=np.uint8)))
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", f"{here / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "VLLM_ARGS", "VLLM_LOG", "VLLM_WAIT"):
        monkeypatch.delenv(name, raising=False)
    yield here
    assert [server for server in servers(here) if Path(f"/proc/{server[2]}").exists()] == [], "each one was ended"


def servers(here: Path) -> list[list[str]]:
    """Model, address and process of every server that was started."""
    log = here / "server.log"
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


JUDGED = ("cases.jsonl", "--rubric", "five_criteria", "--model", "A=folder:out/A", "--model", "B=folder:out/B")
RUN = ("refbench", "run", *JUDGED, "--judge", "judge=openai:some/model", "--out", "run")


def with_vllm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", str(CLUSTER / "with_vllm.sh"), *words], capture_output=True, text=True, timeout=900)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_can_be_read_by_bash(script: Path) -> None:
    read = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


def test_a_command_has_a_healthy_server_and_its_exit_code_is_the_scripts(cluster: Path) -> None:
    asks = "curl --silent --fail $OPENAI_BASE_URL/models | grep -c some/model; exit 3"
    ended = with_vllm("some/model", "sh", "-c", asks)
    assert (ended.returncode, ended.stdout) == (3, "1\n"), ended.stderr
    assert [server[:2] for server in servers(cluster)] == [["some/model", "127.0.0.1"]]


def test_a_server_that_cannot_start_is_said_with_its_last_words(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_DIES", "1")
    ended = with_vllm("some/model", "touch", "begun")
    assert ended.returncode == 1
    assert "the server has ended" in ended.stderr
    assert "CUDA out of memory" in ended.stderr
    assert not (cluster / "begun").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_script_ends_the_run_cleanly_and_the_same_command_goes_on(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("VLLM_LATENCY", "1")
    words = ["bash", str(CLUSTER / "with_vllm.sh"), "some/model", *RUN, "--concurrency", "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (cluster / "asked.log").exists():
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=900)
    assert process.returncode == 75, said
    assert f"asked to end by {number.name}" in said
    begun = len((cluster / "asked.log").read_text().splitlines())
    assert len({e.id for _, e in Run.open(cluster / "run").evidence()}) == begun, "what was asked is on record"
    assert begun < 2 * CASES
    monkeypatch.setenv("VLLM_LATENCY", "0")
    again = with_vllm("some/model", *RUN)
    assert again.returncode == 0, again.stderr
    assert len((cluster / "asked.log").read_text().splitlines()) == 2 * CASES, "nothing is asked twice"


@pytest.mark.slow
def test_submitting_judges_all_shards_in_one_run_and_tables_it(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARRAY", "1-3")
    words = ["bash", str(CLUSTER / "submit.sh"), "some/model", "run", *JUDGED]
    submitted = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert submitted.returncode == 0, submitted.stderr
    log = (cluster / "slurm.log").read_text()
    assert re.findall(r"task \d ended with (\d+)", log) == ["0", "0", "0", "0"], (cluster / "job-4711.log").read_text()
    assert "sbatch table.sbatch --parsable --dependency=afterany:4711" in log
    assert len(list((cluster / "run/shards").glob("*-of-3.sqlite"))) == 3
    assert len((cluster / "asked.log").read_text().splitlines()) == 2 * CASES
    assert score_run(cluster / "run").waiting() == 0
    assert "five_criteria" in (cluster / "run/table.csv").read_text()
    assert len(servers(cluster)) == 3


@pytest.mark.slow
@pytest.mark.parametrize(("send", "codes"), [("USR1", ["0", "0"]), ("TERM", ["75"])])
def test_a_task_that_runs_out_of_time_goes_back_into_the_queue_and_one_that_is_called_off_does_not(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, send: str, codes: list[str]
) -> None:
    monkeypatch.setenv("ARRAY", "0-0")
    monkeypatch.setenv("SEND", send)
    monkeypatch.setenv("VLLM_LATENCY", "0.5")
    words = ["sbatch", f"--export=ALL,JUDGE=some/model,CLUSTER={CLUSTER}", str(CLUSTER / "shards.sbatch"), *JUDGED]
    subprocess.run([*words, "--out", "run", "--concurrency", "4"], check=True, capture_output=True, timeout=900)
    log, said = (cluster / "slurm.log").read_text(), (cluster / "job-4711.log").read_text()
    assert re.findall(r"task 0 ended with (\d+)", log) == codes, said
    assert "Exit code 75: asked to end; " in said
    assert (score_run(cluster / "run").waiting() == 0) == (send == "USR1")
    assert len((cluster / "asked.log").read_text().splitlines()) <= 2 * CASES, "nothing is asked twice"


@pytest.mark.slow
def test_runs_of_several_disks_are_merged_before_they_are_tabled(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shard in ("1/2", "2/2"):
        words = [word if word != "run" or n == 1 else f"run{shard[0]}" for n, word in enumerate(RUN)]
        assert with_vllm("some/model", *words, "--shard", shard).returncode in (0, 1)
    monkeypatch.setenv("MERGED", "merged")
    table = subprocess.run(["bash", str(CLUSTER / "table.sbatch"), "run1", "run2"], capture_output=True, text=True)
    assert table.returncode == 0, table.stderr + table.stdout
    assert score_run(cluster / "merged").waiting() == 0
