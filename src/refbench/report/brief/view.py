"""What one sheet is about: a board under one protocol by one judge, its models best first, and the parts of its cases
that a sheet has room for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from refbench.analysis.compare import Further, Pair, Systems, compare_columns
from refbench.analysis.precision.variance import Rank, ranking
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.report.site.boards import REFERENCES, TAG, Board, all_rows, further_slices
from refbench.score import digits_of
from refbench.stats import Array
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

    title: str
    measure: str
    slice: Slice

    @property
    def n_cases(self) -> int:
        return int(self.slice.members.sum())


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

    @property
    def overall(self) -> Part:
        return Part("Overall", self.measure, self.slices[tuple(OVERALL.items())])

    def sign(self, measure: str) -> int:
        """What turns a difference into how much better: -1 where less is better."""
        return -1 if measure in self.board.bench.scoring.lower else 1

    def places(self, part: Part) -> list[Ranked]:
        """The row of each model on a part, best first, and which of them are ranked."""
        rows = self._rows.get((part.measure, *part.slice.label.items()), ())
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

    def compare(self, part: Part, against: str | None = None, draws: int | None = None) -> tuple[Pair, ...]:
        """All pairs of models on a part, or of one model with each other. The family is this part alone."""
        if len(self.columns.systems) < 2:
            return ()
        kept = [case for case, keep in zip(self.cases, part.slice.members, strict=True) if keep]
        ids = {case.id for case in kept}
        scores = [score for score in self.result.scores if score.case in ids]
        # Cases that no slice of the table is of are compared as if there were no others.
        label = part.slice.label if tuple(part.slice.label.items()) in self.slices else OVERALL
        systems = Systems.of(
            self.board.bench,
            self.protocol,
            columns_of(scores, kept),
            kept,
            aggregate=narrowed(self.aggregate, label),
            seeds=self.result.seeds,
            stopped=self.result.stopped,
            refusals=self.result.refusals,
        )
        draws, seed = draws or self.board.draws, self.board.seed
        return compare_columns(
            systems, against=against, metric=part.measure, draws=draws, seed=seed, further=Further(by_slice=False)
        ).pairs


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


def parts_of(view: View) -> list[Part]:
    """Every slice of the benchmark's table, the numbers of references, and every criterion; all with a value."""
    slices = [where for where in view.slices.values() if where.level != "overall" and where.members.any()]
    by_references = further_slices(view.overall.slice, view.cases, {TAG, *(where.level for where in slices)})
    slices += [where for where in by_references if where.names[REFERENCES] != "0"]
    sizes = Counter(where.level for where in slices)
    found = [Part(_title(where, view), view.measure, where) for where in slices if sizes[where.level] > 1]
    others = [measure.name for measure in view.aggregate.measures if measure.name != view.measure]
    found += [Part(name, name, view.overall.slice) for name in others]
    return [part for part in found if any(place.row.value is not None for place in view.places(part))]


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
        levels.setdefault(part.slice.level, []).append(part)
    of_criteria = levels.pop("overall", [])
    by_size = sorted(levels.values(), key=len)
    found: list[Part] = []
    for of_level in by_size:
        if len(found) + len(of_level) <= slices:
            found += of_level
    if not found and by_size:
        found = sorted(by_size[0], key=lambda part: -part.n_cases)[:slices]
    return sorted(found, key=parts.index) + of_criteria[:criteria]
