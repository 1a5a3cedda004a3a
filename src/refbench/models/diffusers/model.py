"""DiffusersModel: `diffusers:REPOSITORY`, a pipeline of diffusers on this machine, loaded once and asked by one thread.

What a pipeline takes is in pipelines.py, how it is loaded and asked in the files beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from refbench.calls.weights import LoadedWeights, default_dtype
from refbench.models.diffusers.additions import additions
from refbench.models.diffusers.loading import DIFFUSERS, Source, find
from refbench.models.diffusers.painting import Manner, Order, Painter
from refbench.models.diffusers.pipelines import Shape, settings
from refbench.models.model import Commission, Painted, Traits
from refbench.models.presets import preset_options
from refbench.record import RefBenchError
from refbench.specs import Options, Spec, family_of, model_options


class DiffusersModel:
    """A text-to-image, editing, multi-image editing or inpainting pipeline, found by its repository."""

    def __init__(self, spec: Spec) -> None:
        where = f"--model {spec.name}"
        given = preset_options(spec.options, "diffusers", where)
        options = model_options(spec.model_copy(update={"options": given}))
        self.name = spec.name
        found = find(_source(spec.what, options, where))
        around = additions(options, found.shape.name, where)
        shape = around.shaped(found.shape, where)
        self._around = around.canonical()
        self._found = replace(found, shape=shape, around=around)
        if not self._found.source.safety and "safety_checker" not in self._found.parts:
            raise RefBenchError(f"{where}: safety=off: {shape.name} has no safety checker")
        self._manner = Manner(
            arguments=settings(shape, options.others, f"{where} (diffusers:{spec.what})"),
            size=_size(shape, options, where),
            max_side=options["max_side"],
        )
        self._batch: int = options["batch"]
        if self._batch > 1 and not shape.entry.together:
            raise RefBenchError(f"{where}: batch={self._batch}: {shape.name} is asked one request at a time")
        self._draws: int = options["max_pictures"]
        self._identity = self._found.identity
        self.traits = Traits(
            family=options["family"] or family_of(spec.what.rstrip("/")),
            open_weights=True,
            max_references=shape.most,
            max_pictures=self._draws,
            size=self._manner.size,
            price=0.0,
        )
        self._loaded: LoadedWeights[Painter, Order, Painted] = LoadedWeights(
            where,
            lambda: Painter(self._found, self._manner),
            # A pipeline stops at its next step when nobody waits for what it paints.
            lambda painter, jobs: painter.paint([replace(job.request, gone=job.abandoned.is_set) for job in jobs]),
            batch=self._batch,
        )

    def canonical(self) -> Mapping[str, str]:
        source = self._found.source
        record: dict[str, object] = {
            "kind": "diffusers",
            "model": self._identity,
            "pipeline": self._found.shape.name,
            "dtype": source.dtype,
            "variant": source.variant,
            "safety": None if source.safety else "off",
            "size": self._manner.size and "x".join(map(str, self._manner.size)),
            "max_side": self._manner.max_side,
            "source_side": self._found.shape.entry.source_side,  # results of another shape are another model's
            "max_pictures": None if self._draws == 1 else self._draws,
            **self._around,
            **self._manner.arguments,
        }
        return {key: str(value) for key, value in record.items() if value is not None}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        return await self._loaded.ask(Order(commission, seed, self._draws))

    async def close(self) -> None:
        """Stop at the next step, and give the worker and the memory back."""
        was_loaded = self._loaded.weights is not None
        await self._loaded.close()
        if was_loaded:
            DIFFUSERS.free_memory(self._found.source.device)


def _source(repository: str, options: Options, where: str) -> Source:
    device = DIFFUSERS.device(options["device"])
    if options["offload"] != "none" and device == "cpu":
        raise RefBenchError(f"{where}: offload={options['offload']} needs a GPU, and {device} is none")
    return Source(
        where=repository,
        revision=options["revision"],
        variant=options["variant"],
        device=device,
        dtype=options["dtype"] or default_dtype(device),
        offload=options["offload"],
        safety=options["safety"] == "on",
    )


def _size(shape: Shape, options: Options, where: str) -> tuple[int, int] | None:
    width, height = options["width"], options["height"]
    if width is None and height is None:
        return None
    if width is None or height is None:
        raise RefBenchError(f"{where}: write both width and height")
    if not shape.sized:
        raise RefBenchError(f"{where}: {shape.name} paints in the size of its picture: write max_side instead of width")
    return width, height
