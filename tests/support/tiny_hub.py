"""A stand-in for the model hub on loopback, with one repository or one error."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """A stand-in for the hub on loopback: one repository, `owner/name`, or one error for every question."""

    files: Path | None = None
    code: str = "RepoNotFound"
    status: int = 404
    url: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        if self.files is None:
            return self.status, {"X-Error-Code": self.code}, b""
        if path.startswith("/api/models/owner/name/tree/"):
            tree = [
                {
                    "type": "file",
                    "path": file.relative_to(self.files).as_posix(),
                    "size": file.stat().st_size,
                    "oid": "0",
                }
                for file in sorted(self.files.rglob("*"))
                if file.is_file()
            ]
            return 200, {"Content-Type": "application/json"}, json.dumps(tree).encode()
        if path.startswith("/api/models/owner/name"):
            names = [file.relative_to(self.files).as_posix() for file in self.files.rglob("*") if file.is_file()]
            said = {"id": "owner/name", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            return 200, {"Content-Type": "application/json"}, json.dumps(said).encode()
        if not path.startswith("/owner/name/resolve/"):  # of the library about itself
            return 404, {}, b""
        data = (self.files / path.split("/", 5)[5]).read_bytes()
        return 200, {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}, data


@contextmanager
def listening_hub() -> Iterator[Hub]:
    """The hub while it listens, at `url`."""
    state = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            status, headers, data = state.answer(self.path.partition("?")[0])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{listening.server_address[1]}"
    try:
        yield state
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
