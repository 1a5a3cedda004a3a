"""Result: a table with the scores behind it, and the questions one asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from refbench.benchmarks import Benchmark, PublishedValue
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.table import Row, Table


@dataclass(frozen=True)
class Result:
    """A table with the scores behind it, and what there is to say about how it came about."""

    bench: Benchmark
    table: Table
    scores: tuple[Score, ...]
    cases: tuple[AnyCase, ...]
    changes: tuple[dict[str, Any], ...] = ()
    """Step by step from the paper's numbers to the corrected ones, for each model."""
    notes: tuple[str, ...] = field(default=())

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
            raise RefBenchError(f"{len(rows)} rows match {wanted}: name model, metric, protocol and level of one")
        return rows[0].value

    def published(self) -> list[PublishedValue]:
        """The papers' numbers: for the models in this table by the same judge, and for those of whom only numbers
        were ever released."""
        models = {row.model for row in self.table.rows}
        judges = {(row.judge or "").casefold() for row in self.table.rows}
        values = self.bench.published()
        released = any(p.model is not None for p in values)
        return [p for p in values if (p.model in models and p.judge.casefold() in judges) or not released]

    def items(self) -> Iterator[dict[str, Any]]:
        """One row for each (case, model, metric, protocol), failures included."""
        for score in self.scores:
            row = {
                "case": score.case,
                "model": score.model,
                "judge": score.judge,
                "metric": score.metric,
                "protocol": score.protocol,
                "score": score.value,
                "answers": list(score.answers),
                "failure": score.failure and score.failure.model_dump(),
            }
            if score.not_applicable:
                row["not_applicable"] = score.not_applicable
            yield row

    def failure_share(self, *, missing: bool = False) -> float:
        """Share of failed scores under the first protocol of the table: among the replies and measurements there are,
        or (`missing`) among all that a judge was asked for. Metrics that cannot run here count in neither."""
        protocol = self.table.rows[0].protocol if self.table.rows else ""
        there = [
            score.failure is not None
            for score in self.scores
            if score.protocol == protocol
            and score.not_applicable is None
            and not _is_absent(score, missing and score.judge is not None)
        ]
        return sum(there) / len(there) if there else 0.0


def _is_absent(score: Score, asked: bool) -> bool:
    kind = score.failure and score.failure.kind
    return kind == "not_measured" or (kind == "missing_reply" and not asked)
