"""How scores become a table, as declarations: ranges, a total, macro means over groups, the scale of the numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from refbench.benchmarks.kit.asks import Range
from refbench.case import AnyCase
from refbench.judges import Rule
from refbench.judges.panel import WEIGHING, check_rule, combine_columns
from refbench.record import RefBenchError
from refbench.specs import nearest
from refbench.stats import Array
from refbench.tables.table import Aggregate, Bools, Mean, Measure, Slice, Summary, slice_mean

Formula: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""From measures by name to one number: `lambda marks: marks["edit"] * marks["look"] / 10`."""


@dataclass(frozen=True)
class Total:
    """The last column: a rule or a formula over the measures of one picture, before seeds are averaged. A formula is
    taken in each repeat of a judge, as derived measures are; a rule once, of the means over the repeats.

    A rule brings each measure to `range` first if its own differs. Measures that do not apply to a case take no part
    in its total; one that failed leaves the picture without a total. Measures of which more is better and such of which
    less is cannot be combined as they are: with `turn_lower`, the latter are turned round within their range (0.1 from
    0 to 1 counts 0.9), and more of the total is better. `of_means` takes the total of the means of a slice, as some
    papers do, not of each picture.
    """

    rule: Rule | Formula = "mean"
    over: tuple[str, ...] = ()
    """All measures when empty."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of every measure that it is over, or of none: then each counts as 1."""
    range: Range | None = None
    name: str = "total"
    turn_lower: bool = False
    of_means: bool = False


@dataclass(frozen=True)
class TableRules:
    """What the table of a protocol is made by."""

    ranges: Mapping[str, Range]
    """All measures in the order of their columns."""
    total: Total | None = None
    lower: Collection[str] = frozenset()
    groups: Sequence[str] | None = None
    """What the table slices by; all groups of the cases when None."""
    macro: Sequence[str] = ()
    """The groups over whose means the overall number is an unweighted mean, the outermost first."""
    slices: Callable[[Sequence[AnyCase]], list[Slice]] | None = None
    """Slices of the benchmark's own, instead of groups and tags."""
    scale: float = 1.0
    """What the numbers are multiplied by: 100 for per cent."""
    imputed: Mapping[str, float] = field(default_factory=dict)
    imputed_in: tuple[str, ...] = ()
    """The measures whose failures are given the imputed values; all when empty."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of values of the outermost macro group: how much their means count; 1 where nothing is said."""

    def checked(self, name: str) -> TableRules:
        """The rules with the direction of the total, or an error in the name of the benchmark where they make no sense.

        A rule over unlike directions or endless ranges has no meaning; a formula is its author's.
        """
        for what, names in (("macro", self.macro), ("groups", self.groups), ("lower", self.lower)):
            one_word(f"{name}: {what}={names!r}", names)
        unknown = sorted(set(self.lower) - set(self.ranges))
        if self.weights and not self.macro:
            raise RefBenchError(f"{name}: weights= are of the values of a macro= group: name one")
        if unknown and self.ranges:  # without ranges, protocols have aggregates of their own
            raise RefBenchError(f"{name}: lower names {unknown[0]!r}, but there are {', '.join(self.ranges)}")
        total = self.total
        if total is None:
            return self
        one_word(f"{name}: over of the total", total.over)
        for what, measures in (("over", total.over), ("weights", total.weights)):
            for measure in measures:
                if measure not in self.ranges:
                    raise RefBenchError(f"{name}: {what} of the total: no {measure!r}; {nearest(measure, self.ranges)}")
        if callable(total.rule):
            return self
        over = total.over or tuple(self.ranges)
        _check_weights(name, total, over)
        mixed = len({self.ranges[measure] for measure in over}) > 1
        for measure in over:
            if None in self.ranges[measure] and (total.turn_lower or total.range or mixed):
                raise RefBenchError(f"{name}: {measure} has no finite range: leave it out of the total's over=")
        less = [measure for measure in over if measure in self.lower]
        if not less or total.turn_lower:
            return self
        if len(less) < len(over):
            raise RefBenchError(
                f"{name}: of {', '.join(less)} less is better, of the total's other measures more: choose over=, or "
                "turn those round within their ranges by Total(..., turn_lower=True)"
            )
        return replace(self, lower={*self.lower, total.name})

    def aggregate(self) -> Aggregate:
        """Means over cases, overall and by slice, and the total."""
        made = self._aggregate()
        spared = frozenset(self.ranges) - frozenset(self.imputed_in) if self.imputed_in else frozenset()
        return replace(made, beside=spared)

    def _aggregate(self) -> Aggregate:
        total = self.total
        columns = tuple(Measure(measure, (measure,), *ends) for measure, ends in self.ranges.items())
        if total is None or (callable(total.rule) and not total.of_means):
            # A formula over one picture is a derived measure, and a column as any other.
            return Aggregate(
                columns, self._slices, self._summary(columns), imputed=self.imputed, separate=True, plain=True
            )
        over = total.over or tuple(self.ranges)
        ends = total.range or self.ranges[over[0]]
        columns += (Measure(total.name, over, *ends),)
        if total.of_means:
            return Aggregate(
                columns, self._slices, self._summary(columns[:-1], total), imputed=self.imputed, plain=True
            )
        turned = frozenset(over).intersection(self.lower) if total.turn_lower else frozenset()
        # A range from its high end to its low one turns its measure round.
        inside = {m: self.ranges[m][::-1] if m in turned else self.ranges[m] for m in over}

        def of_picture(drawn: Mapping[str, Array], away: Mapping[str, Bools]) -> Mapping[str, Array]:
            return {total.name: _of_picture(total, inside, ends, drawn, away)}

        summary = self._summary(columns)
        return Aggregate(
            columns,
            self._slices,
            summary,
            imputed=self.imputed,
            per_case=of_picture,
            turned=turned,
            separate=True,
            plain=True,
        )

    def _slices(self, cases: Sequence[AnyCase]) -> list[Slice]:
        return (
            self.slices(cases)
            if self.slices is not None
            else self._weighted(group_slices(cases, self.groups, self.macro))
        )

    def _weighted(self, slices: list[Slice]) -> list[Slice]:
        """The parts of the overall number with their weights."""
        if not self.weights:
            return slices
        overall, *others = slices
        level = self.macro[0]
        parts = tuple(replace(part, weight=self.weights.get(part.names[level], 1.0)) for part in overall.parts)
        return [replace(overall, parts=parts), *others]

    def _summary(self, columns: Sequence[Measure], of_means: Total | None = None) -> Callable[[Mean, Slice], Summary]:
        def summarise(mean: Mean, where: Slice) -> Summary:
            values = {column.name: self.scale * slice_mean(mean, column.name, where) for column in columns}
            return values if of_means is None else {**values, of_means.name: _of_means(of_means, values)}

        return summarise


