"""`bfl:` models and jobs in general: what is handed in, asked for and fetched, and that nothing is paid for twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refbench.builders.multibanana.pictures import opened_painter
from refbench.calls.said import tables, text
from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat import pictures as sent_pictures
from refbench.chat.http import json_body
from refbench.failure import Failure
from refbench.models.api import bfl
from refbench.models.api.job_journal import JobJournal
from refbench.models.api.jobs import HandedIn, JobFormat, JobModel, JobState
from refbench.models.api.model import ImageRequest, Link, WireReply, WireRequest
from refbench.models.model import Commission, Painted, Shown
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.specs import Spec
from support.image_server import b64, png
from support.job_server import JobServer, die_at

KEY = "bfl-0123456789abcdef"
QUICK = RetryPolicy(attempts=2, first=0.01, longest=0.05)
FOX = Commission("A fox")
OWN = replace(bfl.BFL_IMAGES.job, own_hosts=("localhost", "127.0.0.1"))  # type: ignore[type-var]
LOOPBACK = replace(bfl.BFL_IMAGES, links=lambda settings: ("localhost",), job=OWN)
"""BFL's format with this machine in the place of BFL's hosts: the API at 127.0.0.1, jobs and pictures at localhost."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BFL_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[JobServer]:
    with JobServer() as running:
        yield running


def paint(
    server: JobServer,
    commission: Commission = FOX,
    options: str = "",
    *,
    model: str = "flux-kontext-pro",
    jobs: JobJournal | None = None,
    wire: Any = LOOPBACK,
) -> Painted:
    async def run() -> Painted:
        async with Transport(policy=QUICK, timeout=60) as transport:
            spec = Spec.parse(f"m=bfl:{model}?base_url={server.url}/v1&interval=0.01&deadline=60{options}")
            return await JobModel(spec, wire, transport, None, jobs).generate(commission, 7)

    painted = asyncio.run(run())
    assert KEY not in repr(painted)
    return painted


def said(painted: Painted) -> str:
    return str(painted.failure)


# --- on the wire -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("flux-kontext-pro", {"aspect_ratio": "4:3"}),
        ("flux-2-pro", {"width": 1024, "height": 768}),
        ("flux-2-flex", {"width": 1024, "height": 768, "prompt_upsampling": False}),
    ],
)
def test_a_job_is_handed_in_asked_for_and_fetched_as_bfl_documents_it(
    server: JobServer, tmp_path: Path, model: str, size: dict[str, Any]
) -> None:
    pictures = []
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(png(number))
        pictures.append(Shown(tmp_path / f"{number}.png", "subject"))
    painted = paint(server, Commission("A fox", tuple(pictures), (1030, 770)), "&safety_tolerance=2", model=model)
    (handed_in,) = server.handed_in
    assert (handed_in.path, handed_in.headers["x-key"]) == (f"/v1/{model}", KEY)
    assert handed_in.body == {
        "prompt": "A fox",
        "input_image": b64(png(0)),
        "input_image_2": b64(png(1)),
        "input_image_3": b64(png(2)),
        "seed": 7,
        "output_format": "png",
        "safety_tolerance": 2,
        **size,
    }
    assert [(one.path, one.headers["Host"], one.headers.get("x-key")) for one in server.asked] == [
        ("/v1/get_result?id=job-1", f"localhost:{server.port}", KEY)
    ] * 2, "another subdomain of the provider's"
    (fetched,) = server.fetched
    assert "x-key" not in fetched.headers, "the store of pictures is not sent the key"
    assert (painted.pictures, painted.failure, painted.cost_usd) == ((server.picture("job-1"),), None, 0.04)
    assert painted.provenance["job_id"] == "job-1"


