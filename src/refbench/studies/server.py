"""The server of a study: raters' screens, each behind a link of its own, and the owner's page.

A link is a secret that becomes a cookie at the door; the page itself holds no state that the server needs, so that the
server may be killed at any moment. A browser names items and pictures by words that only its own link knows; nothing
that it sends is ever a path.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from refbench.record import RefBenchError, counted
from refbench.studies.raters import Rater
from refbench.studies.review import wrong_decision
from refbench.studies.served import Served, last_served, note_served
from refbench.studies.shown import Refusal
from refbench.studies.study import PICTURE_TYPE, Study
from refbench.text.files import json_value
from refbench.web.guards import (
    FOREVER,
    MOST_POSTED,
    Handler,
    comes_from,
    file_response,
    guarded,
    is_local,
    listening,
    means_us,
)

LANGUAGES = {"en": "en", "zh": "zh-CN"}
"""Languages of a design, as browsers call them."""
_SHARED = ("theme.css", "viewer.css", "dom.js", "lens.js", "icon.svg")
"""What the screens have from the pages of runs."""
_MOST_AHEAD = 16
"""Items that one answer holds at most."""
_MOST_HELD = 1000
"""Items that a page may hold already; only those that its rater was given are looked through."""
_MOST_MARKS = 50
_BURST, _PER_SECOND = 300.0, 40.0
"""Requests of one link: so many at once, and so many a second from then on. A set of eight with its references, three
items ahead, is about fifty."""
_COOKIE_S = 120 * 24 * 3600


@dataclass(frozen=True)
class ServeOptions:
    """Where a study is served."""

    port: int = 0
    host: str = "127.0.0.1"
    """The address to listen on; any but loopback needs `public`."""
    public: str = ""
    """https://..., the address of the proxy that encrypts, without a path."""
    owner_public: bool = False
    """Whether the owner's page is there under the public address as well."""

    def check(self) -> None:
        """Refuse what would carry links and marks over the network in the clear."""
        parts = urlsplit(self.public)
        if self.public and (parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query):
            raise RefBenchError(
                f"--public {self.public}: give the address of the proxy in front, https://NAME without a path"
            )
        if not self.public and self.host != "localhost" and not _is_loopback(self.host):
            raise RefBenchError(
                f"--host {self.host}: beyond this machine a study is served behind a proxy that encrypts: "
                "give its address with --public https://..."
            )
        if not 0 <= self.port <= 65535:
            raise RefBenchError(f"--port {self.port} is no port: give a number up to 65535, or none for a free one")

    @property
    def origin(self) -> str:
        """The public address as browsers name it; empty on loopback."""
        parts = urlsplit(self.public)
        return f"https://{parts.netloc.lower()}" if self.public else ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def client_files() -> Iterator[tuple[str, bytes]]:
    """The scripts and styles of the screens, by their names; the strings of all languages are one of them."""
    folder = resources.files("refbench.studies") / "client"
    shared = resources.files("refbench.report.site") / "assets"
    for entry in folder.iterdir():
        if entry.name.endswith((".js", ".css")):
            yield entry.name, entry.read_bytes()
    for name in _SHARED:
        yield name, (shared / name).read_bytes()
    strings = {
        entry.name.removesuffix(".json"): orjson.loads(entry.read_bytes())
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    }
    yield "strings.js", as_script("strings", strings)


def shell(name: str) -> bytes:
    """A page without content: the same for everyone."""
    return (resources.files("refbench.studies") / "client" / name).read_bytes()


def as_script(name: str, value: Any) -> bytes:
    """A value as a classic script. What ends a script, wherever it stands, is inside of strings an escape."""
    data = orjson.dumps(value)
    for found in ("<", ">", "&", "\u2028", "\u2029"):
        data = data.replace(found.encode(), f"\\u{ord(found):04x}".encode())
    return b"refbench.put(" + orjson.dumps(name) + b", " + data + b");\n"


def about(study: Study) -> dict[str, Any]:
    """What every rater is told of a study: its words, and nothing of where its items are from."""
    design = study.design
    return {
        "title": dict(design.title),
        "guidelines": dict(design.guidelines),
        "consent": dict(design.consent),
        "languages": [LANGUAGES[name] for name in design.languages],
        "training": design.training.items if any(item.use == "training" for item in study.items.values()) else 0,
    }


