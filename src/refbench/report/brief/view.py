"""What one sheet is about: a board under one protocol by one judge, its models best first, and the parts of its cases
that a sheet has room for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.compare import Comparison
from refbench.analysis.precision.variance import Rank, ranking
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.report.site.boards import REFERENCES, Board, all_rows
from refbench.score import digits_of
from refbench.stats import Array, WeightedMeans
from refbench.tables.result import Result
from refbench.tables.table import (
    OVERALL,
    Aggregate,
    Columns,
    Mean,
    Ranked,
    Row,
    Slice,
    Summary,
    columns_of,
    names_of,
    ranked,
)


@dataclass(frozen=True, eq=False)
class Part:
    """What a model may be better or worse at: some of the cases in the summary measure, or one measure on all."""

    kind: str
    """The level of the slice, or `criterion`."""
    title: str
    members: NDArray[np.bool_]
    measure: str
    where: Mapping[str, str]
    """Label of the slice whose aggregate it is; the overall one, kept to the members, for what no slice is of."""

    @property
    def label(self) -> Mapping[str, str]:
        """The label of its rows."""
        return {"level": self.kind, self.kind: self.title} if self.kind == REFERENCES else self.where

    @property
    def n_cases(self) -> int:
        return int(self.members.sum())


@dataclass(frozen=True)
class View:
    """A board under one protocol by one judge, in the measure that its leaderboard is sorted by."""

    board: Board
    protocol: str
    judge: str | None
    result: Result
    """With the scores of this protocol and judge only."""

    @property
    def measure(self) -> str:
        return self.board.summary[self.protocol]

    @property
    def cases(self) -> tuple[AnyCase, ...]:
        return self.board.cases

    @property
    def aggregate(self) -> Aggregate:
        return self.board.bench.scoring.protocols[self.protocol].aggregate

    @cached_property
    def columns(self) -> Columns:
        return columns_of(self.result.scores, self.cases)

    @cached_property
    def filled(self) -> dict[str, Array]:
        """The scores of each metric, with what the official aggregate puts in place of failures."""
        return self.aggregate.filled(self.columns)

    @cached_property
    def slices(self) -> dict[tuple[tuple[str, str], ...], Slice]:
        """The slices of the table by their labels."""
        return {tuple(where.label.items()): where for where in self.aggregate.slices(self.cases)}

    @cached_property
    def overall(self) -> Part:
        return Part("overall", "Overall", np.ones(len(self.cases), dtype=np.bool_), self.measure, OVERALL)

    def sign(self, measure: str) -> int:
        """What turns a difference into how much better: -1 where less is better."""
        return -1 if measure in self.board.bench.scoring.lower else 1

    def places(self, part: Part) -> list[Ranked]:
        """The row of each model on a part, best first, and which of them are ranked."""
        rows = self._rows.get((part.measure, *part.label.items()), ())
        return ranked(sorted(rows, key=lambda row: row.model), self.board.bench.scoring.lower)

    @cached_property
    def _rows(self) -> dict[tuple[object, ...], list[Row]]:
        """The rows of this protocol and judge by measure and slice."""
        found: dict[tuple[object, ...], list[Row]] = {}
        for row in all_rows(self.board, draws=0):
            if (row.protocol, row.judge) == (self.protocol, self.judge):
                found.setdefault((row.metric, *row.slice.items()), []).append(row)
        return found

    @cached_property
    def order(self) -> list[Ranked]:
        """The overall row of each model, best first; those without a rank last."""
        rows = self.board.result.rows(protocol=self.protocol, metric=self.measure, level="overall")
        mine = sorted((row for row in rows if row.judge == self.judge), key=lambda row: row.model)
        return ranked(mine, self.board.bench.scoring.lower)

    @property
    def rows(self) -> list[Row]:
        return [place.row for place in self.order]

    @property
    def ranked(self) -> list[Row]:
        """The overall rows of the models that have a rank, best first."""
        return [place.row for place in self.order if place.rank is not None]

    @cached_property
    def digits(self) -> int:
        """As many as tables and pages have."""
        return digits_of(row.value for row in self.board.result.rows(protocol=self.protocol, metric=self.measure))

    @cached_property
    def ranks(self) -> dict[str, Rank]:
        """Where each model stands when the cases are redrawn; empty where that is not known."""
        draws, seed = self.board.draws, self.board.seed
        if not draws:
            return {}
        found = ranking(self.result, self.protocol, self.judge, measure=self.measure, draws=draws, seed=seed)
        return {rank.model: rank for rank in found}

    def number(self, value: float) -> str:
        return f"{value:.{self.digits}f}"

    def signed(self, value: float) -> str:
        text = f"{value:+.{self.digits}f}"
        return f"±{text[1:]}" if float(text) == 0 else text.replace("-", "−")

    def amount(self, value: float, *, rough: bool = False) -> str:
        """A difference on the benchmark's scale; marks and percentages are points."""
        text = f"{float(f'{value:.2g}'):g}" if rough else self.number(value)
        return text if self.digits == 4 else f"{text} points"

    def points(self, part: Part) -> Array:
        """The value of each system on a part, as the tables have it."""
        return summary_of(self, [part], np.ones((1, len(self.cases))))[0][:, 0]

    def compare(self, part: Part, against: str | None = None, draws: int | None = None) -> Comparison | None:
        """All pairs of models on a part, or one model with each other; None where there is one model. The family is
        this part alone."""
        if len(self.columns.systems) < 2:
            return None
        kept = [case for case, keep in zip(self.cases, part.members, strict=True) if keep]
        ids = {case.id for case in kept}
        bench = self.board.bench
        of_part = replace(bench.scoring.protocols[self.protocol], aggregate=narrowed(self.aggregate, part.where))
        result = replace(
            self.result,
            bench=replace(bench, scoring=replace(bench.scoring, protocols={self.protocol: of_part})),
            cases=tuple(kept),
            scores=tuple(score for score in self.result.scores if score.case in ids),
        )
        return result.compare(
            metric=part.measure,
            against=against,
            draws=draws or self.board.draws,
            seed=self.board.seed,
            by_slice=False,
        )


