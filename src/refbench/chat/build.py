"""From a spec to a VLM."""

from __future__ import annotations

import difflib
from pathlib import Path

from refbench.calls import Transport
from refbench.chat.anthropic import ANTHROPIC
from refbench.chat.gemini import GEMINI
from refbench.chat.http import HttpVLM
from refbench.chat.local import LocalVLM
from refbench.chat.openai import OPENAI
from refbench.chat.provider import Provider
from refbench.chat.replay import ReplayVLM, read_replies
from refbench.chat.vlm import VLM
from refbench.record import RefBenchError
from refbench.specs import Spec

PROVIDERS: dict[str, Provider] = {provider.kind: provider for provider in (OPENAI, GEMINI, ANTHROPIC)}
KINDS = (*PROVIDERS, "local", "replay")


def make_vlm(spec: Spec, transport: Transport) -> VLM:
    """The VLM that a spec names; what is missing (a key, an address) is said here, before anything is spent."""
    if spec.kind in PROVIDERS:
        return HttpVLM(spec, PROVIDERS[spec.kind], transport)
    if spec.kind == "local":
        return LocalVLM(spec)
    if spec.kind == "replay":
        return ReplayVLM(spec, read_replies(Path(spec.what)))
    near = difflib.get_close_matches(spec.kind, KINDS, n=1)
    hint = f"did you mean {near[0]}:{spec.what}?" if near else f"there are {', '.join(KINDS)}"
    raise RefBenchError(f"no judge is of the kind {spec.kind!r}: {hint}")
