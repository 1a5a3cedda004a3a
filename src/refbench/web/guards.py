"""Guards of a server of pages: which host a browser must mean, which page it must come from, under which policy pages
run. They know nothing of what is served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from aiohttp import web

from refbench.record import RefBenchError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
"""With every answer: no inline script or style, no frame, nothing from elsewhere."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".json": "application/json",
}
MOST_POSTED = 1 << 16
"""Bytes of a body."""
FOREVER = "private, max-age=31536000, immutable"
"""Cache-Control of what never changes under its name."""
LOOPBACK = frozenset({"127.0.0.1", "localhost"})


async def listening(app: web.Application, host: str, port: int, *, backlog: int = 128) -> tuple[web.AppRunner, int]:
    """The server, begun, and the port that it has, which may be any free one (0). Nothing is logged: addresses hold
    secrets."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=backlog).start()
    except OSError as error:
        await runner.cleanup()
        raise RefBenchError(f"--port {port} cannot be used ({error.strerror}): give another one") from error
    return runner, runner.addresses[0][1]


def means_us(request: web.Request, public: str = "") -> bool:
    """Whether the browser means this server, and not a name that someone points at it (DNS rebinding): loopback, with
    any port, since a tunnel may have another one; or, where there is one, the public address, exactly."""
    host = request.headers.get("Host", "")
    if public and host.lower() == urlsplit(public).netloc.lower():
        return True
    name, _, port = host.rpartition(":")
    return name in LOOPBACK and port.isdigit()


def comes_from(request: web.Request, sites: Collection[str], public: str = "") -> bool:
    """Whether the request comes from a page of this server, as far as the browser says: its origin, and one of these
    values of Sec-Fetch-Site."""
    ours = public or f"http://{request.headers.get('Host', '')}"
    origin = request.headers.get("Origin", ours)
    if origin != ours and not (public and is_local(request) and origin == f"http://{request.headers['Host']}"):
        return False
    return request.headers.get("Sec-Fetch-Site", "none") in sites


def is_local(request: web.Request) -> bool:
    """Whether the browser names this machine, and no proxy says that it stands between."""
    named = request.headers.get("Host", "").rpartition(":")[0] in LOOPBACK
    return named and not any(name in request.headers for name in ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host"))


def guarded(response: web.StreamResponse) -> web.StreamResponse:
    """The answer under the policy of all pages; kept nowhere unless it says otherwise."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def file_response(name: str, data: bytes) -> web.Response:
    """A file under the type that its name says."""
    kind = _TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")
    return web.Response(body=data, headers={"Content-Type": kind})
