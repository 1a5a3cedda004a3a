"""Judges of installed packages: whatever a plug-in returns, the spec that it was made from is part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refbench.chat.vlm import VLM, BatchCalls, ChatRequest, Pictures, accounted
from refbench.evidence import Evidence
from refbench.specs import Spec, plug_in_identity


class PlugInVLM(VLM):
    """A plug-in's judge, whose requests say the spec's options beside what it says of itself."""

    def __init__(self, spec: Spec, vlm: VLM) -> None:
        self.name = spec.name  # what the run's records are kept under, whatever the plug-in calls it
        self.family, self.endpoint, self.price = vlm.family, vlm.endpoint, vlm.price
        self._spec = spec
        self._vlm = vlm

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        said = self._vlm.canonical(request, repeat)
        parameters = said.get("parameters", {})
        if not isinstance(parameters, Mapping):
            parameters = {"parameters": parameters}
        return {
            "endpoint": self._spec.kind,
            "model": self._spec.what,
            **said,
            "parameters": {**parameters, **plug_in_identity(self._spec)},
        }

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        evidence = await self._vlm.ask(request, pictures, repeat)
        # Made anew: a copy would keep the key of the plug-in's own request.
        said = {name: getattr(evidence, name) for name in Evidence.model_fields}
        made = Evidence(**{**said, "request": self.canonical(request, repeat)})
        return made if evidence.worst_usd is not None else accounted(made, self.worst_cost(request, pictures))

    def input_tokens(self, request: ChatRequest, pictures: Pictures) -> int:
        return self._vlm.input_tokens(request, pictures)

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        return self._vlm.worst_cost(request, pictures)

    def batches(self) -> BatchCalls | None:
        return self._vlm.batches()

    async def close(self) -> None:
        await self._vlm.close()
