"""`refbench sample` as one function: which outputs people should rate, drawn with known chances.

People's marks tell most where the judge is least sure. Where that is can only be guessed before they have rated: so the
chance of an output grows with the guess, and half of it is the same for all. A wrong guess costs precision, never
validity, since `correct` weighs every mark by its chance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from refbench.analysis.agree.ratings import Ratings, is_panel, ratings_of
from refbench.analysis.agree.repeats import repeated_ratings
from refbench.analysis.humans.sampling import SampledOutput
from refbench.record import Record, RefBenchError, counted
from refbench.runs import Run
from refbench.stats import Array
from refbench.stats.corrected import FEW, FEWEST, Labels
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from refbench.tables.table import SEED

Aim = Literal["gaps", "means"]
_EVEN = 0.5
"""The share of every chance that is the same for all."""
_STRATA = 5
_PER_STRATUM = 10
"""Units drawn from a stratum at least, so that its spread is known."""


@dataclass(frozen=True)
class SampleOptions:
    """How many outputs, of which models, by which judge's marks in which measure; for gaps or for single numbers."""

    outputs: int
    models: Sequence[str] = ()
    aim: Aim | None = None
    judge: str | None = None
    metric: str | None = None
    protocol: str = "corrected"
    seed: int = SEED


class Stratum(Record):
    """Units of a like guess: how many there are, how many were drawn, and how sure the judge is of them."""

    name: str
    n: int
    drawn: int
    probability: float
    uncertainty: float
    """The guessed standard deviation of what the judge misses, over its mean."""


