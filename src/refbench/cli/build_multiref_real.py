"""`refbench build multiref-real`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.build import Concurrency, Decided, Out, Retry, Spend, Timeout, run_build
from refbench.cli.options import Json


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
