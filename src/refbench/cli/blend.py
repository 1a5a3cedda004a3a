"""`refbench blend`: the commands of RefBlend."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import App, Parameter
from rich.text import Text

from refbench.builders.refblend.presets import chosen_rules
from refbench.builders.refblend.rules import allowed_sets, explain
from refbench.builders.refblend.settings import Settings
from refbench.builders.refblend.types import name_of, read_set, set_of
from refbench.cli.options import Json
from refbench.record import RefBenchError
from refbench.text.console import console
from refbench.text.tables import Grid

blend_command = App(
    name="blend",
    help="Make multi-reference samples from pictures (RefBlend): which references go together, and datasets of them.",
    default_parameter=Parameter(negative=()),
)

PresetName = Annotated[
    str | None,
    Parameter(help="Rules by name: table7 (default), matrix, sampler, sources, r31, ... (docs/refblend.md)"),
]
RulesFile = Annotated[
    Path | None, Parameter(help="Rules of your own in TOML, or condition-conpa.csv (docs/refblend.md)")
]


@blend_command.command(name="combos")
def combos_command(
    *,
    preset: PresetName = None,
    rules: RulesFile = None,
    sizes: Annotated[str | None, Parameter(help="How many types a set has, for example 2,3")] = None,
    json: Annotated[bool, Parameter(help="Print a JSON list of sorted lists of type ids, and nothing else")] = False,
) -> int:
    """List the sets of reference types that the rules allow"""
    book = chosen_rules(preset, rules, sizes)
    sets = allowed_sets(book)
    if json:
        print(orjson.dumps(sets).decode())
        return 0
    out = console()
    grid = Grid()
    columns = ["size", "set", *(["wanted"] if book.proportions else []), *(["sources"] if book.sources else [])]
    for column in columns:
        grid.add_column(column, justify="right" if column in ("size", "wanted") else "left")
    for types in sets:
        cells = {
            "size": str(len(types)),
            "set": name_of(types),
            "wanted": f"{book.proportions.get(types, 0):,g}",
            "sources": ", ".join(name for name, offers in book.sources.items() if set(types) <= set(offers)),
        }
        grid.add_row(*(Text(cells[column]) for column in columns))  # names of a user's sources are no markup
    out.print(f"{book.name}: {book.about or 'own rules'}", markup=False, highlight=False)
    out.print(grid)
    by_size = Counter(map(len, sets))
    parts = ", ".join(f"{by_size[size]} of {size} types" for size in sorted(book.sizes))
    out.print(f"{len(sets)} sets: {parts}", highlight=False)
    return 0


@blend_command.command(name="explain")
def explain_command(
    combination: Annotated[str, Parameter(help="Types joined by +, for example canny+sketch")],
    *,
    preset: PresetName = None,
    rules: RulesFile = None,
    json: Annotated[bool, Parameter(help="Print one JSON object")] = False,
) -> int:
    """Say why a set of reference types is allowed or forbidden"""
    types = read_set(combination, combination)
    allowed, (head, *reasons) = explain(chosen_rules(preset, rules), types)
    if json:
        print(orjson.dumps({"set": set_of(types), "allowed": allowed, "verdict": head, "reasons": reasons}).decode())
        return 0
    print(head)
    for reason in reasons:
        print(f"  {reason}")
    return 0


@blend_command.command(name="build")
def build_command(
    settings: Annotated[Settings, Parameter(name="*")],
    *,
    max_failed: Annotated[float, Parameter(help="Share of failed pictures above which the exit code is 1")] = 0.1,
    json: Json = False,
) -> int:
    """Make a dataset of multi-reference samples from pictures, resumably"""
    from refbench.builders.refblend.build import build

    if not 0 <= max_failed <= 1:
        raise RefBenchError(f"--max-failed {max_failed:g}: give a share from 0 to 1")
    built = asyncio.run(build(settings, lambda line: print(line, file=sys.stderr, flush=True)))
    out = settings.out
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


@blend_command.command(name="stats")
def stats_command(
    dataset: Annotated[Path, Parameter(help="Dataset that refbench blend build has made")],
    *,
    json: Json = False,
) -> int:
    """Say what a dataset holds, and what was left out and why"""
    from refbench.builders.refblend.output import read_statistics

    found = read_statistics(dataset)
    if json:
        print(orjson.dumps(found).decode())
    else:
        print_statistics(found)
    return 0


def print_statistics(found: Mapping[str, Any]) -> None:
    """The statistics of a dataset for the eye."""
    out = console()
    pictures, splits = found["pictures"], found["splits"]
    out.print(
        f"{found['samples']:,} samples of {pictures['targets']:,} pictures: "
        f"{splits['train']['samples']:,} for training, {splits['test']['samples']:,} for testing",
        highlight=False,
    )
    grid = Grid()
    grid.add_column("set")
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
