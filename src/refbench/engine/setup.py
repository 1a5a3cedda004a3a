"""Preparing a run: what its options ask for, checked, and refused when what it was made of has changed, before anything
is opened or paid for.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refbench.benchmarks import Benchmark, Dataset, benchmark, resolve_data
from refbench.benchmarks.kit.beside import with_measures
from refbench.benchmarks.kit.definition import Judging, measured_by
from refbench.calls.transport import Transport
from refbench.case import AnyCase
from refbench.chat.pictures import PicturePolicy
from refbench.chat.vlm import VLM, make_vlm
from refbench.engine.options import PICTURE_SETTINGS, RunOptions
from refbench.evidence import Purpose
from refbench.failure import Failure
from refbench.machine import MACHINE_ERRORS
from refbench.models import AnyModel, ImageModel, seeds_for
from refbench.models.api.job_journal import JobJournal
from refbench.models.build import ModelSetup, make_model
from refbench.output import Output, StoredPicture
from refbench.pictures import named, picture_bytes, regular_bytes, verified
from refbench.record import RefBenchError, content_key, counted
from refbench.runs import Blobs, LedgerWriter, Run
from refbench.runs.ledger import KnownPicture, file_state
from refbench.runs.run import fair_order, ledger_name, other_weights
from refbench.specs import Spec
from refbench.tables.scoring import noted_metrics
from refbench.text.files import file_text

if TYPE_CHECKING:
    from refbench.engine.options import Judges, Models
    from refbench.engine.ray.models import Cluster


@dataclass(frozen=True)
class Subject:
    """What a run is about, where that is not what its options name: an audit's variants of another run's outputs."""

    bench: Benchmark
    dataset: Dataset
    """Its cases as judges are asked about them."""
    models: Sequence[AnyModel]
    judging: Callable[[Judging], Judging]
    """What it changes of how the benchmark asks."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What the run keeps of this machine, in no fingerprint."""


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
    proxies: frozenset[str] = frozenset()
    """Those of the judges that are asked about everything where the others are asked about a part."""
    parts: Sequence[str] | None = None
    """What is measured, all that can be where empty; None for nothing."""
    notes: Mapping[str, str] = field(default_factory=dict)

    def models_and_seeds(self) -> list[tuple[AnyModel, int]]:
        """Each model with each seed that it is asked for."""
        return [(model, seed) for model in self.models for seed in seeds_for(model, self.options.seeds)]

    def repeats_of(self, model: AnyModel) -> int:
        """How often judges are asked the same about an output of this model."""
        return self.judging.repeats.get(model.name, self.options.repeats)

    def create_run(self) -> Run:
        """The run directory, new or as it was left; refused where it holds other cases or settings."""
        bench, options = self.bench, self.options
        # The same whether a judge comes now or later; with what is done to pictures, because the judge sees the result.
        settings = self.settings
        recorded = {**self.judging.recorded, **{key: settings[key] for key in PICTURE_SETTINGS if key in settings}}
        return Run.create(
            options.run_directory,
            bench.name,
            self.dataset.cases,
            subset=options.subset,
            settings=recorded,
            keep=bench.source,
            code=bench.code,
        )

    def prices_must_be_known(self, what: str = "--budget") -> None:
        """Refuses a budget that could not be held, or `what` else was given that is counted in money."""
        for model in self.models:
            if isinstance(model, ImageModel) and model.traits.price is None:
                raise RefBenchError(
                    f"{what} needs the price of {model.name}'s pictures: add ?price=USD (dollars a picture) to its spec"
                )
        for judge in self.judges:
            if judge.price is None:
                raise RefBenchError(
                    f"{what} needs the price of {judge.name}, which is not known: add ?price=IN,OUT to its spec "
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
    place: Cluster | None = None,
    scratch: Path | None = None,
    subject: Subject | None = None,
) -> Setup:
    """Load the data, find the outputs, make models and judges, and complete the settings.

    Without `scored`, pictures are only made. `place` is where models and judges run, None for this machine, and
    `scratch` where models keep what lasts a moment. With a `subject`, cases and models are its own.
    """

    def vlm(spec: Spec) -> VLM:
        return place.vlm(spec, here) if place is not None else here(spec)

    here = partial(make_vlm, transport=transport)
    bench, dataset = _about(options, subject, scored=scored)
    if options.judges and bench.asking.judging is None:
        raise RefBenchError(f"{bench.title} is not scored by a judge: leave --judge out")
    settings = _settings(bench, options.settings)
    if subject is None:
        dataset = replace(dataset, cases=tuple(bench.asking.given(dataset.cases, settings)))
    specs = _model_specs(_models_of(options, bench)) if subject is None else subject.models
    proxies = judge_specs(options.proxy or ())
    judges = judge_specs([*judge_specs(options.judges), *proxies])
    if scored and not judges and bench.asking.measuring is None:
        raise RefBenchError(f"{bench.title} is scored by a judge: give at least one --judge")
    making = ModelSetup(
        transport=transport,
        make_vlm=vlm,
        folder=scratch or Path(tempfile.gettempdir()) / f"refbench-{os.getuid()}",
        cases=dataset.cases,
        names=bench.data.output_names,
        listed=bench.data.listed_outputs,
        extensions=bench.data.output_extensions,
        path=dataset.path,
        placed=place.model if place is not None else lambda spec, make: make(spec),
        jobs=JobJournal(options.out and options.out / ledger_name(options.shard)),
        timeout=options.timeout,
    )
    models: list[AnyModel] = [make_model(one, making) if isinstance(one, Spec) else one for one in specs]
    _check_seeds(models, options.seeds)
    ordered, shard = fair_order(dataset.cases)[: options.limit], options.shard
    return Setup(
        options=options,
        bench=bench,
        dataset=dataset,
        cases=ordered if shard is None else ordered[shard.index - 1 :: shard.count],
        models=models,
        judges=[vlm(judge) if isinstance(judge, Spec) else judge for judge in judges],
        judging=_judging(bench, dataset, settings, subject),
        settings=settings,
        policy=PicturePolicy.parse(settings.get("max_side"), settings.get("quality")),
        proxies=frozenset(proxy.name for proxy in proxies),
        parts=_parts(bench, dataset.cases, options.metrics) if scored else None,
        notes=subject.notes if subject is not None else {},
    )