def open_view(board: Board, protocol: str | None = None, judge: str | None = None) -> View:
    """The board under a protocol by a judge: by default its first, by the judge that the pages begin with."""
    if not board.protocols:
        raise RefBenchError(f"{', '.join(board.run_names)}: nothing is scored yet, so there is nothing to decide by")
    if protocol is None:
        protocol = board.protocols[0]
        judge = board.judge_for(protocol)
    scores = tuple(s for s in board.result.scores if (s.protocol, s.judge) == (protocol, judge))
    return View(board, protocol, judge, replace(board.result, scores=scores))


def narrowed(aggregate: Aggregate, label: Mapping[str, str]) -> Aggregate:
    """The aggregate of one slice of the table, as if it were all there is: comparisons test the overall slice."""

    def slices(cases: Sequence[AnyCase]) -> list[Slice]:
        found = [replace(one, level="overall") for one in aggregate.slices(cases) if one.label == dict(label)]
        return found[:1] or [Slice("overall", {}, np.zeros(len(cases), dtype=np.bool_))]

    def summarise(mean: Mean, where: Slice) -> Summary:
        return aggregate.summarise(mean, replace(where, level=label["level"]))

    return replace(aggregate, slices=slices, summarise=summarise)


def summary_of(view: View, parts: Sequence[Part], weights: Array) -> list[Array]:
    """Each part's measure under weights of the cases, systems x draws; NaN where there is no value."""
    nothing = np.full((len(view.columns.systems), len(weights)), np.nan)
    mean = WeightedMeans(view.filled, weights)
    found = []
    for part in parts:
        # Cases that no slice is of are weighed in the overall one, where those of weight 0 take no part.
        of_slice = part.where != OVERALL or part.members.all()
        own = mean if of_slice else WeightedMeans(view.filled, weights * part.members)
        found.append(view.aggregate.summarise(own, view.slices[tuple(part.where.items())]).get(part.measure, nothing))
    return found


def parts_of(view: View) -> list[Part]:
    """Every slice of the benchmark's table, the numbers of references, and every criterion; all with a value."""
    found = [
        Part(where.level, _title(where, view), where.members, view.measure, where.label)
        for where in view.slices.values()
        if where.level != "overall" and where.members.any()
    ]
    if all(part.kind != REFERENCES for part in found):
        counts = np.array([len(case.request.pictures) for case in view.cases])
        numbers = sorted(set(counts[counts > 0].tolist()))
        found += [Part(REFERENCES, str(n), counts == n, view.measure, OVERALL) for n in numbers]
    found = [part for part in found if sum(other.kind == part.kind for other in found) > 1]
    found += [
        Part("criterion", measure.name, view.overall.members, measure.name, OVERALL)
        for measure in view.aggregate.measures
        if measure.name != view.measure
    ]
    return [part for part in found if np.isfinite(view.points(part)).any()]


def _title(where: Slice, view: View) -> str:
    """The last name of a slice, which is its own; with those above it where that is not enough to tell it, and with
    the level's where it is a bare number (`subjects 2`; numbers of references are worded on the sheet)."""
    names = names_of(where.label)
    alike = [one for one in view.slices.values() if names_of(one.label)[-1:] == names[-1:]]
    if where.level != REFERENCES and not any(map(str.isalpha, names[-1])):
        names[-1] = f"{where.level.replace('_', ' ')} {names[-1]}"
    return names[-1] if len(alike) == 1 else " / ".join(names)


def parts_with_room(parts: Sequence[Part], slices: int, criteria: int) -> list[Part]:
    """As many as a sheet has room for: whole levels, those of fewest slices first; where not even one fits, its
    largest slices; then the first criteria."""
    levels: dict[str, list[Part]] = {}
    for part in parts:
        levels.setdefault(part.kind, []).append(part)
    of_criteria = levels.pop("criterion", [])
    by_size = sorted(levels.values(), key=len)
    found: list[Part] = []
    for of_level in by_size:
        if len(found) + len(of_level) <= slices:
            found += of_level
    if not found and by_size:
        found = sorted(by_size[0], key=lambda part: -part.n_cases)[:slices]
    return sorted(found, key=parts.index) + of_criteria[:criteria]
