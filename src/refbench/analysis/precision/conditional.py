"""Consistency among the outputs that follow the instruction: keeping everything is easy for a model that changes
nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from refbench.benchmarks.kit.definition import Condition
from refbench.record import Record, RefBenchError
from refbench.stats import Array, Design, draws_of, interval_for
from refbench.tables.result import Result
from refbench.tables.table import DRAWS, SEED, case_values, columns_of, summaries


class Conditional(Record):
    """A measure's overall value over the outputs whose other measure is high enough, and over all, for comparison.

    Each model has its own such outputs: `n_shared` of the cases are in every model's.
    """

    model: str
    judge: str | None
    protocol: str
    of: str
    given: str
    at_least: float
    value: float | None
    ci95: tuple[float, float] | None
    n: int
    n_scored: int
    n_shared: int
    unconditional: float | None


def conditional(
    result: Result,
    condition: Condition,
    *,
    protocol: str,
    judge: str | None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[Conditional]:
    """The measure by the benchmark's own aggregate over the cases that meet the condition, model by model."""
    of, given, at_least = condition
    aggregate = result.bench.scoring.protocols[protocol].aggregate
    measures = {measure.name: measure for measure in aggregate.measures}
    for name in (of, given):
        if name not in measures:
            raise RefBenchError(f"--given: {result.bench.title} has no measure {name}; it has {', '.join(measures)}")
    chosen = [score for score in result.scores if score.protocol == protocol and score.judge == judge]
    columns = columns_of(chosen, result.cases)
    per_case = case_values(aggregate, columns, result.cases)
    # A comparison with NaN is false: a case without the condition's value does not meet it.
    meets = per_case[given] >= at_least
    values = aggregate.filled(columns)
    kept = {m: np.where(meets, v, np.nan) if m in measures[of].parts else v for m, v in values.items()}
    overall = aggregate.overall(result.cases)
    design = Design.of([case.cluster for case in result.cases], [case.stratum for case in result.cases])

    def value(columns_: Mapping[str, Array], weights: Array) -> Array:
        return summaries(aggregate, columns_, weights, overall)[0, of]

    ones = np.ones((1, len(result.cases)))
    point, everything = value(kept, ones)[:, 0], value(values, ones)[:, 0]
    drawn, influence = draws_of(lambda weights: value(kept, weights), design, draws, seed)
    counted = meets & np.isfinite(per_case[of])
    shared = int(counted.all(axis=0).sum())
    rows = []
    for i, (model, by) in enumerate(columns.systems):
        n, df = len(design.clusters_of(counted[i])), design.degrees_of_freedom(counted[i])
        interval = interval_for(point[i], drawn[i], influence[i], n=n, df=df)
        rows.append(
            Conditional(
                model=model,
                judge=by,
                protocol=protocol,
                of=of,
                given=given,
                at_least=at_least,
                value=_number(point[i]),
                ci95=interval and (round(interval[0], 9), round(interval[1], 9)),
                n=int(counted[i].sum()),
                n_scored=int(np.isfinite(per_case[of][i]).sum()),
                n_shared=shared,
                unconditional=_number(everything[i]),
            )
        )
    sign = 1 if of in result.bench.scoring.lower else -1
    return sorted(rows, key=lambda row: float("inf") if row.value is None else sign * row.value)


def conditions(result: Result, given: Sequence[str] = ()) -> list[Condition]:
    """The conditions asked for as `OF:GIVEN:AT_LEAST`, else the benchmark's own, else none."""
    if not given:
        return list(result.bench.reporting.conditions)
    return [_parsed(text) for text in given]


def _parsed(text: str) -> Condition:
    try:
        of, other, least = text.split(":")
        return Condition(of, other, float(least))
    except ValueError:
        raise RefBenchError(
            f"--given {text}: write MEASURE:CONDITION:AT_LEAST, for example VC:IF:80 in the units of the table"
        ) from None


def _number(value: float) -> float | None:
    return round(float(value), 9) if np.isfinite(value) else None
