"""`refbench build ideabench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from refbench.cli.build import Concurrency, Decided, Out, Retry, Spend, Timeout, run_build
from refbench.cli.options import Json


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
