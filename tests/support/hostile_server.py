"""A provider of every kind on one loopback address, and the ways in which it misbehaves.

Good answers are a function of the request; a `Fault` turns a good answer into what goes over the wire.
"""

from __future__ import annotations

import base64
import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from support.five_criteria import FIVE
from support.image_server import gemini_reply, http_reply, openai_reply, png
from support.judge_server import wire
from support.raw_server import Asked, RawServer, bomb, endless, http

MARKS = json.dumps({name: 4 + place for place, name in enumerate(FIVE)})
MOST_SENT = 64 << 20
"""Bytes of an answer without end: far more than anybody shall take."""


@dataclass
class Provider:
    """Keeps batches; all else is in the request."""

    batch: dict[str, Any] = field(default_factory=dict)

    def good(self, asked: Asked) -> bytes:
        path = asked.path.partition("?")[0]
        if path.endswith("/picture.png"):
            return png(7)
        for end, answer in (
            ("/files", self._upload),
            ("/batches", self._batches),
            ("/content", self._openai_results),
            ("/results", self._anthropic_results),
        ):
            if path.endswith(end):
                return answer(asked)
        if "/batches/" in path:
            return json.dumps(self._state(anthropic="/messages/" in path)).encode()
        return json.dumps(self._live(path, asked)).encode()

    def _live(self, path: str, asked: Asked) -> dict[str, Any]:
        if "/images/" in path:
            return openai_reply(png(7))
        if stage(asked) in ("hand in", "look"):
            link = f"http://{asked.headers['host']}/picture.png"
            look = f"http://{asked.headers['host']}/v1/get_result?id=job-1"
            told = {"status": "Ready", "result": {"sample": link}}
            return {"id": "job-1", **(told if stage(asked) == "look" else {"polling_url": look, "cost": 1.0})}
        if path.endswith("/paint"):
            return http_reply(png(7), cost_usd=0.01)
        if b"responseModalities" in asked.body:
            return gemini_reply(png(7))
        return wire(path, MARKS, refused=False)

    def _upload(self, asked: Asked) -> bytes:
        lines = [line for line in asked.body.split(b"\n") if line.startswith(b'{"custom_id"')]
        self.batch = {record["custom_id"]: record["body"] for record in map(json.loads, lines)}
        return b'{"id": "file-1", "object": "file"}'

    def _batches(self, asked: Asked) -> bytes:
        if asked.method == "GET":
            return b'{"data": [], "has_more": false}'
        told = asked.json
        if "requests" in told:
            self.batch = {request["custom_id"]: request["params"] for request in told["requests"]}
        return json.dumps(self._state(anthropic="requests" in told)).encode()

    def _state(self, *, anthropic: bool) -> dict[str, Any]:
        if anthropic:
            return {"id": "batch-1", "processing_status": "ended", "request_counts": {"succeeded": len(self.batch)}}
        return {"id": "batch-1", "status": "completed", "output_file_id": "out-1", "errors": None}

    def _openai_results(self, asked: Asked) -> bytes:
        reply = {"status_code": 200, "body": wire("/v1/chat/completions", MARKS, refused=False)}
        return b"".join(json.dumps({"custom_id": n, "response": reply}).encode() + b"\n" for n in self.batch)

    def _anthropic_results(self, asked: Asked) -> bytes:
        result = {"type": "succeeded", "message": wire("/v1/messages", MARKS, refused=False)}
        return b"".join(json.dumps({"custom_id": n, "result": result}).encode() + b"\n" for n in self.batch)


Fault = Callable[[bytes, Asked], Iterable[bytes]]
"""From the good body to the bytes that go out."""


def stage(asked: Asked) -> str:
    """Which of the steps of a batch or a job a request is; live for all others."""
    path = asked.path.partition("?")[0]
    for end, name in (("/flux-2-pro", "hand in"), ("/get_result", "look"), ("/picture.png", "picture")):
        if path.endswith(end):
            return name
    if path.endswith("/files"):
        return "upload"
    if path.endswith("/batches"):
        return "create" if asked.method == "POST" else "list"
    if path.endswith(("/content", "/results")):
        return "results"
    return "state" if "/batches/" in path else "live"


def hostile(fault: Fault, at: str = "live") -> RawServer:
    """A provider that misbehaves in one way, at one step."""
    provider = Provider()

    def answer(asked: Asked) -> Iterable[bytes]:
        good = provider.good(asked)
        return fault(good, asked) if stage(asked) == at else [http(good)]

    return RawServer(answer)