def _about(options: RunOptions, subject: Subject | None, *, scored: bool) -> tuple[Benchmark, Dataset]:
    if subject is not None:
        return subject.bench, subject.dataset
    return find_cases(options, _metrics(options)) if scored else find_cases(_rubric_of_run(options), None)


def _judging(bench: Benchmark, dataset: Dataset, settings: dict[str, str], subject: Subject | None) -> Judging:
    if bench.asking.judging is None:
        return Judging(lambda case, material: [], settings)
    judging = bench.asking.judging(dataset.root, settings)
    return judging if subject is None else subject.judging(judging)


def _check_seeds(models: Sequence[AnyModel], seeds: int) -> None:
    """Refuses several seeds where every model has one picture of each case."""
    if seeds > 1 and all(len(seeds_for(model, seeds)) == 1 for model in models):
        reasons = [f"--model {one.name}: {one.one_seed}" for one in models if not isinstance(one, ImageModel)]
        raise RefBenchError(f"--seeds {seeds}: {reasons[0]}")


def _rubric_of_run(options: RunOptions) -> RunOptions:
    """For more pictures of a run that is judged already: own cases under the rubric that it keeps."""
    kept = options.run_directory / "benchmark" / "rubric.md"
    return options.model_copy(update={"rubric": str(kept)}) if options.rubric is None and kept.is_file() else options


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
            there = ", ".join(sorted(bench.asking.measured)) or "nothing"
            raise RefBenchError(
                f"--metrics {name}: {bench.title} measures {there}, and beside it only what reads the output alone "
                "(such as aesthetic, musiq): refbench list metrics"
            )
        parts += [one for one in sorted(bench.asking.measured) if one.partition("#")[0] == part]
    return parts


