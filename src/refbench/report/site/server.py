"""The live pages: a site whose chunks are made when a page asks for them, and a server on loopback that answers only to
who has its token, and only to pages of its own.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Unpack

import orjson
from aiohttp import web
from pydantic import ValidationError

from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.report.site.boards import ReadOptions
from refbench.report.site.pages import Pages, assets, script
from refbench.report.site.pictures import PictureFile, PictureStore, full_picture, thumbnail
from refbench.runs import Run
from refbench.runs.annotations import Annotation, annotate

_SLOW = ("/compare", "/agreement")
"""Chunks that are made beside the others; they read the board, and no file that a refresh closes."""
_MOST_KEPT = 64
"""Chunks of cases that are kept; older ones are made again."""


class LiveSite:
    """A site whose chunks are made anew when the runs have grown: a page that is loaded looks for news first."""

    def __init__(self, runs: Sequence[Path], *, data: Path | None = None, **options: Unpack[ReadOptions]) -> None:
        self.store = PictureStore()
        self._runs = list(runs)
        self._data = data
        self._options = options
        self._lock = threading.Lock()
        self._slow = threading.Lock()
        self._closed = False
        self._state = self._state_now()
        self._current = self._opened()

    def chunk(self, name: str) -> bytes:
        """The script of a chunk; a name that no chunk has is a KeyError."""
        # Comparing many models on thousands of cases takes minutes: the other pages do not wait for it.
        with self._slow if name.endswith(_SLOW) else self._lock:
            if name == "site":  # what every page loads first: from here on it sees the runs as they are now
                self._refresh()
            pages, kept = self._current
            if name == "annotations":
                return script(name, pages.chunk(name))
            data = kept.get(name)
            if data is None:
                data = script(name, pages.chunk(name))
                while len(kept) >= _MOST_KEPT:
                    kept.pop(next(iter(kept)), None)
                kept[name] = data
            return data

    def annotate(self, board: str, annotation: Annotation) -> None:
        """Note something about a case in the first run of its board; an unknown board or case is a KeyError."""
        with self._lock:
            of_board = self._current[0].boards[board].board
            if annotation.case not in {case.id for case in of_board.cases}:
                raise KeyError(annotation.case)
            annotate(of_board.runs[0], annotation)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            self._current[0].close()
            self.store.close()

    def _refresh(self) -> None:
        state = self._state_now()
        if state != self._state:
            before, self._current, self._state = self._current, self._opened(), state
            before[0].close()

    def _state_now(self) -> list[object]:
        return [_state_of(Run.open(path)) for path in self._runs]

    def _opened(self) -> tuple[Pages, dict[str, bytes]]:
        """The runs as they are now, and a place for the chunks that are made from them."""
        pages = Pages(self._runs, self.store, data=self._data, live=True, **self._options)
        kept: dict[str, bytes] = {}
        # Opening every picture takes long, and nobody should wait for it: flags come with a later loading of the page.
        work = threading.Thread(target=self._compare_pictures, args=(pages, kept), name="refbench-copies", daemon=True)
        work.start()
        return pages, kept

    def _compare_pictures(self, pages: Pages, kept: dict[str, bytes]) -> None:
        for name, of_board in pages.boards.items():
            of_board.compare_pictures(lambda: self._closed)
            with self._lock:
                for key in [key for key in kept if key.startswith((f"{name}/index", f"{name}/failures"))]:
                    kept.pop(key, None)


def _state_of(run: Run) -> list[tuple[str, int, int]]:
    """What changes when a run's ledgers grow: which files there are, of what size and age, their logs included."""
    found = []
    for ledger in run.ledgers():
        for path in (ledger, ledger.with_name(f"{ledger.name}-wal")):
            if path.exists():
                stat = path.stat()
                found.append((path.name, stat.st_size, stat.st_mtime_ns))
    return found


