"""Batches: many requests handed in at once, answered within a day at half the price, in OpenAI's and Anthropic's way.

Only what goes over the wire is here; what is asked, recorded and resumed is `engine.batching`'s business.
"""

from __future__ import annotations

import asyncio
import codecs
import random
import secrets
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import orjson

from refbench.calls.errors import read_error
from refbench.calls.keys import Secrets
from refbench.calls.said import at, count, said, table, tables, text, total
from refbench.calls.transport import CHAT, MEGABYTE, RESULTS, Answer, Call, CallFailedError, Transport, is_fine
from refbench.failure import Failure
from refbench.record import RefBenchError

HALF_PRICE = 0.5
"""What both providers charge for a batch, as a share of the live price."""
_TRIES = 5  # at handing in; the calls that can be repeated safely have their own tries besides
_SUBMITTING = 3600.0  # seconds after its intent within which a batch was created, if it was
_SKEW = 300.0  # seconds that the provider's clock may be behind ours
_WORDS = 300  # characters of an id, a state or an error that are kept
_MOST_PAGES = 1000  # of a provider's list of batches
_KEPT = 30 * 24 * 3600.0  # seconds for which both providers keep results
_OPENAI_STATES = (
    "completed",
    "failed",
    "expired",
    "cancelled",
    "validating",
    "in_progress",
    "finalizing",
    "cancelling",
)
_ANTHROPIC_STATES = ("ended", "in_progress", "canceling")
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


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
    """What became of one request: the status and body (its JSON) it would have had live, or why it was never
    answered."""

    custom_id: str
    status: int = 0
    body: Any = None
    unanswered: str = ""


@dataclass(frozen=True)
class BatchEndpoint:
    """Where batches are handed in: an address and two ways to send there.

    `patient` tries again; `once` does not, because a batch that is created twice is paid for twice.
    """

    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: Secrets = field(repr=False)
    patient: Transport
    once: Transport

    async def get(self, url: str, most: int = CHAT) -> Answer | None:
        """The answer, None when there is no such thing (any more)."""
        call = Call(self.base_url, url, self.headers, bytes, 0, "GET", self.secrets, most)
        answer = await self._send(self.patient, call)
        return None if answer.status == 404 else self._checked(answer)

    async def described(self, url: str) -> dict[str, Any] | None:
        """The JSON object at an address, None when there is no such thing (any more)."""
        answer = await self.get(url)
        return None if answer is None else self._object(answer)

    async def post(self, url: str, pieces: Sequence[bytes], content_type: str, *, once: bool = False) -> dict[str, Any]:
        headers = {**self.headers, "Content-Type": content_type}
        call = Call(self.base_url, url, headers, lambda: pieces, sum(map(len, pieces)), secrets=self.secrets)
        return self._object(self._checked(await self._send(self.once if once else self.patient, call)))

    async def results(self, url: str, age: float) -> AsyncIterator[dict[str, Any]]:
        """The objects of a file of results that have an id; the request of any other line counts as unanswered. A file
        that is not there is waited for, until the provider would have thrown it away."""
        answer = await self.get(url, RESULTS)
        if answer is None and age < _KEPT:
            detail = "a batch has ended, and the file of its results is not there yet (HTTP 404)"
            raise CallFailedError(Failure(kind="api_error", detail=detail), ())
        body, start = b"" if answer is None else answer.body, 0
        if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # its lines end in two bytes
            body = body.decode("utf-16", "replace").encode("utf-8", "replace")
        while start < len(body):  # line by line: split, the file would be in memory twice
            end = body.find(b"\n", start)
            end = len(body) if end < 0 else end
            record = said(body[start:end], self.secrets)
            if text(record, "custom_id"):
                yield record
            start = end + 1

    def _object(self, answer: Answer) -> dict[str, Any]:
        record = answer.said()
        if not isinstance(record, dict):
            raise RefBenchError(f"{self.base_url} does not speak the batch API: run without --batch")
        return record

    async def _send(self, way: Transport, call: Call) -> Answer:
        async with way.limiter(self.base_url).place():
            return await way.send(call)

    def _checked(self, answer: Answer) -> Answer:
        if answer.fine:
            return answer
        words = read_error(answer.status, answer.said(), self.secrets).words
        remedy = "set a valid key" if answer.status in (401, 403) else "mend that, or run without --batch"
        raise RefBenchError(f"{self.base_url} says no to a batch ({words}): {remedy}")


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
        record = await self.endpoint.described(f"{self.url}/{quote(batch, safe='')}")
        if record is None:
            return _UNKNOWN
        word = _known_state(text(record, "status"), _OPENAI_STATES)
        errors = [_words(error) for error in tables(record, "errors", "data")]
        files = [file for key in ("output_file_id", "error_file_id") if (file := text(record, key))]
        return BatchState(
            ended=word in _OPENAI_STATES[:4],
            word=": ".join([word, *errors[:1]]),
            results=tuple(f"{self.endpoint.base_url}/files/{quote(file, safe='')}/content" for file in files),
        )

    def result(self, record: Mapping[str, Any]) -> BatchResult:
        """What a line of a file of results says."""
        name, response = text(record, "custom_id"), table(record, "response")
        if not response:
            return BatchResult(name, unanswered=_words(record.get("error")) or "no response")
        body = response.get("body")
        # A status that is none says nothing against a body that is a reply.
        status = count(response, "status_code") or (500 if at(body, "error") or body is None else 200)
        return BatchResult(name, status, body)

    async def find(self, tag: str, requests: int, since: float, known: Collection[str]) -> tuple[str, ...]:
        """The batch that was handed in under a tag, if it arrived."""
        listed = _listed(self.endpoint, self.url, "after")
        return tuple([_id(record) async for record in listed if text(record, "metadata", "refbench") == tag])


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
        record = await self.endpoint.described(f"{self.url}/{quote(batch, safe='')}")
        if record is None:
            return _UNKNOWN
        word = _known_state(text(record, "processing_status"), _ANTHROPIC_STATES)
        place = text(record, "results_url")
        if not _same_host(place, self.url):  # the key goes where it was given for, and nowhere else
            place = f"{self.url}/{quote(batch, safe='')}/results"
        return BatchState(ended=word == "ended", word=word, results=(place,) if word == "ended" else ())

    def result(self, record: Mapping[str, Any]) -> BatchResult:
        name, kind = text(record, "custom_id"), text(record, "result", "type")
        if kind == "succeeded":
            return BatchResult(name, 200, at(record, "result", "message"))
        if kind == "errored":
            error = table(record, "result", "error")
            inner = table(error, "error") or error
            return BatchResult(name, 400 if inner.get("type") == "invalid_request_error" else 500, {"error": inner})
        return BatchResult(name, unanswered=kind[:_WORDS] or "no result")

    async def find(self, tag: str, requests: int, since: float, known: Collection[str]) -> tuple[str, ...]:
        """All batches that may be it, also those that do not say when they were made or how large they are. One that
        is not shows none of our ids in the end, and is then left alone."""

        def may_be(record: Mapping[str, Any]) -> bool:
            created, size = _time(text(record, "created_at")), total(table(record, "request_counts"), *_COUNTS)
            in_time = created is None or -_SKEW <= created - since <= _SUBMITTING
            return in_time and size in (None, 0, requests) and text(record, "id") not in known

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


