"""The worker that measures: networks loaded once, a chunk's pictures decoded once; and how workers are laid out."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from refbench.engine.workers.task import Resources
from refbench.machine import cores
from refbench.metrics import register_from
from refbench.metrics.measure import Job, Measurement, Measurer
from refbench.networks import network_info

_CHUNK = 8
"""Outputs whose pictures are in memory at once, for each worker."""
_GPU_CHUNK, _GPU_BATCH, _AT_A_GPU = 64, 128, 3
_FLUSH = 2.0
"""Seconds to wait for a full chunk: half-empty batches took three times as long on a GPU."""
_MOST_PROCESSES = 4
"""Each holds its own copy of the small networks."""


Layout: TypeAlias = Callable[[str, Sequence[str], bool], dict[str, Any]]
"""From the device, the networks and whether code is not ours to the settings of the task."""


@dataclass(frozen=True)
class MeasureRow:
    """What a worker gets: the metrics of one output."""

    key: str
    jobs: tuple[Job, ...]


def any_large(networks: Sequence[str]) -> bool:
    return any("torch" in network_info(name).needs for name in networks)


def spread(devices: Sequence[str], networks: Sequence[str], *, foreign: bool) -> dict[str, Any]:
    """How the work is laid out.

    On GPUs threads share each device's networks, some decoding while one computes. On a CPU, native code of
    networks and code that is not ours may crash and has processes of its own: several where networks are small,
    one where they are large and use all cores anyway.
    """
    if devices != ["cpu"]:
        resources = Resources(workers=_AT_A_GPU * len(devices))
        return {"chunk": _GPU_CHUNK, "flush": _FLUSH, "resources": resources}
    workers = 1 if any_large(networks) else min(_MOST_PROCESSES, cores())
    resources = Resources(workers=workers)
    return {"chunk": _CHUNK, "flush": _FLUSH, "isolated": foreign or bool(networks), "resources": resources}


def spread_over(nodes: int, gpus: Resources) -> Layout:
    """How the work is laid out over a cluster: a worker a core, a node where networks are large, or a share of GPUs."""

    def layout(device: str, networks: Sequence[str], foreign: bool) -> dict[str, Any]:
        if device != "cpu":
            return {"chunk": _GPU_CHUNK, "flush": _FLUSH, "resources": gpus}
        resources = Resources(workers=nodes) if any_large(networks) else Resources()
        return {"chunk": _CHUNK, "flush": _FLUSH, "isolated": foreign or bool(networks), "resources": resources}

    return layout


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
            self._measurer = Measurer(device, dtype, batch=_GPU_BATCH, decoders=cores())

    def __call__(self, rows: Sequence[MeasureRow]) -> list[list[Measurement]]:
        measured = iter(self._measurer([job for row in rows for job in row.jobs]))
        return [[next(measured) for _ in row.jobs] for row in rows]
