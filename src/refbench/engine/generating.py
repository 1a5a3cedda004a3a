"""The pictures of a run: made by models, each once and on record before anybody looks at it, or found; every file
opened, checked and hashed once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from refbench.benchmarks import Dataset
from refbench.calls.prices import Budget, BudgetSpentError
from refbench.calls.transport import UNSENT
from refbench.case import AnyCase, Picture
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare
from refbench.engine.breaker import Breaker
from refbench.engine.progress import Progress
from refbench.engine.sharing import REQUEST, SharedPictures
from refbench.failure import TRANSIENT, Failure
from refbench.models import AnyModel
from refbench.models.model import Commission, ImageModel, Painted, Shown, Startable, Step, making
from refbench.models.wrappers.wrapper import charged_usd
from refbench.output import Output, StoredPicture
from refbench.pictures import picture_bytes, regular_bytes, remember, verified
from refbench.record import RefBenchError, canonical_json
from refbench.runs import Blobs, Run
from refbench.runs.ledger import FOUND, PAINTER, KnownPicture, Recorder, file_state, place_of

_LOG = "; if it has only counted or logged since, give the function an attribute `version`"


NOT_BEGUN = "interrupted before this picture"
GIVEN_UP = "not asked for: the model has only failed"


@dataclass
class GeneratingRun:
    """Makes the pictures that are missing, at most `concurrency` of a model at a time."""

    run: Run
    dataset: Dataset
    recorder: Recorder
    budget: Budget
    progress: Progress
    concurrency: int = 8
    retry: frozenset[str] = frozenset()
    breaker: Breaker = field(default_factory=lambda: Breaker(0))
    shared: SharedPictures | None = None
    """What other runs of the same command have painted; None for a run by itself."""
    stopped: str = ""
    """Why no more is made, "" while it is."""
    _places: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    known: dict[tuple[str, str, int], Output] = field(default_factory=dict)
    """What is on record of each case, model and seed."""
    _noted: set[Path] = field(default_factory=set)
    _who: dict[str, str] = field(default_factory=dict)

    def open(self, models: Iterable[AnyModel]) -> None:
        """Read what earlier commands have made, and refuse to mix it with pictures of other settings.

        A name under which nothing was painted is free: what failed is then made anew.
        """
        outputs = self.run.outputs()
        self.known = {(o.case, o.model, o.seed): o for o in outputs if o.step is None}
        remember(picture.sha256 for output in outputs for picture in output.pictures)  # decoded before it was recorded
        held = {output.model for output in outputs if output.pictures}
        # Another shard may be about to paint: what it noted holds the name.
        alone = all(path == self.recorder.writer.path for path in self.run.ledgers())
        before = self.run.notes(PAINTER)
        void: list[Output] = []
        for model in models:
            now = canonical_json(dict(model.canonical())).decode() if isinstance(model, ImageModel) else FOUND
            other = before.get(model.name, now) != now
            if other and alone and model.name not in held:
                failed = [place for place in self.known if place[1] == model.name]
                void += [self.known.pop(place) for place in failed]
            elif other:
                log = "" if '"state"' not in now else _LOG
                raise RefBenchError(
                    f"--model {model.name}: {self.run.path} holds pictures of that name made with other settings "
                    f"({before[model.name]}): give it another name, or choose another --out{log}"
                )
            self._who[model.name] = now
        for output in void:
            self.recorder.writer.retire(place_of(output), output.content, "made with other settings", time.time())
        self.recorder.writer.commit()

    async def start(self, wanted: Iterable[tuple[AnyCase, AnyModel, int]]) -> None:
        """Start every model that has a picture to make: none paints before all are known to work. How many pictures
        that is, is known from here on."""
        missing = [
            model
            for case, model, seed in wanted
            if isinstance(model, ImageModel) and self._is_missing((case.id, model.name, seed))
        ]
        self.progress.to_make = len(missing)
        starting = {model.name: model for model in missing if isinstance(model, Startable)}
        await asyncio.gather(*(model.start() for model in starting.values()))

    def note(self) -> None:
        """Record who paints, once nothing can be refused any more."""
        for name, now in self._who.items():
            self.recorder.writer.note(PAINTER + name, now)

    async def outputs(self, case: AnyCase, model: ImageModel, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The pictures of a case in order: those on record, else new ones."""
        place = case.id, model.name, seed
        if self._is_missing(place):
            self.known[place] = await self._make(case, model, seed)
        known = self.known[place]
        if known.failure is not None:
            return known.failure
        return tuple(self.run.blobs.path(picture.sha256, picture.format) for picture in known.pictures)

    def _is_missing(self, place: tuple[str, str, int]) -> bool:
        known = self.known.get(place)
        return known is None or (known.failure is not None and known.failure.kind in TRANSIENT | self.retry)

    async def _make(self, case: AnyCase, model: ImageModel, seed: int) -> Output:
        place = self._places.setdefault(model.name, asyncio.Semaphore(self.concurrency))
        request = case.request
        commission = Commission(
            instruction=request.instruction,
            pictures=tuple(Shown(self.dataset.path(picture), picture.role) for picture in request.pictures),
            size=request.size,
            n_pictures=request.n_pictures,
        )
        worst = (model.traits.price or 0.0) * request.n_pictures
        await asyncio.to_thread(self._know, case)
        key = ""
        if self.shared is not None:
            key = await asyncio.to_thread(self.shared.key, self._who[model.name], commission, seed)
            if taken := await asyncio.to_thread(self.shared.painted, key):
                return await self._recorded(case, model, seed, taken, key)
        async with place:  # until it is recorded, so that a killed run loses no more than its places
            if self.stopped == "interrupt" or model.name in self.breaker.stopped:
                return self._not_begun(case, model, seed)
            try:
                held = await self.budget.reserve(worst)
            except BudgetSpentError:
                self.stopped = "budget"
                failure = Failure(kind="budget", detail="the budget was spent before this picture")
                return Output(case=case.id, model=model.name, seed=seed, failure=failure)
            async with held:
                with making() as afterwards, self.progress.picture():
                    painted = await model.generate(commission, seed)
                if self.stopped != "interrupt":
                    self.breaker.note(model.name, painted.failure)
                self.budget.pay(charged_usd(painted))
            unsent = painted.failure is not None and painted.failure.detail == UNSENT
            if unsent and not (painted.steps or painted.pictures):
                return self._not_begun(case, model, seed)
            if self.budget.short is not None:
                self.stopped = self.stopped or "budget"
            output = await self._recorded(case, model, seed, painted, key)
        for act in afterwards if output.failure is None else ():
            act()
        return output

    async def _recorded(self, case: AnyCase, model: ImageModel, seed: int, painted: Painted, key: str) -> Output:
        """The output, on record; with the key of its request where other runs may have an equal one."""
        if key:
            painted = replace(painted, provenance={**painted.provenance, REQUEST: key})
        output = await asyncio.to_thread(self._kept, case, model, seed, painted)
        await self._record(output, painted.steps)
        self.progress.made += 1
        if output.failure is not None:
            self.progress.fail(f"{case.id} by {model.name}", output.failure)
        return output

    async def _record(self, output: Output, steps: Sequence[Step]) -> None:
        for number, step in enumerate(steps):
            await self.recorder.record(self._step(output, number, step))
        await self.recorder.record(output)

    def _not_begun(self, case: AnyCase, model: ImageModel, seed: int) -> Output:
        """Of a picture that was not asked for; it is not recorded."""
        why = GIVEN_UP if model.name in self.breaker.stopped else NOT_BEGUN
        failure = Failure(kind="missing_output", detail=why)
        return Output(case=case.id, model=model.name, seed=seed, failure=failure)

    def _know(self, case: AnyCase) -> None:
        """Note what the model is shown: a later command must not judge it against other pictures."""
        for picture in case.request.pictures:
            path = self.dataset.path(picture)
            if path not in self._noted:
                self._noted.add(path)
                with contextlib.suppress(OSError, ValueError):  # a picture that is not there is for the model to say
                    state = file_state(path)
                    sha256 = hashlib.sha256(regular_bytes(path)).hexdigest()
                    self.recorder.know(KnownPicture(picture.name, str(path.absolute()), state, sha256))

    def _kept(self, case: AnyCase, model: ImageModel, seed: int, painted: Painted) -> Output:
        """The output with its pictures safe in the run; of an incomplete set what there is, and a note of the rest.

        Of several pictures for one the first is taken, and noted. A set stays as it came: whether it has the number
        that was asked for is for the judge to say.
        """
        wanted, came = case.request.n_pictures, len(painted.pictures)
        pictures = painted.pictures if wanted > 1 else painted.pictures[:1]
        stored, failure = self._stored(pictures, painted.failure, model.name)
        provenance = {"family": model.traits.family, **painted.provenance}
        if stored and came != wanted:
            which = "partial" if came < wanted else "surplus"
            provenance[which] = f"{came} of {wanted} pictures" + (f" ({failure})" if failure else "")
        elif stored and failure is not None:
            provenance["beyond"] = str(failure)  # what was asked for is there
        return Output(
            case=case.id,
            model=model.name,
            seed=seed,
            pictures=stored,
            failure=None if stored else failure,
            seconds=painted.seconds,
            cost_usd=painted.cost_usd,
            worst_usd=painted.worst_usd,
            provenance=provenance,
        )

    def _step(self, last: Output, number: int, step: Step) -> Output:
        stored, failure = self._stored(step.pictures, step.failure, "the step")
        return Output(
            case=last.case,
            model=last.model,
            seed=last.seed,
            step=number,
            pictures=stored,
            failure=None if stored else failure,
            seconds=step.seconds,
            cost_usd=step.cost_usd,
            worst_usd=step.worst_usd,
            provenance={"instruction": step.instruction, **step.provenance},
        )

    def _stored(
        self, pictures: Sequence[bytes], failure: Failure | None, who: str
    ) -> tuple[tuple[StoredPicture, ...], Failure | None]:
        """The pictures, put into the run, and what is wrong: with one of them, with what came, or that none did."""
        stored = []
        for data in pictures:
            facts = verified(data)
            if isinstance(facts, Failure):
                return (), facts
            self.run.blobs.put(data, facts.format)
            stored.append(StoredPicture.of(facts))
        if not stored:
            failure = failure or Failure(kind="missing_output", detail=f"{who} gave no picture")
        return tuple(stored), failure


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
    inputs: dict[Path, SentPicture | Failure] = field(default_factory=dict)
    """The pictures of cases that were gathered."""
    outputs: dict[Path, SentPicture | Failure] = field(default_factory=dict)
    """The outputs that were gathered, apart from pictures of cases: golden ones are both."""
    copies: dict[Path, Path] = field(default_factory=dict)
    """The run's own copies of outputs."""
    _recorded: dict[_Place, Output] | None = None
    absent: dict[_Place, Failure] = field(default_factory=dict)
    """Why there is no output, of those that were looked for."""
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
            inputs = {path: name for path, name in names.items() if path not in self.inputs}
            new = [path for path in paths if path not in self.outputs]
            if inputs or new:
                copies = dict(zip(paths, _files(self.run, self._recorded.get(place)), strict=False))
                await asyncio.to_thread(self._open, inputs, new, copies)
            shown = [self.outputs[path] for path in paths]
            wrong = (
                outputs if isinstance(outputs, Failure) else next((p for p in shown if isinstance(p, Failure)), None)
            )
            if wrong is not None:
                if place not in self.absent:
                    self.absent[place] = wrong
                    await self.recorder.record(Output(case=case.id, model=model.name, seed=seed, failure=wrong))
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
                self.absent[place] = made  # generating has recorded what became of it
            elif place not in self._recorded:
                self._recorded[place] = self.generating.known[place]
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

    def _open(self, inputs: dict[Path, str], outputs: Sequence[Path], copies: dict[Path, Path]) -> None:
        """Open, check and hash pictures, and put copies of outputs into the run; in a thread of its own."""
        for path, name in inputs.items():
            self.inputs[path], _ = self._read(path, name)
        for path in outputs:
            self.outputs[path] = self._taken(path, copies.get(path))

    def _taken(self, path: Path, copy: Path | None) -> SentPicture | Failure:
        """An output, out of the run where it is there already."""
        if copy is not None and copy.exists():
            self.copies[path] = copy
            sent = prepare(copy, self.policy, self.store)
            if isinstance(sent, Failure) or sent.original.sha256 != copy.stem:
                raise RefBenchError(
                    f"{copy} is damaged: its content has another hash; restore it from a copy of the run, or remove it "
                    f"if {path} is another file that still has it"
                )
            return replace(sent, name=path.name)
        sent, data = self._read(path)
        if isinstance(sent, Failure):
            return sent
        self.copies[path] = self.run.blobs.put_copy(data, sent.original.sha256, sent.original.format)
        return replace(sent, path=sent.path if sent.changed else self.copies[path], name=path.name)

    def _read(self, path: Path, name: str = "") -> tuple[SentPicture | Failure, bytes]:
        """A file as it is now, noted so that a later command sees whether it still is."""
        try:
            state = file_state(path)  # before its bytes: what changes in between is looked at again
        except (OSError, ValueError):
            state = ""  # reading it will say why
        data = picture_bytes(path)
        if isinstance(data, Failure):
            return data, b""
        sent = prepare(path, self.policy, self.store, data)
        if isinstance(sent, SentPicture):
            self.recorder.know(KnownPicture(name, str(path.absolute()), state, sent.original.sha256))
        return sent, data


def _files(run: Run, output: Output | None) -> tuple[Path, ...]:
    return () if output is None else tuple(run.blobs.path(p.sha256, p.format) for p in output.pictures)


async def ahead(
    items: Iterable[ItemT],
    make: Callable[[ItemT], Coroutine[Any, Any, MadeT]],
    most: int,
    finish: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[MadeT, None]:
    """What `make` gives for each item, in order, with work on the next few begun before it is asked for: their pictures
    are opened and hashed by then. Closing drops what was begun, or lets it come to its end (`finish`): pictures that
    are being made may be paid for."""
    begun: deque[asyncio.Task[MadeT]] = deque()
    try:
        for item in items:
            begun.append(asyncio.create_task(make(item)))
            if len(begun) > most:
                yield await begun.popleft()
        while begun:
            yield await begun.popleft()
    except GeneratorExit:
        if finish():
            await asyncio.gather(*begun, return_exceptions=True)
        raise
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
