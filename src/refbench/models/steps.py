"""StepModel: an agent's pictures at one step of a run, scored like a model's of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.specs import Spec, model_options

RESULT = "result"
"""The last step: the output itself."""


def steps_of(run: Run) -> dict[str, list[str]]:
    """The steps of every model of a run that has any, in order, its result last."""
    numbers: dict[str, set[int]] = {}
    for output in run.outputs():
        if output.step is not None:
            numbers.setdefault(output.model, set()).add(output.step)
    return {model: [*(str(step) for step in sorted(steps)), RESULT] for model, steps in sorted(numbers.items())}


def asked_of(run: Run, models: Iterable[str], cases: Sequence[AnyCase]) -> int:
    """How many of the cases, in their order, every one of the models has been asked for before the first that one has
    not: what a limit or an interruption has left out is not missing from a step."""
    outputs = run.outputs()
    asked = [{output.case for output in outputs if output.model == model} for model in models]
    return next((n for n, case in enumerate(cases) if any(case.id not in mine for mine in asked)), len(cases))


class StepModel:
    """`steps:RUN?model=A&step=0`: what A had made after its first step in that run."""

    def __init__(self, spec: Spec) -> None:
        run = Run.open(Path(spec.what))
        options = model_options(spec)
        wanted, step = options["model"] or "", options["step"] or ""
        there = steps_of(run)
        if wanted not in there:
            there_are = f"it holds steps of {', '.join(there)}" if there else "it holds no steps of any model"
            raise RefBenchError(
                f"--model {spec.name}: {run.path} has no steps of {wanted!r}: {there_are}; write ?model=NAME"
            )
        if step not in there[wanted]:
            raise RefBenchError(f"--model {spec.name}: step={step}: {wanted} has the steps {', '.join(there[wanted])}")
        mine = [output for output in run.outputs() if output.model == wanted]
        self.name = spec.name
        self.family = next((output.provenance["family"] for output in mine if "family" in output.provenance), "")
        self._outputs = {(o.case, o.seed): o for o in mine if o.step == (None if step == RESULT else int(step))}
        self._blobs = run.blobs
        several = any(output.seed for output in mine)
        self.one_seed = "" if several else f"{run.path} has one seed of {wanted}: leave --seeds out"

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The step's pictures of the case."""
        output = self._outputs.get((case.id, seed))
        if output is None:
            return Failure(kind="missing_output", detail=f"{case.id} has no such step")
        if output.failure is not None:
            return output.failure
        return tuple(self._blobs.path(picture.sha256, picture.format) for picture in output.pictures)
