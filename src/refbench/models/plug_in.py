"""Image models of installed packages: whatever a plug-in returns, the spec that it was made from is part of it."""

from __future__ import annotations

from collections.abc import Mapping

from refbench.models.model import Commission, ImageModel, Painted
from refbench.record import RefBenchError
from refbench.specs import Spec


class PlugInModel:
    """A plug-in's model, known by its spec's options beside what it says of itself."""

    def __init__(self, spec: Spec, model: ImageModel) -> None:
        if not isinstance(model, ImageModel):
            raise RefBenchError(
                f"--model {spec.name}: the plug-in {spec.kind} gave a {type(model).__name__}, which is no image model: "
                "it needs name, traits, canonical, generate and close, as refbench.models.ImageModel has them"
            )
        self.name = spec.name  # what the run's records are kept under, whatever the plug-in calls it
        self.traits = model.traits
        self._spec = spec
        self._model = model

    def canonical(self) -> Mapping[str, str]:
        options = {f"option {key}": value for key, value in sorted(self._spec.options.items())}
        return {**self._model.canonical(), "plug-in": f"{self._spec.kind}:{self._spec.what}", **options}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        return await self._model.generate(commission, seed)

    async def close(self) -> None:
        await self._model.close()
