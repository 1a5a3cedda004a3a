"""`refbench blend`: the commands of RefBlend, each imported when it is used."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from cyclopts import App, Parameter

from refbench.cli.options import Json
from refbench.record import RefBenchError

COMMANDS = {
    "combos": ("blend_rules", "List the sets of reference types that the rules allow"),
    "explain": ("blend_rules", "Say why a set of reference types is allowed or forbidden"),
    "build": ("blend_build", "Make a dataset of multi-reference samples from pictures, resumably"),
    "stats": ("blend_stats", "Say what a dataset holds, and what was left out and why"),
}

blend_command = App(
    name="blend",
    help="Make multi-reference samples from pictures (RefBlend): which references go together, and datasets of them.",
    default_parameter=Parameter(negative=()),
)

for _name, (_module, _help) in COMMANDS.items():
    blend_command.command(f"refbench.cli.blend:{_name}_command", name=_name, help=_help)


# `refbench blend combos` and `refbench blend explain`.

if TYPE_CHECKING:
    from refbench.builders.refblend.rules import Rules

PresetName = Annotated[
    str | None,
    Parameter(help="Rules by name: table7 (default), matrix, paper-rules, sources, r31, ... (docs/refblend.md)"),
]
RulesFile = Annotated[Path | None, Parameter(help="Rules of your own in TOML, see docs/refblend.md")]
Sizes = Annotated[str | None, Parameter(help="How many types a set has, for example 2,3")]


def chosen_rules(preset: str | None, rules: Path | None, sizes: str | None = None) -> Rules:
    """The rules that these options mean; also for the commands that build datasets."""
    from refbench.builders.refblend.presets import DEFAULT, load_rules, presets
    from refbench.builders.refblend.types import TYPES

    if preset is not None and rules is not None:
        raise RefBenchError(f"--preset and --rules exclude each other: write extends = {preset!r} into {rules}")
    if preset is not None and preset not in presets():
        raise RefBenchError(f"--preset {preset}: presets are {', '.join(presets())}")
    if rules is not None and not rules.is_file():
        raise RefBenchError(f"--rules {rules} is not there: give a TOML file")
    found = load_rules(rules or preset or DEFAULT)
    if sizes is None:
        return found
    words = [word.strip() for word in sizes.split(",")]
    if not all(word.isascii() and word.isdecimal() and 2 <= int(word) <= len(TYPES) for word in words):
        raise RefBenchError(
            f"--sizes {sizes}: give numbers from 2 to {len(TYPES)} with commas between, for example 2,3"
        )
    return found.restricted(sizes=map(int, words))


def combos_command(
    *,
    preset: PresetName = None,
    rules: RulesFile = None,
    sizes: Sizes = None,
    json: Annotated[bool, Parameter(help="Print a JSON list of sorted lists of type ids, and nothing else")] = False,
) -> int:
    """List the sets of reference types that the rules allow, and how often Table 7 or your file wants each."""
    from refbench.builders.refblend.rules import allowed_sets

    book = chosen_rules(preset, rules, sizes)
    found = allowed_sets(book)
    if json:
        print(orjson.dumps(found).decode())
        return 0
    from rich.table import Table as Grid
    from rich.text import Text

    from refbench.builders.refblend.types import name_of
    from refbench.report.terminal import console

    out = console()
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    columns = ["size", "set", *(["wanted"] if book.proportions else []), *(["sources"] if book.sources else [])]
    for column in columns:
        grid.add_column(column, justify="right" if column in ("size", "wanted") else "left", overflow="fold")
    for types in found:
        cells = {
            "size": str(len(types)),
            "set": name_of(types),
            "wanted": f"{book.proportions.get(types, 0):,g}",
            "sources": ", ".join(name for name, offers in book.sources.items() if set(types) <= set(offers)),
        }
        grid.add_row(*(Text(cells[column]) for column in columns))  # names of a user's sources are no markup
    out.print(f"{book.name}: {book.about or 'own rules'}", markup=False, highlight=False)
    out.print(grid)
    by_size = Counter(map(len, found))
    parts = ", ".join(f"{by_size[size]} of {size} types" for size in sorted(book.sizes))
    out.print(f"{len(found)} sets: {parts}", highlight=False)
    return 0


def explain_command(
    combination: Annotated[str, Parameter(help="Types joined by +, for example canny+sketch")],
    *,
    preset: PresetName = None,
    rules: RulesFile = None,
    json: Annotated[bool, Parameter(help="Print one JSON object")] = False,
) -> int:
    """Say why a set of reference types is allowed or forbidden: its pairs, what each type needs, lists, sources."""
    from refbench.builders.refblend.rules import explain
    from refbench.builders.refblend.types import read_set, set_of

    types = read_set(combination, combination)
    allowed, (head, *reasons) = explain(chosen_rules(preset, rules), types)
    if json:
        print(orjson.dumps({"set": set_of(types), "allowed": allowed, "verdict": head, "reasons": reasons}).decode())
        return 0
    print(head)
    for reason in reasons:
        print(f"  {reason}")
    return 0


# `refbench blend build`.

if TYPE_CHECKING:
    from refbench.builders.refblend.types import Type


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
    from refbench.builders.refblend.build import build
    from refbench.builders.refblend.layouts import load_layout
    from refbench.builders.refblend.references import chosen_types
    from refbench.builders.refblend.settings import Settings

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
    from refbench.builders.refblend.types import read_type

    found = {}
    for text in texts:
        kind, _, most = text.partition("=")
        if not most.isascii() or not most.isdecimal():
            raise RefBenchError(f"--several {text}: write it as TYPE=N, for example subject=2")
        found[read_type(kind, f"--several {text}")] = int(most)
    return found


# `refbench blend stats`.


def stats_command(
    dataset: Annotated[Path, Parameter(help="Dataset that refbench blend build has made")],
    *,
    json: Json = False,
) -> int:
    """Say what a dataset holds: samples by set, type and split, and what was left out and why."""
    from refbench.builders.refblend.output import read_statistics

    found = read_statistics(dataset)
    if json:
        print(orjson.dumps(found).decode())
    else:
        print_statistics(found)
    return 0


def print_statistics(found: Mapping[str, Any]) -> None:
    """The statistics of a dataset for the eye."""
    from rich.table import Table as Grid

    from refbench.report.terminal import console

    out = console()
    pictures, splits = found["pictures"], found["splits"]
    out.print(
        f"{found['samples']:,} samples of {pictures['targets']:,} pictures: "
        f"{splits['train']['samples']:,} for training, {splits['test']['samples']:,} for testing",
        highlight=False,
    )
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("set", overflow="fold")
    for column in ("asked", "planned", "kept"):
        grid.add_column(column, justify="right")
    for name, of in found["sets"].items():
        if of["asked"] or of["kept"]:
            grid.add_row(name, *(f"{of[column]:,}" for column in ("asked", "planned", "kept")))
    out.print(grid)
    out.print("types: " + ", ".join(f"{kind} {number:,}" for kind, number in found["types"].items()), highlight=False)
    for stage, reasons in found["dropped"].items():
        words = "; ".join(f"{number:,} {reason}" for reason, number in reasons.items())
        out.print(f"left out, {stage}: {words}", highlight=False, markup=False)
    if found["needs_review"]:
        out.print(f"{found['needs_review']:,} samples ask for a review by people: review.jsonl", highlight=False)
