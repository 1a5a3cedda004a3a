"""The journal of jobs: requests for a picture that were handed in to a provider, and under which id they can be asked
for, so that no retry, kill or resumed run pays for one twice.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from refbench.runs.journal import Entry, JournalFile, beside
from refbench.runs.ledger import run_of


@dataclass
class Job:
    """A job that is not known to have ended. Without an id it is not known whether the provider ever got it."""

    tag: str
    act: str
    """What is asked for, as a hash of the request."""
    id: str = ""
    url: str = ""
    """Where the provider says it is to be asked for."""
    cost_usd: float | None = None
    since: float = 0.0
    """When this process handed it in, on the monotonic clock; 0 for a job of an earlier command."""


class _Intended(BaseModel):
    act: str


class _Submitted(BaseModel):
    """A line of the journal, checked: runs come from elsewhere too, and what a job costs counts for a budget."""

    id: str
    url: str
    cost_usd: float | None = Field(ge=0, allow_inf_nan=False, strict=True)


class JobJournal:
    """RUN/jobs.jsonl, or the like beside a shard's ledger: a line for intended, submitted and ended, never a key.

    Opened with the first job, when the run is held. Those of other shards are read too: who goes on under another
    sharding finds their jobs. Without a ledger it lasts as long as the process.
    """

    def __init__(self, ledger: Path | None = None) -> None:
        self._file = JournalFile(beside(ledger, "jobs")) if ledger is not None else None
        self._open: dict[str, Job] = {}
        self._others: dict[str, Job] = {}
        self._taken: set[str] = set()
        """Jobs that this process looks after already: an equal request is another job."""
        self._read = False

    def take(self, act: str) -> Job | None:
        """A job of an earlier command, or one given up on here, that was handed in for the same request."""
        job = next((job for job in self._waiting(act) if job.id), None)
        if job is not None:
            self._taken.add(job.tag)
            return job
        other = next((job for job in self._others.values() if job.act == act and job.id), None)
        if other is None:
            return None
        del self._others[other.tag]
        job = self.intend(act, "of another shard")
        self._append(job.tag, "submitted", id=other.id, url=other.url, cost_usd=other.cost_usd)
        return job

    def lost(self, act: str) -> int:
        """How many times the same request was on its way when a command ended: nobody knows whether it arrived. They
        are told once, and then forgotten."""
        lost = [job for job in self._waiting(act) if not job.id]
        for job in lost:
            self.ended(job, "not known whether it arrived")
        return len(lost)

    def give_back(self, job: Job) -> None:
        """It goes on at the provider; whoever asks for the same again finds it."""
        self._taken.discard(job.tag)

    def intend(self, act: str, model: str) -> Job:
        """Write down a job that is about to be handed in."""
        tag = secrets.token_hex(8)
        self._append(tag, "intended", act=act, model=model)
        self._taken.add(tag)
        return self._open[tag]

    def submitted(self, job: Job, number: str, url: str, cost_usd: float | None) -> None:
        self._append(job.tag, "submitted", id=number, url=url, cost_usd=cost_usd)
        job.since = time.monotonic()

    def ended(self, job: Job, word: str) -> None:
        if job.tag in self._open:
            self._append(job.tag, "ended", word=word)

    def _waiting(self, act: str) -> list[Job]:
        self._open_file()
        return [job for job in self._open.values() if job.act == act and job.tag not in self._taken]

    def _open_file(self) -> None:
        if not self._read and self._file is not None:
            self._read = True
            self._file.read(lambda entry, place: _enter(self._open, entry))
            root = run_of(self._file.path)
            for path in sorted({*root.glob("jobs.jsonl"), *root.glob("shards/*.jobs.jsonl")} - {self._file.path}):
                JournalFile(path).read(lambda entry, place: _enter(self._others, entry))

    def _append(self, tag: str, event: str, **more: Any) -> None:
        self._open_file()
        entry: Entry = {"job": tag, "event": event, **more}
        if self._file is not None:
            self._file.append(entry)
        _enter(self._open, entry)


def _enter(jobs: dict[str, Job], entry: Entry) -> None:
    """What a line says, among the jobs that are open."""
    tag, event = entry["job"], entry["event"]
    if event == "intended":
        jobs[tag] = Job(tag, _Intended.model_validate(entry).act)
    elif event == "submitted":
        job, told = jobs[tag], _Submitted.model_validate(entry)
        job.id, job.url, job.cost_usd = told.id, told.url, told.cost_usd
    else:
        del jobs[tag]
