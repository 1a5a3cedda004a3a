"""`refbench demo`."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from cyclopts import Parameter


def demo_command(
    *,
    pairs: Annotated[bool, Parameter(help="Compare every model with the next one, not only one pair")] = False,
) -> int:
    """Table the released CREval scores of eight real models: intervals, the paper's numbers, and a gap that is none."""
    from rich.text import Text

    from refbench.benchmarks import benchmark
    from refbench.benchmarks.creval.published import released_scores
    from refbench.comparison import paired_gap
    from refbench.report.leaderboard import leaderboard
    from refbench.report.terminal import console, grid
    from refbench.scoring import result_of

    bench = benchmark("creval")
    aggregate = bench.protocols["paper"].aggregate
    cases, scores = released_scores("paper874")
    result = result_of(bench, cases, scores, subset="paper874")
    lines = leaderboard(result, {"level": "overall"})
    out = console()
    out.print(
        f"[bold]CREval[/bold]: GPT-4o's released verdicts on eight models, {len(cases)} edits each, "
        "scored as the paper did.\n"
    )
    out.print(grid(lines, "overall, in percent"))
    out.print(
        "published: Table S1 of the paper. IF and VQ agree with it to two decimals for seven models. VC does not: "
        "in the release, nine items cannot be answered rightly.\n",
        style="dim",
    )
    gaps = [
        paired_gap(aggregate, scores, cases, (a.model, a.judge), (b.model, b.judge), "avg") for a, b in pairwise(lines)
    ]
    if not pairs:
        gaps = [max(gaps, key=lambda gap: gap.resolved), min(gaps, key=lambda gap: gap.resolved)]
    out.print("[bold]Is the gap real?[/bold] The same items, compared in pairs:")
    for gap in gaps:
        low, high = gap.ci95 or (float("nan"), float("nan"))
        verdict = "a difference" if gap.resolved else "not significantly different"
        out.print(
            Text(f"  {gap.first} - {gap.second}: {gap.gap:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}: {verdict}")
        )
    out.print("\nNext, with a CREval checkout in DIR:")
    for line in (
        "refbench check creval --data DIR",
        "refbench rescore creval --data DIR --replies DIR/answer_gpt --out runs/creval",
        "refbench table runs/creval --markdown",
    ):
        out.print(Text(f"  {line}"))
    return 0
