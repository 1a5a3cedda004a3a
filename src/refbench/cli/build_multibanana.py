"""`refbench build multibanana`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.build import Concurrency, Decided, Out, Retry, Spend, Timeout, run_build
from refbench.cli.options import Json


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
