"""What is known of every case before anything is judged: the item scores of other models, released or of one's own
runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.record import RefBenchError, counted
from refbench.score import Score
from refbench.stats import Array
from refbench.tables.scoring import score_run
from refbench.tables.table import columns_of

RELEASED, NONE = "released", "none"
"""What stands for the item scores that a benchmark's authors released, and for none."""


@dataclass(frozen=True)
class References:
    """By column (a metric, or a total of single pictures): reference models x cases, NaN where one has no value."""

    columns: Mapping[str, Array] = field(default_factory=dict)
    said: str = ""
    """Whose they are, in words; empty where there are none."""

    def known(self) -> dict[str, tuple[float | None, ...]]:
        """For each column the mean of the models, case by case; None where none has a value."""
        found = {}
        for name, values in self.columns.items():
            there = ~np.isnan(values)
            with np.errstate(invalid="ignore"):
                means = np.where(there, values, 0.0).sum(axis=0) / there.sum(axis=0)
            if there.any():
                found[name] = tuple(round(float(mean), 6) if np.isfinite(mean) else None for mean in means)
        return found


def references_of(bench: Benchmark, cases: Sequence[AnyCase], wanted: Sequence[str], subset: str | None) -> References:
    """The item scores that are asked for: `released`, run directories, or `none`. By default the released ones, where
    there are any of these cases."""
    if NONE in wanted and len(wanted) > 1:
        raise RefBenchError("--references none: give nothing else beside it")
    columns: dict[str, list[Array]] = {}
    said = []
    for name in wanted or ([RELEASED] if bench.reporting.released is not None else []):
        if name == NONE:
            continue
        theirs, scores, whose = _released(bench, subset) if name == RELEASED else _of_run(bench, Path(name))
        found = _columns(bench, cases, theirs, scores)
        n_models = max((len(values) for values in found.values()), default=0)
        if not n_models:
            if not wanted:
                continue
            raise RefBenchError(f"--references {name}: it has no scores of these cases")
        for metric, values in found.items():
            columns.setdefault(metric, []).append(values)
        said.append(f"{counted(n_models, 'model')} {whose}")
    return References({metric: np.concatenate(blocks) for metric, blocks in columns.items()}, " and ".join(said))


def _released(bench: Benchmark, subset: str | None) -> tuple[Sequence[AnyCase], Sequence[Score], str]:
    if bench.reporting.released is None:
        raise RefBenchError(
            f"--references {RELEASED}: no item scores of {bench.title} were released: name runs of yours, or none"
        )
    cases, scores = bench.reporting.released(subset)
    return cases, scores, "whose item scores were released"


def _of_run(bench: Benchmark, path: Path) -> tuple[Sequence[AnyCase], Sequence[Score], str]:
    if not path.exists():
        near = difflib.get_close_matches(str(path), (RELEASED, NONE), n=1)
        hint = f"did you mean {near[0]}?" if near else f"give {RELEASED}, {NONE} or run directories"
        raise RefBenchError(f"--references {path}: there is no such run: {hint}")
    result = score_run(path, draws=0)
    if result.bench.name != bench.name:
        raise RefBenchError(f"--references {path}: it is a run of {result.bench.title}, not of {bench.title}")
    return result.cases, result.scores, f"of the run {path.name}"


def _columns(
    bench: Benchmark, cases: Sequence[AnyCase], theirs: Sequence[AnyCase], scores: Sequence[Score]
) -> dict[str, Array]:
    """Every column of the first of their protocols (corrected, where there is that), for the cases of ours."""
    place = {case.id: number for number, case in enumerate(theirs)}
    shared = [(number, place[case.id]) for number, case in enumerate(cases) if case.id in place]
    protocols = dict.fromkeys(score.protocol for score in scores)
    if not shared or not protocols:
        return {}
    chosen = "corrected" if "corrected" in protocols else next(iter(protocols))
    columns = columns_of([score for score in scores if score.protocol == chosen], theirs)
    filled = bench.scoring.protocols[chosen].aggregate.filled(columns)
    ours, others = (list(numbers) for numbers in zip(*shared, strict=True))
    found = {}
    for metric, values in filled.items():
        if " where all of " in metric:
            continue
        mine = np.full((len(values), len(cases)), np.nan)
        mine[:, ours] = values[:, others]
        mine = mine[~np.isnan(mine).all(axis=1)]
        if len(mine):
            found[metric] = mine
    return found
