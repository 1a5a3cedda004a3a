"""Batches: many requests handed in at once, answered within a day at half the price, in OpenAI's and Anthropic's way.

Only what goes over the wire is here; what is asked, recorded and resumed is `engine.batching`'s business.
"""

from __future__ import annotations

import asyncio
import io
import random
import secrets
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from refbench.calls.transport import MEGABYTE, Call, CallFailedError, Transport
from refbench.failure import redact
from refbench.record import RefBenchError

HALF_PRICE = 0.5
"""What both providers charge for a batch, as a share of the live price."""
_TRIES = 5  # at handing in; the calls that can be repeated safely have their own tries besides
_SUBMITTING = 3600.0  # seconds after its intent within which a batch was created, if it was
_SKEW = 300.0  # seconds that the provider's clock may be behind ours


class BatchLimits(NamedTuple):
    """How much one batch may hold; kept below what the providers state, so that what surrounds it has room."""

    requests: int
    size: int


@dataclass(frozen=True)
class BatchState:
    """How far a batch is, in the provider's own word, and once it has ended, where its results are."""

    ended: bool
    word: str
    results: tuple[str, ...] = ()


_UNKNOWN = BatchState(ended=True, word="unknown to the provider")


@dataclass(frozen=True)
class BatchResult:
    """What became of one request: the status and body it would have had live, or why it was never answered."""

    custom_id: str
    status: int = 0
    body: bytes = b""
    unanswered: str = ""


@dataclass(frozen=True)
class BatchEndpoint:
    """Where batches are handed in: an address and two ways to send there.

    `patient` tries again; `once` does not, because a batch that is created twice is paid for twice.
    """

    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    patient: Transport
    once: Transport

    async def get(self, url: str) -> bytes | None:
        """The body, None when there is no such thing (any more)."""
        status, body = await self._send(self.patient, Call(self.base_url, url, self.headers, bytes, 0, "GET"))
        return None if status == 404 else self._checked(status, body)

    async def described(self, url: str) -> dict[str, Any] | None:
        """The JSON object at an address, None when there is no such thing (any more)."""
        body = await self.get(url)
        return None if body is None else self.json(body)

    async def post(self, url: str, pieces: Sequence[bytes], content_type: str, *, once: bool = False) -> dict[str, Any]:
        headers = {**self.headers, "Content-Type": content_type}
        call = Call(self.base_url, url, headers, lambda: pieces, sum(map(len, pieces)))
        return self.json(self._checked(*await self._send(self.once if once else self.patient, call)))

    def json(self, body: bytes | None) -> dict[str, Any]:
        try:
            record = orjson.loads(body or b"null")
        except orjson.JSONDecodeError:
            record = None
        if not isinstance(record, dict):
            raise RefBenchError(f"{self.base_url} does not speak the batch API: run without --batch")
        return record

    async def _send(self, way: Transport, call: Call) -> tuple[int, bytes]:
        async with way.limiter(self.base_url).place():
            answer = await way.send(call)
        return answer.status, answer.body

    def _checked(self, status: int, body: bytes) -> bytes:
        if 200 <= status < 300:
            return body
        words = redact(body[:300].decode("utf-8", "replace"))
        remedy = "set a valid key" if status in (401, 403) else "mend that, or run without --batch"
        raise RefBenchError(f"{self.base_url} says no to a batch (HTTP {status}: {words}): {remedy}")


class OpenAIBatches:
    """A file is uploaded, a batch made of it. The tag travels as metadata, so that a lost batch is found for sure."""

    limits = BatchLimits(requests=50_000, size=180 * MEGABYTE)

    def __init__(self, endpoint: BatchEndpoint) -> None:
        self.endpoint = endpoint
        self.url = f"{endpoint.base_url}/batches"

    def line(self, custom_id: str, body: bytes) -> bytes:
        """One request as it stands in a batch."""
        head = f'{{"custom_id":"{custom_id}","method":"POST","url":"/v1/chat/completions","body":'
        return b"".join((head.encode(), body, b"}\n"))

    async def submit(self, tag: str, lines: Sequence[bytes]) -> str:
        """Hand in a batch, trying once; its id."""
        boundary = f"refbench-{secrets.token_hex(16)}"
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="refbench-{tag}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        pieces = [head.encode(), *lines, f"\r\n--{boundary}--\r\n".encode()]
        form = f"multipart/form-data; boundary={boundary}"
        file = _id(await self.endpoint.post(f"{self.endpoint.base_url}/files", pieces, form))
        asked = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        body = orjson.dumps({**asked, "metadata": {"refbench": tag}})
        return _id(await self.endpoint.post(self.url, [body], "application/json", once=True))

    async def state(self, batch: str) -> BatchState:
        record = await self.endpoint.described(f"{self.url}/{batch}")
        if record is None:
            return _UNKNOWN
        word = str(record.get("status"))
        errors = [_words(error) for error in (record.get("errors") or {}).get("data") or []]
        files = [record[key] for key in ("output_file_id", "error_file_id") if record.get(key)]
        return BatchState(
            ended=word in ("completed", "failed", "expired", "cancelled"),
            word=": ".join([word, *errors[:1]]),
            results=tuple(f"{self.endpoint.base_url}/files/{file}/content" for file in files),
        )

    def results(self, body: bytes) -> Iterator[BatchResult]:
        """What a file of results says."""
        for record in _lines(body):
            response = record.get("response")
            if isinstance(response, dict):
                status, answer = int(response.get("status_code") or 0), orjson.dumps(response.get("body"))
                yield BatchResult(record["custom_id"], status, answer)
            else:
                yield BatchResult(record["custom_id"], unanswered=_words(record.get("error")) or "no response")

    async def find(self, tag: str, requests: int, since: float, known: Collection[str]) -> tuple[str, ...]:
        """The batch that was handed in under a tag, if it arrived."""
        listed = _listed(self.endpoint, self.url, "after")
        return tuple([_id(record) async for record in listed if (record.get("metadata") or {}).get("refbench") == tag])


