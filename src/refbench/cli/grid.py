"""`refbench grid`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import Data, Json, not_negative
from refbench.record import RefBenchError


def grid_command(
    *runs: Annotated[Path, Parameter(help="Run directories, all of the same cases")],
    out: Annotated[Path, Parameter(help="The sheet: a .png, or a .pdf with pages")],
    cases: Annotated[str | None, Parameter(help="These cases, by id: ID,ID,...")] = None,
    worst: Annotated[int | None, Parameter(help="The N cases with the worst values")] = None,
    best: Annotated[int | None, Parameter(help="The N cases with the best values")] = None,
    random: Annotated[int | None, Parameter(help="N cases by lot; 4 where nothing else is asked for")] = None,
    disagree: Annotated[int | None, Parameter(help="The N cases on which the models are furthest apart")] = None,
    of: Annotated[
        str | None, Parameter(help="Worst and best for this model; default on average over those shown")
    ] = None,
    models: Annotated[str | None, Parameter(help="These models, in this order: A,B,...")] = None,
    data: Data = None,
    metric: Annotated[
        str | None, Parameter(name=("--metric", "--measure"), help="The value under each picture; default the summary")
    ] = None,
    protocol: Annotated[str | None, Parameter(help="paper or corrected; default corrected")] = None,
    judge: Annotated[str | None, Parameter(help="Whose values; default the first judge")] = None,
    seed: Annotated[int, Parameter(help="Seed of --random", validator=not_negative)] = 0,
    output_seed: Annotated[
        int, Parameter(help="Which output of models that painted with several seeds", validator=not_negative)
    ] = 0,
    columns: Annotated[int, Parameter(help="Most models beside each other; more go on another line")] = 6,
    size: Annotated[int, Parameter(help="Pixels of a picture on the sheet")] = 256,
    font: Annotated[Path | None, Parameter(help="A font file for scripts that the fonts here lack")] = None,
    json: Json = False,
) -> int:
    """Draw references and models' outputs side by side, as a sheet for a paper or a talk."""
    if not runs:
        raise RefBenchError("name a run directory, for example: refbench grid runs/x --out sheet.png --worst 4")
    if out.suffix.lower() not in (".png", ".pdf"):
        raise RefBenchError(f"--out {out}: name it .png or .pdf")
    if columns < 1 or not 32 <= size <= 2048:
        raise RefBenchError("--columns is a number from 1 up, and --size is from 32 to 2048 pixels")
    from refbench.cli.printing import write_file
    from refbench.report.grid.choice import Choice, choose, marks_of
    from refbench.report.grid.sheet import Sheet, caption_of, open_board, sheet_bytes, sheet_rows

    counts = {"worst": worst, "best": best, "random": random, "disagree": disagree}
    choice = Choice.of_options(_split(cases), counts, of, seed)
    with closing(open_board(runs, protocol)) as board:
        shown = _named(models, [model.name for model in board.models])
        marks = marks_of(board.result, measure=metric, protocol=protocol, judge=judge)
        chosen = choose(board.cases, marks, shown, choice)
        rows = sheet_rows(board, marks, chosen, shown, data, output_seed)
        sheet = Sheet(size=size, columns=columns, font=font)
        caption = caption_of(board, marks, chosen, shown, output_seed)
        pages = sheet.pages(board.bench.title, caption, rows, paged=out.suffix.lower() == ".pdf")
    write_file(out, sheet_bytes(pages, out), quiet=json)
    references = [tile for row in rows for tile in row.references]
    changed = [tile.failure.detail for tile in references if tile.failure]
    content = {
        "out": str(out),
        "cases": [case.id for case in chosen.cases],
        "models": shown,
        "caption": caption,
        "pages": len(pages),
        "references_not_at_hand": sum(tile.path is None and tile.failure is None for tile in references),
        "broken": list(dict.fromkeys([*changed, *sheet.broken])),
        "characters_without_a_font": list(sheet.missing),
    }
    if json:
        print(orjson.dumps(content).decode())
    else:
        _print(content, sheet.unwritten() if sheet.missing else "")
    return 0


def _print(content: Mapping[str, Any], unwritten: str) -> None:
    """The caption, and on standard error what the sheet had to do without."""
    print(content["caption"])
    if absent := content["references_not_at_hand"]:
        print(f"{absent} references are not at hand and stay empty boxes: give --data DIR", file=sys.stderr)
    for line in content["broken"]:
        print(f"cannot be shown: {line}", file=sys.stderr)
    if unwritten:
        print(f"{unwritten}; give --font FILE, for example of Noto Sans", file=sys.stderr)


def _split(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _named(text: str | None, there: list[str]) -> list[str]:
    if text is None:
        return there
    names = _split(text)
    stranger = next((name for name in names if name not in there), None)
    if stranger is not None or not names:
        raise RefBenchError(f"--models {stranger or text}: there are {', '.join(there)}")
    return list(dict.fromkeys(names))