def _models_of(options: RunOptions, bench: Benchmark) -> Models:
    """The models that are asked for; of a benchmark that ranks judges its own."""
    given: Models = options.models
    if bench.data.outputs and given:
        raise RefBenchError(f"{bench.title} ranks judges by outputs of its own: leave --model out, give --judge")
    return bench.data.outputs or given


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


def _specs(given: Any, option: str, ready: type[Any], of_function: Callable[[str, Any], Any]) -> list[Any]:
    """Lines and tables as specs, what is ready as it is, and functions, which need a name, as what they are. One alone
    stands for a list of one."""
    argument = f"{option.strip('-')}s"
    if isinstance(given, str | Spec | ready) or not isinstance(given, Mapping | Iterable):
        given = [given]
    specs: list[Any] = []
    for name, one in given.items() if isinstance(given, Mapping) else [("", one) for one in given]:
        if isinstance(one, str | Spec | Mapping):
            specs.append(Spec.read(one, option, name))
        elif isinstance(one, ready):
            if name and one.name != name:
                raise RefBenchError(f"{argument}[{name!r}] calls itself {one.name!r}: use that name")
            specs.append(one)
        elif not callable(one):
            raise RefBenchError(f"{argument}: {one!r} is neither a spec such as 'NAME=KIND:WHAT' nor a function")
        elif not name:
            known = getattr(one, "__name__", type(one).__name__)
            raise RefBenchError(f'{argument}: the function {known} needs a name: write {argument}={{"NAME": {known}}}')
        else:
            specs.append(of_function(name, one))
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RefBenchError(f"{option} {twice[0]} is given twice: name them apart, for example a=... and b=...")
    return specs


def find_cases(options: RunOptions, metrics: Sequence[str] | None = ()) -> tuple[Benchmark, Dataset]:
    """The benchmark and its cases: one by name, one in a Python file, or the user's own cases under a rubric.

    `metrics` are what own cases are measured by, None where nothing is scored; other benchmarks know that themselves,
    and are measured in these beside.
    """
    name, rubric, subset = options.benchmark, options.rubric, options.subset
    path = Path(name)
    from refbench.benchmarks.own.cases import holds_cases

    if rubric is not None or holds_cases(path):
        from refbench.benchmarks.own.benchmark import own_benchmark, own_metrics
        from refbench.judges.rubric import rubric_source, shipped_rubrics

        if rubric is None and metrics is not None and not metrics:
            shipped = ", ".join(shipped_rubrics())
            raise RefBenchError(
                f"{name} are cases of your own: give --rubric {shipped} or a file of yours, or --metrics to measure"
            )
        text, title = rubric_source(rubric) if rubric is not None else (None, "")
        dataset = _of_ids(own_benchmark(text, title).data.load(path, subset), options.ids)
        own = own_benchmark(text, title, own_metrics(metrics or (), dataset.cases))
        return replace(own, source={"rubric.md": text} if text is not None else {}), dataset
    bench = with_measures(benchmark(name), metrics or ())
    return bench, _of_ids(bench.data.load(resolve_data(bench, options.data), subset), options.ids)


def _of_ids(dataset: Dataset, path: Path | None) -> Dataset:
    """The cases whose ids a file has, one a line; lines that begin with # are for its reader. All without a file."""
    if path is None:
        return dataset
    lines = [line.strip() for line in file_text(path).splitlines()]
    wanted = dict.fromkeys(line for line in lines if line and not line.startswith("#"))
    known = dataset.by_id()
    if unknown := [name for name in wanted if name not in known]:
        raise RefBenchError(f"{path}: there is no case {unknown[0]} in {dataset.benchmark}")
    if not wanted:
        raise RefBenchError(f"{path}: it has no ids: write one a line")
    chosen = tuple(case for case in dataset.cases if case.id in wanted)
    return replace(dataset, cases=chosen, outside=dataset.outside | (known.keys() - wanted.keys()))


