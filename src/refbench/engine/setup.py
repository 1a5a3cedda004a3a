"""Setting up: what a command asks for, checked, before anything is opened or paid for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from refbench.benchmarks import Benchmark, Dataset, benchmark, resolve_data
from refbench.benchmarks.kit.definition import Judging
from refbench.benchmarks.own import own_benchmark, own_metrics
from refbench.calls import Transport
from refbench.case import AnyCase
from refbench.chat.build import make_vlm
from refbench.chat.pictures import PicturePolicy
from refbench.chat.python import FunctionVLM
from refbench.chat.vlm import VLM
from refbench.judges.rubric import rubric_source, shipped_rubrics
from refbench.models import AnyModel, ImageModel, seeds_for
from refbench.models.build import ModelSetup, make_model
from refbench.models.process.python import FunctionModel
from refbench.record import RefBenchError
from refbench.runs import Shard
from refbench.runs.order import fair_order
from refbench.specs import Spec


class Place(Protocol):
    """Where models and judges run: each is made from its spec, with what would make it on this machine."""

    def model(self, spec: Spec, make: Callable[[Spec], ImageModel]) -> ImageModel: ...

    def vlm(self, spec: Spec, make: Callable[[Spec], VLM]) -> VLM: ...


class Here:
    """On this machine."""

    def model(self, spec: Spec, make: Callable[[Spec], ImageModel]) -> ImageModel:
        return make(spec)

    def vlm(self, spec: Spec, make: Callable[[Spec], VLM]) -> VLM:
        return make(spec)


Models: TypeAlias = Sequence[str | Spec | ImageModel] | Mapping[str, str | Spec | ImageModel | Callable[..., Any]]
"""Specs or models; or, by name, specs without one, models, and functions that paint."""

Judges: TypeAlias = Sequence[str | Spec | VLM] | Mapping[str, str | Spec | VLM | Callable[..., Any]]
"""Specs or VLMs; or, by name, specs without one, VLMs, and functions from a prompt to a reply."""


@dataclass(frozen=True)
class Setup:
    """What a command asks for, checked: everything that can be wrong before a call is made is found here."""

    bench: Benchmark
    dataset: Dataset
    cases: list[AnyCase]
    models: list[AnyModel]
    judges: list[VLM]
    settings: dict[str, str]
    policy: PicturePolicy


def set_up(
    name: str,
    transport: Transport,
    *,
    models: Models,
    judges: Judges,
    data: Path | None = None,
    subset: str | None = None,
    settings: Mapping[str, str] | None = None,
    limit: int | None = None,
    shard: Shard | None = None,
    seeds: int = 1,
    rubric: str | None = None,
    metrics: Sequence[str] = (),
    scored: bool = True,
    place: Place | None = None,
    scratch: Path | None = None,
) -> Setup:
    """Load the data, find the outputs, make the judges, and complete the settings.

    `scratch` is where models keep what lasts a moment.
    """
    place = place or Here()
    vlm = partial(place.vlm, make=lambda spec: make_vlm(spec, transport))
    bench, dataset = find_cases(name, data=data, subset=subset, rubric=rubric, metrics=metrics)
    if judges and bench.asking.judging is None:
        raise RefBenchError(f"{bench.title} is not scored by a judge: leave --judge out")
    chosen = _settings(bench, settings or {})
    specs = [one if isinstance(one, ImageModel) else Spec.read(one) for one in _listed(models)]
    judge_specs = listed_judges(judges)
    _distinct([spec.name for spec in specs], "--model")
    _distinct([spec.name for spec in judge_specs], "--judge")
    if not specs:
        raise RefBenchError("give at least one --model")
    if scored and not judge_specs and bench.asking.measuring is None:
        raise RefBenchError(f"{bench.title} is scored by a judge: give at least one --judge")
    policy = PicturePolicy.parse(chosen.get("max_side"), chosen.get("quality"))
    ordered = fair_order(dataset.cases)[:limit]
    if shard is not None:
        ordered = [case for i, case in enumerate(ordered) if i % shard.count == shard.index - 1]
    making = ModelSetup(
        transport=transport,
        make_vlm=vlm,
        folder=scratch or Path(tempfile.gettempdir()) / f"refbench-{os.getuid()}",
        cases=dataset.cases,
        names=bench.data.output_names,
        path=dataset.path,
        placed=place.model,
    )
    made: list[AnyModel] = [spec if isinstance(spec, ImageModel) else make_model(spec, making) for spec in specs]
    if seeds > 1 and all(len(seeds_for(model, seeds)) == 1 for model in made):
        reasons = [f"--model {one.name}: {one.one_seed}" for one in made if not isinstance(one, ImageModel)]
        raise RefBenchError(f"--seeds {seeds}: {reasons[0]}")
    return Setup(
        bench=bench,
        dataset=dataset,
        cases=ordered,
        models=made,
        judges=[vlm(spec) if isinstance(spec, Spec) else spec for spec in judge_specs],
        settings=chosen,
        policy=policy,
    )


def _listed(models: Models) -> list[str | Spec | ImageModel]:
    if not isinstance(models, Mapping):
        return list(models)
    found: list[str | Spec | ImageModel] = []
    for name, model in models.items():
        if isinstance(model, str | Spec):
            found.append(Spec.read(model, name=name))
        elif isinstance(model, ImageModel):
            if model.name != name:
                raise RefBenchError(f"models[{name!r}] calls itself {model.name!r}: use that name")
            found.append(model)
        else:
            found.append(FunctionModel(name, model))
    return found


def listed_judges(judges: Judges) -> list[Spec | VLM]:
    """The judges that are asked for: VLMs as they are, everything else as a spec."""
    if not isinstance(judges, Mapping):
        return [Spec.read(one, "--judge") if isinstance(one, str | Spec) else one for one in judges]
    found: list[Spec | VLM] = []
    for name, judge in judges.items():
        if isinstance(judge, str | Spec):
            found.append(Spec.read(judge, "--judge", name))
        elif isinstance(judge, VLM):
            if judge.name != name:
                raise RefBenchError(f"judges[{name!r}] calls itself {judge.name!r}: use that name")
            found.append(judge)
        else:
            found.append(FunctionVLM(name, judge))
    return found


def find_cases(
    name: str,
    *,
    data: Path | None = None,
    subset: str | None = None,
    rubric: str | None = None,
    metrics: Sequence[str] = (),
) -> tuple[Benchmark, Dataset]:
    """The benchmark and its cases: one by name, one in a Python file, or the user's own cases under a rubric.

    `metrics` are what own cases are measured by; other benchmarks know that themselves.
    """
    path = Path(name)
    if rubric is not None or path.suffix in (".jsonl", ".csv", ".parquet"):
        if rubric is None and not metrics:
            shipped = ", ".join(shipped_rubrics())
            raise RefBenchError(
                f"{name} are cases of your own: give --rubric {shipped} or a file of yours, or --metrics to measure"
            )
        text, title = rubric_source(rubric) if rubric is not None else (None, "")
        dataset = own_benchmark(text, title).data.load(path, subset)
        own = own_benchmark(text, title, own_metrics(metrics, dataset.cases))
        return replace(own, source={"rubric.md": text} if text is not None else {}), dataset
    bench = benchmark(name)
    return bench, bench.data.load(resolve_data(bench, data), subset)


def _settings(bench: Benchmark, given: Mapping[str, str]) -> dict[str, str]:
    pictures = {name: value for name, value in given.items() if name in _PICTURE_SETTINGS}
    for name, value in pictures.items():
        if not value.isdigit():
            raise RefBenchError(f"--{name.replace('_', '-')} {value}: write a whole number")
    return {**bench.asking.chosen({k: v for k, v in given.items() if k not in pictures}, bench.title), **pictures}


_PICTURE_SETTINGS = ("max_side", "quality")


def judging_of(setup: Setup) -> tuple[Judging, dict[str, str]]:
    """How the run judges, and the settings that it records: the same whether a judge comes now or later."""
    bench, settings = setup.bench, setup.settings
    judging = (
        bench.asking.judging(setup.dataset.root, settings)
        if bench.asking.judging
        else Judging(lambda case, material: [], settings)
    )
    return judging, {**judging.recorded, **_picture_of(settings)}


def _picture_of(settings: Mapping[str, str]) -> dict[str, str]:
    """What is done to pictures: part of the record of every benchmark, because the judge sees the result."""
    return {name: settings[name] for name in _PICTURE_SETTINGS if name in settings}


def _distinct(names: Sequence[str], option: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RefBenchError(f"{option} {twice[0]} is given twice: name them apart, for example a=... and b=...")