def one_word(what: str, names: object) -> None:
    """Raises where a string stands for several names: it would be taken letter by letter."""
    if isinstance(names, str):
        raise RefBenchError(f"{what} is one word: write ({names!r},)")


def _check_weights(name: str, total: Total, over: Sequence[str]) -> None:
    """Raises where the rule of a total is none, or weights are missing, left over, or would not count."""
    try:
        check_rule(total.rule)
    except RefBenchError as error:
        raise RefBenchError(f"{name}: total: {error}") from error
    silent = [measure for measure in over if measure not in total.weights]
    if total.weights and total.rule not in WEIGHING:
        raise RefBenchError(f"{name}: the total is a {total.rule}, in which weights do not count: leave them out")
    if silent and (total.weights or total.rule == "weighted_mean"):
        raise RefBenchError(
            f"{name}: the total has no weight for {', '.join(silent)}: give weights= to all that it is over, or "
            "leave some out by over="
        )
    if beyond := [measure for measure in total.weights if measure not in over]:
        raise RefBenchError(f"{name}: the total has a weight for {beyond[0]}, which is not in its over=")


def group_slices(
    cases: Sequence[AnyCase], groups: Sequence[str] | None = None, macro: Sequence[str] = ()
) -> list[Slice]:
    """All cases, then every value of every group, then every tag; `macro` groups make the number of all cases."""
    everyone = np.ones(len(cases), dtype=np.bool_)
    parts = _macro_parts(cases, macro, everyone, {})
    found = [Slice("overall", {}, everyone, parts), *parts]
    names = groups if groups is not None else list(dict.fromkeys(g for case in cases for g in case.groups))
    for name in names:
        if name not in macro[:1]:
            found += [Slice(name, {name: value}, members) for value, members in _values(cases, name)]
    for tag in sorted({tag for case in cases for tag in case.tags}):
        members = np.array([tag in case.tags for case in cases], dtype=np.bool_)
        found.append(Slice("tag", {"tag": tag}, members))
    return found


