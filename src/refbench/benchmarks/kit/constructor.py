"""A benchmark in one file: load, ask, read, measure, and what comes out; the rest is made from those.

BENCHMARK = simple_benchmark(name="mine", load=load, ask=ask, read=read, measures={"verdict": {"quality": (1, 5)}})
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from refbench.benchmarks.kit.benchmark import (
    Asked,
    Benchmark,
    ImportedReplies,
    Judging,
    Material,
    Measured,
    Protocol,
    measured_by,
)
from refbench.benchmarks.kit.dataset import Anomaly, Dataset
from refbench.case import AnyCase, Case
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import SentPicture
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import Contract, Rule
from refbench.judges.totals import combine_columns
from refbench.metrics import find_metric, metrics
from refbench.pictures import read_facts
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.stats import Array
from refbench.tables.columns import Bools
from refbench.tables.table import Aggregate, Mean, Measure, Slice, Summary

Load: TypeAlias = Callable[[Path], Dataset | Iterable[AnyCase]]
Ask: TypeAlias = Callable[[AnyCase, Material], Mapping[str, ChatRequest]]
Read: TypeAlias = Callable[[AnyCase, str, str], Mapping[str, Any]]
"""From a case, a part and the reply to it: numbers, yes (True) or no, or failures, as `Contract.read` gives them."""
Measures: TypeAlias = Mapping[str, Mapping[str, tuple[float, float]]]
Range: TypeAlias = tuple[float | None, float | None]
"""None for an end that a measure has not."""

PROTOCOL = "corrected"
MAX_TOKENS = 8192
PICTURE_ANOMALIES = {
    "missing_picture": "the picture is not there: the case cannot be run",
    "unreadable_picture": "the picture cannot be read: the case cannot be run",
}


@dataclass(frozen=True)
class Total:
    """The last column: a rule over the measures of one picture, each first brought to `range` if its own differs.

    It is taken of each picture, before seeds are averaged. Measures that do not apply to a case take no part in its
    total; one that failed leaves the picture without a total. Measures of which more is better and such of which less
    is cannot be combined as they are: with `turn_lower`, the latter are turned round within their range (0.1 from 0 to
    1 counts 0.9), and more of the total is better.
    """

    rule: Rule = "mean"
    over: tuple[str, ...] = ()
    """All measures when empty."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """1 where nothing is said."""
    range: tuple[float, float] | None = None
    name: str = "total"
    turn_lower: bool = False


def simple_benchmark(
    *,
    name: str,
    load: Load,
    ask: Ask | None = None,
    read: Read | None = None,
    measures: Measures | None = None,
    measure: Callable[[AnyCase], list[Measured]] | None = None,
    measured: Mapping[str, str | Range] | None = None,
    lower: Collection[str] | None = None,
    groups: Sequence[str] | None = None,
    total: Total | Rule | None = None,
    not_applicable: Callable[[AnyCase], Mapping[str, str]] = lambda case: {},
    title: str = "",
    paper: str = "",
    case_type: type[Any] = Case[dict[str, Any]],
    is_checkout: Callable[[Path], bool] = lambda path: True,
    layout: str = "",
    version: int = 1,
    recorded: Mapping[str, str] | None = None,
) -> Benchmark:
    """A benchmark that asks a judge for marks, or measures, or both, and averages over cases.

    `load` gives the cases of a directory (or a whole Dataset), `ask` one request for each part of a case, `read`
    the measures in the reply to one part. `measures` names the parts and, for each, its measures with their
    ranges; a value outside is a failure. `not_applicable` maps the measures that do not concern a case to the
    reason: they lower what is expected, and a part with no other measure is not asked. `groups` are the case
    groups that the table slices by, all of them by default. Bump `version` when the numbers change.
    `measure` gives the metrics of a case, and `measured` names their parts, each with the metric whose range and
    direction it has, or with its range. `lower` are the measures of which less is better: by default the measured
    parts whose metrics say so of themselves.
    """
    if (ask is None) != (read is None) or (ask is None) != (not measures) or (measure is None) != (not measured):
        raise RefBenchError(f"{name}: ask, read and measures belong together, and so do measure and measured")
    marks, parts = measures or {}, dict(measured or {})
    ranges = _ranges(name, {**marks, **{part: {part: _range(name, part, said)} for part, said in parts.items()}})
    less = _lower(parts) if lower is None else frozenset(lower)
    if unknown := sorted(less - set(ranges)):
        raise RefBenchError(f"{name}: lower names {unknown[0]!r}, but there are {', '.join(ranges)}")
    summary = Total(total) if isinstance(total, str) else total
    total_is_lower = summary is not None and _is_lower(name, summary, ranges, less)

    def load_dataset(root: Path, subset: str | None = None) -> Dataset:
        if subset is not None:
            raise RefBenchError(f"--subset {subset}: {title or name} has no subsets")
        found = load(root)
        dataset = found if isinstance(found, Dataset) else Dataset(name, root, root, tuple(found))
        for part, metric in measured_by(made, dataset.cases):
            if lower is None and (metric.better == "lower") != (part in less):
                raise RefBenchError(
                    f"{name}: {part} is measured by {metric.id}, of which {metric.better} is better: write "
                    f'measured={{"{part}": "{metric.name}"}}, or say by lower= of which measures less is better'
                )
        return dataset

    def ask_parts(case: AnyCase, material: Material) -> list[Asked]:
        away = not_applicable(case)
        return [
            Asked(part, request)
            for part, request in (ask(case, material) if ask else {}).items()
            if not all(mark in away for mark in _of_part(name, marks, part))
        ]

    def read_scores(case: AnyCase, purpose: Purpose, evidence: Evidence) -> list[Score]:
        away = not_applicable(case)
        wanted = [m for m in _of_part(name, marks, purpose.part) if m not in away]
        found: Mapping[str, Any] = dict.fromkeys(wanted, evidence.failure or Failure(kind="missing_reply"))
        if evidence.reply is not None and read is not None:
            found = read(case, purpose.part, evidence.reply)
        # What does not apply is said with every reply, because the part it belongs to may not be asked at all.
        return [Score.of(purpose, m, PROTOCOL, _checked(found.get(m), ranges[m])) for m in wanted] + [
            Score.of(purpose, mark, PROTOCOL, why) for mark, why in away.items()
        ]

    aggregate = _aggregate(ranges, summary, groups, less)
    made = Benchmark(
        name=name,
        title=title or name,
        paper=paper,
        case_type=case_type,
        is_checkout=is_checkout,
        layout=layout,
        load=load_dataset,
        subsets={},
        anomalies=picture_anomalies,
        anomaly_kinds=PICTURE_ANOMALIES,
        parts={part: tuple(of_part) for part, of_part in marks.items()} | {part: (part,) for part in parts},
        protocols={PROTOCOL: Protocol(PROTOCOL, read_scores, aggregate, {"reader": version, "aggregate": version})},
        import_replies=_no_replies(title or name),
        published=list,
        judging=(lambda root, settings: Judging(ask_parts, dict(recorded or {}))) if ask else None,
        measuring=measure,
        measured=frozenset(parts),
        not_applicable=not_applicable,
        lower=less | {summary.name} if summary is not None and total_is_lower else less,
    )
    return made


def judge_request(
    text: str, shown: Iterable[tuple[str, SentPicture]], contract: Contract | None = None, max_tokens: int = MAX_TOKENS
) -> ChatRequest:
    """A request that shows pictures, each announced by a short text, and then says what is wanted.

    With a contract, the form of the reply is said at the end and enforced where the provider can.
    """
    parts: list[ChatText | ChatPicture] = []
    for announcement, picture in shown:
        parts += [ChatText(text=announcement), ChatPicture(sha256=picture.sha256, detail="high")]
    said = text.strip() + (f"\n\n{contract.format_text()}" if contract else "")
    schema = contract.json_schema() if contract else None
    return ChatRequest(parts=(*parts, ChatText(text=said)), max_tokens=max_tokens, json_schema=schema)


def picture_anomalies(dataset: Dataset) -> list[Anomaly]:
    """Pictures that are not there or cannot be read, in the order of the cases."""
    found = []
    for case in dataset.cases:
        for picture in (*case.request.pictures, *case.targets):
            path = dataset.path(picture)
            if not path.is_file():
                found.append(Anomaly(kind="missing_picture", case=case.id, part=picture.role, detail=picture.name))
            elif isinstance(facts := read_facts(path), Failure):
                detail = f"{picture.name}: {facts.detail}"
                found.append(Anomaly(kind="unreadable_picture", case=case.id, part=picture.role, detail=detail))
    return found


def _range(name: str, part: str, said: str | Range) -> Range:
    """The range of a measured part: as it is given, or as its metric declares it."""
    try:
        return find_metric(said).range if isinstance(said, str) else said
    except RefBenchError as error:
        raise RefBenchError(f"{name}: measured[{part!r}]: {error}") from error


def _lower(measured: Mapping[str, str | Range]) -> frozenset[str]:
    """Those of which less is better by their metric's own word; a part with a range may be called as its metric is."""
    known = {name: metric.better for metric in metrics() for name in (metric.name, metric.id)}
    named = {part: said if isinstance(said, str) else part for part, said in measured.items()}
    return frozenset(part for part, metric in named.items() if known.get(metric) == "lower")