def _settings(bench: Benchmark, given: Mapping[str, str]) -> dict[str, str]:
    pictures = {name: value for name, value in given.items() if name in PICTURE_SETTINGS}
    for name, value in pictures.items():
        if not value.isdigit():
            raise RefBenchError(f"--{name.replace('_', '-')} {value}: write a whole number")
    return {**bench.asking.chosen({k: v for k, v in given.items() if k not in pictures}, bench.title), **pictures}


_PICTURE_SETTINGS = ("max_side", "quality")


# What changed since it was recorded: pictures, judges or prompts. Refused before anything is paid for, because the run
# would take new money and show old numbers, or mix both.

_SHAPES = {"parts": "prompt or pictures", "system": "prompt", "json_schema": "form of the reply"}
"""How keys of a request are called where they would not be understood."""


def check_pictures(
    run: Run, writer: LedgerWriter, dataset: Dataset, models: Sequence[AnyModel], *, replace: bool = False
) -> None:
    """Refuse pictures of cases and outputs of folders that are not those on record.

    With `replace`, outputs that changed are recorded in place of the old ones, all of them at once, and what was said
    about the old ones is retired.
    """
    looks = _Looks(run.pictures(), writer)
    _check_inputs(run, dataset, looks)
    changed = _changed_outputs(run, dataset, models, looks)
    if changed and not replace:
        _, first, now = changed[0]
        names = ", ".join(sorted({model.name for model, _, _ in changed}))
        what = "is gone" if isinstance(now, Failure) else "is another picture"
        raise RefBenchError(
            f"--model {names}: {len(changed)} outputs changed since they were recorded in {run.path} (first: "
            f"{first.case}, which {what}): choose another --out or name, or give --replace to score the new ones in "
            "place of the old"
        )
    for model, before, now in changed:
        writer.replace_output(before, _output(run.blobs, model, before, now))
    writer.commit()


class _Looks:
    """Hashes of files, from the record where a file has not been touched since."""

    def __init__(self, known: Iterable[KnownPicture], writer: LedgerWriter) -> None:
        self._known = {(picture.name, picture.path, picture.state): picture.sha256 for picture in known}
        self._writer = writer

    def sha256(self, path: Path, name: str = "") -> str | None:
        """The hash of a picture's bytes; None where there is no such file."""
        try:
            place, state = str(path.absolute()), file_state(path)
            known = self._known.get((name, place, state))
            if known is None:
                known = hashlib.sha256(regular_bytes(path)).hexdigest()
                self._known[name, place, state] = known
                if not name:  # a touched input is noted once it is known to be the same
                    self._writer.know(KnownPicture(name, place, state, known))
        except OSError as error:
            if error.errno in MACHINE_ERRORS:  # nothing is known of the picture: neither that it is gone
                raise RefBenchError(f"{path} cannot be read just now ({error.strerror}): try again") from error
            return None
        return known


def _check_inputs(run: Run, dataset: Dataset, looks: _Looks) -> None:
    first = run.inputs()
    now = {name: looks.sha256(dataset.picture_root / name, name) for name in first}
    changed = [name for name, sha256 in first.items() if now[name] != sha256]
    if changed:
        what = "is gone" if now[changed[0]] is None else "is another picture"
        raise RefBenchError(
            f"{counted(len(changed), 'picture')} of the cases changed since they were used in {run.path} (first: "
            f"{dataset.picture_root / changed[0]}, which {what}): restore them, or choose another --out"
        )


