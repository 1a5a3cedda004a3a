"""The one way to declare a benchmark: what it asks, reads and measures, and what comes out; the rest is made of that.

BENCHMARK = benchmark(name="mine", load=load, judge=[edit, look], macro=("category",), total="mean")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from refbench.benchmarks.kit.aggregate import Formula, TableRules, Total
from refbench.benchmarks.kit.asks import Call, Range
from refbench.benchmarks.kit.definition import (
    PROTOCOL,
    Ability,
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
from refbench.benchmarks.kit.hardening import hardenable
from refbench.benchmarks.kit.looks import Look, in_look
from refbench.benchmarks.kit.release import Release
from refbench.case import AnyCase, Case
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import Rule
from refbench.metrics import find_metric, metrics
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.specs import nearest
from refbench.tables.table import Aggregate, Row, Slice

Load: TypeAlias = Callable[[Path], Dataset | Iterable[AnyCase]]
ReadReply: TypeAlias = Callable[[AnyCase, str, str], Mapping[Any, Any] | Failure]
"""From a case, a part and the reply to it: each measure of the part, or why there is none."""
DeriveScores: TypeAlias = Callable[[AnyCase, str, Mapping[str, Score]], Mapping[str, Derived]]
ReadScores: TypeAlias = Callable[[AnyCase, Purpose, Evidence], list[Score]]

PAPER = "paper"
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
    `aggregate` all making of the table. `imputed` are the values that the released code gives to failures, by
    kind, in all measures or those of `imputed_in`. `derived` has formulas of its own for measures that the benchmark
    derives. `versions` land in the fingerprint: bump them whenever numbers change. `formulas` are further aggregates by
    name, which a reader may choose.
    """

    read: ReadReply | None = None
    scores: ReadScores | None = None
    aggregate: Aggregate | None = None
    total: Total | Rule | None = None
    macro: tuple[str, ...] | None = None
    imputed: Mapping[str, float] = field(default_factory=dict)
    imputed_in: tuple[str, ...] = ()
    derived: Mapping[str, Derive] = field(default_factory=dict)
    versions: Mapping[str, int] | None = None
    formulas: Mapping[str, Aggregate] = field(default_factory=dict)


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
    settled: Mapping[str, Derive] | None = None,
    lower: Collection[str] | None = None,
    hidden: Collection[str] = (),
    total: Total | Rule | Formula | None = None,
    groups: Sequence[str] | None = None,
    macro: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    slices: Callable[[Sequence[AnyCase]], list[Slice]] | None = None,
    scale: float = 1.0,
    protocols: Mapping[str, Variant] | None = None,
    judges_mean: bool = False,
    further_rows: Callable[[Sequence[Row]], list[Row]] = lambda rows: [],
    reporting: Reporting | None = None,
    release: Release | None = None,
    abilities: Mapping[str, Ability] | None = None,
    version: int = 1,
) -> Benchmark:
    """A benchmark from its declaration; docs/add-a-benchmark.md explains each argument.

    One file gives `load`, and `judge`, or `measure` with `measured`, or all of them. A benchmark that says more about
    its files or asks in its own way gives `data` and `asking` as a whole. Bump `version` when the numbers change.
    """
    formulas, settled, measured = _formulas(derived, total), settled or {}, measured or {}
    ranges = _ranges(name, judge, measured, {**formulas, **settled})
    less = _lower(measured) if lower is None else lower
    column = None if total is None else _total(total)
    rules = TableRules(ranges, column, less, groups, macro, slices, scale, weights=weights or {}).checked(name)
    shown = replace(rules, ranges={measure: ends for measure, ends in ranges.items() if measure not in hidden})
    release, variants = release or Release(), {PROTOCOL: Variant(), **(protocols or {})}
    if asking is None:
        _try_all(name, formulas, variants, rules)
        _try_all(name, settled, variants, rules)
        asking = _asking(name, judge, measure, measured, not_applicable, {**formulas, **settled})
        judging = _judging(judge, not_applicable, recorded or {}, release, tuple(variants)) if judge else None
        asking = replace(release.asking(asking), judging=judging, abilities=abilities or {})
    loader = _loader(name, release.read_whole(load), lambda: made, lower is None, groups) if data is None else data.load
    made_of = {p: _protocol(name, p, variant, shown, asking, judge, version) for p, variant in variants.items()}
    follows = _derived(formulas, variants) if formulas else derived if callable(derived) else None
    later = _derived(settled, variants) if settled else None
    scoring = Scoring(made_of, follows, frozenset(rules.lower), judges_mean, further_rows, later)
    files = data or replace(release.data(layout), load=loader, case_type=case_type)
    made = Benchmark(name, title or name, paper, files, asking, scoring, reporting or release.reporting())
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


