"""The frozen set: recorded outputs of an anchor run that a judge is asked about again, in the same words and afresh."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

from refbench.engine.evaluation import Evaluation, evaluate_async
from refbench.engine.options import RunOptions
from refbench.engine.setup import judge_specs
from refbench.models.steps import RESULT, asked_of
from refbench.record import RefBenchError, content_key
from refbench.runs import Run
from refbench.runs.run import fair_order
from refbench.specs import Spec
from refbench.tables.scoring import benchmark_of

SIZE = 100
"""Outputs of a frozen set: more of them see a smaller shift, and cost more each time."""


def place_of(anchor: Path, run: Path) -> Path:
    """Where the check of an anchor is kept that was made for a run: in that run, under what tells the anchor apart."""
    return run / "anchor" / anchor_key(anchor)[:12]


def checks_of(anchor: Path, run: Path) -> list[Path]:
    """Where the checks of an anchor are that were made for a run, the oldest first."""
    first = place_of(anchor, run)
    further = (path for path in first.parent.glob(f"{first.name}-*") if path.name[len(first.name) + 1 :].isdigit())
    places = [first, *sorted(further, key=lambda path: int(path.name.rpartition("-")[2]))]
    return [path for path in places if (path / "run.json").is_file()]


def further_check(anchor: Path, run: Path) -> Path:
    """Where a check afresh is to be kept, beside those that there are."""
    first, there = place_of(anchor, run), checks_of(anchor, run)
    if not there:
        return first
    number = int(there[-1].name.removeprefix(first.name).removeprefix("-") or 1)
    return first.with_name(f"{first.name}-{number + 1}")


def anchor_key(anchor: Path) -> str:
    """The same as long as the anchor is: by its cases and what its outputs are."""
    run = Run.open(anchor)
    outputs = sorted((o.case, o.model, o.seed, o.content) for o in run.outputs() if o.step is None and o.pictures)
    return content_key([run.info.benchmark, [list(output) for output in outputs]])


def frozen(anchor: Run, size: int = SIZE) -> tuple[list[str], int]:
    """The models of an anchor, and how many cases of its fair order give about so many outputs."""
    models = sorted({output.model for output in anchor.outputs() if output.step is None and output.pictures})
    if not models:
        raise RefBenchError(f"--anchor {anchor.path}: it holds no outputs: judge some with refbench run first")
    cases = fair_order(anchor.cases(benchmark_of(anchor).data.case_type))
    return models, min(ceil(size / len(models)), asked_of(anchor, models, cases) or len(cases))


async def ask_again(
    anchor: Path,
    out: Path,
    *,
    judges: Any,
    settings: Mapping[str, str],
    given: Mapping[str, Any],
    show: bool = False,
) -> Evaluation:
    """Ask the judges about the frozen set again. Refuses, before anything is paid for, a judge who would be asked
    otherwise than then; what an earlier command has asked for this check is not asked twice.

    `given` are further options of a run: data, benchmark (for cases of one's own their file), budget; and `size`, about
    how many outputs.
    """
    run = Run.open(anchor)
    known = {purpose.judge for purpose, act in run.evidence() if act.kind == "chat"}
    specs = judge_specs(judges)
    for spec in specs:
        if spec.name not in known:
            raise RefBenchError(
                f"--judge {spec.name}: {anchor} was judged by {', '.join(sorted(known)) or 'nobody'}: ask one of these "
                "again, by the same name"
            )
    given = dict(given)
    models, limit = frozen(run, given.pop("size", None) or SIZE)
    options = RunOptions.of(
        {
            "benchmark": run.info.benchmark,
            "models": [_recorded(anchor, name) for name in models],
            "judges": specs,
            "out": out,
            "data": data_of(run),
            "subset": run.info.subset,
            "metrics": ("none",),
            "settings": {**settings_of(run), **settings},
            "limit": limit,
            **_of_own(run, given),
        }
    )
    return await evaluate_async(options, show=show, same_as=run)


def _recorded(anchor: Path, model: str) -> Spec:
    """A model whose pictures are those that the anchor has of it."""
    return Spec(name=model, kind="steps", what=str(anchor), options={"model": model, "step": RESULT})


def settings_of(run: Run) -> dict[str, str]:
    """The settings that the anchor was judged with, as far as they can be given again."""
    known = {setting.name: setting for setting in benchmark_of(run).asking.settings}
    pictures = {key: value for key, value in run.info.settings.items() if key in ("max_side", "quality")}
    return pictures | {
        key: value for key, value in run.info.settings.items() if key in known and value in known[key].choices
    }


def data_of(run: Run) -> Path | None:
    """Where the data of a run lie, if they still do."""
    noted = run.notes("data").get("")
    return Path(noted) if noted and Path(noted).is_dir() else None


def _of_own(run: Run, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, with the rubric that a run of one's own cases keeps."""
    found = {key: value for key, value in given.items() if value is not None}
    if run.info.benchmark != "own":
        return found
    if "benchmark" not in found:
        raise RefBenchError(f"{run.path} is about cases of your own: give --cases FILE, the file that they are in")
    return {**found, "data": None, "rubric": str(run.path / "benchmark" / "rubric.md")}
