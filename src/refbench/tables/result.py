"""Result: a table with the scores behind it, and the questions one asks of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from refbench.benchmarks import Benchmark, PublishedValue
from refbench.case import AnyCase
from refbench.chat.presets import printed_as
from refbench.judges.panel import MEAN
from refbench.record import RefBenchError, counted
from refbench.score import Score
from refbench.tables.frames import short, to_html, to_pandas, to_polars
from refbench.tables.table import (
    DRAWS,
    OVERALL,
    SEED,
    Aggregate,
    Columns,
    Row,
    Table,
    case_values,
    columns_of,
    summary_measure,
)

if TYPE_CHECKING:
    import pandas
    import polars

    from refbench.analysis.compare import Comparison
    from refbench.report.figures import Figure

UNREADABLE = "unreadable_picture"
OFFICIAL = "official wording"
"""The words of a benchmark's authors, which published numbers were judged with."""
UNVERIFIED = "weights unverified"
"""Of a judge on a server of one's own, of which nothing is known but its name."""


class KeptCard(NamedTuple):
    """What an audit of a judge found, in short, and the file that has it whole."""

    judge: str
    path: str
    said: str
    counted: str = ""
    """The verdicts counted, for where there is room for a line."""


@dataclass(frozen=True)
class CaseScore:
    """What one case gave a model in the measure that models are ranked by, mean over judges and seeds."""

    case: str
    total: float


@dataclass(frozen=True)
class Cases(Sequence[CaseScore]):
    """The scored cases of a model, in the order of the benchmark.

    >>> cases = Cases((CaseScore("a", 3.0), CaseScore("b", 1.0), CaseScore("c", 2.0)), lower=False)
    >>> [one.case for one in cases.worst(2)]
    ['b', 'c']
    >>> cases.best(1)
    [CaseScore(case='a', total=3.0)]
    """

    scores: tuple[CaseScore, ...]
    lower: bool
    """Whether less is better."""

    @overload
    def __getitem__(self, place: int) -> CaseScore: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[CaseScore]: ...
    def __getitem__(self, place: int | slice) -> CaseScore | Sequence[CaseScore]:
        return self.scores[place]

    def __len__(self) -> int:
        return len(self.scores)

    def best(self, n: int = 10) -> list[CaseScore]:
        """The n best, best first; of equal ones the first."""
        return sorted(self.scores, key=lambda one: one.total if self.lower else -one.total)[:n]

    def worst(self, n: int = 10) -> list[CaseScore]:
        """The n worst, worst first; cases without a value are in neither list, `Result.failures` has them."""
        return sorted(self.scores, key=lambda one: -one.total if self.lower else one.total)[:n]


@dataclass(frozen=True)
class ModelResult:
    """One model of a result: `result["A"]`."""

    result: Result
    model: str

    def rows(self, **wanted: str) -> list[Row]:
        """The model's rows, by any of judge, protocol, metric, level."""
        return self.result.rows(model=self.model, **wanted)

    @property
    def cases(self) -> Cases:
        """What each case gave under the first protocol."""
        rows = self.rows()
        protocol = rows[0].protocol
        measure = self.result.summary(protocol)
        judges = {row.judge for row in rows if row.judge != MEAN} or {None}
        of_case: dict[str, list[float]] = {}
        for (_, model, judge, case, _), value in self.result._totals(protocol, measure).items():
            if model == self.model and judge in judges:
                of_case.setdefault(case, []).append(value)
        scores = (
            CaseScore(c.id, math.fsum(of_case[c.id]) / len(of_case[c.id])) for c in self.result.cases if c.id in of_case
        )
        return Cases(tuple(scores), measure in self.result.bench.scoring.lower)


