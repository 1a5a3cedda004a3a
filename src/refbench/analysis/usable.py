"""What one usable picture takes: how often a model refuses or fails, how long it takes, and what a picture that came
back costs, with the money spent on those that did not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from refbench.failure import CIRCUMSTANCES
from refbench.output import Output
from refbench.record import Record
from refbench.runs import Run
from refbench.runs.run import standing_outputs
from refbench.stats.quantiles import beta_quantile

_APART = 0.15
"""How far the middle of a model's outputs may be from the middle of all, as a share of these, in order of time."""
_FEWEST = 10
"""Outputs of a model that tell when it was asked."""


class Usable(Record):
    """One model's outputs. An output is usable when it has pictures; whether they are any good is the benchmark's to
    say.

    `rate` and its interval (Clopper and Pearson) are of refusals and other failures of the model's own, among what it
    was really asked: calls that the road to it failed (timeouts, errors of the endpoint) are in `road`, and requests
    that it cannot take in `unsupported`. Seconds are of the pictures that came back, all steps together.
    """

    model: str
    asked: int
    usable: int
    refused: int
    failed: Mapping[str, int]
    """By kind, refusals among them."""
    road: int
    unsupported: int
    rate: float | None
    rate95: tuple[float, float] | None
    p50: float | None
    p95: float | None
    usd: float | None
    """All that was spent on the model, on failures too; None unless it is known of every output."""
    usd_per_usable: float | None


class UsableTable(Record):
    """The models of a run, the cheapest usable picture first where prices are known."""

    run: str
    rows: tuple[Usable, ...]
    interleaved: bool | None
    """Whether the models were asked in turns; None where that cannot be told."""
    notes: tuple[str, ...]


def usable_table(path: Path) -> UsableTable:
    """What the outputs of a run say."""
    there = standing_outputs(Run.open(path).ledgers())
    rows = usable_rows(output for output, _ in there)
    rows.sort(key=lambda row: (row.usd_per_usable is None, row.usd_per_usable or 0.0, row.model))
    turns = _in_turns(there)
    notes = []
    timed = any(row.p50 is not None for row in rows)
    if turns is False and timed:
        notes.append("the models were not asked in turns: latency is of different times, and may be the time's")
    elif turns and timed:
        notes.append("the models were asked in turns, case by case: their latency is of the same times")
    if not timed:
        notes.append("these outputs were not made here: their times and prices are not known")
    if any(row.road for row in rows):
        notes.append("timeouts and errors of an endpoint are in no rate: they are asked again by the next run")
    return UsableTable(run=str(path), rows=tuple(rows), interleaved=turns, notes=tuple(notes))


def usable_rows(outputs: Iterable[Output]) -> list[Usable]:
    """A row for each model of the outputs that stand."""
    by_model: dict[str, list[Output]] = {}
    for output in outputs:
        by_model.setdefault(output.model, []).append(output)
    return [_row(model, those) for model, those in by_model.items()]


def _row(model: str, outputs: Sequence[Output]) -> Usable:
    works: dict[tuple[str, int], list[Output]] = {}
    for output in outputs:
        works.setdefault((output.case, output.seed), []).append(output)
    final = [output for output in outputs if output.step is None]
    failed = Counter(output.failure.kind for output in final if output.failure is not None)
    road = sum(n for kind, n in failed.items() if kind in CIRCUMSTANCES)
    unsupported = failed["unsupported"]
    usable = [output for output in final if output.pictures]
    answered = len(final) - road - unsupported
    own = answered - len(usable)
    seconds = [_sum([part.seconds for part in works[output.case, output.seed]]) for output in usable]
    known = np.array([one for one in seconds if one is not None])
    whole = len(known) == len(usable) and len(known) > 0
    spent = _sum([output.cost_usd for output in outputs if output.cost_usd is not None or output.pictures])
    # A failure that says nothing of its cost may have been charged: then what a usable picture takes is not known.
    unsure = any(o.failure is not None and o.cost_usd is None and o.worst_usd for o in outputs)
    usd = None if unsure or not final else spent
    return Usable(
        model=model,
        asked=len(final),
        usable=len(usable),
        refused=failed["refused"],
        failed=dict(sorted(failed.items())),
        road=road,
        unsupported=unsupported,
        rate=own / answered if answered else None,
        rate95=_exact(own, answered),
        p50=float(np.quantile(known, 0.5)) if whole else None,
        p95=float(np.quantile(known, 0.95)) if whole else None,
        usd=usd,
        usd_per_usable=usd / len(usable) if usd is not None and usable else None,
    )


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


def _exact(k: int, n: int) -> tuple[float, float] | None:
    """Clopper and Pearson's interval for a share."""
    if not n:
        return None
    return (
        beta_quantile(0.025, k, n - k + 1) if k else 0.0,
        beta_quantile(0.975, k + 1, n - k) if k < n else 1.0,
    )


def _in_turns(there: Sequence[tuple[Output, float]]) -> bool | None:
    """Whether the middle of each model's outputs, in order of time, is near the middle of all."""
    ordered = [output.model for output, _ in sorted(there, key=lambda one: one[1]) if output.step is None]
    counts = Counter(ordered)
    if len(counts) < 2 or min(counts.values()) < _FEWEST:
        return None
    places = np.arange(len(ordered)) / (len(ordered) - 1)
    middles = [float(np.median(places[[m == model for m in ordered]])) for model in counts]
    return max(abs(middle - 0.5) for middle in middles) <= _APART
