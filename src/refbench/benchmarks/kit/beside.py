"""Measures beside a benchmark's own: metrics that read the output alone, each a column that enters no other number."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from refbench.benchmarks.kit.definition import Benchmark, Measured, Protocol
from refbench.case import AnyCase
from refbench.metrics import Metric, find_metric
from refbench.record import RefBenchError
from refbench.tables.table import Aggregate, Mean, Measure, Slice, Summary, slice_mean


def with_measures(bench: Benchmark, names: Iterable[str]) -> Benchmark:
    """The benchmark with the metrics of these names that it does not measure itself, as far as they exist and read
    nothing but the output: what else a metric compares with, only a benchmark can say."""
    further: dict[str, Metric] = {}
    for name in set(names) - bench.asking.measured:
        with contextlib.suppress(RefBenchError):
            metric = find_metric(name)
            if metric.id not in bench.asking.measured and not metric.needs():
                further[metric.id] = metric
    if not further:
        return bench
    further = dict(sorted(further.items()))
    asking, scoring, explain = bench.asking, bench.scoring, bench.reporting.explain_changes

    def measuring(case: AnyCase) -> list[Measured]:
        own = asking.measuring(case) if asking.measuring is not None else []
        return [*own, *(Measured(part, part) for part in further)]

    protocols = {name: _beside(protocol, list(further.values())) for name, protocol in scoring.protocols.items()}
    lower = scoring.lower | {part for part, metric in further.items() if metric.better == "lower"}
    reporting = bench.reporting
    if explain is not None:
        reporting = replace(
            reporting,
            explain_changes=lambda cases, scores: explain(cases, [s for s in scores if s.metric not in further]),
        )
    return replace(
        bench,
        asking=replace(
            asking,
            parts={**asking.parts, **{part: (part,) for part in further}},
            measured=asking.measured | set(further),
            measuring=measuring,
        ),
        scoring=replace(scoring, protocols=protocols, lower=lower),
        reporting=reporting,
    )


def _beside(protocol: Protocol, metrics: Sequence[Metric]) -> Protocol:
    formulas = {name: _with_columns(aggregate, metrics) for name, aggregate in protocol.formulas.items()}
    return replace(protocol, aggregate=_with_columns(protocol.aggregate, metrics), formulas=formulas)


def _with_columns(aggregate: Aggregate, metrics: Sequence[Metric]) -> Aggregate:
    """First, since the last measure is the one that models are ranked by; in the metric's own units."""
    names = [metric.id for metric in metrics]

    def summarise(mean: Mean, where: Slice) -> Summary:
        return {**{name: slice_mean(mean, name, where) for name in names}, **aggregate.summarise(mean, where)}

    measures = (*(Measure(metric.id, (metric.id,), *metric.range) for metric in metrics), *aggregate.measures)
    return replace(aggregate, measures=measures, summarise=summarise, beside=aggregate.beside | frozenset(names))
