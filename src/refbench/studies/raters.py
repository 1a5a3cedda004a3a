"""Raters: who may answer. Links are 192 random bits, of which only a hash is kept; a crowd's names are kept salted."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from refbench.record import Record, RefBenchError
from refbench.runs.disk import disk_error
from refbench.studies.log import Log
from refbench.text.files import file_bytes

FILE, SECRET = "raters.jsonl", "secret"
_TOKEN_BYTES = 24

Role = Literal["rater", "adjudicator", "owner"]
CROWD_NAMES = ("PROLIFIC_PID", "workerId")
"""The parameters by which crowd platforms name a worker; the others name the study and the session."""


class Rater(Record):
    """Somebody who may answer. `token` is there only when the rater has just been made, to be handed out."""

    id: str
    role: Role = "rater"
    name: str = ""
    """What the owner typed, for the owner."""
    link: str = ""
    """SHA-256 of the link's token."""
    crowd: str = ""
    """The platform's name of the worker, salted and hashed."""
    session: str = ""
    """The platform's session or assignment, salted and hashed."""
    revoked: bool = False
    forgotten: bool = False
    consented: float = 0
    """When the rater agreed to take part."""
    finished: float = 0
    """When the rater took the code that ends it; marks are not changed any more."""
    time: float = 0
    token: str | None = Field(default=None, exclude=True, repr=False)

    @property
    def owner(self) -> bool:
        return self.role == "owner"


class Raters:
    """The raters of a study; the last line about each stands."""

    def __init__(self, folder: Path) -> None:
        self._log = Log(folder / FILE, Rater)
        self._secret = _secret_of(folder)
        self.all: dict[str, Rater] = {}
        self._by_link: dict[str, str] = {}
        self.refresh()

    def refresh(self) -> None:
        new = self._log.new()
        if self._log.anew:
            self.all.clear()
            self._by_link.clear()
        for rater in new:
            self.all[rater.id] = rater
            if rater.link:
                self._by_link[rater.link] = rater.id

    def by_token(self, token: str) -> Rater | None:
        """Whose link it is; None where it is nobody's, or was revoked."""
        self.refresh()
        rater = self.all.get(self._by_link.get(_hash(token), ""))
        return None if rater is None or rater.revoked or rater.forgotten or rater.link != _hash(token) else rater

    def add(self, *, role: Role = "rater", name: str = "", time: float = 0) -> Rater:
        """A new rater with a link; the token is told once and cannot be found again."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        made = Rater(id=self._free_id(role), role=role, name=name, link=_hash(token), time=time)
        self._put(made)
        return made.model_copy(update={"token": token})

    def of_crowd(self, params: Mapping[str, str], time: float = 0) -> Rater:
        """The rater of a crowd platform's parameters; the same worker is the same rater, whenever he comes."""
        name = next((params[name] for name in CROWD_NAMES if params.get(name)), None)
        if name is None:
            raise RefBenchError(f"the link has none of {', '.join(CROWD_NAMES)}: open it from the platform's page")
        crowd, token = self._salted("crowd", name), self._crowd_token(name)
        session = next((params[key] for key in ("SESSION_ID", "assignmentId") if params.get(key)), "")
        self.refresh()
        found = next((rater for rater in self.all.values() if rater.crowd == crowd), None)
        if found is None:
            found = Rater(
                id=self._free_id("rater"),
                link=_hash(token),
                crowd=crowd,
                session=self._salted("session", session) if session else "",
                time=time,
            )
            self._put(found)
        if found.revoked or found.forgotten:
            raise RefBenchError("this link was withdrawn: ask whoever sent it")
        return found.model_copy(update={"token": token})

    def change(self, rater: str, **changed: object) -> Rater:
        self.refresh()
        if rater not in self.all:
            raise RefBenchError(f"no rater is called {rater}: there are {', '.join(self.all) or 'none yet'}")
        made = self.all[rater].model_copy(update=changed)
        self._put(made)
        return made

    def known_to_crowd(self, name: str) -> str | None:
        """The rater whom a platform knows by this name."""
        crowd = self._salted("crowd", name)
        return next((rater.id for rater in self.all.values() if rater.crowd == crowd), None)

    def forget(self, rater: str) -> Rater:
        """Take away all that tells who it was: name, link, the platform's names, also where they were written before.
        The marks stay, of nobody."""
        blank = {"name": "", "link": "", "crowd": "", "session": "", "revoked": True, "forgotten": True}
        made = self.change(rater, **blank)
        self._log.rewrite(lambda line: None if line.id == rater and not line.forgotten else line)
        self.refresh()
        return made

    def opaque(self, *parts: str) -> str:
        """A name that tells nothing to who has not the study's secret; the same for the same parts."""
        return _text(hmac.digest(self._secret, "\0".join(parts).encode("utf-8", "surrogatepass"), "sha256")[:18])

    def _salted(self, what: str, name: str) -> str:
        return hmac.new(self._secret, f"{what}\0{name}".encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    def _crowd_token(self, name: str) -> str:
        """The worker's cookie: of as many bits as a link, and the same when he comes back."""
        digest = hmac.digest(self._secret, f"token\0{name}".encode("utf-8", "surrogatepass"), "sha256")
        return _text(digest[:_TOKEN_BYTES])

    def _put(self, rater: Rater) -> None:
        self._log.append([rater])
        self.refresh()

    def _free_id(self, role: Role) -> str:
        self.refresh()
        if role == "adjudicator" and "adjudicated" not in self.all:
            return "adjudicated"
        letter = "r" if role == "rater" else role[0]
        number = 1 + sum(one.startswith(letter) and one[1:].isdigit() for one in self.all)
        return f"{letter}{number:02d}"


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _secret_of(folder: Path) -> bytes:
    """The study's secret, made when the study is first opened; readable by the owner alone."""
    path = folder / SECRET
    try:
        if not path.exists():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise disk_error(error, path) from error
    data = file_bytes(path, "restore it from a copy of the study")
    if len(data) != 32:
        raise RefBenchError(f"{path} is damaged: restore it from a copy of the study")
    return data
