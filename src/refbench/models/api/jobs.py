"""JobModel: an image model that is handed a request, asked until it has been done, and fetched from.

A queue API is a `WireFormat` whose `job` says how its replies are read; `bfl.py` is one. A job's id is on record before
it is asked for the first time, and is asked for again by whoever wants the same picture: after a lost connection, a
deadline, a kill. Only while a request is on its way, and before the provider's reply is written down, can a kill lose a
payment, of one job for each request in flight; the next command says so and counts it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

from refbench.calls.errors import read_error
from refbench.calls.said import at
from refbench.calls.transport import PICTURES, Answer, Call, CallFailedError, Transport
from refbench.failure import Failure
from refbench.models.api.job_journal import Job, JobJournal
from refbench.models.api.model import ApiModel, Link, WireFormat, WireReply, WireRequest
from refbench.models.api.pictures import checked
from refbench.models.api.servers import under
from refbench.models.model import Commission, Painted, when_recorded
from refbench.record import RefBenchError
from refbench.specs import Spec, model_options

_SETTLING = 10.0  # seconds after handing in within which a provider may not know its own job yet
_EXPIRED = (401, 403, 404, 410)


@dataclass(frozen=True)
class HandedIn:
    """What the provider says when it has taken a job."""

    id: str
    url: str = ""
    cost_usd: float | None = None


@dataclass(frozen=True)
class JobState:
    """What the provider says of a job: it goes on, it has ended with a reply, or there is no such job."""

    state: Literal["pending", "ended", "unknown"]
    reply: WireReply = WireReply()  # noqa: RUF009 - it is frozen
    word: str = ""


@dataclass(frozen=True)
class JobFormat:
    """How the replies of a queue API are read."""

    taken: Callable[[Any], HandedIn | None]
    """None for a reply that names no job."""
    state: Callable[[Any], JobState | None]
    """None for a reply that tells no state."""
    address: Callable[[str, str], str]
    """Where a job is asked for, from the base address and its id, where the provider's reply does not say."""
    own_hosts: tuple[str, ...] = ()
    """Hosts of the provider, which may be sent its key."""
    link_minutes: int = 10
    """How long the link to a picture lasts."""