def case_slice(cases: Sequence[AnyCase]) -> Slice:
    """All cases alike, to stand beside a number that is a mean over groups."""
    return Slice("case", {}, np.ones(len(cases), dtype=np.bool_))


def _macro_parts(
    cases: Sequence[AnyCase], levels: Sequence[str], among: Bools, names: Mapping[str, str]
) -> tuple[Slice, ...]:
    if not levels:
        return ()
    level, *inner = levels
    if absent := [case.id for case in cases if level not in case.groups]:
        near = nearest(level, dict.fromkeys(group for case in cases for group in case.groups))
        raise RefBenchError(f"macro: the cases are averaged by {level!r}, which {absent[0]} does not have: {near}")
    found = []
    for value, members in _values(cases, level):
        here = members & among
        if here.any():
            label = {**names, level: value}
            found.append(Slice(level, label, here, _macro_parts(cases, inner, here, label)))
    return tuple(found)


def _values(cases: Sequence[AnyCase], group: str) -> list[tuple[str, Bools]]:
    names = [case.groups.get(group) for case in cases]
    return [
        (v, np.array([name == v for name in names], dtype=np.bool_))
        for v in sorted({n for n in names if n is not None})
    ]


def split_slices(
    cases: Sequence[AnyCase],
    split: str,
    macro: str,
    tags: Sequence[str] = (),
) -> list[Slice]:
    """The cases of each value of a group apart, and of these those with each tag: languages, for example. Each number
    is a mean over the values of `macro`, which are told for themselves as well; that of all cases is the mean over
    the splits.
    """
    found: list[Slice] = []
    for value, members in _values(cases, split):
        names = {split: value}
        apart = [(split, names, members)]
        for tag in tags:
            tagged = np.array([tag in case.tags for case in cases], dtype=np.bool_) & members
            apart += [(tag, {**names, "tag": tag}, tagged)] if tagged.any() else []
        for level, label, here in apart:
            inner = tuple(
                Slice(macro if level == split else f"{level}_{macro}", {**label, **one.names}, one.members)
                for one in _macro_parts(cases, (macro,), here, {})
            )
            found += [Slice(level, label, here, inner), *inner]
    parts = tuple(where for where in found if where.level == split)
    return [Slice("overall", {}, np.ones(len(cases), dtype=np.bool_), parts), *found]


def value_slices(cases: Sequence[AnyCase], group: str, names: Mapping[str, Mapping[str, str]]) -> list[Slice]:
    """The slice of each value of a group that has cases, under the names that a table has for it."""
    values = np.array([case.groups.get(group, "") for case in cases])
    return [Slice(group, told, values == value) for value, told in names.items() if (values == value).any()]


def macro_slice(level: str, names: Mapping[str, str], parts: Sequence[Slice]) -> Slice:
    """A slice whose number is the unweighted mean over its parts; those without a case are left out."""
    there = tuple(part for part in parts if part.members.any())
    return Slice(level, names, np.any([part.members for part in there], axis=0), there)


def slice_within(part: Slice, chosen: Bools) -> Slice:
    """Those cases of a slice that are chosen."""
    members = part.members & chosen
    # The slice itself where it is the same: means ask for weights by array.
    return part if bool((members == part.members).all()) else Slice(part.level, part.names, members)


def _of_means(total: Total, values: Mapping[str, Array]) -> Array:
    if not isinstance(total.rule, str):
        formula: Array = total.rule(values)
        return formula
    over = total.over or tuple(values)
    weights = [total.weights.get(measure, 1.0) for measure in over]
    marks = np.stack([values[measure] for measure in over])
    return combine_columns(total.rule, marks, weights, np.ones_like(marks, dtype=np.bool_))


def _of_picture(
    total: Total, over: Mapping[str, Range], ends: Range, drawn: Mapping[str, Array], away: Mapping[str, Bools]
) -> Array:
    assert isinstance(total.rule, str)
    marks = []
    for measure, own in over.items():
        mark = drawn[measure]
        if own != ends:
            (bottom, top), (low, high) = own, ends
            # `checked` has seen to it that both ranges have their ends.
            assert bottom is not None and top is not None and low is not None and high is not None
            mark = low + (mark - bottom) * (high - low) / (top - bottom)
        marks.append(mark)
    applies = ~np.stack([away[measure] for measure in over])
    return combine_columns(total.rule, np.stack(marks), [total.weights.get(m, 1.0) for m in over], applies)
