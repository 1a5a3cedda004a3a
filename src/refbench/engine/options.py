"""The options of a run, declared once: the command line, experiment files (TOML) and `refbench.evaluate` all fill the
same record, with the same names, types and defaults."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from refbench.failure import KINDS
from refbench.record import Record, RefBenchError
from refbench.runs.run import Shard
from refbench.text.files import toml_file

if TYPE_CHECKING:
    from refbench.chat.vlm import VLM
    from refbench.models.model import ImageModel
    from refbench.specs import Spec

    Models: TypeAlias = (
        str | Spec | ImageModel | Sequence[str | Spec | ImageModel]
        | Mapping[str, str | Spec | ImageModel | Callable[..., Any]]
    )  # fmt: skip
    """One spec or model, or several; or, by name, specs without one, models, and functions that paint."""
    Judges: TypeAlias = (
        str | Spec | VLM | Sequence[str | Spec | VLM] | Mapping[str, str | Spec | VLM | Callable[..., Any]]
    )
    """One spec or VLM, or several; or, by name, specs without one, VLMs, and functions from a prompt to a reply."""

Protocol: TypeAlias = Literal["paper", "corrected", "both"]
Engine: TypeAlias = Literal["embedded", "ray"]
Dtype: TypeAlias = Literal["float32", "bfloat16"]
Refusals: TypeAlias = Literal["conditional", "worst", "worst,unsupported"]

WHAT, JUDGE, LIMITS, WHERE, OUTPUT = "What to run", "Judge", "Limits", "Where", "Output"
"""The groups in which `refbench run --help` shows them."""


@dataclass(frozen=True)
class Calls:
    """A part of a judge's calls: a share of them, or a number over all models, judges, seeds and repeats."""

    share: float | None = None
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> Calls:
        """Reads `14%` or `366`; raises on anything else."""
        percent = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?) ?%", text.strip())
        if percent and 0 < float(percent[1]) <= 100:
            return cls(share=float(percent[1]) / 100)
        if re.fullmatch(r"[1-9]\d{0,8}", text.strip()):
            return cls(number=int(text))
        raise RefBenchError(f"--calls {text}: write a share such as 14%, or a number of calls such as 366")

    def units(self, n_units: int, systems: int) -> int:
        """How many of so many units this is, each of which takes a call of so many systems."""
        if self.share is not None:
            return min(n_units, math.ceil(self.share * n_units - 1e-9))
        if self.number < systems:
            raise RefBenchError(
                f"--calls {self.number}: one case is judged in {systems} calls here (models, seeds, judges, repeats)"
            )
        return min(n_units, self.number // max(systems, 1))


def _calls(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        Calls.parse(value)
    return value


RENAMED = {"making": "generate_concurrency"}
"""Options that had another name once."""
PICTURE_SETTINGS = ("max_side", "quality")
"""Settings of every benchmark: of the pictures that are sent."""


@dataclass(frozen=True)
class Flag:
    """How the command line shows a field: its group, its help, and its flag where that is not the field's name."""

    group: str
    help: str
    name: str = ""
    typed: Any = None
    """What the command line reads, where the field takes more than text."""


def _texts(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _place(value: Any) -> Any:
    """A path as its text."""
    return str(value) if isinstance(value, PurePath) else value


def _places(value: Any) -> Any:
    """Paths as their texts, one or several."""
    if isinstance(value, str | PurePath):
        return (str(value),)
    return tuple(map(_place, value)) if isinstance(value, list | tuple) else value


def _names(value: Any) -> Any:
    """Names one by one or with commas between."""
    if not isinstance(value, str | list | tuple) or not all(isinstance(text, str) for text in value):
        return value
    return [name.strip() for text in _texts(value) for name in text.split(",") if name.strip()]


def _kinds(values: Sequence[str]) -> Sequence[str]:
    from refbench.specs import nearest

    for kind in values:
        if kind not in KINDS:
            raise RefBenchError(f"--retry {kind}: {nearest(kind, KINDS)}")
    return values


def _budget(value: str | None) -> str | None:
    from refbench.calls.prices import Budget

    Budget.parse(value)
    return value


def _at_once(value: int) -> int:
    if value < 1:
        raise RefBenchError(
            f"--generate-concurrency {value}: give how many pictures a model may make at once, at least 1"
        )
    return value


def _settings(value: Any) -> Any:
    """TOML's true is yes, numbers are written out."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: ("yes" if one else "no") if isinstance(one, bool) else str(one) if isinstance(one, int | float) else one
        for key, one in value.items()
    }


def _pairs(value: Any) -> Any:
    """One pair, or several."""
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(name, str) for name in value):
        return [value]
    return value


Pairs = list[tuple[str, str]]
"""What the command line reads where an option takes two names and may be given several times."""
Texts = list[str]
"""What the command line reads where an option may be given several times."""
Strings: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_texts)]


class RunOptions(Record):
    """What to run, by whom it is judged, how far, where, and how it is tabled."""

    benchmark: Annotated[
        str,
        BeforeValidator(_place),
        Flag(
            WHAT,
            "Name of a benchmark, a file that holds one (.py), cases of your own (.jsonl, .csv), or an experiment "
            "(.toml) that sets these options; those given on the command line override it",
        ),
    ]
    models: Annotated[
        Any, Flag(WHAT, "[NAME=]KIND:WHAT: folder:DIR, python:, openai:, ...; refbench list models", "--model", Texts)
    ] = ()
    out: Annotated[Path | None, Flag(WHAT, "Run directory; the same command resumes it")] = None
    data: Annotated[Path | None, Flag(WHAT, "Directory of the official data; default $REFBENCH_DATA/NAME")] = None
    subset: Annotated[str | None, Flag(WHAT, "Only the cases of a named subset, for example paper874")] = None
    metrics: Annotated[
        tuple[str, ...],
        BeforeValidator(_names),
        Flag(
            WHAT,
            "Only these measured parts, or none; all by default. Metrics of the output alone (aesthetic, musiq) beside "
            "them. For cases of your own: the metrics to use",
            typed=Texts,
        ),
    ] = ()
    seeds: Annotated[int, Field(ge=1), Flag(WHAT, "Outputs of each model and case, with the seeds 0, 1, ...")] = 1
    replace: Annotated[
        bool, Flag(WHAT, "Outputs of a folder that changed take the place of those on record, which are retired")
    ] = False

    judges: Annotated[
        Any, Flag(JUDGE, "[NAME=]KIND:MODEL, several times for a panel; refbench list judges", "--judge", Texts)
    ] = ()
    repeats: Annotated[int, Field(ge=1), Flag(JUDGE, "How many times each judge is asked each question")] = 1
    rubric: Annotated[
        str | None,
        BeforeValidator(_place),
        Flag(JUDGE, "For cases of your own: a shipped rubric or a Markdown file"),
    ] = None
    settings: Annotated[
        Mapping[str, str],
        BeforeValidator(_settings),
        Flag(JUDGE, "KEY=VALUE for the benchmark's judging, for example questions=one", "--set", Texts),
    ] = {}
    prompts: Annotated[str | None, BeforeValidator(_place)] = None
    """Short for the setting of that name: own, official:CHECKOUT, or a folder. The command line has it as an option of
    the benchmark."""
    repair: bool = True
    """Ask once more, quoting the reply, where a reply could not be read."""
    batch: Annotated[bool, Flag(JUDGE, "Hand calls in as batches at half the price (OpenAI, Anthropic)")] = False
    wait: bool = True
    """With `batch`: stay until the results are there; else a later command collects them."""

    calls: Annotated[
        str | None,
        BeforeValidator(_calls),
        Flag(
            LIMITS,
            "Judge only this part of the calls, as 14% or a number, chosen so that it tells most, and estimate the "
            "whole; a larger one later goes on from there",
        ),
    ] = None
    within: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False),
        Flag(LIMITS, "Judge until every total is known to within this, with 95 %, as all calls would give it"),
    ] = None
    references: Annotated[
        tuple[str, ...],
        BeforeValidator(_places),
        Flag(
            LIMITS,
            "Whose item scores --calls and --within lean on: released (where there are such, by default), run "
            "directories of yours, or none",
            typed=Texts,
        ),
    ] = ()
    proxy: Annotated[
        Any,
        Flag(
            LIMITS,
            "With --calls or --within: a cheap judge that judges everything, for the others' estimates to lean on",
            typed=str | None,
        ),
    ] = None

    ids: Annotated[
        Path | None, Flag(WHAT, "Only the cases whose ids are in this file, one a line; refbench subset writes one")
    ] = None
    limit: Annotated[int | None, Field(ge=0), Flag(LIMITS, "Only the first N cases of the fair order")] = None
    stop_when_resolved: Annotated[
        tuple[tuple[str, str], ...],
        BeforeValidator(_pairs),
        Flag(
            LIMITS,
            "Two models: ask only until it is known which is better; again for further pairs. A baseline may be "
            "RUN_DIR:MODEL, or BENCHMARK:MODEL for released item scores",
            typed=Pairs,
        ),
    ] = ()
    margin: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False),
        Flag(LIMITS, "With --stop-when-resolved: also stop a pair when its gap is known to be no larger than this"),
    ] = None
    shard: Annotated[
        Shard | None,
        BeforeValidator(lambda value: Shard.parse(value) if isinstance(value, str) else value),
        Flag(LIMITS, "The i-th of n parts, as i/n; from SLURM's array variables by default", typed=str),
    ] = None
    budget: Annotated[
        str | None, AfterValidator(_budget), Flag(LIMITS, "Most that the run may cost, for example 5usd")
    ] = None
    retry: Annotated[
        Strings,
        AfterValidator(_kinds),
        Flag(LIMITS, "Also retry permanent failures of this kind, for example refused", typed=Texts),
    ] = ()
    give_up_after: Annotated[
        int,
        Field(ge=0),
        Flag(LIMITS, "Failures in a row, all alike, after which a model or judge is asked nothing more; 0: never"),
    ] = 20
    concurrency: Annotated[int, Flag(LIMITS, "Most calls in flight at an endpoint")] = 32
    generate_concurrency: Annotated[
        int, AfterValidator(_at_once), Flag(LIMITS, "Most pictures that a model makes at once")
    ] = 8
    timeout: Annotated[
        float | None,
        Flag(LIMITS, "Seconds to wait for a reply, 180 without it, or a picture of generate, python: or command:, 600"),
    ] = None
    longest_wait: Annotated[
        float,
        Field(ge=0, allow_inf_nan=False),
        Flag(LIMITS, "Most seconds that a server may have us wait (Retry-After)"),
    ] = 300.0
    reply_megabytes: Annotated[
        int | None,
        Field(ge=1),
        Flag(LIMITS, "Most megabytes of a reply; 8 by default, 128 with pictures, 512 of a batch's results"),
    ] = None

    device: Annotated[
        str, Flag(WHERE, "Where large networks run: cpu, cuda (all GPUs), cuda:0,cuda:1")
    ] = "cpu"  # fmt: skip
    dtype: Annotated[Dtype, Flag(WHERE, "Number format of large networks; recorded")] = "float32"
    engine: Annotated[
        Engine,
        Flag(WHERE, "Where metrics, local models and local judges run: on this machine, or on a Ray cluster's nodes"),
    ] = "embedded"
    address: Annotated[
        str | None,
        Flag(WHERE, "With --engine ray: auto or HOST:PORT of a cluster; without it, Ray is started on this machine"),
    ] = None

    protocol: Annotated[Protocol, Flag(OUTPUT, "Which numbers to give")] = "both"
    refusals: Annotated[
        Refusals,
        Flag(
            OUTPUT,
            "How a model's own failures (it refused, gave no picture) count: left out, with bounds beside; as the "
            "worst value; or requests it cannot take as the worst value too",
        ),
    ] = "conditional"

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str = "") -> RunOptions:
        """The record, checked: every mistake is one sentence that names the option (and the file it is in)."""
        try:
            options = cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            message = first["msg"].removeprefix("Input should be ")
            raise RefBenchError(f"{where}{key}: it should be {message}, not {first['input']!r}") from error
        if options.prompts is None:
            return options
        settings = {"prompts": options.prompts, **options.settings}
        if settings["prompts"] != options.prompts:
            raise RefBenchError(f"{where}prompts is {options.prompts} and among the settings {settings['prompts']}")
        return options.model_copy(update={"prompts": None, "settings": settings})

    @classmethod
    def from_file(cls, path: Path, given: Mapping[str, Any]) -> RunOptions:
        """An experiment file, whose keys are the names of these options; what is `given` comes first."""
        written = read_experiment(path)
        if "benchmark" not in written:
            raise RefBenchError(f'{path}: benchmark is missing: add benchmark = "NAME"')
        settings = {**written.get("settings", {}), **given.get("settings", {})}
        if "prompts" in given.get("settings", {}):
            written.pop("prompts", None)
        return cls.of({**written, **given, "settings": settings}, f"{path}: ")

    @property
    def run_directory(self) -> Path:
        if self.out is None:
            raise RefBenchError("give --out DIR, the directory that the run is kept in")
        return self.out


def flags() -> Iterator[tuple[str, Flag]]:
    """The fields that the command line has, with how it shows them."""
    for name, field in RunOptions.model_fields.items():
        for shown in field.metadata:
            if isinstance(shown, Flag):
                yield name, shown


def read_experiment(path: Path) -> dict[str, Any]:
    """What an experiment file says, checked. Paths are relative to where the command is run."""
    written = toml_file(path)
    known = RunOptions.model_fields
    for key in written:
        if key not in known:
            alike = {"name": "benchmark", "cases": "benchmark", "model": "models", "judge": "judges", "set": "settings"}
            if key in RENAMED:
                raise RefBenchError(f"{path}: {key} is called {RENAMED[key]} now")
            if key in PICTURE_SETTINGS or of_benchmarks(key):
                raise RefBenchError(f"{path}: {key} is a setting: write it under [settings]")
            near = [alike[key]] if key in alike else difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise RefBenchError(f"{path}: {key}: there is no such key: {hint}")
    for key in {"models", "judges", "proxy"} & set(written):
        one = key == "proxy" and isinstance(written[key], str)
        written[key] = _written_specs([written[key]] if one else written[key], f"{path}: {key}")
    RunOptions.of({"benchmark": "", **written}, f"{path}: ")
    return written


def of_benchmarks(setting: str) -> list[str]:
    """The shipped benchmarks that have a setting of this name."""
    from refbench.benchmarks import benchmark
    from refbench.benchmarks.registry import SHIPPED

    return [name for name in SHIPPED if setting in {one.name for one in benchmark(name).asking.settings}]


def _written_specs(written: Any, where: str) -> list[Spec]:
    """Specs in one line or as tables; a list of them, or by name."""
    from refbench.specs import Spec

    if isinstance(written, dict):
        named = [(name, f"{where}.{name}", spec) for name, spec in written.items()]
    elif isinstance(written, list):
        named = [("", f"{where}[{number}]", spec) for number, spec in enumerate(written)]
    else:
        raise RefBenchError(f"{where}: it should be a list of specs, or a table of them by name")
    for _, place, spec in named:
        if not isinstance(spec, str | dict):
            raise RefBenchError(f"{place}: give a spec in one line, or a table with kind = ...")
    return [Spec.read(spec, place, name) for name, place, spec in named]
