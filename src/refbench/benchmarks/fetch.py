"""A benchmark's published files into its folder: looked at first, then brought whole, checked, and put there at once.

What is half brought lies in `.fetch-NAME` beside the folder and is gone on with. `.refbench-source.json` in the folder
says from which repository and commit each file is; runs record it.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import hashlib
import os
import shutil
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from refbench.benchmarks.kit.definition import Benchmark, Source
from refbench.networks.fetch import UnansweredError
from refbench.networks.hub_datasets import HubFile, Listing, fetch_file, is_safe, listing, why_not
from refbench.record import RefBenchError, counted
from refbench.runs.disk import write_whole
from refbench.text.console import printable

RECORD = ".refbench-source.json"
_AT_ONCE = 8
_PIECE = 1 << 20
_READ_BY_LOADERS = (".txt", ".json", ".jsonl", ".csv")

Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Offer:
    """What a fetch would bring. Nothing has been written yet."""

    title: str
    source: Source
    folder: Path
    dataset: Listing
    place: Path
    """Where it is put together: in the folder itself where only single files are to be brought."""
    lacking: tuple[HubFile, ...]
    """Files that are not there yet, or damaged."""
    here: str = ""
    """The commit that is in the folder already."""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.lacking)

    @property
    def licence(self) -> str:
        """As the authors state it, and as the card on the Hub has it where that may be something else."""
        stated, card = self.source.licence, self.dataset.licence
        alike = card.lower().replace("-", "").replace(" ", "") == stated.lower().replace("-", "").replace(" ", "")
        return stated if not card or alike else f"{stated} (the Hub's card says {card})"


def sources(bench: Benchmark) -> dict[str, Source]:
    """What can be fetched of a benchmark, by the name to type, which is the folder's too."""
    return {f"{bench.name}-{one.name}" if one.name else bench.name: one for one in bench.data.sources}


def data_folder(name: str) -> Path:
    """Where `refbench run` looks for a benchmark's data."""
    base = os.environ.get("REFBENCH_DATA")
    if not base:
        raise RefBenchError(
            "where should the data go? set REFBENCH_DATA to the folder of all data, or give --data the folder of these"
        )
    return Path(base).expanduser() / name


def look(title: str, source: Source, folder: Path, *, revision: str = "", update: bool = False) -> Offer:
    """Ask the Hub what there is, unless what was fetched before is all there.

    A folder stays at its commit, and a fetch that was interrupted at the one it was begun with, until `update` or
    another `revision` is asked for.
    """
    record = record_of(folder)
    staying = record is not None and not update and (not revision or record.revision == revision)
    if record is not None and staying and all(file.intact(folder) for file in record.files):
        return Offer(title, source, folder, record, folder, (), record.revision)
    begun = record_of(_staging(folder), "pinned.json")
    pinned = record if staying else None if update else begun
    chosen = revision or (pinned.revision if pinned else "main")
    elsewhere = (
        f"where there is a network, type: {source.by_hand(folder.name)} ; then copy that folder to {folder} (or git "
        f"clone {source.page} where git-lfs is installed)"
    )
    try:
        found = listing(source.dataset, chosen)
    except UnansweredError as error:
        raise why_not(error, source.dataset, elsewhere) from None
    found = found.model_copy(update={"files": tuple(file for file in found.files if not _left(file, source))})
    if not found.files:
        raise RefBenchError(f"{source.page} holds no files")
    same = record is not None and record.revision == found.revision
    if folder.exists() and not same:
        _check_replaceable(folder, record, found)
    filled = folder.exists() and any(folder.iterdir())
    place = folder if filled and (same or record is None) else _staging(folder) / "files"
    known = {file.path: file for one in (folder, place) for file in (record_of(one) or found).files}
    found = found.model_copy(update={"files": tuple(_unpacked(file, known) for file in found.files)})
    lacking = tuple(file for file in found.files if not file.intact(place))
    return Offer(title, source, folder, found, place, lacking, record.revision if record else "")


