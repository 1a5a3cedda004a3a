"""How certain a run's numbers are: one report from the analyses beside this module."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from refbench.analysis.agree.ratings import Ratings, is_panel
from refbench.analysis.copies import CopyCheck, copies_of
from refbench.analysis.failures import Coverage, FailureTest, coverage, failure_test
from refbench.analysis.precision.conditional import Conditional, conditional, conditions
from refbench.analysis.precision.variance import Rank, Variance, pooled, ranking, variances
from refbench.analysis.precision.weights import WeightSweep, weight_sweep
from refbench.evidence import PEOPLE
from refbench.record import Record, RefBenchError
from refbench.runs import Run
from refbench.tables.result import Result
from refbench.tables.scoring import run_draws


class JudgePrecision(Record):
    """What there is to say of the numbers of one judge (None: measured ones)."""

    judge: str | None
    coverage: tuple[Coverage, ...]
    failures: FailureTest
    ranking: tuple[Rank, ...]
    weights: WeightSweep | str
    """A sentence where there are no weights to change."""
    conditional: tuple[Conditional, ...]


class PrecisionReport(Record):
    """How certain a run's numbers are, under one protocol."""

    benchmark: str
    title: str
    fingerprint: str
    protocol: str
    measure: str
    n_cases: int
    judges: tuple[JudgePrecision, ...]
    variances: tuple[Variance, ...]
    shares: Mapping[str, float]
    """Of the variance, by source: mean over the `n_pooled` models that tell most sources apart."""
    n_pooled: int
    copies: CopyCheck | str
    """A sentence where there is nothing to compare outputs with."""
    notes: tuple[str, ...] = ()


def precision_report(
    result: Result,
    run: Run,
    *,
    protocol: str,
    judge: str | None = None,
    weights: Sequence[str] = (),
    humans: Ratings | None = None,
    given: Sequence[str] = (),
    pictures: Path | None = None,
) -> PrecisionReport:
    """Analyse a run that has been scored. `pictures` is where the cases' pictures lie, None where nobody knows."""
    there = list(dict.fromkeys(row.judge for row in result.rows(protocol=protocol)))
    chosen = [name for name in there if judge in (None, name or "none")]
    if not chosen:
        raise RefBenchError(f"--judge {judge}: the judges are {', '.join(name or 'none' for name in there)}")
    # The mean of the judges is about all of them.
    everyone = judge is None or any(name is not None and is_panel(name) for name in chosen)
    drawn_from = _judges(there) if everyone else set(chosen)
    drawn = (s for s in run_draws(run.path, protocol=protocol) if s.judge in drawn_from)
    by_model = variances(result, drawn, protocol)
    shares, n_pooled = pooled(by_model) or ({}, 0)
    wanted = conditions(result, given)
    return PrecisionReport(
        benchmark=result.bench.name,
        title=result.bench.title,
        fingerprint=result.table.fingerprint,
        protocol=protocol,
        measure=result.summary(protocol),
        n_cases=len(result.cases),
        judges=tuple(
            JudgePrecision(
                judge=name,
                coverage=tuple(coverage(result, protocol, name)),
                failures=failure_test(result, protocol, name),
                ranking=tuple(ranking(result, protocol, name)),
                weights=weight_sweep(result, protocol, name, weights, humans),
                conditional=tuple(
                    row for condition in wanted for row in conditional(result, condition, protocol=protocol, judge=name)
                ),
            )
            for name in chosen
        ),
        variances=tuple(by_model),
        shares=shares,
        n_pooled=n_pooled,
        copies=copies_of(result, run, pictures),
        notes=tuple(filter(None, [result.stopped_said(), _said_of_people(there, drawn_from)])),
    )


def _judges(there: Sequence[str | None]) -> set[str | None]:
    """Whose differing the variance is made of. People are not one judge more, each repeat of theirs is a rater: they
    stand by themselves, unless nobody else has judged."""
    others = {name for name in there if name != PEOPLE}
    return others if any(name is not None for name in others) else {*there}


def _said_of_people(there: Sequence[str | None], drawn_from: Collection[str | None]) -> str:
    if PEOPLE not in there:
        return ""
    if PEOPLE not in drawn_from:
        return (
            f"{PEOPLE} are none of the judges: they are ranked by themselves, and are in no source of the variance and "
            f"nothing that another judge would buy (--judge {PEOPLE} tells theirs)"
        )
    return f"{PEOPLE}: repeats are raters, and one repeat more is another rater of each output"
