"""`refbench subset`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import Data, Json


def subset_command(
    benchmark: Annotated[str, Parameter(help="Name of the benchmark, see refbench list")],
    *,
    size: Annotated[int, Parameter(help="How many cases")],
    out: Annotated[Path | None, Parameter(help="File to write, an id a line, for refbench run --ids")] = None,
    replace: Annotated[bool, Parameter(help="Write over a file that holds something else", show_default=False)] = False,
    references: Annotated[
        list[str] | None,
        Parameter(help="Whose item scores choose the cases: released (by default) or run directories of yours"),
    ] = None,
    data: Data = None,
    json: Json = False,
) -> int:
    """Choose a small set of cases, always the same, and say how far its number is from that of all cases.

    For quick looks while a model is trained. A number to publish comes cheaper and without reuse from
    refbench run --calls.
    """
    from refbench.analysis.fewer.subset import make_subset
    from refbench.benchmarks import benchmark as find
    from refbench.cli.printing import is_there, write_file
    from refbench.record import RefBenchError
    from refbench.tables.scoring import load

    bench = find(benchmark)
    released = bench.reporting.released if data is None and not references else None
    cases = released(None)[0] if released is not None else load(benchmark, data).cases
    chosen = make_subset(bench, cases, size, references or [])
    if out is not None:
        lines = [*(f"# {line}" for line in chosen.said()), *chosen.ids]
        text = ("\n".join(lines) + "\n").encode()
        there = is_there(out, text)
        if out.exists() and not there and not replace:
            raise RefBenchError(f"--out {out}: the file is there with other content; give another name, or --replace")
        if not there:
            write_file(out, text, quiet=json)
        elif not json:
            print(f"there already: {out}")
    if json:
        print(chosen.model_dump_json())
        return 0
    for line in chosen.said():
        print(line)
    if out is None:
        print("\n".join(chosen.ids))
    else:
        print(f"Next: refbench run {benchmark} --ids {out} --model ... --judge ... --out ...")
    return 0
