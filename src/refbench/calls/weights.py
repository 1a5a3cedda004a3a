"""Weights on this machine, from the Hugging Face hub or a folder: which they are, what went wrong with loading them,
and batches that are halved when they do not fit in memory. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from refbench.calls.pool import Job, Pool
from refbench.record import RefBenchError
from refbench.text.files import users_path

W = TypeVar("W")
R = TypeVar("R")
T = TypeVar("T")

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_SMALL, _WEIGHTS = (".json", ".jinja", ".txt", ".model"), (".safetensors", ".bin")
_SAMPLES, _SAMPLE = 64, 16384
_OFFLINE = {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "HTTPError", "ConnectionError", "TimeoutError"}


@dataclass(frozen=True)
class Library:
    """The packages that run a kind of weights (`diffusers:`, `local:`), and the extra that brings them."""

    kind: str
    extra: str
    packages: tuple[str, ...]

    def load(self, name: str) -> Any:
        """One of its packages, imported where it is needed and never before: torch alone takes seconds."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of torch and transformers about each other, while they are imported
                return importlib.import_module(name)
        except ImportError as error:
            raise RefBenchError(f"{self.kind}: needs {name} ({error}): pip install 'refbench[{self.extra}]'") from error

    def check_installed(self, where: str) -> None:
        for name in self.packages:
            if importlib.util.find_spec(name) is None:
                raise RefBenchError(f"{self.kind}:{where} needs {name}: pip install 'refbench[{self.extra}]'")

    def free_memory(self, device: str) -> None:
        """Give memory that no tensor uses any more back to others."""
        if device.startswith("cuda"):
            self.load("torch").cuda.empty_cache()

    def device(self, wanted: str) -> str:
        """The device that `auto` means: the first GPU where there is one."""
        if wanted != "auto":
            return wanted
        return "cuda:0" if self.load("torch").cuda.is_available() else "cpu"

    def folder(self, where: str) -> Path | None:
        """The directory that is meant; None for the id of a repository on the hub."""
        path = users_path(where, f"{self.kind}:{where}")
        if path.is_dir():
            return path
        if where.startswith((".", "/", "~")) or where.count("/") > 1:
            raise RefBenchError(f"{self.kind}:{where}: there is no such directory")
        return None


def default_dtype(device: str) -> str:
    return "bf16" if device.startswith("cuda") else "fp32"


def content_of(folder: Path, files: Iterable[Path]) -> str:
    """A hash of the small files whole and of samples all over the weights, whose sizes do not change in training."""
    digest = hashlib.sha256()
    for file in sorted(path for path in files if path.is_file()):
        name = file.relative_to(folder).as_posix()
        if name.startswith(".") or file.suffix not in (*_SMALL, *_WEIGHTS):
            continue
        size = file.stat().st_size
        digest.update(f"{name} {size}\n".encode())
        with file.open("rb") as opened:
            if file.suffix in _SMALL:
                digest.update(opened.read())
                continue
            for sample in range(_SAMPLES):
                opened.seek(max(0, size - _SAMPLE) * sample // (_SAMPLES - 1))
                digest.update(opened.read(_SAMPLE))
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Remedies:
    """What to do about trouble with loading, in the words of one kind of weights."""

    where: str
    revision: str | None
    device: str
    library: Library
    too_large: str
    own_code: str
    otherwise: str
    no_index: str = ""

    def of(self, error: Exception) -> str:
        """What went wrong with finding or loading the weights, in one sentence with the way out."""
        kinds = {kind.__name__ for kind in type(error).__mro__}
        words = " ".join(str(error).split())[:200]
        page = f"{os.environ.get('HF_ENDPOINT') or 'https://huggingface.co'}/{self.where}"
        if "GatedRepoError" in kinds:
            return f"its repository is gated: accept its licence at {page} and run hf auth login"
        if "RepositoryNotFoundError" in kinds:
            return f"{page} is not there or private: check the name, or run hf auth login"
        if "RevisionNotFoundError" in kinds:
            return f"{page} has no revision {self.revision}"
        if self.no_index and "RemoteEntryNotFoundError" in kinds:  # which is also an error of HTTP
            return f"{page} {self.no_index}"
        if kinds & _OFFLINE:
            return (
                f"it is not on this machine and the hub cannot be reached: run hf download {self.where} "
                f"--local-dir DIR where there is a network, and write {self.library.kind}:DIR"
            )
        if "HFValidationError" in kinds:
            return "write OWNER/NAME of a repository on the hub, or a directory"
        if "OutOfMemoryError" in kinds:
            return f"it does not fit in the memory of {self.device}: write {self.too_large}"
        if "trust_remote_code" in str(error):
            return f"it needs code of its repository, which is never run here: {self.own_code}"
        if self.device != "cpu" and "cuda" in words.casefold():
            return f"device={self.device} is not there or in trouble ({words})"
        if "ImportError" in kinds:
            return f"it needs one more package ({words})"
        return f"{self.otherwise} ({words or type(error).__name__})"


class LoadedWeights(Generic[W, R, T]):
    """Weights that are loaded at the first request by the one thread that asks them, in batches. What cannot be loaded
    is not tried again: the next try would wait for the network too."""

    def __init__(
        self, who: str, load: Callable[[], W], work: Callable[[W, list[Job[R, T]]], list[T]], *, batch: int
    ) -> None:
        self.weights: W | None = None
        self._who = who
        self._load = load
        self._work = work
        self._pool: Pool[None, R, T] = Pool([None], self._serve, batch=batch, patience=None)
        self._unusable = ""

    async def ask(self, request: R) -> T:
        if self._unusable:
            raise RefBenchError(self._unusable)
        return await self._pool.ask(request)

    async def close(self) -> None:
        """Let go of the weights as soon as what is being worked on has ended, which it does early."""
        self._unusable = f"{self._who} was closed"
        await self._pool.close()
        self.weights = None

    def _serve(self, place: None, jobs: list[Job[R, T]]) -> list[T]:
        if self._unusable:
            raise RefBenchError(self._unusable)
        if self.weights is None:
            try:
                self.weights = self._load()
            except RefBenchError as error:
                self._unusable = str(error)
                raise
        results = self._work(self.weights, jobs)
        if self._unusable:  # what had come by then is no result
            raise RefBenchError(f"{self._unusable} while it worked")
        return results


class HalvedBatches(Generic[R, T]):
    """Runs rows together, or in halves when that fails: for want of memory, or because of one of them.

    `alone(row, why, full)` says what becomes of a row that fails by itself.
    """

    def __init__(
        self, library: Library, device: str, together: Callable[[list[R]], list[T]], alone: Callable[[R, str, bool], T]
    ) -> None:
        self._library = library
        self._device = device
        self._together = together
        self._alone = alone
        self._most: int | None = None
        """The largest batch that is tried, once a larger one did not fit in memory."""

    def run(self, rows: Sequence[R]) -> list[T]:
        if not rows:
            return []
        if self._most is None or len(rows) <= self._most:
            try:
                return self._together(list(rows))
            except Exception as error:  # noqa: BLE001 - any trouble of one row is told as that row's failure
                words, torch = str(error).casefold(), self._library.load("torch")
                full = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in words
                why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            # Only here, outside the handler, has the traceback let go of the tensors of the failed try.
            if full:
                self._library.free_memory(self._device)
            if len(rows) == 1:
                return [self._alone(rows[0], why, full)]
            if full:
                self._most = len(rows) // 2
        half = (len(rows) + 1) // 2
        return self.run(rows[:half]) + self.run(rows[half:])
