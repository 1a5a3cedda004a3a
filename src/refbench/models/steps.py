"""StepModel: an agent's pictures at one step of a run, scored like a model's of their own."""

from __future__ import annotations

from pathlib import Path

from refbench.case import AnyCase
from refbench.chat.spec import Spec
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.runs import Run


class StepModel:
    """`steps:RUN?model=A&step=0`: what A had made after its first step in that run."""

    def __init__(self, spec: Spec) -> None:
        run = Run.open(Path(spec.what))
        wanted, step = spec.options.get("model"), spec.options.get("step", "")
        made = [output for output in run.outputs() if output.model == wanted and output.step is not None]
        steps = sorted({output.step for output in made if output.step is not None})
        if not made:
            agents = sorted({output.model for output in run.outputs() if output.step is not None})
            there = f"it holds steps of {', '.join(agents)}" if agents else "it holds no steps of any model"
            raise RefBenchError(f"--model {spec.name}: {run.path} has no steps of {wanted}: {there}; write ?model=NAME")
        if not step.isdigit() or int(step) not in steps:
            raise RefBenchError(
                f"--model {spec.name}: step={step}: {wanted} has the steps {', '.join(map(str, steps))}"
            )
        self.name = spec.name
        self.family = next(
            (o.provenance["family"] for o in run.outputs() if o.model == wanted and "family" in o.provenance), ""
        )
        self._outputs = {(o.case, o.seed): o for o in made if o.step == int(step)}
        self._blobs = run.blobs

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The step's pictures of the case."""
        output = self._outputs.get((case.id, seed))
        if output is None:
            return Failure(kind="missing_output", detail=f"{case.id} has no such step")
        if output.failure is not None:
            return output.failure
        return tuple(self._blobs.path(picture.sha256, picture.format) for picture in output.pictures)
