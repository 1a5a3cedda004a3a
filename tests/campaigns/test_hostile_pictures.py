"""Hundreds of hostile pictures as outputs, references and sources, through the commands that read pictures.

None may crash a command, hang it or fill memory; what cannot be decoded is a typed failure and no judge is asked about
it; what can be decoded is shown to the judge with the pixels that a metric measures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.metrics.measure import measure
from refbench.pictures import MAX_PIXELS, decode, facts_of, sniff
from refbench.pictures.collection import collect
from refbench.runs import Run
from support.campaigns import size
from support.five_criteria import FIVE
from support.hostile_pictures import bombs, damaged, full_rows, liars, own_cases, png, shown_to, sound, strangers
from support.judge_server import JudgeServer

TESTS = Path(__file__).resolve().parents[1]
MOST_MEGABYTES = 700
"""Of a command: 250 of libraries, the rest for pictures. The largest picture here but for the bombs is small."""
BYTES_A_PIXEL = 17
SMALL_CHANGE = 64 << 20
"""docs/pictures.md states both: what the largest picture takes, and what four threads take besides."""


def hostile() -> dict[str, bytes]:
    """All of them but the bombs, by name; damaged ones of many seeds in the whole size."""
    found = dict(sound())
    for maker in (strangers(), liars(), damaged(size(200, 1500), seed=5)):
        found.update(maker)
    return found


def command(*arguments: object, limit: str = "") -> tuple[int, int, str]:
    """The exit status of a command, the memory that it took in megabytes, and what it printed."""
    line = [sys.executable, "-m", "refbench", *map(str, arguments)]
    if limit:
        line = ["bash", "-c", f'{limit}; exec "$@"', "limited", *line]
    # A process counts what its parent had when it was started, and this one may have had much: a small one starts it.
    starter = [sys.executable, "-S", "-c", _STARTER, *line]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(starter, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    printed, _, kilobytes = done.stdout.rpartition("\n")
    return done.returncode, int(kilobytes) >> 10, printed


_STARTER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(f"\\n{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}", end="")
sys.exit(code)
"""


def marks(_: str) -> str:
    return json.dumps(dict.fromkeys(FIVE, 7))


@pytest.mark.parametrize("place", ["output", "reference"])
def test_a_run_asks_about_what_can_be_decoded_and_nothing_else(tmp_path: Path, place: str) -> None:
    pictures, good = hostile(), sound(seed=3)["jpeg"]
    plain = dict.fromkeys(pictures, good)
    cases = own_cases(tmp_path, *((pictures, plain) if place == "output" else (plain, pictures)))
    with JudgeServer(reply=marks) as server:
        judge = f"j=openai:gpt-4o?base_url={server.url}/v1"
        out = ["--model", f"A=folder:{tmp_path / 'out'}", "--judge", judge, "--out", tmp_path / "run", "--json"]
        status, megabytes, printed = command("run", cases, "--rubric", "five_criteria", *out)
        shown = shown_to(server)
    assert status in (0, 1) and "Traceback" not in printed, printed[-2000:]
    assert megabytes < MOST_MEGABYTES
    decodable = {name: pixels for name, data in pictures.items() if not isinstance(pixels := decode(data), Failure)}
    assert set(shown) == set(decodable)
    for name, pair in shown.items():
        assert np.array_equal(decode(pair[place == "output"]), decodable[name]), name
    run = Run.open(tmp_path / "run")
    failed = {o.case: o.failure for o in run.outputs() if o.failure}
    failed |= {p.case: e.failure for p, e in run.evidence() if e.failure}
    assert set(failed) == set(pictures) - set(decodable)
    assert {failure.kind for failure in failed.values()} == {"unreadable_picture"}
    print(f"{len(decodable)} of {len(pictures)} can be decoded, {megabytes} MB as {place}")


def test_a_metric_has_a_value_or_a_failure(tmp_path: Path) -> None:
    good = tmp_path / "good.png"
    good.write_bytes(sound()["png"])
    for name, data in hostile().items():
        path = tmp_path / "hostile.png"
        path.write_bytes(data)
        whole = not isinstance(decode(data), Failure)
        for pictures in ({"output": path, "source": good}, {"output": good, "source": path}):
            for protocol in ("paper", "corrected"):
                measured = measure("ssim", protocol=protocol, **pictures)
                if not whole:
                    assert measured.failure is not None and measured.failure.kind == "unreadable_picture", name
                else:
                    assert (measured.value is None) == (measured.failure is not None), name


