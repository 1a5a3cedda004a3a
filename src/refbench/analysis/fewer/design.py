"""Which calls to judge first: parts that can be judged apart are drawn apart, each in an order that is fair over
strata, and more of those whose scores other models tell less about.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refbench.analysis.fewer.references import References
from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.runs.run import cases_fingerprint, fair_order
from refbench.stats.sample import Labels, residual_spread
from refbench.tables.sampled import SampleDesign, Sampling, away_of, case_weights
from refbench.tables.table import summary_measure

_RARE = 1e-6
"""The share of its place that a stratum keeps which enters no total: it comes last."""


def judged_together(bench: Benchmark) -> tuple[tuple[str, ...], ...]:
    """The parts that a judge is asked for, in groups that can be judged apart. Where anything is made of several parts
    of one picture (a total, a gate, a derived score), all of them are one group."""
    parts = [
        part for part in bench.asking.parts if part not in bench.asking.measured and part not in ("derived", "measured")
    ]
    joint = bench.scoring.derived is not None or any(
        protocol.aggregate.per_case is not None for protocol in bench.scoring.protocols.values()
    )
    return (tuple(parts),) if joint else tuple((part,) for part in parts)


def main_protocol(bench: Benchmark) -> str:
    """The protocol whose total a design is made for: `corrected`, where there is one."""
    return "corrected" if "corrected" in bench.scoring.protocols else next(iter(bench.scoring.protocols))


def total_of(bench: Benchmark) -> str:
    """The measure that models are ranked by, which a design is made for."""
    measures = bench.scoring.protocols[main_protocol(bench)].aggregate.measures
    judged = {
        metric
        for part, metrics in bench.asking.parts.items()
        if part not in bench.asking.measured
        for metric in metrics
    }
    # Of a benchmark with metrics too, which may not run here, the last measure that a judge has a part in.
    names = [measure.name for measure in measures if judged & set(measure.parts)]
    return summary_measure(measures, names)


def make_design(
    bench: Benchmark,
    cases: Sequence[AnyCase],
    references: References,
    *,
    proxies: Sequence[str] = (),
    seed: int = 0,
) -> SampleDesign:
    """The order in which calls are judged, so that any beginning of it tells most about the benchmark's total.

    Raises where that total is no weighted mean over cases: a part of them would not tell it.
    """
    groups = judged_together(bench)
    if not groups:
        raise RefBenchError(f"{bench.title} asks a judge for nothing: there are no calls to save")
    blank = SampleDesign(
        seed=seed, groups=groups, rates=(1.0,) * len(groups), orders=(tuple(range(len(cases))),) * len(groups), cases=""
    )
    sampling = Sampling(blank, bench.asking.parts, away_of(bench.asking.not_applicable, cases))
    total = total_of(bench)
    every = case_weights(bench.scoring.protocols[main_protocol(bench)].aggregate, cases, sampling)
    if (weights := every.get(total)) is None:
        raise RefBenchError(
            f"--calls: {total} of {bench.title} is no weighted mean over cases, so that a part of the calls does not "
            "tell the whole: judge all of them"
        )
    strata = np.array([case.stratum for case in cases])
    stratum = np.unique(strata, return_inverse=True)[1].astype(np.intp)
    rates = [
        float(weights[g].sum()) * _spread(references, [m for part in parts for m in bench.asking.parts[part]], stratum)
        for g, parts in enumerate(groups)
    ]
    least = _RARE * max(rates, default=0.0) or 1.0
    place = {case.id: number for number, case in enumerate(cases)}
    orders = []
    for g in range(len(groups)):
        # The total may be about some of the cases only; the other numbers of the table are wanted too.
        mass = np.mean([of[g] / of[g].sum() for of in every.values() if of is not None and of[g].any()], axis=0)
        pace = {name: max(float(mass[strata == name].sum()) * len(cases), _RARE) for name in set(strata.tolist())}
        orders.append(tuple(place[case.id] for case in fair_order(cases, seed + g, pace)))
    return SampleDesign(
        seed=seed,
        groups=groups,
        rates=tuple(max(rate, least) for rate in rates),
        orders=tuple(orders),
        cases=cases_fingerprint(cases),
        proxies=tuple(proxies),
        references=references.said,
        known=references.known(),
    )


def _spread(references: References, metrics: Sequence[str], stratum: Labels) -> float:
    """How much of these metrics other models do not tell; 1 where no references have them, so that all are alike."""
    found = []
    for metric in metrics:
        values = references.columns.get(metric)
        if values is not None and not np.isnan(values).all():
            means = np.nanmean(np.where(np.isnan(values).all(axis=0), 0.0, values), axis=0)
            found.append(residual_spread(np.where(np.isnan(values), means, values), stratum))
    return float(np.mean(found)) if found else 1.0
