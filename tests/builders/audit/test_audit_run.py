"""An audit is a run: what is planned is asked, what is asked is recorded, and nothing is asked twice."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.own.cases import OwnCase
from refbench.builders.audit.make import MakeOptions, make_variants
from refbench.builders.audit.read import audit_marks, variants_of_run
from refbench.builders.audit.run import AuditRequest, audit, audit_plan, changed_judging
from refbench.chat.pictures import PicturePolicy
from refbench.chat.vlm import ChatRequest
from refbench.record import RefBenchError
from refbench.runs import Run
from support.five_criteria import FIVE
from support.judge_server import JudgeServer

MAKE = MakeOptions("core", 4)


def reply(text: str) -> str:
    return json.dumps(dict.fromkeys(FIVE, 7))


def request(judged: Path, out: Path, server: JudgeServer, **options: object) -> AuditRequest:
    judge = f"j=openai:gpt-4o?base_url={server.url}/v1"
    return AuditRequest(judged, out, judge, MAKE, options=options)


def texts(body: dict[str, object]) -> list[str]:
    parts = body["messages"][-1]["content"]  # type: ignore[index]
    return [part["text"] for part in parts if part["type"] == "text"]


def pictures(body: dict[str, object]) -> list[str]:
    parts = body["messages"][-1]["content"]  # type: ignore[index]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_what_is_planned_is_asked_and_the_record_gives_a_mark_for_each_call(judged: Path, tmp_path: Path) -> None:
    out = tmp_path / "audit"
    with JudgeServer(reply=reply) as server:
        plan = asyncio.run(audit_plan(request(judged, out, server)))
        assert not server.requests, "a plan sends nothing"
        done = asyncio.run(audit(request(judged, out, server)))
        assert len(server.requests) == plan.calls == done.progress.done
        asyncio.run(audit(request(judged, out, server)))
        assert len(server.requests) == plan.calls, "the same command resumes, and asks nothing twice"
    marks = audit_marks(out)
    assert len(marks) == plan.calls * len(FIVE)
    assert {mark.criterion for mark in marks} == set(FIVE)
    assert all(mark.mark == 7 and not mark.failure for mark in marks)
    repeats = Counter(mark.variant for mark in marks if mark.case == marks[0].case and mark.criterion == FIVE[0])
    assert repeats.pop("clean") == 3
    assert set(repeats.values()) == {1}
    there = {(row.case, row.variant) for row in variants_of_run(Run.open(out)).rows.values() if row.state == "made"}
    assert {(mark.case, mark.variant) for mark in marks} == there


def test_killed_an_audit_goes_on_and_asks_nothing_twice(judged: Path, tmp_path: Path) -> None:
    out = tmp_path / "audit"
    with JudgeServer(reply=reply) as server:
        whole = asyncio.run(audit_plan(request(judged, out, server)))
        words = ["audit", judged, "--out", out, "--cases", 4, "--concurrency", 1, "--judge"]
        command = [sys.executable, "-m", "refbench", *map(str, words), request(judged, out, server).judges]
        server.hold(after=whole.calls // 2)
        killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(server.requests) <= whole.calls // 2:
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        server.release()
        rest = asyncio.run(audit_plan(request(judged, out, server)))
        assert 0 < rest.calls_known < rest.calls == whole.calls
        asked = len(server.requests)
        asyncio.run(audit(request(judged, out, server)))
        assert len(server.requests) == asked + rest.calls - rest.calls_known
        assert len(server.requests) <= whole.calls + 1, "no more is lost than was in flight"
    assert len(audit_marks(out)) == whole.calls * len(FIVE)


def test_the_judge_is_shown_what_the_variant_says_and_nothing_else_changes(judged: Path, tmp_path: Path) -> None:
    out = tmp_path / "audit"
    with JudgeServer(reply=reply) as server:
        asyncio.run(audit(replace(request(judged, out, server), make=MakeOptions("full", 2))))
        bodies = [seen.body for seen in server.requests]
    variants = variants_of_run(Run.open(out))
    clean = Counter((tuple(texts(body)), tuple(pictures(body))) for body in bodies).most_common(2)
    assert [count for _, count in clean] == [3, 3]
    words, shown = clean[0][0]
    others = [(tuple(texts(body)), tuple(pictures(body))) for body in bodies]
    named = [(text, files) for text, files in others if any("was made by" in part for part in text)]
    assert {files for _, files in named} == {files for (_, files), _ in clean}, "a name changes no picture"
    turned = [
        text for text, files in others if sorted(files) == sorted(shown) and files != shown and set(files) == set(shown)
    ]
    assert any("image 2 beside the one in the first image" in " ".join(text) for text in turned)
    polite = [text for text, files in others if files == shown and text[0].startswith("Please") and text != words]
    assert polite
    assert variants.left_out()["4:subject_gone@1"], "what needs a network that is not here is counted"


def test_what_only_the_paper_would_ask_is_not_paid_for(judged: Path, tmp_path: Path) -> None:
    variants = make_variants(Run.open(judged), tmp_path / "v", MAKE)
    both = [Asked("mark", ChatRequest(parts=()), protocol) for protocol in ("paper", "corrected")]
    changed = changed_judging(Judging(lambda case, material: both, {}), variants, PicturePolicy())
    case = next(one for one in Run.open(judged).cases(OwnCase) if one.id in variants.info.cases)
    assert changed.ask(case, Material((), (), model="clean")) == both[1:]
    assert changed.repeats == {"clean": 3}


def test_the_judge_that_chose_the_outputs_is_not_audited_on_them(judged: Path, tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="it chose the outputs"):
        asyncio.run(audit(AuditRequest(judged, tmp_path / "audit", "other=openai:gpt-4o", MAKE)))


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(judged: Path, tmp_path: Path) -> None:
    run = Run.open(judged)
    first, again = (make_variants(run, tmp_path / name, MAKE) for name in ("a", "b"))
    other = make_variants(run, tmp_path / "c", replace(MAKE, seed=1))
    assert first.info == again.info
    assert first.info.manifest != other.info.manifest
    assert {path.name for path in first.root.rglob("*.png")} == {path.name for path in again.root.rglob("*.png")}
    assert make_variants(run, tmp_path / "a", MAKE) == first, "what is there is not made again"
    with pytest.raises(RefBenchError, match="choose another folder"):
        make_variants(run, tmp_path / "a", replace(MAKE, seed=1))


def test_outputs_are_good_by_the_word_of_another_judge_or_of_people(judged: Path, tmp_path: Path) -> None:
    marks = "case,model,score\n" + "".join(f"case{n},{m},{2 * n + (m == 'B')}\n" for n in range(9) for m in "AB")
    (tmp_path / "marks.csv").write_text(marks)
    made = make_variants(Run.open(judged), tmp_path / "v", replace(MAKE, people=tmp_path / "marks.csv"))
    assert made.info.anchor == "people"
    assert set(made.info.outputs) <= {f"case{n}" for n in (6, 7, 8)}, "the best third of all outputs"
    assert set(made.info.outputs.values()) == {"B"}
    with pytest.raises(RefBenchError, match=r"the judges of .* are other"):
        make_variants(Run.open(judged), tmp_path / "w", replace(MAKE, anchor="nobody"))
