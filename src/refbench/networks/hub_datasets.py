"""A dataset on the Hub over plain HTTP: the commit behind a revision, its files with their hashes, and one of them.

Not through huggingface_hub, which begins an interrupted file anew, takes what a server sends without end, and looks at
sizes but not at hashes (2.4). Nothing needs to be installed for this.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

from refbench.networks.fetch import UnansweredError, download, opened
from refbench.record import Record, RefBenchError
from refbench.text.console import printable

_PAGES = 1000
_FILES = 500_000
_LARGEST_PAGE = 1 << 26
_TRIES = 4
_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 120.0
_BUSY = (0, 429, 500, 502, 503, 504)
"""Statuses that may pass; 0 is a connection that broke off."""
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="?next"?')
_PIECE = 1 << 20


class HubFile(Record):
    """A file of a dataset, with the hash that the Hub states: of its content, or of the blob that git makes of it."""

    path: str
    size: int
    sha256: str = ""
    git_sha1: str = ""
    members: tuple[HubFile, ...] = ()
    """What an archive was unpacked to; it lies there in the archive's place."""

    def intact(self, root: Path) -> bool:
        """Whether it lies below `root` as it should."""
        if self.members:
            return all(member.intact(root) for member in self.members)
        return self.is_in(root / self.path)

    def is_in(self, path: Path) -> bool:
        """Whether that is the content of a file."""
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_size == self.size:
                return self._hash(path) == (self.sha256 or self.git_sha1)
        return False

    def _hash(self, path: Path) -> str:
        seen = hashlib.sha256() if self.sha256 else hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                seen.update(piece)
        return seen.hexdigest()


class Listing(Record):
    """A dataset at one commit."""

    repository: str
    revision: str
    licence: str = ""
    """As its card on the Hub has it."""
    files: tuple[HubFile, ...]


def listing(repository: str, revision: str) -> Listing:
    """What the Hub has under a branch, tag or commit. Raises UnansweredError where it does not say."""
    base = f"{_endpoint()}/api/datasets/{repository}"
    said = _json(f"{base}/revision/{quote(revision, safe='')}")[0]
    commit = said.get("sha") if isinstance(said, dict) else None
    if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise _odd(repository, "names no commit")
    card = said.get("cardData")
    licence = card.get("license") if isinstance(card, dict) else None
    names = licence if isinstance(licence, list) else [licence]
    files = tuple(_files(repository, f"{base}/tree/{commit}?recursive=true&expand=false"))
    _check_places(repository, files)
    told = printable(", ".join(str(name) for name in names if name), line=True)[:100]
    return Listing(repository=repository, revision=commit, licence=told, files=files)


def fetch_file(dataset: Listing, file: HubFile, part: Path, told: Callable[[int, int], None]) -> None:
    """Bring one file to `part`, going on where an earlier try was interrupted; what comes must have its hash."""
    url = f"{_endpoint()}/datasets/{dataset.repository}/resolve/{dataset.revision}/{quote(file.path)}"
    for attempt in range(_TRIES):
        begun = part.stat().st_size if part.exists() else 0
        if begun > file.size:
            part.unlink()
        try:
            download(url, _headers(), part, told, most=file.size)
        except UnansweredError as error:
            if error.status not in _BUSY or attempt == _TRIES - 1:
                raise
            time.sleep(_pause(error.headers, attempt))
            continue
        except RefBenchError:
            raise _odd(
                dataset.repository, f"sends more of {file.path} than the {file.size:,} bytes it states"
            ) from None
        if file.is_in(part):
            return
        part.unlink(missing_ok=True)
        if not begun:  # one that was gone on with may have had a wrong beginning
            break
    raise _odd(dataset.repository, f"sends another {file.path} than the one whose hash it states")


def why_not(error: UnansweredError, source: str, elsewhere: str) -> RefBenchError:
    """What a user can do about an answer that did not come: `elsewhere` is how the files are brought by hand."""
    page = f"{_endpoint()}/datasets/{source}"
    if error.headers.get("X-Error-Code") == "GatedRepo" or error.status == 403:
        return RefBenchError(
            f"{page} is gated: accept its terms on that page, set HF_TOKEN to a token of yours, and try again"
        )
    if error.status in (401, 404):
        what = "has no such revision" if error.headers.get("X-Error-Code") == "RevisionNotFound" else "is not there"
        private = ", or private: set HF_TOKEN to a token that may read it" if what == "is not there" else ""
        return RefBenchError(f"{page} {what}{private}")
    if error.status:
        return RefBenchError(f"{page} answered with status {error.status}: run the command again later, it goes on")
    if _offline():
        return RefBenchError(f"{page} is not asked while HF_HUB_OFFLINE is set: unset it; or {elsewhere}")
    return RefBenchError(f"{page} cannot be reached, or broke off: run the command again, it goes on; or {elsewhere}")


