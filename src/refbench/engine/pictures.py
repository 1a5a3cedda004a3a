"""The pictures of a run: outputs found or made and recorded, every file opened, checked and hashed once."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from refbench.benchmarks import Dataset
from refbench.case import AnyCase, Picture
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare
from refbench.engine.generating import GeneratingRun
from refbench.failure import Failure
from refbench.models import AnyModel
from refbench.models.model import ImageModel
from refbench.output import Output, StoredPicture
from refbench.runs import Blobs, Run
from refbench.runs.ledger import KnownPicture, Recorder, file_state

ItemT = TypeVar("ItemT")
MadeT = TypeVar("MadeT")

_Place = tuple[str, str, int]


@dataclass
class RunPictures:
    """Every picture that judging and measuring look at, shared by both while they run at the same time.

    Outputs are shown from the run's own copy, so that a folder which changes during the run changes nothing.
    """

    run: Run
    dataset: Dataset
    recorder: Recorder
    policy: PicturePolicy
    generating: GeneratingRun | None = None
    _sent: dict[Path, SentPicture | Failure] = field(default_factory=dict)
    _shown: dict[Path, SentPicture | Failure] = field(default_factory=dict)
    """Outputs apart from pictures of cases: golden ones are both."""
    _copies: dict[Path, Path] = field(default_factory=dict)
    _recorded: dict[_Place, Output] | None = None
    _absent: set[_Place] = field(default_factory=set)
    _turn: defaultdict[_Place, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def gather(
        self, case: AnyCase, model: AnyModel, pictures: Iterable[Picture], seed: int = 0
    ) -> tuple[Path, ...] | None:
        """Find (or make) a model's outputs and open them and pictures of the case; None, with a record of why, where
        there are none."""
        if self._recorded is None:
            self._recorded = {
                (o.case, o.model, o.seed): o for o in self.run.outputs() if o.failure is None and o.step is None
            }
        names = {self.dataset.path(picture): picture.name for picture in pictures}
        place = case.id, model.name, seed
        async with self._turn[place]:
            outputs = await self._outputs(case, model, seed)
            paths = () if isinstance(outputs, Failure) else outputs
            inputs = {path: name for path, name in names.items() if path not in self._sent}
            new = [path for path in paths if path not in self._shown]
            if inputs or new:
                copies = dict(zip(paths, _files(self.run, self._recorded.get(place)), strict=False))
                await asyncio.to_thread(self._open, inputs, new, copies)
            shown = [self._shown[path] for path in paths]
            wrong = (
                outputs if isinstance(outputs, Failure) else next((p for p in shown if isinstance(p, Failure)), None)
            )
            if wrong is not None:
                await self._nothing(place, wrong)
                return None
            if place not in self._recorded:
                self._recorded[place] = await self._record(
                    case, model, seed, paths, [p for p in shown if isinstance(p, SentPicture)]
                )
        return paths

    async def _outputs(self, case: AnyCase, model: AnyModel, seed: int) -> tuple[Path, ...] | Failure:
        assert self._recorded is not None
        place = case.id, model.name, seed
        if isinstance(model, ImageModel):
            assert self.generating is not None
            made = await self.generating.outputs(case, model, seed)
            if isinstance(made, Failure):
                self._absent.add(place)  # generating has recorded what became of it
            elif place not in self._recorded:
                self._recorded[place] = self.generating.known(case, model, seed)
            return made
        paths = model.find(case, seed)
        known = self._recorded.get(place)
        if known is not None and (isinstance(paths, Failure) or len(paths) != len(known.pictures)):
            return _files(self.run, known)  # it was there when the command began
        return paths

    async def _record(
        self, case: AnyCase, model: AnyModel, seed: int, paths: Sequence[Path], opened: Sequence[SentPicture]
    ) -> Output:
        stored = tuple(StoredPicture.of(picture.original) for picture in opened)
        provenance = {"path": paths[0].name, "family": getattr(model, "family", "")}
        if len(paths) < case.request.n_pictures:
            provenance["partial"] = f"{len(paths)} of {case.request.n_pictures} pictures"
        output = Output(case=case.id, model=model.name, seed=seed, pictures=stored, provenance=provenance)
        await self.recorder.record(output)
        return output

    def store(self, data: bytes, picture_format: str) -> Path:
        """Keep a picture that was made to be shown, and say where."""
        blobs = Blobs(self.run.path / "sent")
        return blobs.path(blobs.put(data, picture_format), picture_format)

    def picture(self, path: Path) -> SentPicture | Failure:
        """A picture of a case that was gathered before."""
        return self._sent[path]

    def output(self, path: Path) -> SentPicture | Failure:
        """An output that was gathered before."""
        return self._shown[path]

    def copy(self, path: Path) -> Path:
        """The run's own copy of an output that was gathered before."""
        return self._copies[path]

    async def _nothing(self, place: _Place, failure: Failure) -> None:
        if place not in self._absent:
            self._absent.add(place)
            await self.recorder.record(Output(case=place[0], model=place[1], seed=place[2], failure=failure))

    def _open(self, inputs: dict[Path, str], outputs: Sequence[Path], copies: dict[Path, Path]) -> None:
        """Open, check and hash pictures, and put copies of outputs into the run; in a thread of its own."""
        for path, name in inputs.items():
            self._sent[path], _ = self._read(path, name)
        for path in outputs:
            self._shown[path] = self._taken(path, copies.get(path))

    def _taken(self, path: Path, copy: Path | None) -> SentPicture | Failure:
        """An output, out of the run where it is there already."""
        if copy is not None and copy.exists():
            self._copies[path] = copy
            sent = prepare(copy, self.policy, self.store)
            return sent if isinstance(sent, Failure) else replace(sent, name=path.name)
        sent, data = self._read(path)
        if isinstance(sent, Failure):
            return sent
        self._copies[path] = self.run.blobs.put_copy(data, sent.original.sha256, sent.original.format)
        return replace(sent, path=sent.path if sent.changed else self._copies[path], name=path.name)

    def _read(self, path: Path, name: str = "") -> tuple[SentPicture | Failure, bytes]:
        """A file as it is now, noted so that a later command sees whether it still is."""
        try:
            state = file_state(path)  # before its bytes: what changes in between is looked at again
            data = path.read_bytes()
        except OSError as error:
            return Failure(kind="unreadable_picture", detail=f"{path.name}: {error.strerror}"), b""
        sent = prepare(path, self.policy, self.store, data)
        if isinstance(sent, SentPicture):
            self.recorder.know(KnownPicture(name, str(path.absolute()), state, sent.original.sha256))
        return sent, data


def _files(run: Run, output: Output | None) -> tuple[Path, ...]:
    return () if output is None else tuple(run.blobs.path(p.sha256, p.format) for p in output.pictures)


async def ahead(
    items: Iterable[ItemT], make: Callable[[ItemT], Coroutine[Any, Any, MadeT]], most: int
) -> AsyncGenerator[MadeT, None]:
    """What `make` gives for each item, in order, with work on the next few begun before it is asked for: their pictures
    are opened and hashed by then. Closing drops what was begun."""
    begun: deque[asyncio.Task[MadeT]] = deque()
    try:
        for item in items:
            begun.append(asyncio.create_task(make(item)))
            if len(begun) > most:
                yield await begun.popleft()
        while begun:
            yield await begun.popleft()
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
