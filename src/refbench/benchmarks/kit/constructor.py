"""The one way to declare a benchmark: what it asks, reads and measures, and what comes out; the rest is made of that.

BENCHMARK = benchmark(name="mine", load=load, judge=[edit, look], macro=("category",), total="mean")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from refbench.benchmarks.kit.aggregate import Formula, TableRules, Total
from refbench.benchmarks.kit.asks import Call, Range
from refbench.benchmarks.kit.definition import (
    Asked,
    Asking,
    Benchmark,
    Data,
    Dataset,
    Derived,
    Judging,
    Material,
    Measured,
    Protocol,
    Reporting,
    Scoring,
    check_subset,
    measured_by,
    state_of,
)
from refbench.case import AnyCase, Case
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import Rule
from refbench.metrics import find_metric, metrics
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.tables.table import Aggregate, Row

Load: TypeAlias = Callable[[Path], Dataset | Iterable[AnyCase]]
ReadReply: TypeAlias = Callable[[AnyCase, str, str], Mapping[Any, Any] | Failure]
"""From a case, a part and the reply to it: each measure of the part, or why there is none."""
DeriveScores: TypeAlias = Callable[[AnyCase, str, Mapping[str, Score]], Mapping[str, Derived]]
ReadScores: TypeAlias = Callable[[AnyCase, Purpose, Evidence], list[Score]]

PROTOCOL = "corrected"
DERIVED = "derived"
"""The part of what follows from other scores."""


@dataclass(frozen=True)
class Derive:
    """A measure that follows from others of the same picture, in each repeat, before anything is averaged."""

    formula: Formula
    range: Range = (None, None)


@dataclass(frozen=True)
class Variant:
    """What a protocol does in its own way; what is not said here is as the benchmark has it.

    `read` reads a reply as the released code does, ranges unchecked; `scores` replaces all reading of evidence, and
    `aggregate` all making of the table. `imputed` are the values that the released code gives to failures, by kind.
    `versions` land in the fingerprint: bump them whenever numbers change.
    """

    read: ReadReply | None = None
    scores: ReadScores | None = None
    aggregate: Aggregate | None = None
    total: Total | Rule | None = None
    macro: tuple[str, ...] | None = None
    imputed: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, int] | None = None


def benchmark(
    *,
    name: str,
    title: str = "",
    paper: str = "",
    load: Load | None = None,
    layout: str = "",
    case_type: type[Any] = Case[dict[str, Any]],
    data: Data | None = None,
    judge: Sequence[Call] = (),
    recorded: Mapping[str, str] | None = None,
    measure: Callable[[AnyCase], list[Measured]] | None = None,
    measured: Mapping[str, str | Range] | None = None,
    not_applicable: Callable[[AnyCase], Mapping[str, str]] = lambda case: {},
    asking: Asking | None = None,
    derived: Mapping[str, Derive | Formula] | DeriveScores | None = None,
    lower: Collection[str] | None = None,
    total: Total | Rule | Formula | None = None,
    groups: Sequence[str] | None = None,
    macro: Sequence[str] = (),
    scale: float = 1.0,
    protocols: Mapping[str, Variant] | None = None,
    judges_mean: bool = False,
    further_rows: Callable[[Sequence[Row]], list[Row]] = lambda rows: [],
    reporting: Reporting | None = None,
    version: int = 1,
) -> Benchmark:
    """A benchmark from its declaration; docs/add-a-benchmark.md explains each argument.

    One file gives `load`, and `judge`, or `measure` with `measured`, or all of them. A benchmark that says more about
    its files or asks in its own way gives `data` and `asking` as a whole. Bump `version` when the numbers change.
    """
    formulas = _formulas(derived, total)
    rules = TableRules(
        ranges=_ranges(name, judge, measured or {}, formulas),
        total=None if total is None else _total(total),
        lower=_lower(measured or {}) if lower is None else frozenset(lower),
        groups=groups,
        macro=tuple(macro),
        scale=scale,
    ).checked(name)
    asked = asking or _asking(name, judge, measure, measured or {}, not_applicable, recorded or {}, formulas)
    variants = {PROTOCOL: Variant(), **(protocols or {})}
    made = Benchmark(
        name=name,
        title=title or name,
        paper=paper,
        data=data or Data(_loader(name, load, lambda: made, lower is None), case_type, layout=layout),
        asking=asked,
        scoring=Scoring(
            {p: _protocol(name, p, variant, rules, asked, judge, version) for p, variant in variants.items()},
            _derived(formulas) if formulas else derived if callable(derived) else None,
            rules.lower,
            judges_mean,
            further_rows,
        ),
        reporting=reporting or Reporting(),
    )
    return made


def _formulas(
    derived: Mapping[str, Derive | Formula] | DeriveScores | None, total: Total | Rule | Formula | None
) -> dict[str, Derive]:
    """The measures that follow from others, the total among them where it is a formula over one picture."""
    found = {}
    if isinstance(derived, Mapping):
        found = {name: one if isinstance(one, Derive) else Derive(one) for name, one in derived.items()}
    if total is not None and callable(rule := _total(total).rule) and not _total(total).of_means:
        found[_total(total).name] = Derive(rule, _total(total).range or (None, None))
    return found


def _total(total: Total | Rule | Formula) -> Total:
    return total if isinstance(total, Total) else Total(total)


def _derived(formulas: Mapping[str, Derive]) -> DeriveScores:
    def derive(case: AnyCase, protocol: str, scores: Mapping[str, Score]) -> dict[str, Derived]:
        return {name: _follows(derive, _States(scores)) for name, derive in formulas.items()}

    return derive


def _follows(derive: Derive, marks: _States) -> Derived:
    try:
        value = float(derive.formula(marks))
    except _NoValueError as reason:
        return reason.state
    except (ArithmeticError, ValueError) as error:
        return Failure(kind="undefined", detail=f"it cannot be computed: {error}")
    return _checked(value, derive.range) if math.isfinite(value) else Failure(kind="undefined", detail=str(value))


class _NoValueError(Exception):
    """A mark that a formula needs has no value."""

    def __init__(self, state: Derived) -> None:
        super().__init__()
        self.state = state


class _States(Mapping[str, float]):
    """The marks of one picture, for a formula: one that is not there ends it in that state."""

    def __init__(self, scores: Mapping[str, Score]) -> None:
        self._scores = scores

    def __getitem__(self, name: str) -> float:
        if name not in self._scores:
            raise RefBenchError(f"a derived measure needs {name!r}, but there are {', '.join(self._scores)}")
        state = state_of(self._scores, name)
        if isinstance(state, float):
            return state
        raise _NoValueError(state)

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)


def _ranges(
    name: str,
    calls: Sequence[Call],
    measured: Mapping[str, str | Range],
    formulas: Mapping[str, Derive],
) -> dict[str, Range]:
    """The range of every measure, in the order of the columns."""
    ranges: dict[str, Range] = {}
    parts = [call.measures for call in calls]
    parts += [{part: _metric_range(name, part, said)} for part, said in measured.items()]
    for of_part in (*parts, {measure: derive.range for measure, derive in formulas.items()}):
        for measure, ends in of_part.items():
            if measure in ranges:
                raise RefBenchError(f"{name}: two parts give the measure {measure}: give one of them another name")
            if ends[0] is not None and ends[1] is not None and not ends[0] < ends[1]:
                raise RefBenchError(f"{name}: the range of {measure} needs its lower end first")
            ranges[measure] = ends
    return ranges


def _metric_range(name: str, part: str, said: str | Range) -> Range:
    """The range of a measured part: as it is given, or as its metric declares it."""
    try:
        return find_metric(said).range if isinstance(said, str) else said
    except RefBenchError as error:
        raise RefBenchError(f"{name}: measured[{part!r}]: {error}") from error


def _lower(measured: Mapping[str, str | Range]) -> frozenset[str]:
    """Those of which less is better by their metric's own word; a part with a range may be called as its metric is."""
    if not measured:
        return frozenset()
    known = {name: metric.better for metric in metrics() for name in (metric.name, metric.id)}
    named = {part: said if isinstance(said, str) else part for part, said in measured.items()}
    return frozenset(part for part, metric in named.items() if known.get(metric) == "lower")


