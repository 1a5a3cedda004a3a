"""A package index on the loopback: the simple index in HTML or JSON, an npm registry, and files with ranges."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class IndexServer:
    """Serves `files` by name. `break_after` ends a download there, once; `asked` is what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.json = False
        self.ranges = True
        self.break_after: int | None = None
        self.files_host = ""
        self.asked: list[tuple[str, dict[str, str]]] = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index._answer(self)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/simple"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, asked: BaseHTTPRequestHandler) -> None:
        self.asked.append((asked.path, dict(asked.headers)))
        if asked.path.startswith("/files/"):
            self._file(asked, self.files.get(asked.path.removeprefix("/files/")))
        elif asked.path == "/simple/some-weights/":
            self._page(asked)
        elif asked.path == "/npm/@some%2Fweights/1.0":
            tarball = f"http://{self.host}/files/weights-1.0.tgz"
            _send(asked, 200, json.dumps({"dist": {"tarball": tarball}}).encode(), "application/json")
        else:
            _send(asked, 404, b"", "text/plain")

    def _page(self, asked: BaseHTTPRequestHandler) -> None:
        base = f"http://{self.files_host}/files" if self.files_host else "../../files"
        links = {name: f"{base}/{name}#sha256=0" for name in self.files}
        if self.json:
            page = json.dumps({"files": [{"filename": name, "url": link} for name, link in links.items()]}).encode()
            _send(asked, 200, page, "application/vnd.pypi.simple.v1+json")
        else:
            anchors = "".join(f'<a href="{link}">{name}</a>' for name, link in links.items())
            _send(asked, 200, f"<html><body>{anchors}</body></html>".encode(), "text/html")

    def _file(self, asked: BaseHTTPRequestHandler, data: bytes | None) -> None:
        if data is None:
            _send(asked, 404, b"", "text/plain")
            return
        start = 0
        if self.ranges and "Range" in asked.headers:
            start = int(asked.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if start >= len(data):
            _send(asked, 416, b"", "text/plain")
            return
        asked.send_response(206 if start else 200)
        asked.send_header("Content-Length", str(len(data) - start))
        asked.end_headers()
        end, self.break_after = self.break_after, None
        asked.wfile.write(data[start:end])
        asked.close_connection = True


def _send(asked: BaseHTTPRequestHandler, code: int, body: bytes, kind: str) -> None:
    asked.send_response(code)
    asked.send_header("Content-Type", kind)
    asked.send_header("Content-Length", str(len(body)))
    asked.end_headers()
    asked.wfile.write(body)