def test_masks_are_pictures_and_count(server: JobServer, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    shown = [Shown(tmp_path / "a.png", role) for role in ("source", "mask", "subject", "subject", "subject")]
    assert paint(server, Commission("x", tuple(shown[:2]))).provenance["mask"] == "sent as picture 2 of 2"
    over = paint(server, Commission("x", tuple(shown)))
    assert (over.failure and over.failure.kind, len(server.handed_in)) == ("unsupported", 1)


@pytest.mark.parametrize(
    ("told", "failure"),
    [
        ({"status": "Request Moderated"}, "refused: Request Moderated"),
        ({"status": "Content Moderated"}, "refused: Content Moderated"),
        ({"status": "Error", "details": {"why": "oops"}}, "api_error: the job failed: Error ({'why': 'oops'})"),
        ({"status": "Ready", "result": {}}, "api_error: the job is done and names no picture"),
        ({"status": "Ready", "result": "what"}, "api_error: the job is done and names no picture"),
    ],
)
def test_how_a_job_ends_without_a_picture(server: JobServer, told: Mapping[str, Any], failure: str) -> None:
    server.states = [{"status": "Pending"}, told]
    jobs = JobJournal()
    painted = paint(server, jobs=jobs)
    assert (said(painted), painted.cost_usd, painted.worst_usd) == (failure, None, 0.04)
    assert paint(server, jobs=jobs).pictures, "the next one is a new job"
    assert len(server.handed_in) == 2


def test_a_job_that_the_provider_does_not_know_at_once_is_waited_for(server: JobServer) -> None:
    server.states = [{"status": "Task not found"}] * 3
    assert paint(server).pictures
    server.states = [{"status": "Task not found"}] * 500
    assert "the provider knows no job job-2 (Task not found)" in said(paint(server, options="&deadline=0.3"))


def test_no_credit_ends_the_run_with_the_remedy_and_busy_servers_are_asked_again(server: JobServer) -> None:
    server.posts = [(429, {"detail": "slow down"}), (402, {"detail": "Insufficient credits"})]
    with pytest.raises(RefBenchError, match=r"no credit is left at \S+ \(HTTP 402: Insufficient credits\): add some"):
        paint(server)
    server.posts = [(401, {"detail": "bad"})]
    with pytest.raises(RefBenchError, match="set BFL_API_KEY to a valid one"):
        paint(server)
    server.posts = [(422, {"detail": [{"msg": "seed"}]})]
    assert said(paint(server)).startswith("api_error: HTTP 422")
    assert server.handed_in == []


def test_the_key_goes_to_the_providers_own_hosts_and_pictures_come_from_the_list(server: JobServer) -> None:
    strict = replace(LOOPBACK, job=replace(OWN, own_hosts=("bfl.ai",)), links=lambda settings: ())
    jobs = JobJournal()
    assert "job-1 is to be asked for at localhost, which is not the provider's host" in said(
        paint(server, wire=strict, jobs=jobs)
    )
    server.poll_host = "127.0.0.1"
    other = paint(server, Commission("Two"), wire=strict, jobs=jobs)
    assert "the picture is at localhost, another host" in said(other)
    assert (server.fetched, other.cost_usd) == ([], 0.04), "it is paid for"
    assert paint(server, Commission("Two"), "&links=localhost", wire=strict, jobs=jobs).pictures, "and not lost"
    assert len(server.handed_in) == 2
    assert all(seen.headers["Host"].startswith("127.") for seen in server.asked if "x-key" in seen.headers)


def test_a_picture_that_vanishes_on_the_way_is_a_failure_and_no_job(
    server: JobServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    prepare = JobModel._request

    def and_gone(model: JobModel, *given: Any) -> Any:
        request = prepare(model, *given)
        (tmp_path / "a.png").unlink()
        return request

    monkeypatch.setattr(JobModel, "_request", and_gone)
    monkeypatch.setattr(sent_pictures, "_recent", sent_pictures._Recent(0))  # as if many had been prepared since
    painted = paint(server, Commission("x", (Shown(tmp_path / "a.png", "source"),)))
    assert (painted.failure and painted.failure.kind, server.handed_in) == ("unreadable_picture", [])


@pytest.mark.parametrize("cost", [None, "4", -1, [1], True])
def test_a_picture_is_kept_whatever_it_says_it_cost(server: JobServer, cost: Any) -> None:
    server.cost = cost
    painted = paint(server, options="&price=0.05")
    assert (len(painted.pictures), painted.cost_usd) == (1, 0.05)


# --- nothing is paid for twice ---------------------------------------------------------------------------------------


def test_a_deadline_leaves_the_job_with_the_provider_and_the_next_run_collects_it(
    server: JobServer, tmp_path: Path
) -> None:
    server.looks = 15
    first = paint(server, options="&deadline=0.05", jobs=JobJournal(tmp_path / "ledger.sqlite"))
    assert said(first).startswith("timeout: job job-1 is not done after 0.05 s: the next run asks for it again")
    assert (first.cost_usd, first.worst_usd) == (None, 0.04)
    second = paint(server, jobs=JobJournal(tmp_path / "ledger.sqlite"))
    assert second.pictures and second.provenance["job"] == "handed in by an earlier command"
    assert (second.cost_usd, len(server.handed_in)) == (0.04, 1)
    assert second.seconds is None, "how long it took is not known"
    assert paint(server, Commission("A wolf"), jobs=JobJournal(tmp_path / "ledger.sqlite")).pictures
    assert len(server.handed_in) == 2, "another request is another job"
    assert KEY not in (tmp_path / "jobs.jsonl").read_text()


@pytest.mark.parametrize("edit", [{"id": 7}, {"url": ["x"]}, {"cost_usd": "4"}, {"cost_usd": -4}, {"act": 3}])
def test_an_edited_journal_is_said_and_nothing_is_handed_in(
    server: JobServer, tmp_path: Path, edit: dict[str, object]
) -> None:
    server.looks = 15
    assert paint(server, options="&deadline=0.05", jobs=JobJournal(tmp_path / "ledger.sqlite")).failure
    path = tmp_path / "jobs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, **edit}) + "\n" for line in lines))
    with pytest.raises(RefBenchError, match=r"jobs\.jsonl cannot be read"):
        paint(server, jobs=JobJournal(tmp_path / "ledger.sqlite"))
    assert len(server.handed_in) == 1


def test_a_job_is_found_again_under_another_sharding(server: JobServer, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    server.looks = 15
    assert paint(server, options="&deadline=0.05", jobs=JobJournal(tmp_path / "shards/2-of-3.sqlite")).failure
    assert paint(server, jobs=JobJournal(tmp_path / "ledger.sqlite")).cost_usd == 0.04
    assert paint(server, Commission("A wolf"), jobs=JobJournal(tmp_path / "shards/1-of-3.sqlite")).pictures
    assert [seen.body["prompt"] for seen in server.handed_in] == ["A fox", "A wolf"]


def test_a_build_that_fills_its_gaps_with_jobs_pays_for_each_once(server: JobServer, tmp_path: Path) -> None:
    server.poll_host = server.link_host = "127.0.0.1"
    server.looks = 15

    async def fill(deadline: float) -> Painted:
        spec = f"bfl:flux-2-pro?base_url={server.url}/v1&interval=0.01&deadline={deadline}"
        async with Transport(policy=QUICK) as transport, opened_painter(spec, None, transport, tmp_path) as painter:
            assert painter is not None
            return await painter.generate(FOX, 0)

    assert asyncio.run(fill(0.05)).failure
    assert asyncio.run(fill(60)).pictures and len(server.handed_in) == 1


def test_equal_requests_at_once_are_jobs_of_their_own(server: JobServer) -> None:
    async def run() -> list[Painted]:
        async with Transport(policy=QUICK, timeout=60) as transport:
            spec = Spec.parse(f"m=bfl:flux-2-pro?base_url={server.url}/v1&interval=0.01")
            model = JobModel(spec, LOOPBACK, transport, None)
            return await asyncio.gather(*(model.generate(FOX, 0) for _ in range(3)))

    assert {painted.pictures for painted in asyncio.run(run())} == {(server.picture(f"job-{n}"),) for n in (1, 2, 3)}


@pytest.mark.parametrize("status", [0, 500, 502, 504])
def test_what_may_have_been_taken_is_not_handed_in_again_by_itself_and_then_counted(
    server: JobServer, status: int, tmp_path: Path
) -> None:
    server.posts = [(status, {"detail": "who knows"})]
    first = paint(server, options="&price=0.05", jobs=JobJournal(tmp_path / "ledger.sqlite"))
    assert (first.failure and first.failure.kind, first.worst_usd) == ("api_error", 0.05)
    assert len(server.handed_in) == (status == 0), "one try"
    second = paint(server, options="&price=0.05", jobs=JobJournal(tmp_path / "ledger.sqlite"))
    assert second.pictures and "1 before it may be paid for too" in second.provenance["lost"]
    assert (second.cost_usd, second.worst_usd) == (0.04, pytest.approx(0.09))
    third = paint(server, Commission("A wolf"), jobs=JobJournal(tmp_path / "ledger.sqlite"))
    assert "lost" not in third.provenance


def test_a_link_that_has_expired_is_asked_for_once_more_and_then_said(server: JobServer) -> None:
    server.expired = 1
    assert paint(server).pictures
    server.expired = 2
    jobs = JobJournal()
    lost = paint(server, jobs=jobs)
    assert said(lost).startswith("missing_output: job job-2 was done, but the link to its picture has expired")
    assert lost.cost_usd == 0.04, "it is paid for"
    assert paint(server, jobs=jobs).pictures and len(server.handed_in) == 3


@pytest.fixture
def run_killed(server: JobServer, tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """`refbench generate` on the cases there are, killed at a moment, or not where it is ""."""
    server.poll_host = server.link_host = "127.0.0.1"

    def work(moment: str) -> subprocess.CompletedProcess[str]:
        script = [str(Path(__file__).parents[1] / "support/job_server.py"), moment] if moment else ["-m", "refbench"]
        spec = f"m=bfl:flux-2-pro?base_url={server.url}/v1&interval=0.01&price=0.05"
        words = ["generate", "cases.jsonl", "--model", spec, "--out", "run", "--generate-concurrency", "1"]
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        return subprocess.run(
            [sys.executable, *script, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return work


class Killed(BaseException):
    """In the place of a signal, where the process is that of the test."""


def _raise() -> None:
    raise Killed


MOMENTS = {
    "before intended": 1,
    "after intended": 1,
    "before submitted": 2,  # the provider's word is lost: the one payment that a kill can cost
    "after submitted": 1,
    "while asked": 1,
    "when fetched": 1,
}
"""When a command ends, and how many jobs a picture costs in all."""


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_model_that_ends_at_any_moment_finds_its_job_again(
    server: JobServer, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, name in ((JobJournal, "_append"), (JobModel, "_state"), (JobModel, "_fetched_from")):
        monkeypatch.setattr(kind, name, getattr(kind, name))  # to be put back
    die_at(moment, _raise)
    with pytest.raises(Killed):
        paint(server, jobs=JobJournal(tmp_path / "ledger.sqlite"))
    monkeypatch.undo()
    monkeypatch.setenv("BFL_API_KEY", KEY)
    painted = paint(server, jobs=JobJournal(tmp_path / "ledger.sqlite"))
    assert painted.pictures and len(server.handed_in) == MOMENTS[moment]
    assert ("lost" in painted.provenance) == (moment in ("after intended", "before submitted"))


@pytest.mark.slow
@pytest.mark.parametrize("moment", [*MOMENTS, "before ended", "after ended"])
def test_a_run_that_was_killed_pays_for_no_job_twice(
    server: JobServer,
    run_killed: Callable[[str], subprocess.CompletedProcess[str]],
    tmp_path: Path,
    moment: str,
) -> None:
    # While an output is put on record, the next one is handed in: alone, only what is meant is cut off.
    ids = ["c1"] if moment.endswith("ended") else ["c1", "c2"]
    lines = [json.dumps({"id": case, "instruction": f"Fox {case}"}) for case in ids]
    (tmp_path / "cases.jsonl").write_text("\n".join(lines))
    jobs = len(ids) - 1 + MOMENTS.get(moment, 1)
    killed = run_killed(moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    done = run_killed("")
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(server.handed_in) == jobs
    outputs = {output.case: output for output in Run.open(tmp_path / "run").outputs()}
    assert {case: output.failure for case, output in outputs.items()} == dict.fromkeys(ids)
    lost = [output for output in outputs.values() if "lost" in output.provenance]
    assert len(lost) == (moment in ("before submitted", "after intended")), "what may be lost is said, and nothing else"
    assert sum(output.charged_usd for output in outputs.values()) == pytest.approx(0.04 * len(ids) + 0.05 * len(lost))
    assert run_killed("").returncode == 0 and len(server.handed_in) == jobs, "nothing is left to do"


# --- another queue is a small declaration ----------------------------------------------------------------------------


def _dashscope_shape(order: ImageRequest) -> WireRequest:
    def shape(put: Any) -> dict[str, Any]:
        pictures = [{"image": f"data:{picture.mime};base64,{put(picture)}"} for picture in order.pictures]
        content = [*pictures, {"text": order.commission.instruction}]
        return {
            "model": order.model,
            "input": {"messages": [{"role": "user", "content": content}]},
            "parameters": {"n": order.commission.n_pictures, "seed": order.seed, "watermark": False},
        }

    return WireRequest(f"{order.base_url}/multimodal-generation", "application/json", json_body(shape))


def _dashscope_state(body: Any) -> JobState | None:
    word = text(body, "output", "task_status")
    if word == "SUCCEEDED":
        links = tuple(Link(text(item, "url")) for item in tables(body, "output", "results"))
        return JobState("ended", WireReply(links), word)
    if word == "FAILED":
        return JobState(
            "ended", WireReply(failure=Failure(kind="api_error", detail=text(body, "output", "code"))), word
        )
    return JobState("unknown" if word == "UNKNOWN" else "pending", word=word) if word else None


DASHSCOPE = replace(
    LOOPBACK,
    kind="dashscope",
    shape=_dashscope_shape,
    job=JobFormat(
        taken=lambda body: HandedIn(text(body, "output", "task_id")) if text(body, "output", "task_id") else None,
        state=_dashscope_state,
        address=lambda base_url, job: f"{base_url}/tasks?id={job}",
        link_minutes=24 * 60,
    ),
)


def test_another_queue_is_a_declaration_of_its_body_and_its_states(server: JobServer) -> None:
    server.posts = [(200, {"output": {"task_id": "job-1", "task_status": "PENDING"}})]
    links = [{"url": f"http://localhost:{server.port}/results/job-{n}"} for n in (1, 2)]
    server.states = [
        {"output": {"task_status": "RUNNING"}},
        {"output": {"task_status": "SUCCEEDED", "results": links}},
    ]
    painted = paint(server, Commission("Foxes", n_pictures=2), "&price=0.1", wire=DASHSCOPE)
    assert (painted.pictures, painted.failure) == ((server.picture("job-1"), server.picture("job-2")), None)
    assert server.handed_in[0].body["input"] == {"messages": [{"role": "user", "content": [{"text": "Foxes"}]}]}
    assert [seen.path for seen in server.asked] == ["/v1/tasks?id=job-1"] * 2
    assert painted.cost_usd == pytest.approx(0.2)