class JobModel(ApiModel):
    """One image model behind a queue. `jobs` is shared by all such models of a run."""

    def __init__(
        self, spec: Spec, wire: WireFormat, transport: Transport, scratch: Path | None, jobs: JobJournal | None = None
    ) -> None:
        super().__init__(spec, wire, transport, scratch)
        assert wire.job is not None, "a format of jobs"
        options = model_options(spec)
        self.job = wire.job
        self.jobs = jobs or JobJournal()
        self.deadline: float = options["deadline"]
        self.interval: float = options["interval"]

    async def _deliver(self, request: WireRequest, commission: Commission) -> Painted:
        try:
            act = await asyncio.to_thread(_digest, request)
        except OSError as error:  # a picture that vanished between preparing and sending
            return Painted(failure=Failure(kind="unreadable_picture", detail=str(error)))
        started, lost = time.monotonic(), 0
        job = self.jobs.take(act)
        notes = {**request.notes, **({"job": "handed in by an earlier command"} if job is not None else {})}
        if job is None:
            lost = self.jobs.lost(act)
            handed_in = await self._hand_in(request, act)
            if isinstance(handed_in, Painted):
                return self._told(handed_in, notes, lost)
            job = handed_in
        try:
            painted = await self._collected(job, commission, self.deadline - (time.monotonic() - started))
        except BaseException:
            self.jobs.give_back(job)
            raise
        seconds = round(time.monotonic() - started, 4) if job.since else None
        return self._told(replace(painted, seconds=seconds), notes, lost)

    async def _hand_in(self, request: WireRequest, act: str) -> Job | Painted:
        """The job as the provider took it, or why it did not. Nothing is awaited between its reply and our record."""
        job = self.jobs.intend(act, self.name)
        headers = {"Content-Type": request.content_type, **self.account.headers}
        call = Call(self.endpoint, request.url, headers, lambda: request.body, len(request.body))
        try:
            answer = await self.transport.send(replace(call, secrets=self.account.secrets, once=True))
        except CallFailedError as error:
            if not error.served:
                self.jobs.ended(job, "not taken")
            else:  # it stays without an id, and the next command tells that it may have been paid for
                self.jobs.give_back(job)
            return Painted(failure=error.failure, worst_usd=self.traits.price if error.served else None)
        body = answer.said()
        taken = self.job.taken(body) if 200 <= answer.status < 300 else None
        if taken is not None:
            self.jobs.submitted(job, taken.id, taken.url, taken.cost_usd)
            return job
        self.jobs.ended(job, f"HTTP {answer.status}")
        if 200 <= answer.status < 300:
            failure = Failure(kind="api_error", detail="the reply names no job: whether it is paid for is not known")
            return Painted(failure=failure, worst_usd=self.traits.price)
        if answer.status == 402:
            words = read_error(answer.status, body, answer.secrets).words
            raise RefBenchError(
                f"--model {self.name}: no credit is left at {self.base_url} ({words}): add some, and run the same "
                "command again"
            )
        return Painted(failure=self._read(answer, request).failure)

    async def _collected(self, job: Job, commission: Commission, seconds: float) -> Painted:
        """What became of a job. It is given back where it may still be done, so that nobody hands it in again."""
        try:
            async with asyncio.timeout(seconds):
                ended = await self._ended(job)
                if isinstance(ended, JobState):
                    return await self._fetched_from(job, ended, commission)
        except TimeoutError:
            ended = Failure(
                kind="timeout",
                detail=f"job {job.id[:100]} is not done after {self.deadline:g} s: the next run asks for it again, "
                "without a new payment",
            )
        self.jobs.give_back(job)
        return Painted(failure=ended, worst_usd=job.cost_usd)

    async def _ended(self, job: Job) -> JobState | Failure:
        """The state in which a job ended; a Failure where that could not be learnt."""
        while True:
            state = await self._state(job)
            if isinstance(state, Failure) or state.state == "ended":
                return state
            if state.state == "unknown" and time.monotonic() - job.since > min(_SETTLING, self.deadline / 2):
                return state
            await asyncio.sleep(self.interval)

    async def _state(self, job: Job) -> JobState | Failure:
        call = self._look(job)
        if isinstance(call, Failure):
            return call
        try:
            answer = await self.transport.send(call)
        except CallFailedError as error:
            return error.failure
        state = self.job.state(answer.said())
        if state is not None:
            return state
        if answer.status == 404:
            return JobState("unknown", word="HTTP 404")
        problem = read_error(answer.status, answer.said(), answer.secrets)
        where = f"--model {self.name} ({self.wire.kind} {self.base_url})"
        problem.stop_if_key_refused(where, self.account.key_variables)
        return Failure(kind="api_error", detail=f"asked for job {job.id[:100]}: {problem.words}")

    def _look(self, job: Job) -> Call | Failure:
        """The call that asks for a job. Its address is the provider's word: only hosts of its own are sent the key."""
        try:
            url = urljoin(f"{self.base_url}/", job.url or self.job.address(self.base_url, job.id))
            there, here = urlsplit(url), urlsplit(self.base_url)
            hosts = there.hostname or "", here.hostname or ""
        except ValueError:
            return Failure(kind="api_error", detail=f"the address of job {job.id[:100]} is no URL")
        own = all(under(host, self.job.own_hosts) for host in hosts) and there.scheme in ("https", here.scheme)
        keyed = own or there[:2] == here[:2]
        if not keyed and not under(hosts[0], self.link_hosts):
            detail = f"job {job.id[:100]} is to be asked for at {hosts[0][:100]}, which is not the provider's host"
            return Failure(kind="api_error", detail=detail)
        return Call(self.endpoint, url, self.account.headers if keyed else {}, bytes, 0, "GET", self.account.secrets)

    async def _fetched_from(self, job: Job, ended: JobState, commission: Commission) -> Painted:
        reply, notes = ended.reply, {"job_id": job.id[:200], **ended.reply.notes}
        if ended.state == "unknown":
            self.jobs.ended(job, "unknown")
            detail = f"the provider knows no job {job.id[:100]} ({ended.word}): the next run hands it in anew"
            return Painted(failure=Failure(kind="api_error", detail=detail), worst_usd=job.cost_usd, provenance=notes)
        if reply.failure is not None:
            self.jobs.ended(job, str(reply.failure)[:200])
            return Painted(failure=reply.failure, worst_usd=job.cost_usd, provenance=notes)
        wanted = commission.n_pictures
        came: list[bytes | Failure | Literal["expired"]] = await self._come(reply.pictures, wanted, self._picture)
        if any(answer == "expired" for answer in came):  # ask once more: some providers sign a new link each time
            again = await self._state(job)
            fresh = again.reply.pictures if isinstance(again, JobState) else ()
            came = await self._come(fresh, wanted, self._picture) or came
        if any(answer == "expired" for answer in came):
            self.jobs.ended(job, "expired")
            detail = (
                f"job {job.id[:100]} was done, but the link to its picture has expired (it lasts "
                f"{self.job.link_minutes} minutes): the picture is paid for and lost, the next run makes it anew"
            )
            lost = Failure(kind="missing_output", detail=detail)
            return Painted(failure=lost, cost_usd=self._price(job, len(reply.pictures)), provenance=notes)
        data = [one for one in came if isinstance(one, bytes | Failure)]
        pictures, failure = checked(data, wanted, self.settings["extra"], named=len(reply.pictures))
        if pictures:
            when_recorded(lambda: self.jobs.ended(job, "recorded"))
        elif failure is not None and failure.kind == "api_error":
            self.jobs.give_back(job)  # it is there, and could not be fetched this time
        else:
            self.jobs.ended(job, str(failure)[:200])
        return Painted(
            pictures=pictures, failure=failure, cost_usd=self._price(job, len(reply.pictures)), provenance=notes
        )

    async def _picture(self, picture: str | Link | Failure, left: int) -> bytes | Failure | Literal["expired"]:
        """A picture of the result. Links lead to a store of files, which is never sent the key."""
        if not isinstance(picture, Link):
            return await self._bytes(picture, left)
        url = self._address(picture)
        if isinstance(url, Failure):
            return url
        call = Call(self.endpoint, url, {}, bytes, 0, "GET", self.account.secrets, PICTURES, left)
        try:
            answer: Answer = await self.transport.send(call)
        except CallFailedError as error:
            return Failure(kind="api_error", detail=f"the picture could not be fetched: {error.failure.detail}")
        if answer.status in _EXPIRED:
            return "expired"
        return self._kept(answer)

    def _price(self, job: Job, made: int) -> float | None:
        each = self.traits.price
        return job.cost_usd if job.cost_usd is not None else None if each is None else each * made

    def _told(self, painted: Painted, notes: Mapping[str, str], lost: int) -> Painted:
        """The result with what was noted on the way, and requests before it that may have been paid for as well."""
        provenance = {**notes, **painted.provenance}
        if not lost:
            return replace(painted, provenance=provenance)
        provenance["lost"] = f"{lost} before it may be paid for too: a command ended while the request was on its way"
        worst = (painted.worst_usd or painted.cost_usd or 0.0) + lost * (self.traits.price or painted.cost_usd or 0.0)
        return replace(painted, provenance=provenance, worst_usd=worst)


def _digest(request: WireRequest) -> str:
    """One hash for what is asked of whom, whenever it is asked."""
    digest = hashlib.sha256(f"{request.url}\n".encode())
    for piece in request.body:
        digest.update(piece)
    return digest.hexdigest()


def words_of(body: Any, *names: str) -> str:
    """What a provider says about a job that failed, in short."""
    there = at(body, *names)
    return "" if there in (None, "", {}, []) else str(there)[:400]
