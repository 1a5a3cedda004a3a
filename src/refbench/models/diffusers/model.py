"""DiffusersModel: `diffusers:REPOSITORY`, a pipeline of diffusers on this machine, loaded once and asked by one thread.

What a pipeline takes is in diffusers_model_pipelines.py, how it is loaded and asked in the files beside it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from refbench.models.diffusers.loading import DTYPES, Source, find, package
from refbench.models.diffusers.painting import Manner, Order, Painter
from refbench.models.diffusers.pipelines import Shape, settings
from refbench.models.model import Commission, Painted, Traits
from refbench.models.presets import preset_options
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of

_HOLDING = ("revision", "variant", "dtype", "device", "offload", "safety")
_OURS = (*_HOLDING, "width", "height", "max_side", "max_pictures", "batch", "family")
_OFFLOADS = ("none", "model", "layers")
_GATHER_S = 0.05


@dataclass
class _Waiting:
    """An order in the queue, whose picture somebody waits for until `gone`."""

    order: Order
    painted: Future[Painted] = field(default_factory=Future)
    gone: bool = False


class DiffusersModel:
    """A text-to-image, editing, multi-image editing or inpainting pipeline, found by its repository."""

    def __init__(self, spec: Spec) -> None:
        where = f"--model {spec.name}"
        options = preset_options(spec.options, "diffusers", where)
        ours = {key: options.pop(key) for key in _OURS if key in options}
        self.name = spec.name
        self._found = find(_source(spec, ours, where))
        shape = self._found.shape
        if not self._found.source.safety and "safety_checker" not in self._found.parts:
            raise RefBenchError(f"{where}: safety=off: {shape.name} has no safety checker")
        self._manner = Manner(
            arguments=settings(shape, options, f"{where} (diffusers:{spec.what})"),
            size=_size(shape, ours, where),
            max_side=_whole(ours, "max_side", where),
        )
        self._batch = _whole(ours, "batch", where) or 1
        if self._batch > 1 and not shape.entry.together:
            raise RefBenchError(f"{where}: batch={self._batch}: {shape.name} is asked one request at a time")
        self._draws = _whole(ours, "max_pictures", where) or 1
        self._identity = self._found.identity
        self.traits = Traits(
            family=ours.get("family") or family_of(spec.what.rstrip("/")),
            open_weights=True,
            max_references=shape.most,
            max_pictures=self._draws,
            size=self._manner.size,
            usd_a_picture=0.0,
        )
        self._painter: Painter | None = None
        self._unusable = ""
        self._closed = False
        self._queue: list[_Waiting] = []
        self._changed = threading.Condition()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="refbench-diffusers")

    @property
    def tested(self) -> bool:
        """Whether our tests run a pipeline of this class."""
        return self._found.shape.entry.tested

    def canonical(self) -> Mapping[str, str]:
        source = self._found.source
        said: dict[str, object] = {
            "kind": "diffusers",
            "model": self._identity,
            "pipeline": self._found.shape.name,
            "dtype": source.dtype,
            "variant": source.variant,
            "safety": None if source.safety else "off",
            "size": self._manner.size and "x".join(map(str, self._manner.size)),
            "max_side": self._manner.max_side,
            "max_pictures": None if self._draws == 1 else self._draws,
            **self._manner.arguments,
        }
        return {key: str(value) for key, value in said.items() if value is not None}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        waiting = _Waiting(Order(commission, seed, self._draws))
        waiting.order = replace(waiting.order, gone=lambda: waiting.gone or self._closed)
        with self._changed:
            if self._closed:
                raise RefBenchError(f"--model {self.name} was closed")
            self._queue.append(waiting)
            self._changed.notify()
            self._worker.submit(self._work)
        try:
            return await asyncio.wrap_future(waiting.painted)
        except asyncio.CancelledError:
            waiting.gone = True  # the pipeline stops at its next step
            raise

    async def close(self) -> None:
        """Stop at the next step, and give the worker and the memory back."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        await asyncio.to_thread(self._worker.shutdown)
        cuda = self._painter is not None and self._found.source.device.startswith("cuda")
        self._painter = None
        if cuda:
            package("torch").cuda.empty_cache()

    def _work(self) -> None:
        """In the worker, once for each order: take a batch, which may leave nothing for the calls behind."""
        with self._changed:
            if self._batch > 1 and self._queue:
                self._changed.wait_for(lambda: self._closed or len(self._queue) >= self._batch, _GATHER_S)
            batch = self._queue[: self._batch]
            del self._queue[: self._batch]
        batch = [one for one in batch if one.painted.set_running_or_notify_cancel()]
        if not batch:
            return
        try:
            painted = self._ready().paint([one.order for one in batch])
            if self._closed:
                raise RefBenchError(f"--model {self.name} was closed while it painted")
        except Exception as error:  # noqa: BLE001 - carried to those who asked
            for one in batch:
                one.painted.set_exception(error)
        else:
            for one, result in zip(batch, painted, strict=True):
                one.painted.set_result(result)

    def _ready(self) -> Painter:
        """The painter, loaded at the first request. What cannot be loaded is not tried again."""
        if self._unusable or self._closed:
            raise RefBenchError(self._unusable or f"--model {self.name} was closed")
        if self._painter is None:
            try:
                self._painter = Painter(self._found, self._manner)
            except RefBenchError as error:
                self._unusable = str(error)
                raise
        return self._painter


def _source(spec: Spec, ours: Mapping[str, str], where: str) -> Source:
    device = _device(ours, where)
    dtype = ours.get("dtype") or ("bf16" if device.startswith("cuda") else "fp32")
    if dtype not in DTYPES:
        raise RefBenchError(f"{where}: dtype={dtype}: choose {', '.join(DTYPES)}")
    offload, safety = ours.get("offload", "none"), ours.get("safety", "on")
    if offload not in _OFFLOADS or (offload != "none" and device == "cpu"):
        raise RefBenchError(f"{where}: offload={offload}: choose {', '.join(_OFFLOADS)}; all but none need a GPU")
    if safety not in ("on", "off"):
        raise RefBenchError(f"{where}: safety={safety}: choose on or off")
    return Source(
        where=spec.what,
        revision=ours.get("revision"),
        variant=ours.get("variant"),
        device=device,
        dtype=dtype,
        offload=offload,
        safety=safety == "on",
    )


def _device(ours: Mapping[str, str], where: str) -> str:
    device = ours.get("device", "auto")
    if device == "auto":
        return "cuda:0" if package("torch").cuda.is_available() else "cpu"
    if device == "cpu" or device.removeprefix("cuda:").isdecimal():
        return device
    raise RefBenchError(f"{where}: device={device}: write auto, cpu or cuda:0")


def _size(shape: Shape, ours: Mapping[str, str], where: str) -> tuple[int, int] | None:
    width, height = _whole(ours, "width", where), _whole(ours, "height", where)
    if width is None and height is None:
        return None
    if width is None or height is None:
        raise RefBenchError(f"{where}: write both width and height")
    if not shape.sized:
        raise RefBenchError(f"{where}: {shape.name} paints in the size of its picture: write max_side instead of width")
    return width, height


def _whole(ours: Mapping[str, str], option: str, where: str) -> int | None:
    text = ours.get(option)
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 65536:
        raise RefBenchError(f"{where}: {option}={text}: write a whole number from 1 to 65536")
    return int(text)
