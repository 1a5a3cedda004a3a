"""Servers that misbehave, over real HTTP on loopback, against every kind of judge, image model, batch and the doctor:
no exit code 70, what was paid for is on record, the budget holds, memory is bounded, keys are nowhere."""

from __future__ import annotations

import functools
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Refbench
from refbench.calls.transport import RetryPolicy, Transport
from refbench.engine import batching, doctor
from refbench.pictures import encode
from refbench.runs import Run
from support.campaigns import size
from support.hostile_server import FAULTS, KEPT, Fault, hostile
from support.raw_server import Asked, RawServer

KEY = "q7Zk-house-key-of-mine-3141"
CASES = 6
PRICE = "price=1000,1000"
JUDGES = {
    "openai": f"j=openai:gpt-4o?base_url={{url}}/v1&{PRICE}&max_tokens=1000&key_env=HOUSE_KEY",
    "gemini": f"j=gemini:gemini-2.5-flash?base_url={{url}}/v1beta&{PRICE}&max_tokens=1000&key_env=HOUSE_KEY",
    "anthropic": f"j=anthropic:claude-x?base_url={{url}}&{PRICE}&max_tokens=1000&key_env=HOUSE_KEY",
}
MODELS = {
    "openai": "m=openai:gpt-image-1?base_url={url}/v1&price=1&key_env=HOUSE_KEY",
    "gemini": "m=gemini:gemini-2.5-flash-image?base_url={url}/v1beta&price=1&key_env=HOUSE_KEY",
    "http": "m={url}/paint?price=1&key_env=HOUSE_KEY",
}
JOBS = {"bfl": "m=bfl:flux-2-pro?base_url={url}/v1&price=1&key_env=HOUSE_KEY&interval=0.01&deadline=4"}
TARGETS = [
    *(("judge", kind, "live") for kind in JUDGES),
    *(("model", kind, "live") for kind in MODELS),
    *(("model", "bfl", at) for at in ("hand in", "look", "picture")),
    *(("doctor model", "bfl", at) for at in ("hand in", "look")),
    *(("batch", "openai", at) for at in ("upload", "create", "state", "results")),
    *(("batch", "anthropic", at) for at in ("create", "state", "results")),
    *(("doctor judge", kind, "live") for kind in JUDGES),
    *(("doctor model", kind, "live") for kind in MODELS),
]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Six cases with their outputs, and quick tries: what is tested is what is done, not how long it is waited."""
    (tmp_path / "out").mkdir()
    rng = np.random.default_rng(0)
    with (tmp_path / "cases.jsonl").open("w") as file:
        for n in range(CASES):
            for name in (f"{n}.png", f"out/case{n}.png"):
                (tmp_path / name).write_bytes(encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)))
            references = [{"path": f"{n}.png", "role": "subject"}]
            file.write(json.dumps({"id": f"case{n}", "instruction": f"Paint {n}.", "references": references}) + "\n")
    monkeypatch.setenv("HOUSE_KEY", KEY)
    monkeypatch.setattr(RetryPolicy.__init__, "__defaults__", (2, 0.01, 0.02, 0.05))
    monkeypatch.setattr(doctor, "Transport", functools.partial(_quick, Transport))
    monkeypatch.setattr(batching, "_TIMEOUT", 60.0)
    monkeypatch.setattr(batching, "_PATIENCE", 2)
    monkeypatch.setitem(batching.judge_in_batches.__kwdefaults__, "poll_seconds", 0.01)
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def _quick(transport: Any, **options: Any) -> Transport:
    made: Transport = transport(**{**options, "timeout": batching._TIMEOUT})
    return made


def command(target: str, spec: str, out: Path, patience: float = 60.0) -> list[object]:
    if target.startswith("doctor"):
        return ["doctor", f"--{target.split()[1]}", spec, "--json"]
    caps = ["--timeout", patience, "--longest-wait", 0.05, "--reply-megabytes", 8, "--concurrency", 1, "--out", out]
    if target == "model":
        return ["generate", "cases.jsonl", "--model", spec, "--budget", "3usd", "--generate-concurrency", 1, *caps]
    judged = ["run", "cases.jsonl", "--rubric", "five_criteria", "--model", "A=folder:out", "--judge", spec, *caps]
    return [*judged, *(["--batch", "--budget", "900usd"] if target == "batch" else ["--budget", "9usd"])]


def shares() -> list[tuple[tuple[str, str, str], list[str]]]:
    """Every fault with one target in a share, and with all of them in the whole."""
    names, step = list(FAULTS), size(len(TARGETS), 1)
    return [(target, names[number % step :: step]) for number, target in enumerate(TARGETS)]


@pytest.mark.parametrize(("target", "faults"), shares(), ids=[" ".join(target) for target in TARGETS])
def test_no_server_ends_in_a_fault_of_ours(
    work: Path, run_cli: Refbench, target: tuple[str, str, str], faults: list[str]
) -> None:
    what, kind, _ = target
    spec = (MODELS | JOBS if what.endswith("model") else JUDGES)[kind]
    met(work, run_cli, target, spec, "good", lambda good, asked: FAULTS["JSON called html"](good, asked))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong = [said for name in faults if (said := met(work, run_cli, target, spec, name, FAULTS[name]))]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert "\n".join(wrong) == ""
    # Eight mebibytes of a reply, or the default of 128 with pictures, twice: as it comes, and whole.
    most = 400 if what == "doctor model" else 160
    assert grown < most << 10, f"{grown >> 10} MiB more than a good server takes"


def met(work: Path, run_cli: Refbench, target: tuple[str, str, str], spec: str, name: str, fault: Fault) -> str:
    """What went wrong when a command met a server, "" if nothing did."""
    what, _, at = target
    out = work / f"run {name}".replace("/", " ")
    # A busy machine is no fault of a server's: only those that never end are given up soon.
    batching._TIMEOUT = patience = 0.7 if name in ("hangs", "drips") else 60.0
    if name in KEPT or name == "good":  # what comes of it must be there in the end
        spec = spec.replace("deadline=4", "deadline=60")
    with hostile(fault, at) as server:
        code, said, complained = run_cli(*command(what, spec.format(url=server.url), out, patience))
        served = sum(asked.method == "POST" for asked in server.requests)  # to look is free
    where = f"{name} at {' '.join(target)}: exit {code}"
    if code not in (0, 1, 2, 3):
        return f"{where}: {complained[-300:]}"
    if KEY in said + complained or any(KEY.encode() in path.read_bytes() for path in out.rglob("*") if path.is_file()):
        return f"{where}: the key was written"
    if what.startswith("doctor"):
        return "" if code in (0, 2) else where
    return "" if code == 2 and not out.exists() else _on_record(target, name, Run.open(out), served, where, code)


def _on_record(target: tuple[str, str, str], name: str, run: Run, served: int, where: str, code: int) -> str:
    """The reply or a typed failure is on record for what was asked, and no more was asked than the budget covers."""
    if target[0] == "model":
        outputs = run.outputs()
        # Below the price of the spec it is the provider's own word, given when it took the job.
        unknown = served - sum(output.cost_usd is not None or (output.worst_usd or 1) < 1 for output in outputs)
        kept = [bool(output.pictures) for output in outputs]
        worst = 5  # three dollars cover three pictures; a try for each may be repeated
    else:
        evidence = [one for _, one in run.evidence()]
        unknown = 0 if target[0] == "batch" else served - sum(one.cost_usd is not None for one in evidence)
        kept = [one.reply is not None for one in evidence]
        worst = 12  # nine dollars cover at most nine calls of a dollar; two tries and two of a repair are in flight
    if code == 2:
        return ""
    if not kept:
        return f"{where}: nothing is on record after {served} requests"
    if name in KEPT and target[2] in ("live", "results", "hand in", "look") and not all(kept):
        return f"{where}: a reply that was there is not on record"
    return f"{where}: {unknown} calls without a known cost" if unknown > worst and _paid(name) else ""


def _paid(name: str) -> bool:
    """Whether a provider charges for it: not where it says that it failed."""
    failed = ("status 4", "status 5", "redirect", "Retry", "retry", "html under 502", "bomb as", "endless error")
    return not name.startswith((*failed, "status 999", "101 ", "closes", "endless headers", "a header of"))


def test_no_key_follows_a_redirect(work: Path, run_cli: Refbench) -> None:
    def elsewhere(asked: Asked) -> list[bytes]:
        return [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]

    with RawServer(elsewhere) as other:
        for code in (301, 302, 303, 307, 308):
            answer = f"HTTP/1.1 {code} Moved\r\nLocation: {other.url}/v1\r\nContent-Length: 0\r\n\r\n".encode()
            with RawServer(lambda asked, answer=answer: [answer]) as server:  # type: ignore[misc]
                for kind, spec in JUDGES.items():
                    run_cli(*command("judge", spec.format(url=server.url), work / f"judge {kind} {code}"))
                for kind, spec in MODELS.items():
                    run_cli(*command("model", spec.format(url=server.url), work / f"model {kind} {code}"))
                assert len(server.requests) >= 6
    assert not other.requests
