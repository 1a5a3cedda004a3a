"""Generating: pictures that models make, each once, and on record before anybody looks at it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refbench.benchmarks import Dataset
from refbench.calls import Budget, BudgetSpentError
from refbench.case import AnyCase
from refbench.engine.progress import Progress
from refbench.failure import TRANSIENT, Failure
from refbench.models import AnyModel
from refbench.models.model import Commission, ImageModel, Painted, Shown, Step
from refbench.output import Output, StoredPicture
from refbench.pictures import PictureFacts, facts_of
from refbench.record import RefBenchError, canonical_json
from refbench.runs import Run
from refbench.runs.ledger import KnownPicture, Recorder, file_state

_NOTE = "model "
_FOUND = {"kind": "pictures that were there"}


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
    stopped: str = ""
    """Why no more is made, "" while it is."""
    _places: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    _known: dict[tuple[str, str, int], Output] = field(default_factory=dict)
    _noted: set[Path] = field(default_factory=set)
    _who: dict[str, str] = field(default_factory=dict)

    def open(self, models: Iterable[AnyModel]) -> None:
        """Read what earlier commands have made, and refuse to mix it with pictures of other settings."""
        self._known = {(o.case, o.model, o.seed): o for o in self.run.outputs() if o.step is None}
        before = self.run.notes(_NOTE)
        for model in models:
            now = canonical_json(dict(model.canonical()) if isinstance(model, ImageModel) else _FOUND).decode()
            if before.get(model.name, now) != now:
                raise RefBenchError(
                    f"--model {model.name}: {self.run.path} holds pictures of that name made with other settings "
                    f"({before[model.name]}): give it another name, or choose another --out"
                )
            self._who[model.name] = now

    def note(self) -> None:
        """Record who paints, once nothing can be refused any more."""
        for name, now in self._who.items():
            self.recorder.writer.note(_NOTE + name, now)

    def known(self, case: AnyCase, model: ImageModel, seed: int) -> Output:
        """What is on record of a case after `outputs` has given its pictures."""
        return self._known[case.id, model.name, seed]

    async def outputs(self, case: AnyCase, model: ImageModel, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The pictures of a case in order: those on record, else new ones."""
        known = self._known.get((case.id, model.name, seed))
        if known is None or (known.failure is not None and self._try_again(known.failure)):
            known = await self._make(case, model, seed)
            self._known[case.id, model.name, seed] = known
        if known.failure is not None:
            return known.failure
        return tuple(self.run.blobs.path(picture.sha256, picture.format) for picture in known.pictures)

    def _try_again(self, failure: Failure) -> bool:
        return failure.kind in TRANSIENT or failure.kind in self.retry

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
        self.progress.to_make += 1
        await asyncio.to_thread(self._know, case)
        async with place:
            if self.stopped == "interrupt":  # not recorded: it was not asked for
                failure = Failure(kind="missing_output", detail="interrupted before this picture")
                return Output(case=case.id, model=model.name, seed=seed, failure=failure)
            try:
                await self.budget.reserve(worst)
            except BudgetSpentError:
                self.stopped = "budget"
                failure = Failure(kind="budget", detail="the budget was spent before this picture")
                return Output(case=case.id, model=model.name, seed=seed, failure=failure)
            try:
                painted = await model.generate(commission, seed)
            finally:
                await self.budget.release(worst)
        self.budget.pay(_cost(painted))
        output = await asyncio.to_thread(self._kept, case, model, seed, painted)
        for number, step in enumerate(painted.steps):
            await self.recorder.record(self._step(case, model, seed, number, step))
        await self.recorder.record(output)
        self.progress.made += 1
        if output.failure is not None:
            self.progress.failed[output.failure.kind] += 1
        return output

    def _know(self, case: AnyCase) -> None:
        """Note what the model is shown: a later command must not judge it against other pictures."""
        for picture in case.request.pictures:
            path = self.dataset.path(picture)
            if path not in self._noted:
                self._noted.add(path)
                with contextlib.suppress(OSError):  # a picture that is not there is for the model to say
                    state = file_state(path)
                    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
                    self.recorder.know(KnownPicture(picture.name, str(path.absolute()), state, sha256))

    def _kept(self, case: AnyCase, model: ImageModel, seed: int, painted: Painted) -> Output:
        """The output with its pictures safe in the run; of an incomplete set what there is, and a note of the rest.

        Of several pictures for one the first is taken, and noted. A set stays as it came: whether it has the number
        that was asked for is for the judge to say.
        """
        nothing = Failure(kind="missing_output", detail=f"{model.name} gave no picture")
        wanted, came = case.request.n_pictures, len(painted.pictures)
        kept = self._stored(painted.pictures if wanted > 1 else painted.pictures[:1])
        failure = kept if isinstance(kept, Failure) else painted.failure or (None if kept else nothing)
        stored = () if isinstance(kept, Failure) else kept
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
            provenance=provenance,
        )

    def _step(self, case: AnyCase, model: ImageModel, seed: int, number: int, step: Step) -> Output:
        stored = self._stored(step.pictures)
        nothing = Failure(kind="missing_output", detail="the step gave no picture")
        why = stored if isinstance(stored, Failure) else step.failure or nothing
        there = () if isinstance(stored, Failure) else stored
        return Output(
            case=case.id,
            model=model.name,
            seed=seed,
            step=number,
            pictures=there,
            failure=None if there else why,
            seconds=step.seconds,
            cost_usd=step.cost_usd,
            provenance={"instruction": step.instruction, **step.provenance},
        )

    def _stored(self, pictures: Sequence[bytes]) -> tuple[StoredPicture, ...] | Failure:
        stored = []
        for data in pictures:
            facts: PictureFacts | Failure = facts_of(data)
            if isinstance(facts, Failure):
                return facts
            self.run.blobs.put(data, facts.format)
            stored.append(StoredPicture.of(facts))
        return tuple(stored)


def _cost(painted: Painted) -> float | None:
    costs = [painted.cost_usd, *(step.cost_usd for step in painted.steps)]
    return None if all(cost is None for cost in costs) else sum(cost or 0.0 for cost in costs)