def _loader(
    name: str, load: Load | None, made: Callable[[], Benchmark], directions: bool
) -> Callable[[Path, str | None], Dataset]:
    """`load` as the record has it; with `directions`, those of the metrics are checked."""
    if load is None:
        raise RefBenchError(f"{name}: give load=, or data= with everything about the files")

    def load_dataset(root: Path, subset: str | None = None) -> Dataset:
        bench = made()
        check_subset(bench.title, subset)
        found = load(root)
        dataset = found if isinstance(found, Dataset) else Dataset(bench.name, root, root, tuple(found))
        for part, metric in measured_by(bench, dataset.cases):
            if directions and (metric.better == "lower") != (part in bench.scoring.lower):
                raise RefBenchError(
                    f"{bench.name}: {part} is measured by {metric.id}, of which {metric.better} is better: write "
                    f'measured={{"{part}": "{metric.name}"}}, or say by lower= of which measures less is better'
                )
        return dataset

    return load_dataset


def _asking(
    name: str,
    calls: Sequence[Call],
    measure: Callable[[AnyCase], list[Measured]] | None,
    measured: Mapping[str, str | Range],
    not_applicable: Callable[[AnyCase], Mapping[str, str]],
    recorded: Mapping[str, str],
    formulas: Collection[str],
) -> Asking:
    if (measure is None) != (not measured):
        raise RefBenchError(f"{name}: measure and measured belong together")

    def ask(case: AnyCase, material: Material) -> list[Asked]:
        away = not_applicable(case)
        concerned = [call for call in calls if not all(mark in away for mark in call.measures)]
        return [Asked(call.part, call.request(case, material)) for call in concerned]

    parts = {call.part: tuple(call.measures) for call in calls} | {part: (part,) for part in measured}
    return Asking(
        parts=parts | ({DERIVED: tuple(formulas)} if formulas else {}),
        judging=(lambda root, settings: Judging(ask, dict(recorded))) if calls else None,
        measuring=measure,
        measured=frozenset(measured),
        not_applicable=not_applicable,
    )