class Drawn(Record):
    """The list, in the random order that people should see it in."""

    title: str
    aim: Aim
    metric: str
    models: tuple[str, ...]
    of: tuple[str, ...]
    """What the guess is made of."""
    n_cases: int
    strata: tuple[Stratum, ...]
    outputs: tuple[SampledOutput, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Unit:
    """What is drawn together: a case with all models that painted it, or with one."""

    case: str
    models: tuple[str, ...]
    seeds: tuple[int, ...]


def sample(run: Path | str, options: SampleOptions) -> Drawn:
    """Draw the outputs of a run that people should rate."""
    result = score_run(run, protocol=options.protocol, draws=0)
    result.needs_all_calls("a sample for people")
    ratings = ratings_of(result, options.protocol)
    opened = Run.open(Path(run))
    models = _models(ratings, options.models)
    aim = options.aim or ("gaps" if len(models) > 1 else "means")
    if aim == "gaps" and len(models) < 2:
        raise RefBenchError("--aim gaps: it takes two models; leave it out, or give --aim means")
    metric = options.metric or result.summary(options.protocol)
    if metric not in ratings.metrics:
        raise RefBenchError(f"--metric {metric}: the measures of single outputs are {', '.join(ratings.metrics)}")
    guess = _Guess(Path(run), result, ratings, metric, options)
    units = list(_units(guess.known, models, aim))
    per_unit = len(models) if aim == "gaps" else 1
    wanted = options.outputs // per_unit
    if wanted < FEWEST:
        raise RefBenchError(
            f"--for-humans {options.outputs}: with {counted(len(models), 'model')} on each case that is "
            f"{counted(wanted, 'case')}, and it takes {FEWEST}; ask for more, or for fewer models by --model"
        )
    rng = np.random.default_rng(options.seed)
    sizes = guess.sizes(units)
    places, chances, strata = _drawn(sizes, min(wanted, len(units)), rng)
    outputs = list(_listed(opened, [units[i] for i in places], chances, [f"s{strata[i] + 1}" for i in places], rng))
    order = rng.permutation(len(outputs))
    told = [*guess.notes]
    if aim == "gaps" and min(wanted, len(units)) < FEW:
        told.append(f"intervals of fewer than {FEW} rated cases are rough: ask for more, or for fewer models (--model)")
    if wanted > len(units):
        told.append(f"there are {len(units)} to choose from: all are on the list")
    if not any(output.picture for output in outputs):
        told.append("this run holds no pictures: people need those that the replies were about")
    return Drawn(
        title=result.bench.title,
        aim=aim,
        metric=metric,
        models=tuple(models),
        of=guess.of,
        n_cases=len({output.case for output in outputs}),
        strata=tuple(_strata(sizes, strata, places, chances)),
        outputs=tuple(outputs[i] for i in order),
        notes=tuple(told),
    )


def _models(ratings: Ratings, wanted: Sequence[str]) -> list[str]:
    there = sorted({mark.item.model for mark in ratings.marks})
    stranger = next((name for name in wanted if name not in there), None)
    if stranger is not None:
        raise RefBenchError(f"--model {stranger}: the models of the run are {', '.join(there)}")
    return list(dict.fromkeys(wanted)) or there


class _Guess:
    """How far the judge may be from people on each output: in the middle of its scale there is room on both sides, and
    where judges, repeats or seeds differ it is less sure."""

    def __init__(self, run: Path, result: Result, ratings: Ratings, metric: str, options: SampleOptions) -> None:
        self.notes: list[str] = []
        mine = [m for m in ratings.marks if m.item.metric == metric and m.value is not None]
        judges = list(dict.fromkeys(mark.rater for mark in mine))
        if options.judge is not None:
            if options.judge not in judges:
                raise RefBenchError(f"--judge {options.judge}: the judges of {metric} are {', '.join(judges)}")
            judges = [options.judge]
        low, high = ratings.ranges.get(metric) or _seen([m.value for m in mine if m.value is not None])
        self.by_rater: dict[tuple[str, str, int], dict[str, float]] = defaultdict(dict)
        for mark in mine:
            if mark.value is not None and mark.rater in judges:
                place = mark.item.case, mark.item.model, mark.item.seed or 0
                self.by_rater[place][mark.rater] = (mark.value - low) / (high - low)
        self.known: dict[tuple[str, str], tuple[int, ...]] = {}
        for case, model, seed in self.by_rater:
            self.known[case, model] = (*self.known.get((case, model), ()), seed)
        self.overall = result.bench.scoring.protocols[options.protocol].aggregate.overall(result.cases)[0]
        self.cases = {case.id: i for i, case in enumerate(result.cases)}
        parts = {
            "the middle of the scale": self._middle(),
            "judges who differ": self._between({k: list(_single(v).values()) for k, v in self.by_rater.items()}),
            "a judge asked again": self._again(run, result, metric, judges, options.protocol, high - low),
            "seeds": self._seeds(),
        }
        there = {name: values for name, values in parts.items() if any(v > 0 for v in values.values())}
        self.of = tuple(there)
        self.parts = [self._over_mean(values) for values in there.values()]
        if not there:
            self.notes.append(
                "the judge's marks say nothing about where it is unsure: every output has the same chance"
            )

    def _middle(self) -> dict[tuple[str, str], float]:
        return {
            place: float(
                np.mean([(p := np.mean(list(self.by_rater[*place, seed].values()))) * (1 - p) for seed in seeds])
            )
            for place, seeds in self.known.items()
        }

    def _between(self, values: Mapping[tuple[str, str, int], Sequence[float]]) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for (case, model, _), marks in values.items():
            if len(marks) > 1:
                found[case, model].append(float(np.var(marks, ddof=1)))
        return {place: float(np.mean(variances)) for place, variances in found.items()}

    def _again(
        self, run: Path, result: Result, metric: str, judges: Sequence[str], protocol: str, scale: float
    ) -> dict[tuple[str, str], float]:
        by_judge: dict[tuple[str, str, int, str], list[float]] = defaultdict(list)
        for mark in repeated_ratings(run, result, "repeat", protocol).marks:
            if mark.item.metric == metric and mark.value is not None and mark.rater in judges:
                by_judge[mark.item.case, mark.item.model, mark.item.seed or 0, mark.rater].append(mark.value / scale)
        spreads: dict[tuple[str, str], list[float]] = defaultdict(list)
        for (case, model, _, _), marks in by_judge.items():
            if len(marks) > 1:
                spreads[case, model].append(float(np.var(marks, ddof=1)))
        return {place: float(np.mean(variances)) for place, variances in spreads.items()}

    def _seeds(self) -> dict[tuple[str, str], float]:
        means = {
            place: [float(np.mean(list(self.by_rater[*place, seed].values()))) for seed in seeds]
            for place, seeds in self.known.items()
        }
        return {place: float(np.var(marks, ddof=1)) for place, marks in means.items() if len(marks) > 1}

    def _over_mean(self, values: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
        mean = float(np.mean(list(values.values())))
        return {place: value / mean for place, value in values.items()}

    def sizes(self, units: Sequence[_Unit]) -> Array:
        """The guess for each unit, as a standard deviation times the share of the number that its case has."""
        places = [[(unit.case, model) for model in unit.models] for unit in units]
        guessed = [
            float(np.mean([np.mean([part.get(p, 1.0) for part in self.parts]) if self.parts else 1.0 for p in those]))
            for those in places
        ]
        spread = np.sqrt(guessed)
        there = np.zeros(len(self.cases), dtype=np.bool_)
        case = np.array([self.cases[unit.case] for unit in units], dtype=np.intp)
        there[case] = True
        size: Array = self.overall.weights(there)[case] * (_EVEN * spread.mean() + (1 - _EVEN) * spread)
        # What the overall number is not made of is drawn as seldom as what counts least.
        counts = size > 0
        size = np.where(counts, size, size[counts].min() if counts.any() else 1.0)
        relative: Array = size / size.mean()
        return relative


def _seen(values: Sequence[float]) -> tuple[float, float]:
    """The range of marks whose scale has no two ends."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    return (low, high) if high > low else (low, low + 1.0)


def _single(marks: Mapping[str, float]) -> dict[str, float]:
    return {rater: value for rater, value in marks.items() if not is_panel(rater)}


def _units(known: Mapping[tuple[str, str], tuple[int, ...]], models: Sequence[str], aim: Aim) -> Iterator[_Unit]:
    """Every case with the models that painted it: none is without a chance."""
    if aim == "means":
        for (case, model), seeds in known.items():
            if model in models:
                yield _Unit(case, (model,), tuple(sorted(seeds)))
        return
    by_case: dict[str, list[str]] = defaultdict(list)
    for case, model in known:
        if model in models:
            by_case[case].append(model)
    for case, those in by_case.items():
        shared = set.intersection(*(set(known[case, model]) for model in those))
        if shared:
            yield _Unit(case, tuple(those), tuple(sorted(shared)))
        else:  # no seed in common: each of its own
            for model in those:
                yield _Unit(case, (model,), tuple(sorted(known[case, model])))


def _drawn(sizes: Array, wanted: int, rng: np.random.Generator) -> tuple[list[int], list[float], list[int]]:
    """Which units are drawn, the chance of each, and the stratum of every unit: strata of about equal sums of sizes, in
    each a simple random sample in proportion to that sum."""
    n_strata = max(1, min(_STRATA, wanted // _PER_STRATUM))
    order = np.argsort(sizes, kind="stable")
    before = (np.cumsum(sizes[order]) - sizes[order] / 2) / sizes.sum()
    strata = np.zeros(len(sizes), dtype=np.intp)
    strata[order] = np.minimum((before * n_strata).astype(np.intp), n_strata - 1)
    strata = np.unique(strata, return_inverse=True)[1].astype(np.intp)
    n = np.bincount(strata)
    take = _allocated(np.bincount(strata, weights=sizes).astype(np.float64), n, wanted)
    places: list[int] = []
    chances: list[float] = []
    for stratum, count in enumerate(take):
        chosen = rng.choice(np.flatnonzero(strata == stratum), count, replace=False)
        places += chosen.tolist()
        chances += [count / int(n[stratum])] * count
    return places, chances, strata.tolist()


def _allocated(sums: Array, n: Labels, wanted: int) -> list[int]:
    """How many of each stratum: in proportion to its sum, at least two where it has them, never more than there are."""
    take = np.minimum(n, 2)
    while take.sum() < wanted:
        # The stratum that is furthest behind its share gets the next.
        behind = np.where(take < n, sums * wanted / sums.sum() - take, -np.inf)
        take[int(np.argmax(behind))] += 1
    return [int(count) for count in take]


def _strata(sizes: Array, strata: Sequence[int], places: Sequence[int], chances: Sequence[float]) -> Iterator[Stratum]:
    of, chance = np.array(strata), dict(zip((strata[i] for i in places), chances, strict=True))
    for number in sorted(chance):
        mine = of == number
        yield Stratum(
            name=f"s{number + 1}",
            n=int(mine.sum()),
            drawn=sum(strata[i] == number for i in places),
            probability=chance[number],
            uncertainty=float(sizes[mine].mean()),
        )


def _listed(
    run: Run, units: Sequence[_Unit], chances: Sequence[float], strata: Sequence[str], rng: np.random.Generator
) -> Iterator[SampledOutput]:
    """The outputs of the units drawn; of several seeds one, the same for all models."""
    pictures = {
        (o.case, o.model, o.seed): run.blobs.path(o.pictures[0].sha256, o.pictures[0].format)
        for o in run.outputs()
        if o.step is None and o.pictures
    }
    for unit, chance, stratum in zip(units, chances, strata, strict=True):
        seed = int(rng.choice(unit.seeds))
        for model in unit.models:
            picture = pictures.get((unit.case, model, seed))
            yield SampledOutput(
                case=unit.case,
                model=model,
                seed=seed,
                probability=chance / len(unit.seeds),
                stratum=stratum,
                picture=str(picture) if picture else "",
            )
