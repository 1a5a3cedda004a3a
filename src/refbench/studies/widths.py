"""How many raters and items one needs: what a study of some size can show, before anybody is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from refbench.record import Record
from refbench.stats.quantiles import normal_quantile

R = 0.7
"""The correlation that widths are told for: about what judges of the papers have with people."""


class Width(Record):
    """The 95 % interval that a correlation of so many items will have."""

    items: int
    low: float
    high: float


class Plan(Record):
    """What a study asks of people, and what it can show."""

    items: int
    overlap: int
    gold: int
    training: int
    outputs: int
    """Outputs on all screens together; a pair has two."""
    marks: int
    """Every answer to every question about every output, by all raters of each item."""
    per_rater: int
    """Items that one rater is shown, training, gold and repeats among them."""
    raters: int
    minutes_per_rater: float
    """At 20 s an output and 5 s for each further question about it; a pair is looked at as one."""
    widths: tuple[Width, ...]


def width(items: int, r: float = R) -> Width:
    """Fisher's interval of a correlation.

    >>> width(32)
    Width(items=32, low=0.46, high=0.84)
    """
    if items < 4:
        return Width(items=items, low=-1, high=1)
    half = normal_quantile(0.975) / math.sqrt(items - 3)
    low, high = (round(math.tanh(math.atanh(r) + side * half), 2) for side in (-1, 1))
    return Width(items=items, low=low, high=high)


def plan(asked: Sequence[tuple[int, int]], overlap: int, per_rater: int | None, extra: tuple[int, int]) -> Plan:
    """`asked` are the outputs and the questions of each item, `extra` the gold items (explicit checks with them) and
    the training items of each rater."""
    gold, training = extra
    items, outputs, questions = len(asked), sum(one for one, _ in asked), sum(one for _, one in asked)
    looks = sum(min(one, said) for one, said in asked)  # one question about two outputs is one look
    seconds = (20 * looks + 5 * (questions - looks)) / max(1, items)
    each = min(items, per_rater or items)
    shown = each + gold + training + each // 15
    return Plan(
        items=items,
        overlap=overlap,
        gold=gold,
        training=training,
        outputs=outputs,
        marks=questions * overlap,
        per_rater=shown,
        raters=max(overlap, math.ceil(items * overlap / each)),
        minutes_per_rater=shown * seconds / 60,
        widths=tuple(width(n) for n in sorted({32, 100, 300, items})),
    )
