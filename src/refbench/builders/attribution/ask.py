"""From a run to the run that asks what became of its references: each output with two or more is asked about, by judges
in one call or a call for each reference, or by networks. The engine records, resumes, counts and pays as for any run.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from refbench.analysis.attribution.read import FACE, FEATURES, OBJECT
from refbench.analysis.attribution.records import BESIDE, FOLDER, Way
from refbench.analysis.audit.marks import Variant
from refbench.benchmarks import Dataset
from refbench.benchmarks.own.benchmark import own_benchmark, own_metrics
from refbench.benchmarks.own.cases import OwnCase, OwnDetails
from refbench.builders.audit.make import picture_root
from refbench.builders.audit.read import is_audit, variants_of_run
from refbench.builders.audit.variants import Variants
from refbench.case import AnyCase, Case, Picture
from refbench.engine.evaluation import Evaluation, evaluate_async
from refbench.engine.options import PICTURE_SETTINGS, RunOptions
from refbench.engine.plan import Plan, make_plan
from refbench.engine.setup import Subject, judge_specs
from refbench.failure import Failure
from refbench.metrics import find_metric
from refbench.networks import why_not
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.tables.scoring import benchmark_of

MEASURED = (FACE, OBJECT, FEATURES)
PLANTED = (3, 4)
"""Damages of an audit that take a reference away; of an audit these and the clean outputs are asked about."""
_HIDDEN = "source"
"""The role of pictures that are not shown: the others keep their numbers."""


@dataclass(frozen=True)
class AttributionRequest:
    """What is asked: the outputs of which run, in which way, by which judges."""

    run: Path
    way: Way = "call"
    judges: Any = ()
    data: Path | None = None
    variants: Path | None = None
    """Of an audit: its variants, where they are not in its own folder."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of a run: budget, batch, shard, retry, ..."""


async def attribute(request: AttributionRequest, *, show: bool = False) -> Evaluation:
    """Ask about every output that is not asked about yet."""
    options, subject = prepared(request)
    return await evaluate_async(options, show=show, subject=subject)


async def attribution_plan(request: AttributionRequest) -> Plan:
    """What it will cost: every request is laid out."""
    options, subject = prepared(request)
    return await make_plan(options, precise=False, subject=subject)


def prepared(request: AttributionRequest) -> tuple[RunOptions, Subject]:
    """The options of the run that asks, and what it is about."""
    run, judges = Run.open(request.run), judge_specs(request.judges)
    if (request.way == "offline") == bool(judges):
        raise RefBenchError("--way call and each are asked of a --judge, --way offline of nobody: give one of the two")
    asked, root = _asked(run, request)
    if request.way == "offline":
        metrics = available()
        bench = own_benchmark(None, "", own_metrics(metrics, asked.cases))
    else:
        metrics = ["none"]
        bench = replace(own_benchmark(_rubric(), "attribution"), source={"rubric.md": _rubric()})
    pictures = {key: value for key, value in run.info.settings.items() if key in PICTURE_SETTINGS}
    options = RunOptions.of(
        {
            **request.options,
            "benchmark": "own",
            "models": (),
            "judges": judges,
            "out": request.run / FOLDER / request.way,
            "metrics": metrics,
            "settings": pictures if judges else {},
            "seeds": 1 + max((seed for _, _, seed in asked.outputs), default=0),
        }
    )
    dataset = Dataset("own", root, root, asked.cases)
    return options, Subject(bench, dataset, asked.models(), lambda judging: judging)


def available() -> list[str]:
    """The measurements whose networks are all here; refused where none is."""
    lacking = {name: reason for name in MEASURED for net in find_metric(name).networks if (reason := why_not(net))}
    if len(lacking) == len(MEASURED):
        raise RefBenchError(f"--way offline: {next(iter(lacking.values()))}; refbench fetch local brings what it needs")
    return [name for name in MEASURED if name not in lacking]


# --- what is asked about ----------------------------------------------------------------------------------------------


class RecordedModel:
    """A model's outputs as another run has recorded them."""

    family = ""

    def __init__(self, name: str, outputs: Mapping[tuple[str, str, int], Sequence[Path]], seeds: int) -> None:
        self.name, self._outputs = name, outputs
        self.one_seed = "" if seeds > 1 else "the run has one output of each case"

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure:
        found = self._outputs.get((case.id, self.name, seed))
        return tuple(found) if found else Failure(kind="unsupported", detail="the run has no such output")


