"""`refbench correct` as one function: a judge's numbers of all outputs, corrected by people's marks of some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from refbench.analysis.agree.people import Limits, filled_rows, read_people, with_humans
from refbench.analysis.agree.ratings import (
    MEASURED,
    CommonScale,
    Mark,
    Range,
    RaterScales,
    Ratings,
    judge_with_people,
    ratings_of,
)
from refbench.analysis.compare.records import probability
from refbench.analysis.humans.marks import RatedOutputs
from refbench.analysis.humans.sampling import DrawnList, names_seeds, read_list
from refbench.failure import Failure
from refbench.judges.panel import MEAN
from refbench.record import Record, RefBenchError, counted
from refbench.score import digits_of
from refbench.stats import Array, Design, holm
from refbench.stats.corrected import (
    FEW,
    FEWEST,
    Labels,
    Linear,
    SampledMarks,
    cheap_mean,
    corrected_mean,
    error_of,
    marks_alike,
)
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from refbench.tables.table import DRAWS, Row

_UNLIKE = 2.58
"""Standard errors by which the judge's mean of what was rated may lie off its mean of all: 1 in 100 by chance."""


@dataclass(frozen=True)
class CorrectOptions:
    """Which judge and measure, on which scale of people, under which protocol; about these cases or their kind."""

    judge: str | None = None
    metric: str | None = None
    scale: RaterScales = field(default_factory=RaterScales)
    protocol: str = "corrected"
    these_cases: bool = False
    draws: int = DRAWS


class Number(Record):
    """A number with its 95 % interval; None where there is none to be had."""

    value: float
    ci95: tuple[float, float] | None


class Corrected(Record):
    """What people would have given a model on average, or by how much more than to another (`versus`).

    `judge_alone` is on the people's scale only where `judge_on_scale` says so. `slope` is lambda, people's marks for
    one of the judge's; `worth` is how many further marks of people the judge stood for. `p` is of gaps, corrected over
    all of one judge and measure by Holm's rule.
    """

    model: str
    versus: str | None = None
    judge: str
    metric: str
    n_outputs: int
    n_rated: int
    n_rated_cases: int
    judge_alone: Number | None
    people_alone: Number | None = None
    corrected: Number | None = None
    slope: float | None = None
    correlation: float | None = None
    marks_alike: float | None = None
    worth: float | None = None
    raters_noise: float | None = None
    """The share of the corrected number's variance that comes from raters' differing on single outputs."""
    p: float | None = None
    paired: bool = False
    digits: int = 2
    failure: Failure | None = None
    sentence: str = ""


class Correction(Record):
    """All corrected numbers of a run, models first, then gaps."""

    title: str
    protocol: str
    fingerprint: str
    target: str
    judge_on_scale: bool
    lower_is_better: tuple[str, ...]
    raters: tuple[str, ...]
    random_sample: bool
    rows: tuple[Corrected, ...]
    notes: tuple[str, ...]

    @property
    def models(self) -> list[Corrected]:
        return [row for row in self.rows if row.versus is None]

    @property
    def gaps(self) -> list[Corrected]:
        return [row for row in self.rows if row.versus is not None]


def correct(
    run: Path | str, humans: Path | str, *, sampled: Path | str | None = None, options: CorrectOptions | None = None
) -> Correction:
    """Correct a run's numbers by people's marks from a CSV file. `sampled` is the list of outputs that people were
    asked to rate, where its probabilities are not in the same file."""
    asked = options or CorrectOptions()
    result = score_run(run, protocol=asked.protocol, draws=0 if asked.these_cases else asked.draws)
    return corrected_result(result, Path(humans), None if sampled is None else Path(sampled), asked)