def _is_lower(name: str, total: Total, ranges: Mapping[str, Range], lower: Collection[str]) -> bool:
    """Whether less of the total is better. A rule over unlike directions or endless ranges has no meaning."""
    over = total.over or tuple(ranges)
    for measure in over:
        if measure not in ranges:
            raise RefBenchError(f"{name}: the total is over {measure!r}, but there are {', '.join(ranges)}")
        if None in ranges[measure] and (total.turn_lower or total.range or len({ranges[m] for m in over}) > 1):
            raise RefBenchError(f"{name}: {measure} has no finite range: leave it out of the total's over=")
    less = [measure for measure in over if measure in lower]
    if not less or total.turn_lower:
        return False
    if len(less) < len(over):
        raise RefBenchError(
            f"{name}: of {', '.join(less)} less is better, of the total's other measures more: choose over=, or turn "
            "those round within their ranges by Total(..., turn_lower=True)"
        )
    return True


def _ranges(name: str, measures: Mapping[str, Mapping[str, Range]]) -> dict[str, Range]:
    ranges: dict[str, Range] = {}
    for part, of_part in measures.items():
        for measure, ends in of_part.items():
            if measure in ranges:
                raise RefBenchError(f"{name}: two parts give the measure {measure}: give one of them another name")
            if ends[0] is not None and ends[1] is not None and not ends[0] < ends[1]:
                raise RefBenchError(f"{name}: the range of {part}.{measure} needs its lower end first")
            ranges[measure] = ends
    return ranges


