"""From a spec to a VLM."""

from __future__ import annotations

import importlib
from pathlib import Path

from refbench.calls import Transport
from refbench.chat.http import HttpVLM
from refbench.chat.provider import Provider
from refbench.chat.vlm import VLM
from refbench.record import RefBenchError
from refbench.specs import JUDGE_PLUG_INS, JUDGES, Spec, nearest, plug_in, plug_ins

_PROVIDERS = ("openai", "gemini", "anthropic")


def make_vlm(spec: Spec, transport: Transport) -> VLM:
    """The VLM that a spec names; what is missing (a key, an address) is said here, before anything is spent."""
    if spec.kind in _PROVIDERS:  # here and below: what is loaded is what was asked for
        provider: Provider = getattr(importlib.import_module(f"refbench.chat.{spec.kind}"), spec.kind.upper())
        return HttpVLM(spec, provider, transport)
    if spec.kind == "local":
        from refbench.chat.local import LocalVLM

        return LocalVLM(spec)
    if spec.kind == "python":
        from refbench.chat.python import python_vlm

        return python_vlm(spec)
    if spec.kind == "replay":
        from refbench.chat.replay import ReplayVLM, read_replies

        return ReplayVLM(spec, read_replies(Path(spec.what)))
    make = plug_in(spec.kind, JUDGE_PLUG_INS)
    if make is not None:
        vlm: VLM = make(spec)
        return vlm
    hint = nearest(spec.kind, [*JUDGES, *plug_ins(JUDGE_PLUG_INS)], f":{spec.what}")
    raise RefBenchError(f"no judge is of the kind {spec.kind!r}: {hint}")
