"""`refbench blend build`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
from cyclopts import Parameter

from refbench.cli.blend_rules import PresetName, RulesFile, Sizes, chosen_rules
from refbench.cli.options import Json
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.refblend.types import Type


def build_command(
    pictures: Annotated[
        Path,
        Parameter(help="Folder of pictures, table of them (.csv, .jsonl, .json, .parquet), or a Hugging Face dataset"),
    ],
    *,
    out: Annotated[Path, Parameter(help="Directory of the dataset; the same command resumes it")],
    engine: Annotated[Literal["embedded", "ray"], Parameter(help="Where references are made")] = "embedded",
    address: Annotated[str | None, Parameter(help="Ray: HOST:PORT of a cluster, or auto; a fresh one without")] = None,
    seed: Annotated[int, Parameter(help="Fixes every draw: colours, plan, words, split")] = 0,
    types: Annotated[
        list[str] | None,
        Parameter(help="Types of references, with commas: canny,caption,... Sketches by arithmetic are sketch_dodge"),
    ] = None,
    captions: Annotated[
        str | None,
        Parameter(help="source, objects (what a small detector sees), or a VLM such as openai:gpt-4o-mini"),
    ] = None,
    judge: Annotated[str | None, Parameter(help="VLM that marks every reference from 1 to 5; kept from 3")] = None,
    rewriter: Annotated[str | None, Parameter(help="VLM that rewrites instructions in the voice of personas")] = None,
    personas: Annotated[Path | None, Parameter(help="Personas for the rewriter, one a line; ours by default")] = None,
    preset: PresetName = None,
    rules: RulesFile = None,
    sizes: Sizes = None,
    samples: Annotated[
        str | None, Parameter(help="How many samples; as many as pictures by default, all for every allowed set")
    ] = None,
    several: Annotated[
        list[str] | None, Parameter(help="TYPE=N: up to N references of a type in a sample: subject=2, pose=2")
    ] = None,
    limit: Annotated[int | None, Parameter(help="Only the first N pictures, by name, or rows of the table")] = None,
    layout: Annotated[
        str, Parameter(help="What folders mean: folder, subjects, styles, dreambooth, ..., or your own TOML file")
    ] = "folder",
    formats: Annotated[
        list[str] | None, Parameter(help="json,parquet,webdataset: all that can be written by default")
    ] = None,
    test_share: Annotated[float, Parameter(help="Share of the pictures whose samples are for testing")] = 0.1,
    thresholds: Annotated[Path | None, Parameter(help="Limits for poor references in TOML, see the docs")] = None,
    templates: Annotated[Path | None, Parameter(help="Phrases for instructions, see the docs")] = None,
    review: Annotated[
        Path | None, Parameter(help="What people decided, .jsonl or .csv; OUT/review.jsonl by default")
    ] = None,
    licence: Annotated[str, Parameter(help="Licence of the pictures, where the source does not say")] = "",
    device: Annotated[str, Parameter(help="Where networks run: cpu, cuda")] = "cpu",
    budget: Annotated[str | None, Parameter(help="Most that VLMs may cost, for example 5usd")] = None,
    concurrency: Annotated[int, Parameter(help="Most calls in flight at an endpoint")] = 32,
    timeout: Annotated[float, Parameter(help="Seconds to wait for a reply")] = 180.0,
    max_failed: Annotated[float, Parameter(help="Share of failed pictures above which the exit code is 1")] = 0.1,
    json: Json = False,
) -> int:
    """Make a dataset of multi-reference samples from pictures: references, captions, instructions, filters, files.

    Stop it as you like; the same command goes on where it was and gives the same bytes.
    """
    from refbench.refblend.build import build
    from refbench.refblend.layouts import load_layout
    from refbench.refblend.references import chosen_types
    from refbench.refblend.settings import Settings

    if not 0 <= max_failed <= 1:
        raise RefBenchError(f"--max-failed {max_failed:g}: give a share from 0 to 1")
    chosen, dodge = chosen_types(_words(types))
    described = load_layout(layout)
    settings = Settings(
        pictures=pictures,
        out=out,
        engine=engine,
        address=address,
        seed=seed,
        types=chosen,
        dodge=dodge,
        captions=captions,
        judge=judge,
        personas=personas,
        rewriter=rewriter,
        rules=chosen_rules(preset, rules, sizes),
        limit=limit,
        samples=_samples(samples),
        several=_several(several or []),
        formats=_words(formats),
        test_share=test_share,
        layout=described.model_copy(update={"licence": licence or described.licence}),
        layout_name=Path(layout).stem,
        thresholds=thresholds,
        templates=templates,
        review=review,
        device=device,
        budget=budget,
        concurrency=concurrency,
        timeout=timeout,
    )
    built = asyncio.run(build(settings, lambda line: print(line, file=sys.stderr, flush=True)))
    if json:
        print(orjson.dumps(built.statistics).decode())
    else:
        from refbench.cli.blend_stats import print_statistics

        print_statistics(built.statistics)
        print(f"\nNext: {out / 'README.md'} and contact_sheet.png, refbench check multiref --data {out}")
    if built.stopped == "budget":
        print("Exit code 3: the budget is spent. The same command with a larger --budget goes on.", file=sys.stderr)
        return 3
    if built.failed_share > max_failed:
        share = f"{built.failed_share:.1%} of the pictures failed, more than --max-failed {max_failed:g}"
        print(f"refbench: {share}: see {out / 'dropped.jsonl'}", file=sys.stderr)
        return 1
    return 0


def _words(given: list[str] | None) -> tuple[str, ...] | None:
    """Words with commas between, in one option or in several."""
    if given is None:
        return None
    return tuple(word.strip() for text in given for word in text.split(",") if word.strip())


def _samples(text: str | None) -> int | Literal["all"] | None:
    if text is None or text == "all":
        return text  # type: ignore[return-value]
    if not text.isascii() or not text.isdecimal():
        raise RefBenchError(f"--samples {text}: give a number, or all")
    return int(text)


def _several(texts: list[str]) -> dict[Type, int]:
    from refbench.refblend.types import read_type

    found = {}
    for text in texts:
        kind, _, most = text.partition("=")
        if not most.isascii() or not most.isdecimal():
            raise RefBenchError(f"--several {text}: write it as TYPE=N, for example subject=2")
        found[read_type(kind, f"--several {text}")] = int(most)
    return found