def corrected_result(result: Result, humans: Path, sampled: Path | None, asked: CorrectOptions) -> Correction:
    """The same of a result that is there already."""
    result.needs_all_calls("a correction by people's marks")
    judged = ratings_of(result, asked.protocol)
    people = read_people(humans, metrics=judged.metrics, limits=_limits(judged, asked))
    if people.summaries:
        raise RefBenchError(f"{humans} has no column case: a correction needs people's marks of single outputs")
    measures = [name for name in judged.metrics if name in people.metrics] or [result.summary(asked.protocol)]
    if asked.metric is not None:
        if asked.metric not in measures:
            raise RefBenchError(f"--metric {asked.metric}: people's marks are of {', '.join(measures)}")
        measures = [asked.metric]
    if set(measures) & set(people.metrics):
        people = people.with_marks(mark for mark in people.marks if mark.item.metric in measures)
    kept = judged.with_marks(mark for mark in judged.marks if mark.item.metric in measures)
    ratings = with_humans(kept, people, str(humans))
    drawn = read_list(sampled, "--sampled") if sampled is not None else read_list(humans, "--humans")
    if sampled is not None and drawn is None:
        raise RefBenchError(f"--sampled {sampled}: it has no column probability; give the list that sample wrote")
    by_seed = names_seeds(list(filled_rows(humans)[0][1]))
    notes = list(ratings.notes)
    rows: list[Corrected] = []
    on_scale = True
    for measure in measures:
        scale = judge_with_people(asked.scale, judged.ranges.get(measure))
        on_scale = on_scale and scale.same_scale
        for judge in _judges(ratings, measure, asked.judge):
            marks = RatedOutputs(result, ratings, (asked.protocol, measure, judge), by_seed, drawn)
            one = _Correcting(result, marks, scale, asked)
            rows += one.rows()
            notes += one.notes
    tested = Counter((row.judge, row.metric) for row in rows if row.p is not None)
    for i, row in enumerate(rows):
        words = _sentence(row, result, asked, drawn is not None, tested[row.judge, row.metric])
        rows[i] = row.model_copy(update={"sentence": words})
    return Correction(
        title=result.bench.title,
        protocol=asked.protocol,
        fingerprint=result.table.fingerprint,
        target=_target(asked.these_cases, len(result.cases)),
        judge_on_scale=on_scale,
        lower_is_better=tuple(name for name in measures if name in result.bench.scoring.lower),
        raters=ratings.people,
        random_sample=drawn is not None,
        rows=tuple(sorted(rows, key=lambda row: row.versus is not None)),
        notes=tuple(dict.fromkeys([*_of_sample(drawn), *notes])),
    )


def _limits(judged: Ratings, asked: CorrectOptions) -> Limits:
    """People's scale; marks of measures that are not asked for may be on others."""

    def of(mark: Mark, person: bool) -> Range | None:
        measure = mark.item.metric
        taken = measure not in judged.metrics or asked.metric in (None, measure)
        return asked.scale.limits(person, judged.ranges.get(measure)) if taken else None

    return of


def _judges(ratings: Ratings, measure: str, wanted: str | None) -> list[str]:
    """The judge asked for, else the mean of the judges where there is one, else each."""
    there = list(dict.fromkeys(m.rater for m in ratings.marks if m.item.metric == measure))
    judges = [rater for rater in there if rater not in ratings.humans]
    if wanted is not None and judges != [MEASURED]:
        if wanted not in judges:
            raise RefBenchError(f"--judge {wanted}: the judges of {measure} are {', '.join(judges) or 'none'}")
        return [wanted]
    return [MEAN] if MEAN in judges else judges


