"""A provider on loopback that really keeps files and batches, in OpenAI's and Anthropic's way, and a command to kill.

It answers live calls as `JudgeServer` does and batched ones alike, so that both can be compared.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from refbench.calls.batch import BatchLimits
from refbench.calls.prices import Budget
from refbench.calls.transport import RetryPolicy, Transport
from refbench.engine.batch_journal import BatchJournal
from refbench.engine.batching import BatchReport, judge_in_batches
from refbench.engine.generating import RunPictures
from refbench.engine.judging import Ask, JudgingRun
from refbench.engine.options import RunOptions
from refbench.engine.setup import OnRecord, prepare_run
from refbench.runs import Shard
from refbench.runs.ledger import Recorder
from support.judge_server import JudgeServer, answer, text_of, wire

LIVE = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
SPECS = {
    "openai": "judge=openai:gpt-4o?base_url={url}/v1&price=1,10",
    "anthropic": "judge=anthropic:claude-sonnet-4-5?base_url={url}&price=1,10",
}


@dataclass
class Kept:
    """One batch as the server keeps it."""

    id: str
    kind: str
    requests: dict[str, dict[str, Any]]
    metadata: dict[str, str]
    created: float
    polls: int = 0


@dataclass
class BatchServer(JudgeServer):
    """Batches end after `polls` looks at them. State lives in the test's process and survives every client."""

    polls: int = 1
    fate: Callable[[str], str] = lambda custom_id: "ok"
    """What becomes of a request: ok, errored, refused, expired, missing, or of its whole batch: failed."""
    on: Callable[[str], int | None] = lambda event: None
    """Called with uploading, uploaded, creating, created, polled, results; a status it returns is answered at once."""
    files: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    submitted: Counter[str] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if not (path.startswith(("/v1/files", "/v1/batches", "/v1/messages/batches"))):
            return await super()._handle(request)
        self.keys |= {request.headers.get("Authorization", ""), request.headers.get("x-api-key", "")}
        if request.method == "POST":
            return await self._post(path, request.headers["Content-Type"], await request.read())
        if path.startswith("/v1/files/"):
            return self._said("results", lambda: web.Response(body=self.files[path.split("/")[3]]))
        if path.endswith("/results"):
            return self._said("results", lambda: web.Response(body=self._anthropic_results(path.split("/")[4])))
        kind = "anthropic" if "/messages/" in path else "openai"
        if path.endswith("/batches"):
            return self._list(kind, request.query)
        return self._said("polled", lambda: self._state(path.rsplit("/", 1)[-1]))

    def _said(self, event: str, respond: Callable[[], web.Response]) -> web.Response:
        status = self.on(event)
        return web.json_response({"error": {"message": "out of order"}}, status=status) if status else respond()

    async def _post(self, path: str, content_type: str, raw: bytes) -> web.Response:
        if path == "/v1/files":
            return self._said("uploading", lambda: self._upload(content_type, raw))
        status = self.on("creating")
        if status:
            return web.json_response({"error": {"message": "out of order"}}, status=status)
        told = json.loads(raw)
        if "requests" in told:
            batch = self.keep("anthropic", {r["custom_id"]: r["params"] for r in told["requests"]})
        else:
            assert (told["endpoint"], told["completion_window"]) == ("/v1/chat/completions", "24h")
            lines = [json.loads(line) for line in self.files[told["input_file_id"]].splitlines()]
            assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
            batch = self.keep("openai", {line["custom_id"]: line["body"] for line in lines}, told["metadata"])
        self.submitted.update(batch.requests.keys())
        return self._said("created", lambda: web.json_response(self._shown(batch)))

    def keep(self, kind: str, requests: dict[str, Any], metadata: dict[str, str] | None = None) -> Kept:
        assert all(len(custom_id) <= 64 for custom_id in requests)
        batch = Kept(f"{kind}-batch-{len(self.kept)}", kind, requests, metadata or {}, time.time())
        self.kept[batch.id] = batch
        return batch

    def _upload(self, content_type: str, raw: bytes) -> web.Response:
        """Read by the standard library's parser, not by ours."""
        form = email.message_from_bytes(
            f"Content-Type: {content_type}\r\n\r\n".encode() + raw, policy=email.policy.HTTP
        )
        parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        assert parts["purpose"].get_content().strip() == "batch"
        content = parts["file"].get_payload(decode=True)
        assert isinstance(content, bytes)
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return self._said("uploaded", lambda: web.json_response({"id": name, "object": "file", "purpose": "batch"}))

    def _list(self, kind: str, query: Any) -> web.Response:
        """Pages of two, newest first, as both providers page."""
        batches = [self._shown(batch) for batch in reversed(self.kept.values()) if batch.kind == kind]
        after = query.get("after") or query.get("after_id")
        start = next((i + 1 for i, told in enumerate(batches) if told["id"] == after), 0)
        page = batches[start : start + 2]
        return web.json_response(
            {"data": page, "has_more": start + 2 < len(batches), "last_id": page[-1]["id"] if page else None}
        )

    def _state(self, name: str) -> web.Response:
        if name not in self.kept:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        self.kept[name].polls += 1
        return web.json_response(self._shown(self.kept[name]))

    def _shown(self, batch: Kept) -> dict[str, Any]:
        ended = batch.polls >= self.polls
        if batch.kind == "anthropic":
            counts = {
                "processing": 0 if ended else len(batch.requests),
                "succeeded": len(batch.requests) if ended else 0,
            }
            return {
                "id": batch.id,
                "type": "message_batch",
                "processing_status": "ended" if ended else "in_progress",
                "request_counts": {**counts, "errored": 0, "canceled": 0, "expired": 0},
                "created_at": datetime.fromtimestamp(batch.created, UTC).isoformat().replace("+00:00", "Z"),
                "results_url": f"{self.url}/v1/messages/batches/{batch.id}/results" if ended else None,
            }
        told = {"id": batch.id, "object": "batch", "metadata": batch.metadata, "created_at": int(batch.created)}
        if not ended:
            return {**told, "status": "in_progress", "output_file_id": None, "error_file_id": None}
        if any(self.fate(custom_id) == "failed" for custom_id in batch.requests):
            errors = {
                "data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None}]
            }
            return {**told, "status": "failed", "errors": errors, "output_file_id": None, "error_file_id": None}
        names = self._openai_results(batch)
        return {**told, "status": "completed", "output_file_id": names[0], "error_file_id": names[1]}

    def _reply(self, kind: str, custom_id: str, body: dict[str, Any]) -> dict[str, Any]:
        text = (self.reply or answer)(text_of(body))
        return wire(LIVE[kind], text, refused=self.fate(custom_id) == "refused")

    def _openai_results(self, batch: Kept) -> tuple[str | None, str | None]:
        found: tuple[list[bytes], list[bytes]] = ([], [])
        for custom_id, body in reversed(batch.requests.items()):  # results come in any order
            fate = self.fate(custom_id)
            line: dict[str, Any] = {
                "id": f"req-{custom_id[:6]}",
                "custom_id": custom_id,
                "response": None,
                "error": None,
            }
            if fate == "expired":
                line["error"] = {"code": "batch_expired", "message": "This request could not be executed in time."}
            elif fate == "errored":
                line["response"] = {"status_code": 500, "body": {"error": {"message": "The server had an error"}}}
            else:
                line["response"] = {"status_code": 200, "body": self._reply("openai", custom_id, body)}
            if fate != "missing":
                found[fate in ("expired", "errored")].append(json.dumps(line).encode() + b"\n")
        names: list[str | None] = []
        for what, lines in zip(("output", "error"), found, strict=True):
            self.files[f"{what}-{batch.id}"] = b"".join(lines)
            names.append(f"{what}-{batch.id}" if lines else None)
        return names[0], names[1]

    def _anthropic_results(self, name: str) -> bytes:
        lines = []
        for custom_id, body in reversed(self.kept[name].requests.items()):
            fate = self.fate(custom_id)
            if fate == "expired":
                result: dict[str, Any] = {"type": "expired"}
            elif fate == "errored":
                result = {
                    "type": "errored",
                    "error": {"type": "error", "error": {"type": "api_error", "message": "The server had an error"}},
                }
            else:
                result = {"type": "succeeded", "message": self._reply("anthropic", custom_id, body)}
            if fate != "missing":
                lines.append(json.dumps({"custom_id": custom_id, "result": result}).encode() + b"\n")
        return b"".join(lines)


