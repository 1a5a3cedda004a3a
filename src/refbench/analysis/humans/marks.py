"""One judge's marks of all outputs beside people's of some, as arrays: by model, and for pairs of models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from refbench.analysis.agree.ratings import Mark, Ratings
from refbench.analysis.humans.sampling import Chance, DrawnList, Place
from refbench.record import RefBenchError, counted
from refbench.stats.corrected import SampledMarks, pooled_variance
from refbench.tables.result import Result

_JOINT = 2 / 3
"""The share of both models' marks that must be of the same pictures for their gap to be corrected pair by pair."""


class RatedOutputs:
    """One judge's marks of all outputs in one measure, and people's of some, by model."""

    def __init__(
        self,
        result: Result,
        ratings: Ratings,
        what: tuple[str, str, str],
        by_seed: bool,
        drawn: DrawnList | None,
    ) -> None:
        protocol, measure, judge = what
        self.measure, self.judge = measure, judge
        self.cases = {case.id: i for i, case in enumerate(result.cases)}
        self.judged: dict[str, dict[Place, float]] = defaultdict(dict)
        given: dict[Place, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        pictures: dict[tuple[str, str], list[float]] = defaultdict(list)
        for mark in ratings.marks:
            item = mark.item
            if item.metric == measure and mark.rater == judge and mark.value is not None:
                self.judged[item.model][Place(item.case, item.model, item.seed)] = mark.value
                pictures[item.case, item.model].append(mark.value)
        several = max((len(values) for values in pictures.values()), default=1) > 1
        self.whole_cases = several and not by_seed
        if self.whole_cases:
            self.judged = defaultdict(dict)
            for (case, model), values in pictures.items():
                self.judged[model][Place(case, model, None)] = float(np.mean(values))
        only = {(place.case, place.model): place for of in self.judged.values() for place in of}
        self.lost = 0
        for mark in ratings.marks:
            if mark.item.metric != measure or mark.rater not in ratings.humans or mark.value is None:
                continue
            place = Place(mark.item.case, mark.item.model, _seed(mark) if by_seed else None)
            if place.seed is None or (not several and not self._judges(place)):
                place = only.get((place.case, place.model), place)
            if self._judges(place):
                given[place][mark.rater].append(mark.value)
            else:
                self.lost += 1
        self.raters = {place: [float(np.mean(v)) for v in by.values()] for place, by in given.items()}
        self.noise = pooled_variance(list(self.raters.values()))
        self.chances, self.not_back = self._chances(drawn, only)
        overall = result.bench.scoring.protocols[protocol].aggregate.overall(result.cases)
        self._overall = overall[0]

    def _judges(self, place: Place) -> bool:
        return place in self.judged.get(place.model, ())

    def _chances(
        self, drawn: DrawnList | None, only: Mapping[tuple[str, str], Place]
    ) -> tuple[Mapping[Place, Chance] | None, int]:
        """The chance of each output that was on the list, corrected for those that nobody rated."""
        if drawn is None:
            return None, 0
        listed = {
            place if self._judges(place) else only.get((place.case, place.model), place): chance
            for place, chance in drawn.chances.items()
        }
        unlisted = [place for place in self.raters if place not in listed]
        if unlisted:
            first = unlisted[0]
            raise RefBenchError(
                f"{counted(len(unlisted), 'rated output')} are not on the list of those sampled (first: {first.case} "
                f"of {first.model}): give the list that these people had by --sampled"
            )
        # An output that the judge has no mark of is in none of the numbers, rated or not: others do not stand for it.
        of_judge = DrawnList({p: c for p, c in listed.items() if p.case in self.cases and self._judges(p)})
        kept, lost = of_judge.rated(self.raters.keys())
        return kept.chances, lost

    def of(
        self, places: Sequence[Place], cheap: Sequence[float], rated: Mapping[Place, tuple[float, float]]
    ) -> SampledMarks:
        """These outputs, each with the share of the number that its case has; `rated` are mark and noise."""
        case = np.array([self.cases[place.case] for place in places], dtype=np.intp)
        there = np.zeros(len(self.cases), dtype=np.bool_)
        there[case] = True
        of_case = self._overall.weights(there)
        pictures = np.bincount(case, minlength=len(self.cases))
        n = len(rated) / max(len(places), 1)
        chances = [self.chances[p].probability if self.chances is not None and p in self.chances else n for p in places]
        return SampledMarks(
            weight=(of_case / np.maximum(pictures, 1))[case],
            cheap=np.array(cheap, dtype=np.float64),
            costly=np.array([rated[p][0] if p in rated else np.nan for p in places]),
            probability=np.array(chances, dtype=np.float64),
            noise=np.array([rated[p][1] if p in rated else 0.0 for p in places]),
            case=case,
        )

    def of_model(self, model: str) -> SampledMarks:
        judged = self.judged[model]
        rated = {
            place: (float(np.mean(self.raters[place])), self.noise / len(self.raters[place]))
            for place in judged
            if place in self.raters
        }
        return self.of(list(judged), list(judged.values()), rated)

    def of_pair(self, first: str, second: str) -> SampledMarks | None:
        """The differences of two models on the pictures that both have; None where people rated mostly other ones of
        each, or where the two were not sampled together."""
        a, b = ({(p.case, p.seed): p for p in self.judged[model]} for model in (first, second))
        shared = [at for at in a if at in b]
        joint = [at for at in shared if a[at] in self.raters and b[at] in self.raters]
        most = max((sum(p in self.raters for p in side.values()) for side in (a, b)), default=0)
        if not joint or len(joint) < _JOINT * most:
            return None
        if self.chances is not None and any(self.chances[a[at]] != self.chances[b[at]] for at in joint):
            return None
        means = {p: float(np.mean(self.raters[p])) for at in joint for p in (a[at], b[at])}
        noise = {p: self.noise / len(self.raters[p]) for p in means}
        rated = {a[at]: (means[a[at]] - means[b[at]], noise[a[at]] + noise[b[at]]) for at in joint}
        cheap = [self.judged[first][a[at]] - self.judged[second][b[at]] for at in shared]
        return self.of([a[at] for at in shared], cheap, rated)


def _seed(mark: Mark) -> int | None:
    try:
        return int(mark.repeat) if mark.repeat else None
    except ValueError:
        case = mark.item.case
        raise RefBenchError(f"the mark of {case} has seed {mark.repeat[:40]!r}, which is no whole number") from None
