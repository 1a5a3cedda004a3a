"""Measuring: for each case, the metrics of every model's output; what is recorded already is not measured again."""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from refbench.benchmarks import Benchmark, Dataset
from refbench.benchmarks.benchmark import Measured
from refbench.case import AnyCase
from refbench.chat.sent import SentPicture
from refbench.engine.gallery import Gallery
from refbench.engine.progress import Progress
from refbench.engine.recorder import Recorder
from refbench.engine.task import Executor, Outcome, Resources, Task
from refbench.evidence import Evidence, Purpose
from refbench.failure import TRANSIENT
from refbench.metrics import Metric, find_metric, home_of, register_from
from refbench.metrics.measure import Job, Measurement, Measurer, why_not_measured
from refbench.metrics.opened import decodes_alike
from refbench.models import GivenOutputs
from refbench.networks import dtype_of, network_info
from refbench.networks.cache import weights_key
from refbench.record import RefBenchError

_CHUNK = 8
"""Outputs whose pictures are in memory at once, for each worker."""
_GPU_CHUNK, _GPU_BATCH, _AT_A_GPU = 64, 128, 3
_MOST_PROCESSES = 4
"""Each holds its own copy of the small networks."""


@dataclass(frozen=True)
class MeasureRow:
    """What a worker gets: the metrics of one output."""

    key: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class _Planned:
    """One measurement to be made: the act as it will be recorded, what it is for, and how to do it."""

    request: Mapping[str, Any]
    purposes: list[Purpose]
    job: Job


