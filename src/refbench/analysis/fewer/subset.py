"""A small set of cases that is always the same, with the error that its number has, measured on models left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from refbench.analysis.fewer.design import main_protocol, total_of
from refbench.analysis.fewer.references import RELEASED, References, references_of
from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.record import Record, RefBenchError, counted
from refbench.runs.run import fair_order
from refbench.stats import Array
from refbench.stats.sample import Labels
from refbench.tables.table import Aggregate, Columns, summaries
from refbench.text.files import file_text

_TRIED = 50
"""Sets that are drawn, of which the best for the mean of the reference models is taken."""
_AGAIN = 16
"""How often this is done, with other sets each time, to measure how good the best is for a model left out."""


class Subset(Record):
    """The chosen cases, and how far their plain number is from that of all cases."""

    benchmark: str
    ids: tuple[str, ...]
    measure: str
    n_all: int
    rmse: float
    """Over models that took no part in choosing: each left out in turn, the set chosen by the others."""
    random_rmse: float
    """Of sets drawn at random of the same size, within strata."""
    worst: float
    """The largest error among the models left out."""
    models: int

    def said(self) -> list[str]:
        """What a user of the set must know, a sentence a line."""
        left_out = f"root mean square over {self.models} models left out, at most {self.worst:.2f}"
        return [
            f"{len(self.ids)} of the {self.n_all} cases of {self.benchmark}: {self.measure} of a model that took no "
            f"part in choosing such a set was off by {self.rmse:.2f} ({left_out}); on sets drawn at random by "
            f"{self.random_rmse:.2f}.",
            "It is always the same set: whoever tunes on it fits it, and its error grows with every use. Its number is "
            "no estimate with an interval and does not stand beside numbers of all cases.",
        ]


_SAID = re.compile(r"# ((\d+) of the \d+ cases of .+: .+ took no part in choosing such a set .+)\.")


def chosen_in(path: Path) -> str:
    """What `Subset.said` says of the ids in a file; "" of ids that a user listed."""
    lines = [line.strip() for line in file_text(path).splitlines() if line.strip()]
    told = next((found for line in lines if (found := _SAID.fullmatch(line))), None)
    if told is None:
        return ""
    n_ids = len({line for line in lines if not line.startswith("#")})
    return told[1] if n_ids == int(told[2]) else f"{counted(n_ids, 'case')} of a list that was changed since: {told[1]}"


@dataclass(frozen=True)
class _Totals:
    """The total of every model on any set of cases."""

    aggregate: Aggregate
    columns: Columns
    cases: Sequence[AnyCase]
    measure: str

    def of(self, sets: Sequence[Labels]) -> Array:
        """Models x sets."""
        weights = np.zeros((len(sets), len(self.cases)))
        for number, chosen in enumerate(sets):
            weights[number, chosen] = 1.0
        overall = self.aggregate.overall(self.cases)
        return summaries(self.aggregate, self.aggregate.filled(self.columns), weights, overall)[0, self.measure]


def make_subset(bench: Benchmark, cases: Sequence[AnyCase], size: int, references: Sequence[str] = ()) -> Subset:
    """So many cases whose plain number is close to that of all, for the reference models and, as was measured, for
    others."""
    if not 2 <= size < len(cases):
        raise RefBenchError(f"--size {size}: give at least 2 and fewer than the {len(cases)} cases there are")
    found = references_of(bench, cases, references or [RELEASED], None)
    totals = _totals(bench, cases, found)
    n_models = len(totals.columns.systems)
    if n_models < 3:
        raise RefBenchError(
            "the error of a small set is measured by leaving models out, and there are item scores of "
            f"{n_models}: give --references with runs of at least 3 models"
        )
    sets = _sets(cases, size)
    off = totals.of(sets) - totals.of([np.arange(len(cases))])
    left_out = [
        float(block[model, _best(np.delete(block, model, axis=0))])
        for block in np.split(off, _AGAIN, axis=1)
        for model in range(n_models)
    ]
    best = _best(off[:, :_TRIED])
    return Subset(
        benchmark=bench.name,
        ids=tuple(sorted(cases[int(number)].id for number in sets[best])),
        measure=totals.measure,
        n_all=len(cases),
        rmse=round(float(np.sqrt(np.mean(np.square(left_out)))), 3),
        random_rmse=round(float(np.sqrt(np.nanmean(off**2))), 3),
        worst=round(float(np.max(np.abs(left_out))), 3),
        models=n_models,
    )


def _totals(bench: Benchmark, cases: Sequence[AnyCase], references: References) -> _Totals:
    aggregate = bench.scoring.protocols[main_protocol(bench)].aggregate
    shapes = {values.shape[0] for values in references.columns.values()}
    n_models = min(shapes, default=0)
    columns = {metric: values[:n_models] for metric, values in references.columns.items()}
    systems = [(f"model {number}", "judge") for number in range(n_models)]
    # Totals of single pictures are columns already: they are taken as they are.
    plain = replace(aggregate, per_case=None)
    return _Totals(plain, Columns.of_values(systems, columns), cases, total_of(bench))


def _sets(cases: Sequence[AnyCase], size: int) -> list[Labels]:
    """Sets drawn at random within strata."""
    place = {case.id: number for number, case in enumerate(cases)}
    return [
        np.array([place[case.id] for case in fair_order(cases, 100 + seed)[:size]]) for seed in range(_TRIED * _AGAIN)
    ]


def _best(off: Array) -> int:
    """The set on which the mean of the models is least off. Asking it to be right for each of them fits what is
    peculiar to them: of a model left out it was then off by 1.54 on 90 items of CREval, this way by 1.04."""
    return int(np.argmin(np.nan_to_num(np.abs(off.mean(axis=0)), nan=np.inf)))
