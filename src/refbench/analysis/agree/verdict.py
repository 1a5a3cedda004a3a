"""What a judge can be trusted for, in words: read off the intervals of agreement, with few models said as few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refbench.analysis.agree.rows import AgreementRow, Figure
from refbench.record import counted

SINGLE = 0.7
"""Pearson correlation over single pictures from which on one picture's mark may be relied on: half of its variance is
shared. The lower end of the interval counts."""
RANKS = 0.6
"""Kendall's tau over models from which on their order may be: four pairs in five are in the same order."""
FEW_MODELS = 8
"""Below it, orders are alike by chance too often: a tau of 0.6 or more has one order of five models in nine, and one of
eight in sixty."""


def verdicts(rows: Sequence[AgreementRow]) -> Iterator[str]:
    """A sentence or two on each judge and the people it is held against; where there are none, on each two judges."""
    kind = "judge-human" if any(row.kind == "judge-human" for row in rows) else "judge-judge"
    mine = [row for row in rows if row.kind == kind and not row.group]
    for first, second in dict.fromkeys((row.first, row.second) for row in mine):
        of_pair = [row for row in mine if (row.first, row.second) == (first, second)]
        said = [*_of_pictures([row for row in of_pair if row.level == "item"])]
        said += _of_models([row for row in of_pair if row.level == "system"])
        if said:
            head = f"trust {first}" if kind == "judge-human" else f"take {first} and {second} for one another"
            yield f"{head} {'; '.join(said)}"
    if mine and kind == "judge-judge":
        yield "judges that agree may be wrong together: marks of people (--humans) tell which can be trusted"


def _of_pictures(rows: Sequence[AgreementRow]) -> Iterator[str]:
    """For which measures single marks, only means, or neither may be relied on."""
    ends = {row.metric: _low(row.figures.get("pearson")) for row in rows}
    single = [metric for metric, low in ends.items() if low is not None and low >= SINGLE]
    means = [metric for metric, low in ends.items() if low is not None and 0 < low < SINGLE]
    neither = [metric for metric, low in ends.items() if low is None or low <= 0]
    if single:
        yield f"for single pictures in {', '.join(single)}"
    if means:
        yield f"for means over many pictures, not for single ones, in {', '.join(means)}"
    if neither:
        yield f"not for {', '.join(neither)}, where agreement beyond chance is not shown"


def _of_models(rows: Sequence[AgreementRow]) -> Iterator[str]:
    """Whether the order of models may be relied on, in the last measure, which is the one that models are ranked by."""
    if not rows:
        return
    row = rows[-1]
    tau = row.figures.get("kendall")
    shown = "" if tau is None else f" (Kendall's tau in {row.metric}: {tau.value:.2f})"
    if row.n < FEW_MODELS:
        are = "is too few" if row.n == 1 else "are too few"
        yield f"and whether for the order of models is not known: {counted(row.n, 'model')} {are}{shown}"
        return
    low = _low(tau)
    if low is not None and low >= RANKS:
        yield f"for the order of {row.n} models{shown}"
    elif low is not None and low > 0:
        yield f"for which of {row.n} models are far apart, not for their whole order{shown}"
    else:
        yield f"not for the order of {row.n} models{shown}"


def _low(figure: Figure | None) -> float | None:
    """The lower end, by which is judged; a figure without an interval shows nothing."""
    return figure.ci95[0] if figure is not None and figure.ci95 is not None else None