@dataclass
class MeasuringRun:
    """Everything that measuring needs, together. `left_out` says which parts cannot be measured here, and why."""

    bench: Benchmark
    dataset: Dataset
    models: Sequence[GivenOutputs]
    gallery: Gallery
    recorder: Recorder
    executor: Executor
    parts: Sequence[str] = ()
    """Only these parts; all that can run when empty."""
    device: str = "cpu"
    dtype: str = "float32"
    retry: frozenset[str] = frozenset()
    progress: Progress = field(default_factory=Progress)
    stopped: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    _metrics: dict[tuple[str, str], Metric | None] = field(default_factory=dict)
    _waiting: dict[str, list[_Planned]] = field(default_factory=dict)
    """What each row on its way is to give, by the row's key."""
    _sharing: dict[str, _Planned] = field(default_factory=dict)
    """Acts on their way, with everything that waits for the same value."""
    _again: list[MeasureRow] = field(default_factory=list)

    async def measure(self, cases: Sequence[AnyCase]) -> None:
        """Measure the cases in their order, all models on a case before the next."""
        if self.bench.measuring is None:
            return
        metrics = self._usable(cases)
        homes = sorted({home for metric in metrics if (home := home_of(metric)) is not None})
        needed = sorted({name for metric in metrics for name in metric.networks})
        devices = devices_of(self.device) if any("torch" in network_info(name).needs for name in needed) else ["cpu"]
        task = Task(
            name="measure",
            factory="refbench.engine.measuring:MeasureWorker",
            args={"devices": devices, "dtype": self.dtype, "homes": [list(home) for home in homes]},
            **_spread(devices, needed, foreign=bool(homes)),
        )
        async with aclosing(self.executor.run(task, self._rows(cases))) as outcomes:
            async for outcome in outcomes:
                await self._record(outcome)
        # A worker died over these: each metric alone, so that only the guilty one is lost.
        rows, self._again = self._again, []
        if rows:
            async with aclosing(self.executor.run(task, rows)) as outcomes:
                async for outcome in outcomes:
                    await self._record(outcome, alone=True)

    def _usable(self, cases: Sequence[AnyCase]) -> list[Metric]:
        """The metrics that will run; those that cannot are noted in `left_out`."""
        assert self.bench.measuring is not None
        found: dict[tuple[str, str], Metric] = {}
        for case in cases:
            for measured in self._wanted(case):
                for protocol in self.bench.protocols if not measured.protocol else (measured.protocol,):
                    metric = self._metric(measured, protocol)
                    if metric is not None:
                        found[metric.id, protocol] = metric
        return list(found.values())

    def _wanted(self, case: AnyCase) -> list[Measured]:
        assert self.bench.measuring is not None
        return [m for m in self.bench.measuring(case) if not self.parts or m.part in self.parts]

    async def _rows(self, cases: Sequence[AnyCase]) -> AsyncIterator[MeasureRow]:
        for case in cases:
            for model in self.models:
                if self.stopped:
                    return
                planned = await self._plan(case, model)
                if planned:
                    key = f"{case.id}\n{model.name}"
                    self._waiting[key] = planned
                    yield MeasureRow(key=key, jobs=tuple(p.job for p in planned))

    async def _plan(self, case: AnyCase, model: GivenOutputs) -> list[_Planned]:
        """The measurements that an output still needs."""
        wanted = self._wanted(case)
        paths = {p.name: self.dataset.path(p) for m in wanted for p in m.pictures.values()}
        output = await self.gallery.gather(case, model, tuple(paths.values()))
        if output is None:
            return []
        found: list[_Planned] = []
        for measured in wanted:
            pictures = {"output": output, **{name: paths[p.name] for name, p in measured.pictures.items()}}
            for way, protocol in self._ways(measured, pictures):
                metric = self._metric(measured, way)
                if metric is None:
                    continue
                planned = self._planned(case, model, measured, metric, pictures, protocol)
                if planned is not None:
                    found.append(planned)
        return found

    def _ways(self, measured: Measured, pictures: Mapping[str, Path]) -> list[tuple[str, str]]:
        """Under which protocols it is measured (by which variant, for which purpose): once where both agree."""
        if measured.protocol:
            return [(measured.protocol, measured.protocol)]
        opened = [p for p in map(self.gallery.picture, pictures.values()) if isinstance(p, SentPicture)]
        alike = all(decodes_alike(picture.original) for picture in opened)
        variants = [self._metric(measured, protocol) for protocol in self.bench.protocols]
        if alike and all(metric is not None and not metric.protocol for metric in variants):
            return [(next(iter(self.bench.protocols)), "")]
        return [(protocol, protocol) for protocol in self.bench.protocols]

    def _metric(self, measured: Measured, protocol: str) -> Metric | None:
        place = measured.metric, protocol
        if place not in self._metrics:
            reason = why_not_measured(measured.metric, protocol)
            self._metrics[place] = find_metric(measured.metric, protocol) if reason is None else None
            if reason is not None:
                self.left_out[measured.part] = reason
        return self._metrics[place]

    def _planned(
        self,
        case: AnyCase,
        model: GivenOutputs,
        measured: Measured,
        metric: Metric,
        pictures: Mapping[str, Path],
        protocol: str,
    ) -> _Planned | None:
        purpose = Purpose(case=case.id, model=model.name, judge="", part=measured.part, protocol=protocol)
        opened = {name: self.gallery.picture(path) for name, path in pictures.items()}
        hashes = {n: p.original.sha256 if isinstance(p, SentPicture) else p.detail for n, p in sorted(opened.items())}
        request = {
            "metric": metric.id,
            "version": metric.version,
            "protocol": metric.protocol,
            "decoding": protocol,
            "networks": {name: _weights(name, self.dtype) for name in metric.networks},
            "pictures": hashes,
            "facts": dict(measured.facts),
        }
        writer = self.recorder.writer
        self.progress.to_measure += 1
        act = Evidence(kind="measure", request=request, reply="").id
        failed = writer.failed(act)
        if writer.succeeded(act) or (failed is not None and failed not in TRANSIENT and failed not in self.retry):
            self.progress.measured += 1
            self.recorder.link(act, purpose)
            return None
        if act in self._sharing:
            self._sharing[act].purposes.append(purpose)
            return None
        job = Job(
            metric=metric.id,
            protocol=metric.protocol,
            decoding=protocol,
            pictures={name: str(path) for name, path in pictures.items()},
            facts=measured.facts,
        )
        self._sharing[act] = _Planned(request, [purpose], job)
        return self._sharing[act]

    async def _record(self, outcome: Outcome, *, alone: bool = False) -> None:
        planned = self._waiting.pop(outcome.key)
        if outcome.failure is not None and len(planned) > 1 and not alone:
            for number, one in enumerate(planned):
                key = f"{outcome.key}\n{number}"
                self._waiting[key] = [one]
                self._again.append(MeasureRow(key=key, jobs=(one.job,)))
            return
        values = (
            outcome.value if outcome.failure is None else [{"failure": outcome.failure.model_dump()}] * len(planned)
        )
        for one, said in zip(planned, values, strict=True):
            measurement = Measurement.model_validate(said)
            evidence = _evidence(one.request, measurement)
            if measurement.failure is not None:
                self.progress.failed[measurement.failure.kind] += 1
            del self._sharing[evidence.id]
            self.progress.measured += len(one.purposes)
            await self.recorder.record((evidence, tuple(one.purposes)))


