"""Which cases and models stand on a sheet of pictures, by a rule that the sheet states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import RefBenchError, counted
from refbench.score import digits_of
from refbench.stats import Array, mean_of_those_there
from refbench.tables.result import Result
from refbench.tables.table import case_values, columns_of


@dataclass(frozen=True)
class Marks:
    """One measure on every single case, under one protocol, by one judge."""

    measure: str
    protocol: str
    judge: str | None
    judges: tuple[str | None, ...]
    lower: bool
    values: dict[str, Array]
    """By model; NaN where the case has no value."""
    why_not: dict[tuple[str, str], str]
    """By model and case: the kind of failure, or why the measure does not apply."""
    seeds: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """By model: of how many seeds the value of each case is the mean."""

    @property
    def title(self) -> str:
        others = f", one of {len(self.judges)}" if len(self.judges) > 1 else ""
        judge = f", judge {self.judge}{others}" if self.judge else ""
        return f"{self.measure} ({self.protocol}{judge})"

    @property
    def digits(self) -> int:
        return digits_of(value for column in self.values.values() for value in column)


@dataclass(frozen=True)
class Chosen:
    """The cases of a sheet, in order, and the rule that chose them."""

    cases: tuple[AnyCase, ...]
    rule: str


def marks_of(
    result: Result, *, measure: str | None = None, protocol: str | None = None, judge: str | None = None
) -> Marks:
    """The measure that a sheet is about: by default the summary, under the first protocol, by the first judge."""
    there = list(dict.fromkeys(score.protocol for score in result.scores))
    if protocol is not None and protocol not in there:
        raise RefBenchError(f"--protocol {protocol}: there are {', '.join(there)}")
    chosen = protocol or there[0]
    scores = [score for score in result.scores if score.protocol == chosen]
    judges = tuple(dict.fromkeys(score.judge for score in scores if score.judge)) or (None,)
    if judge is not None and judge not in judges:
        raise RefBenchError(f"--judge {judge}: there are {', '.join(str(name) for name in judges)}")
    by = judge or judges[0]
    aggregate = result.bench.scoring.protocols[chosen].aggregate
    names = [m.name for m in aggregate.measures]
    if measure is not None and measure not in names:
        raise RefBenchError(f"--metric {measure}: there are {', '.join(names)}")
    name = measure or result.summary(chosen)
    # Models that no judge has seen yet have measurements only.
    seen = {score.model for score in scores if score.judge == by}
    mine = [s for s in scores if s.judge == by or (s.model not in seen and s.judge is None)]
    columns = columns_of(mine, result.cases)
    values = case_values(aggregate, columns, result.cases)[name]
    places = range(len({score.seed for score in mine}))
    of_seeds = [case_values(aggregate, columns.of_seed(place), result.cases).get(name) for place in places]
    valued = np.sum([np.isfinite(of_seed) for of_seed in of_seeds if of_seed is not None], axis=0)
    parts = next(m.parts for m in aggregate.measures if m.name == name)
    why_not: dict[tuple[str, str], str] = {}
    for score in mine:
        if score.metric in parts and score.value is None:
            why = score.failure.kind if score.failure else f"does not apply: {score.not_applicable}"
            why_not.setdefault((score.model, score.case), "not asked yet" if score.not_asked else why)
    return Marks(
        measure=name,
        protocol=chosen,
        judge=by,
        judges=judges,
        lower=name in result.bench.scoring.lower,
        values={model: values[n] for n, (model, _) in enumerate(columns.systems)},
        why_not=why_not,
        seeds={model: valued[n] for n, (model, _) in enumerate(columns.systems)},
    )


@dataclass(frozen=True)
class Choice:
    """How the cases of a sheet are chosen: by name, by their value for one model (`of`) or on average over the models,
    by how far the models are apart, or by lot."""

    by: str = "random"
    """cases, worst, best, random or disagree: the option that says it."""
    count: int = 4
    ids: tuple[str, ...] = ()
    of: str | None = None
    seed: int = 0

    @classmethod
    def of_options(cls, ids: Sequence[str], counts: Mapping[str, int | None], of: str | None, seed: int) -> Choice:
        """From the options of the command, of which at most one may be given; some cases by lot where none is."""
        given = {"cases": len(ids) or None, **counts}
        chosen = [(name, count) for name, count in given.items() if count is not None]
        if len(chosen) > 1:
            raise RefBenchError(f"--{chosen[0][0]} and --{chosen[1][0]} exclude each other: give one of them")
        by, count = chosen[0] if chosen else (cls.by, cls.count)
        if count < 1:
            raise RefBenchError(f"--{by} {count}: give a number from 1 up")
        return cls(by, count, tuple(ids), of, seed)


def choose(cases: Sequence[AnyCase], marks: Marks, models: Sequence[str], choice: Choice) -> Chosen:
    """The cases that a choice is about."""
    if choice.of is not None and choice.of not in models:
        raise RefBenchError(f"--of {choice.of}: the sheet has {', '.join(models)}")
    if choice.by == "cases":
        by_id = {case.id: case for case in cases}
        stranger = next((name for name in choice.ids if name not in by_id), None)
        if stranger is not None:
            raise RefBenchError(f"--cases {stranger}: there is no such case; the first is {cases[0].id}")
        return Chosen(tuple(by_id[name] for name in choice.ids), "cases chosen by name")
    if choice.by == "random":
        number = min(choice.count, len(cases))
        drawn = np.random.default_rng(choice.seed).choice(len(cases), size=number, replace=False)
        return Chosen(tuple(cases[n] for n in drawn), f"{counted(number, 'case')} drawn at random (seed {choice.seed})")
    key, rule = _order_by(marks, models, choice)
    there = np.flatnonzero(~np.isnan(key))
    if not len(there):
        raise RefBenchError(f"--{choice.by}: no case has a value of {marks.measure} here")
    order = sorted(there.tolist(), key=lambda n: (key[n], cases[n].id))[: choice.count]
    first = "the first of the " if len(order) == 1 else f"the {len(order)} "
    return Chosen(tuple(cases[n] for n in order), f"{first}{rule}, among those with a value")


def _order_by(marks: Marks, models: Sequence[str], choice: Choice) -> tuple[Array, str]:
    """What cases are ordered by, least first, and that in words."""
    table = np.stack([marks.values[model] for model in models])
    if choice.by == "disagree":
        if len(models) < 2:
            raise RefBenchError("--disagree needs at least two models")
        apart: Array = table.min(axis=0) - table.max(axis=0)
        return apart, f"cases on which the models are furthest apart in {marks.title}"
    low = (choice.by == "worst") != marks.lower
    column = table[list(models).index(choice.of)] if choice.of else mean_of_those_there(table)
    whose = f"for {choice.of or models[0]}" if choice.of or len(models) == 1 else f"on average over {', '.join(models)}"
    rule = f"cases with the {'lowest' if low else 'highest'} {marks.title} {whose}"
    return (column if low else -column), rule


def state_of(marks: Marks, model: str, case: AnyCase, position: int, output: Failure | None, *, seeds: int = 1) -> str:
    """What stands under a picture: the value, or why there is none. A mean of fewer than all `seeds` says so."""
    value = marks.values[model][position] if model in marks.values else np.nan
    if not np.isnan(value):
        of = int(marks.seeds[model][position]) if model in marks.seeds else seeds
        return f"{marks.measure} {value:.{marks.digits}f}" + (f" ({of} of {seeds} seeds)" if of < seeds else "")
    why = output.kind if output else marks.why_not.get((model, case.id), "not scored")
    return f"{marks.measure}: none ({why})"