@dataclass(frozen=True, repr=False)
class Result:
    """A table with the scores behind it, and what there is to say about how it came about."""

    bench: Benchmark
    table: Table
    scores: Sequence[Score]
    cases: tuple[AnyCase, ...]
    changes: tuple[dict[str, Any], ...] = ()
    """Step by step from the paper's numbers to the corrected ones, for each model."""
    notes: tuple[str, ...] = ()
    seeds: Mapping[str, int] = field(default_factory=dict)
    """With how many seeds each model has painted."""
    refusals: str = "conditional"
    """How a model's own failures count: see `refbench.tables.scoring.REFUSALS`."""
    served: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of judges on servers of one's own: what was declared and what the server told of the weights behind the name.
    Beside the fingerprint, not in it: only what was declared changes what a judge is."""
    stopped: Mapping[str, int] = field(default_factory=dict)
    """Models that were asked no more because a pair was resolved, each with the cases that it was asked about."""
    cards: tuple[KeptCard, ...] = ()
    """Of judges that were audited, where their cards are looked for (`refbench.analysis.audit.card.with_cards`)."""
    references: Mapping[tuple[str, str, int], Mapping[str, str]] = field(default_factory=dict)
    """By output (case, model, seed) and by who says it: which references it uses, where that was asked for
    (`refbench.analysis.attribution.read.with_attribution`)."""

    def __repr__(self) -> str:
        return short(self)

    def _repr_html_(self) -> str:
        return to_html(self)

    def __getitem__(self, model: str) -> ModelResult:
        """One of the models: `result["A"].cases.worst(10)`."""
        models = list(dict.fromkeys(row.model for row in self.table.rows))
        if model not in models:
            raise RefBenchError(f"there is no model {model}: the models are {', '.join(models)}")
        return ModelResult(self, model)

    def to_pandas(self, *, wide: bool = False) -> pandas.DataFrame:
        """The items as a data frame: a row for each score, or with `wide` for each picture and judge."""
        return to_pandas(self, wide=wide)

    def to_polars(self, *, wide: bool = False) -> polars.DataFrame:
        """The items as a data frame of polars, with the columns of `to_pandas`."""
        return to_polars(self, wide=wide)

    def plot(self, name: str = "models", *, runs: Sequence[Path] = (), **choices: Any) -> Figure:
        """A figure of the table, one of those that `refbench figure list RUN` names: it shows itself in a notebook and
        has `.save("models.pdf")`. `choices` are by=, measure=, protocol=, judge=, models= and against=; `runs` are the
        directories behind the result, where what pictures cost is known."""
        from refbench.report.figures import FigureOptions, figure

        known = [one.name for one in fields(FigureOptions)]
        if unknown := choices.keys() - {*known}:
            raise RefBenchError(f"plot({min(unknown)}=): there are {', '.join(known)}")
        return figure(name, self, options=FigureOptions(**choices), runs=runs)

    def rows(self, **wanted: str) -> list[Row]:
        """Rows by any of model, judge, protocol, metric, level."""
        return [
            row
            for row in self.table.rows
            if all((row.slice["level"] if key == "level" else getattr(row, key)) == v for key, v in wanted.items())
        ]

    def value(self, **wanted: str) -> float | None:
        """The one value that the names single out, for example model=, metric="avg", protocol=, level="overall"."""
        rows = self.rows(**wanted)
        if len(rows) != 1:
            names = ("model", "judge", "metric", "protocol")
            apart = [name for name in names if len({getattr(row, name) for row in rows}) > 1]
            apart += ["level"] if len({tuple(row.slice.items()) for row in rows}) > 1 else []
            raise RefBenchError(f"{len(rows)} rows match {wanted}: name {' and '.join(apart or names)} of one")
        return rows[0].value

    def stopped_said(self, models: Collection[str] | None = None) -> str:
        """That intervals do not allow for the stop of these models, by default of any; "" where none was stopped."""
        counts = sorted({n for model, n in self.stopped.items() if models is None or model in models})
        if not counts:
            return ""
        after = f"{counts[0]} to {counts[-1]} cases" if len(counts) > 1 else counted(counts[0], "case")
        return f"stopped when resolved after {after}: intervals do not allow for it"

    @cached_property
    def estimated_from(self) -> float | None:
        """The share of the calls that a model's total is estimated from, the least of them where models differ; None
        where all were judged."""
        rows = [row for row in self.table.rows if row.sampled]
        totals = [r for r in rows if r.slice["level"] == "overall" and r.metric == self.summary(r.protocol)]
        return min((row.estimate.share if row.estimate else 0.0 for row in totals or rows), default=None)

    def needs_all_calls(self, what: str, run: str = "") -> None:
        """Refuses what would take the judged cases for all of them; `run` names it where that is known."""
        if self.estimated_from is not None:
            raise RefBenchError(
                f"a part of {run or 'this run'}'s calls was judged (--calls or --within), and {what} needs all of "
                "them: run it with --calls 100%, or read its estimates with refbench table"
            )

    @cached_property
    def _protocols(self) -> frozenset[str]:
        return frozenset(row.protocol for row in self.table.rows)

    @cached_property
    def wording(self) -> str | None:
        """In whose words the judges were asked; None without a judge."""
        parts = self.table.parts
        settings, judges = parts.get("settings", {}), parts.get("judges", [])
        if not judges:
            return None
        # Without settings and without anybody who was asked, replies were imported, where that can be done at all.
        if not settings and not parts.get("asked") and self.bench.asking.import_replies is not None:
            return OFFICIAL if self.bench.asking.official_replies else "imported replies"
        prompts = settings.get("prompts", "")
        words = {
            "own": "own wording",
            "official": OFFICIAL,
            "user": "the user's wording",
            "": "the benchmark's wording",
        }
        said = f"rubric {settings['rubric']}" if "rubric" in settings else words.get(prompts, f"wording: {prompts}")
        # Whose calls were made (`ask`) changes nothing about any of them.
        usual = {s.name: s.default for s in self.bench.asking.settings if s.name not in ("prompts", "ask")}
        usual |= dict.fromkeys(("max_side", "quality"), "")
        asked = [f"{name}={settings[name]}" for name in usual if settings.get(name, usual[name]) != usual[name]]
        return ", ".join([said, *asked])

    def measured_by(self) -> str:
        """Judge, wording, protocol and how refusals count, where that was chosen: what every table says of itself."""
        judges = self.judges_said()
        protocols = dict.fromkeys(row.protocol for row in self.table.rows)
        by = f"judge {judges}; {self.wording}" if judges else "no judge"
        counted = f"; refusals {self.refusals}" if self.refusals != "conditional" else ""
        return f"{by}; protocol {', '.join(protocols)}{counted}"

    def judges_said(self) -> str:
        """Who judged, with the model behind each name; the mean of the judges is no judge. "" where nobody did."""
        there, asked = self.table.parts.get("judges", []), self.table.parts.get("asked", {})
        judges = [name for name in there if not (self.bench.scoring.judges_mean and name == MEAN)]
        names = []
        for name in judges:
            model = self._behind(name) if name in asked and self._behind(name) != name else ""
            behind = ", ".join(filter(None, (model, self.weights(name))))
            names.append(f"{name} ({behind})" if behind else name)
        if len(judges) == len(there) or len(names) < 2:
            return ", ".join(names)
        return f"{', '.join(names[:-1])} and {names[-1]}, mean of {'both' if len(names) == 2 else 'all'}"

    def weights(self, judge: str) -> str:
        """What is known of the weights of a judge that is on a server of one's own."""
        told = self.served.get(judge)
        if told is None or "address" in told:
            return ""
        known = [
            f"{name} {told[name]}"
            for name in ("root", "parent", "revision", "quantization", "template")
            if name in told
        ]
        return ", ".join(known) if known or "meta" in told else UNVERIFIED

    @property
    def words_and_weights(self) -> str | None:
        """In whose words the judges were asked, and of whom nothing is known but the name."""
        unknown = [name for name in self.table.parts.get("judges", []) if self.weights(name) == UNVERIFIED]
        return f"{self.wording}; {UNVERIFIED}: {', '.join(unknown)}" if unknown else self.wording

    def same_judge(self, judge: str | None, printed: str) -> bool:
        """Whether a judge of this table is the one that a paper names, however either is spelled."""
        model = self._behind(judge or "")
        ours = {_bare(name) for name in (model, *printed_as(model, self.bench.name))}
        return _bare(printed) in ours

    def _behind(self, judge: str) -> str:
        return str(self.table.parts.get("asked", {}).get(judge, {}).get("model", judge))

    def published(self) -> list[PublishedValue]:
        """The papers' numbers that may stand beside this table: the same wording, judge, protocol and subset."""
        return [value for value in self._papers() if not self.differs(value)]

    def published_apart(self) -> list[tuple[str, PublishedValue]]:
        """The other numbers that papers have of these models, each with what is not the same there."""
        said = ((self.differs(value), value) for value in self._papers())
        return [(differs, value) for differs, value in said if differs]

    def differs(
        self, value: PublishedValue, protocol: str | None = None, judges: Sequence[str | None] | None = None
    ) -> str:
        """What a published number was measured with that this table (or its `protocol`, its `judges`) was not; empty
        when all is the same."""
        said = []
        if value.judge == "human":
            said.append("people's marks")
        elif value.judge:
            if self.wording != OFFICIAL:
                said.append("the official wording")
            there = self.table.parts.get("judges", []) if judges is None else judges
            if not any(self.same_judge(judge, value.judge) for judge in there):
                said.append(f"judge {value.judge}")
        if "paper" not in ([protocol] if protocol else self._protocols):
            said.append("protocol paper")
        if self.estimated_from is not None:
            said.append("all calls")
        if value.subset is not None and value.subset != self.table.parts.get("subset"):
            said.append(f"subset {value.subset}")
        else:
            here, whole = self._cases_of(value)
            if here < whole:
                said.append(f"all cases ({here} of {whole} here)")
        return " and ".join(filter(None, (", ".join(said[:-1]), *said[-1:])))

    def _cases_of(self, value: PublishedValue) -> tuple[int, int]:
        """How many cases there are here of those that a published number is about, and how many that were."""
        published_on = self.bench.reporting.published_on
        for group, name in value.slice.items():
            if name in published_on:
                return sum(case.groups.get(group) == name for case in self.cases), published_on[name]
        return len(self.cases), published_on.get(value.subset, 0)

    def _papers(self) -> list[PublishedValue]:
        """Numbers of the models in this table, and those of benchmarks of which only numbers were ever released."""
        models = {row.model for row in self.table.rows}
        values = self.bench.reporting.published()
        released = any(value.model is not None for value in values)
        return [value for value in values if value.model in models or not released]

    def compare(
        self,
        *models: str,
        protocol: str | None = None,
        judges: Sequence[str | None] | None = None,
        metric: str | None = None,
        against: str | None = None,
        refusals: str | None = None,
        draws: int = DRAWS,
        seed: int = SEED,
        by_slice: bool = True,
        margin: float | None = None,
        over_measures: bool = False,
    ) -> Comparison:
        """The models (all, when none is named) compared in pairs on the cases they share, as one family.

        By default under the table's first protocol, in the summary measure, with every judge (None in `judges`
        stands for measurements without one). `against` compares one model with each of the others. A model's own
        failures count as in the table, or as `refusals` says. Without `by_slice` gaps have no drivers, and cost less.
        With a `margin`, pairs are also tested for being equal within it; `over_measures` corrects p over all measures.
        """
        there = list(dict.fromkeys(score.protocol for score in self.scores))
        chosen = protocol or there[0]
        if chosen not in there:
            raise RefBenchError(f"--protocol {chosen}: these scores are of {', '.join(there)}")
        mine = [score for score in self.scores if score.protocol == chosen]
        known = list(dict.fromkeys(score.model for score in mine))
        stranger = next((model for model in models if model not in known), None)
        if stranger is not None:
            raise RefBenchError(f"there is no model {stranger}: the models are {', '.join(known)}")
        scores = [
            score
            for score in mine
            if (not models or score.model in (*models, against)) and (judges is None or score.judge in judges)
        ]
        if not scores:
            names = ", ".join(sorted({score.judge or "none" for score in mine}))
            raise RefBenchError(f"--judge {', '.join(map(str, judges or ()))}: the judges are {names}")
        self.needs_all_calls("a comparison")
        from refbench.analysis.compare import Further, Systems, compare_columns

        systems = Systems.of(
            self.bench,
            chosen,
            columns_of(scores, self.cases) if models else self.columns(chosen, judges),
            self.cases,
            aggregate=self._counting(self.bench.scoring.protocols[chosen].aggregate, refusals or self.refusals),
            seeds=self.seeds,
            stopped=self.stopped,
            refusals=refusals or self.refusals,
        )
        return compare_columns(
            systems,
            models=[*models, *([against] if against and models and against not in models else [])] or None,
            against=against,
            metric=metric,
            draws=draws,
            seed=seed,
            further=Further(by_slice, margin, over_measures),
        )

    def _counting(self, aggregate: Aggregate, refusals: str) -> Aggregate:
        """The aggregate with a model's own failures as they are to count, which need not be as in the table."""
        if refusals == self.refusals:
            return aggregate
        if "worst,unsupported" in (refusals, self.refusals):
            raise RefBenchError(
                f"--refusals {refusals}: these scores are of {self.refusals}, and whether what a model cannot take "
                "counts is decided when a run is scored; score it with that choice"
            )
        return (
            replace(aggregate, worst=None)
            if self.refusals == "worst"
            else aggregate.counting_refusals(self.bench.scoring.lower)
        )

    def items(self) -> Iterator[dict[str, Any]]:
        """One row for each (case, model, seed, metric, protocol), in whatever state, with the groups of its case.

        `total` is what the picture gives in the measure that models are ranked by (`total_of`), on the table's scale.
        """
        groups = {case.id: dict(case.groups) for case in self.cases}
        totals: dict[tuple[str, str, str | None, str, int], float] = {}
        names = {}
        for protocol in dict.fromkeys(score.protocol for score in self.scores):
            names[protocol] = self.summary(protocol)
            totals |= self._totals(protocol, names[protocol])
        for score in self.scores:
            yield {
                "case": score.case,
                "task": groups[score.case].get("task"),
                "groups": groups[score.case],
                "model": score.model,
                "judge": score.judge,
                "metric": score.metric,
                "protocol": score.protocol,
                "seed": score.seed,
                "score": score.value,
                "answers": list(score.answers),
                "failure": score.failure and score.failure.model_dump(),
                "not_applicable": score.not_applicable,
                "not_asked": score.not_asked,
                "total": totals.get((score.protocol, score.model, score.judge, score.case, score.seed)),
                "total_of": names[score.protocol],
                **self._used_by(score),
            }

    def _used_by(self, score: Score) -> dict[str, Any]:
        """Which references the output uses, by who says so; no column where nobody was asked."""
        if not self.references:
            return {}
        return {"references": dict(self.references.get((score.case, score.model, score.seed), {}))}

    @cached_property
    def _arranged(self) -> dict[tuple[str, frozenset[str | None]], Columns]:
        return {}

    def columns(self, protocol: str, judges: Collection[str | None] | None = None) -> Columns:
        """The scores under a protocol (by some judges: all, when none is named) as columns over the cases; arranged
        once for whoever asks."""
        mine = [score for score in self.scores if score.protocol == protocol]
        chosen = frozenset(score.judge for score in mine if judges is None or score.judge in judges)
        place = protocol, chosen
        if place not in self._arranged:
            self._arranged[place] = columns_of([score for score in mine if score.judge in chosen], self.cases)
        return self._arranged[place]

    def _totals(self, protocol: str, measure: str) -> dict[tuple[str, str, str | None, str, int], float]:
        """The measure of every picture by itself, where it has one."""
        columns = self.columns(protocol)
        found = {}
        for place, seed in enumerate(sorted({score.seed for score in self.scores if score.protocol == protocol})):
            of_seed = case_values(self.bench.scoring.protocols[protocol].aggregate, columns.of_seed(place), self.cases)
            for (model, judge), values in zip(columns.systems, of_seed.get(measure, ()), strict=False):
                for case, value in zip(self.cases, values.tolist(), strict=True):
                    if math.isfinite(value):
                        found[protocol, model, judge, case.id, seed] = value
        return found

    def failures(self) -> list[dict[str, Any]]:
        """One row for each score that failed, with the kind and what is known about it."""
        return [
            {
                "case": score.case,
                "model": score.model,
                "judge": score.judge,
                "protocol": score.protocol,
                "metric": score.metric,
                "seed": score.seed,
                "kind": score.failure.kind,
                "detail": score.failure.detail,
            }
            for score in self.scores
            if score.failure is not None
        ]

    def flat(self) -> dict[str, float]:
        """The overall values as `benchmark/model/judge/protocol/metric`, for experiment trackers; what has no value
        is not in it. A slash in a name becomes an underscore, so that a key always has five parts."""
        found: dict[str, float] = {}
        for row in self.rows(level="overall"):
            metric = f"{row.metric} (estimated)" if row.sampled else row.metric
            names = self.table.benchmark, row.model, row.judge or "none", row.protocol, metric
            key = "/".join(name.replace("/", "_") for name in names)
            if key in found:
                raise RefBenchError(f"two models or judges would both be {key}: rename one of them")
            if row.value is not None:
                found[key] = row.value
        return found

    def summary(self, protocol: str, where: Mapping[str, str] = OVERALL) -> str:
        """The measure that models are ranked by on a slice, by default on all cases."""
        rows = [row for row in self.table.rows if row.protocol == protocol and dict(row.slice) == where]
        tried = [row.metric for row in rows if row.tried]
        return summary_measure(
            self.bench.scoring.protocols[protocol].aggregate.measures, tried, [row.metric for row in rows]
        )

    def failed(self, *, missing: bool = False) -> tuple[Counter[str], int]:
        """Replies and measurements that failed under the first protocol of the table by kind, and among how many: those
        there are, or (`missing`) all that a judge was asked for. What was not asked for yet counts in neither."""
        there = [
            [score.failure.kind for score in scores if score.failure]
            for place, scores in self._pieces().items()
            if not any(score.not_asked or _is_absent(score, missing and place[3] is not None) for score in scores)
        ]
        return Counter(kinds[0] for kinds in there if kinds), len(there)

    def waiting(self) -> int:
        """Replies and measurements that were not asked for yet."""
        return sum(any(score.not_asked for score in scores) for scores in self._pieces().values())

    def pieces_said(self) -> str:
        """What `failed` and `waiting` count, in words."""
        judged = {place[3] is not None for place in self._pieces()}
        return {frozenset({True}): "replies", frozenset({False}): "measurements"}.get(
            frozenset(judged), "replies and measurements"
        )

    def unjudged(self) -> dict[str, str]:
        """The cases whose own pictures could not be read, with the reason: nobody's failure but the data's."""
        return {
            score.case: score.failure.detail
            for score in self.scores
            if score.failure and score.failure.kind == UNREADABLE and not score.failure.by_model
        }

    def failure_share(self, *, missing: bool = False) -> float:
        """Share of replies and measurements that failed, as `failed` counts them."""
        kinds, there = self.failed(missing=missing)
        return kinds.total() / there if there else 0.0

    def _pieces(self) -> dict[tuple[str, str, int, str | None, str], list[Score]]:
        """The scores under the first protocol by what they were read from: a judge's reply gives several measures, and
        a measurement stands beside every judge. What is made of other scores, the judges' mean too, is no piece."""
        protocol = self.table.rows[0].protocol if self.table.rows else ""
        part_of = {metric: part for part, of_part in self.bench.asking.parts.items() for metric in of_part}
        found: dict[tuple[str, str, int, str | None, str], list[Score]] = {}
        for score in self.scores:
            part = part_of.get(score.metric, score.metric)
            made = (part == "derived" and self.bench.scoring.derived) or (
                self.bench.scoring.judges_mean and score.judge == MEAN
            )
            if score.protocol == protocol and score.not_applicable is None and not made:
                judge = None if part in self.bench.asking.measured else score.judge
                found.setdefault((score.case, score.model, score.seed, judge, part), []).append(score)
        return found


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _is_absent(score: Score, asked: bool) -> bool:
    kind = score.failure and score.failure.kind
    return kind == "not_measured" or (kind == "missing_reply" and not asked)