def _derived(formulas: Mapping[str, Derive], variants: Mapping[str, Variant]) -> DeriveScores:
    """What follows of marks, in each protocol by its own formulas. Where a protocol reads marks of any size, as its
    release does, what follows of them may have any too."""
    own = {p: {**formulas, **{n: d for n, d in v.derived.items() if n in formulas}} for p, v in variants.items()}
    anything = {p for p, v in variants.items() if v.read is not None}

    def derive(case: AnyCase, protocol: str, scores: Mapping[str, Score]) -> dict[str, Derived]:
        found = own.get(protocol, formulas)
        return {
            name: _follows(replace(one, range=(None, None)) if protocol in anything else one, _States(scores))
            for name, one in found.items()
        }

    return derive


def _follows(derive: Derive, marks: _States) -> Derived:
    try:
        value = float(derive.formula(marks))
    except _NoValueError as reason:
        return reason.state
    except (ArithmeticError, ValueError) as error:
        return Failure(kind="undefined", detail=f"it cannot be computed: {error}")
    return _checked(value, derive.range) if math.isfinite(value) else Failure(kind="undefined", detail=str(value))


def _try_all(name: str, formulas: Mapping[str, Derive], variants: Mapping[str, Variant], rules: TableRules) -> None:
    """Try the formulas of all protocols."""
    for variant in variants.values():
        _try_formulas(name, {**formulas, **{n: d for n, d in variant.derived.items() if n in formulas}}, rules)


def _try_formulas(name: str, formulas: Mapping[str, Derive], rules: TableRules) -> None:
    """Try each formula with the lowest and the highest marks there can be: a mark that does not exist, or an error of
    its own, should not wait until everything is paid. One that cannot be computed for some marks is no mistake."""
    given = {measure: ends for measure, ends in rules.ranges.items() if measure not in formulas}
    for end in (0, 1):
        marks = _Tried({measure: _some_mark(ends, end) for measure, ends in given.items()})
        for measure, derive in formulas.items():
            with suppress(ArithmeticError, ValueError):
                _try_formula(f"{name}: the formula of {measure}", derive.formula, marks)


def _try_total_of_means(name: str, rules: TableRules) -> None:
    """The same for a formula over means, which come as arrays of all models and draws."""
    total = rules.total
    if total is None or not callable(total.rule) or not total.of_means or not rules.ranges:
        return
    ends = {measure: [_some_mark(ends, end) for end in (0, 1)] for measure, ends in rules.ranges.items()}
    means = _Tried({measure: rules.scale * np.array([both]) for measure, both in ends.items()})
    with suppress(ArithmeticError), np.errstate(all="ignore"):
        try:
            _try_formula(f"{name}: the formula of {total.name}", total.rule, means)
        except ValueError as error:
            raise RefBenchError(f"{name}: the formula of {total.name} cannot take arrays of means: {error}") from error


def _try_formula(what: str, formula: Formula, marks: Mapping[str, Any]) -> None:
    try:
        value = formula(marks)
        if value is not None and not isinstance(value, np.ndarray):
            value = float(value)
    except (ArithmeticError, ValueError):
        raise
    except RefBenchError as error:
        raise RefBenchError(f"{what}: {error}") from error
    except Exception as error:
        raise RefBenchError(f"{what} raised {type(error).__name__}: {error}") from error
    if value is None:
        raise RefBenchError(f"{what} returned None: it must return a number")