class _Bucket:
    """Requests that one link has left."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._left, self._at = clock, _BURST, clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(_BURST, self._left + (now - self._at) * _PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class StudyServer:
    """Serves one study until it is told to stop."""

    def __init__(
        self,
        study: Study,
        options: ServeOptions | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.study, self.options = study, options or ServeOptions()
        self.options.check()
        self.port = self.options.port
        self.owner_token = secrets.token_urlsafe(24)
        """The owner's link lives as long as the server; links of the role `owner` that the study has are others."""
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._files = dict(client_files())
        self._shells = {kind: shell(name) for kind, name in (("s", "index.html"), ("o", "owner.html"))}
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        """Where browsers find the study."""
        return self.options.origin or f"http://127.0.0.1:{self.port}"

    @property
    def owner_url(self) -> str:
        base = self.options.origin if self.options.owner_public and self.options.origin else ""
        return f"{base or f'http://127.0.0.1:{self.port}'}/r/{self.owner_token}"

    def rater_url(self, token: str) -> str:
        return f"{self.address}/r/{token}"

    @property
    def crowd_url(self) -> str:
        """Where a crowd platform sends its workers, with its own parameters behind a question mark."""
        return f"{self.address}/c/{self._crowd_key()}"

    async def start(self) -> None:
        app = web.Application(client_max_size=MOST_POSTED, middlewares=[self._guard])
        for path, handler in self._pages().items():
            app.router.add_get(path, handler)
        for path, handler in self._taken().items():
            app.router.add_post(path, handler)
        self._runner, self.port = await listening(app, self.options.host, self.port, backlog=512)
        note_served(self.study.path, Served(address=self.address, port=self.port))

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _pages(self) -> dict[str, Handler]:
        return {
            "/r/{token}": self._door,
            "/c/{key}": self._crowd_door,
            "/{kind:s|o}/{slot}/": self._shell,
            "/{kind:s|o}/{slot}/client/{name}": self._file,
            "/s/{slot}/study": self._for_rater(self._study),
            "/s/{slot}/pictures/{name}": self._for_rater(self._picture),
            "/o/{slot}/status": self._status,
        }

    def _taken(self) -> dict[str, Handler]:
        rater = self._for_rater
        return {
            "/s/{slot}/consent": rater(self._consent),
            "/s/{slot}/items": rater(self._items),
            "/s/{slot}/marks": rater(self._marks),
            "/s/{slot}/undo": rater(self._undo),
            "/s/{slot}/check": rater(self._check),
            "/s/{slot}/finish": rater(self._finish),
        }

    # --- who may come in ----------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let nobody in but a browser that means this server, from a page of ours. A link may be followed from other
        sites, and leads to a page that is the same for everyone; what it shows is asked for from there."""
        public = self.options.origin
        opened = request.method == "GET" and _is_opened(request.path)
        sites = ("none", "same-origin", "same-site", "cross-site") if opened else ("none", "same-origin")
        if not means_us(request, public) or not comes_from(request, sites, public):
            return guarded(_refused())
        try:
            response = await handler(request)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=f"{error.reason}\n", headers=_retry(error.status))
        except RefBenchError:
            # Which file or disk it was is for the owner, not for raters: nothing was taken, and it is sent again.
            response = web.Response(status=503, text="The study cannot be written to at the moment.\n")
        return guarded(response)

    async def _door(self, request: web.Request) -> web.StreamResponse:
        token = request.match_info["token"]
        if self._is_owner(token):
            return self._enter(request, "o", token) if self._owner_may(request) else _refused()
        rater = await asyncio.to_thread(self.study.rater, token)
        if rater is None or (rater.owner and not self._owner_may(request)):
            return _refused()
        return self._enter(request, "o" if rater.owner else "s", token)

    async def _crowd_door(self, request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.match_info["key"].encode(), self._crowd_key().encode()):
            return _refused()
        given = {name: value[:200] for name, value in request.query.items() if len(name) <= 40}
        try:
            rater = await asyncio.to_thread(self.study.register_crowd, given)
        except RefBenchError as error:
            return web.Response(status=403, text=f"{error}\n")
        return self._enter(request, "s", str(rater.token))

    def _crowd_key(self) -> str:
        return self.study.raters.opaque("crowd", "door") + self.study.raters.opaque("crowd", "key")[:8]

    def _enter(self, request: web.Request, kind: str, token: str) -> web.Response:
        """The token leaves the address bar, and becomes a cookie that scripts and other sites cannot use. Its path is
        the link's own: two links in one browser are two raters."""
        path = f"/{kind}/{_slot(token)}/"
        response = web.Response(status=303, headers={"Location": path})
        secure = bool(self.options.origin) and not is_local(request)
        response.set_cookie(
            _cookie(token), token, httponly=True, samesite="Strict", path=path, secure=secure, max_age=_COOKIE_S
        )
        return response

    def _token(self, request: web.Request) -> str:
        """The token of the link that the address belongs to; empty where the browser has none, or another's."""
        slot = request.match_info["slot"]
        token = request.cookies.get(f"refbench-{slot}", "")
        return token if hmac.compare_digest(_slot(token).encode(), slot.encode("utf-8", "replace")) else ""

    def _for_rater(self, answer: Callable[[Rater, dict[str, Any]], web.Response]) -> Handler:
        """Only for who has the link, and not too often. What is asked for waits for the disk, in a thread."""

        def answered(token: str, asked: dict[str, Any]) -> web.Response:
            rater = self.study.rater(token)
            if rater is None or rater.owner:
                return _refused()
            if not self._buckets.setdefault(rater.id, _Bucket(self._clock)).take():
                raise web.HTTPTooManyRequests
            return answer(rater, asked)

        async def handler(request: web.Request) -> web.StreamResponse:
            token = self._token(request)
            if not token:
                return _refused()
            asked = await _body(request) if request.method == "POST" else dict(request.match_info)
            return await asyncio.to_thread(answered, token, asked)

        return handler

    def _is_owner(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.owner_token.encode())

    def _owner_may(self, request: web.Request) -> bool:
        return is_local(request) or self.options.owner_public

    # --- what is shown ------------------------------------------------------------------------------------------------

    async def _shell(self, request: web.Request) -> web.Response:
        return file_response("index.html", self._shells[request.match_info["kind"]])

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._files:
            raise web.HTTPNotFound
        return file_response(name, self._files[name])

    def _study(self, rater: Rater, asked: dict[str, Any]) -> web.Response:
        progress = self.study.progress(rater)
        return _json({**about(self.study), "progress": progress.model_dump(mode="json")})

    def _items(self, rater: Rater, asked: dict[str, Any]) -> web.Response:
        """The next items that the page does not hold yet."""
        said = {name for name in _list(asked.get("held")) if isinstance(name, str)}
        n = asked.get("n", 1)
        if not isinstance(n, int) or not 1 <= n <= _MOST_AHEAD or len(said) > _MOST_HELD:
            raise web.HTTPBadRequest
        # Made-up names would open as many items, and keep them from others.
        held = {name for name in said if (whose := self.study.rater_of(name)) is not None and whose.id == rater.id}
        shown = self.study.next_items(rater, n + len(held))
        items = [one.model_dump(mode="json") for one in shown if one.item not in held][:n]
        return _json({"items": items, "progress": self.study.progress(rater).model_dump(mode="json")})

    def _picture(self, rater: Rater, asked: dict[str, Any]) -> web.Response:
        data = self.study.picture(rater, asked["name"])
        if isinstance(data, Refusal):
            raise web.HTTPNotFound
        # The name is this rater's and this picture's alone.
        return web.Response(body=data, headers={"Content-Type": PICTURE_TYPE, "Cache-Control": FOREVER})

    async def _status(self, request: web.Request) -> web.StreamResponse:
        token = self._token(request)
        known = self._is_owner(token)
        if not known and token:
            rater = await asyncio.to_thread(self.study.rater, token)
            known = rater is not None and rater.owner
        if not known or not self._owner_may(request):
            return _refused()
        status = await asyncio.to_thread(self.study.status)
        told = {**status.model_dump(mode="json"), "languages": list(LANGUAGES.values())}
        return _json(told)

    # --- what is taken ------------------------------------------------------------------------------------------------

    def _consent(self, rater: Rater, asked: dict[str, Any]) -> web.Response:
        self.study.consent(rater)
        return self._study(rater, asked)

    def _marks(self, rater: Rater, asked: dict[str, Any]) -> web.Response:
        """Each mark is on disk, or refused with a sentence, before the answer goes out."""
        marks = asked.get("marks")
        if not isinstance(marks, list) or not 1 <= len(marks) <= _MOST_MARKS:
            raise web.HTTPBadRequest
        acknowledged, refused = [], []
        for mark in marks:
            answer = self.study.take(rater, mark if isinstance(mark, Mapping) else {})
            if isinstance(answer, Refusal):
                name = mark.get("id", "") if isinstance(mark, Mapping) else ""
                refused.append({"id": str(name)[:64], **answer.model_dump(mode="json")})
            else:
                acknowledged.append(answer.model_dump(mode="json"))
        progress = self.study.progress(rater).model_dump(mode="json")
        return _json({"acknowledged": acknowledged, "refused": refused, "progress": progress})

    def _undo(self, rater: Rater, asked: dict[str, Any]) -> web.Response:
        shown = self.study.undo(rater)
        item = None if isinstance(shown, Refusal) else shown.model_dump(mode="json")
        return _json({"item": item, "progress": self.study.progress(rater).model_dump(mode="json")})

    def _check(self, rater: Rater, asked: dict[str, Any]) -> web.Response:
        """What is wrong with a change to an item that is open, as its build would say it; empty where nothing is."""
        shown = self.study.next_items(rater, _MOST_AHEAD)
        item = next((one for one in shown if one.item == asked.get("item")), None)
        edit = asked.get("edit")
        if item is None or not isinstance(edit, dict):
            raise web.HTTPNotFound
        return _json({"wrong": wrong_decision(item.row, "edit", edit)})

    def _finish(self, rater: Rater, asked: dict[str, Any]) -> web.Response:
        code = self.study.finish_code(rater)
        return _json({"code": code} if isinstance(code, str) else {"refused": code.model_dump(mode="json")})


