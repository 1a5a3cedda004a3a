"""`refbench agree` as one function: from runs and CSV files to everything the command prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal

from refbench.analysis.agree.people import read_people, read_scores, with_humans
from refbench.analysis.agree.ratings import Mark, Range, Ratings, joined, ratings_of
from refbench.analysis.agree.repeats import (
    RaterAnswer,
    Steadiness,
    answers_of,
    failure_rates,
    repeated_ratings,
    steadiness,
)
from refbench.analysis.agree.rows import AgreementRow, AgreeOptions, agreement
from refbench.analysis.agree.self_preference import Preferences, self_preference
from refbench.analysis.agree.verdict import verdicts
from refbench.benchmarks.kit.published import FailureRate
from refbench.record import Record, RefBenchError
from refbench.runs import Run
from refbench.tables.result import Result
from refbench.tables.scoring import score_run


class Agreement(Record):
    """What there is to say about the raters of some runs or files."""

    sources: tuple[str, ...]
    protocol: str | None
    raters: tuple[str, ...]
    humans: tuple[str, ...]
    rows: tuple[AgreementRow, ...]
    preferences: Preferences | None = None
    steadiness: tuple[Steadiness, ...] = ()
    failures: tuple[FailureRate, ...] = ()
    forms: Mapping[str, str]
    """Which alpha and which ICC, and how intervals were made."""
    notes: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    """What each judge can be trusted for, and what not."""


def agree(
    *sources: Path | str,
    humans: Path | str | None = None,
    human_raters: Sequence[str] | None = None,
    protocol: Literal["paper", "corrected"] = "corrected",
    options: AgreeOptions | None = None,
) -> Agreement:
    """Compare the raters of runs (of one benchmark) or of one CSV file, with people's scores from a further CSV.

    `human_raters` names the raters of a CSV file of scores who are people; by default their names tell.
    """
    asked = options or AgreeOptions()
    paths = [Path(source) for source in sources]
    if not paths:
        raise RefBenchError("give a run directory or a CSV file of scores")
    files = [path for path in paths if path.is_file()]
    if files and len(paths) > 1:
        raise RefBenchError(f"{files[0]} is a file: give one CSV file, or run directories only")
    groups = [*asked.by, *([asked.task] if asked.task else [])]
    results: list[Result] = []
    if files:
        limits = partial(_of_file, asked)
        ratings = read_scores(files[0], groups=groups, humans=human_raters, rater="score", limits=limits)
        ratings = replace(ratings, one_scale=asked.scale.same)
    else:
        if human_raters is not None:
            raise RefBenchError("--human-raters names raters of a CSV file: give people's scores of a run by --humans")
        results = [_whole_run(path, protocol) for path in paths]
        ratings = _of_runs(paths, results, protocol)
    if humans is not None:
        ratings = _with_people(ratings, Path(humans), asked, groups)
    if asked.judges:
        ratings = ratings.only(asked.judges)
    rows = agreement(ratings, asked)
    failed = _failures(asked, ratings, paths, results, protocol)
    steady = _steadiness(asked, ratings, paths, results, protocol)
    preferred = None
    if asked.self_preference:
        noted = {name: family for path in paths if not files for name, family in _families(path).items()}
        preferred = self_preference(ratings, {**noted, **asked.families}, draws=asked.draws, seed=asked.seed)
    if not (rows or failed or steady or preferred):
        raise RefBenchError(_alone(ratings))
    return Agreement(
        sources=tuple(str(path) for path in paths),
        protocol=None if files else protocol,
        raters=ratings.raters,
        humans=ratings.people,
        rows=tuple(rows),
        preferences=preferred,
        steadiness=tuple(steady),
        failures=tuple(failed),
        forms=_forms(asked, ratings),
        notes=ratings.notes,
        verdicts=tuple(verdicts(rows)),
    )


def _of_file(asked: AgreeOptions, _: Mark, person: bool) -> Range | None:
    return asked.scale.limits(person)


def _whole_run(path: Path, protocol: str) -> Result:
    result = score_run(path, protocol=protocol, draws=0)
    result.needs_all_calls("refbench agree")
    return result


def _with_people(ratings: Ratings, humans: Path, asked: AgreeOptions, groups: Sequence[str]) -> Ratings:
    def limits(mark: Mark, person: bool) -> Range | None:
        return asked.scale.limits(person, ratings.ranges.get(mark.item.metric))

    people = read_people(humans, metrics=ratings.metrics, groups=groups, limits=limits)
    return with_humans(ratings, people, str(humans))


def _failures(
    asked: AgreeOptions, ratings: Ratings, paths: Sequence[Path], results: Sequence[Result], protocol: str
) -> list[FailureRate]:
    """Answers that raters did not give: as the benchmark counts them, else, where asked for, of every metric."""
    failed: list[FailureRate] = []
    for result in results:
        if result.bench.reporting.failure_rates is not None:
            failed += result.bench.reporting.failure_rates(result.scores, protocol)
    if asked.failures and not failed:
        failed = failure_rates(_answers(ratings, paths, results, protocol))
    return failed


def _steadiness(
    asked: AgreeOptions, ratings: Ratings, paths: Sequence[Path], results: Sequence[Result], protocol: str
) -> list[Steadiness]:
    if asked.repeats is None:
        return []
    repeated = [
        repeated_ratings(path, result, asked.repeats, protocol) for path, result in zip(paths, results, strict=False)
    ]
    return [row for one in repeated or [ratings] for row in steadiness(one, asked.by)]


def _of_runs(paths: Sequence[Path], results: Sequence[Result], protocol: str) -> Ratings:
    for (path, result), (other, next_result) in pairwise(zip(paths, results, strict=True)):
        if result.bench.name != next_result.bench.name:
            raise RefBenchError(
                f"{path} is a run of {result.bench.name} and {other} of {next_result.bench.name}: their judges rated "
                "other things"
            )
    ratings = ratings_of(results[0], protocol)
    for path, result in zip(paths[1:], results[1:], strict=True):
        ratings = joined(ratings, ratings_of(result, protocol), (paths[0].name, path.name))
    return ratings


def _answers(
    ratings: Ratings, paths: Sequence[Path], results: Sequence[Result], protocol: str
) -> Iterator[RaterAnswer]:
    """What the raters were asked for: judges as their runs say, others by the rows of their file."""
    raters = set(ratings.raters)
    for path, result in zip(paths, results, strict=False):
        for answer in answers_of(path, result, protocol):
            apart = f"{answer.rater} ({path.name})"
            named = answer._replace(rater=apart) if apart in raters else answer
            if named.rater in raters:
                yield named
    for mark in ratings.marks:
        if not results or mark.rater in ratings.humans:
            yield RaterAnswer(mark.rater, mark.item.model, mark.value is not None)


def _families(path: Path) -> dict[str, str]:
    """Families that the run noted when its judges were built."""
    return {name: family for name, family in Run.open(path).notes("family of ").items() if family != "unknown"}


_ICC = {
    "1": "other raters for each item",
    "2": "absolute agreement of raters drawn from many",
    "3": "consistency of these raters, levels apart",
}
_OF = {"1": "of a single rater", "k": "of the raters' mean"}


def _forms(options: AgreeOptions, ratings: Ratings) -> dict[str, str]:
    if ratings.summaries:
        how = "none: the scores are means already, there are no cases to resample"
    elif options.partitions:
        how = f"Student's, of the mean over {options.partitions} random parts of the cases, seed {options.seed}"
    else:
        how = (
            f"BCa bootstrap, cases resampled by cluster, {options.draws} draws, seed {options.seed}; models and "
            "raters stay"
        )
    return {
        "alpha": f"Krippendorff's, {options.forms.alpha}",
        "icc": f"ICC({options.forms.icc}), {_ICC[options.forms.icc[0]]}, {_OF[options.forms.icc[2]]}",
        "qwk": "quadratic kappa on the marks, without bins (Lin's concordance)",
        "mse": "mse and mae in the units of the marks: judges' by judges, people's where people take part",
        "interval": how,
    }


def _alone(ratings: Ratings) -> str:
    names = ", ".join(ratings.raters) or "nobody"
    if len(ratings.raters) > 1:
        return f"the raters ({names}) share no item: nothing can be compared"
    return (
        f"there is one rater ({names}) and agreement needs two: give people's scores by --humans FILE.csv, or judge "
        "the run by another judge as well"
    )