def key_of(asked: Asked) -> str:
    """The key that came with a request."""
    named = [asked.headers.get(name, "") for name in ("x-api-key", "x-goog-api-key", "x-key", "authorization")]
    return next((value.removeprefix("Bearer ") for value in named if value), "no-key-at-all")


# --- shapes: what is wrong is in the JSON -----------------------------------------------------------------------

Change = Callable[[dict[str, Any]], Any]


def shape(change: Change, dumps: Callable[[Any], bytes] = lambda value: json.dumps(value).encode()) -> Fault:
    """Every object of the body changed; a file of results has one in each line."""

    def fault(good: bytes, asked: Asked) -> Iterable[bytes]:
        lines = [dumps(change(json.loads(line))) for line in good.splitlines()]
        return [http(b"\n".join(lines))]

    return fault


def replies(change: Change) -> Fault:
    """The reply itself changed, wherever it is: live it is the body, in a file of results a part of each line."""

    def at(record: dict[str, Any]) -> Any:
        for path in (("response", "body"), ("result", "message")):
            inner = record.get(path[0])
            if isinstance(inner, dict) and path[1] in inner:
                inner[path[1]] = change(inner[path[1]])
                return record
        return change(record)

    return shape(at)


def usage(value: Any) -> Fault:
    """All counts of tokens are this."""

    def change(reply: dict[str, Any]) -> Any:
        for name in ("usage", "usageMetadata"):
            if name in reply:
                reply[name] = dict.fromkeys(reply[name], value) if value is not ... else None
        return reply

    return replies(change)


def emptied(value: Any) -> Fault:
    """What the reply is about is this instead."""

    def change(reply: dict[str, Any]) -> Any:
        names = {"choices", "candidates", "content", "data", "pictures", "id", "status", "processing_status"} & set(
            reply
        )
        return {**reply, **dict.fromkeys(names, value)}

    return replies(change)


def content(value: Any) -> Fault:
    """The text of the reply is this instead."""

    def change(reply: Any) -> Any:
        if isinstance(reply, list):
            return [change(item) for item in reply]
        if not isinstance(reply, dict):
            return reply
        names = {"content", "text", "b64_json", "inlineData", "finish_reason", "finishReason", "stop_reason"}
        return {k: value if k in names and not isinstance(v, list | dict) else change(v) for k, v in reply.items()}

    return replies(change)


def merged(more: dict[str, Any]) -> Fault:
    return replies(lambda reply: {**reply, **more})


def doubled(reply: dict[str, Any]) -> Any:
    return {
        k: v * 2 if isinstance(v, list) and k in ("choices", "candidates", "content") else v for k, v in reply.items()
    }


def text_with(make: Callable[[str], str]) -> Fault:
    """The good reply with words added that depend on the key."""

    def fault(good: bytes, asked: Asked) -> Iterable[bytes]:
        said = make(key_of(asked))
        return shape(lambda record: {**record, "note": said, "system_fingerprint": said, "modelVersion": said})(
            good, asked
        )

    return fault


# --- the wire: what is wrong is around the body -----------------------------------------------------------------


def wired(*headers: str, change: Callable[[bytes], bytes] = lambda good: good, status: int = 200) -> Fault:
    return lambda good, asked: [http(change(good), status, *headers)]


def raw(*pieces: bytes) -> Fault:
    return lambda good, asked: pieces


def status(number: int, *headers: str) -> Fault:
    def fault(good: bytes, asked: Asked) -> Iterable[bytes]:
        words = f"Incorrect API key provided: {key_of(asked)}. Try again."
        return [http({"error": {"message": words, "type": "some_error"}}, number, *headers)]

    return fault


def once(first: Fault) -> Fault:
    """Only the first answer; then all is well."""
    seen: list[Asked] = []

    def fault(good: bytes, asked: Asked) -> Iterable[bytes]:
        seen.append(asked)
        return first(good, asked) if len(seen) == 1 else [http(good)]

    return fault


def drip(good: bytes, asked: Asked) -> Iterator[bytes]:
    yield http(good)[: -len(good)]
    for place in range(len(good)):
        yield good[place : place + 1]
        time.sleep(0.2)


def hang(good: bytes, asked: Asked) -> Iterator[bytes]:
    time.sleep(3)
    yield b""


