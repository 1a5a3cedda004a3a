"""A run stops calling as soon as a reply cannot be recorded where it will be found again: what is paid for and lost is
at most what was in flight."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from refbench.builders.kit.flow import together
from refbench.builders.kit.recorded_chat import Interviews
from refbench.calls.transport import Transport
from refbench.chat.python import FunctionVLM
from refbench.chat.vlm import make_vlm
from refbench.engine import evaluate
from refbench.engine.batch_journal import BatchJournal
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.specs import Spec
from support.five_criteria import FIVE
from support.judge_server import JudgeServer
from support.small_disk import small_disk

CASES, IN_FLIGHT, BEFORE = 200, 4, 20


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    lines = []
    for n in range(CASES):
        (tmp_path / f"out/{n}.png").write_bytes(encode(np.full((4, 4, 3), n, np.uint8)))
        lines.append(json.dumps({"id": str(n), "instruction": f"Do {n}."}))
    (tmp_path / "cases.jsonl").write_text("\n".join(lines))
    return tmp_path


def judge_until(work: Path, run: Path, spoil: Callable[[], object]) -> tuple[int, str]:
    """How many calls were made after the disk was spoiled, and what was said."""
    calls_before = 0

    def reply(text: str) -> str:
        nonlocal calls_before
        if len(server.requests) >= BEFORE and not calls_before:
            spoil()
            calls_before = len(server.requests)
        return json.dumps(dict.fromkeys(FIVE, 7))

    with JudgeServer(reply=reply, latency=0.005) as server:
        with pytest.raises(RefBenchError) as said:
            evaluate(
                work / "cases.jsonl",
                rubric="five_criteria",
                models=f"A=folder:{work / 'out'}",
                judges=f"j=openai:gpt-4o?base_url={server.url}/v1",
                out=run,
                concurrency=IN_FLIGHT,
            )
        return len(server.requests) - calls_before, str(said.value)


def _unlink(run: Path) -> None:
    (run / "ledger.sqlite").unlink()


def _replace(run: Path) -> None:
    shutil.copy(run / "ledger.sqlite", run / "copy")
    (run / "copy").replace(run / "ledger.sqlite")


def _unlink_log(run: Path) -> None:
    (run / "ledger.sqlite-wal").unlink()


def _rename_run(run: Path) -> None:
    run.rename(run.with_name("elsewhere"))


def _remove_run(run: Path) -> None:
    for _ in range(100):  # what is being written meanwhile keeps a folder from being empty
        shutil.rmtree(run, ignore_errors=True)
        if not run.exists():
            return


@pytest.mark.parametrize("spoil", [_unlink, _replace, _unlink_log, _rename_run, _remove_run])
def test_a_ledger_that_is_gone_ends_the_calls(work: Path, spoil: Callable[[Path], None]) -> None:
    calls, said = judge_until(work, work / "run", lambda: spoil(work / "run"))
    assert calls <= IN_FLIGHT, "a call gives its place to another only when its reply is recorded"
    assert "removed or replaced" in said
    if spoil in (_unlink, _replace, _unlink_log):
        (saved,) = (work / "run").glob("ledger.sqlite.saved-*")
        assert str(saved) in said
        for left in (work / "run").glob("ledger.sqlite*"):
            if left != saved:
                left.unlink()
        saved.rename(work / "run/ledger.sqlite")
        kept = len(list(Run.open(work / "run").evidence()))
        assert kept >= BEFORE - IN_FLIGHT, "nothing of what was recorded is lost"


def test_a_full_disk_ends_the_calls(work: Path) -> None:
    with small_disk(work / "disk", 8) as disk:

        def fill() -> None:
            with pytest.raises(OSError, match="No space"), (disk / "rest").open("wb", buffering=0) as file:
                while True:
                    file.write(b"\0" * 4096)

        calls, said = judge_until(work, disk / "run", fill)
        assert calls <= IN_FLIGHT
        assert "is full" in said


def test_a_build_stops_asking_when_a_reply_cannot_be_recorded(tmp_path: Path) -> None:
    calls_before = 0

    def reply(text: str) -> str:
        nonlocal calls_before
        if len(server.requests) >= BEFORE and not calls_before:
            (tmp_path / "replies.sqlite").unlink()
            calls_before = len(server.requests)
        return "yes"

    async def ask() -> None:
        async with Transport(concurrency=IN_FLIGHT) as transport, Interviews(tmp_path, transport) as interviews:
            vlm = make_vlm(Spec.read(f"w=openai:gpt-4o?base_url={server.url}/v1"), transport)
            asked = [interviews.ask(vlm, str(n), "p", [f"Question {n}?"], str) for n in range(CASES)]
            await together(asked, CASES)

    with JudgeServer(reply=reply, latency=0.005) as server:
        with pytest.raises(RefBenchError, match=r"replies\.sqlite was removed"):
            asyncio.run(ask())
        assert len(server.requests) - calls_before <= IN_FLIGHT


def test_a_journal_of_batches_that_is_gone_ends_the_handing_in(tmp_path: Path) -> None:
    journal, judge = BatchJournal(tmp_path / "ledger.sqlite"), FunctionVLM("j", lambda *_: "")
    journal.intend(judge, ("openai", "http://127.0.0.1", "m"), [], 0.0)
    journal.path.unlink()
    with pytest.raises(RefBenchError, match=r"batches\.jsonl"):
        journal.intend(judge, ("openai", "http://127.0.0.1", "m"), [], 0.0)