def test_check_tells_of_every_picture_that_cannot_be_decoded(tmp_path: Path) -> None:
    pictures = hostile()
    cases = own_cases(tmp_path, dict.fromkeys(pictures, b""), pictures)
    status, megabytes, printed = command("check", cases, "--json")
    assert status == 0 and megabytes < MOST_MEGABYTES, printed[-2000:]
    report = json.loads(printed[printed.index('{"benchmark"') :].splitlines()[0])
    told = {row["kind"]: row["count"] for row in report["anomalies"]}
    assert told["unreadable_picture"] == sum(isinstance(decode(data), Failure) for data in pictures.values())


def test_a_dataset_is_built_of_what_can_be_decoded(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    pictures = {**sound(96), **dict(liars(96)), **dict(strangers()), **dict(damaged(size(100, 1000), seed=6, side=96))}
    for name, data in pictures.items():
        (folder / f"{name}.jpg").write_bytes(data)
    os.mkfifo(folder / "pipe.png")
    looked = collect(folder)
    assert {Path(one.name).stem for one in looked.found} <= {n for n, d in pictures.items() if shape_of(d) is not None}
    assert len(looked.found) + len(looked.skipped) == len(pictures) + 1
    if size(0, 1):  # the build itself takes networks: 20 s and 1 GB with two sound pictures
        status, megabytes, printed = command("blend", "build", folder, "--out", tmp_path / "data", "--samples", 4)
        assert status in (0, 1, 2) and "Traceback" not in printed and megabytes < 1500, printed[-2000:]
        print(f"blend build ended with {status} and took {megabytes} MB")


def shape_of(data: bytes) -> tuple[int, ...] | None:
    pixels = decode(data)
    return None if isinstance(pixels, Failure) else pixels.shape


@pytest.mark.parametrize("seed", range(10))
def test_mutated_pictures_give_pixels_or_a_failure(seed: int) -> None:
    verdicts = {"pixels": 0, "failures": 0}
    for name, data in damaged(size(300, 12_000), seed, 16 + 2 * seed):
        facts, pixels = facts_of(data), decode(data)
        if isinstance(pixels, Failure):
            assert pixels.kind == "unreadable_picture" and pixels.detail, name
            verdicts["failures"] += 1
            continue
        assert not isinstance(facts, Failure) and sniff(data) == facts.format, name
        assert pixels.dtype == np.uint8 and pixels.shape[2] == 3, name
        assert pixels.shape[0] * pixels.shape[1] <= facts.width * facts.height, name
        verdicts["pixels"] += 1
    print(verdicts)


IN_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from refbench.pictures import decode, verified
from support.hostile_pictures import peak, sound
files = [Path(name).read_bytes() for name in sys.argv[1:]]
[decode(data) for data in sound().values()]
before = peak()
with ThreadPoolExecutor(4) as threads:
    list(threads.map(verified, files))
print(peak() - before >> 10)
"""


def test_memory_has_a_cap_whatever_is_decoded_by_how_many_threads(tmp_path: Path) -> None:
    if size(0, 1):
        files = dict(bombs())
    else:
        files = {str(n): png(4200 + n, 4200, 16, 6, rows=full_rows(4200 + n, 4200, 64)) for n in range(4)}
    paths = []
    for name, data in files.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    facts = [found for data in files.values() if not isinstance(found := facts_of(data), Failure)]
    largest = max(one.width * one.height for one in facts)
    assert largest <= MAX_PIXELS
    line = [sys.executable, "-c", IN_THREADS, *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(TESTS)])}
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
    cap = BYTES_A_PIXEL * largest + SMALL_CHANGE + sum(map(len, files.values()))
    print(f"{done.stdout.strip()} MB of at most {cap >> 20}")
    assert int(done.stdout) < cap >> 20


def test_few_file_handles_cost_no_picture(tmp_path: Path) -> None:
    number = size(300, 1000)
    pictures = {f"case{n}": data for n, data in enumerate([sound()["jpeg"], sound()["png"]] * (number // 2))}
    cases = own_cases(tmp_path, pictures, pictures)
    with JudgeServer(reply=marks, latency=0.3) as server:
        judge = f"j=openai:gpt-4o?base_url={server.url}/v1"
        out = ["--model", f"A=folder:{tmp_path / 'out'}", "--judge", judge, "--out", tmp_path / "run"]
        status, _, printed = command(
            "run", cases, "--rubric", "five_criteria", "--concurrency", 400, *out, limit="ulimit -n 256"
        )
        assert status == 0, printed[-2000:]
        assert len(server.requests) == number
        print(server.most_in_flight, "in flight")
    assert not [o.failure for o in Run.open(tmp_path / "run").outputs() if o.failure]
