"""Are gaps real: models of one result, or of several runs and released figures, compared in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refbench.analysis.operands import load_operands
from refbench.analysis.sides import join_sides
from refbench.benchmarks import Benchmark
from refbench.comparison import Comparison, compare_columns
from refbench.judges.panel import MEAN
from refbench.record import RefBenchError
from refbench.result import Result
from refbench.scoring import REFUSALS
from refbench.table import DRAWS, SEED


def compare_result(
    result: Result,
    protocol: str | None = None,
    judge: str | None = None,
    measure: str | None = None,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Comparison:
    """All pairs of a result's models under one protocol by one judge (None: measurements without a judge)."""
    return result.compare(protocol=protocol, judges=[judge], metric=measure, draws=draws, seed=seed)


def compare(
    operands: Sequence[str | Path],
    *,
    metric: str | None = None,
    protocol: str | None = None,
    judge: str | None = None,
    against: str | None = None,
    refusals: str = REFUSALS[0],
    data: Path | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Comparison:
    """Compare `RUN_DIR:MODEL`, `RUN_DIR` (all its models) and `BENCHMARK:MODEL` (released figures) in pairs.

    Cases meet by their ids; what else is not the same on the sides is in `differences`. `refusals` says how a model's
    own failures count; released figures hold none.
    """
    sides = load_operands([str(operand) for operand in operands], protocol, data, refusals)
    joined = join_sides(sides, judge)
    # A run's own benchmark counts refusals as it was asked to.
    bench: Benchmark = next((side.bench for side in sides if not side.released), sides[0].bench)
    if against is not None:
        against = _named(against, joined.models)
    return compare_columns(
        bench.protocols[joined.protocol].aggregate,
        joined.columns,
        joined.cases,
        benchmark=bench.name,
        title=bench.title,
        protocol=joined.protocol,
        models=joined.models,
        against=against,
        metric=metric,
        draws=draws,
        seed=seed,
        seeds=joined.seeds,
        differences=joined.differences,
        notes=joined.notes,
        lower=bench.lower,
        measured=bench.measured,
        mean_of_judges=MEAN if bench.judges_mean else None,
        refusals=refusals,
    )


def _named(against: str, models: Sequence[str]) -> str:
    """The model that `--against` means: by its whole name, or without the run that tells it from its namesakes."""
    found = [model for model in models if model == against] or [m for m in models if m.startswith(f"{against} (")]
    if len(found) != 1:
        raise RefBenchError(f"--against {against}: the models are {', '.join(models)}")
    return found[0]
