"""Scores to the table: the mean of each type over the cases that have it.

`avg` is the unweighted mean of the type means with 1 - x for the three errors, as the paper's Table 6 is; the
real-world split is the unweighted mean of its categories, as Table 5 is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from refbench.benchmarks.kit.published import PublishedValue, published_values
from refbench.benchmarks.multiref import replies
from refbench.benchmarks.multiref.cases import (
    AXES,
    CATEGORIES,
    ERRORS,
    HIGHEST,
    LOWEST,
    SPLITS,
    TYPES,
    UNKNOWN,
    WORDS,
    MultiRefCase,
    Type,
)
from refbench.benchmarks.multiref.measures import AESTHETIC_SCALE, CAPTION_SCALE, JUDGEABLE, WAYS, judged
from refbench.case import AnyCase
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.output import Output, rephrased
from refbench.score import Score
from refbench.stats import Array, mean_of_those_there
from refbench.tables.table import Aggregate, Has, Mean, Measure, Slice, Summary, left_out, slice_mean


def read_scores(case: MultiRefCase, purpose: Purpose, evidence: Evidence, *, protocol: str) -> list[Score]:
    """A score for every mark that the reply was asked for."""
    found: dict[str, float | Failure | str]
    lost = evidence.failure or Failure(kind="missing_reply")
    if purpose.part == replies.OVERALL_PART:
        found = {**(dict.fromkeys(AXES, lost) if evidence.reply is None else replies.read_overall(evidence.reply))}
    elif purpose.part == replies.REFERENCES_PART:
        usable = [kind for kind in JUDGEABLE if any(r.usable for r in case.details.of_type(kind))]
        asked = replies.asked_types(evidence.request, usable)
        marks = replies.read_references(evidence.reply, asked) if evidence.reply is not None and asked else {}
        found = {judged(kind): marks.get(judged(kind), lost) for kind in asked}
        found |= {judged(kind): "the judge was not asked about it" for kind in usable if kind not in asked}
    else:
        found = {}
    return [Score.of(purpose, metric, protocol, mark) for metric, mark in found.items()]


MARKS = (*AXES, *(judged(kind) for kind in JUDGEABLE))

SCALES: Mapping[str, float] = {
    **dict.fromkeys(MARKS, HIGHEST),
    "caption": CAPTION_SCALE,
    "aesthetics": AESTHETIC_SCALE,
}
"""What a case's score is divided by in the table, where that is not 1."""

TYPE_OF: Mapping[str, Type] = {
    **{part: way.type for part, way in WAYS.items()},
    **{judged(kind): kind for kind in JUDGEABLE},
}
"""The measures that are about one type."""

_COMMON = (
    *(Measure(axis, (axis,), LOWEST, HIGHEST) for axis in AXES),
    Measure("aesthetics", ("aesthetics",), None, None),
    *(Measure(judged(kind), (judged(kind),), LOWEST, HIGHEST) for kind in JUDGEABLE),
    *(Measure(part, (part,), way.low, way.high) for part, way in WAYS.items()),
    Measure("fidelity@local", ("fidelity@local",)),
    Measure("fidelity", ("fidelity",)),
    # No bounds: of its parts some are better when higher, some when lower.
    Measure("avg", TYPES, None, None),
)
_PAPER = (*_COMMON[: len(AXES)], Measure("fid", ("fid",), None, None), *_COMMON[len(AXES) :])


@dataclass(frozen=True)
class ReferenceSlice(Slice):
    """A slice that knows the reference types of its cases: `avg` is about these."""

    types: tuple[Type, ...] = ()


def slices(cases: Sequence[AnyCase]) -> list[Slice]:
    """Overall, the splits, categories, combinations, and numbers of references within each split."""
    categories = list(_by(cases, "category", "real-world", (*CATEGORIES, UNKNOWN)))
    splits = []
    for split in SPLITS:
        found = _slice(cases, "split", {"split": split})
        if found is not None:
            known = tuple(c for c in categories if c.names["category"] != UNKNOWN) if split == "real-world" else ()
            splits.append(replace(found, parts=known))
    # The paper has no number for both splits: ours gives them equal weight. With one split it is that split's.
    overall = _slice(cases, "overall", {})
    return [
        *([replace(overall, parts=tuple(splits))] if overall is not None else []),
        *splits,
        *categories,
        *_by(cases, "combination", "synthetic", sorted({c.groups.get("combination", "") for c in cases} - {""})),
        *(s for split in SPLITS for s in _by(cases, "n_refs", split, _counts(cases))),
    ]


