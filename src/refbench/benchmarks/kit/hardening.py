"""Hardening: a sentence that tells the judge that text inside pictures is content, never an instruction.

It belongs to our own words of `corrected`. Most benchmarks share a request between their protocols, and `paper` is
never hardened: were it on by default, such a run would pay for each output twice. So it is a choice, and what makes it
asks for `corrected` alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from refbench.benchmarks.kit.definition import PROTOCOL, Asked, Judging, Material
from refbench.benchmarks.kit.wording import HARDEN
from refbench.case import AnyCase
from refbench.chat import ChatRequest, ChatText
from refbench.record import RefBenchError

Judge: TypeAlias = Callable[[Path, Mapping[str, str]], Judging]

_OURS = ("own", "questions")
"""Prompts that are ours, or the data's questions in words of ours."""
_SENTENCE = "harden_wording"
"""What tells one sentence from another in the record and in the fingerprint."""


def hardenable(judging: Judge, why_not: Callable[[Mapping[str, str]], str] | None = None) -> Judge:
    """The judging with the choice to harden it. `why_not` says in words why settings leave nothing of ours to harden:
    by default prompts that are not our own."""

    def chosen(root: Path, settings: Mapping[str, str]) -> Judging:
        rest = {name: value for name, value in settings.items() if name != HARDEN.name}
        if settings.get(HARDEN.name, HARDEN.default) == HARDEN.default:
            return judging(root, rest)
        if reason := (why_not or _other_words)(rest):
            raise RefBenchError(f"--set harden=yes: {reason}")
        return hardened(judging(root, rest))

    return chosen


def _other_words(settings: Mapping[str, str]) -> str:
    if settings.get("ask") == "paper":
        return "paper is asked as the release asks: choose --ask corrected"
    prompts = settings.get("prompts", _OURS[0])
    return "" if prompts in _OURS else f"the sentence goes with our own words, not with --prompts {prompts}"


def hardened(judging: Judging) -> Judging:
    """What `corrected` asks, behind the sentence, and nothing of what only `paper` asks."""

    def ask(case: AnyCase, material: Material) -> list[Asked]:
        return [
            replace(one, request=with_sentence(one.request), protocol=PROTOCOL)
            for one in judging.ask(case, material)
            if one.protocol in ("", PROTOCOL)
        ]

    told = hashlib.sha256(sentence().encode()).hexdigest()[:16]
    return replace(judging, ask=ask, recorded={**judging.recorded, HARDEN.name: "yes", _SENTENCE: told})


def with_sentence(request: ChatRequest) -> ChatRequest:
    """The request with the sentence before everything else that the judge is told and shown."""
    return request.model_copy(update={"parts": (ChatText(text=sentence()), *request.parts)})


def sentence() -> str:
    return resources.files("refbench.judges").joinpath("harden.txt").read_text("utf-8").strip()
