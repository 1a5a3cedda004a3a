"""What cannot be decoded is never sent: hostile outputs and references through a run with a real judge server."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from refbench.engine import evaluate
from refbench.failure import Failure
from refbench.pictures import decode
from refbench.runs import Run
from support.five_criteria import FIVE
from support.hostile_pictures import changed, full_rows, own_cases, png, shown_to, sound
from support.judge_server import JudgeServer

GOOD = sound()
BROKEN = {
    "damaged": changed(GOOD["png"], GOOD["png"].find(b"IDAT") + 40, b"\xaa\xbb"),
    "half": png(64, 64, rows=full_rows(64, 20, 24)),
    "page": b"<html>404</html>",
    "frames": changed(GOOD["webp"], 23, bytes(30)),
}


def test_what_cannot_be_decoded_costs_nothing_and_what_can_is_shown_as_it_is_measured(tmp_path: Path) -> None:
    names = [*(f"{name}-output" for name in BROKEN), *(f"{name}-reference" for name in BROKEN), *GOOD]
    outputs = {name: BROKEN.get(name.removesuffix("-output"), GOOD.get(name, GOOD["png"])) for name in names}
    references = {name: BROKEN.get(name.removesuffix("-reference"), GOOD["jpeg"]) for name in names}
    cases = own_cases(tmp_path, outputs, references)
    marks = json.dumps(dict.fromkeys(FIVE, 7))
    with JudgeServer(reply=lambda _: marks) as server:
        more = {"rubric": "five_criteria", "judges": [f"j=openai:gpt-4o?base_url={server.url}/v1"]}
        evaluate(str(cases), models=[f"A=folder:{tmp_path / 'out'}"], out=tmp_path / "run", **more)
        shown = shown_to(server)
    assert set(shown) == set(GOOD)
    for name, (_, output) in shown.items():
        assert np.array_equal(decode(output), decode(GOOD[name])), name
    run = Run.open(tmp_path / "run")
    failed = {output.case: output.failure for output in run.outputs() if output.failure is not None}
    assert {name: failure.kind for name, failure in failed.items()} == {
        f"{name}-output": "unreadable_picture" for name in BROKEN
    }
    unsent = {p.case: e.failure for p, e in run.evidence() if e.failure is not None}
    assert set(unsent) == {f"{name}-reference" for name in BROKEN}
    assert all(isinstance(failure, Failure) and failure.kind == "unreadable_picture" for failure in unsent.values())


def test_pipes_and_devices_as_pictures_end_in_a_failure_and_no_call(tmp_path: Path) -> None:
    names = [f"{what}-{where}" for what in ("pipe", "zero", "folder", "loop") for where in ("output", "reference")]
    cases = own_cases(tmp_path, dict.fromkeys(names, GOOD["png"]), dict.fromkeys(names, GOOD["jpeg"]))
    for name in names:
        what, where = name.split("-")
        path = tmp_path / ("out" if where == "output" else "in") / f"{name}.png"
        path.unlink()
        if what == "pipe":
            os.mkfifo(path)
        elif what == "folder":
            path.mkdir()
        else:
            path.symlink_to({"zero": "/dev/zero", "loop": path.name}[what])
    (tmp_path / "out" / "extra.png").write_bytes(GOOD["png"])
    with JudgeServer() as server:
        more = {"rubric": "five_criteria", "judges": [f"j=openai:gpt-4o?base_url={server.url}/v1"]}
        evaluate(str(cases), models=[f"A=folder:{tmp_path / 'out'}"], out=tmp_path / "run", **more)
        assert server.requests == []
    failed = [output.failure for output in Run.open(tmp_path / "run").outputs() if output.failure is not None]
    assert sorted({failure.kind for failure in failed}) == ["missing_output", "unreadable_picture"]