def _changed_outputs(
    run: Run, dataset: Dataset, models: Sequence[AnyModel], looks: _Looks
) -> list[tuple[AnyModel, Output, tuple[Path, ...] | Failure]]:
    """What stands for models whose pictures are found, and is not what is found now. All cases, whatever the shard:
    half a model replaced would be two models in one table."""
    cases: Mapping[str, AnyCase] = dataset.by_id()
    finders = {model.name: model for model in models if not isinstance(model, ImageModel)}
    changed: list[tuple[AnyModel, Output, tuple[Path, ...] | Failure]] = []
    for output in run.outputs():
        model = finders.get(output.model)
        if model is None or not output.pictures or output.step is not None or output.case not in cases:
            continue
        now = model.find(cases[output.case], output.seed)
        hashes = None if isinstance(now, Failure) else [looks.sha256(path) for path in now]
        if hashes != [picture.sha256 for picture in output.pictures]:
            changed.append((model, output, now))
    return changed


def _output(blobs: Blobs, model: AnyModel, before: Output, paths: tuple[Path, ...] | Failure) -> Output:
    place = {"case": before.case, "model": before.model, "seed": before.seed}
    if isinstance(paths, Failure):
        return Output(**place, failure=paths)
    stored = []
    for path in paths:
        data = picture_bytes(path)
        if isinstance(data, Failure):
            return Output(**place, failure=data)
        facts = named(path, verified(data))
        if isinstance(facts, Failure):
            return Output(**place, failure=facts)
        blobs.put_copy(data, facts.sha256, facts.format)
        stored.append(StoredPicture.of(facts))
    family = getattr(model, "family", "")
    return Output(**place, pictures=tuple(stored), provenance={"path": paths[0].name, "family": family})


async def check_served(run: Run, judges: Sequence[VLM], on_record: OnRecord) -> dict[str, dict[str, str]]:
    """What is known of the models behind the judges that are on servers of one's own, by judge.

    Refuses one whose server tells of other weights, or answers in another state, than when it gave the marks on record.
    """
    known = [judge.name for judge in judges if judge.name in on_record.endpoints]
    served, states = (run.served(), run.answered_as()) if known else ({}, {})
    for judge in judges:
        if judge.name in known and isinstance(judge.system_fingerprints, set):
            judge.system_fingerprints.update(states.get(judge.name, ()))
    found: dict[str, dict[str, str]] = {}
    for judge, told in zip(judges, await asyncio.gather(*(judge.served() for judge in judges)), strict=True):
        if told is None:
            continue
        then, answered = (served.get(judge.name, {}), states.get(judge.name, [])) if judge.name in known else ({}, [])
        changed, state = other_weights(then, told), told.pop("system_fingerprint", "")
        if state and answered and state not in answered and judge.family != "openai":
            changed.append(f"system_fingerprint {', '.join(answered)} then, {state} now")
        if changed:
            raise RefBenchError(
                f"--judge {judge.name}: its server has another model under the same name than when it judged in "
                f"{run.path} ({'; '.join(changed)}): start the server as it was, or choose another --out or another "
                "name for the judge"
            )
        found[judge.name] = {**then, **told}
    return found


