"""The device and number format that a network runs in, and batches that shrink when its memory runs out."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from refbench.failure import Failure
from refbench.machine import use_threads
from refbench.record import RefBenchError

DTYPES = {"float32": "float32", "fp32": "float32", "bfloat16": "bfloat16", "bf16": "bfloat16"}
_HEADROOM = 1.2
"""Loading needs the weights and a little more: pieces of them are held twice on the way."""

ItemT = TypeVar("ItemT")
MadeT = TypeVar("MadeT")


def package(name: str) -> Any:
    """A heavy library, imported when it is first needed."""
    return importlib.import_module(name)


@dataclass
class TorchDevice:
    """`cpu`, `cuda` or `cuda:1`, in fp32 or bf16; `batch` is how many pictures go through at once, at most."""

    device: str = "cpu"
    dtype: str = "float32"
    batch: int = 32

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise RefBenchError(f"dtype {self.dtype!r} is unknown: choose float32 or bfloat16")
        self.dtype = DTYPES[self.dtype]
        if self.batch < 1:
            raise RefBenchError(f"a batch of {self.batch} is none: choose at least 1")
        torch = package("torch")
        use_threads()
        try:
            device = torch.device(self.device)
        except RuntimeError:
            raise RefBenchError(f"device {self.device!r} is unknown: choose cpu, cuda or cuda:N") from None
        if device.type == "cuda":
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if count == 0:
                raise RefBenchError(
                    f"device {self.device!r}: torch sees no GPU here: choose cpu, or install torch for it"
                )
            if (device.index or 0) >= count:
                raise RefBenchError(f"device {self.device!r}: this machine has {count} GPU(s), numbered from 0")

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def torch_dtype(self) -> Any:
        return getattr(package("torch"), self.dtype)

    def check_room(self, name: str, files: Iterable[Path]) -> None:
        """Refuse to load weights that do not fit, before the machine starts to swap or ends the process."""
        size = sum(path.stat().st_size for path in files) * (0.5 if self.dtype == "bfloat16" else 1.0)
        free = free_bytes(self.device)
        if free is not None and size * _HEADROOM > free:
            raise RefBenchError(
                f"{name} needs {size * _HEADROOM / 1e9:.1f} GB on {self.device}, where {free / 1e9:.1f} GB are free: "
                f"{_remedy(self)}"
            )

    @contextmanager
    def loading(self, name: str) -> Iterator[None]:
        """Turns a lack of memory while loading into the sentence that says what to do."""
        try:
            yield
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            raise RefBenchError(f"{name} does not fit into the memory of {self.device}: {_remedy(self)}") from None

    def run(
        self, items: Sequence[ItemT], function: Callable[[Sequence[ItemT]], Sequence[MadeT]]
    ) -> list[MadeT | Failure]:
        """The function over all items, a batch at a time. When memory runs out the batch is halved, for good; an item
        that does not fit alone is a failure that another machine may not have."""
        made: list[MadeT | Failure] = []
        start = 0
        while start < len(items):
            size = self.batch
            part = items[start : start + size]
            try:
                made.extend(function(part))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                free_cache(self.device)
                if len(part) > 1:
                    self.batch = max(1, min(self.batch, len(part)) // 2)
                    continue
                detail = f"one picture does not fit into the memory of {self.device}"
                made.append(Failure(kind="worker_died", detail=detail))
            start += len(part)
        return made


def is_out_of_memory(error: Exception) -> bool:
    """Whether torch (on either kind of device) or Python ran out of memory."""
    if isinstance(error, MemoryError | package("torch").OutOfMemoryError):
        return True
    message = str(error)
    return isinstance(error, RuntimeError) and ("not enough memory" in message or "out of memory" in message)


def free_cache(device: str) -> None:
    """Give what torch keeps for later back to the GPU: after a failed batch it lies in the wrong sizes."""
    if device.startswith("cuda"):
        package("torch").cuda.empty_cache()


def free_bytes(device: str) -> float | None:
    """Memory that is free on the device; None where the system does not say."""
    if device.startswith("cuda"):
        return float(package("torch").cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _remedy(place: TorchDevice) -> str:
    smaller = "" if place.dtype == "bfloat16" else "choose dtype bfloat16, "
    other = "another GPU or the CPU" if place.on_gpu else "a machine with more memory"
    return f"{smaller}free some of it, or use {other}"
