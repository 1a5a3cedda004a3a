"""What figures read: the rows of one protocol and judge of a result, by model, measure and slice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import numpy as np

from refbench import __version__
from refbench.analysis.compare import Comparison
from refbench.judges.panel import MEAN
from refbench.output import Output
from refbench.record import RefBenchError, counted
from refbench.report.figures.chart import Axis, Chart, Kind, Panel, Series, Value, coverage_note, value_of
from refbench.report.figures.palette import NEUTRAL, Style, styles_of
from refbench.report.leaderboard import titled_slices
from refbench.score import digits_of
from refbench.tables.result import Result
from refbench.tables.table import DRAWS, OVERALL, SEED, Columns, Row, Slice, ends_of, ranked, tabulate

Place = tuple[tuple[str, str], ...]
Named = tuple[str, Mapping[str, str]]
"""A slice and what it is called."""


@dataclass(frozen=True)
class FigureOptions:
    """What may be chosen about a figure; what is empty or None is the figure's own choice."""

    by: str | None = None
    measure: str | None = None
    protocol: str | None = None
    judge: str | None = None
    models: tuple[str, ...] = ()
    against: str | None = None
    width: float = 760
    links: str = ""
    styles: Mapping[str, Style] = field(default_factory=dict)
    """How models are drawn, where pages around the figure have given them colours and marks already."""


