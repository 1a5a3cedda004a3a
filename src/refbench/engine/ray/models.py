"""Local image models and local VLMs on a Ray cluster: made from their specs on the nodes, asked from the driver.

The very classes that run on one machine run in the actors, so that what they do about batches, crashes and late
answers is the same. Pictures come back through the shared directory, never through Ray.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refbench.chat.local import LocalVLM
from refbench.chat.vlm import VLM, ChatRequest, Pictures
from refbench.engine.ray.executor import RayExecutor
from refbench.engine.workers.measure_worker import Layout, spread_over
from refbench.engine.workers.task import Executor, Outcome, Resources, Row, Task
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.models.model import Commission, ImageModel, Painted
from refbench.models.process.workers import environments
from refbench.pictures import verified
from refbench.record import RefBenchError
from refbench.runs.disk import Blobs
from refbench.specs import Spec, model_options


@dataclass(frozen=True)
class Question:
    """The arguments of one call of a model or a judge, on their way to a node."""

    key: str
    arguments: tuple[Any, ...]


class Service:
    """A task that is asked row by row, by anybody on the loop: one run of it, from the first row until it is closed."""

    def __init__(self, executor: Executor, task: Callable[[], Task]) -> None:
        self._executor = executor
        self._task = task
        self._rows: asyncio.Queue[Row] = asyncio.Queue()
        self._asked: dict[str, asyncio.Future[Outcome]] = {}
        self._serving: asyncio.Task[None] | None = None

    async def ask(self, *arguments: Any) -> Outcome:
        """What came of a call with these arguments; raises what ended the run (a task that cannot be made)."""
        row = Question(uuid.uuid4().hex, arguments)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._asked[row.key] = answer
        self._rows.put_nowait(row)
        try:
            if self._serving.done():
                await self._serving
            return await answer
        finally:
            self._asked.pop(row.key, None)

    async def close(self) -> None:
        """End the workers; rows that are asked for are given up."""
        serving, self._serving, self._rows = self._serving, None, asyncio.Queue()
        if serving is not None:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            async with aclosing(self._executor.run(self._task(), self._coming())) as outcomes:
                async for outcome in outcomes:
                    answer = self._asked.get(outcome.key)
                    if answer is not None and not answer.done():
                        answer.set_result(outcome)
        except Exception as error:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(error)
            raise

    async def _coming(self) -> AsyncGenerator[Row, None]:
        while True:
            yield await self._rows.get()


_PLACES = ("gpus", "workers")  # options that say where workers are, which is Ray's to decide


class Cluster:
    """Which models and judges run on the nodes, and how they share the GPUs."""

    def __init__(self, executor: RayExecutor, out: Path) -> None:
        self.executor = executor
        self._blobs = str((out / "blobs").absolute())
        self._gpus = sum(int(node.gpus) for node in executor.nodes())
        self._users = 0
        self._judges: list[RemoteVLM] = []

    def wants_gpu(self) -> None:
        """One more who computes on GPUs: all have to be known before the first of them starts."""
        self._users += 1

    async def see(self, *paths: Path) -> None:
        """Refuse nodes that do not see these: their pictures would be missing there and nowhere else."""
        await self.executor.connect(paths)

    def layout(self) -> Layout:
        """How metrics are measured here."""
        return spread_over(len(self.executor.nodes()), self.share())

    def share(self) -> Resources:
        """The GPUs of one user: whole ones each while there are enough, else parts of one. None: one worker a node."""
        if not self._gpus:
            return Resources(workers=max(1, len(self.executor.nodes())))
        if self._users <= self._gpus:
            return Resources(workers=self._gpus // max(1, self._users), gpus=1)
        return Resources(workers=1, gpus=1 / math.ceil(self._users / self._gpus))

    def model(self, spec: Spec, make: Callable[[Spec], ImageModel]) -> ImageModel:
        """A model of the kinds `python` and `diffusers` on the nodes; any other as it is, on the driver."""
        if spec.kind == "python":
            there = spec.model_copy(update={"options": {k: v for k, v in spec.options.items() if k not in _PLACES}})
            return RemoteModel(make(spec), there, self.executor, lambda: _of_python(spec), self._blobs)
        if spec.kind == "diffusers":
            placed = self._on_device(spec)
            return RemoteModel(make(placed), placed, self.executor, self._shared_by(placed), self._blobs)
        return make(spec)

    def vlm(self, spec: Spec, make: Callable[[Spec], VLM]) -> VLM:
        """A local VLM on the nodes; any other as it is."""
        if spec.kind != "local":
            return make(spec)
        placed = self._on_device(spec)
        self._judges.append(RemoteVLM(make(placed), placed, self.executor, self._shared_by(placed)))
        return self._judges[-1]

    async def close(self) -> None:
        """End the judges, also those that only a model asks; models are closed by whoever made them."""
        for judge in self._judges:
            await judge.close()

    def _on_device(self, spec: Spec) -> Spec:
        """With the device named: the driver may have none, and the number format follows from it."""
        device = spec.options.get("device", "auto")
        if device == "auto":
            device = "cuda:0" if self._gpus else "cpu"
        if device.startswith("cuda"):
            self.wants_gpu()
            device = "cuda:0"  # the first of those that Ray gives a worker
        return spec.model_copy(update={"options": {**spec.options, "device": device}})

    def _shared_by(self, spec: Spec) -> Callable[[], Resources]:
        return self.share if spec.options["device"] != "cpu" else lambda: Resources(workers=1)


class RemoteModel:
    """An image model whose workers are on the nodes. Name, traits and settings are those of the model itself."""

    def __init__(
        self, model: ImageModel, spec: Spec, executor: RayExecutor, resources: Callable[[], Resources], blobs: str
    ) -> None:
        self.name = model.name
        self.traits = model.traits
        self._model = model
        self._spec = spec
        self._resources = resources
        self._blobs = blobs
        self._service = Service(executor, self._task)

    def canonical(self) -> Mapping[str, str]:
        return self._model.canonical()

    async def generate(self, commission: Commission, seed: int) -> Painted:
        shown = tuple(replace(one, path=one.path.absolute()) for one in commission.pictures)
        outcome = await self._service.ask(replace(commission, pictures=shown), seed)
        if outcome.failure is not None:
            return Painted(failure=outcome.failure)
        painted: Painted = outcome.value[0]
        pictures = await asyncio.to_thread(_fetched, Blobs(Path(self._blobs)), outcome.value[1])
        return replace(painted, pictures=pictures)

    async def close(self) -> None:
        await self._service.close()
        await self._model.close()

    def _task(self) -> Task:
        scratch: Path | None = getattr(self._model, "scratch", None)
        return Task(
            name=f"model {self.name}",
            factory="refbench.engine.ray.models:PaintWorker",
            args={
                "spec": self._spec.model_dump(mode="json"),
                "blobs": self._blobs,
                "scratch": str(scratch.absolute()) if scratch is not None else None,
            },
            chunk=model_options(self._spec)["batch"] or 1,
            resources=self._resources(),
            retries=0,
        )


class PaintWorker:
    """On a node: the model of a spec, whose pictures go into the run's blobs."""

    def __init__(self, spec: Mapping[str, Any], blobs: str, scratch: str | None = None) -> None:
        made = Spec.model_validate(spec)
        self._model = _maker(made.kind)(made)
        if scratch is not None and hasattr(self._model, "scratch"):
            self._model.scratch = Path(scratch)
        self._blobs = Blobs(Path(blobs))
        self._loop = asyncio.Runner()

    def __call__(self, rows: Sequence[Question]) -> list[tuple[Painted, list[tuple[str, str] | bytes]]]:
        painted: list[Painted] = self._loop.run(_all(self._model.generate, rows))
        return [(replace(one, pictures=()), self._stored(one.pictures)) for one in painted]

    def _stored(self, pictures: Sequence[bytes]) -> list[tuple[str, str] | bytes]:
        """Hash and format of each; what is no picture goes as it is, for the driver to say so."""
        stored: list[tuple[str, str] | bytes] = []
        for data in pictures:
            facts = verified(data)
            if isinstance(facts, Failure):
                stored.append(data)
            else:
                stored.append((self._blobs.put(data, facts.format), facts.format))
        return stored


