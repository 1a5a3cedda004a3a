"""A judge that looks at nothing: a server on loopback whose replies are made up, some of them refused and some in no
form that can be read, so that calls, costs, failures and a judge's words can be seen without a key."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SPEC = "made_up=openai:made-up-replies?base_url=http://127.0.0.1:{port}/v1&price=2,8"
"""How a run names it. Two and eight dollars for a million tokens, so that there is a cost to show; nobody is paid."""

_CRITERIA = (
    "instruction_alignment",
    "reference_consistency",
    "background_subject_match",
    "physical_realism",
    "visual_quality",
)
_IN_NO_FORM = "Made-up reply in the wrong form: all in all a nice picture, I would say."
_REFUSED, _UNREADABLE, _READABLE_WHEN_ASKED_AGAIN = 0.04, 0.04, 0.06


@contextmanager
def made_up_judge() -> Iterator[str]:
    """The spec of a judge that answers as long as this lasts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield SPEC.format(port=server.server_port)
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: each reply would wait 40 ms for an acknowledgement

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self._send(200, _reply(json.loads(self.rfile.read(length))))

    def do_GET(self) -> None:
        self._send(404, {"error": {"message": "this server only makes up replies"}})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Says nothing: it would stand between the lines of the demonstration."""


def _reply(request: dict[str, Any]) -> dict[str, Any]:
    """The chat completion for a request: the same for the same pictures, but for what is asked again."""
    contents = [message["content"] for message in request["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    asked_again = any(_IN_NO_FORM in part.get("text", "") for part in parts)  # which quotes what could not be read
    text, refusal = _words("".join(pictures), asked_again=asked_again)
    tokens_in, tokens_out = 300 + 400 * len(pictures), len(text or refusal or "") // 4
    return {
        "object": "chat.completion",
        "model": "made-up-replies",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": refusal},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    }


def _words(pictures: str, *, asked_again: bool) -> tuple[str | None, str | None]:
    """The reply and the refusal about these pictures, of which one is None."""
    luck = _chance(pictures, "luck")
    if luck < _REFUSED:
        return None, "Made-up refusal: I cannot help with this picture."
    unreadable = luck < _REFUSED + _UNREADABLE
    if unreadable or (luck < _REFUSED + _UNREADABLE + _READABLE_WHEN_ASKED_AGAIN and not asked_again):
        return _IN_NO_FORM, None
    level = 3 + 5 * _chance(pictures, "level")
    marks = {name: round(level - 1 + 3 * _chance(pictures, name)) for name in _CRITERIA}
    best, worst = max(marks, key=marks.__getitem__), min(marks, key=marks.__getitem__)
    said = (
        "Made-up reply: nobody has looked at this picture, and its marks are drawn by chance. "
        f"A judge would say here why {best.replace('_', ' ')} is good and {worst.replace('_', ' ')} is not."
    )
    return json.dumps({"reasoning": said, **marks}), None


def _chance(pictures: str, what: str) -> float:
    return int.from_bytes(hashlib.sha256(f"{what}\0{pictures}".encode()).digest()[:6]) / 2**48
