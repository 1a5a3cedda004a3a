"""`refbench build multiref-real`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

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
    out: Annotated[Path, Parameter(help="Folder for the benchmark; the same command resumes it")],
    writer: Annotated[str, Parameter(help="VLM that rewrites the requests and sorts them: openai:MODEL, ...")],
    checker: Annotated[
        str | None,
        Parameter(help="VLM that chooses among outputs and accepts entries; better not the writer; none accepts all"),
    ] = None,
    size: Annotated[int | None, Parameter(help="Entries wanted; all")] = None,
    seed: Annotated[int, Parameter(help="Another seed chooses other requests and splits")] = 0,
    budget: Annotated[str | None, Parameter(help="Most that the build may cost, for example 5usd")] = None,
    review: Annotated[
        Path | None, Parameter(help="What you decided in review.jsonl (accept, edit, reject), or a CSV of that")
    ] = None,
    test_share: Annotated[
        float | None, Parameter(help="Make two splits, dev and test, with this share of the requests in test")
    ] = None,
    max_dropped: Annotated[
        float, Parameter(help="Share of begun requests lost above which the exit code is 1; the paper lost 55 %")
    ] = 0.75,
    concurrency: Annotated[int, Parameter(help="Most calls in flight at an endpoint")] = 16,
    timeout: Annotated[float, Parameter(help="Seconds to wait for a reply")] = 180.0,
    retry: Annotated[
        list[str] | None, Parameter(help="Also ask again what failed finally in this way, for example refused")
    ] = None,
    json: Json = False,
) -> int:
    """Make a real-world MultiRef of your own requests: instructions with image tokens, from pictures before and after.

    Stop it as you like; the same command goes on where it was, and no reply is paid for twice.
    """
    import asyncio
    import sys

    from refbench.builders.multiref_real.build import build
    from refbench.cli.build import report_build

    report = asyncio.run(
        build(
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
            show=None if json else lambda line: print(line, file=sys.stderr),
        )
    )
    return report_build(report, max_dropped=max_dropped, json=json)