def chunked(*pieces: bytes) -> Fault:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    return raw(head, *pieces)


def endless_chunks(good: bytes, asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in range(MOST_SENT >> 16):
        yield b"10000\r\n" + b"[" * 65536 + b"\r\n"


def endless_headers(good: bytes, asked: Asked) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    for number in range(200_000):
        yield b"X-%d: %s\r\n" % (number, b"y" * 100)


def continues(good: bytes, asked: Asked) -> Iterator[bytes]:
    for _ in range(200):
        yield b"HTTP/1.1 100 Continue\r\n\r\n"
    yield http(good)


NESTED = b'{"choices":' + b"[" * 5000 + b"]" * 5000 + b"}"
FAULTS: dict[str, Fault] = {
    **{f"status {n}": status(n) for n in (201, 206, 400, 401, 402, 403, 404, 405, 409, 410, 418, 422, 451, 501, 999)},
    **{f"status {n}": status(n) for n in (408, 425, 429, 500, 502, 503, 504, 520, 529)},
    **{f"redirect {n}": status(n, "Location: http://127.0.0.1:9/elsewhere") for n in (301, 302, 303, 307, 308)},
    "204 without a body": raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "101 other protocol": raw(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
    "100 two hundred times": continues,
    **{
        f"Retry-After {word}": once(status(429, f"Retry-After: {word}"))
        for word in (
            *("86399", "1e309", "-3", "nan", "soon", "Fri, 01 Jan 2099 00:00:00 GMT"),
            *("Fri, 01 Jan 2099 00:00:00 +9999999999", "Fri, 99 Foo 20999 99:99:99 GMT"),
        )
    },
    "retry-after-ms huge": once(status(503, "retry-after-ms: 1e30")),
    "html under 200": raw(http(b"<html>sign in</html>", 200, "Content-Type: text/html")),
    "html under 502": raw(http(b"<html>bad gateway</html>", 502, "Content-Type: text/html")),
    "JSON called html": wired("Content-Type: text/html"),
    "no content type": lambda good, asked: [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(good), good)],
    "charset nobody knows": wired("Content-Type: application/json; charset=klingon"),
    "empty body": raw(http(b"")),
    "null": raw(http(b"null")),
    "a list": raw(http(b"[1, 2]")),
    "a number": raw(http(b"7")),
    "a text": raw(http(b'"yes"')),
    "JSON cut short": wired(change=lambda good: good[: len(good) // 2]),
    "body shorter than it says": lambda good, asked: [http(good, length=len(good) + 1000)],
    "body longer than it says": lambda good, asked: [http(good, length=len(good) // 2)],
    "closes at once": raw(),
    "closes within the headers": raw(b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.9\r\n\x00\xff\xfe\r\n\r\n"),
    "HTTP 0.9": lambda good, asked: [good],
    "status that is none": raw(b"HTTP/1.1 OK 200\r\n\r\n"),
    "status of five digits": raw(b"HTTP/1.1 20000 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "drips": drip,
    "hangs": hang,
    "endless body": lambda good, asked: endless(most=MOST_SENT),
    "endless list": lambda good, asked: endless(b'{"choices": [', b"[]," * 20000, MOST_SENT),
    "endless spaces": lambda good, asked: endless(b"", b" " * 65536, MOST_SENT),
    "endless chunks": endless_chunks,
    "endless headers": endless_headers,
    "endless error": lambda good, asked: [http(b"no " * (8 << 20), 400)],
    "a header of a megabyte": wired("X-Long: " + "y" * (1 << 20)),
    "gzip bomb": raw(http(bomb(600), 200, "Content-Encoding: gzip")),
    "deflate bomb": raw(http(bomb(60, "deflate"), 200, "Content-Encoding: deflate")),
    "bomb in a bomb": raw(http(gzip.compress(bomb(600)), 200, "Content-Encoding: gzip, gzip")),
    "bomb as an error": raw(http(bomb(600), 500, "Content-Encoding: gzip")),
    "brotli": wired("Content-Encoding: br"),
    "zstd": wired("Content-Encoding: zstd"),
    "plain called gzip": wired("Content-Encoding: gzip"),
    "gzip cut short": wired("Content-Encoding: gzip", change=lambda good: gzip.compress(good)[:-12]),
    "gzip": wired("Content-Encoding: gzip", change=gzip.compress),
    "deflate without a head": wired("Content-Encoding: deflate", change=lambda good: zlib.compress(good)[2:-4]),
    "chunk of no size": chunked(b"zz\r\n{}\r\n0\r\n\r\n"),
    "chunk of less than nothing": chunked(b"-5\r\n{}\r\n0\r\n\r\n"),
    "chunk of everything": chunked(b"ffffffffffffffff\r\n{}"),
    "chunks without an end": chunked(b"2\r\n{}\r\n"),
    "two lengths": wired("Content-Length: 3", "Content-Length: 900"),
    "a length that is none": wired("Content-Length: many"),
    "length and chunks": wired("Content-Length: 3", "Transfer-Encoding: chunked"),
    "two content types": wired("Content-Type: application/json", "Content-Type: text/html"),
    "NUL in a header": wired("X-Odd: a\x00b"),
    "bytes in a header": wired("X-Odd: \xff\xfe"),
    "a thousand cookies": wired(*(f"Set-Cookie: c{n}=1" for n in range(1000))),
    "byte order mark": wired(change=lambda good: b"\xef\xbb\xbf" + good),
    "UTF-16": wired(change=lambda good: good.decode().encode("utf-16")),
    "a stray byte": wired(change=lambda good: good.rstrip()[:-1] + b', "x": "\xe9"}'),
    "a lone surrogate": wired(change=lambda good: good.rstrip()[:-1] + b', "x": "\\ud800"}'),
    "NaN": wired(change=lambda good: good.rstrip()[:-1] + b', "x": NaN}'),
    "a number of 5000 digits": wired(change=lambda good: good.rstrip()[:-1] + b', "x": ' + b"7" * 5000 + b"}"),
    "a name twice": wired(change=lambda good: good.rstrip()[:-1] + b', "usage": 3}'),
    "nested 5000 deep": raw(http(NESTED)),
    "nested 300 deep in the reply": merged({"usage": json.loads('{"a":' * 300 + "1" + "}" * 300)}),
    **{
        f"usage {word}": usage(value)
        for word, value in {
            "float": 1000.5, "text": "12", "list": [12], "negative": -600, "NaN": float("nan"),
            "infinite": float("inf"), "huge": 10**30, "true": True, "missing": ..., "nested": {"n": {"n": 1}},
        }.items()
    },
    **{f"reply {word}": emptied(value) for word, value in
       {"empty": [], "null": None, "an object": {}, "a number": 7, "of nulls": [None], "of lists": [[]]}.items()},
    **{f"content {word}": content(value) for word, value in
       {"null": None, "a number": 7, "a list": [[1]], "an object": {"a": 1}, "empty": ""}.items()},
    "several choices": replies(doubled),
    "tool calls": merged({"choices": [{"message": {"content": None, "tool_calls": [{"id": 1}]}, "finish_reason": "tool_calls"}]}),
    "a refusal": merged({"choices": [{"message": {"refusal": "I cannot."}}], "stop_reason": "refusal"}),
    "another model's name": merged({"model": "someone-else", "modelVersion": ["x"]}),
    "an error beside 200": raw(http({"error": {"message": "busy", "code": 500}})),
    "an error text beside 200": raw(http({"error": "busy"})),
    "an error list beside 200": raw(http({"error": ["busy", {"a": 1}]})),
    "the key in the reply": text_with(lambda key: f"your key is {key}"),
    "the key encoded": text_with(lambda key: base64.b64encode(f"user:{key}".encode()).decode()),
    "the key masked": text_with(lambda key: f"{key[:6]}****{key[-4:]}"),
    "the key in headers": lambda good, asked: [http(good, 200, f"x-request-id: {key_of(asked)}", f"Set-Cookie: k={key_of(asked)}")],
    "the key as status words": lambda good, asked: [http(good).replace(b"200 Said", f"200 {key_of(asked)}".encode(), 1)],
}  # fmt: skip
KEPT = frozenset(
    name
    for name in FAULTS
    if name.startswith(("usage ", "Retry-After ", "the key"))
    or name
    in (
        *("JSON called html", "no content type", "charset nobody knows", "gzip", "deflate without a head"),
        *("two content types", "byte order mark", "UTF-16", "a stray byte", "a lone surrogate"),
        *("NaN", "a number of 5000 digits", "several choices", "another model's name", "100 two hundred times"),
        *("retry-after-ms huge", "nested 300 deep in the reply", "bytes in a header"),
    )
)
"""Faults beside a reply that is there: it was paid for and must be on record."""
