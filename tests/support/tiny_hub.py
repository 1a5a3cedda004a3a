"""A stand-in for the Hub on loopback: one repository of models and datasets, or one error; and servers that misbehave.

That it speaks the Hub's protocol is tested with the Hub's own client: test_fetch_data.py.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """One repository, `owner/name`, or one error for every question."""

    files: Path | None = None
    code: str = "RepoNotFound"
    status: int = 404
    url: str = ""
    commit: str = COMMIT
    asked: list[str] = field(default_factory=list)
    repository: str = "owner/name"
    licence: str = ""
    large: int = 1 << 40
    """Files of so many bytes are kept by LFS: another host has them, and their hash is the content's."""
    page: int = 1000
    token: str = ""
    """Without it nothing is given."""
    tokens_seen: list[tuple[str, str]] = field(default_factory=list)
    """Path and token of every question that had one."""
    instead: dict[str, bytes] = field(default_factory=dict)
    """What is sent in the place of a file."""
    also: list[dict[str, Any]] = field(default_factory=list)
    """Further entries of the listing."""
    break_after: int | None = None
    """Every file breaks off after so many bytes."""
    endless: str = ""
    """The file that never ends, or `listing`."""
    busy: int = 0
    """So many questions are answered with 429 first."""
    ranges: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        assert self.files is not None
        return sorted(file.relative_to(self.files).as_posix() for file in self.files.rglob("*") if file.is_file())

    def entry(self, name: str) -> dict[str, Any]:
        assert self.files is not None
        data = (self.files / name).read_bytes()
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        found: dict[str, Any] = {"type": "file", "path": name, "size": len(data), "oid": blob}
        if len(data) >= self.large:
            found["oid"] = "f" * 40  # of the pointer
            found["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return found

    def answer(self, path: str, query: str = "") -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        if self.files is None:
            return self.status, {"X-Error-Code": self.code}, b""
        if self.busy:
            self.busy -= 1
            return 429, {"Retry-After": "0"}, b""
        kind = "datasets/" if "datasets/" in path else ""
        api = f"/api/{kind or 'models/'}{self.repository}"
        if path.startswith(f"{api}/tree/"):
            return self.tree(path, query)
        if path.startswith(api):
            siblings = [{"rfilename": name} for name in self.names()]
            said = {"id": self.repository, "sha": self.commit, "siblings": siblings, "private": False}
            card = {"cardData": {"license": self.licence}} if self.licence else {}
            return 200, {"Content-Type": "application/json"}, json.dumps(said | card).encode()
        if path.startswith("/cdn/"):
            return 200, {}, self.content(path.removeprefix("/cdn/"))
        start = f"/{kind}{self.repository}/resolve/"
        if not path.startswith(start):  # of the library about itself
            return 404, {}, b""
        name = path.removeprefix(start).partition("/")[2]
        data = self.content(name)
        sha256 = hashlib.sha256(data).hexdigest()
        if len(data) >= self.large:
            told = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{sha256}"', "X-Repo-Commit": self.commit}
            elsewhere = self.url.replace("127.0.0.1", "localhost")
            return 302, {**told, "Location": f"{elsewhere}/cdn/{name}"}, b""
        return 200, {"X-Repo-Commit": self.commit, "ETag": f'"{sha256}"'}, data

    def content(self, name: str) -> bytes:
        assert self.files is not None
        return self.instead.get(name) or (self.files / name).read_bytes()

    def tree(self, path: str, query: str) -> tuple[int, dict[str, str], bytes]:
        entries = [{"type": "directory", "path": "folder", "oid": "0" * 40, "size": 0}]
        entries += [*map(self.entry, self.names()), *self.also]
        start = int(parse_qs(query).get("cursor", ["0"])[0])
        headers = {"Content-Type": "application/json"}
        if start + self.page < len(entries) or self.endless == "listing":
            headers["Link"] = f'<{self.url}{path}?recursive=true&cursor={start + self.page}>; rel="next"'
        return 200, headers, json.dumps(entries[start : start + self.page]).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        hub = self.hub
        parts = urlsplit(self.path)
        given = self.headers.get("Authorization") or ""
        if given:
            hub.tokens_seen.append((unquote(parts.path), given))
        status, headers, data = hub.answer(unquote(parts.path), parts.query)
        if hub.token and not parts.path.startswith("/cdn/") and given != f"Bearer {hub.token}":
            status, headers, data = 401, {"X-Error-Code": "GatedRepo"}, b""
        is_file = "/resolve/" in parts.path or parts.path.startswith("/cdn/")
        if status == 200 and is_file and hub.endless and unquote(parts.path).endswith(hub.endless):
            self.endless(headers)
            return
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if status == 200 and is_file and start:
            hub.ranges.append(f"{unquote(parts.path)} from {start}")
            status, data = (206, data[start:]) if start < len(data) else (416, b"")
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data[: hub.break_after] if is_file else data)

    def endless(self, headers: dict[str, str]) -> None:
        self.send_response(200)  # without a length: the end of the connection is the end of the file
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            for _ in range(1 << 12):
                self.wfile.write(b"x" * (1 << 16))

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def listening_hub() -> Iterator[Hub]:
    """The hub while it listens, at `url`."""
    state = Hub()
    handler = type("Handler", (_Handler,), {"hub": state})
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{listening.server_address[1]}"
    try:
        yield state
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