async def batch_async(
    work: Path,
    judges: list[str],
    *,
    out: str = "run",
    models: tuple[str, ...] = ("a", "b"),
    limit: int | None = None,
    shard: Shard | None = None,
    budget: str | None = None,
    retry: frozenset[str] = frozenset(),
    wait: bool = True,
    limits: BatchLimits | None = None,
    started: Callable[[JudgingRun], None] = lambda judged: None,
) -> tuple[BatchReport, JudgingRun]:
    """What `evaluate` does around judging, with batches in its place."""
    async with Transport(timeout=60, policy=RetryPolicy(attempts=3, first=0.01)) as transport:
        specs = [f"{name.upper()}=folder:{work / name}" for name in models]
        options = RunOptions(
            benchmark="creval",
            models=specs,
            judges=judges,
            data=work / "creval",
            out=work / out,
            limit=limit,
            shard=shard,
            retry=tuple(retry),
        )
        setup = prepare_run(options, transport)
        run = setup.create_run()
        with run.writer(shard) as writer, Recorder(writer) as recorder:
            writer.want(limit)
            judged = JudgingRun(
                setup=setup,
                run=run,
                transport=transport,
                budget=Budget.parse(budget, run.spent_usd()),
                recorder=recorder,
                pictures=RunPictures(run, setup.dataset, recorder, setup.policy),
                on_record=OnRecord.of(run, BatchJournal(writer.path).all_asked()),
            )
            started(judged)
            report = await judge_in_batches(
                judged, list(map(Ask, setup.cases)), poll_seconds=0.0, wait=wait, limits=limits
            )
    return report, judged


