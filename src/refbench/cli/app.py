"""`refbench`: the commands, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import os
import sys
import traceback

from cyclopts import App, Parameter

from refbench import __version__

app = App(
    name="refbench",
    help="Evaluate image generation and editing models, above all those that take several reference images.",
    help_epilogue="Exit codes: 0 done, 1 too many failures, 2 wrong usage or bad input, 3 stopped by budget. "
    "Add --debug to any command for the traceback of an error.",
    version=__version__,
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,  # else it ends without a word
)

COMMANDS = {
    "demo": "See the whole flow: a real leaderboard, a gap that is none, a run of your own, its pages",
    "list": "List what is available: benchmarks, metrics, networks, extractors, judges, rubrics, kinds of failure",
    "check": "Count what is in a dataset and list what is wrong with it",
    "describe": "Describe a dataset: prompts, pictures, categories, questions",
    "cases": "Write the cases as JSON lines, for your own inference loop",
    "plan": "Say what a run will cost and what it can show, before it costs anything",
    "doctor": "Try a judge or a model with a real call: reachable, key, pictures, size, cost",
    "run": "Judge and measure models' outputs on a benchmark, resumably, and table them",
    "generate": "Make the models' pictures for every case, resumably, and nothing else",
    "steps": "Score and draw every step of a run's agents",
    "measure": "Measure one picture with one metric",
    "extract": "Make references from pictures: edges, sketches, masks, boxes, poses",
    "fetch": "Get the weights of networks, with their hashes checked",
    "rescore": "Read judge replies that are already there and table them",
    "table": "Print the table of a run",
    "compare": "Is the gap real? Models in pairs on shared cases, ending in a sentence to paste",
    "view": "Look at the pictures behind the numbers: live pages, a static site, or a printable brief",
    "grid": "Draw references and models' outputs side by side, as PNG or PDF",
    "export": "Write scores, evidence, outputs or annotations of a run as CSV, JSON lines or Parquet",
    "merge": "Merge runs of the same cases into one",
    "why": "Say why two numbers differ: what was not the same, and how much comes from where",
    "precision": "Say how sure a run's numbers are: ranks, failures, variance, weights, copies",
    "agree": "Say how far judges agree with each other and with people, and whether one favours its own family",
    "blend": "Make multi-reference samples from pictures (RefBlend): rules, plans, datasets",
    "build": "Make a benchmark of your own from your pictures: CREval, MultiBanana, IDEA-Bench, MultiRef real-world",
    "new": "Write a tested skeleton of a benchmark",
}

for _name, _help in COMMANDS.items():
    app.command(f"refbench.cli.{_name}:{_name}_command", name=_name, help=_help)


def main() -> None:
    """Run the command; turn what goes wrong into one sentence on standard error and an exit code."""
    # The statistics are long products of narrow matrices, in which threads of BLAS mostly wait for each other:
    # comparing 5 models on 10,000 cases took 249 s of CPU on two busy cores, and 40 s with one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = [word for word in sys.argv[1:] if word != "--debug"]
    if len(words) < len(sys.argv) - 1:
        os.environ["REFBENCH_DEBUG"] = "1"  # for what runs in other processes, too
    debug = bool(os.environ.get("REFBENCH_DEBUG"))
    try:
        _check_renamed(words)
        code = app(words, result_action="return_value")
    except KeyboardInterrupt:
        _say("stopped; what was recorded is safe, run the same command again to go on")
        code = 130
    except BrokenPipeError:  # the reader of our output has had enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001 - a fault of ours must still end in one sentence
        from refbench.record import RefBenchError  # only here: it brings pydantic, which --help does without

        if debug:
            traceback.print_exc()
        theirs = str(error) if isinstance(error, RefBenchError) else _fault_of_benchmark(error)
        fault = f"a fault in RefBench ({type(error).__name__}: {error}): please report it with the output of --debug"
        _say(fault if theirs is None else theirs)
        code = 70 if theirs is None else 2
    sys.exit(code if isinstance(code, int) else 0)


def _fault_of_benchmark(error: Exception) -> str | None:
    """Where a benchmark of the user's raised it, if one did; those that were never imported have raised nothing."""
    registry = sys.modules.get("refbench.benchmarks.registry")
    said: str | None = registry.fault_of_benchmark(error) if registry is not None else None
    return said


def _check_renamed(words: list[str]) -> None:
    if words and words[0] in ("run", "generate") and any(word.partition("=")[0] == "--making" for word in words):
        from refbench.record import RefBenchError

        raise RefBenchError("--making is called --generate-concurrency now")


def _say(sentence: str) -> None:
    print(f"refbench: {sentence}", file=sys.stderr)