@dataclass(frozen=True)
class Outcome:
    """How a batch ended, and its results by request."""

    word: str
    results: Mapping[str, BatchResult]
    charged: bool
    """Whether a request without a result may be paid for: only of a batch that failed as a whole it is known."""


async def outcome(batches: Batches, ids: Sequence[str], age: float) -> Outcome | None:
    """How batches ended that were handed in `age` seconds ago, with all their results; None while one of them is still
    worked on. Of two results for a request a reply counts, whichever file has it."""
    states = [await batches.state(batch) for batch in ids]
    if not all(state.ended for state in states):
        return None
    results: dict[str, BatchResult] = {}
    for place in (place for state in states for place in state.results):
        async for record in batches.endpoint.results(place, age):
            result = batches.result(record)
            known = results.get(result.custom_id)
            if known is None or not is_fine(known.status):
                results[result.custom_id] = result
    charged = any(state.word.partition(":")[0] != "failed" for state in states)
    return Outcome(", ".join(state.word for state in states), results, charged)


async def _listed(endpoint: BatchEndpoint, url: str, cursor: str) -> AsyncIterator[dict[str, Any]]:
    """All batches that the provider lists, page by page."""
    last = ""
    for _ in range(_MOST_PAGES):
        after = f"&{cursor}={quote(last, safe='')}" if last else ""
        page = await endpoint.described(f"{url}?limit=100{after}")
        if page is None:
            raise RefBenchError(f"{endpoint.base_url} does not list its batches: run the same command again later")
        data, before = tables(page, "data"), last
        for record in data:
            yield record
        last = text(page, "last_id") or (text(data[-1], "id") if data else "")
        if not data or not page.get("has_more") or last in ("", before):
            return


def _words(error: Any) -> str:
    words = [str(error[key]) for key in ("code", "message") if error.get(key)] if isinstance(error, dict) else []
    return ": ".join(words)[:_WORDS]


def _id(record: Mapping[str, Any]) -> str:
    if not text(record, "id"):
        raise RefBenchError("the provider's answer about a batch has no id: run the same command again later")
    return text(record, "id")[:_WORDS]


def _known_state(word: str, known: Sequence[str]) -> str:
    """The state of a batch. What is none is a failure of the server: it would be waited for without end."""
    if word not in known:
        detail = f"the provider says that a batch is {word[:_WORDS]!r}, which is no state that it has"
        raise CallFailedError(Failure(kind="api_error", detail=detail), ())
    return word


def _time(written: str) -> float | None:
    try:
        return datetime.fromisoformat(written).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _same_host(place: str, url: str) -> bool:
    try:
        return urlsplit(place)[:2] == urlsplit(url)[:2]
    except ValueError:
        return False