def _odd(repository: str, what: str) -> RefBenchError:
    return RefBenchError(f"{_endpoint()}/datasets/{repository} {printable(what, line=True)}: nothing of it was kept")


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _endpoint() -> str:
    """The Hub, or the mirror that its own tools are set to."""
    address = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    if urlsplit(address).scheme not in ("http", "https") or "@" in urlsplit(address).netloc:
        raise RefBenchError("HF_ENDPOINT must be an address with http:// or https:// and without a password")
    return address


def _headers() -> dict[str, str]:
    """The user's token, from where the Hub's own tools have it, for the Hub's host alone."""
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    if not token:
        home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
        place = Path(os.environ.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
        with contextlib.suppress(OSError, UnicodeDecodeError):
            token = place.read_text("ascii")
    token = token.strip()
    if not token:
        return {}
    if not re.fullmatch(r"[!-~]+", token):  # else the error of the HTTP library would show it
        raise RefBenchError("the token in HF_TOKEN or in the Hub's token file holds a sign that no token has")
    return {"Authorization": f"Bearer {token}"}


def _json(url: str) -> tuple[Any, str]:
    """What an address says, and the address of the next page; waits where the Hub says that it is busy."""
    if _offline():
        raise UnansweredError("HF_HUB_OFFLINE is set")
    for attempt in range(_TRIES):
        try:
            with opened(url, {**_headers(), "Accept": "application/json"}) as answer:
                following = _NEXT.search(answer.headers.get("Link") or "")
                return json.loads(answer.read(_LARGEST_PAGE)), following[1] if following else ""
        except UnansweredError as error:
            if error.status not in _BUSY[1:] or attempt == _TRIES - 1:
                raise
            time.sleep(_pause(error.headers, attempt))
        except (ValueError, RecursionError):
            raise RefBenchError(
                f"{urlsplit(url).netloc} answered something that is no JSON: is HF_ENDPOINT a Hub?"
            ) from None
        except OSError as error:
            raise UnansweredError(str(error)) from None
    raise AssertionError("the last try returns or raises")


def _pause(headers: Message, attempt: int) -> float:
    said = (headers.get("Retry-After") or "").strip()
    return min(float(said), _LONGEST_PAUSE_S) if said.isascii() and said.isdecimal() else _PAUSE_S * 2**attempt


def _files(repository: str, page: str) -> Iterator[HubFile]:
    """The files of a listing, page after page."""
    count = 0
    for _ in range(_PAGES):
        entries, following = _json(page)
        if not isinstance(entries, list):
            raise _odd(repository, "lists no files")
        for entry in entries:
            if isinstance(entry, dict) and entry.get("type") == "directory":
                continue
            count += 1
            yield _file(repository, entry)
        if not following:
            return
        # The token goes with the question, so it stays with the host that was asked first.
        if urlsplit(following)[:2] != urlsplit(page)[:2] or count > _FILES:
            break
        page = following
    raise _odd(repository, "lists files without end, or on another host")


def _file(repository: str, entry: Any) -> HubFile:
    try:
        large = entry.get("lfs") or {}
        path, size = entry["path"], large.get("size", entry["size"])
        sha256, git_sha1 = large.get("oid") or "", "" if large else entry["oid"]
        if not (isinstance(path, str) and type(size) is int and size >= 0):
            raise ValueError
        if not re.fullmatch(r"[0-9a-f]{64}" if large else r"[0-9a-f]{40}", sha256 or git_sha1):
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _odd(repository, "lists a file without name, size or hash") from None
    if not is_safe(path):
        raise _odd(repository, f"has a file called {path[:200]!r}, which may not be written")
    return HubFile(path=path, size=size, sha256=sha256, git_sha1=git_sha1)


def is_safe(path: str) -> bool:
    """Whether a name of strangers' may become a file below a folder of ours: relative, without steps upwards."""
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= 255 for part in parts)
    return plain and len(path) <= 2000 and not re.search(r"[\\\x00-\x1f\x7f\ud800-\udfff]", path)


def _check_places(repository: str, files: tuple[HubFile, ...]) -> None:
    """Raises where two files have one place, or one lies where the folder of another must be."""
    places = {file.path for file in files}
    folders = {str(folder) for path in places for folder in PurePosixPath(path).parents}
    if len(places) < len(files) or places & folders:
        raise _odd(repository, "lists two files for one place")
