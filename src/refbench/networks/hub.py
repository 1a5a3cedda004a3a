"""Weights from a model hub at a pinned revision, in the user's cache of the hub, or from a folder that the user fills.

An entry of `HubFiles.files` is a file of the repository, or `a|b` (the first that exists), or an address
(`https://...`) where a file lies elsewhere. `#sha256=` and a hash, or at least its first eight digits, may follow.
Files put into `<weights folder>/hub/<network>/` come before the cache: offline machines are served that way.
"""

from __future__ import annotations

import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.networks.network import NetworkInfo, sha256_of, weights_folder
from refbench.record import RefBenchError

Told = Callable[[str, int, int], None]
"""Called with a file's name, bytes so far, and bytes in all (0 when the server does not say)."""

_PIECE = 1 << 20
_LARGEST = 1 << 35


@dataclass(frozen=True)
class HubEntry:
    """One entry of the registry: names that serve, from a repository or an address, and what is known of the hash."""

    names: tuple[str, ...]
    address: str = ""
    sha256: str = ""


def wanted(info: NetworkInfo) -> list[HubEntry]:
    """What the network needs from its hub."""
    entries = []
    for entry in info.hub.files if info.hub is not None else ():
        where, _, sha256 = entry.partition("#sha256=")
        if "://" in where:
            entries.append(HubEntry((where.rpartition("/")[2],), where, sha256))
        else:
            entries.append(HubEntry(tuple(where.split("|")), "", sha256))
    return entries


def hub_folder(info: NetworkInfo) -> Path:
    """The user's own files of a network, which come before the hub's cache."""
    return weights_folder() / "hub" / info.name


def missing(info: NetworkInfo) -> list[str]:
    """Files of the network that are in neither place. Looks for names only, reads nothing, asks no network."""
    return ["|".join(entry.names) for entry in wanted(info) if _here(info, entry) is None]


def hub_paths(info: NetworkInfo) -> dict[str, Path]:
    """The network's files by name; those whose hash is known are checked, once per process and file."""
    paths = {}
    for entry in wanted(info):
        path = _here(info, entry)
        if path is None:
            raise RefBenchError(f"the weights of {info.name} are not here: {info.fetch_command}")
        if not _intact(path, entry):
            raise RefBenchError(f"{path} is damaged or of another version (its sha256 differs): {info.fetch_command}")
        paths[path.name] = path
    return paths


def fetch_hub(info: NetworkInfo, told: Told | None = None) -> list[Path]:
    """Bring what is missing or damaged; gives the paths of all files. The licence is the caller's to ask about."""
    paths = []
    for entry in wanted(info):
        path = _here(info, entry)
        if path is None or not _intact(path, entry):
            try:
                path = (
                    _from_address(info, entry, told)
                    if entry.address
                    else _from_hub(info, entry, again=path is not None)
                )
            except OSError as error:
                if isinstance(error, ConnectionError | urllib.error.URLError | TimeoutError):
                    raise _unreachable(info, entry) from None
                raise RefBenchError(
                    f"{entry.names[0]} of {info.name} cannot be written ({error.strerror or error}): make room there, "
                    "or set HF_HOME and REFBENCH_WEIGHTS to other folders"
                ) from None
            if not _intact(path, entry):
                raise RefBenchError(
                    f"{path} is not the file that our registry names (its sha256 differs): "
                    "fetch again, and report it if it stays so"
                )
        paths.append(path)
    return paths


def _here(info: NetworkInfo, entry: HubEntry) -> Path | None:
    own = hub_folder(info)
    for name in entry.names:
        if (own / name).is_file():
            return own / name
    if entry.address or info.hub is None:
        return None
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    for name in entry.names:
        cached = try_to_load_from_cache(info.hub.repository, name, revision=info.hub.revision)
        if isinstance(cached, str) and Path(cached).is_file():
            return Path(cached)
    return None


def _intact(path: Path, entry: HubEntry) -> bool:
    return not entry.sha256 or sha256_of(path).startswith(entry.sha256)


