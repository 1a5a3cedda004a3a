"""Image models of installed packages: whatever a plug-in returns, the spec that it was made from is part of it."""

from __future__ import annotations

from collections.abc import Mapping

from refbench.models.model import Commission, ImageModel, Painted
from refbench.specs import Spec, plug_in_identity


class PlugInModel:
    """A plug-in's model, known by its spec's options beside what it says of itself."""

    def __init__(self, spec: Spec, model: ImageModel) -> None:
        self.name = spec.name  # what the run's records are kept under, whatever the plug-in calls it
        self.traits = model.traits
        self._spec = spec
        self._model = model

    def canonical(self) -> Mapping[str, str]:
        return {**self._model.canonical(), **plug_in_identity(self._spec)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        return await self._model.generate(commission, seed)

    async def close(self) -> None:
        await self._model.close()
