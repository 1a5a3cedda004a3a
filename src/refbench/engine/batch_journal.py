"""The journal of batches: what was handed in to a provider and has not been recorded yet, safe from any kill."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from refbench.chat.vlm import VLM, BatchCalls
from refbench.engine.judging import Planned
from refbench.evidence import Purpose
from refbench.record import RefBenchError
from refbench.runs.disk import disk_error


@dataclass
class OpenBatch:
    """A batch that has not ended. Without `ids` it is not known whether the provider ever got it."""

    tag: str
    place: tuple[str, str, str]
    worst_usd: float
    time: float
    acts: frozenset[str]
    offset: int
    ids: tuple[str, ...] = ()


class BatchJournal:
    """RUN/batches.jsonl, or the like beside a shard's ledger: a line for intended, submitted and ended, never a key.

    Read and written only by whoever holds the ledger. A line that a kill cut short counts for nothing: what it
    intended was not sent yet, and what it reported can be found out again.
    """

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name("batches.jsonl" if ledger.stem == "ledger" else f"{ledger.stem}.batches.jsonl")
        self.open: dict[str, OpenBatch] = {}
        self.known: set[str] = set()
        """The provider's ids of all batches there ever were."""
        self._size = 0
        if not self.path.exists():
            return
        try:
            with self.path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        self._take(orjson.loads(line), len(line))
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise RefBenchError(f"{self.path} cannot be read ({error}): restore it from a copy of the run") from error

    @property
    def outstanding(self) -> int:
        """How many requests are with the providers."""
        return sum(len(batch.acts) for batch in self.open.values())

    def holds(self, act: str) -> bool:
        """Whether an act is in a batch that has not ended: it is not to be handed in again."""
        return any(act in batch.acts for batch in self.open.values())

    def intend(
        self,
        judge: VLM,
        place: tuple[str, str, str],
        calls: Sequence[tuple[Planned, Sequence[Purpose]]],
        worst_usd: float,
    ) -> OpenBatch:
        """Write down a batch that is about to be handed in, with all that its results will be recorded as."""
        tag = secrets.token_hex(16)
        acts = {}
        for call, purposes in calls:
            request = judge.canonical(call.request, call.number)
            acts[call.act] = {"request": request, "for": [p.model_dump(exclude_defaults=True) for p in purposes]}
        again = [call.act for call, _ in calls if call.instead]
        more = {"again": again} if again else {}
        self._append(tag, "intended", judge=judge.name, place=place, worst_usd=worst_usd, acts=acts, **more)
        return self.open[tag]

    def submitted(self, batch: OpenBatch, ids: Sequence[str]) -> None:
        self._append(batch.tag, "submitted", ids=ids)

    def ended(self, batch: OpenBatch, word: str) -> None:
        self._append(batch.tag, "ended", word=word)

    def asked(self, batch: OpenBatch) -> dict[str, tuple[dict[str, Any], tuple[Purpose, ...]]]:
        """What a batch asks and what for, by act; read again, because it may be much and wait for a day."""
        acts = self._intended(batch)["acts"]
        return {act: (entry["request"], tuple(Purpose(**p) for p in entry["for"])) for act, entry in acts.items()}

    def all_asked(self) -> dict[str, tuple[dict[str, Any], tuple[Purpose, ...]]]:
        """The same of all batches that have not ended."""
        return {act: asked for batch in self.open.values() for act, asked in self.asked(batch).items()}

    def again(self, batch: OpenBatch) -> frozenset[str]:
        """Those of its acts that were asked for once more: their results retire what is on record."""
        return frozenset(self._intended(batch).get("again", ()))

    def _intended(self, batch: OpenBatch) -> dict[str, Any]:
        with self.path.open("rb") as file:
            file.seek(batch.offset)
            entry: dict[str, Any] = orjson.loads(file.readline())
        return entry

    def _append(self, tag: str, event: str, **more: Any) -> None:
        entry = {"batch": tag, "event": event, "time": round(time.time(), 3), **more}
        line = orjson.dumps(entry) + b"\n"
        try:
            with self.path.open("r+b" if self.path.exists() else "w+b") as file:
                file.truncate(self._size)  # what a kill cut short
                file.seek(self._size)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise disk_error(error, self.path) from error
        self._take(entry, len(line))

    def _take(self, entry: dict[str, Any], length: int) -> None:
        tag, event = entry["batch"], entry["event"]
        if event == "intended":
            kind, base_url, model = entry["place"]
            place, acts = (kind, base_url, model), frozenset(entry["acts"])
            self.open[tag] = OpenBatch(tag, place, entry["worst_usd"], entry["time"], acts, self._size)
        elif event == "submitted":
            self.open[tag].ids = tuple(entry["ids"])
            self.known.update(entry["ids"])
        else:
            del self.open[tag]
        self._size += length


def place_of(calls: BatchCalls) -> tuple[str, str, str]:
    """Kind, address and model: a judge that is the same can collect a batch, whatever it is called."""
    return calls.kind, calls.base_url, calls.model
