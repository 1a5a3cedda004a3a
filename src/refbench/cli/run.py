"""`refbench run`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from refbench.cli.options import (
    JUDGE,
    OUTPUT,
    AllowFailures,
    Command,
    Items,
    Json,
    Level,
    given_settings,
    setting_options,
    with_run_options,
)
from refbench.record import RefBenchError
from refbench.runs import Shard

if TYPE_CHECKING:
    from refbench.benchmarks.kit.definition import Setting
    from refbench.engine.evaluation import Evaluation
    from refbench.engine.options import RunOptions

# Its words are read below, once the benchmark is known whose settings are options too; help as well.
run_command = App(name="run", help_flags=(), version_flags=())


@run_command.default
def _run(*words: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    from refbench.cli.app import app as refbench

    settings = _settings_of(words)
    _check_names(words, settings)
    app = App(
        name="refbench run",
        help_epilogue=refbench.help_epilogue,
        version_flags=(),
        default_parameter=Parameter(negative=()),
        suppress_keyboard_interrupt=False,  # else it ends without a word
    )
    app.default(with_run_options(settings=setting_options(settings))(_command(settings)))
    code = app(words, result_action="return_value")
    return code if isinstance(code, int) else 0


def _command(settings: Sequence[Setting]) -> Command:
    def run(
        benchmark: str,
        *,
        no_wait: Annotated[
            bool,
            Parameter(
                help="With --batch: do not wait for the results; run it again later", group=JUDGE, show_default=False
            ),
        ] = False,
        max_side: Annotated[
            int | None, Parameter(help="Shrink pictures to this many pixels before sending; recorded", group=JUDGE)
        ] = None,
        by: Annotated[Level, Parameter(group=OUTPUT)] = "overall",
        items: Annotated[Items, Parameter(group=OUTPUT)] = None,
        allow_failures: Annotated[AllowFailures, Parameter(group=OUTPUT)] = 0.02,
        json: Annotated[Json, Parameter(group=OUTPUT)] = False,
        **given: Any,
    ) -> int:
        """Judge and measure models' outputs on a benchmark, resumably, and print the table.

        Stop it whenever you like: the same command resumes the run, and nothing is paid for twice. A benchmark's
        settings are options of its own, shown by refbench run creval --help.
        """
        from refbench.cli.printing import write_result
        from refbench.engine.evaluation import evaluate_async

        chosen = {one.name: given.pop(one.name) for one in settings if one.name in given}
        chosen |= {"max_side": max_side} if max_side else {}
        given["settings"] = {**chosen, **given_settings(given.pop("settings", ()))}
        options = run_options(benchmark, given | ({"wait": False} if no_wait else {}))
        evaluation = asyncio.run(evaluate_async(options, show=not json))
        write_result(evaluation.result, "json" if json else "terminal", by=by, items=items)
        if not json:
            print(f"\nNext: refbench table {options.out} --markdown, or the same command again to resume")
        if evaluation.batches is not None and not json:
            print(evaluation.batches)
        code = exit_code(evaluation, allow_failures)
        if evaluation.progress.first_failure:
            print(f"One of them: {evaluation.progress.first_failure}", file=sys.stderr)
        return code

    return run


def run_options(benchmark: str, given: dict[str, Any]) -> RunOptions:
    """The record: what the command line says, then the experiment file, then the defaults."""
    from refbench.engine.options import RunOptions

    if benchmark.endswith(".toml"):
        options = RunOptions.from_file(Path(benchmark), given)
    else:
        options = RunOptions.of({"benchmark": benchmark, **given})
    if not options.models:
        raise RefBenchError("give at least one --model, for example --model mine=folder:outputs")
    return options.model_copy(update={"shard": options.shard or slurm_shard()})


def _settings_of(words: Sequence[str]) -> Sequence[Setting]:
    """The settings of the benchmark that the words name; none when they name no benchmark that can be loaded."""
    from refbench.benchmarks import benchmark
    from refbench.benchmarks.registry import names
    from refbench.engine.options import read_experiment

    # What follows an option may be its value (--out creval), unless nothing else names a benchmark (--batch creval).
    after_options = [word for before, word in pairwise(("", *words)) if before.startswith("-")]
    for word in (*(word for word in words if word not in after_options), *after_options):
        try:
            if word.endswith(".toml"):
                word = read_experiment(Path(word)).get("benchmark", "")
            if word in names() or word.endswith(".py"):
                return benchmark(word).asking.settings
        except RefBenchError:
            break  # the command itself will say so
    return ()


_OTHERS = {"no_wait", "max_side", "by", "items", "allow_failures", "json", "help"}
"""Options of the command that are not of the record."""


def _check_names(words: Sequence[str], settings: Sequence[Setting]) -> None:
    """Say where an option belongs that is another benchmark's setting."""
    from refbench.engine.options import flags, of_benchmarks

    own = {flag.name.removeprefix("--") or name for name, flag in flags()} | {one.name for one in settings} | _OTHERS
    for word in words:
        name = word.partition("=")[0].removeprefix("--").replace("-", "_")
        if word.startswith("--") and name not in own and (others := of_benchmarks(name)):
            raise RefBenchError(
                f"{word.partition('=')[0]} is a setting of {' and '.join(others)}, not of this benchmark"
            )


def exit_code(evaluation: Evaluation, allow_failures: float) -> int:
    """The exit code of a run, explained on standard error where it is not 0."""
    from refbench.cli.printing import explain, failure_code

    result, waiting = evaluation.result, evaluation.result.waiting()
    are = "is" if waiting == 1 else "are"
    left = (
        f"{waiting} of the {result.pieces_said()} {are} not asked for yet"
        if waiting
        else "everything that was begun is there"
    )
    if evaluation.stopped == "budget":
        money = evaluation.budget
        explain(
            3,
            f"{money.cap:g} usd do not cover what comes next: {money.spent:.4f} usd are spent, and before a case "
            f"begins the most that it can cost is set aside, here {money.short or 0.0:.4f} usd; {left}. "
            "The same command with a larger --budget goes on",
        )
        return 3
    if evaluation.stopped == "interrupt":
        explain(130, f"interrupted; {left}. The same command goes on")
        return 130
    if evaluation.batches is not None and evaluation.batches.outstanding:
        return 0  # not finished, and not failed
    return failure_code(result, allow_failures, missing=True, again="--retry KIND")


def slurm_shard() -> Shard | None:
    """The shard of a SLURM array: tasks are counted from the array's first."""
    count, index, first = (os.environ.get(f"SLURM_ARRAY_TASK_{name}") for name in ("COUNT", "ID", "MIN"))
    if count and index and int(count) > 1:
        return Shard(index=int(index) - int(first or 0) + 1, count=int(count))
    return None
