"""One command over several benchmarks: a run directory each, one budget, and pictures of equal requests painted once.

They go one after the other in the order given. One that cannot be run is a state that is said, and the others go on.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.benchmarks import Benchmark, benchmark, names, resolve_data
from refbench.calls.prices import Budget
from refbench.engine.evaluation import Evaluation, evaluate_async
from refbench.engine.options import PICTURE_SETTINGS, RunOptions
from refbench.engine.sharing import SharedPictures
from refbench.record import RefBenchError, counted
from refbench.runs import Run
from refbench.specs import Spec
from refbench.text.console import quiet

ALL = "all"
PLACE = "{benchmark}"
"""Stands for the benchmark's name in a model's spec: outputs lie in a folder for each benchmark."""
_OF_ONE = ("ids", "subset", "rubric", "stop_when_resolved", "margin")
"""Options that are about the cases of one benchmark."""
ENDED = ("interrupt", "terminated")


@dataclass(frozen=True)
class Share:
    """What became of one of the benchmarks: its evaluation, or why there is none."""

    name: str
    out: Path
    evaluation: Evaluation | None = None
    state: str = ""


def several(word: str) -> tuple[str, ...]:
    """The benchmarks that a word means, where it means several: all, or a list with commas."""
    if word == ALL:
        return names()
    if "," not in word or Path(word).exists():
        return ()
    return tuple(name.strip() for name in word.split(",") if name.strip())


async def evaluate_several(options: RunOptions, *, show: bool = False) -> list[Share]:
    """Run each benchmark whose data are there, in `out/NAME`; running it again is resuming.

    Raises where the options make no sense for several, or where none of the benchmarks can be run.
    """
    benches = _benches(options)
    if options.run_directory.joinpath("run.json").exists():
        raise RefBenchError(f"--out {options.out} is the run of one benchmark: give several a folder of their own")
    _check_settings(options, benches)
    budget = Budget.parse(options.budget)
    places = {bench.name: options.run_directory / bench.name for bench in benches}
    shares: list[Share] = []
    ended = ""
    for bench in benches:
        out = places[bench.name]
        state = ended or _not_run(options, bench)
        if not state:
            others = [place for name, place in places.items() if name != bench.name and (place / "run.json").exists()]
            if show and not quiet():
                print(f"{bench.name} in {out}", file=sys.stderr)
            try:
                own = _own(options, bench, out, _left(budget, others))
                evaluation = await evaluate_async(own, show=show, shared=SharedPictures(others))
            except RefBenchError as error:
                state = str(error)
            else:
                ended = "not begun: the command was ended before" if evaluation.stopped in ENDED else ""
                shares.append(Share(bench.name, out, evaluation))
                continue
        shares.append(Share(bench.name, out, state=state))
    if not any(share.evaluation for share in shares):
        states = list(dict.fromkeys(share.state for share in shares))
        if len(states) == 1:
            raise RefBenchError(states[0])
        why = "; ".join(f"{share.name}: {share.state}" for share in shares[:3])
        raise RefBenchError(f"none of {counted(len(shares), 'benchmark')} can be run: {why}")
    return shares


def _benches(options: RunOptions) -> list[Benchmark]:
    for name in _OF_ONE:
        if getattr(options, name):
            raise RefBenchError(f"--{name.replace('_', '-')} is about one benchmark: leave it out, or run that alone")
    found = [(word, benchmark(word)) for word in several(options.benchmark)]
    times = Counter(bench.name for _, bench in found)
    if twice := [name for name, count in times.items() if count > 1]:
        raise RefBenchError(f"{options.benchmark}: {twice[0]} is named twice")
    return [bench for _, bench in found]


def _check_settings(options: RunOptions, benches: Sequence[Benchmark]) -> None:
    known = {setting.name for bench in benches for setting in bench.asking.settings} | set(PICTURE_SETTINGS)
    if unknown := sorted(set(options.settings) - known):
        raise RefBenchError(f"--set {unknown[0]}: none of these benchmarks has that setting")


def _not_run(options: RunOptions, bench: Benchmark) -> str:
    """Why a benchmark is passed over before anything of it is opened; empty where it can be tried."""
    if bench.data.outputs and options.benchmark == ALL:
        return f"it ranks judges by outputs of its own, not models: refbench run {bench.name} runs it"
    if bench.asking.judging is not None and bench.asking.measuring is None and not options.judges:
        return "it is scored by a judge, and no --judge is given"
    try:
        resolve_data(bench, _data(options, bench))
    except RefBenchError as error:
        return f"no data: {str(error).partition(': give --data')[0]}"
    return ""


def _data(options: RunOptions, bench: Benchmark) -> Path | None:
    return options.data and options.data / bench.name


def _left(budget: Budget, others: Sequence[Path]) -> str | None:
    """What one run may cost in all: the cap, less what the others have cost, in earlier commands too."""
    if budget.cap is None:
        return None
    spent = sum(Run.open(place).spent_usd() for place in others)
    return f"{max(0.0, budget.cap - spent):.9f}usd"


def _own(options: RunOptions, bench: Benchmark, out: Path, budget: str | None) -> RunOptions:
    """The options as this benchmark takes them."""
    settings = {setting.name for setting in bench.asking.settings} | set(PICTURE_SETTINGS)
    return options.model_copy(
        update={
            "benchmark": next(word for word in several(options.benchmark) if benchmark(word).name == bench.name),
            "out": out,
            "data": _data(options, bench),
            "budget": budget,
            "models": () if bench.data.outputs else _placed(options.models, bench.name),
            "judges": options.judges if bench.asking.judging is not None else (),
            "settings": {name: value for name, value in options.settings.items() if name in settings},
        }
    )


def _placed(models: Any, name: str) -> Any:
    """Specs with the benchmark's name in its place; what is no spec stays."""
    if isinstance(models, str):
        return models.replace(PLACE, name)
    if isinstance(models, Spec):
        return models.model_copy(update={"what": models.what.replace(PLACE, name)})
    if isinstance(models, Mapping):
        return {key: _placed(one, name) for key, one in models.items()}
    if isinstance(models, Sequence):
        return [_placed(one, name) for one in models]
    return models
