"""Judges that users write: a Python function that is told a prompt and returns text, called in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.calls.functions import (
    digest,
    end_loop,
    finished,
    how_to_call,
    make_object,
    raised,
    source_file,
)
from refbench.calls.identity import identity_of
from refbench.calls.pool import Job, LateError, Pool
from refbench.calls.prices import FREE, Price, price_of
from refbench.chat.vlm import VLM, ChatRequest, ChatText, Pictures, Reply, accounted, evidence_of
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of, judge_options

TIMEOUT_S = 600.0
_LONGEST_REPLY = 4096  # tokens that a reply is taken to have at most where the request says nothing


@dataclass(frozen=True)
class Prompt:
    """What a judge's function is told: texts and pictures (as paths) in order, and the form that is wanted."""

    parts: tuple[str | Path, ...]
    system: str = ""
    max_tokens: int | None = None
    json_schema: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """All texts, one after another."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def pictures(self) -> tuple[Path, ...]:
        return tuple(part for part in self.parts if isinstance(part, Path))


class FunctionVLM(VLM):
    """Any callable of `(prompt, repeat)` or `(prompt)`, sync or async, that returns text, a Failure or a Reply.

    A function cannot be stopped: after `timeout` its thread is left to its fate and another takes its place.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        *,
        identity: Mapping[str, str] | None = None,
        family: str = "",
        price: Price = FREE,
        workers: int = 1,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self.name = name
        self.family = family or family_of(name)
        self.price: Price = price
        self._identity = dict(identity or identity_of(call, ""))
        self._call, _ = how_to_call(call, name, "answer")
        self._timeout = timeout
        self._pool: Pool[None, tuple[Prompt, int], Reply] = Pool(
            [None] * workers, self._answer, end=lambda _: end_loop(), patience=1.0
        )

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        parameters = {key: value for key, value in self._identity.items() if key != "what"}
        return request.canonical("python", self._identity["what"], repeat, parameters)

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        return self.price.cost(request.text_length, request.max_tokens or _LONGEST_REPLY)

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        prompt = Prompt(
            parts=(
                *(request.opening or ()),
                *(part.text if isinstance(part, ChatText) else pictures[part.sha256].path for part in request.parts),
            ),
            system=request.system or "",
            max_tokens=request.max_tokens,
            json_schema=request.json_schema,
        )
        try:
            reply = await self._pool.ask((prompt, repeat), self._timeout)
        except LateError:
            reply = Reply(None, Failure(kind="timeout", detail=f"no reply within {self._timeout:g} s"))
        evidence = evidence_of(self.canonical(request, repeat), reply, self.price)
        return accounted(evidence, self.worst_cost(request, pictures))

    async def close(self) -> None:
        await self._pool.close()

    def _answer(self, place: None, jobs: list[Job[tuple[Prompt, int], Reply]]) -> list[Reply]:
        return [self._one(*job.request) for job in jobs]

    def _one(self, prompt: Prompt, repeat: int) -> Reply:
        try:
            value = finished(self._call(prompt, repeat))
        except (RefBenchError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a user's function raises
            return Reply(None, Failure(kind="api_error", detail=f"the function raised {raised(error)}"))
        if isinstance(value, Reply):
            if isinstance(value.text, str) != isinstance(value.failure, Failure):
                return value
            detail = "the function returned a Reply without exactly one of text and failure"
            return Reply(None, Failure(kind="api_error", detail=detail))
        if isinstance(value, Failure):
            return Reply(None, value)
        if not isinstance(value, str):
            detail = f"the function returned a {type(value).__name__}: return the reply as text"
            return Reply(None, Failure(kind="api_error", detail=detail))
        if not value.strip():
            return Reply(None, Failure(kind="empty_reply", detail="the function returned no text"))
        return Reply(value)


def python_vlm(spec: Spec) -> FunctionVLM:
    """`python:package.module:function` or `python:./file.py:function`; or a factory, called once with the options."""
    options = judge_options(spec)
    source = source_file(spec.what, f"judge {spec.name}")
    version = {"version": options["version"]} if options["version"] else {"source": digest(source)}
    price = options["price"] and price_of(spec.kind, spec.what, options["price"])
    return FunctionVLM(
        spec.name,
        make_object(spec.what, options.others),
        identity={"what": spec.what, **options.others, **version},
        family=options["family"] or "",
        price=price or FREE,
        workers=options["workers"],
        timeout=options["timeout"],
    )