def _protocol(
    name: str,
    protocol: str,
    variant: Variant,
    rules: TableRules,
    asking: Asking,
    calls: Sequence[Call],
    version: int,
) -> Protocol:
    read = variant.scores
    if read is None and variant.read is not None:
        read = partial(_read_plainly, asking.parts, variant.read, protocol)
    if variant.total is not None and callable(_total(variant.total).rule) and not _total(variant.total).of_means:
        raise RefBenchError(
            f"{name}: a formula as the total of {protocol} is over means: write Total(..., of_means=True)"
        )
    changed = replace(
        rules,
        imputed=variant.imputed,
        total=rules.total if variant.total is None else _total(variant.total),
        macro=rules.macro if variant.macro is None else variant.macro,
    )
    return Protocol(
        protocol,
        read or partial(_read, name, calls, asking.not_applicable, protocol),
        variant.aggregate or changed.aggregate(),
        variant.versions or {"reader": version, "aggregate": version},
    )


def _read(
    name: str,
    calls: Sequence[Call],
    not_applicable: Callable[[AnyCase], Mapping[str, str]],
    protocol: str,
    case: AnyCase,
    purpose: Purpose,
    evidence: Evidence,
) -> list[Score]:
    """The measures of a call in a reply to it, each checked against its range."""
    call = next((call for call in calls if call.part == purpose.part), None)
    if call is None:
        there = ", ".join(call.part for call in calls)
        raise RefBenchError(f"{name}: a reply is to the part {purpose.part!r}, but the judge is asked for {there}")
    away = not_applicable(case)
    wanted = [measure for measure in call.measures if measure not in away]
    found: Mapping[str, Any] = dict.fromkeys(wanted, evidence.failure or Failure(kind="missing_reply"))
    if evidence.reply is not None:
        found = call.read(case, evidence.reply)
    # What does not apply is said with every reply, because the part it belongs to may not be asked at all.
    return [Score.of(purpose, m, protocol, _checked(found.get(m), call.measures[m])) for m in wanted] + [
        Score.of(purpose, mark, protocol, why) for mark, why in away.items()
    ]


def _read_plainly(
    parts: Mapping[str, tuple[str, ...]],
    read: ReadReply,
    protocol: str,
    case: AnyCase,
    purpose: Purpose,
    evidence: Evidence,
) -> list[Score]:
    """The measures of a part as a protocol's own reader gives them; one failure is that of all of them."""
    measures = parts.get(purpose.part, ())
    found: Mapping[Any, Any] | Failure = evidence.failure or Failure(kind="missing_reply")
    if evidence.reply is not None:
        found = read(case, purpose.part, evidence.reply)
    marks = dict.fromkeys(measures, found) if isinstance(found, Failure) else found
    return [Score.of(purpose, measure, protocol, marks[measure]) for measure in measures]


def _checked(said: Any, ends: Range) -> float | Failure:
    if isinstance(said, Failure):
        return said
    if not isinstance(said, int | float):
        return Failure(kind="unparsable", detail="the reply gave no such measure")
    low, high = ends
    if (low is None or low <= said) and (high is None or said <= high):
        return float(said)
    return Failure(kind="out_of_range", detail=f"{said} is not from {low} to {high}")
