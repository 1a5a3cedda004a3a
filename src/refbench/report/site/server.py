"""The live pages: a site whose chunks are made when a page asks for them, and a server on loopback that answers only to
who has its token, and only to pages of its own.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import orjson
from aiohttp import web
from pydantic import ValidationError

from refbench.failure import Failure
from refbench.record import RefBenchError, content_key
from refbench.report.site.boards import ReadOptions
from refbench.report.site.pages import Pages, assets, script
from refbench.report.site.pictures import PictureFile, PictureStore, full_picture, thumbnail
from refbench.runs import Run
from refbench.runs.annotations import Annotation, annotate
from refbench.web.guards import FOREVER, MOST_POSTED, Handler, comes_from, file_response, guarded, listening, means_us

_SLOW = re.compile(r"/(compare|agreement|audit|figures/\d+)$")
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
        self._asked = threading.Lock()
        self._told: tuple[list[object], dict[str, Any]] | None = None
        self._closed = False
        self._state = self._state_now()
        self._current = self._opened()

    def chunk(self, name: str) -> bytes:
        """The script of a chunk; a name that no chunk has is a KeyError."""
        # Comparing many models on thousands of cases takes minutes: the other pages do not wait for it.
        with self._slow if _SLOW.search(name) else self._lock:
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

    def progress(self) -> dict[str, Any]:
        """How far the runs are, without scoring them, and by what one tells that they have grown."""
        state = self._state_now()
        with self._asked:
            if self._told is None or self._told[0] != state:
                runs = [_progress_of(Run.open(path)) for path in self._runs]
                self._told = state, {"state": content_key(state), "runs": runs}
            return self._told[1]

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


_NEWEST = 5


def _progress_of(run: Run) -> dict[str, Any]:
    """What a run holds by now: counts, money, and what failed last."""
    outputs = run.outputs()
    made = [output for output in outputs if output.step is None]
    acts = list(run.evidence())
    lost = [(o.case, o.model, o.failure) for o in made if o.failure is not None]
    lost += [(purpose.case, purpose.model, act.failure) for purpose, act in acts if act.failure is not None]
    n_cases = sum(1 for line in (run.path / "cases.jsonl").read_bytes().splitlines() if line.strip())
    return {
        "name": run.path.resolve().name,
        "cases": len({output.case for output in made} | {purpose.case for purpose, _ in acts}),
        "of": n_cases if (wanted := run.wanted()) is None else min(wanted, n_cases),
        "pictures": sum(output.failure is None for output in made),
        "replies": sum(act.failure is None and act.kind != "measure" for _, act in acts),
        "measured": sum(act.failure is None and act.kind == "measure" for _, act in acts),
        "failed": len(lost),
        "spent_usd": run.spent_usd(),
        "newest": [
            {"case": case, "model": model, "kind": failure.kind, "detail": failure.detail[:300]}
            for case, model, failure in reversed(lost[-_NEWEST:])
        ],
    }


# The live pages: a server on loopback that answers only to who has its token, and only to pages of its own.


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
        app = web.Application(client_max_size=MOST_POSTED, middlewares=[self._guard])
        app.router.add_get("/", self._page)
        app.router.add_get("/data/{name:.+}.js", self._chunk)
        app.router.add_get("/progress", self._progress)
        app.router.add_get("/{kind:thumbs|pictures}/{name:.+}", self._picture)
        app.router.add_post("/annotations", self._annotate)
        app.router.add_get("/{name:.+}", self._asset)
        self._runner, self.port = await listening(app, "127.0.0.1", self.port)

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
        return guarded(response)

    @property
    def _cookie(self) -> str:
        """Browsers share cookies between the ports of a host: each server has a name of its own."""
        return f"refbench-{self.port}"

    def _is(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def _is_ours(self, request: web.Request) -> bool:
        """Whether the browser means this server (and not a name that someone points at it), from a page of ours."""
        return means_us(request) and comes_from(request, ("none", "same-origin"))

    async def _page(self, request: web.Request) -> web.Response:
        return self._file("index.html")

    async def _asset(self, request: web.Request) -> web.Response:
        return self._file(request.match_info["name"])

    def _file(self, name: str) -> web.Response:
        if name not in self._assets:
            raise web.HTTPNotFound
        return file_response(name, self._assets[name])

    async def _progress(self, request: web.Request) -> web.Response:
        told = await asyncio.to_thread(self.site.progress)
        return file_response("progress.json", orjson.dumps(told))

    async def _chunk(self, request: web.Request) -> web.Response:
        try:
            data = await asyncio.to_thread(self.site.chunk, request.match_info["name"])
        except KeyError:
            raise web.HTTPNotFound from None
        return file_response("chunk.js", data)

    async def _picture(self, request: web.Request) -> web.Response:
        kind, name = request.match_info["kind"], request.match_info["name"]
        files: Mapping[str, PictureFile] = self.site.store.thumbs if kind == "thumbs" else self.site.store.full
        file = files.get(f"{kind}/{name}")
        if file is None:  # only what a chunk has named is served: a path never reaches the file system
            raise web.HTTPNotFound
        data = await asyncio.to_thread(thumbnail if kind == "thumbs" else full_picture, file)
        if isinstance(data, Failure):
            raise web.HTTPNotFound
        response = file_response(name, data)
        response.headers["Cache-Control"] = FOREVER  # its name is the hash of its content
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


def _refused() -> web.Response:
    return web.Response(status=403, text="Open the address that refbench view has printed, with its token.\n")