@dataclass
class OnRecord:
    """What is on record for each purpose, which addresses judges had, and what is read as failed in a way that is to
    be tried again."""

    run: Run
    acts: dict[Purpose, tuple[str, ...]] = field(default_factory=dict)
    endpoints: dict[str, set[str]] = field(default_factory=dict)
    asked_for: dict[str, tuple[Mapping[str, Any], tuple[Purpose, ...]]] = field(default_factory=dict)
    """Acts that are with a provider, in a batch."""
    measured_by: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """The newest version of each metric that is not shipped, by its protocol, and the code that it had."""

    @classmethod
    def of(cls, run: Run, asked_for: Mapping[str, tuple[Mapping[str, Any], tuple[Purpose, ...]]]) -> OnRecord:
        before = cls(run, asked_for=dict(asked_for))
        for act, (request, purposes) in before.asked_for.items():
            before._take(act, request, purposes)
        for purpose, evidence in run.evidence():
            if evidence.failure is None or not evidence.failure.transient:
                before._take(evidence.id, evidence.request, (purpose,))
            if evidence.kind == "measure" and "code" in evidence.request:
                metric, version, code = (evidence.request[key] for key in ("metric", "version", "code"))
                place = metric, evidence.request["protocol"]
                before.measured_by[place] = max((int(version), str(code)), before.measured_by.get(place, (0, "")))
        return before

    def _take(self, act: str, request: Mapping[str, Any], purposes: Iterable[Purpose]) -> None:
        for purpose in purposes:
            self.acts[purpose] = (*self.acts.get(purpose, ()), act)
            if "endpoint" in request:
                self.endpoints.setdefault(purpose.judge, set()).add(str(request["endpoint"]))

    def examples(
        self, dataset: Dataset, models: Sequence[AnyModel], judges: Collection[str]
    ) -> list[tuple[AnyCase, AnyModel, int]]:
        """An output (case, model, seed) for each part and protocol that these judges were asked about; the judge ""
        stands for what is measured."""
        cases, named = dataset.by_id(), {model.name: model for model in models}
        chosen: dict[tuple[str, str, str], Purpose] = {}
        for purpose in self.acts:
            if purpose.case in cases and purpose.model in named and purpose.judge in judges and purpose.output:
                chosen.setdefault((purpose.judge, purpose.part, purpose.protocol), purpose)
        places = dict.fromkeys((purpose.case, purpose.model, purpose.seed) for purpose in chosen.values())
        return [(cases[case], named[model], seed) for case, model, seed in places]

    def known_as(self, purpose: Purpose, canonical: Mapping[str, Any]) -> str:
        """The act that is on record for a purpose, where the same was asked at whatever address, else the new act's
        id. Refuses to ask something else: the old reply would stand, and the new one would be paid for."""
        act = content_key({"kind": "chat", **canonical})
        before = self._acts(purpose)
        if not before or act in before:
            return act
        for endpoint in sorted(self.endpoints.get(purpose.judge, ())):
            moved = content_key({"kind": "chat", **canonical, "endpoint": endpoint})
            if moved in before and str(canonical.get("endpoint")).partition(" ")[0] == endpoint.partition(" ")[0]:
                return moved
        raise self._refusal(purpose, before[0], canonical)

    def check_measured(self, purpose: Purpose, request: Mapping[str, Any]) -> None:
        """Refuse to measure otherwise than what is on record was measured, unless by a newer version of the metric."""
        newest, code = self.measured_by.get((request["metric"], request["protocol"]), (0, ""))
        if code and newest >= int(request["version"]) and code != request.get("code"):
            raise RefBenchError(
                f"the file of the metric {request['metric']} changed since {self.run.path} was measured ({code} then, "
                f"{request.get('code') or 'none'} now): choose another --out, or raise version= of @metric, so that "
                "everything is measured anew"
            )
        before = self._acts(purpose)
        if not before or content_key({"kind": "measure", **request}) in before:
            return
        if all(int(self._request(act).get("version", 0)) < int(request["version"]) for act in before):
            return
        raise self._refusal(purpose, before[0], request)

    def _acts(self, purpose: Purpose) -> tuple[str, ...]:
        """Those about this output; or about one that is not known, as imported replies are."""
        return self.acts.get(purpose) or self.acts.get(purpose.model_copy(update={"output": ""}), ())

    def _request(self, act: str) -> Mapping[str, Any]:
        if act in self.asked_for:
            return self.asked_for[act][0]
        return next((evidence.request for _, evidence in self.run.evidence() if evidence.id == act), {})

    def _refusal(self, purpose: Purpose, act: str, now: Mapping[str, Any]) -> RefBenchError:
        then = self._request(act)
        keys = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
        differences = ", ".join(
            _SHAPES[key] if key in _SHAPES else f"{key}: {_short(then.get(key))} then, {_short(now.get(key))} now"
            for key in keys
        )
        who = f"--judge {purpose.judge} is asked" if purpose.judge else f"{purpose.part} is measured"
        other = " or give the judge another name" if purpose.judge else ""
        return RefBenchError(
            f"{who} otherwise than what {self.run.path} holds (first: {purpose.case}; {differences}): choose another "
            f"--out{other}"
        )


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
