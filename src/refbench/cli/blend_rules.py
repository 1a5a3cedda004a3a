"""`refbench blend combos` and `refbench blend explain`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
from cyclopts import Parameter

from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.refblend.rules import Rules

PresetName = Annotated[
    str | None,
    Parameter(help="Rules by name: table7 (default), matrix, paper-rules, sources, r31, ... (docs/refblend.md)"),
]
RulesFile = Annotated[Path | None, Parameter(help="Rules of your own in TOML, see docs/refblend.md")]
Sizes = Annotated[str | None, Parameter(help="How many types a set has, for example 2,3")]


def chosen_rules(preset: str | None, rules: Path | None, sizes: str | None = None) -> Rules:
    """The rules that these options mean; also for the commands that build datasets."""
    from refbench.refblend.presets import DEFAULT, load_rules, presets
    from refbench.refblend.types import TYPES

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
    from refbench.refblend.rules import allowed_sets

    book = chosen_rules(preset, rules, sizes)
    found = allowed_sets(book)
    if json:
        print(orjson.dumps(found).decode())
        return 0
    from rich.table import Table as Grid
    from rich.text import Text

    from refbench.refblend.types import name_of
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
    from refbench.refblend.explain import explain
    from refbench.refblend.types import read_set, set_of

    types = read_set(combination, combination)
    allowed, (head, *reasons) = explain(chosen_rules(preset, rules), types)
    if json:
        print(orjson.dumps({"set": set_of(types), "allowed": allowed, "verdict": head, "reasons": reasons}).decode())
        return 0
    print(head)
    for reason in reasons:
        print(f"  {reason}")
    return 0