def notes(cases: Sequence[AnyCase], outputs: Sequence[Output]) -> list[str]:
    """Which real-world cases are in no number of their split, since that is a mean over categories; and which models
    were told what a VLM had made of the request."""
    real = [case for case in cases if case.groups["split"] == "real-world"]
    lost = sum(case.groups["category"] == UNKNOWN for case in real)
    said = f"{lost} of {len(real)} real-world cases have no category, and are in no number of that split"
    found = [f"{said}: put final_1000_prompts_taxonomy.json beside the data"] if lost else []
    return [*found, *rephrased(outputs, {case.id: case.groups["split"] for case in cases}, "split")]


def summarise(mean: Mean, where: Slice, measures: Sequence[Measure]) -> Summary:
    """Every measure on the paper's scale, and `avg`."""
    values: dict[str, Array] = {axis: slice_mean(mean, axis, where) / SCALES[axis] for axis in AXES}
    nothing = np.full_like(values[AXES[0]], np.nan)
    types = where.types if isinstance(where, ReferenceSlice) else TYPES
    for name in (measure.name for measure in measures if measure.name not in (*AXES, "avg")):
        # Most slices have few of the types, and nothing is averaged in vain for each of thousands of draws.
        applies = TYPE_OF[name] in types if name in TYPE_OF else bool(types)
        values[name] = mean(name, where.members) / SCALES.get(name, 1.0) if applies else nothing
    return {**values, "avg": _avg(values, types) if types else nothing}


def _avg(values: Mapping[str, Array], types: Sequence[Type]) -> Array:
    """Over all types that the slice has references of. Without a single value of one of them there is no average:
    a mean over fewer types is not comparable, and models could differ in which are missing."""
    oriented = [1.0 - values[kind] if kind in ERRORS else values[kind] for kind in types]
    whole = np.all([~np.isnan(value).all(axis=1) for value in oriented], axis=0)
    # A bootstrap draw may lose a rare type; the average of that draw is over the others.
    return np.where(whole[:, None], mean_of_those_there(np.stack(oriented)), np.nan)


def _by(cases: Sequence[AnyCase], level: str, split: str, names: Sequence[str]) -> Iterator[ReferenceSlice]:
    for name in names:
        found = _slice(cases, level, {"split": split, level: name})
        if found is not None:
            yield found


def _slice(cases: Sequence[AnyCase], level: str, names: Mapping[str, str]) -> ReferenceSlice | None:
    """The cases whose groups are these; None when there are none."""
    chosen = [all(case.groups.get(key) == value for key, value in names.items()) for case in cases]
    there = {kind for case, inside in zip(cases, chosen, strict=True) if inside for kind in case.details.types}
    if not any(chosen):
        return None
    types = tuple(kind for kind in TYPES if kind in there)
    return ReferenceSlice(level, names, np.array(chosen, dtype=np.bool_), types=types)


def _counts(cases: Sequence[AnyCase]) -> list[str]:
    return sorted({case.groups["n_refs"] for case in cases}, key=int)


def gaps(has: Has, measure: Measure, where: Slice) -> str | None:
    """What a row has to do without: parts of a mean over splits or categories, types of an average over types."""
    if measure.name in AXES:
        return left_out(has, measure, where)
    if measure.name == "avg" and isinstance(where, ReferenceSlice):
        absent = [WORDS[kind] for kind in where.types if not has(kind, where.members)]
        return f"no average without a value for {', '.join(absent)}" if absent else None
    return None


def _aggregate(measures: tuple[Measure, ...]) -> Aggregate:
    return Aggregate(measures, slices, lambda mean, where: summarise(mean, where, measures), imputed={}, gaps=gaps)


CORRECTED = _aggregate(_COMMON)
PAPER = _aggregate(_PAPER)


def published() -> list[PublishedValue]:
    """All cells of both tables. No model's files were released, so none has a `model`."""
    return published_values(__package__, {"split": ("split",), "category": ("split", "category")})