@dataclass(frozen=True)
class TableView:
    """A result as figures see it. `runs` are the directories it was read from, where it was."""

    result: Result
    options: FigureOptions = FigureOptions()
    runs: tuple[Path, ...] = ()
    compared: Comparison | None = None
    """All pairs under the protocol and judge of the figure, where they have been compared already."""
    by_references: Sequence[Row] | None = None
    """Rows by number of references, where they have been tabled already."""
    outputs: Sequence[Sequence[Output]] | None = None
    """Of each run, where they have been read already."""

    @cached_property
    def protocol(self) -> str:
        there = list(dict.fromkeys(row.protocol for row in self.result.table.rows))
        if not there:
            raise RefBenchError("there is no number yet, nor a failure: nothing to make a figure of")
        if self.options.protocol is not None and self.options.protocol not in there:
            raise RefBenchError(f"--protocol {self.options.protocol}: there are {', '.join(there)}")
        return self.options.protocol or there[0]

    @cached_property
    def summary(self) -> str:
        """The measure that models are ranked by, or the one that was asked for."""
        wanted = self.options.measure
        if wanted is None:
            return self.result.summary(self.protocol)
        if wanted not in self.measures:
            raise RefBenchError(f"--measure {wanted}: there are {', '.join(self.measures)}")
        return wanted

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Those that were tried, in the benchmark's order."""
        rows = self.result.rows(protocol=self.protocol)
        tried = {row.metric for row in rows if row.tried} | {self.result.summary(self.protocol)}
        return tuple(name for name in dict.fromkeys(row.metric for row in rows) if name in tried)

    @cached_property
    def judge(self) -> str | None:
        """Whose numbers are drawn: the judge asked for; else the mean of the judges where that is the benchmark's own
        number; else the judge who has scored most models, the first of equals."""
        rows = self.result.rows(protocol=self.protocol, level="overall")
        there = list(dict.fromkeys(row.judge for row in rows))
        if self.options.judge is not None:
            if self.options.judge not in there:
                raise RefBenchError(f"--judge {self.options.judge}: there are {', '.join(str(one) for one in there)}")
            return self.options.judge

        def weight(judge: str | None) -> tuple[bool, int, bool]:
            models = sum(row.judge == judge and row.value is not None for row in rows)
            return bool(models) and self.result.bench.scoring.judges_mean and judge == MEAN, models, judge is not None

        return max(there, key=weight)

    @cached_property
    def all_rows(self) -> list[Row]:
        """Rows of the protocol: those of the table, and by number of references where the benchmark has no such level;
        a model that the judge has not seen has those of its measurements alone."""
        rows = self.result.rows(protocol=self.protocol)
        return [*rows, *(self._further(rows) if self.options.by == "n_refs" else [])]

    def _further(self, rows: Sequence[Row]) -> list[Row]:
        from refbench.report.site.boards import further_slices

        if self.result.estimated_from is not None:
            return []  # estimates of a part of the calls have their own tables
        aggregate = self.result.bench.scoring.protocols[self.protocol].aggregate
        overall = aggregate.overall(self.result.cases)
        levels = {row.slice["level"] for row in rows} | {"tag"}
        further = further_slices(overall[0], self.result.cases, levels) if overall else []
        if not further:
            return []
        if self.by_references is not None:
            return [row for row in self.by_references if row.protocol == self.protocol]
        scores = [score for score in self.result.scores if score.protocol == self.protocol]
        given = replace(aggregate, slices=partial(_given, further))
        interval = self.result.table.parts.get("interval", {})
        seed, draws = interval.get("seed", SEED), interval.get("draws", DRAWS)
        return tabulate(self.protocol, given, scores, self.result.cases, draws=draws, seed=seed)

    @cached_property
    def _rows(self) -> dict[tuple[str, str, Place], Row]:
        found: dict[tuple[str, str, Place], Row] = {}
        for row in self.all_rows:
            if row.judge == self.judge:
                found[row.model, row.metric, tuple(sorted(row.slice.items()))] = row
        seen = {model for model, _, _ in found}
        for row in self.all_rows:
            if row.judge is None and row.model not in seen:
                found[row.model, row.metric, tuple(sorted(row.slice.items()))] = row
        return found

    def row(self, model: str, measure: str, where: Mapping[str, str] = OVERALL) -> Row | None:
        return self._rows.get((model, measure, tuple(sorted(where.items()))))

    @cached_property
    def styles(self) -> dict[str, Style]:
        """Of all models of the result, whichever are drawn."""
        return dict(self.options.styles) or styles_of([row.model for row in self.result.table.rows])

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Those asked for, in that order; else all, best first by the summary, those without a rank last."""
        there = list(dict.fromkeys(model for model, _, _ in self._rows))
        if self.options.models:
            stranger = next((name for name in self.options.models if name not in there), None)
            if stranger is not None:
                raise RefBenchError(f"--models {stranger}: there are {', '.join(there)}")
            return tuple(dict.fromkeys(self.options.models))
        rows = [row for model in there if (row := self.row(model, self.summary)) is not None]
        order = [place.row.model for place in ranked(rows, self.result.bench.scoring.lower)]
        return tuple(dict.fromkeys([*order, *there]))

    def levels(self) -> list[str]:
        """Levels of the table that have more than one slice, beside the whole."""
        slices: dict[str, set[Place]] = {}
        for row in self.result.rows(protocol=self.protocol):
            slices.setdefault(row.slice["level"], set()).add(tuple(sorted(row.slice.items())))
        return [level for level, those in slices.items() if len(those) > 1]

    def slices(self, level: str) -> list[Named]:
        """The slices of a level in the order of the table, each with what to call it."""
        found = titled_slices([row for row in self.all_rows if row.metric == self.summary], level)
        found = found or titled_slices(self.all_rows, level)
        if not found:
            known = ", ".join(self.levels()) or "none beside the whole"
            raise RefBenchError(f"there are no numbers by {level} here: the table's levels are {known}")
        return [(title, where) for title, where in found]

    @cached_property
    def _ends(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest value that each measure can have in the table: the aggregate of the worst and of the best
        scores, since a measure's own ends are those of one score, which the table may scale."""
        aggregate = self.result.bench.scoring.protocols[self.protocol].aggregate
        metrics = {score.metric for score in self.result.scores}
        overall: list[Slice] = aggregate.overall(self.result.cases)
        if not overall:
            return {}
        ends = []
        for side in ("low", "high"):
            known = aggregate.ends(side)
            values = {m: np.full((1, len(self.result.cases)), 0.0 if m in known else np.nan) for m in metrics}
            ends.append(ends_of(aggregate, Columns.of_values([("", None)], values), overall, side))
        found = {}
        for place in ends[0].keys() & ends[1].keys():
            low, high = sorted(float(end[place][0, 0]) for end in ends)
            if np.isfinite([low, high]).all() and low < high:
                found[place[1]] = low, high
        return found

    def axis(self, measure: str, label: str = "") -> Axis:
        low, high = self._ends.get(measure, (None, None))
        values = [row.value for row in self._rows.values() if row.metric == measure]
        lower = measure in self.result.bench.scoring.lower
        return Axis(label or measure.replace("_", " "), lower, low, high, min(digits_of(values), 3))

    def series(
        self, places: Sequence[tuple[str, Mapping[str, str]]], *, level: Literal[95, 99] = 95
    ) -> tuple[Series, ...]:
        """A series for each model, with its value at each place (a measure on a slice)."""
        return tuple(
            Series(model, self.styles[model], tuple(self.value(model, *place, level=level) for place in places))
            for model in self.models
        )

    def value(self, model: str, measure: str, where: Mapping[str, str], *, level: Literal[95, 99] = 95) -> Value:
        return value_of(self.row(model, measure, where), level=level, unasked=self._unasked(measure, where))

    def _unasked(self, measure: str, where: Mapping[str, str]) -> int:
        """Of how many cases of a slice no model has been asked for yet, as tables count them."""
        place = tuple(sorted(where.items()))
        rows = [row for (_, name, there), row in self._rows.items() if name == measure and there == place]
        return min((row.n_not_asked for row in rows), default=0)

    def chart(
        self, name: str, kind: Kind, title: str, panels: Iterable[Panel], subtitle: str, notes: Iterable[str] = ()
    ) -> Chart:
        """A figure of this view, with `notes` and those of every figure below it."""
        return Chart(
            name,
            kind,
            f"{self.result.bench.title}: {title}",
            tuple(panels),
            subtitle=subtitle,
            notes=self.notes(*notes),
            width=self.options.width,
        )

    def notes(self, *more: str, measure: str = "") -> tuple[str, ...]:
        """Below every figure: what is not scored, what it was measured with, and under which fingerprint."""
        rows = [(model, row) for model in self.models if (row := self.row(model, measure or self.summary)) is not None]
        of = measure or self.summary
        few = any(value_of(row, unasked=self._unasked(of, OVERALL)).few for _, row in rows)
        estimated = any(row.estimate is not None for _, row in rows)
        said = [
            *more,
            coverage_note(rows),
            "Hollow, or in brackets: fewer than half of its cases are scored, too few to be ranked." if few else "",
            "Dashed intervals, and ≈: estimated from a part of the calls." if estimated else "",
            self._estimated(),
            f"{self._measured()}; {counted(len(self.result.cases), 'case')}; RefBench {__version__}, fingerprint "
            f"{self.result.table.fingerprint}.",
        ]
        return tuple(filter(None, said))

    def _estimated(self) -> str:
        share = self.result.estimated_from
        stop = self.result.stopped_said(self.models)
        said = [] if share is None else [f"Estimated from {100 * share:.1f} % of the calls"]
        return ". ".join([*said, *([stop[:1].upper() + stop[1:]] if stop else [])]) + ("." if said or stop else "")

    def _measured(self) -> str:
        judges = [one for one in dict.fromkeys(row.judge for row in self.result.table.rows) if one not in (None, MEAN)]
        if self.judge is None:
            by = "No judge"
        elif self.judge == MEAN and self.result.bench.scoring.judges_mean:
            by = f"Judges {self.result.judges_said()}"
        else:
            others = f", one of {len(judges)}" if len(judges) > 1 else ""
            by = f"Judge {self.judge}{others}"
        wording = f"; {self.result.wording}" if self.result.wording else ""
        refusals = f"; refusals {self.result.refusals}" if self.result.refusals != "conditional" else ""
        return f"{by}{wording}; protocol {self.protocol}{refusals}"


def level_words(level: str) -> str:
    """What a level is called on a figure."""
    return {"n_refs": "number of references", "generator": "generator of the references",
            "source": "source of the references"}.get(level, level.replace("_", " "))  # fmt: skip


def _given(slices: list[Slice], cases: Sequence[object]) -> list[Slice]:
    return slices


def whole(name: str, values: Sequence[Value]) -> Series:
    """A series that is no model's."""
    return Series(name, NEUTRAL, tuple(values))