class _Correcting:
    """The numbers of one judge in one measure."""

    def __init__(self, result: Result, marks: RatedOutputs, scale: CommonScale, asked: CorrectOptions) -> None:
        self.result, self.marks, self.scale, self.asked = result, marks, scale, asked
        self.design = Design.of([case.cluster for case in result.cases], [case.stratum for case in result.cases])
        self.n_cases = len(result.cases)
        self.notes: list[str] = []

    def rows(self) -> list[Corrected]:
        marks = self.marks
        if marks.lost:
            self.notes.append(f"{counted(marks.lost, 'mark')} of outputs without a mark of {marks.judge} take no part")
        if marks.not_back:
            self.notes.append(
                f"{counted(marks.not_back, 'output')} on the list have no mark in {marks.measure}: those rated stand "
                "for them, as if it were chance which came back"
            )
        if self.asked.these_cases and all(len(raters) == 1 for raters in marks.raters.values()):
            self.notes.append("one rater an output: what another would have said is in no interval about these cases")
        if marks.whole_cases:
            self.notes.append("people's marks name no seed: they are taken to be about all pictures of a case")
        rated = {place.model for place in marks.raters}
        unrated = sorted(set(marks.judged) - rated)
        if unrated:
            self.notes.append(f"people rated nothing of {', '.join(unrated)} in {marks.measure}")
        of_model = {model: marks.of_model(model) for model in sorted(rated)}
        rows = [self._of_model(model, given) for model, given in of_model.items()]
        rough = [row.model for row in rows if FEWEST <= row.n_rated_cases < FEW]
        if rough:
            self.notes.append(f"intervals of fewer than {FEW} rated cases are rough ({', '.join(rough)})")
        gaps = [self._of_gap(a, b, of_model) for a, b in combinations(of_model, 2)]
        adjusted = iter(holm([gap.p for gap in gaps if gap.p is not None]))
        rows += [g if g.p is None else g.model_copy(update={"p": next(adjusted)}) for g in gaps]
        digits = digits_of([float(np.mean(values)) for values in marks.raters.values()])
        return [row.model_copy(update={"digits": digits}) for row in rows]

    def _of_model(self, model: str, given: SampledMarks) -> Corrected:
        in_table = self._in_table(model)
        row = self._row(given, self._table_value(in_table), {"model": model})
        mean, table = (
            float(given.weight @ given.cheap / given.weight.sum()),
            None if in_table is None else in_table.value,
        )
        if table is not None and abs(mean - table) > 1e-6 * max(abs(table), 1e-9):
            self.notes.append(
                f"{model}: {self.marks.measure} in the table is no mean over these outputs ({table:.6g}, their mean is "
                f"{mean:.6g}); what is corrected is their mean"
            )
        unmarked = 0 if in_table is None else sum(in_table.failures.values()) - in_table.n_imputed
        if unmarked > 0:
            self.notes.append(
                f"{model}: {counted(unmarked, 'output')} failed or could not be judged, and are in none of its numbers"
            )
        self._look_at_sample(model, given)
        return row

    def _of_gap(self, first: str, second: str, of_model: Mapping[str, SampledMarks]) -> Corrected:
        names = {"model": first, "versus": second}
        pair = self.marks.of_pair(first, second)
        if pair is not None:
            alone = self._judges_gap(cheap_mean(pair, self.n_cases))
            return self._row(pair, alone, {**names, "paired": True})
        both = of_model[first], of_model[second]
        means = [cheap_mean(one, self.n_cases) for one in both]
        alone = self._judges_gap(means[0] - means[1])
        blank = self._blank(both[0], alone, names)
        numbers = [[corrected_mean(one, self.n_cases, tuned=tuned) for one in both] for tuned in (True, False)]
        blank = blank.model_copy(
            update={
                "n_outputs": min(len(one.case) for one in both),
                "n_rated": min(int(one.sampled.sum()) for one in both),
                "n_rated_cases": min(len(np.unique(one.case[one.sampled])) for one in both),
            }
        )
        if any(one is None for tried in numbers for one in tried):
            return self._too_few(blank)
        (a, b), (c, d) = numbers
        assert a and b and c and d
        return self._filled(blank, a - b, c - d, self._sampling(None, *both))

    def _row(self, given: SampledMarks, alone: Number | None, names: Mapping[str, object]) -> Corrected:
        blank = self._blank(given, alone, names)
        tuned, plain = (corrected_mean(given, self.n_cases, tuned=way) for way in (True, False))
        if tuned is None or plain is None:
            return self._too_few(blank)
        there = given.sampled
        share = given.weight[there] / given.probability[there]
        apart = [side - share @ side / share.sum() for side in (given.cheap[there], given.costly[there])]
        spread = float(np.sqrt((share @ apart[0] ** 2) * (share @ apart[1] ** 2)))
        r = float(share @ (apart[0] * apart[1])) / spread if spread > 0 else None
        row = blank.model_copy(update={"correlation": r, "slope": tuned.slope})
        return self._filled(row, tuned, plain, self._sampling(row.model, given))

    def _blank(self, given: SampledMarks, alone: Number | None, names: Mapping[str, object]) -> Corrected:
        return Corrected(
            **names,
            judge=self.marks.judge,
            metric=self.marks.measure,
            n_outputs=len(given.case),
            n_rated=int(given.sampled.sum()),
            n_rated_cases=len(np.unique(given.case[given.sampled])),
            judge_alone=alone,
        )

    def _too_few(self, row: Corrected) -> Corrected:
        why = f"{counted(row.n_rated_cases, 'rated case')}, it takes {FEWEST}"
        return row.model_copy(update={"failure": Failure(kind="undefined", detail=why)})

    def _filled(self, row: Corrected, tuned: Linear, plain: Linear, sampling: tuple[Array, Labels]) -> Corrected:
        these = self.asked.these_cases
        chance, strata = sampling
        contrasts = [error_of(one, self.design, chance, strata, these_cases=these) for one in (tuned, plain)]
        errors = [contrast.error for contrast in contrasts]
        alike = marks_alike(errors[0], errors[1], row.n_rated, row.n_outputs, these_cases=these)
        noise = float((tuned.noise / chance).sum())
        return row.model_copy(
            update={
                "corrected": Number(value=tuned.value, ci95=contrasts[0].interval()),
                "people_alone": Number(value=plain.value, ci95=contrasts[1].interval()),
                "marks_alike": alike,
                "worth": alike - row.n_rated,
                "raters_noise": min(noise / errors[0] ** 2, 1.0) if errors[0] > 0 and noise > 0 else None,
                "p": contrasts[0].p if row.versus is not None else None,
            }
        )

    def _sampling(self, model: str | None, *givens: SampledMarks) -> tuple[Array, Labels]:
        """The chance and the stratum of each case; the gap of two models that were sampled apart (no model) has the
        smaller chance of either, and no strata."""
        chance, strata = np.ones(self.n_cases), np.zeros(self.n_cases, dtype=np.intp)
        for given in givens:
            np.minimum.at(chance, given.case[given.sampled], given.probability[given.sampled])
        if self.marks.chances is not None and model is not None:
            names: dict[str, int] = {}
            for place, one in self.marks.chances.items():
                if place.model == model:
                    strata[self.marks.cases[place.case]] = names.setdefault(one.stratum, len(names))
        return chance, strata

    def _in_table(self, model: str) -> Row | None:
        rows = self.result.rows(model=model, metric=self.marks.measure, protocol=self.asked.protocol, level="overall")
        return next((row for row in rows if self.marks.judge in (row.judge, MEASURED) and row.value is not None), None)

    def _table_value(self, row: Row | None) -> Number | None:
        """The judge's number as the table has it, on the people's scale where both are known."""
        if row is None or row.value is None:
            return None
        ci95 = None if self.asked.these_cases else row.ci95
        return Number(value=self._scaled(row.value), ci95=ci95 and (self._scaled(ci95[0]), self._scaled(ci95[1])))

    def _scaled(self, value: float) -> float:
        return float(self.scale.mapped(np.array([value]))[0])

    def _judges_gap(self, found: Linear) -> Number:
        """On the people's scale where both are known; about these cases alone it has no error."""
        ratio = self._scaled(1.0) - self._scaled(0.0)
        no_strata = np.zeros(self.n_cases, dtype=np.intp)
        contrast = error_of(found, self.design, np.ones(self.n_cases), no_strata, these_cases=False)
        interval = None if self.asked.these_cases else contrast.interval()
        return Number(value=found.value * ratio, ci95=interval and (interval[0] * ratio, interval[1] * ratio))

    def _look_at_sample(self, model: str, given: SampledMarks) -> None:
        """Said where the judge's marks of what people rated are unlike those of all: then it was no random sample."""
        there = given.sampled
        n = int(there.sum())
        if n < FEWEST:
            return
        share = given.weight[there] / given.probability[there]
        share /= share.sum()
        weight = given.weight / given.weight.sum()
        rated, every = float(share @ given.cheap[there]), float(weight @ given.cheap)
        missed = np.maximum(1 - given.probability[there], 0)
        error = float(np.sqrt(np.sum(missed * share**2 * (given.cheap[there] - rated) ** 2) * n / (n - 1)))
        if error > 0 and abs(rated - every) > _UNLIKE * error:
            self.notes.append(
                f"{model}: {self.marks.judge} gives the outputs that were rated {rated:.4g} and all {every:.4g}, which "
                "chance alone does in less than 1 of 100 samples: look how they were chosen"
            )


