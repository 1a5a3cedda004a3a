"""What a tour may spend, in calls or in dollars, and the record of every call that was begun: none is begun that does
not fit, and none that was answered is made again."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import ValidationError

from refbench.chat.vlm import VLM, ChatRequest, Pictures
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.record import RefBenchError, content_key
from refbench.runs.disk import disk_error

_BUDGET = re.compile(r"\$?\s*(\d+(?:\.\d+)?)\s*(usd|\$|calls?)?", re.IGNORECASE)


class SpentError(Exception):
    """The next call does not fit into what is left."""


@dataclass(frozen=True)
class Allowance:
    """The most that may be spent: so many calls, or so many dollars; one of the two."""

    calls: int | None = None
    usd: float | None = None

    @classmethod
    def parse(cls, text: str) -> Allowance:
        """From what a user writes: 40calls, 0.10usd, $1."""
        match = _BUDGET.fullmatch(text.strip())
        if match and (match[2] or "").lower().startswith("call") and "." not in match[1]:
            return cls(calls=int(match[1]))
        if match and not (match[2] or "").lower().startswith("call"):
            return cls(usd=float(match[1]))
        raise RefBenchError(f"--budget {text}: write calls or US dollars, for example 40calls or 0.10usd")

    def __str__(self) -> str:
        return f"{self.calls} calls" if self.calls is not None else f"{self.usd:g} usd"


@dataclass
class Purse:
    """The calls of a tour, in a file of its folder. Each is noted before it is sent, with the most that it can cost, so
    that whatever happens to this process counts as spent."""

    path: Path
    allowance: Allowance
    known: dict[str, Evidence] = field(default_factory=dict)
    calls: int = 0
    spent: float = 0.0
    open: dict[str, list[float]] = field(default_factory=dict)
    """By call: the most that each time costs at which nothing came back yet."""

    @classmethod
    def opened(cls, path: Path, allowance: Allowance) -> Purse:
        """With what earlier commands spent in the same folder."""
        purse = cls(path, allowance)
        try:
            lines = path.read_bytes().splitlines() if path.exists() else []
        except OSError as error:
            raise disk_error(error, path) from error
        for line in lines:
            try:
                said = orjson.loads(line)
                if "begun" in said:
                    purse.calls += 1
                    purse.open.setdefault(said["begun"], []).append(float(said["worst_usd"] or 0.0))
                    continue
                evidence = Evidence.model_validate(said)
            except (orjson.JSONDecodeError, ValidationError, TypeError, ValueError, KeyError):
                continue  # a line that was broken off; its call stays counted
            purse._settle(evidence)
        return purse

    @property
    def charged(self) -> float:
        """What is spent, calls of which nothing came back at their most."""
        return self.spent + sum(map(sum, self.open.values()))

    async def ask(self, judge: VLM, request: ChatRequest, pictures: Pictures, repeat: int = 0) -> Evidence:
        """The reply, from the record where there is one. Raises where the call does not fit any more."""
        canonical = judge.canonical(request, repeat)
        key = content_key({"kind": "chat", **canonical})
        if key in self.known:
            return self.known[key]
        worst = judge.worst_cost(request, pictures)
        left = self.allowance.calls is None or self.calls < self.allowance.calls
        pays = self.allowance.usd is None or (worst is not None and self.charged + worst <= self.allowance.usd + 1e-12)
        if not left or not pays:
            raise SpentError
        self.calls += 1
        self.open.setdefault(key, []).append(worst or 0.0)
        self._note(orjson.dumps({"begun": key, "worst_usd": worst}))
        try:
            evidence = await judge.ask(request, pictures, repeat)
        except RefBenchError as error:  # no request would succeed: a key or a model that is refused
            failed = Failure(kind="api_error", detail=str(error))
            self._settle(Evidence(kind="chat", request=canonical, failure=failed))
            raise
        self._settle(evidence)
        self._note(orjson.dumps(evidence.model_dump(mode="json", exclude_none=True)))
        return evidence

    def _settle(self, evidence: Evidence) -> None:
        if worsts := self.open.get(evidence.id):
            worsts.pop()  # times before this one were killed, and stay at their most
        self.spent += evidence.charged_usd
        if evidence.failure is None or evidence.failure.kind == "refused":
            self.known[evidence.id] = evidence

    def _note(self, line: bytes) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise disk_error(error, self.path) from error