def serve(study: Study, options: ServeOptions) -> int:
    """Serve a study until Ctrl-C, with its addresses printed; returns the exit code."""
    _check_pictures(study)

    async def run() -> None:
        server = await started(study, options)
        print(f"Status, for you alone: {server.owner_url}", flush=True)
        print(f"Raters open the links that refbench study links made, at {server.address}/r/...", flush=True)
        print(f"A crowd platform sends its workers to {server.crowd_url}", flush=True)
        print("Every mark is on disk before its rater is told so. Stop with Ctrl-C.", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            await server.stop()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        print()
    return 0


async def started(study: Study, options: ServeOptions) -> StudyServer:
    """The server, at the port of the last time where none is asked for and that one is free: links stay as they are."""
    before = last_served(study.path)
    if before is not None and not options.port:
        with contextlib.suppress(RefBenchError):
            server = StudyServer(study, replace(options, port=before.port))
            await server.start()
            return server
    server = StudyServer(study, options)
    await server.start()
    if before is not None and before.port != server.port:
        print(
            f"Served on port {server.port}, before on {before.port}{'' if options.port else ', which is not free'}: "
            "links without --public that were sent, and marks that browsers still hold, are of the port before.",
            file=sys.stderr,
        )
    return server


def _check_pictures(study: Study) -> None:
    """Refuse to ask people about pictures that cannot be shown to them."""
    shown = {
        picture.file: picture
        for item in study.items.values()
        for picture in (*item.inputs, *(picture for output in item.outputs for picture in output.pictures))
    }
    if lost := [file for file, picture in shown.items() if not study.pictures.there(picture)]:
        source = study.design.source.path
        raise RefBenchError(
            f"{study.path}: {len(lost)} of {counted(len(shown), 'picture')} are gone, {lost[0]} first: bring them back"
            + (f"; they are of {source}, [source] path of study.toml" if source else "")
        )


def _slot(token: str) -> str:
    """Where in the address a link's pages lie; it tells nothing of the token."""
    return hashlib.sha256(b"slot\0" + token.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _cookie(token: str) -> str:
    return f"refbench-{_slot(token)}"


def _is_opened(path: str) -> bool:
    """Whether the path is a door, or the empty page behind it."""
    parts = path.split("/")
    return (len(parts) == 3 and parts[1] in ("r", "c")) or (len(parts) == 4 and parts[1] in ("s", "o") and not parts[3])


async def _body(request: web.Request) -> dict[str, Any]:
    """The JSON object that was sent. Other sites cannot send this type without asking first, and are refused."""
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType
    try:
        value = json_value(await request.read(), "what was sent")  # what is nested deeper, nobody could read again
    except RefBenchError:
        raise web.HTTPBadRequest from None
    if not isinstance(value, dict):
        raise web.HTTPBadRequest
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _json(value: Any) -> web.Response:
    return file_response("answer.json", orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))


def _retry(status: int) -> dict[str, str]:
    return {"Retry-After": "2"} if status == 429 else {}


def _refused() -> web.Response:
    return web.Response(status=403, text="Open the link that you were sent.\n")
