"""StepModel: an agent's pictures at one step of a run, scored like a model's of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.output import Output
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


def spent_to(run: Run, model: str, step: str) -> tuple[float | None, float | None]:
    """Dollars and seconds that a picture of that step took on average, with the steps before it and without the
    planner's question after it. None unless that is known of every one."""
    usd, seconds = [], []
    for made in _by_place(output for output in run.outputs() if output.model == model).values():
        at = _at(made, step)
        if at is None or at.failure is not None:
            continue
        before = [one for number, one in made.items() if number is not None and (at.step is None or number <= at.step)]
        chain = before if at.step is not None else [*before, at]
        after = at.provenance if at.step is not None else {}
        usd.append(_sum([one.cost_usd for one in chain], after.get("vlm_usd")))
        seconds.append(_sum([one.seconds for one in chain], after.get("vlm_seconds")))
    return _mean(usd), _mean(seconds)


def _sum(amounts: Sequence[float | None], less: str | None) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) - float(less or 0.0) if len(known) == len(amounts) else None


def _mean(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) / len(known) if known and len(known) == len(amounts) else None


def _by_place(outputs: Iterable[Output]) -> dict[tuple[str, int], dict[int | None, Output]]:
    """A model's outputs by case and seed, and by step."""
    found: dict[tuple[str, int], dict[int | None, Output]] = {}
    for output in outputs:
        found.setdefault((output.case, output.seed), {})[output.step] = output
    return found


def _at(made: Mapping[int | None, Output], step: str) -> Output | None:
    """What there was after a step: of an agent that had stopped before it, its result."""
    result = made.get(None)
    stopped = result is not None and "stopped" in result.provenance
    return result if step == RESULT else made.get(int(step), result if stopped else None)


class StepModel:
    """`steps:RUN?model=A&step=0`: what A had made after its first step in that run."""

    def __init__(self, spec: Spec) -> None:
        run = Run.open(Path(spec.what))
        options = model_options(spec)
        wanted, step = options["model"] or "", options["step"] or ""
        there = steps_of(run)
        if step == RESULT:  # which any model has, whether steps led to it or not
            there |= {o.model: [RESULT] for o in run.outputs() if o.step is None and o.model not in there}
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
        self._outputs = {place: _at(made, step) for place, made in _by_place(mine).items()}
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