def bring(offer: Offer, told: Told | None = None) -> Literal["fetched", "already there"]:
    """Bring what is lacking and put all of it in place; a folder with another commit is replaced as a whole."""
    dataset, folder, place = offer.dataset, offer.folder, offer.place
    staging = _staging(folder)
    try:
        if not offer.lacking and record_of(folder) == dataset:
            _sweep(staging, dataset)
            return "already there"
        with _alone(staging):
            if place != folder and (done := record_of(folder)) is not None and done.revision == dataset.revision:
                shutil.rmtree(staging, ignore_errors=True)
                return "already there"  # another command has brought it while this one waited
            write_whole(staging / "pinned.json", dataset.model_dump_json().encode())
            if place != folder:
                _take_over(offer, place)
            lacking = [file for file in offer.lacking if not file.intact(place)]
            _check_room(offer, staging, sum(file.size for file in lacking))
            _bring_all(replace(offer, lacking=tuple(lacking)), place, told)
            whole = _unpack_all(offer, place)
            write_whole(place / RECORD, whole.model_dump_json(indent=1).encode())
            for file in whole.files:
                if file.members:
                    (place / file.path).unlink(missing_ok=True)
            if place != folder:
                _exchange(whole, place, folder)
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise RefBenchError(
            f"{folder} cannot be written ({error.strerror or error}): make room there, or choose another folder"
        ) from None
    return "fetched"


def _sweep(staging: Path, dataset: Listing) -> None:
    """What a command that was killed at its very end has left; half an update to another commit stays."""
    begun = record_of(staging, "pinned.json")
    if staging.exists() and (begun is None or begun.revision == dataset.revision):
        with _alone(staging):
            shutil.rmtree(staging, ignore_errors=True)


def record_of(folder: Path, name: str = RECORD) -> Listing | None:
    """From where the files of a folder are; None where nothing says so."""
    try:
        return Listing.model_validate_json((folder / name).read_bytes())
    except (OSError, ValueError):
        return None


def said_of(folder: Path) -> str:
    """Repository and commit of a folder that was fetched, in words, and whether its files are still those: texts by
    their hash, pictures by their size (a run keeps the hashes of those it opens). Empty for other folders."""
    places = (folder.absolute(), *folder.absolute().parents[:2])  # --data may name a folder inside
    folder = next((place for place in places if (place / RECORD).is_file()), folder)
    record = record_of(folder)
    if record is None:
        return ""
    files = [one for file in record.files for one in (file.members or (file,))]
    changed = [file.path for file in files if not _unchanged(file, folder)]
    since = f", {counted(len(changed), 'file')} changed since (first: {changed[0]})" if changed else ""
    return printable(f"{record.repository} at {record.revision}{since}", line=True)


def _unchanged(file: HubFile, folder: Path) -> bool:
    if file.path.lower().endswith(_READ_BY_LOADERS):
        return file.intact(folder)
    with contextlib.suppress(OSError):
        return (folder / file.path).stat().st_size == file.size
    return False


def _staging(folder: Path) -> Path:
    return folder.parent / f".fetch-{folder.name}"


def _left(file: HubFile, source: Source) -> bool:
    hidden = file.path.startswith(".")  # of git and of the Hub, and the name of our record
    unwanted = bool(source.only) and not any(fnmatch.fnmatchcase(file.path, pattern) for pattern in source.only)
    return hidden or unwanted or any(fnmatch.fnmatchcase(file.path, pattern) for pattern in source.leave)


def _unpacked(file: HubFile, known: dict[str, HubFile]) -> HubFile:
    before = known.get(file.path)
    return before if before is not None and before.members and before.sha256 == file.sha256 else file


