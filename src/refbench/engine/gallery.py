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
from refbench.failure import Failure
from refbench.models import GivenOutputs
from refbench.output import Output, StoredPicture
from refbench.runs import Blobs, Run


@dataclass
class Gallery:
    """Judging and measuring both take their pictures from here, at the same time."""

    run: Run
    dataset: Dataset
    recorder: Recorder
    policy: PicturePolicy
    _sent: dict[Path, SentPicture | Failure] = field(default_factory=dict)
    _recorded: set[tuple[str, str]] | None = None
    _absent: set[tuple[str, str]] = field(default_factory=set)
    _turn: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def gather(self, case: AnyCase, model: GivenOutputs, paths: Sequence[Path]) -> Path | None:
        """Find a model's output and open it and the other pictures; None, with a record of why, where there is none."""
        if self._recorded is None:
            self._recorded = {(o.case, o.model) for o in self.run.outputs() if o.failure is None}
        place = case.id, model.name
        async with self._turn[case.id]:
            path = model.find(case)
            if isinstance(path, Failure):
                await self._nothing(place, path)
                return None
            new = [p for p in dict.fromkeys((path, *paths)) if p not in self._sent]
            keep = path if place not in self._recorded else None
            if new or keep:
                for at, picture in zip(new, await asyncio.to_thread(self._prepare, new, keep), strict=True):
                    self._sent[at] = picture
            output = self._sent[path]
            if isinstance(output, Failure):
                await self._nothing(place, output)
                return None
            if keep:
                facts = output.original
                stored = StoredPicture(sha256=facts.sha256, format=facts.format, width=facts.width, height=facts.height)
                provenance = {"path": path.name, "family": model.family}
                await self.recorder.record(
                    Output(case=case.id, model=model.name, pictures=(stored,), provenance=provenance)
                )
                self._recorded.add(place)
        return path

    def picture(self, path: Path) -> SentPicture | Failure:
        """A picture that was gathered before."""
        return self._sent[path]

    async def _nothing(self, place: tuple[str, str], failure: Failure) -> None:
        if place not in self._absent:
            self._absent.add(place)
            await self.recorder.record(Output(case=place[0], model=place[1], failure=failure))

    def _prepare(self, paths: Sequence[Path], keep: Path | None) -> list[SentPicture | Failure]:
        """Open, check and hash pictures, and put a copy of the output into the run; in a thread of its own."""

        def store(data: bytes, picture_format: str) -> Path:
            blobs = Blobs(self.run.path / "sent")
            return blobs.path(blobs.put(data, picture_format), picture_format)

        found = [prepare(path, self.policy, store) for path in paths]
        output = found[paths.index(keep)] if keep in paths else self._sent.get(keep) if keep else None
        if keep and isinstance(output, SentPicture):
            self.run.blobs.put_file(keep, output.original.sha256, output.original.format)
        return found