def _some_mark(ends: Range, end: int) -> float:
    """The lowest (0) or the highest (1) value of a range, or one inside where it has no such end."""
    low, high = ends
    if ends[end] is not None:
        return float(ends[end] or 0)
    return float(low + 1 if low is not None else high - 1 if high is not None else 1)


class _Tried(dict[str, Any]):
    """Marks for the trial of a formula."""

    def applies(self, name: str) -> bool:
        return name in self or bool(self[name])

    def applying(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self.applies(name)]

    def failed(self, name: str) -> str:
        return "" if name in self else str(self[name])

    def __missing__(self, name: str) -> Any:
        raise RefBenchError(f"there is no mark {name!r}; {nearest(name, self)}")


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

    def applies(self, name: str) -> bool:
        """Whether the mark concerns the case."""
        return name in self._scores and self._scores[name].not_applicable is None

    def applying(self, names: Sequence[str]) -> list[str]:
        """Those of the marks that concern the case; all where none does, so that what is computed of them ends in
        their state."""
        return [name for name in names if self.applies(name)] or list(names)

    def failed(self, name: str) -> str:
        """The kind of failure of a mark, where it is not the model's own; empty where it is in another state."""
        failure = self._scores[name].failure if name in self._scores else None
        return failure.kind if failure is not None and not failure.by_model else ""

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
    name: str, load: Load | None, made: Callable[[], Benchmark], directions: bool, groups: Sequence[str] | None
) -> Callable[[Path, str | None], Dataset]:
    """`load` as the record has it; groups are checked, and with `directions` those of the metrics."""
    if load is None:
        raise RefBenchError(f"{name}: give load=, or data= with everything about the files")

    def load_dataset(root: Path, subset: str | None = None) -> Dataset:
        bench = made()
        check_subset(bench.title, subset)
        found = load(root)
        dataset = found if isinstance(found, Dataset) else Dataset(bench.name, root, root, tuple(found))
        _check_groups(bench, dataset.cases, groups or ())
        for part, metric in measured_by(bench, dataset.cases):
            if directions and (metric.better == "lower") != (part in bench.scoring.lower):
                raise RefBenchError(
                    f"{bench.name}: {part} is measured by {metric.id}, of which {metric.better} is better: write "
                    f'measured={{"{part}": "{metric.name}"}}, or say by lower= of which measures less is better'
                )
        return dataset

    return load_dataset


def _check_groups(bench: Benchmark, cases: Sequence[AnyCase], groups: Sequence[str]) -> None:
    """Raises where a table could not be made of the cases by their groups: before a judge is paid, not after."""
    there = dict.fromkeys(group for case in cases for group in case.groups)
    if absent := [group for group in groups if cases and group not in there]:
        raise RefBenchError(f"{bench.name}: groups: no case has a {absent[0]!r}; {nearest(absent[0], there)}")
    for protocol in bench.scoring.protocols.values() if cases else ():
        try:
            protocol.aggregate.slices(cases)
        except RefBenchError as error:
            raise RefBenchError(f"{bench.name}: {error}") from error


def _asking(
    name: str,
    calls: Sequence[Call],
    measure: Callable[[AnyCase], list[Measured]] | None,
    measured: Mapping[str, str | Range],
    not_applicable: Callable[[AnyCase], Mapping[str, str]],
    formulas: Collection[str],
) -> Asking:
    if (measure is None) != (not measured):
        raise RefBenchError(f"{name}: measure and measured belong together")
    parts = {call.part: tuple(call.measures) for call in calls} | {part: (part,) for part in measured}
    return Asking(
        parts=parts | ({DERIVED: tuple(formulas)} if formulas else {}),
        measuring=measure,
        measured=frozenset(measured),
        not_applicable=not_applicable,
    )


