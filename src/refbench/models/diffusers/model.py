"""DiffusersModel: `diffusers:REPOSITORY`, a pipeline of diffusers on this machine, loaded once and asked by one thread.

What a pipeline takes is in pipelines.py, how it is loaded and asked in the files beside it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from refbench.models.diffusers.loading import Source, find, package
from refbench.models.diffusers.painting import Manner, Order, Painter
from refbench.models.diffusers.pipelines import Shape, settings
from refbench.models.model import Commission, Painted, Traits
from refbench.models.presets import preset_options
from refbench.record import RefBenchError
from refbench.specs import Options, Spec, family_of, model_options

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
        given = preset_options(spec.options, "diffusers", where)
        options = model_options(spec.model_copy(update={"options": given}))
        self.name = spec.name
        self._found = find(_source(spec.what, options, where))
        shape = self._found.shape
        if not self._found.source.safety and "safety_checker" not in self._found.parts:
            raise RefBenchError(f"{where}: safety=off: {shape.name} has no safety checker")
        self._manner = Manner(
            arguments=settings(shape, options.others, f"{where} (diffusers:{spec.what})"),
            size=_size(shape, options, where),
            max_side=options["max_side"],
        )
        self._batch: int = options["batch"]
        if self._batch > 1 and not shape.entry.together:
            raise RefBenchError(f"{where}: batch={self._batch}: {shape.name} is asked one request at a time")
        self._draws: int = options["max_pictures"]
        self._identity = self._found.identity
        self.traits = Traits(
            family=options["family"] or family_of(spec.what.rstrip("/")),
            open_weights=True,
            max_references=shape.most,
            max_pictures=self._draws,
            size=self._manner.size,
            price=0.0,
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


def _source(repository: str, options: Options, where: str) -> Source:
    device = options["device"]
    if device == "auto":
        device = "cuda:0" if package("torch").cuda.is_available() else "cpu"
    if options["offload"] != "none" and device == "cpu":
        raise RefBenchError(f"{where}: offload={options['offload']} needs a GPU, and {device} is none")
    return Source(
        where=repository,
        revision=options["revision"],
        variant=options["variant"],
        device=device,
        dtype=options["dtype"] or ("bf16" if device.startswith("cuda") else "fp32"),
        offload=options["offload"],
        safety=options["safety"] == "on",
    )


def _size(shape: Shape, options: Options, where: str) -> tuple[int, int] | None:
    width, height = options["width"], options["height"]
    if width is None and height is None:
        return None
    if width is None or height is None:
        raise RefBenchError(f"{where}: write both width and height")
    if not shape.sized:
        raise RefBenchError(f"{where}: {shape.name} paints in the size of its picture: write max_side instead of width")
    return width, height
