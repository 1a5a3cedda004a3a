"""Failures: how much of each slice was scored, and whether failing depends on the model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from refbench.failure import KINDS
from refbench.record import Record, counted
from refbench.stats.permutation import depends_on_system
from refbench.tables.result import Result
from refbench.tables.table import SEED, Columns, columns_of

NOT_YET = ("missing_reply", "not_measured", "budget")
"""Kinds that say that the work has not been done, not that it failed."""
_DRAWS = 4999
_LEVEL = 0.05


class Coverage(Record):
    """How many of a slice's cases have the summary measure, and what it could be whatever the failed ones score."""

    model: str
    judge: str | None
    protocol: str
    measure: str
    slice: Mapping[str, str]
    n_expected: int
    n_scored: int
    failures: Mapping[str, int]
    bounds: tuple[float, float] | None
    """None where the measure has no finite range."""


class ModelFailures(Record):
    """One model's failed pictures among the cases that all models were asked for."""

    model: str
    failed: int
    n_pictures: int
    expected_if_alike: float
    """Of as many pictures, at the mean rate of all models: they may have been asked for different numbers of seeds."""
    p: float | None
    """Allows for having looked at every model."""


class FailureTest(Record):
    """Whether failing depends on the model: Cochran's Q by exchanging models within clusters of cases."""

    protocol: str
    judge: str | None
    measure: str
    n_cases: int
    n_left_out: int
    """Cases that some model has not been asked for yet, or that do not concern it."""
    models: tuple[ModelFailures, ...]
    p: float | None
    statement: str


def coverage(result: Result, protocol: str, judge: str | None) -> list[Coverage]:
    """Every slice of the table with what was scored of it, in the table's order."""
    measure = result.summary(protocol)
    return [
        Coverage(
            model=row.model,
            judge=row.judge,
            protocol=protocol,
            measure=measure,
            slice=dict(row.slice),
            n_expected=row.n_expected,
            n_scored=row.n_scored,
            failures=dict(row.failures),
            bounds=row.bounds,
        )
        for row in result.rows(protocol=protocol, metric=measure)
        if row.judge == judge
    ]


def failure_test(result: Result, protocol: str, judge: str | None, *, seed: int = SEED) -> FailureTest:
    """Test the models that a judge (or none) has scored, on the cases that all of them were asked for, by the share of
    each case's pictures that failed: models with more seeds have more to fail at, and do not fail more often."""
    measure = result.summary(protocol)
    made_of = next(m for m in result.bench.scoring.protocols[protocol].aggregate.measures if m.name == measure)
    chosen = [s for s in result.scores if (s.protocol, s.judge) == (protocol, judge) and s.metric in made_of.parts]
    columns = columns_of(chosen, result.cases)
    # Parts x systems x cases x seeds.
    kinds = np.stack(list(columns.kinds.values()))
    beside = np.stack(list(columns.away.values()))
    not_yet = np.stack(list(columns.waiting.values())) | np.isin(kinds, [KINDS.index(kind) for kind in NOT_YET])
    away = np.stack([columns.inapplicable[part] for part in columns.kinds])
    waiting: NDArray[np.bool_] = np.any(not_yet, axis=3)
    # A part that has not been measured at all (its network is not here) is not what some models fail at.
    begun: NDArray[np.bool_] = ~np.all(waiting | away, axis=(1, 2))
    kinds, beside, away, waiting = kinds[begun], beside[begun], away[begun], waiting[begun]
    asked = ~(away.all(axis=0) | waiting.any(axis=0)).any(axis=0)
    # Of a measure over whichever parts are there, only a picture without any part has failed.
    lost: NDArray[np.bool_] = np.any(kinds >= 0, axis=0)
    if made_of.any_part:
        lost = np.logical_and(lost, np.all((kinds >= 0) | beside, axis=0))
    wanted = _wanted(columns)[:, asked]
    failed = lost[:, asked].sum(axis=2)
    shares = failed / np.maximum(wanted, 1)
    names = {name: n for n, name in enumerate(dict.fromkeys(case.cluster for case in result.cases))}
    cluster = np.array([names[case.cluster] for case in result.cases], dtype=np.intp)[asked]
    models = [model for model, _ in columns.systems]
    test = depends_on_system(shares, cluster, draws=_DRAWS, seed=seed) if len(models) > 1 and asked.any() else None
    rate = float(shares.mean()) if asked.any() else 0.0
    by_model = tuple(
        ModelFailures(
            model=model,
            failed=int(failed[i].sum()),
            n_pictures=int(wanted[i].sum()),
            expected_if_alike=round(rate * float(wanted[i].sum()), 3),
            p=None if test is None else float(test.p_each[i]),
        )
        for i, model in enumerate(models)
    )
    return FailureTest(
        protocol=protocol,
        judge=judge,
        measure=measure,
        n_cases=int(asked.sum()),
        n_left_out=int((~asked).sum()),
        models=by_model,
        p=None if test is None else test.p,
        statement=_statement(by_model, None if test is None else test.p, int(asked.sum())),
    )


def _wanted(columns: Columns) -> NDArray[np.intp]:
    """How many pictures each system was to give of each case, systems x cases."""
    known = [columns.kinds[part] >= 0 for part in columns.kinds]
    known += [~np.isnan(drawn) for drawn in columns.drawn.values()]
    known += [*columns.away.values(), *columns.waiting.values()]
    return np.asarray(np.any(known, axis=0).sum(axis=2))


def _statement(models: tuple[ModelFailures, ...], p: float | None, n: int) -> str:
    if n == 0:
        return "there is no case yet that every model was asked for"
    if len(models) < 2:
        return (
            f"{models[0].failed} of {models[0].n_pictures} pictures failed; with one model there is nothing to compare"
        )
    if p is None:
        if not any(model.failed for model in models):
            return f"none of the {n} cases failed for any model"
        return "the models failed on the same cases, so nothing depends on the model"
    tested = _p(p)
    if p > _LEVEL:
        return f"whether a case fails has not been shown to depend on the model ({tested}, {counted(n, 'case')})"
    apart = [model for model in models if model.p is not None and model.p <= _LEVEL]
    words = [
        f"{model.model} failed {'more' if model.failed > model.expected_if_alike else 'less'} often than the others "
        f"({model.failed} of {model.n_pictures} pictures, {model.expected_if_alike:.1f} if all were alike, "
        f"{_p(model.p or 0)})"
        for model in sorted(apart, key=lambda model: -abs(model.failed - model.expected_if_alike))
    ]
    return f"whether a case fails depends on the model ({tested}, {counted(n, 'case')})" + (
        f": {'; '.join(words)}" if words else ""
    )


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