class AnthropicBatches:
    """All requests go in one body, and nothing of ours but their ids is kept with the batch.

    Until it has ended and shows its ids, a lost batch is told from others only by its size and time.
    """

    limits = BatchLimits(requests=100_000, size=200 * MEGABYTE)

    def __init__(self, endpoint: BatchEndpoint) -> None:
        self.endpoint = endpoint
        self.url = f"{endpoint.base_url}/v1/messages/batches"

    def line(self, custom_id: str, body: bytes) -> bytes:
        return b"".join((f'{{"custom_id":"{custom_id}","params":'.encode(), body, b"}"))

    async def submit(self, tag: str, lines: Sequence[bytes]) -> str:
        pieces = [b'{"requests":[']
        for line in lines:
            pieces += [line, b","]
        pieces[-1] = b"]}"
        return _id(await self.endpoint.post(self.url, pieces, "application/json", once=True))

    async def state(self, batch: str) -> BatchState:
        record = await self.endpoint.described(f"{self.url}/{batch}")
        if record is None:
            return _UNKNOWN
        word = str(record.get("processing_status"))
        place = str(record.get("results_url") or "")
        if urlsplit(place)[:2] != urlsplit(self.url)[:2]:  # the key goes where it was given for, and nowhere else
            place = f"{self.url}/{batch}/results"
        return BatchState(ended=word == "ended", word=word, results=(place,) if word == "ended" else ())

    def results(self, body: bytes) -> Iterator[BatchResult]:
        for record in _lines(body):
            result = record.get("result") or {}
            if result.get("type") == "succeeded":
                yield BatchResult(record["custom_id"], 200, orjson.dumps(result.get("message")))
            elif result.get("type") == "errored":
                error = result.get("error") or {}
                inner = error.get("error") or error
                status = 400 if inner.get("type") == "invalid_request_error" else 500
                yield BatchResult(record["custom_id"], status, orjson.dumps({"error": inner}))
            else:
                yield BatchResult(record["custom_id"], unanswered=str(result.get("type")))

    async def find(self, tag: str, requests: int, since: float, known: Collection[str]) -> tuple[str, ...]:
        """All batches that may be it. One that is not shows none of our ids in the end, and is then left alone."""

        def may_be(record: Mapping[str, Any]) -> bool:
            created = datetime.fromisoformat(str(record["created_at"])).timestamp()
            count = sum((record.get("request_counts") or {}).values())
            return -_SKEW <= created - since <= _SUBMITTING and count == requests and record.get("id") not in known

        return tuple([_id(record) async for record in _listed(self.endpoint, self.url, "after_id") if may_be(record)])


Batches = OpenAIBatches | AnthropicBatches


def batches_of(kind: str, judge: str, endpoint: BatchEndpoint) -> Batches:
    """The batch API of a kind of provider."""
    if kind == "openai":
        return OpenAIBatches(endpoint)
    if kind == "anthropic":
        return AnthropicBatches(endpoint)
    raise RefBenchError(f"--batch works with OpenAI and Anthropic; judge {judge} is {kind}: run it without --batch")


async def hand_in(batches: Batches, tag: str, lines: Sequence[bytes], known: Collection[str]) -> tuple[str, ...]:
    """Submit a batch and never twice: after a failure that may have been a success, the provider's list is asked."""
    since, policy = time.time(), batches.endpoint.patient.policy
    for number in range(1, _TRIES + 1):
        try:
            return (await batches.submit(tag, lines),)
        except CallFailedError as error:
            failure = error.failure
            if error.attempts[-1].status not in ("429", "529"):  # those were surely turned away
                arrived = await batches.find(tag, len(lines), since, known)
                if arrived:
                    return arrived
        await asyncio.sleep(policy.wait(number, None, random.Random()))
    raise RefBenchError(
        f"{batches.endpoint.base_url} did not take a batch ({failure}): run the same command again later"
    )


async def outcome(batches: Batches, ids: Sequence[str]) -> tuple[str, list[BatchResult]] | None:
    """How batches ended and all their results; None while one of them is still worked on."""
    states = [await batches.state(batch) for batch in ids]
    if not all(state.ended for state in states):
        return None
    results: list[BatchResult] = []
    for place in (place for state in states for place in state.results):
        results += batches.results(await batches.endpoint.get(place) or b"")
    return ", ".join(state.word for state in states), results


async def _listed(endpoint: BatchEndpoint, url: str, cursor: str) -> AsyncIterator[dict[str, Any]]:
    """All batches that the provider lists, page by page."""
    after = ""
    while True:
        page = endpoint.json(await endpoint.get(f"{url}?limit=100{after}"))
        data = page.get("data") or []
        for record in data:
            yield record
        if not data or not page.get("has_more"):
            return
        after = f"&{cursor}={page.get('last_id') or _id(data[-1])}"


def _lines(body: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL body; what is no object with an id is left out, and its request counts as unanswered."""
    for line in io.BytesIO(body):
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict) and isinstance(record.get("custom_id"), str):
            yield record


def _words(error: Any) -> str:
    words = [str(error[key]) for key in ("code", "message") if error.get(key)] if isinstance(error, dict) else []
    return ": ".join(words)


def _id(record: Mapping[str, Any]) -> str:
    if not isinstance(record.get("id"), str):
        raise RefBenchError("the provider's answer about a batch has no id: run the same command again later")
    return str(record["id"])
