"""Batches: whatever a provider answers about them is a result, a failure or a sentence."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from refbench.calls.batch import AnthropicBatches, BatchEndpoint, Batches, OpenAIBatches, outcome
from refbench.calls.keys import Secrets
from refbench.calls.transport import CallFailedError, RetryPolicy, Transport
from refbench.record import RefBenchError
from support.raw_server import RawServer, http

KINDS = {"openai": OpenAIBatches, "anthropic": AnthropicBatches}
ODD: list[Any] = [None, 7, -1, 1.5, True, "x", "../../x?y=1", [], [None], {}, {"a": 1}, [{"id": 3}], "2026-99-99"]
NAMES = (
    *("id", "status", "processing_status", "errors", "data", "output_file_id", "results_url", "has_more", "last_id"),
    *("custom_id", "response", "status_code", "body", "error", "result", "type", "message", "metadata", "created_at"),
    "request_counts",
)


def odd(rng: random.Random, depth: int = 0) -> Any:
    if depth < 3 and rng.random() < (0.7 if depth else 1):
        return {name: odd(rng, depth + 1) for name in rng.sample(NAMES, 6)}
    return rng.choice([*ODD, "completed", "ended", "succeeded", "errored"])


@pytest.mark.parametrize("kind", KINDS)
def test_no_shape_of_an_answer_is_a_fault_of_ours(kind: str) -> None:
    rng = random.Random(1)

    def told() -> bytes:
        sound = {"status": "completed", "processing_status": "ended", "custom_id": "a"} if rng.random() < 0.7 else {}
        return json.dumps({**odd(rng), **sound} if sound else odd(rng)).encode()

    async def look(batches: Batches) -> None:
        if rng.random() < 0.5:
            await outcome(batches, ["batch-1"], age=1e9)
        else:
            await batches.find("tag", 3, 0.0, set())

    async def work() -> None:
        policy = RetryPolicy(attempts=1)
        async with Transport(policy=policy) as patient, Transport(policy=policy) as once:
            batches = KINDS[kind](BatchEndpoint(server.url, {}, Secrets(), patient, once))
            for _ in range(60):
                try:
                    await look(batches)
                except (RefBenchError, CallFailedError):
                    continue

    with RawServer(lambda asked: [http(told())]) as server:
        asyncio.run(work())
    assert len({asked.path for asked in server.requests}) >= 3
    assert not any("../" in asked.path or "?y" in asked.path for asked in server.requests), (
        "an id is no way to another address"
    )


@pytest.mark.parametrize("status", ["200", None, 200.0, [200], 200])
def test_a_reply_with_an_odd_status_is_a_reply(status: Any) -> None:
    async def work() -> Any:
        async with Transport() as transport:
            batches = OpenAIBatches(BatchEndpoint("http://127.0.0.1:9", {}, Secrets(), transport, transport))
            response = {"status_code": status, "body": {"choices": []}}
            return batches.result({"custom_id": "a", "response": response})

    result = asyncio.run(work())
    assert (result.status, result.body) == (200, {"choices": []})


def test_a_list_of_batches_without_end_is_left() -> None:
    page = {"data": [{"id": "b"}], "has_more": True, "last_id": "b"}

    async def work() -> None:
        async with Transport() as transport:
            batches = OpenAIBatches(BatchEndpoint(server.url, {}, Secrets(), transport, transport))
            assert await batches.find("tag", 1, 0.0, set()) == ()

    with RawServer(lambda asked: [http(page)]) as server:
        asyncio.run(work())
        assert len(server.requests) == 2, "the second page is the first again"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_results_are_read_in_every_encoding_of_json(encoding: str) -> None:
    lines = "".join(json.dumps({"custom_id": name, "response": None}) + "\n" for name in "abc")

    async def work() -> list[str]:
        async with Transport() as transport:
            endpoint = BatchEndpoint(server.url, {}, Secrets(), transport, transport)
            return [record["custom_id"] async for record in endpoint.results(server.url, age=0)]

    with RawServer(lambda asked: [http(lines.encode(encoding))]) as server:
        assert asyncio.run(work()) == ["a", "b", "c"]