def _judging(
    calls: Sequence[Call],
    not_applicable: Callable[[AnyCase], Mapping[str, str]],
    recorded: Mapping[str, str],
    release: Release,
    protocols: Sequence[str],
) -> Callable[[Path, Mapping[str, str]], Judging]:
    """How a run asks. In our words, or the user's, all protocols ask the same; in the authors' words each in its own
    way, `paper` with the pictures as the release sends them. What is equal all the same is asked once."""

    def judging(root: Path, settings: Mapping[str, str]) -> Judging:
        wording = release.prompts.chosen(settings["prompts"]) if release.prompts is not None else None
        official = wording is not None and wording.official
        texts = wording.texts if wording is not None else {}
        ways = [p for p in protocols if settings.get("ask", "both") in ("both", p)] if official else [PROTOCOL]
        look = release.look if official else None

        def ask(case: AnyCase, material: Material) -> list[Asked]:
            away = not_applicable(case)
            concerned = [call for call in calls if not all(mark in away for mark in call.measures)]
            told = replace(material, texts=texts, official=official)
            return [one for call in concerned for one in _ways(call, case, told, ways, look)]

        known = wording.recorded(settings) if wording is not None else {}
        return Judging(ask, {**recorded, **known}, compose=look.compose if look is not None else None)

    return judging if release.prompts is None else hardenable(judging)


def _ways(
    call: Call, case: AnyCase, material: Material, protocols: Sequence[str], look: Look | None
) -> Iterator[Asked]:
    """A call as each protocol makes it."""
    asked: dict[str, Asked] = {}
    for protocol in protocols:
        shown: Material | Failure = replace(material, protocol=protocol)
        if protocol == PAPER and look is not None:
            shown = in_look(replace(material, protocol=protocol))
        broken = shown if isinstance(shown, Failure) else None
        request = call.request(case, material if isinstance(shown, Failure) else shown)
        asked[protocol] = Asked(call.part, request, protocol, settled=broken)
    alike = all(one.request == asked[protocols[0]].request and one.settled is None for one in asked.values())
    if alike and (len(asked) > 1 or not material.official):
        yield replace(asked[protocols[0]], protocol="")
    else:
        yield from asked.values()


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
        read = partial(_read_plainly, asking.parts, asking.not_applicable, variant.read, protocol)
    if variant.total is not None and callable(_total(variant.total).rule) and not _total(variant.total).of_means:
        raise RefBenchError(
            f"{name}: a formula as the total of {protocol} is over means: write Total(..., of_means=True)"
        )
    changed = replace(
        rules,
        imputed=variant.imputed,
        imputed_in=variant.imputed_in,
        total=rules.total if variant.total is None else _total(variant.total),
        macro=rules.macro if variant.macro is None else variant.macro,
    )
    if variant.total is not None:
        changed.checked(name)
    _try_total_of_means(name, changed)
    return Protocol(
        protocol,
        read or partial(_read, name, calls, asking.not_applicable, protocol),
        variant.aggregate or changed.aggregate(),
        variant.versions or {"reader": version, "aggregate": version},
        variant.formulas,
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
    not_applicable: Callable[[AnyCase], Mapping[str, str]],
    read: ReadReply,
    protocol: str,
    case: AnyCase,
    purpose: Purpose,
    evidence: Evidence,
) -> list[Score]:
    """The measures of a part as a protocol's own reader gives them; one failure is that of all that apply."""
    measures = parts.get(purpose.part, ())
    found: Mapping[Any, Any] | Failure = evidence.failure or Failure(kind="missing_reply")
    if evidence.reply is not None:
        found = read(case, purpose.part, evidence.reply)
    if isinstance(found, Failure):
        away = not_applicable(case)
        found = {measure: away.get(measure, found) for measure in measures}
    return [Score.of(purpose, measure, protocol, found[measure]) for measure in measures]


def _checked(said: Any, ends: Range) -> float | Failure:
    if isinstance(said, Failure):
        return said
    if not isinstance(said, int | float):
        return Failure(kind="unparsable", detail="the reply gave no such measure")
    low, high = ends
    if (low is None or low <= said) and (high is None or said <= high):
        return float(said)
    return Failure(kind="out_of_range", detail=f"{said} is not from {low} to {high}")
