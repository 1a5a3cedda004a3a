"""Interviews: writers, captioners and checkers asked about many things, every reply kept and none paid for twice.

What judging does for scores, this does for everything that is built: captions, instructions, questions, screenings.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from refbench.calls.prices import Budget, BudgetSpentError
from refbench.calls.transport import Transport
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare
from refbench.chat.vlm import VLM
from refbench.evidence import Evidence, Purpose
from refbench.failure import TRANSIENT, Failure
from refbench.record import RefBenchError, clean_text, content_key
from refbench.runs import LedgerWriter
from refbench.runs.disk import write_whole
from refbench.runs.ledger import Recorder
from refbench.runs.run import distinct_evidence

Told = TypeVar("Told")

_QUOTED = 2000
"""Characters of an unusable reply that are quoted back."""


class Interviews:
    """Questions to VLMs, each answered from the record when it has been asked before.

    `folder` keeps the ledger of replies and pictures that had to be re-encoded. The same questions in another order, or
    after a kill, give the same answers, so whatever is built from them is the same too.
    """

    def __init__(
        self, folder: Path, transport: Transport, *, budget: str | None = None, retry: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.asked = 0
        """Calls made by this process."""
        self._ledger = folder / "replies.sqlite"
        self._transport = transport
        self._budget_text = budget
        self._retry = frozenset(retry)
        self._known: dict[str, Evidence] = {}
        self._sent: dict[Path, SentPicture | Failure] = {}
        self._by_hash: dict[str, SentPicture] = {}
        self._coming: dict[str, asyncio.Future[Evidence | Failure]] = {}
        self._lost: str | None = None
        """Why a reply could not be recorded."""

    async def __aenter__(self) -> Self:
        self._writer = LedgerWriter(self._ledger)
        try:
            self.budget = Budget.parse(self._budget_text, self._remember())
        except BaseException:
            self._writer.close()
            raise
        self._recorder = Recorder(self._writer)
        self._recorder.__enter__()
        return self

    def _remember(self) -> float:
        """Read what has been answered before, and return what it cost."""
        spent = 0.0
        for evidence in distinct_evidence([self._ledger]):
            spent += evidence.charged_usd
            known = self._known.get(evidence.id)
            if known is None or known.failure is not None:
                self._known[evidence.id] = evidence
        return spent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.__exit__(kind, error, trace)
        self._writer.__exit__(kind, error, trace)

    async def ask(
        self,
        vlm: VLM,
        about: str,
        part: str,
        said: Sequence[str | Path],
        read: Callable[[str], Told | Failure],
        *,
        tries: int = 2,
        max_tokens: int | None = None,
    ) -> Told | Failure:
        """What `read` makes of the reply to texts and pictures in this order; a reply that it cannot use is quoted
        back with its complaint, and asked for again, `tries` times in all. `about` and `part` file the reply."""
        request = await self._request(said, max_tokens)
        if isinstance(request, Failure):
            return request
        first = request
        told: Told | Failure = Failure(kind="missing_reply")
        for attempt in range(tries):
            purpose = Purpose(case=about, model="", judge=vlm.name, part=part, repeat=attempt)
            evidence = await self._evidence(vlm, request, purpose)
            if isinstance(evidence, Failure):
                return evidence
            if evidence.failure is not None:
                return evidence.failure
            reply = evidence.reply or ""
            told = Failure(kind="unparsable", detail=f"the reply was {evidence.provenance}")
            if not evidence.provenance.startswith("cut off"):
                told = read(reply)
            if not isinstance(told, Failure) or told.kind == "refused":
                return told
            request = _again(first, reply, told)
        return told

    async def _request(self, said: Sequence[str | Path], max_tokens: int | None) -> ChatRequest | Failure:
        parts: list[ChatText | ChatPicture] = []
        for part in said:
            if isinstance(part, str):
                parts.append(ChatText(text=part))
                continue
            sent = await self._picture(part)
            if isinstance(sent, Failure):
                return sent
            parts.append(ChatPicture(sha256=sent.sha256))
        return ChatRequest(parts=tuple(parts), max_tokens=max_tokens)

    async def _picture(self, path: Path) -> SentPicture | Failure:
        sent = self._sent.get(path)
        if sent is None:
            sent = self._sent[path] = await asyncio.to_thread(prepare, path, PicturePolicy(), self._store)
        if isinstance(sent, SentPicture):
            self._by_hash[sent.sha256] = sent
        return sent

    def _store(self, data: bytes, picture_format: str) -> Path:
        path = self.folder / "sent" / f"{hashlib.sha256(data).hexdigest()}.{picture_format}"
        if not path.exists():
            write_whole(path, data)
        return path

    async def _evidence(self, vlm: VLM, request: ChatRequest, purpose: Purpose) -> Evidence | Failure:
        """The evidence for a request: on record, on its way for somebody else, or asked for now."""
        act = content_key({"kind": "chat", **vlm.canonical(request, purpose.repeat)})
        known = self._known.get(act)
        if known is not None and not self._worth_another_try(known):
            self._recorder.link(act, purpose)
            return known
        if act in self._coming:
            self._recorder.link(act, purpose)
            return await asyncio.shield(self._coming[act])
        coming = asyncio.ensure_future(self._call(vlm, request, purpose))
        self._coming[act] = coming
        try:
            evidence = await coming
        finally:
            del self._coming[act]
        if isinstance(evidence, Evidence):
            self._known[act] = evidence
        return evidence

    def _worth_another_try(self, known: Evidence) -> bool:
        kind = known.failure and known.failure.kind
        return kind is not None and (kind in TRANSIENT or kind in self._retry)

    async def _call(self, vlm: VLM, request: ChatRequest, purpose: Purpose) -> Evidence | Failure:
        pictures = {picture.sha256: self._by_hash[picture.sha256] for picture in request.pictures}
        worst = vlm.worst_cost(request, pictures)
        if worst is None and self.budget.cap is not None:
            raise RefBenchError(f"--budget needs the price of {vlm.name}: add ?price=IN,OUT to its spec")
        try:
            held = await self.budget.reserve(worst or 0.0)
        except BudgetSpentError:
            return Failure(kind="budget", detail=f"{self.budget.cap:g} usd do not cover another call")
        limiter = self._transport.limiter(vlm.endpoint or vlm.name)
        async with held, limiter.place():
            if self._lost is not None:
                raise RefBenchError(self._lost)
            evidence = await vlm.ask(request, pictures, purpose.repeat)
            if vlm.endpoint is None:  # the transport has not seen this call
                limiter.answered()
            self.asked += 1
            self.budget.pay(evidence.charged_usd)
            try:
                await self._recorder.record((evidence, (purpose,)))
            except RefBenchError as error:
                self._lost = str(error)  # whoever gets this call's place must not begin another
                raise
            return evidence


def _again(request: ChatRequest, reply: str, complaint: Failure) -> ChatRequest:
    """The same request with the unusable reply and what is wrong with it."""
    template = resources.files("refbench.builders.kit").joinpath("again.txt").read_text("utf-8").strip()
    text = template.replace("{complaint}", clean_text(complaint.detail)).replace("{reply}", clean_text(reply[:_QUOTED]))
    return request.model_copy(update={"parts": (*request.parts, ChatText(text=text))})