@dataclass(frozen=True)
class _Asked:
    """Cases as they are asked about, and by case, model and seed the files of each output."""

    cases: tuple[OwnCase, ...]
    outputs: Mapping[tuple[str, str, int], Sequence[Path]]

    def models(self) -> list[RecordedModel]:
        seeds = len({seed for _, _, seed in self.outputs})
        return [RecordedModel(n, self.outputs, seeds) for n in dict.fromkeys(model for _, model, _ in self.outputs)]


def _asked(run: Run, request: AttributionRequest) -> tuple[_Asked, Path]:
    """Every case that there is, whether it has outputs yet or not: the run that is asked about may grow."""
    bench = benchmark_of(run)
    cases = {case.id: case for case in run.cases(bench.data.case_type) if len(references(case)) > 1}
    if not cases:
        raise RefBenchError(f"{run.path}: no case has two references or more: there is nothing to tell apart")
    pictures = picture_root(run, request.data)
    if pictures is None:
        raise RefBenchError(f"{run.path}: the pictures of the cases are not where they were: give --data")
    outputs = [one for one in run.outputs() if one.step is None and one.pictures and one.case in cases]
    if not outputs:
        raise RefBenchError(f"{run.path} holds no output of a case with two references or more")
    variants = variants_of_run(run, request.variants) if is_audit(run) else None
    root = pictures if variants is None else Path(os.path.commonpath([pictures.absolute(), variants.root.absolute()]))
    relative = _relative(pictures, root)
    shown = {name: [("", dict[int, str]())] for name in cases} if variants is None else _variants_of(variants, root)
    made: dict[str, OwnCase] = {}
    called: dict[tuple[str, str], list[str]] = {}
    for name, ways in shown.items():
        for variant, changed in ways if name in cases else ():
            of_way = list(_cases_of(cases[name], request.way, relative, changed, variant))
            made |= {case.id: case for case in of_way}
            called[name, variant] = [case.id for case in of_way]
    files = {
        (case, output.model, output.seed): [run.blobs.path(one.sha256, one.format) for one in output.pictures]
        for output in outputs
        for case in called.get((output.case, "" if variants is None else output.model), ())
    }
    return _Asked(tuple(made.values()), files), root


def _variants_of(variants: Variants, root: Path) -> dict[str, list[tuple[str, dict[int, str]]]]:
    """Of each case of an audit the variants that are asked about, with the pictures that they show in the place of the
    case's."""
    found: dict[str, list[tuple[str, dict[int, str]]]] = {}
    for row in variants.rows.values():
        if row.state == "made" and Variant.of(row.variant).number in (0, *PLANTED):
            places = {n: variants.path(one).absolute().relative_to(root).as_posix() for n, one in row.inputs.items()}
            found.setdefault(row.case, []).append((row.variant, places))
    return found


def references(case: AnyCase) -> list[int]:
    """Which of the pictures of a case are references, by their places from 0."""
    return [n for n, picture in enumerate(case.request.pictures) if picture.role not in BESIDE]


def _relative(root: Path, common: Path) -> Callable[[str], str]:
    inside = root.absolute().relative_to(common.absolute()) if root.absolute() != common.absolute() else Path()
    return lambda name: (inside / name).as_posix()


def _cases_of(
    case: AnyCase, way: Way, name: Callable[[str], str], changed: Mapping[int, str], model: str
) -> Iterator[OwnCase]:
    """The case as it is asked about: whole, or once for each reference, the other pictures hidden."""
    called = f"{case.id} ({model})" if changed else case.id
    for shown in [[n] for n in references(case)] if way == "each" else [references(case)]:
        pictures = [
            Picture(name=changed.get(n, name(one.name)), role=one.role if n in shown else _HIDDEN)
            for n, one in enumerate(case.request.pictures)
        ]
        yield Case[OwnDetails](
            id=f"{called} [image {shown[0] + 1}]" if way == "each" else called,
            request=case.request.model_copy(update={"pictures": tuple(pictures)}),
            cluster=case.id,
            details=OwnDetails(
                questions=tuple(text.format(image=n + 1) for n in shown for text in _questions().values())
            ),
        )


@cache
def _questions() -> Mapping[str, str]:
    return tomllib.loads(resources.files(__package__).joinpath("questions.toml").read_text("utf-8"))


@cache
def _rubric() -> str:
    return resources.files(__package__).joinpath("rubric.md").read_text("utf-8")
