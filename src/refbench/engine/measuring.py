"""Measuring: for each case, the metrics of every model's output; what is recorded already is not measured again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from refbench.benchmarks.kit.definition import Measured
from refbench.case import AnyCase
from refbench.chat.pictures import SentPicture
from refbench.engine.generating import ahead
from refbench.engine.judging import ScoringRun
from refbench.engine.workers.measure_worker import Layout, MeasureRow, any_large, devices_of, spread
from refbench.engine.workers.task import Executor, Outcome, Task
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.metrics import Metric, find_metric, home_of
from refbench.metrics.measure import Job, Measurement, decodes_alike, why_not_measured
from refbench.models import AnyModel
from refbench.networks import dtype_of
from refbench.networks.cache import weights_key
from refbench.output import content_of
from refbench.record import content_key

_AHEAD = 256
"""Cases whose pictures are found, hashed and recorded before they are measured: no row waits for the disk alone."""
_MOST_UNWRITTEN = 256


@dataclass(frozen=True)
class _Planned:
    """One measurement to be made: the act as it will be recorded, what it is for, and how to do it."""

    request: Mapping[str, Any]
    purposes: list[Purpose]
    job: Job
    instead: str = ""
    """The act on record that it retires, where it is measured once more."""


@dataclass(kw_only=True)
class MeasuringRun(ScoringRun):
    """The measuring of one run. `left_out` says which parts cannot be measured here, and why."""

    executor: Executor
    cluster: Layout | None = None
    """How the work is laid out over the nodes of a cluster; None on one machine."""
    left_out: dict[str, str] = field(default_factory=dict)
    _metrics: dict[tuple[str, str], Metric | str] = field(default_factory=dict)
    """By name and protocol: the metric, or why it cannot be measured here."""
    _waiting: dict[str, list[_Planned]] = field(default_factory=dict)
    """What each row on its way is to give, by the row's key."""
    _sharing: dict[str, _Planned] = field(default_factory=dict)
    """Acts on their way, with everything that waits for the same value."""
    _again: list[MeasureRow] = field(default_factory=list)
    _writing: set[asyncio.Task[None]] = field(default_factory=set)

    async def measure(self, cases: Sequence[AnyCase]) -> None:
        """Measure the cases in their order, all models on a case before the next."""
        if self.setup.bench.asking.measuring is None:
            return
        metrics = self._usable(cases)
        homes = sorted({home for metric in metrics if (home := home_of(metric)) is not None})
        needed = sorted({name for metric in metrics for name in metric.networks})
        large = any_large(needed)
        if self.cluster is not None:
            devices = ["cuda" if large and self.setup.options.device != "cpu" else "cpu"]
            layout = self.cluster(devices[0], needed, bool(homes))
        else:
            devices = devices_of(self.setup.options.device) if large else ["cpu"]
            layout = spread(devices, needed, foreign=bool(homes))
        task = Task(
            name="measure",
            factory="refbench.engine.workers.measure_worker:MeasureWorker",
            args={"devices": devices, "dtype": self.setup.options.dtype, "homes": [list(home) for home in homes]},
            **layout,
        )
        async with contextlib.aclosing(self.executor.run(task, self._rows(cases))) as outcomes:
            async for outcome in outcomes:
                await self._record(outcome)
        await self._written(0)
        # A worker died over these: each metric alone, so that only the guilty one is lost.
        rows, self._again = self._again, []
        if rows:
            async with contextlib.aclosing(self.executor.run(task, rows)) as outcomes:
                async for outcome in outcomes:
                    await self._record(outcome, alone=True)
            await self._written(0)

    def _usable(self, cases: Sequence[AnyCase]) -> list[Metric]:
        """The metrics that will run; those that cannot are noted in `left_out`."""
        usable: dict[tuple[str, str], Metric] = {}
        for case in cases:
            for measured in self._wanted(case):
                for protocol in self.setup.bench.scoring.protocols if not measured.protocol else (measured.protocol,):
                    metric = self._metric(measured, protocol)
                    if metric is not None:
                        usable[metric.id, protocol] = metric
        return list(usable.values())

    def _wanted(self, case: AnyCase) -> list[Measured]:
        assert self.setup.bench.asking.measuring is not None
        return [
            m for m in self.setup.bench.asking.measuring(case) if not self.setup.parts or m.part in self.setup.parts
        ]

    async def _rows(self, cases: Sequence[AnyCase]) -> AsyncGenerator[MeasureRow, None]:
        async with contextlib.aclosing(ahead(cases, self._plan_case, _AHEAD, self._is_interrupted)) as plans:
            async for rows in plans:
                for row in rows:
                    yield row

    def _is_interrupted(self) -> bool:
        return self.stopped == "interrupt"

    async def _plan_case(self, case: AnyCase) -> list[MeasureRow]:
        """All models on a case together, so that its own pictures are decoded once for all of them."""
        rows = []
        for model, seed in self.setup.models_and_seeds():
            measurable = [] if self.stopped else await self._measurable(case, model, seed)
            planned = [one for each in measurable if (one := self._planned(*each)) is not None]
            if planned:
                key = f"{case.id}\n{model.name}\n{seed}"
                self._waiting[key] = planned
                rows.append(MeasureRow(key=key, jobs=tuple(p.job for p in planned)))
            self.progress.laid_out_to_measure += 1
        return rows

    async def rehearse(self) -> None:
        """Check on a few outputs, one for each part, that what is measured now is what is on record. Refuses what
        changed, before anything is paid for."""
        for case, model, seed in self.on_record.examples(self.setup.dataset, self.setup.models, [""]):
            for purpose, measured, metric, pictures in await self._measurable(case, model, seed):
                self.on_record.check_measured(purpose, self._request(purpose, measured, metric, pictures))

    async def _measurable(
        self, case: AnyCase, model: AnyModel, seed: int
    ) -> list[tuple[Purpose, Measured, Metric, Mapping[str, Path]]]:
        """What is measured of an output, by what, and on which pictures."""
        wanted = self._wanted(case)
        paths = {p.name: self.setup.dataset.path(p) for m in wanted for p in m.pictures.values()}
        outputs = await self.pictures.gather(case, model, [p for m in wanted for p in m.pictures.values()], seed)
        if outputs is None:
            return []
        shown = [picture for path in outputs if isinstance(picture := self.pictures.outputs[path], SentPicture)]
        place = {"case": case.id, "model": model.name, "judge": "", "seed": seed}
        place["output"] = content_of(picture.original.sha256 for picture in shown)
        measurable: list[tuple[Purpose, Measured, Metric, Mapping[str, Path]]] = []
        for measured in wanted:
            pictures = {"output": outputs[0], **{name: paths[p.name] for name, p in measured.pictures.items()}}
            for way, protocol in self._ways(measured, pictures):
                metric = self._metric(measured, way)
                if metric is not None:
                    purpose = Purpose(**place, part=measured.part, protocol=protocol)
                    measurable.append((purpose, measured, metric, pictures))
        return measurable

    def _ways(self, measured: Measured, pictures: Mapping[str, Path]) -> list[tuple[str, str]]:
        """Under which protocols it is measured (by which variant, for which purpose): once where both agree."""
        if measured.protocol:
            return [(measured.protocol, measured.protocol)]
        opened = [p for p in self._opened(pictures).values() if isinstance(p, SentPicture)]
        alike = all(decodes_alike(picture.original) for picture in opened)
        variants = [self._metric(measured, protocol) for protocol in self.setup.bench.scoring.protocols]
        if alike and all(metric is not None and not metric.protocol for metric in variants):
            return [(next(iter(self.setup.bench.scoring.protocols)), "")]
        return [(protocol, protocol) for protocol in self.setup.bench.scoring.protocols]

    def _metric(self, measured: Measured, protocol: str) -> Metric | None:
        place = measured.metric, protocol
        if place not in self._metrics:
            reason = why_not_measured(measured.metric, protocol)
            self._metrics[place] = find_metric(measured.metric, protocol) if reason is None else reason
        found = self._metrics[place]
        if isinstance(found, str):
            self.left_out[measured.part] = found
            return None
        return found

    def _opened(self, pictures: Mapping[str, Path]) -> dict[str, SentPicture | Failure]:
        inputs, outputs = self.pictures.inputs, self.pictures.outputs
        return {name: (outputs if name == "output" else inputs)[path] for name, path in pictures.items()}

    def _request(
        self, purpose: Purpose, measured: Measured, metric: Metric, pictures: Mapping[str, Path]
    ) -> dict[str, Any]:
        opened = sorted(self._opened(pictures).items())
        return {
            "metric": metric.id,
            "version": metric.version,
            "protocol": metric.protocol,
            "decoding": purpose.protocol,
            "networks": {name: _weights(name, self.setup.options.dtype) for name in metric.networks},
            "pictures": {n: p.original.sha256 if isinstance(p, SentPicture) else p.detail for n, p in opened},
            "facts": dict(measured.facts),
            **({"code": metric.code} if metric.code else {}),
        }

    def _planned(
        self, purpose: Purpose, measured: Measured, metric: Metric, pictures: Mapping[str, Path]
    ) -> _Planned | None:
        request = self._request(purpose, measured, metric, pictures)
        self.on_record.check_measured(purpose, request)
        self.progress.to_measure += 1
        act = content_key({"kind": "measure", **request})
        again = self.recorder.writer.failed(act) in self.setup.options.retry
        if not again and self.is_settled(act, purpose):
            self.progress.measured += 1
            self.progress.measured_before += 1
            return None
        if act in self._sharing:
            self._sharing[act].purposes.append(purpose)
            return None
        job = Job(
            metric=metric.id,
            protocol=metric.protocol,
            decoding=purpose.protocol,
            # Absolute, because a worker on another node may have another working directory.
            pictures={
                name: str((self.pictures.copies[path] if name == "output" else path).absolute())
                for name, path in pictures.items()
            },
            facts=measured.facts,
            hashes={n: p.original.sha256 for n, p in self._opened(pictures).items() if isinstance(p, SentPicture)},
        )
        self._sharing[act] = _Planned(request, [purpose], job, instead=act if again else "")
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
        for one, value in zip(planned, values, strict=True):
            measurement = Measurement.model_validate(value)
            evidence = _evidence(one.request, measurement)
            if measurement.failure is not None:
                first = one.purposes[0]
                self.progress.fail(f"{first.case} by {first.model}, {first.part}", measurement.failure)
            del self._sharing[evidence.id]
            self.progress.measured += len(one.purposes)
            recording = self.recorder.record((evidence, tuple(one.purposes)), instead=one.instead)
            self._writing.add(asyncio.create_task(recording))
        await self._written(_MOST_UNWRITTEN)

    async def _written(self, most: int) -> None:
        """Wait until at most so many records are on their way to the disk; raises what the disk said."""
        while len(self._writing) > most:
            done, self._writing = await asyncio.wait(self._writing, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()


def _evidence(request: Mapping[str, Any], measurement: Measurement) -> Evidence:
    if measurement.failure is not None:
        return Evidence(kind="measure", request=request, failure=measurement.failure)
    value = measurement.model_dump(mode="json", exclude_defaults=True)
    return Evidence(kind="measure", request=request, reply=orjson.dumps(value).decode())


def _weights(name: str, dtype: str) -> str:
    """A network's weights, and the number format where it is not the usual one."""
    chosen = dtype_of(name, dtype)
    return weights_key(name) if chosen == "float32" else f"{weights_key(name)} {chosen}"
