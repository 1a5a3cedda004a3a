"""The journal of batches: what was handed in to a provider and has not been recorded yet, safe from any kill."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from refbench.chat.vlm import VLM, BatchCalls
from refbench.engine.judging import Planned
from refbench.evidence import Purpose
from refbench.runs.journal import JournalFile, beside


class _Asked(BaseModel):
    request: dict[str, Any]
    purposes: tuple[Purpose, ...] = Field(alias="for")


class _Intended(BaseModel):
    """A line of the journal, checked: runs come from elsewhere too, and what a batch may cost counts for a budget."""

    place: tuple[str, str, str]
    worst_usd: float = Field(ge=0, allow_inf_nan=False, strict=True)
    time: float
    acts: dict[str, _Asked]
    again: frozenset[str] = frozenset()


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
    """RUN/batches.jsonl, or the like beside a shard's ledger: a line for intended, submitted and ended, never a key."""

    def __init__(self, ledger: Path) -> None:
        self._file = JournalFile(beside(ledger, "batches"))
        self.path = self._file.path
        self.open: dict[str, OpenBatch] = {}
        self.known: set[str] = set()
        """The provider's ids of all batches there ever were."""
        self._file.read(self._take)

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
        return {act: (asked.request, asked.purposes) for act, asked in self._intended(batch).acts.items()}

    def all_asked(self) -> dict[str, tuple[dict[str, Any], tuple[Purpose, ...]]]:
        """The same of all batches that have not ended."""
        return {act: asked for batch in self.open.values() for act, asked in self.asked(batch).items()}

    def again(self, batch: OpenBatch) -> frozenset[str]:
        """Those of its acts that were asked for once more: their results retire what is on record."""
        return self._intended(batch).again

    def _intended(self, batch: OpenBatch) -> _Intended:
        return _Intended.model_validate(self._file.line_at(batch.offset))

    def _append(self, tag: str, event: str, **more: Any) -> None:
        self._take(*self._file.append({"batch": tag, "event": event, **more}))

    def _take(self, entry: dict[str, Any], offset: int) -> None:
        tag, event = entry["batch"], entry["event"]
        if event == "intended":
            intended = _Intended.model_validate(entry)
            acts = frozenset(intended.acts)
            self.open[tag] = OpenBatch(tag, intended.place, intended.worst_usd, intended.time, acts, offset)
        elif event == "submitted":
            self.open[tag].ids = tuple(map(str, entry["ids"]))
            self.known.update(self.open[tag].ids)
        else:
            del self.open[tag]


def place_of(calls: BatchCalls) -> tuple[str, str, str]:
    """Kind, address and model: a judge that is the same can collect a batch, whatever it is called."""
    return calls.kind, calls.base_url, calls.model
