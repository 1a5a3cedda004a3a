"""`refbench build`: one command for each benchmark that can be made anew, imported when it is used; and the one way
in which a build reports itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from refbench.cli.options import Json

if TYPE_CHECKING:
    from refbench.builders import BuildReport

Out = Annotated[Path, Parameter(help="Folder for the benchmark; the same command resumes it")]
Spend = Annotated[str | None, Parameter(help="Most that the build may cost, for example 5usd")]
Decided = Annotated[
    Path | None, Parameter(help="What you decided in review.jsonl (accept, edit, reject), or a CSV of that")
]
Concurrency = Annotated[int, Parameter(help="Most calls in flight at an endpoint")]
Timeout = Annotated[float, Parameter(help="Seconds to wait for a reply")]
Retry = Annotated[
    list[str] | None, Parameter(help="Also ask again what failed finally in this way, for example refused")
]

COMMANDS = {
    "creval": "Creative edits: instructions in nine dimensions, and yes/no questions to judge them by",
    "multibanana": "Compositions of several references: filtered pictures, tasks, instructions",
    "ideabench": "Design tasks: six graded questions for each case",
    "multiref-real": "Real-world edits of several pictures: instructions with tokens, from before and after",
}

build_command = App(
    name="build",
    help="Make a benchmark of your own from your own pictures, in the official layout, with a data card.",
    default_parameter=Parameter(negative=()),
)

for _name, _help in COMMANDS.items():
    _module = _name.replace("-", "_")
    build_command.command(f"refbench.cli.build:{_module}_command", name=_name, help=_help)


def run_build(
    build: Callable[[Callable[[str], None] | None], Coroutine[Any, Any, BuildReport]], *, max_dropped: float, json: bool
) -> int:
    """Run a build and print how it went; the exit code is 3 for a spent budget, 1 when nothing or too little was
    made."""
    import asyncio
    import sys

    from refbench.record import RefBenchError

    if not 0 <= max_dropped <= 1:
        raise RefBenchError(f"--max-dropped {max_dropped:g}: give a share from 0 to 1, for example 0.5")
    report = asyncio.run(build(None if json else lambda line: print(line, file=sys.stderr)))
    if json:
        import orjson

        print(orjson.dumps({**report.model_dump(), "lost_share": round(report.lost_share, 4)}).decode())
    else:
        _print_report(report, max_dropped)
    if report.stopped == "budget":
        return 3
    if not report.made or report.stopped:
        return 1
    return 1 if report.lost_share > max_dropped else 0


def _print_report(report: BuildReport, max_dropped: float) -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    from refbench.report.terminal import console

    out = console()
    said = f"{report.made:,} of {report.wanted:,} items made in {report.out}"
    out.print(Text(said, style="bold"))
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for name in ("left out at", "why", "how many"):
        grid.add_column(name, overflow="fold", justify="right" if name == "how many" else "left")
    for stage, reasons in report.dropped.items():
        for reason, number in reasons.items():
            grid.add_row(Text(stage), Text(reason), f"{number:,}")
    if report.dropped:
        out.print(grid)
    for name, reason in report.missing.items():
        out.print(Text(f"Not covered: {name}: {reason}"))
    for note in report.notes:
        out.print(Text(f"Note: {note}"))
    paid = "price not known" if report.cost_usd is None else f"{report.cost_usd:.4f} usd in all"
    out.print(Text(f"{report.asked:,} calls this time, {paid}."))
    if report.stopped == "budget":
        out.print(
            Text("The budget ended it: what is complete is there. Raise --budget and run the same command again.")
        )
    elif report.unfinished:
        out.print(Text(f"{report.unfinished:,} could not be finished for want of replies: run the same command again."))
    elif report.begun and report.lost_share > max_dropped:
        out.print(Text(f"More was dropped than --max-dropped {max_dropped:g} allows: dropped.jsonl says why."))
    if report.made:
        out.print(Text(f"\nNext: look at {report.out}/README.md, decide in {report.out}/review.jsonl, then"))
        for data in report.data:
            out.print(Text(f"  refbench check {report.benchmark} --data {data}"))


# `refbench build creval`.


def creval_command(
    source: Annotated[Path, Parameter(help="Folder of pictures, searched to its bottom")],
    *,
    out: Out,
    writer: Annotated[str, Parameter(help="VLM that looks at pictures and writes instructions: openai:MODEL, ...")],
    checker: Annotated[
        str | None,
        Parameter(
            name=("--checker", "--questioner"),
            help="VLM that writes the questions; better not the writer, who is the default",
        ),
    ] = None,
    auditor: Annotated[
        str | None,
        Parameter(
            help="VLM that is asked the questions of the unedited pictures (default: the checker); none for no audit"
        ),
    ] = None,
    size: Annotated[
        int | None, Parameter(help="Items wanted, balanced over nine dimensions (default: one a picture)")
    ] = None,
    seed: Annotated[int, Parameter(help="Another seed deals the pictures to other dimensions")] = 0,
    budget: Spend = None,
    review: Decided = None,
    examples: Annotated[
        Path | None,
        Parameter(help="Instructions you like, as JSON with class_id and input_prompt, shown to the writer"),
    ] = None,
    test_share: Annotated[
        float | None, Parameter(help="Make two splits, dev and test, with this share of each dimension in test")
    ] = None,
    flagged: Annotated[
        Literal["drop", "keep"], Parameter(help="Questions that cannot tell an edit from none: left out, or listed")
    ] = "drop",
    max_dropped: Annotated[float, Parameter(help="Share of begun items lost above which the exit code is 1")] = 0.5,
    concurrency: Concurrency = 16,
    timeout: Timeout = 180.0,
    retry: Retry = None,
    json: Json = False,
) -> int:
    """Make a CREval of your own pictures: an instruction for each, and the questions to judge its edits by.

    Stop it as you like; the same command goes on where it was, and no reply is paid for twice.
    """
    from refbench.builders.creval.build import build

    return run_build(
        lambda show: build(
            source,
            out,
            writer=writer,
            checker=checker,
            auditor=auditor,
            size=size,
            seed=seed,
            budget=budget,
            review=review,
            examples=examples,
            test_share=test_share,
            flagged=flagged,
            concurrency=concurrency,
            timeout=timeout,
            retry=retry or (),
            show=show,
        ),
        max_dropped=max_dropped,
        json=json,
    )


# `refbench build multibanana`.


def multibanana_command(
    source: Annotated[Path, Parameter(help="Folder of pictures, searched to its bottom")],
    *,
    out: Out,
    writer: Annotated[
        str, Parameter(help="VLM that classifies pictures and writes instructions: openai:MODEL, gemini:MODEL, ...")
    ],
    checker: Annotated[
        str | None,
        Parameter(help="VLM that screens pictures and checks sets; better not the writer, who is the default"),
    ] = None,
    size: Annotated[int, Parameter(help="Sets wanted, balanced over the tasks that the pictures allow")] = 180,
    seed: Annotated[int, Parameter(help="Another seed draws other sets")] = 0,
    budget: Spend = None,
    review: Decided = None,
    filters: Annotated[
        Path | None, Parameter(help="Limits of your own in TOML, in place of the paper's (docs/build-multibanana.md)")
    ] = None,
    fill: Annotated[
        str | None, Parameter(help="Image model that paints for categories with too few pictures: openai:MODEL, ...")
    ] = None,
    fill_to: Annotated[int, Parameter(help="With --fill: pictures that each category should have")] = 8,
    test_share: Annotated[
        float | None, Parameter(help="Make two splits, dev and test, with this share of the pictures in test")
    ] = None,
    device: Annotated[str, Parameter(help="Where the networks of the filters run: cpu, cuda, cuda:1")] = "cpu",
    max_dropped: Annotated[float, Parameter(help="Share of begun sets lost above which the exit code is 1")] = 0.5,
    concurrency: Concurrency = 16,
    timeout: Timeout = 180.0,
    retry: Retry = None,
    json: Json = False,
) -> int:
    """Make a MultiBanana of your own pictures: sets of one to eight references with an instruction each.

    Stop it as you like; the same command goes on where it was, and no reply is paid for twice.
    """
    from refbench.builders.multibanana.build import build

    return run_build(
        lambda show: build(
            source,
            out,
            writer=writer,
            checker=checker,
            size=size,
            seed=seed,
            budget=budget,
            review=review,
            filters=filters,
            fill=fill,
            fill_to=fill_to,
            test_share=test_share,
            device=device,
            concurrency=concurrency,
            timeout=timeout,
            retry=retry or (),
            show=show,
        ),
        max_dropped=max_dropped,
        json=json,
    )


# `refbench build ideabench`.


def ideabench_command(
    source: Annotated[
        Path,
        Parameter(
            help="Folder of cases (instruction.txt or keywords.txt, pictures), or a table (.csv, .jsonl, .parquet) "
            "with the columns task, instruction or keywords, pictures, outputs"
        ),
    ],
    *,
    out: Out,
    writer: Annotated[
        str, Parameter(help="VLM that writes briefs, keywords, questions and prompts: openai:MODEL, ...")
    ],
    checker: Annotated[
        str | None,
        Parameter(help="VLM that checks the questions; better not the writer, who is the default; none for no check"),
    ] = None,
    size: Annotated[int | None, Parameter(help="Cases wanted, one of each task first (default: all)")] = None,
    seed: Annotated[int, Parameter(help="Another seed chooses other cases and splits")] = 0,
    budget: Spend = None,
    review: Decided = None,
    rephrase: Annotated[
        Literal["needed", "always", "none"],
        Parameter(help="Prompts for text-to-image models: of cases they cannot take as they are, of all, of none"),
    ] = "needed",
    test_share: Annotated[
        float | None, Parameter(help="Make two splits, dev and test, with this share of the cases in test")
    ] = None,
    max_dropped: Annotated[float, Parameter(help="Share of begun cases lost above which the exit code is 1")] = 0.5,
    concurrency: Concurrency = 16,
    timeout: Timeout = 180.0,
    retry: Retry = None,
    json: Json = False,
) -> int:
    """Make an IDEA-Bench of your own design tasks: six graded questions for each, behind the gates of the paper.

    Stop it as you like; the same command goes on where it was, and no reply is paid for twice.
    """
    from refbench.builders.ideabench.build import build

    return run_build(
        lambda show: build(
            source,
            out,
            writer=writer,
            checker=checker,
            size=size,
            seed=seed,
            budget=budget,
            review=review,
            rephrase=rephrase,
            test_share=test_share,
            concurrency=concurrency,
            timeout=timeout,
            retry=retry or (),
            show=show,
        ),
        max_dropped=max_dropped,
        json=json,
    )


# `refbench build multiref-real`.


def multiref_real_command(
    source: Annotated[
        Path,
        Parameter(
            help="Table (.csv, .jsonl, .parquet) with the columns request, inputs, outputs, or a folder of folders "
            "with request.txt, input_1.jpg, ..., output_1.jpg, ..."
        ),
    ],
    *,
    out: Out,
    writer: Annotated[str, Parameter(help="VLM that rewrites the requests and sorts them: openai:MODEL, ...")],
    checker: Annotated[
        str | None,
        Parameter(
            help="VLM that chooses among outputs and accepts entries; better not the writer, who is the default; none "
            "accepts all"
        ),
    ] = None,
    size: Annotated[int | None, Parameter(help="Entries wanted (default: all)")] = None,
    seed: Annotated[int, Parameter(help="Another seed chooses other requests and splits")] = 0,
    budget: Spend = None,
    review: Decided = None,
    test_share: Annotated[
        float | None, Parameter(help="Make two splits, dev and test, with this share of the requests in test")
    ] = None,
    max_dropped: Annotated[
        float, Parameter(help="Share of begun requests lost above which the exit code is 1; the paper lost 55 %")
    ] = 0.75,
    concurrency: Concurrency = 16,
    timeout: Timeout = 180.0,
    retry: Retry = None,
    json: Json = False,
) -> int:
    """Make a real-world MultiRef of your own requests: instructions with image tokens, from pictures before and after.

    Stop it as you like; the same command goes on where it was, and no reply is paid for twice.
    """
    from refbench.builders.multiref_real.build import build

    return run_build(
        lambda show: build(
            source,
            out,
            writer=writer,
            checker=checker,
            size=size,
            seed=seed,
            budget=budget,
            review=review,
            test_share=test_share,
            concurrency=concurrency,
            timeout=timeout,
            retry=retry or (),
            show=show,
        ),
        max_dropped=max_dropped,
        json=json,
    )