def _check_replaceable(folder: Path, record: Listing | None, found: Listing) -> None:
    """A folder is replaced only where every file in it came from the Hub: no work of the user's goes with it."""
    if record is None:
        other = [file for file in found.files if not file.intact(folder)]
        if other and any(folder.iterdir()):
            raise RefBenchError(
                f"{folder} is there, not fetched by RefBench, and {len(other)} of the {len(found.files)} files on the "
                f"Hub are not in it or differ (first: {printable(other[0].path, line=True)}): move it away, or give "
                "--data another folder"
            )
        return
    ours = _own(record)
    theirs = (path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    if own := next((path for path in theirs if path.relative_to(folder).as_posix() not in ours), None):
        raise RefBenchError(
            f"{own} did not come from the Hub and would be lost with the older files: move it away first"
        )


def _own(dataset: Listing) -> set[str]:
    return {one.path for file in dataset.files for one in (file.members or (file,))} | {RECORD}


@contextlib.contextmanager
def _alone(staging: Path) -> Iterator[None]:
    """One fetch at a time: two would write to the same half files."""
    staging.mkdir(parents=True, exist_ok=True)
    with (staging / "lock").open("w") as file:
        with contextlib.suppress(OSError):  # a file system without locks: the hashes and the renames still hold
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_room(offer: Offer, staging: Path, needed: int) -> None:
    half = sum(part.stat().st_size for part in (staging / "parts").glob("*.part"))
    free = shutil.disk_usage(staging).free
    if needed - half > free:
        raise RefBenchError(f"{offer.folder.parent} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are needed")


def _take_over(offer: Offer, place: Path) -> None:
    """What another commit in the folder has already is not brought again."""
    place.mkdir(parents=True, exist_ok=True)
    for file in (one for entry in offer.lacking for one in (entry.members or (entry,))):
        target = place / file.path
        if file.intact(offer.folder) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(offer.folder / file.path, target)


class _StoppedError(Exception):
    """Another file has failed, or the user has had enough."""


def _bring_all(offer: Offer, place: Path, told: Told | None) -> None:
    parts = _staging(offer.folder) / "parts"
    parts.mkdir(exist_ok=True)
    stop, lock, so_far = threading.Event(), threading.Lock(), {}

    def one(file: HubFile) -> None:
        def progress(done: int, _: int) -> None:
            if stop.is_set():
                raise _StoppedError
            if told is not None:
                with lock:
                    so_far[file.path] = done
                    told(offer.title, sum(so_far.values()), offer.bytes)

        part = parts / f"{hashlib.sha256(file.path.encode()).hexdigest()[:32]}.part"
        fetch_file(offer.dataset, file, part, progress)
        target = place / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        part.replace(target)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        waiting = [pool.submit(one, file) for file in offer.lacking]
        try:
            for each in as_completed(waiting):
                each.result()
        except UnansweredError as error:
            by_hand = f"type {offer.source.by_hand(offer.folder.name)} elsewhere and copy the folder to {offer.folder}"
            raise why_not(error, offer.source.dataset, by_hand) from None
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _unpack_all(offer: Offer, place: Path) -> Listing:
    """The dataset with what its archives hold, if it comes in archives."""
    if not offer.source.unpack:
        return offer.dataset
    taken = {file.path for file in offer.dataset.files}
    files = []
    for file in offer.dataset.files:
        if file.path.endswith(".zip") and not (file.members and file.intact(place)):
            members = tuple(_unpack(place / file.path, place, taken))
            taken.update(member.path for member in members)
            file = file.model_copy(update={"members": members})
        files.append(file)
    return offer.dataset.model_copy(update={"files": tuple(files)})


def _unpack(archive: Path, place: Path, taken: set[str]) -> Iterator[HubFile]:
    """The archive's files below `place`, each written whole and hashed."""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = [entry for entry in opened.infolist() if not entry.is_dir()]
            entries = [entry for entry in entries if not entry.filename.startswith("__MACOSX/")]
            _check_entries(archive, entries, place, taken)
            for entry in entries:
                target = place / entry.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                part = target.with_name(f".part-{hashlib.sha256(entry.filename.encode()).hexdigest()[:16]}")
                seen = hashlib.sha256()
                with opened.open(entry) as inside, part.open("wb") as out:
                    while piece := inside.read(_PIECE):  # no more than the size in its entry
                        seen.update(piece)
                        out.write(piece)
                part.replace(target)
                yield HubFile(path=entry.filename, size=entry.file_size, sha256=seen.hexdigest())
    except (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        raise RefBenchError(f"{archive} cannot be unpacked ({printable(str(error), line=True)}): fetch again") from None


def _check_entries(archive: Path, entries: Sequence[zipfile.ZipInfo], place: Path, taken: set[str]) -> None:
    names = [entry.filename for entry in entries]
    for entry in entries:
        link = stat.S_ISLNK(entry.external_attr >> 16)
        if link or not is_safe(entry.filename) or entry.filename in taken or entry.filename.startswith("."):
            raise RefBenchError(
                f"{archive} holds {printable(entry.filename[:200], line=True)!r}, which may not be written: nothing "
                "was unpacked"
            )
    size, free = sum(entry.file_size for entry in entries), shutil.disk_usage(place).free
    if len(set(names)) < len(names) or size > free:
        raise RefBenchError(
            f"{archive} cannot be unpacked: it holds {size / 1e9:.1f} GB, where {free / 1e9:.1f} GB are free, or a "
            "name twice"
        )


def _exchange(whole: Listing, place: Path, folder: Path) -> None:
    """The folder as it was put together takes its name; what it holds of another commit's is not the dataset's."""
    ours = _own(whole)
    for path in place.rglob("*"):
        if not path.is_dir() and path.relative_to(place).as_posix() not in ours:
            path.unlink()
    old = place.with_name("old")
    if folder.exists():
        _check_replaceable(folder, record_of(folder), whole)  # again: much may have come into it meanwhile
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    folder.parent.mkdir(parents=True, exist_ok=True)
    place.rename(folder)
