"""`refbench demo`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

_RANKED = ("seedream4-0", "qwen-image-edit_output_edit-2509", "gpt-image-1")
"""Three of the eight released models: a lead that holds, and one that does not."""
_BASELINES = ("copy", "collage", "blend")
_TOTAL = (
    "total is the mean of background, subject and, where there are two, second_subject, each brought to a scale from 0 "
    "(nothing alike) to 1 (the same); face stands apart."
)
_MADE_UP = (
    "No model looks at these pictures: the judge is a server on this machine that draws its marks by chance, refuses "
    "some pictures and answers some in no form that can be read. Its numbers mean nothing. What they show is how a "
    "judge's calls, cost, failures and words look; the prices are made up too, and nobody is paid."
)


def demo_command(
    *,
    out: Annotated[Path, Parameter(help="Folder for the pictures, the run and the pages")] = Path("refbench-demo"),
    judge: Annotated[
        str | None, Parameter(help="A judge for the pictures too, for example openai:gpt-4o; default $REFBENCH_JUDGE")
    ] = None,
) -> int:
    """See the whole flow without a key: a real leaderboard, is a gap real, a run of your own, a judge, and the pages.

    Every command is shown as you would type it. The judge is a server on this machine whose replies are made up. With a
    real one ($REFBENCH_JUDGE, or --judge) it is asked instead: 120 questions.
    """
    from refbench.text.console import console

    judge = judge or os.environ.get("REFBENCH_JUDGE")
    show = console()
    show.rule("1. What is published: GPT-4o's released verdicts on eight models, with what the paper leaves out")
    _typed("table", "creval", "--subset", "paper874")
    show.rule("2. Is the gap real?")
    _typed("compare", *(f"creval:{model}" for model in _RANKED))
    show.rule("3. A run of your own: subjects and backgrounds from nine photographs, three models, no judge")
    if not _set_is_written(out):
        return 0
    runs = [run for run in (_measured_run(out),) if run is not None]
    if judge:
        show.rule(f"4. The same pictures, judged by {judge}")
        runs.append(_judged_run(out, judge, out / "judged"))
    else:
        show.rule("4. The same pictures, and a judge whose replies are made up")
        runs.append(_made_up_run(out))
    show.rule("The pages: every picture behind every number, and every word of the judge")
    _typed("view", *runs, "--data", out, "--out", out / "site")
    if not judge:
        show.print("\nA real judge: REFBENCH_JUDGE=openai:gpt-4o refbench demo (or openai:MODEL?base_url=URL).")
    return 0


def _set_is_written(out: Path) -> bool:
    """Make the cases; says what is missing where the photographs are not installed."""
    from refbench.demo import write_set
    from refbench.record import RefBenchError
    from refbench.text.console import console

    try:
        cases = write_set(out)
    except RefBenchError as error:
        console().print(f"This part needs more: {error}. In a checkout, `make demo` has everything.")
        return False
    console().print(f"{cases} cases are in {out / 'cases.jsonl'}, the benchmark is {out / 'multireference.py'}.")
    return True


def _measured_run(out: Path) -> Path | None:
    """Run the baselines on the set; None where the networks are not installed."""
    from refbench.networks import why_not
    from refbench.text.console import console

    missing = next((reason for name in ("u2netp", "mobilenet_v2") if (reason := why_not(name))), None)
    if missing:
        console().print(f"This part needs small networks: {missing}. In a checkout, `make demo` has everything.")
        return None
    run = out / "run"
    _typed("run", out / "multireference.py", "--data", out, *_models(), "--out", run)
    console().print(_TOTAL, soft_wrap=True)
    _typed("compare", f"{run}:copy", f"{run}:collage")
    return run


def _judged_run(out: Path, judge: str, run: Path) -> Path:
    _typed("run", out / "cases.jsonl", "--rubric", "five_criteria", *_models(), "--judge", judge, "--out", run)
    return run


def _made_up_run(out: Path) -> Path:
    """A folder of its own: a real judge, tried later, does not stand beside numbers that mean nothing."""
    from refbench.demo import made_up_judge
    from refbench.text.console import console

    console().print(_MADE_UP, soft_wrap=True)
    with made_up_judge() as judge:
        run = _judged_run(out, judge, out / "made-up")
    _typed("failures", run)
    return run


def _models() -> list[str]:
    return [word for name in _BASELINES for word in ("--model", f"{name}=baseline:{name}")]


def _typed(*words: str | Path) -> int:
    """Show a command as a user would type it, and run it."""
    from refbench.cli.app import app
    from refbench.text.console import console

    typed: Sequence[str] = [str(word) for word in words]
    line = f"\n$ {shlex.join(['refbench', *typed])}\n"
    console().print(line, style="bold", soft_wrap=True, highlight=False)
    code = app(typed, result_action="return_value")
    return code if isinstance(code, int) else 0
