"""Preparing a run: what its options ask for, checked, before anything is opened or paid for."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from refbench.benchmarks import Benchmark, Dataset, benchmark, resolve_data
from refbench.benchmarks.kit.definition import Judging, measured_by
from refbench.calls import Transport
from refbench.case import AnyCase
from refbench.chat.build import make_vlm
from refbench.chat.pictures import PicturePolicy
from refbench.chat.vlm import VLM
from refbench.engine.options import RunOptions
from refbench.models import AnyModel, ImageModel, seeds_for
from refbench.models.build import ModelSetup, make_model
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.runs.run import fair_order
from refbench.specs import Spec
from refbench.tables.scoring import noted_metrics

if TYPE_CHECKING:
    from refbench.engine.options import Judges, Models


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


@dataclass(frozen=True)
class Setup:
    """What a run needs, checked: everything that can be wrong before a call is made is found here."""

    options: RunOptions
    bench: Benchmark
    dataset: Dataset
    cases: list[AnyCase]
    """Those of this command, in the fair order."""
    models: list[AnyModel]
    judges: list[VLM]
    judging: Judging
    settings: dict[str, str]
    policy: PicturePolicy
    parts: Sequence[str] | None = None
    """What is measured, all that can be where empty; None for nothing."""

    def models_and_seeds(self) -> list[tuple[AnyModel, int]]:
        """Each model with each seed that it is asked for."""
        return [(model, seed) for model in self.models for seed in seeds_for(model, self.options.seeds)]

    def create_run(self) -> Run:
        """The run directory, new or as it was left; refused where it holds other cases or settings."""
        bench, options = self.bench, self.options
        # The same whether a judge comes now or later; with what is done to pictures, because the judge sees the result.
        settings = self.settings
        recorded = {**self.judging.recorded, **{key: settings[key] for key in _PICTURE_SETTINGS if key in settings}}
        return Run.create(
            options.run_directory,
            bench.name,
            self.dataset.cases,
            subset=options.subset,
            settings=recorded,
            keep=bench.source,
            code=bench.code,
        )

    def prices_must_be_known(self) -> None:
        """Refuses a budget that could not be held."""
        for model in self.models:
            if isinstance(model, ImageModel) and model.traits.price is None:
                raise RefBenchError(
                    f"--budget needs the price of {model.name}'s pictures: add ?price=USD (dollars a picture) to its "
                    "spec"
                )
        for judge in self.judges:
            if judge.price is None:
                raise RefBenchError(
                    f"--budget needs the price of {judge.name}, which is not known: add ?price=IN,OUT to its spec "
                    "(dollars for a million tokens), or install the prices with pip install 'refbench[prices]'"
                )

    async def close(self) -> None:
        """Give back what models and judges hold."""
        for judge in self.judges:
            await judge.close()
        for model in self.models:
            if isinstance(model, ImageModel):
                await model.close()


def prepare_run(
    options: RunOptions,
    transport: Transport,
    *,
    scored: bool = True,
    place: Place | None = None,
    scratch: Path | None = None,
) -> Setup:
    """Load the data, find the outputs, make models and judges, and complete the settings.

    Without `scored`, pictures are only made. `scratch` is where models keep what lasts a moment.
    """
    place = place or Here()
    bench, dataset = find_cases(options, _metrics(options) if scored else ())
    if options.judges and bench.asking.judging is None:
        raise RefBenchError(f"{bench.title} is not scored by a judge: leave --judge out")
    settings = _settings(bench, options.settings)
    specs = _model_specs(options.models)
    judges = judge_specs(options.judges)
    if scored and not judges and bench.asking.measuring is None:
        raise RefBenchError(f"{bench.title} is scored by a judge: give at least one --judge")
    policy = PicturePolicy.parse(settings.get("max_side"), settings.get("quality"))
    vlm = partial(place.vlm, make=lambda spec: make_vlm(spec, transport))
    making = ModelSetup(
        transport=transport,
        make_vlm=vlm,
        folder=scratch or Path(tempfile.gettempdir()) / f"refbench-{os.getuid()}",
        cases=dataset.cases,
        names=bench.data.output_names,
        path=dataset.path,
        placed=place.model,
    )
    models: list[AnyModel] = [spec if isinstance(spec, ImageModel) else make_model(spec, making) for spec in specs]
    if options.seeds > 1 and all(len(seeds_for(model, options.seeds)) == 1 for model in models):
        reasons = [f"--model {one.name}: {one.one_seed}" for one in models if not isinstance(one, ImageModel)]
        raise RefBenchError(f"--seeds {options.seeds}: {reasons[0]}")
    return Setup(
        options=options,
        bench=bench,
        dataset=dataset,
        cases=_chosen_cases(dataset, options),
        models=models,
        judges=[vlm(judge) if isinstance(judge, Spec) else judge for judge in judges],
        judging=_judging(bench, dataset, settings),
        settings=settings,
        policy=policy,
        parts=_parts(bench, dataset.cases, options.metrics) if scored else None,
    )


def _metrics(options: RunOptions) -> list[str]:
    """What own cases are measured by: the columns that their run has already, and those that are named now."""
    out = options.out
    noted = noted_metrics(Run.open(out)) if out is not None and (out / "run.json").exists() else {}
    return sorted({*noted, *options.metrics} - {"none"})


def _parts(bench: Benchmark, cases: Sequence[AnyCase], names: Sequence[str]) -> list[str] | None:
    """The measured parts of these names, and those of further references with them; what does not exist is refused.

    The name of a metric serves where that is what the part is called; one without a network is the first of its name.
    """
    measured_by(bench, cases)
    if tuple(names) == ("none",) or (bench.asking.measuring is None and not names):
        return None
    parts: list[str] = []
    for name in names:
        part = name
        if part not in bench.asking.measured:
            from refbench.metrics import find_metric

            with contextlib.suppress(RefBenchError):
                part = find_metric(name).id
        if part not in bench.asking.measured:
            there = ", ".join(sorted(bench.asking.measured)) or "nothing: leave it out"
            raise RefBenchError(f"--metrics {name}: {bench.title} measures {there}")
        parts += [one for one in sorted(bench.asking.measured) if one.partition("#")[0] == part]
    return parts


def _model_specs(models: Models) -> list[Spec | ImageModel]:
    def painting(name: str, function: Callable[..., Any]) -> ImageModel:
        from refbench.models.process.python import FunctionModel

        return FunctionModel(name, function)

    specs = _specs(models, "--model", ImageModel, painting)
    if not specs:
        raise RefBenchError("give at least one --model, for example --model mine=folder:outputs")
    return specs


def judge_specs(judges: Judges) -> list[Spec | VLM]:
    """The judges that are asked for: VLMs as they are, everything else as a spec."""

    def answering(name: str, function: Callable[..., Any]) -> VLM:
        from refbench.chat.python import FunctionVLM

        return FunctionVLM(name, function)

    return _specs(judges, "--judge", VLM, answering)


def _specs(
    given: Sequence[Any] | Mapping[str, Any], option: str, ready: type[Any], of_function: Callable[[str, Any], Any]
) -> list[Any]:
    """Lines and tables as specs, what is ready as it is, and functions, which have a name here, as what they are."""
    specs: list[Any] = []
    for name, one in given.items() if isinstance(given, Mapping) else [("", one) for one in given]:
        if isinstance(one, str | Spec | Mapping):
            specs.append(Spec.read(one, option, name))
        elif isinstance(one, ready) or not name:
            if name and one.name != name:
                raise RefBenchError(f"{option.strip('-')}s[{name!r}] calls itself {one.name!r}: use that name")
            specs.append(one)
        else:
            specs.append(of_function(name, one))
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RefBenchError(f"{option} {twice[0]} is given twice: name them apart, for example a=... and b=...")
    return specs


def _chosen_cases(dataset: Dataset, options: RunOptions) -> list[AnyCase]:
    ordered, shard = fair_order(dataset.cases)[: options.limit], options.shard
    return ordered if shard is None else ordered[shard.index - 1 :: shard.count]


def find_cases(options: RunOptions, metrics: Sequence[str] = ()) -> tuple[Benchmark, Dataset]:
    """The benchmark and its cases: one by name, one in a Python file, or the user's own cases under a rubric.

    `metrics` are what own cases are measured by; other benchmarks know that themselves.
    """
    name, rubric, subset = options.benchmark, options.rubric, options.subset
    path = Path(name)
    if rubric is not None or path.suffix in (".jsonl", ".csv", ".parquet"):
        from refbench.benchmarks.own import own_benchmark, own_metrics
        from refbench.judges.rubric import rubric_source, shipped_rubrics

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
    return bench, bench.data.load(resolve_data(bench, options.data), subset)


def _settings(bench: Benchmark, given: Mapping[str, str]) -> dict[str, str]:
    pictures = {name: value for name, value in given.items() if name in _PICTURE_SETTINGS}
    for name, value in pictures.items():
        if not value.isdigit():
            raise RefBenchError(f"--{name.replace('_', '-')} {value}: write a whole number")
    return {**bench.asking.chosen({k: v for k, v in given.items() if k not in pictures}, bench.title), **pictures}


_PICTURE_SETTINGS = ("max_side", "quality")


def _judging(bench: Benchmark, dataset: Dataset, settings: dict[str, str]) -> Judging:
    return (
        bench.asking.judging(dataset.root, settings)
        if bench.asking.judging
        else Judging(lambda case, material: [], settings)
    )
