"""suffix: a sentence added to every instruction, as MultiBanana's priority variants do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from refbench.chat.spec import Spec
from refbench.models.model import Commission, ImageModel, Painted
from refbench.models.wrapped import inside
from refbench.record import RefBenchError


class Suffix:
    """The model, told something more."""

    def __init__(self, spec: Spec, model: ImageModel) -> None:
        self.name = spec.name
        self.text = spec.options.get("text", "").strip()
        if not self.text:
            raise RefBenchError(f"--model {spec.name}: suffix needs text=...")
        self.model = model
        self.traits = model.traits

    def canonical(self) -> Mapping[str, str]:
        return {"kind": "suffix", "text": self.text, **inside(self.model)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        longer = f"{commission.instruction.rstrip()} {self.text}".strip()
        return await self.model.generate(replace(commission, instruction=longer), seed)

    async def close(self) -> None:
        await self.model.close()