# The live pages: a server on loopback that answers only to who has its token, and only to pages of its own.

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
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
_MOST_POSTED = 1 << 16
_FOREVER = "private, max-age=31536000, immutable"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Serves one site until it is told to stop."""

    def __init__(self, site: LiveSite, port: int = 0) -> None:
        self.site = site
        self.port = port
        self.token = secrets.token_urlsafe(24)
        self._assets = {name: source.read_bytes() for name, source in assets()}
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    async def start(self) -> None:
        """Listen on loopback, on the port that was asked for or a free one."""
        app = web.Application(client_max_size=_MOST_POSTED, middlewares=[self._guard])
        app.router.add_get("/", self._page)
        app.router.add_get("/data/{name:.+}.js", self._chunk)
        app.router.add_get("/{kind:thumbs|pictures}/{name:.+}", self._picture)
        app.router.add_post("/annotations", self._annotate)
        app.router.add_get("/{name:.+}", self._asset)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        listening = web.TCPSite(self._runner, "127.0.0.1", self.port)
        try:
            await listening.start()
        except OSError as error:
            await self._runner.cleanup()
            raise RefBenchError(f"--port {self.port} cannot be used ({error.strerror}): give another one") from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let nobody in but a browser that was given the token, on a page of this server."""
        if not self._is_ours(request):
            response: web.StreamResponse = _refused()
        elif self._is(request.query.get("token", "")) and request.method == "GET" and request.path == "/":
            response = web.Response(status=303, headers={"Location": "/"})
            response.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict", path="/")
        elif not self._is(request.cookies.get(self._cookie, "")):
            response = _refused()
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = web.Response(status=error.status, text=error.reason)
            except RefBenchError as error:
                response = web.Response(status=500, text=str(error))
        for name, value in _HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    @property
    def _cookie(self) -> str:
        """Browsers share cookies between the ports of a host: each server has a name of its own."""
        return f"refbench-{self.port}"

    def _is(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def _is_ours(self, request: web.Request) -> bool:
        """Whether the browser means this server (and not a name that someone points at it), from a page of ours."""
        # Through a tunnel the port may be another one: the name is what tells a rebound address.
        host = request.headers.get("Host", "")
        name, _, port = host.rpartition(":")
        if name not in ("127.0.0.1", "localhost") or not port.isdigit():
            return False
        if request.headers.get("Origin", f"http://{host}") != f"http://{host}":
            return False
        return request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    async def _page(self, request: web.Request) -> web.Response:
        return self._file("index.html")

    async def _asset(self, request: web.Request) -> web.Response:
        return self._file(request.match_info["name"])

    def _file(self, name: str) -> web.Response:
        if name not in self._assets:
            raise web.HTTPNotFound
        return _response(name, self._assets[name])

    async def _chunk(self, request: web.Request) -> web.Response:
        try:
            data = await asyncio.to_thread(self.site.chunk, request.match_info["name"])
        except KeyError:
            raise web.HTTPNotFound from None
        return _response("chunk.js", data)

    async def _picture(self, request: web.Request) -> web.Response:
        kind, name = request.match_info["kind"], request.match_info["name"]
        files: Mapping[str, PictureFile] = self.site.store.thumbs if kind == "thumbs" else self.site.store.full
        file = files.get(f"{kind}/{name}")
        if file is None:  # only what a chunk has named is served: a path never reaches the file system
            raise web.HTTPNotFound
        data = await asyncio.to_thread(thumbnail if kind == "thumbs" else full_picture, file)
        if isinstance(data, Failure):
            raise web.HTTPNotFound
        response = _response(name, data)
        response.headers["Cache-Control"] = _FOREVER  # its name is the hash of its content
        return response

    async def _annotate(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType
        try:
            posted = orjson.loads(await request.read())  # refuses what is nested too deep, where json runs out of stack
            board = str(posted.pop("board"))
            annotation = Annotation.model_validate({**posted, "time": 0.0})
        except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
            raise web.HTTPBadRequest from None
        try:
            await asyncio.to_thread(self.site.annotate, board, annotation)
        except KeyError:
            raise web.HTTPNotFound from None
        return web.Response(status=204)


def _response(name: str, data: bytes) -> web.Response:
    kind = _TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")
    return web.Response(body=data, headers={"Content-Type": kind})


def _refused() -> web.Response:
    return web.Response(status=403, text="Open the address that refbench view has printed, with its token.\n")
