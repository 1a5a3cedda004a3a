"""Options that several commands share: annotated types for their signatures, and those of a run from its record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.benchmarks.kit.definition import Setting
    from refbench.engine.options import Flag

Json = Annotated[bool, Parameter(help="Print one JSON object instead of a table", show_default=False)]
CsvRows = Annotated[bool, Parameter(help="Print every row as CSV instead of a table", show_default=False)]
Data = Annotated[Path | None, Parameter(help="Directory of the official data; default $REFBENCH_DATA/NAME")]
Subset = Annotated[str | None, Parameter(help="Only the cases of a named subset, for example paper874")]
ProtocolName = Annotated[Literal["paper", "corrected", "both"], Parameter(help="Which numbers to give")]
Formulas = Annotated[
    str,
    Parameter(
        help="Other formulas than the usual ones, by name: ICE-Bench has `printed`, its equations 4 and 6; KRIS-Bench "
        "has `pooled`, averages over all marks instead of over cases"
    ),
]
Level = Annotated[str, Parameter(help="Also print a table for each slice of this level, for example category or task")]
Items = Annotated[
    Path | None,
    Parameter(help="Write one line for each case, model, metric and protocol to this .jsonl, .csv or .parquet"),
]
Refusals = Annotated[
    Literal["conditional", "worst", "worst,unsupported"],
    Parameter(
        help="How a model's own failures (it refused, gave no picture) count: left out, with bounds beside; as the "
        "worst value; or requests it cannot take as the worst value too"
    ),
]
AllowFailures = Annotated[
    float, Parameter(help="Share of failed replies and measurements above which the exit code is 1")
]
Batch = Annotated[bool, Parameter(help="Hand calls in as batches at half the price")]
ShardText = Annotated[str | None, Parameter(help="The i-th of n parts, as i/n")]
Retry = Annotated[list[str], Parameter(help="Also retry permanent failures of this kind")]
Concurrency = Annotated[int, Parameter(help="Most calls in flight at an endpoint")]
PlanOnly = Annotated[bool, Parameter(help="Only count the calls and what they cost", show_default=False)]
EngineName = Annotated[
    Literal["embedded", "ray"],
    Parameter(
        help="Where metrics, local models and local judges run: on this machine, or on the nodes of a Ray cluster"
    ),
]
Address = Annotated[
    str | None,
    Parameter(help="With --engine ray: auto or HOST:PORT of a cluster; without it, Ray is started on this machine"),
]

_GROUPS = {
    name: Group(name, sort_key=place)
    for place, name in enumerate(("What to run", "Judge", "Settings", "Limits", "Where", "Output"))
}
JUDGE, OUTPUT = _GROUPS["Judge"], _GROUPS["Output"]

Command = Callable[..., int]


def with_run_options(
    *names: str, defaults: Mapping[str, Any] | None = None, settings: Sequence[inspect.Parameter] = ()
) -> Callable[[Command], Command]:
    """Give a command that takes `benchmark` and `**given` the options of a run: all, or those of these names.

    It is called with what the user gave and nothing else, so that an experiment file can say the rest; `defaults` are
    those that help shows where they differ from the record's (`...` for a required option). `settings` come on top.
    """
    from refbench.engine.options import RunOptions, flags

    def add(command: Command) -> Command:
        parameters = inspect.signature(command, eval_str=True).parameters.values()
        own = [p for p in parameters if p.name != "benchmark" and p.kind is not p.VAR_KEYWORD]
        options = [
            _parameter(name, flag, RunOptions.model_fields[name].annotation, default)
            for name, flag in flags()
            if not names or name in names
            for default in [(defaults or {}).get(name, RunOptions.model_fields[name].default)]
        ]
        signature = inspect.Signature([*options, *settings, *own])
        command.__signature__ = signature  # type: ignore[attr-defined]
        command.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
        return command

    return add


def _parameter(name: str, flag: Flag, declared: Any, default: Any) -> inspect.Parameter:
    read = flag.typed or declared
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if name == "benchmark" else inspect.Parameter.KEYWORD_ONLY
    if name == "benchmark" or default is ...:
        default = inspect.Parameter.empty
    elif not isinstance(default, str | int | float):
        default, read = None, read | None  # nothing worth showing
    shown = Parameter(
        name=flag.name or None, help=flag.help, group=_GROUPS[flag.group], show_default=None if default else False
    )
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[read, shown])


def setting_options(settings: Iterable[Setting]) -> list[inspect.Parameter]:
    """The settings that a benchmark declares, as options; a choice between no and yes is a flag."""
    options = []
    for setting in settings:
        switch = setting.choices == ("no", "yes")
        read: Any = bool if switch else str if setting.open else Literal[*setting.choices]
        words = f"{setting.help}: {setting.values}" if setting.open else setting.help
        shown = Parameter(help=words, group=_GROUPS["Settings"], show_default=False if switch else None)
        options.append(
            inspect.Parameter(
                setting.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if switch else setting.default,
                annotation=Annotated[read, shown],
            )
        )
    return options


def given_settings(texts: Sequence[str]) -> dict[str, str]:
    """What `--set KEY=VALUE` says."""
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise RefBenchError(f"--set {text}: write it as KEY=VALUE")
        settings[key] = value
    return settings


def not_negative(_: Any, number: Any) -> None:
    """A seed, of any kind: random generators take none below zero."""
    if number is not None and number < 0:
        raise ValueError("a seed is 0 or more")


def enough_draws(draws: int) -> None:
    """Refuses fewer resamples than an interval needs, and more than a machine holds."""
    if draws < 100:
        raise RefBenchError(f"--draws {draws}: an interval needs at least 100 resamples")
    if draws > 100_000:
        raise RefBenchError(f"--draws {draws}: 100,000 resamples are the most; an interval hardly moves after 2,000")
