"""A Hub on loopback that takes uploads, as the endpoints of its own client are: what was committed lies in a folder."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from support.loopback import LoopbackServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class HubUploads(LoopbackServer):
    """One dataset that whoever has the token may write."""

    folder: Path
    token: str
    asked: list[str] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)
    """What the repository was asked to be."""
    cards: list[str] = field(default_factory=list)
    large: dict[str, bytes] = field(default_factory=dict)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if request.path.startswith("/lfs/"):  # behind an address that is signed, as LFS has it
            return await self._put(request)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"error": "Invalid username or password."}, status=401)
        tail = request.path.rpartition("/")[2]
        if request.path == "/api/repos/create":
            self.made = await request.json()
            return web.json_response({"url": f"{self.url}/datasets/{self.made['organization']}/{self.made['name']}"})
        if request.path == "/api/validate-yaml":
            self.cards.append((await request.json())["content"])
            return web.json_response({"errors": [], "warnings": []})
        if "/tree/" in request.path:
            there = [file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file()]
            return web.json_response([{"type": "file", "path": path, "size": 1, "oid": "0" * 40} for path in there])
        if "/preupload/" in request.path:
            return web.json_response({"files": [self._mode(one) for one in (await request.json())["files"]]})
        if tail == "batch":
            return web.json_response({"transfer": "basic", "objects": self._places(await request.json())})
        if "/commit/" in request.path:
            self._commit(await request.text())
            address = f"{self.url}/datasets/{self.made['organization']}/{self.made['name']}/commit/{COMMIT}"
            return web.json_response({"commitUrl": address, "commitOid": COMMIT})
        return web.json_response({"error": "not here"}, status=404)

    def _mode(self, one: dict[str, Any]) -> dict[str, Any]:
        large = one["path"].endswith(".parquet")
        return {"path": one["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}

    def _places(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**one, "actions": {"upload": {"href": f"{self.url}/lfs/{one['oid']}"}}} for one in asked["objects"]]

    async def _put(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        assert "Authorization" not in request.headers
        assert hashlib.sha256(data).hexdigest() == request.path.rpartition("/")[2]
        self.large[request.path.rpartition("/")[2]] = data
        return web.Response()

    def _commit(self, text: str) -> None:
        for line in map(json.loads, text.splitlines()):
            value = line["value"]
            if line["key"] == "deletedFile":
                (self.folder / value["path"]).unlink()
            elif line["key"] in ("file", "lfsFile"):
                path = self.folder / value["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                data = self.large[value["oid"]] if line["key"] == "lfsFile" else base64.b64decode(value["content"])
                path.write_bytes(data)