class RemoteVLM(VLM):
    """A local VLM whose weights are on the nodes."""

    def __init__(self, vlm: VLM, spec: Spec, executor: RayExecutor, resources: Callable[[], Resources]) -> None:
        assert isinstance(vlm, LocalVLM)
        self.name = vlm.name
        self.family = vlm.family
        self.price = vlm.price
        self._vlm = vlm
        self._spec = spec
        self._resources = resources
        self._service = Service(executor, self._task)

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        return self._vlm.canonical(request, repeat)

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        return self._vlm.worst_cost(request, pictures)

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        there = {sha: replace(one, path=one.path.absolute()) for sha, one in pictures.items()}
        outcome = await self._service.ask(request, there, repeat)
        canonical = self.canonical(request, repeat)
        if outcome.failure is not None:
            return Evidence(kind="chat", request=canonical, failure=outcome.failure, cost_usd=0.0)
        evidence: Evidence = outcome.value
        if evidence.request != canonical:
            raise RefBenchError(f"--judge {self.name}: a node has other weights than this machine under the same name")
        return evidence

    async def close(self) -> None:
        await self._service.close()
        await self._vlm.close()

    def _task(self) -> Task:
        return Task(
            name=f"judge {self.name}",
            factory="refbench.engine.ray.models:AskWorker",
            args={"spec": self._spec.model_dump(mode="json")},
            chunk=self._vlm.batch,
            resources=self._resources(),
        )


class AskWorker:
    """On a node: the local VLM of a spec."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._vlm = LocalVLM(Spec.model_validate(spec))
        self._loop = asyncio.Runner()

    def __call__(self, rows: Sequence[Question]) -> list[Evidence]:
        return self._loop.run(_all(self._vlm.ask, rows))


async def _all(call: Callable[..., Awaitable[Any]], rows: Sequence[Question]) -> list[Any]:
    return await asyncio.gather(*(call(*row.arguments) for row in rows))


def _maker(kind: str) -> Callable[[Spec], ImageModel]:
    if kind == "python":
        from refbench.models.process.python import PythonModel

        return PythonModel
    from refbench.models.diffusers.model import DiffusersModel

    return DiffusersModel


def _of_python(spec: Spec) -> Resources:
    """`gpus=4&workers=2`: four GPUs with two workers each, wherever they are; `workers=2` alone: two workers."""
    places, each = len(environments(spec)), model_options(spec)["workers"]
    return Resources(workers=places, gpus=1 / each if "gpus" in spec.options else 0)


def _fetched(blobs: Blobs, stored: Sequence[tuple[str, str] | bytes]) -> tuple[bytes, ...]:
    return tuple(one if isinstance(one, bytes) else blobs.get(*one) for one in stored)
