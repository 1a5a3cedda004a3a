"""`refbench build creval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from refbench.cli.build import Concurrency, Decided, Out, Retry, Spend, Timeout, run_build
from refbench.cli.options import Json


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
