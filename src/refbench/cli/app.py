"""`refbench`: the commands, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback

from cyclopts import App, Group, Parameter

from refbench import __version__
from refbench.machine import MAKE_ROOM, REQUEUE, MadeRoom, making_room
from refbench.text.console import PrintableStream, printable


def wrong_usage(error: Exception) -> object:
    """How errors of the command line are shown: they quote its words, which may be the names of strangers' files."""
    from cyclopts import CycloptsPanel

    return CycloptsPanel(printable(str(error)))


_TOLD = ("numpy", "opencv-python-headless", "pillow", "aiohttp", "pydantic", "torch", "transformers", "ray")


def environment() -> str:
    """The version, and below it what a report of a fault should say of where it runs."""
    import platform
    from importlib import metadata

    versions = {}
    for package in _TOLD:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{__version__}\nPython {platform.python_version()}, {platform.platform()}\n{told}"


app = App(
    name="refbench",
    help="Evaluate image generation and editing models, above all those that take several reference images.",
    help_epilogue="Exit codes: 0 done, 1 too many failures, 2 wrong usage or bad input, 3 stopped by budget, "
    "75 asked to end by SIGTERM or SIGUSR1, 130 interrupted (the same command goes on). "
    "Of track: 0 not worse than the gate, 1 worse, 4 cannot be told. "
    "Of verify: 0 all the same, 1 something differs, 4 cannot be told. "
    "Add --debug to any command for the traceback of an error, and --trust-run to one that opens a run to let it "
    "execute the benchmark's Python file that the run keeps (asked for once; files that you have run need it not). "
    "--quiet leaves out progress and hints, --no-color (or NO_COLOR) colours.",
    version=environment,
    version_format="plaintext",
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,  # else it ends without a word
    error_formatter=wrong_usage,
)

COMMANDS = {
    "demo": "See the whole flow: a real leaderboard, a gap that is none, a run of your own, its pages",
    "list": "List what is available: benchmarks, metrics, networks, extractors, judges, rubrics, kinds of failure",
    "check": "Count what is in a dataset or a run and list what is wrong with it",
    "describe": "Describe a dataset: prompts, pictures, categories, questions",
    "cases": "Write the cases as JSON lines, for your own inference loop",
    "subset": "Choose a small set of cases, with the error that its number has",
    "plan": "Say what a run will cost and what it can show, before it costs anything",
    "doctor": "Try a judge or a model with a real call: reachable, key, pictures, size, cost",
    "run": "Judge and measure models' outputs on a benchmark, resumably, and table them",
    "generate": "Make the models' pictures for every case, resumably, and nothing else",
    "steps": "Score and draw every step of a run's agents",
    "measure": "Measure one picture with one metric",
    "extract": "Make references from pictures: edges, sketches, masks, boxes, poses",
    "fetch": "Get a benchmark's data, or the weights of networks, with their hashes checked",
    "rescore": "Read judge replies that are already there and table them",
    "table": "Print the table of a run",
    "failures": "List what failed in a run: case, model, cause, and what was replied",
    "compare": "Is the gap real? Models in pairs on shared cases, ending in a sentence to paste",
    "track": "Checkpoints of one model against a baseline: intervals that hold over all looks, an exit code for CI",
    "profile": "Several benchmarks of the same models side by side: on one scale, what tells them apart, who disagrees",
    "view": "Look at the pictures behind the numbers: live pages, a static site, or a printable brief",
    "grid": "Draw references and models' outputs side by side, as PNG or PDF",
    "figure": "Draw a figure of a run: the papers' own, and charts that fit the question",
    "paper": "Write what a paper needs of several runs: one table, an appendix, BibTeX, a figure of cases",
    "export": "Write scores, evidence, outputs or annotations of a run as CSV, JSON lines or Parquet",
    "log": "Log a run's numbers, tables and worst pictures to W&B, MLflow, TensorBoard or Trackio",
    "publish": "Publish a run as a folder or a dataset on the Hub: evidence, scores, pictures by licence",
    "verify": "Compute every number of a published run again from its evidence",
    "merge": "Merge runs of the same cases into one",
    "why": "Say why two numbers differ: what was not the same, and how much comes from where",
    "precision": "Say how sure a run's numbers are: ranks, failures, variance, weights, copies",
    "agree": "Say how far judges agree with each other and with people, and whether one favours its own family",
    "attribute": "Which references each output uses, and which one is missing, by judges or networks",
    "audit": "What does a judge see, and what fools it: known damages and attacks on real outputs",
    "sample": "Choose which outputs people should rate, with the chance that each had of being chosen",
    "study": "Let people rate, compare and review; their marks count like a judge's",
    "correct": "Correct a judge's numbers of all outputs by people's marks of some",
    "items": "Say what each case tells about the models, which tell nothing, and what dropping those does to ranks",
    "claim": "Review a claimed gap without a run: what so many cases can show, and what would have to be released",
    "blend": "Make multi-reference samples from pictures (RefBlend): rules, plans, datasets",
    "filter": "A filter judge of one's own: from people's marks of references to a judge that keeps or drops",
    "calibrate": "Find where a judge's marks of references may be trusted, from people's marks",
    "build": "Make a benchmark of your own from your pictures: CREval, MultiBanana, IDEA-Bench, MultiRef real-world",
    "new": "Write a tested skeleton of a benchmark",
    "completion": "Print what makes bash, zsh or fish complete commands and options",
}

