"""The gallery: outputs found and recorded, and every picture of a run opened, checked and hashed once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refbench.benchmarks import Dataset
from refbench.case import AnyCase
from refbench.chat.sent import PicturePolicy, SentPicture, prepare
from refbench.engine.recorder import Recorder
from refbench.engine.studio import Studio
from refbench.failure import Failure
from refbench.models import AnyModel
from refbench.models.model import ImageModel
from refbench.output import Output, StoredPicture
from refbench.runs import Blobs, Run


@dataclass
class Gallery:
    """Judging and measuring both take their pictures from here, at the same time."""

    run: Run
    dataset: Dataset
    recorder: Recorder
    policy: PicturePolicy
    studio: Studio | None = None
    _sent: dict[Path, SentPicture | Failure] = field(default_factory=dict)
    _recorded: set[tuple[str, str, int]] | None = None
    _absent: set[tuple[str, str, int]] = field(default_factory=set)
    _turn: defaultdict[tuple[str, str, int], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def gather(
        self, case: AnyCase, model: AnyModel, paths: Sequence[Path], seed: int = 0
    ) -> tuple[Path, ...] | None:
        """Find (or make) a model's outputs and open them and the other pictures; None, with a record of why, where
        there are none."""
        if self._recorded is None:
            self._recorded = {(o.case, o.model, o.seed) for o in self.run.outputs() if o.failure is None}
        place = case.id, model.name, seed
        async with self._turn[place]:
            outputs = await self._outputs(case, model, seed)
            if isinstance(outputs, Failure):
                await self._nothing(place, outputs)
                return None
            new = [p for p in dict.fromkeys((*outputs, *paths)) if p not in self._sent]
            keep = outputs if place not in self._recorded else ()
            if new or keep:
                for at, picture in zip(new, await asyncio.to_thread(self._prepare, new, keep), strict=True):
                    self._sent[at] = picture
            opened = [self._sent[path] for path in outputs]
            unreadable = next((picture for picture in opened if isinstance(picture, Failure)), None)
            if unreadable is not None:
                await self._nothing(place, unreadable)
                return None
            if keep:
                await self._record(case, model, seed, outputs, [p for p in opened if isinstance(p, SentPicture)])
                self._recorded.add(place)
        return outputs

    async def _outputs(self, case: AnyCase, model: AnyModel, seed: int) -> tuple[Path, ...] | Failure:
        if isinstance(model, ImageModel):
            assert self.studio is not None
            found = await self.studio.outputs(case, model, seed)
            assert self._recorded is not None
            self._recorded.add((case.id, model.name, seed))  # the studio has recorded what it made
            if isinstance(found, Failure):
                self._absent.add((case.id, model.name, seed))
            return found
        return model.find(case, seed)

    async def _record(
        self, case: AnyCase, model: AnyModel, seed: int, paths: Sequence[Path], opened: Sequence[SentPicture]
    ) -> None:
        stored = tuple(StoredPicture.of(picture.original) for picture in opened)
        provenance = {"path": paths[0].name, "family": getattr(model, "family", "")}
        if len(paths) < case.request.n_pictures:
            provenance["partial"] = f"{len(paths)} of {case.request.n_pictures} pictures"
        await self.recorder.record(
            Output(case=case.id, model=model.name, seed=seed, pictures=stored, provenance=provenance)
        )

    def store(self, data: bytes, picture_format: str) -> Path:
        """Keep a picture that was made to be shown, and say where."""
        blobs = Blobs(self.run.path / "sent")
        return blobs.path(blobs.put(data, picture_format), picture_format)

    def picture(self, path: Path) -> SentPicture | Failure:
        """A picture that was gathered before."""
        return self._sent[path]

    async def _nothing(self, place: tuple[str, str, int], failure: Failure) -> None:
        if place not in self._absent:
            self._absent.add(place)
            await self.recorder.record(Output(case=place[0], model=place[1], seed=place[2], failure=failure))

    def _prepare(self, paths: Sequence[Path], keep: Sequence[Path]) -> list[SentPicture | Failure]:
        """Open, check and hash pictures, and put copies of the outputs into the run; in a thread of its own."""
        found = [prepare(path, self.policy, self.store) for path in paths]
        opened = {**self._sent, **dict(zip(paths, found, strict=True))}
        for path in keep:
            output = opened[path]
            if isinstance(output, SentPicture):
                self.run.blobs.put_file(path, output.original.sha256, output.original.format)
        return found