def _of_sample(drawn: DrawnList | None) -> list[str]:
    if drawn is not None:
        return []
    return [
        "nobody recorded how the rated outputs were chosen: they are taken to be a random sample; if they were picked, "
        "the numbers are about outputs like those (refbench sample draws a list with known chances)"
    ]


def _target(these_cases: bool, n: int) -> str:
    return (
        f"people's mean on these {counted(n, 'case')} alone" if these_cases else "people's mean on cases of this kind"
    )


def _sentence(row: Corrected, result: Result, asked: CorrectOptions, random_sample: bool, family: int) -> str:
    """What can be pasted; a row without a number says why. `family` is over how many gaps p is corrected."""
    if row.corrected is None or row.people_alone is None or row.worth is None:
        assert row.failure is not None
        return f"{_subject(row)} cannot be corrected: {row.failure.detail}."
    what = f"{result.bench.title} {row.metric}"
    if asked.these_cases and row.n_rated == row.n_outputs and row.raters_noise is None:
        value = f"{row.corrected.value:.{row.digits}f}"
        return (
            f"By people's marks {_subject(row)} is {value} on {result.bench.title} {row.metric} (every output rated)."
        )
    corrected, alone = said(row.corrected, row.digits), said(row.people_alone, row.digits)
    head = (
        f"By people's marks {row.model} would score {corrected} on {what}"
        if row.versus is None
        else f"By people's marks {row.model} - {row.versus} is {corrected} on {what}"
    )
    of = f"{counted(row.n_rated, 'pair' if row.paired else 'output')} rated of {row.n_outputs}"
    chosen = "a random sample" if random_sample else "taken as a random sample"
    how = f"{by_whom(row.judge)} corrected by prediction-powered inference, {of}, {chosen}"
    lam = f", lambda {row.slope:.3g}" if row.slope is not None else ""
    if row.p is not None:
        lam += f"; {probability(row.p)}" + (f", Holm over {family} gaps" if family > 1 else "")
    noise = f"; marks alone {alone}; the judge was worth {worth_said(row)}"
    return f"{head} ({how}{lam}{noise}; {_target(asked.these_cases, len(result.cases))})."


def by_whom(judge: str) -> str:
    return "measurements without a judge" if judge == MEASURED else f"judge {judge}"


def _subject(row: Corrected) -> str:
    return row.model if row.versus is None else f"{row.model} - {row.versus}"


def said(number: Number, digits: int) -> str:
    """A value with its interval."""
    if number.ci95 is None:
        return f"{number.value:.{digits}f} (no interval)"
    low, high = number.ci95
    return f"{number.value:.{digits}f} (95 % CI {low:.{digits}f} to {high:.{digits}f})"


def worth_said(row: Corrected) -> str:
    """How many marks a judge stood for; of one that only added noise, none."""
    n, one = round(row.worth or 0), "pair" if row.paired else "mark"
    return f"{n} further {one}{'s' if n > 1 else ''}" if n >= 1 else f"no further {one}"
