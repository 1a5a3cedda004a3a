"""Task, Outcome, Executor: what is computed for many rows, what came of one row, and who computes.

Nothing here knows whether threads, processes or a cluster do the work.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, Self, TypeAlias

from pydantic import Field, JsonValue, model_validator

from refbench.failure import Failure
from refbench.machine import threads
from refbench.record import Record, RefBenchError


class Row(Protocol):
    """One small record to work on: paths and keys, never pixels. Its class is importable wherever workers run."""

    @property
    def key(self) -> str: ...


Rows: TypeAlias = Iterable[Row] | AsyncIterable[Row]


FLUSH = 0.05
"""Seconds that the first row of a chunk waits for the others."""


class Resources(Record):
    """What a task asks for. `gpus` is the share of a GPU that each of its workers takes."""

    workers: Annotated[int, Field(ge=1)] | None = None
    """None: as many as the executor has; on one machine one alone when the task needs a GPU."""
    gpus: Annotated[float, Field(ge=0)] = 0.0


class Task(Record):
    """`factory(**args)` is made once in each worker and called with lists of up to `chunk` rows.

    It gives back a list with one value or Failure for each row, in their order.
    """

    name: str
    factory: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
    """package.module:Class"""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    chunk: Annotated[int, Field(ge=1)] = 1
    flush: Annotated[float, Field(gt=0)] = FLUSH
    """Seconds after which a chunk that is not full goes on its way: more where full batches are worth waiting for."""
    resources: Resources = Resources()
    threads: Annotated[int, Field(ge=1)] = Field(default_factory=threads)
    """Threads that a worker computes with: those of the machine that asks, wherever the worker runs, because sums that
    are split otherwise are rounded otherwise."""
    isolated: bool = False
    """In processes of their own, so that a crash of native code costs one row and not the run."""
    retries: Annotated[int, Field(ge=0)] = 1
    """How often a row that was alone when its worker died is tried again before it is blamed."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds for one chunk, loading not counted."""

    @model_validator(mode="after")
    def _can_be_stopped(self) -> Self:
        if self.timeout is not None and not self.isolated:
            raise RefBenchError(f"task {self.name}: a thread cannot be stopped, so timeout needs isolated=True")
        return self


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one row: a value, or the Failure that says why there is none."""

    key: str
    value: Any = None
    failure: Failure | None = None


class Executor(Protocol):
    """Runs tasks. Pulls rows lazily, yields unordered, and never has more than a few chunks in flight."""

    def run(self, task: Task, rows: Rows) -> AsyncGenerator[Outcome, None]:
        """One Outcome for each row. Closing the iterator early (`contextlib.aclosing`) stops the workers.

        A task that cannot be made at all raises RefBenchError, once.
        """
        ...

    def close(self) -> None:
        """Give back what is held from one run to the next, as the connection to a cluster. No run is going on."""
        ...
