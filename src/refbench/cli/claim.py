"""`refbench claim`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refbench.cli.options import Json
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from refbench.analysis.claim import Claim


def claim_command(
    benchmark: Annotated[str, Parameter(help="Name of the benchmark that the claim is about")],
    *,
    gap: Annotated[
        float | None, Parameter(help="The claimed difference of two models, in the benchmark's units")
    ] = None,
    rows: Annotated[
        tuple[str, str] | None, Parameter(help="Two rows of the paper's tables, by their names: A B")
    ] = None,
    n: Annotated[int | None, Parameter(help="How many cases; by default as published")] = None,
    judge: Annotated[str | None, Parameter(help="Who judged")] = None,
    metric: Annotated[str | None, Parameter(help="Which number; by default the one models are ranked by")] = None,
    family: Annotated[
        int | None, Parameter(help="How many pairs were compared; of rows by default all of their table, else one")
    ] = None,
    scale: Annotated[str | None, Parameter(help="What the number can range over, as 0-1, where it has no ends")] = None,
    json: Json = False,
) -> int:
    """Review a claimed gap without a run: can so many cases show it, which p goes with it, what is missing.

    All follows from how far paired differences spread over cases. It is read off released item scores where there are
    any (CREval), else borrowed from those as a range.
    """
    from refbench.analysis.claim import ClaimOptions, review

    if n is not None and n < 2:
        raise RefBenchError(f"--n {n}: a gap takes two cases")
    if family is not None and family < 1:
        raise RefBenchError(f"--family {family}: give how many pairs were compared, at least 1")
    asked = ClaimOptions(gap=gap, rows=rows, n=n, judge=judge, metric=metric, family=family, scale=_scale(scale))
    found = review(benchmark, asked)
    if json:
        print(found.model_dump_json(indent=2))
    else:
        _print(found)
    return 0


def _scale(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    ends = re.fullmatch(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)", text)
    if ends is None or float(ends[1]) >= float(ends[2]):
        raise RefBenchError(f"--scale {text}: write the lowest and the highest, as 0-1")
    return float(ends[1]), float(ends[2])


def _print(found: Claim) -> None:
    from rich.text import Text

    from refbench.analysis.claim import range_said
    from refbench.analysis.compare.records import probability, signed
    from refbench.text.console import console
    from refbench.text.tables import Grid

    out = console()
    by = f", judge {found.judge}" if found.judge else ""
    out.print(Text.assemble((found.title, "bold"), f" {found.measure}{by}: {counted(found.n, 'case')}"))
    if found.values is not None:
        both = zip((found.first, found.second), found.values, strict=True)
        out.print(Text(", ".join(f"{name} {value:.{found.digits}f}" for name, value in both)))
    out.print(Text(f"{found.verdict[0].upper()}{found.verdict[1:]}.", style="bold"))
    grid = Grid(show_header=False)
    grid.add_column()
    grid.add_column()
    spread, error = (_range(one, 3) for one in (found.spread.of_pair, found.error))
    lines = {
        "claimed gap": signed(found.gap, found.digits),
        "differences spread by (SD)": spread,
        "so the gap's standard error is": error,
        "and its p": range_said(found.p).removeprefix("p ").removeprefix("= "),
    }
    if found.family > 1:
        corrected = range_said(found.p_corrected).removeprefix("p ").removeprefix("= ")
        lines[f"corrected for {found.family} pairs"] = corrected
    if found.detectable[0] is not None and found.detectable[1] is not None:
        reach = _range((found.detectable[0], found.detectable[1]), 2)
        lines["found 4 times in 5, if true"] = f"a gap of {reach}"
    if found.cases_needed is not None:
        few, many = found.cases_needed
        lines["cases that would find this one"] = f"{few}" if few == many else f"{few} to {many}"
    if found.p_at_most is not None:
        most = probability(found.p_at_most).removeprefix("p ")
        lines["p, however marks spread"] = f"at most {most.removeprefix('= ')}" if most.startswith("=") else most
    for name, value in lines.items():
        grid.add_row(Text(name), Text(value))
    out.print(grid)
    out.print(Text(f"Spread: {found.spread.provenance}."))
    models = f"one model's SD {_range(found.spread.of_model, 3)}, correlations {_range(found.spread.correlation, 2)}"
    out.print(Text(f"There, over {counted(found.spread.n_pairs, 'pair')}: {models}."))
    for note in found.notes:
        out.print(Text(f"Note: {note}."))
    out.print("\nWhat the claimant would have to release", style="bold")
    for one in found.release:
        out.print(Text(f"- {one}"))
    out.print("\nTo paste", style="bold")
    out.print(Text(found.sentence), soft_wrap=True)


def _range(ends: tuple[float, float], digits: int) -> str:
    low, high = (f"{end:.{digits}g}" for end in ends)
    return low if low == high else f"{low} to {high}"