def _of_part(name: str, measures: Measures, part: str) -> Mapping[str, tuple[float, float]]:
    if part not in measures:
        raise RefBenchError(f"{name}: it asks for the part {part!r}, but `measures` has {', '.join(measures)}")
    return measures[part]


def _checked(said: Any, ends: Range) -> float | Failure:
    if isinstance(said, Failure):
        return said
    if not isinstance(said, int | float):
        return Failure(kind="unparsable", detail="the reply gave no such measure")
    low, high = ends
    if (low is None or low <= said) and (high is None or said <= high):
        return float(said)
    return Failure(kind="out_of_range", detail=f"{said} is not from {low} to {high}")


def _aggregate(
    ranges: Mapping[str, Range], total: Total | None, groups: Sequence[str] | None, lower: Collection[str]
) -> Aggregate:
    """Means over cases, overall, by group and by tag; the total is taken of each picture and then averaged."""
    columns = tuple(Measure(measure, (measure,), *ends) for measure, ends in ranges.items())
    over = (total.over or tuple(ranges)) if total else ()
    turned = frozenset(lower).intersection(over) if total and total.turn_lower else frozenset()
    inside: dict[str, Range] = {}
    ends: Range = None, None
    if total:
        ends = total.range or ranges[over[0]]
        # A range from its high end to its low one turns its measure round.
        inside = {m: ranges[m][::-1] if m in turned else ranges[m] for m in over}
        columns += (Measure(total.name, over, *ends),)

    def slices(cases: Sequence[AnyCase]) -> list[Slice]:
        found = [Slice("overall", {}, np.ones(len(cases), dtype=np.bool_))]
        names = groups if groups is not None else list(dict.fromkeys(g for case in cases for g in case.groups))
        for name in names:
            for value in sorted({case.groups[name] for case in cases if name in case.groups}):
                members = np.array([case.groups.get(name) == value for case in cases], dtype=np.bool_)
                found.append(Slice(name, {name: value}, members))
        for tag in sorted({tag for case in cases for tag in case.tags}):
            members = np.array([tag in case.tags for case in cases], dtype=np.bool_)
            found.append(Slice("tag", {"tag": tag}, members))
        return found

    def totals(drawn: Mapping[str, Array], away: Mapping[str, Bools]) -> Mapping[str, Array]:
        return {total.name: _total(total, inside, ends, drawn, away)} if total else {}

    def summarise(mean: Mean, where: Slice) -> Summary:
        return {measure.name: mean(measure.name, where.members) for measure in columns}

    return Aggregate(columns, slices, summarise, imputed={}, per_case=totals, turned=turned)


def _total(
    total: Total, over: Mapping[str, Range], ends: Range, drawn: Mapping[str, Array], away: Mapping[str, Bools]
) -> Array:
    marks = []
    for measure, own in over.items():
        mark = drawn[measure]
        if own != ends:
            (bottom, top), (low, high) = own, ends
            assert (
                bottom is not None and top is not None and low is not None and high is not None
            )  # _is_lower sees to it
            mark = low + (mark - bottom) * (high - low) / (top - bottom)
        marks.append(mark)
    applies = ~np.stack([away[measure] for measure in over])
    return combine_columns(total.rule, np.stack(marks), [total.weights.get(m, 1.0) for m in over], applies)


def _no_replies(title: str) -> Callable[[Dataset, Path, Sequence[str] | None, str | None], ImportedReplies]:
    def refuse(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
        raise RefBenchError(f"{title} has no released replies to read from {folder}: judge with refbench run")

    return refuse
