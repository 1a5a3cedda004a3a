"""`refbench run`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
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
from refbench.machine import REQUEUE
from refbench.record import RefBenchError
from refbench.runs import Shard

if TYPE_CHECKING:
    from refbench.benchmarks.kit.definition import Setting
    from refbench.engine.evaluation import Evaluation
    from refbench.engine.options import RunOptions

# Its words are read below, once the benchmark is known whose settings are options too; help as well.
run_command = App(name="run", help_flags=(), version_flags=())


Words = Annotated[str, Parameter(allow_leading_hyphen=True)]


@run_command.default
def _run(*words: Words) -> int:
    return called_with_settings("run", words, _command)


def called_with_settings(
    name: str, words: Sequence[str], command: Callable[[Sequence[Setting]], Command], *options: str
) -> int:
    """Call a command whose words name a benchmark with the benchmark's settings as options of its own, beside those of
    the record: all, or these."""
    code = with_settings(name, words, command, *options)(words, result_action="return_value")
    return code if isinstance(code, int) else 0


def with_settings(
    name: str, words: Sequence[str], command: Callable[[Sequence[Setting]], Command], *options: str
) -> App:
    """The command as these words call it."""
    from refbench.cli.app import app as refbench

    settings = _settings_of(words)
    _check_names(words, settings)
    app = App(
        name=f"refbench {name}",
        help_epilogue=refbench.help_epilogue,
        version_flags=(),
        default_parameter=Parameter(negative=()),
        suppress_keyboard_interrupt=False,  # else it ends without a word
        error_formatter=refbench.error_formatter,
    )
    app.default(with_run_options(*options, settings=setting_options(settings))(command(settings)))
    return app


def all_settings(given: dict[str, Any], settings: Sequence[Setting]) -> dict[str, str]:
    """Those given as options of their own, taken out of `given`, and those given by `--set`."""
    chosen = {one.name: given.pop(one.name) for one in settings if one.name in given}
    return {**chosen, **given_settings(given.pop("settings", ()))}


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
        settings are options of its own, shown by refbench run creval --help. Several benchmarks, as A,B or all, are
        run one after the other in OUT/NAME, with one budget.
        """
        from refbench.cli.printing import hint, write_result
        from refbench.engine.evaluation import evaluate_async
        from refbench.engine.several import several
        from refbench.text.console import printable

        smaller = {"max_side": max_side} if max_side else {}
        given["settings"] = {**smaller, **all_settings(given, settings)}
        options = run_options(benchmark, given | ({"wait": False} if no_wait else {}))
        if several(options.benchmark):
            from refbench.cli.several import run_several

            if by != "overall" or items is not None:
                raise RefBenchError("--by and --items are about one benchmark: refbench table OUT/NAME has them")
            return run_several(options, allow_failures, json=json)
        evaluation = asyncio.run(evaluate_async(options, show=not json))
        write_result(evaluation.result, "json" if json else "terminal", by=by, items=items)
        if not json:
            go_on = "again to resume"
            if evaluation.stopped == "resolved":
                go_on = "without --stop-when-resolved to ask for the rest"
            hint(f"\nNext: refbench table {options.out} --markdown, or the same command {go_on}")
        if evaluation.decisions and not json:
            print("\n" + "\n".join(printable(one.sentence) for one in evaluation.decisions))
        if evaluation.batches is not None and not json:
            print(evaluation.batches)
        for sentence in (*evaluation.given_up, *evaluation.nothing_to_retry):
            print(f"refbench: {printable(sentence, line=True)}", file=sys.stderr)
        return exit_code(evaluation, allow_failures)

    return run


def run_options(benchmark: str, given: dict[str, Any]) -> RunOptions:
    """The record: what the command line says, then the experiment file, then the defaults."""
    from refbench.engine.options import RunOptions

    if benchmark.endswith(".toml"):
        options = RunOptions.from_file(Path(benchmark), given)
    else:
        options = RunOptions.of({"benchmark": benchmark, **given})
    if not options.models and not brings_outputs(options.benchmark):
        raise RefBenchError("give at least one --model, for example --model mine=folder:outputs")
    return options.model_copy(update={"shard": options.shard or slurm_shard()})


def brings_outputs(name: str) -> bool:
    """Whether a benchmark ranks judges by outputs of its own, or several are named that may."""
    from refbench.benchmarks import benchmark
    from refbench.benchmarks.registry import names
    from refbench.engine.several import several

    if several(name):
        return all(brings_outputs(one) for one in several(name))
    return name in names() and bool(benchmark(name).data.outputs)


def _settings_of(words: Sequence[str]) -> Sequence[Setting]:
    """The settings of the benchmark that the words name; none when they name no benchmark that can be loaded."""
    from refbench.benchmarks import benchmark
    from refbench.benchmarks.kit.wording import HARDEN
    from refbench.benchmarks.own.cases import holds_cases
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
            if holds_cases(Path(word)):
                return (HARDEN,)
        except RefBenchError:
            break  # the command itself will say so
    return ()


_OTHERS = {"no_wait", "max_side", "by", "items", "allow_failures", "json", "help"}
"""Options of the command that are not of the record."""


def _check_names(words: Sequence[str], settings: Sequence[Setting]) -> None:
    """Say where an option belongs that is another benchmark's setting, and how a share of the calls is written."""
    from refbench.engine.options import flags, of_benchmarks

    own = {flag.name.removeprefix("--") or name for name, flag in flags()} | {one.name for one in settings} | _OTHERS
    for option, share, sign in zip(words, words[1:], words[2:], strict=False):
        if (option, sign) == ("--calls", "%"):
            raise RefBenchError(f"--calls {share} %: write it in one word, --calls {share}%")
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
    if evaluation.stopped in INTERRUPTED:
        code, said = INTERRUPTED[evaluation.stopped]
        explain(code, f"{said}; {left}. The same command goes on")
        return code
    if evaluation.batches is not None and evaluation.batches.outstanding:
        return 0  # not finished, and not failed
    where = str(evaluation.run.path)
    code = failure_code(result, allow_failures, missing=True, again="--retry KIND", run=where)
    if not code and evaluation.given_up and waiting:
        explain(1, left)
        return 1
    return code


INTERRUPTED = {"interrupt": (130, "interrupted"), "terminated": (REQUEUE, "asked to end")}
"""Exit codes and words for runs that somebody, or a scheduler, has ended early."""


def slurm_shard() -> Shard | None:
    """The shard of a SLURM array: tasks are counted from the array's first."""
    count, index, first = (os.environ.get(f"SLURM_ARRAY_TASK_{name}") for name in ("COUNT", "ID", "MIN"))
    numbers = [(count or "0"), (index or "0"), (first or "0")]
    if not all(number.isascii() and number.isdecimal() and len(number) < 10 for number in numbers):
        told = ", ".join(numbers)
        raise RefBenchError(
            f"SLURM_ARRAY_TASK_COUNT, _ID and _MIN are {told}, not numbers: unset them or give --shard i/n"
        )
    if count and index and int(count) > 1:
        return Shard.parse(f"{int(index) - int(first or 0) + 1}/{count}")
    return None
