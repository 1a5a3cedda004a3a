"""A server on loopback that sends whatever bytes it is told to, HTTP or not, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import socketserver
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Asked:
    """One request as it came, names of headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body or b"{}")
        return found


Answering = Callable[[Asked], Iterable[bytes]]
"""The pieces of an answer, sent as they are made until the client has had enough."""


@dataclass
class RawServer:
    """A thread for each connection, one answer each."""

    answer: Answering
    requests: list[Asked] = field(default_factory=list)
    sent: int = 0
    """Bytes that clients have taken, about."""

    def __enter__(self) -> Self:
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 120

            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError):
                    asked = _read(self.rfile)
                    outer.requests.append(asked)
                    for piece in outer.answer(asked):
                        self.wfile.write(piece)
                        outer.sent += len(piece)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 128  # of five, the sixth at once may wait for a second
            block_on_close = False
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(20)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def _read(file: Any) -> Asked:
    method, path, _ = file.readline().decode("latin-1").split(" ", 2)
    headers = {}
    while line := file.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Asked(method, path, headers, file.read(int(headers.get("content-length", 0))))


def http(body: bytes | Any, status: int = 200, *headers: str, length: int | None = None) -> bytes:
    """A whole answer; what is not bytes goes as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {header.partition(":")[0].lower() for header in headers}
    lines = [f"HTTP/1.1 {status} Said", *headers, "Connection: close"]
    if "content-type" not in known:
        lines.append("Content-Type: application/json")
    if not known & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(data) if length is None else length}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data


def endless(head: bytes = b'{"choices": "', piece: bytes = b"x" * 65536, most: int = 1 << 30) -> Iterator[bytes]:
    """An answer without end, up to a gibibyte."""
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + head
    for _ in range(most // len(piece)):
        yield piece


@functools.cache
def bomb(megabytes: int = 600, encoding: str = "gzip") -> bytes:
    """A packed file a thousandth as large as what is in it."""
    if encoding == "gzip":
        return gzip.compress(b"x" * (1 << 20), 9) * megabytes  # members one behind the other are one file
    packing, one = zlib.compressobj(9), b"x" * (1 << 20)
    return b"".join([*(packing.compress(one) for _ in range(megabytes)), packing.flush()])