def batch(work: Path, judges: list[str], **changes: Any) -> tuple[BatchReport, JudgingRun]:
    return asyncio.run(batch_async(work, judges, **changes))


def die(moment: str) -> None:
    """Arrange for this process to be killed at a moment: before, within or after a line of the journal, or while recording."""
    what, number = moment.split("-")
    passed = Counter[str]()

    def reached(place: str) -> bool:
        passed[place] += 1
        return place == what and passed[place] == int(number)

    append, settle = BatchJournal._append, JudgingRun.settle

    def dying_append(journal: BatchJournal, *said: Any, **more: Any) -> None:
        if reached("before"):
            os.kill(os.getpid(), signal.SIGKILL)
        size = journal.path.stat().st_size if journal.path.exists() else 0
        append(journal, *said, **more)
        if reached("within"):
            os.truncate(journal.path, (size + journal.path.stat().st_size) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        if reached("after"):
            os.kill(os.getpid(), signal.SIGKILL)

    async def dying_settle(run: JudgingRun, *settled: Any, **more: Any) -> None:
        await settle(run, *settled, **more)
        if reached("recording"):
            os.kill(os.getpid(), signal.SIGKILL)

    BatchJournal._append = dying_append  # type: ignore[method-assign, assignment]
    JudgingRun.settle = dying_settle  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    place, spec, moment = sys.argv[1:]
    if moment:
        die(moment)
    batch(Path(place), [spec], limits=BatchLimits(requests=10, size=1 << 20))
