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


def demo_command(
    *,
    out: Annotated[Path, Parameter(help="Folder for the pictures, the run and the pages")] = Path("refbench-demo"),
    judge: Annotated[
        str | None, Parameter(help="A judge for the pictures too, for example openai:gpt-4o; default $REFBENCH_JUDGE")
    ] = None,
) -> int:
    """See the whole flow without a key: a real leaderboard, is a gap real, a run of your own, and the pages.

    Every command is shown as you would type it. With a judge ($REFBENCH_JUDGE, or --judge) the pictures are judged too,
    which asks it 120 questions.
    """
    from refbench.report.terminal import console

    judge = judge or os.environ.get("REFBENCH_JUDGE")
    show = console()
    show.rule("1. What is published: GPT-4o's released verdicts on eight models, with what the paper leaves out")
    _typed("table", "creval", "--subset", "paper874")
    show.rule("2. Is the gap real?")
    _typed("compare", *(f"creval:{model}" for model in _RANKED))
    show.rule("3. A run of your own: subjects and backgrounds from nine photographs, three models, no judge")
    run = _measured_run(out)
    if run is None:
        return 0
    _typed("compare", f"{run}:copy", f"{run}:collage")
    runs = [run]
    if judge:
        show.rule(f"4. The same pictures, judged by {judge}")
        judged = out / "judged"
        _typed("run", out / "cases.jsonl", "--rubric", "five_criteria", *_models(), "--judge", judge, "--out", judged)
        runs.append(judged)
    show.rule("The pages: every picture behind every number")
    _typed("view", *runs, "--data", out, "--out", out / "site")
    if not judge:
        show.print(
            "\nWith a judge: REFBENCH_JUDGE=openai:gpt-4o refbench demo (or any server: openai:MODEL?base_url=URL)."
        )
    return 0


def _measured_run(out: Path) -> Path | None:
    """Make the set and run the baselines on it; None where the photographs or the networks are not installed."""
    from refbench.demo import write_set
    from refbench.networks import why_not
    from refbench.record import RefBenchError
    from refbench.report.terminal import console

    try:
        cases = write_set(out)
    except RefBenchError as error:
        console().print(f"This part needs more: {error}. In a checkout, `make demo` has everything.")
        return None
    missing = next((reason for name in ("u2netp", "mobilenet_v2") if (reason := why_not(name))), None)
    if missing:
        console().print(f"This part needs small networks: {missing}. In a checkout, `make demo` has everything.")
        return None
    console().print(f"{cases} cases are in {out / 'cases.jsonl'}, the benchmark is {out / 'multireference.py'}.")
    _typed("run", out / "multireference.py", "--data", out, *_models(), "--out", out / "run")
    return out / "run"


def _models() -> list[str]:
    return [word for name in _BASELINES for word in ("--model", f"{name}=baseline:{name}")]


def _typed(*words: str | Path) -> int:
    """Show a command as a user would type it, and run it."""
    from refbench.cli.app import app
    from refbench.report.terminal import console

    typed: Sequence[str] = [str(word) for word in words]
    console().print(f"\n[bold]$ {shlex.join(['refbench', *typed])}[/bold]\n", soft_wrap=True, highlight=False)
    code = app(typed, result_action="return_value")
    return code if isinstance(code, int) else 0