def _from_hub(info: NetworkInfo, entry: HubEntry, *, again: bool) -> Path:
    assert info.hub is not None
    try:
        from huggingface_hub import errors, hf_hub_download
    except ImportError:
        raise RefBenchError(f"{info.name} comes from a model hub: pip install 'refbench[neural]'") from None
    repository, revision = info.hub.repository, info.hub.revision
    endpoint = os.environ.get("HF_ENDPOINT")
    page = f"{endpoint or 'https://huggingface.co'}/{repository}"
    for name in entry.names:
        try:
            return Path(hf_hub_download(repository, name, revision=revision, endpoint=endpoint, force_download=again))
        except errors.LocalEntryNotFoundError as error:
            raise _refused_or_unreachable(info, entry, page, error) from None
        except errors.EntryNotFoundError:
            continue
        except errors.HfHubHTTPError as error:
            raise _refused_or_unreachable(info, entry, page, error) from None
        except errors.OfflineModeIsEnabled:
            raise _unreachable(info, entry, " while HF_HUB_OFFLINE is set") from None
    raise RefBenchError(f"{page} has no {' or '.join(entry.names)} at revision {revision}: please report it")


def _refused_or_unreachable(info: NetworkInfo, entry: HubEntry, page: str, error: Exception) -> RefBenchError:
    """A hub that says no, and one that does not answer, end in the same kind of exception; the status tells."""
    reason: BaseException | None = error
    while reason is not None:
        status = getattr(getattr(reason, "response", None), "status_code", None)
        if status in (401, 403):
            return RefBenchError(
                f"{page} is gated: accept its terms on that page, set HF_TOKEN to a token of yours, "
                f"and run {info.fetch_command}"
            )
        if status == 404:
            return RefBenchError(
                f"{page} is not there at revision {info.hub.revision if info.hub else ''}: please report it"
            )
        if status is not None:
            return RefBenchError(f"{page} answered with status {status}: run {info.fetch_command} again later")
        reason = reason.__cause__ or reason.__context__
    return _unreachable(info, entry)


def _unreachable(info: NetworkInfo, entry: HubEntry, why: str = "") -> RefBenchError:
    source = entry.address or (info.hub.repository if info.hub is not None else "")
    return RefBenchError(
        f"{source} cannot be reached{why}: run {info.fetch_command} where there is a network, "
        f"or put {' or '.join(entry.names)} into {hub_folder(info)}"
    )


def _from_address(info: NetworkInfo, entry: HubEntry, told: Told | None) -> Path:
    """A file that lies at an address of its own, by an atomic rename into the folder of the user's own files."""
    folder = hub_folder(info)
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{entry.names[0]}-")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out, _opened(info, entry) as answer:
            size, so_far = stated_length(answer), 0
            while max(size, so_far) <= _LARGEST and (piece := answer.read(_PIECE)):
                out.write(piece)
                so_far += len(piece)
                if told is not None:
                    told(entry.names[0], so_far, size)
        if max(size, so_far) > _LARGEST:
            raise RefBenchError(f"{entry.address} has more than {_LARGEST:,} bytes: please report it")
        if size and so_far != size:
            raise _unreachable(info, entry, f" (it broke off after {so_far} of {size} bytes)")
        if not _intact(part, entry):
            raise RefBenchError(f"{entry.address} is not the file that our registry names (its sha256 differs)")
        part.chmod(0o644)
        return part.replace(folder / entry.names[0])
    finally:
        part.unlink(missing_ok=True)


def stated_length(answer: Any) -> int:
    """The bytes that a server says it sends, 0 where it does not say it in a number."""
    text = answer.headers.get("Content-Length") or ""
    return int(text) if text.isascii() and text.isdecimal() else 0


def _opened(info: NetworkInfo, entry: HubEntry) -> Any:
    try:
        return urllib.request.urlopen(entry.address, timeout=60)
    except urllib.error.HTTPError as error:
        raise RefBenchError(
            f"{entry.address} answered with status {error.code}: run {info.fetch_command} again later"
        ) from None