def _evidence(request: Mapping[str, Any], measurement: Measurement) -> Evidence:
    if measurement.failure is not None:
        return Evidence(kind="measure", request=request, failure=measurement.failure)
    said = measurement.model_dump(mode="json", exclude_defaults=True)
    return Evidence(kind="measure", request=request, reply=orjson.dumps(said).decode())


def _weights(name: str, dtype: str) -> str:
    """A network's weights, and the number format where it is not the usual one."""
    chosen = dtype_of(name, dtype)
    return weights_key(name) if chosen == "float32" else f"{weights_key(name)} {chosen}"


def _spread(devices: Sequence[str], networks: Sequence[str], *, foreign: bool) -> dict[str, Any]:
    """How the work is laid out.

    On GPUs threads share each device's networks, some decoding while one computes. On a CPU, native code of
    networks and code that is not ours may crash and has processes of its own: several where networks are small,
    one where they are large and use all cores anyway.
    """
    if devices != ["cpu"]:
        return {"chunk": _GPU_CHUNK, "isolated": False, "resources": Resources(workers=_AT_A_GPU * len(devices))}
    large = any("torch" in network_info(name).needs for name in networks)
    workers = 1 if large else min(_MOST_PROCESSES, os.cpu_count() or 1)
    return {"chunk": _CHUNK, "isolated": foreign or bool(networks), "resources": Resources(workers=workers)}


def devices_of(device: str) -> list[str]:
    """`cuda` is every GPU of the machine; otherwise those that are named, with commas between."""
    if device != "cuda":
        return device.split(",")
    torch = importlib.import_module("torch")
    return [f"cuda:{n}" for n in range(torch.cuda.device_count())] or ["cuda"]


class MeasureWorker:
    """What a worker of the executor holds: networks are loaded once, a chunk's pictures are decoded once.

    Workers of one process take the devices in turn.
    """

    _made = itertools.count()

    def __init__(self, devices: Sequence[str], dtype: str = "float32", homes: Sequence[tuple[str, str]] = ()) -> None:
        for name, file in homes:
            register_from(name, file)
        device = devices[next(MeasureWorker._made) % len(devices)]
        if device == "cpu":
            self._measurer = Measurer(dtype=dtype)
        else:
            self._measurer = Measurer(device, dtype, batch=_GPU_BATCH, decoders=os.cpu_count() or 1)

    def __call__(self, rows: Sequence[MeasureRow]) -> list[list[Measurement]]:
        measured = iter(self._measurer([job for row in rows for job in row.jobs]))
        return [[next(measured) for _ in row.jobs] for row in rows]


def check_parts(bench: Benchmark, parts: Sequence[str]) -> None:
    """Refuse names of parts that the benchmark does not measure."""
    unknown = [part for part in parts if part not in bench.measured]
    if unknown:
        there = ", ".join(sorted(bench.measured)) or "none"
        raise RefBenchError(f"--metrics {unknown[0]}: {bench.title} measures {there}")