GROUPS = {
    "Begin": ("demo", "list", "doctor", "plan"),
    "Run": ("run", "generate", "steps", "measure", "extract", "rescore", "merge"),
    "Look": ("table", "failures", "view", "grid", "figure", "paper", "export", "log", "publish", "verify"),
    "Statistics": (
        "compare",
        "track",
        "profile",
        "why",
        "precision",
        "agree",
        "audit",
        "attribute",
        "items",
        "subset",
        "claim",
    ),
    "People's marks": ("sample", "study", "correct"),
    "Data": ("fetch", "check", "describe", "cases", "blend", "filter", "calibrate", "build", "new", "completion"),
}
"""What `refbench --help` shows together; a command that is in none of them comes first."""

_groups = {title: Group(title, sort_key=place) for place, title in enumerate(GROUPS)}
_group_of = {command: _groups[title] for title, commands in GROUPS.items() for command in commands}
for _name, _help in COMMANDS.items():
    _group = _group_of.get(_name)
    app.command(f"refbench.cli.{_name}:{_name}_command", name=_name, help=_help, group=_group)


_ANYWHERE = {
    "--debug": "REFBENCH_DEBUG",
    "--quiet": "REFBENCH_QUIET",
    "--no-color": "NO_COLOR",
}
"""Options of every command, and the environment variables that say the same."""


def main() -> None:
    """Run the command with printable text as its only output, and end with its exit code."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(PrintableStream, before)
    try:
        sys.exit(_code_of(sys.argv[1:]))
    finally:
        sys.stdout, sys.stderr = before


def _code_of(given: list[str]) -> int:
    """Run the command; turn what goes wrong into one sentence on standard error and an exit code."""
    # The statistics are long products of narrow matrices, in which threads of BLAS mostly wait for each other:
    # comparing 5 models on 10,000 cases took 249 s of CPU on two busy cores, and 40 s with one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = [word for word in given if word != "--trust-run" and word not in _ANYWHERE]
    for word in set(given) & _ANYWHERE.keys():
        os.environ[_ANYWHERE[word]] = "1"  # for what runs in other processes, too
    with making_room():
        return _outcome(words, trusting="--trust-run" in given)


def _outcome(words: list[str], *, trusting: bool) -> int:
    debug = bool(os.environ.get("REFBENCH_DEBUG"))
    try:
        _check_renamed(words)
        with _trusting() if trusting else contextlib.nullcontext():
            code = app(words, result_action="return_value")
        sys.stdout.flush()  # here, where a full disk behind it can still be told
    except KeyboardInterrupt as interrupt:
        for number in (signal.SIGINT, *MAKE_ROOM):
            signal.signal(number, signal.SIG_DFL)  # another one ends at once, without a traceback
        _say("stopped; what was recorded is safe, run the same command again to go on")
        code = REQUEUE if isinstance(interrupt, MadeRoom) else 130
    except BrokenPipeError:  # the reader of our output has had enough, as `| head` does
        _close_output()
        code = 0
    except Exception as error:  # noqa: BLE001 - a fault of ours must still end in one sentence
        from refbench.record import RefBenchError  # only here: it brings pydantic, which --help does without

        if debug:
            traceback.print_exc()
        ours = str(error) if isinstance(error, RefBenchError) else None
        theirs = ours or _fault_of_benchmark(error) or _fault_of_system(error)
        fault = f"a fault in RefBench ({type(error).__name__}: {error}): please report it with the output of --debug"
        _say(fault if theirs is None else theirs)
        code = 70 if theirs is None else 2
        _close_output()
    return code if isinstance(code, int) else 0


def _close_output() -> None:
    """What could not be written stays unwritten: else the interpreter tries again at its end and ends in code 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fault_of_system(error: Exception) -> str | None:
    """What the disk, the memory or the limits of this machine refused, whatever was just being done."""
    if isinstance(error, OSError) and error.strerror:
        place = "standard output or a file" if error.filename is None else error.filename
        return f"{place} cannot be read or written: {error.strerror}"
    return "there is not enough memory for this" if isinstance(error, MemoryError) else None


def _trusting() -> contextlib.AbstractContextManager[None]:
    from refbench.benchmarks.trust import trusting_runs

    return trusting_runs()


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
    with contextlib.suppress(OSError):  # then the exit code has to say it
        print(f"refbench: {printable(sentence, line=True)}", file=sys.stderr, flush=True)
