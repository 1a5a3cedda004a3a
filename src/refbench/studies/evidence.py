"""People's marks as evidence of a run: a judge called `people`, one repeat a rater, beside the judges that were asked.

What nobody marked was not asked for; raters who are left out are not among the evidence. Importing again replaces what
an earlier import of the same study said.
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import orjson

from refbench.evidence import PEOPLE, Evidence, Purpose
from refbench.record import RefBenchError, counted
from refbench.runs import Run
from refbench.runs.ledger import digest_of
from refbench.studies.reading import Reading, Row, alphas
from refbench.studies.study import Study
from refbench.tables.scoring import benchmark_of
from refbench.tables.table import Measure

_SCORE = "score"
"""IDEA-Bench's: the share of questions answered yes, with its gates."""


def into_run(study: Study, reading: Reading, path: Path) -> str:
    """Write the marks into a run's ledger; returns what was written, in a sentence."""
    if reading.nobody_left:
        raise RefBenchError(f"--into {path}: every rater is left out by a rule, so that there is no mark to bring")
    if study.design.screen == "pair":
        raise RefBenchError(f"--into {path}: preferences are no marks of a measure: give --out, without --into")
    run = Run.open(path)
    source = study.design.source
    if source.kind != "run" or source.benchmark != run.info.benchmark:
        raise RefBenchError(f"--into {path}: the study is of {source.benchmark or source.kind}, not of this run")
    placed, told = acts_of(study, reading, run)
    if not placed:
        bare = run.info.benchmark == "own" and not run.keeps("rubric.md")
        remedy = f": it has no rubric; refbench generate with --rubric {source.rubric} --out {path} gives it one"
        raise RefBenchError(
            f"--into {path}: no mark of the study is about a measure and an output of this run{remedy if bare else ''}"
        )
    before = {
        purpose: act
        for purpose, act in run.evidence()
        if purpose.judge == PEOPLE and act.request.get(PEOPLE) == _study_key(study)
    }
    others = {
        (str(act.request.get(PEOPLE)), str(act.request.get("rater")))
        for purpose, act in run.evidence()
        if purpose.judge == PEOPLE and act.request.get(PEOPLE) != _study_key(study)
    }
    with run.writer() as writer:
        for purpose, act in placed.items():
            if purpose not in before or before[purpose].id != act.id:
                writer.add(act, purpose, instead=before[purpose].id if purpose in before else "")
        for purpose, act in before.items():
            if purpose not in placed:
                writer.retire(act.id, digest_of(act), "marks changed", time.time())
        writer.note(f"{PEOPLE} {_study_key(study)}", told)
    raters = {purpose.repeat for purpose in placed}
    studies = len({key for key, _ in others})
    there = (
        f"; marks of {counted(len(others), 'rater')} of {studies} other {'study' if studies == 1 else 'studies'} stand "
        "there already and count together with these"
        if others
        else ""
    )
    marks = sum(len(orjson.loads(act.reply or "{}")) for act in placed.values())
    outputs = len({(purpose.case, purpose.model, purpose.seed) for purpose in placed})
    return (
        f"{path}: {counted(marks, 'mark')} of {counted(outputs, 'output')} by {counted(len(raters), 'rater')} are "
        f"evidence of the judge {PEOPLE}{there}"
    )


def acts_of(study: Study, reading: Reading, run: Run) -> tuple[dict[Purpose, Evidence], str]:
    """Each rater's marks of each output as an act with its purpose, and what there is to say of all of them."""
    said = _said(study, reading, run)
    name = study.design.source.rubric or "questions of the cases"
    return _numbered(run, study, said), _told(study, reading, name)


def _study_key(study: Study) -> str:
    """The same as long as the study is: marks of a changed design replace those of the one before."""
    return study.raters.opaque("study")[:16]


_Place = tuple[str, str, int, str]
"""Case, model, seed and rater."""


def _said(study: Study, reading: Reading, run: Run) -> dict[_Place, dict[str, tuple[float, float]]]:
    """What each rater said of each output: by measure the value in the judge's units, and as it was given."""
    bench = benchmark_of(run)
    aggregate = next(iter(bench.scoring.protocols.values())).aggregate
    parts = {part for measure in aggregate.measures for part in measure.parts}
    known = {m.name: m for m in aggregate.measures if m.name in parts}
    scales = {criterion.name: (criterion.low, criterion.high) for criterion in study.design.criteria}
    scales.setdefault(_SCORE, (0.0, 1.0))
    there = {(o.case, o.model, o.seed) for o in run.outputs() if o.step is None and o.pictures}
    found: dict[_Place, dict[str, tuple[float, float]]] = defaultdict(dict)
    for row in reading.kept():
        measure = known.get(row.metric)
        if row.value is None or measure is None or row.metric not in scales:
            continue
        if (row.case, row.model, row.seed) in there:
            value = _in_units(row, measure, scales[row.metric])
            found[row.case, row.model, row.seed, row.rater][row.metric] = value, row.value
    return dict(found)


def _in_units(row: Row, measure: Measure, scale: tuple[float, float]) -> float:
    """The mark on the judge's scale, its ends on the ends of people's."""
    low, high = scale
    if measure.low is None or measure.high is None or row.value is None:
        return row.value or 0.0
    return measure.low + (row.value - low) / (high - low) * (measure.high - measure.low)


def _numbered(run: Run, study: Study, wanted: dict[_Place, dict[str, tuple[float, float]]]) -> dict[Purpose, Evidence]:
    """Each rater's marks as an act with its purpose; a rater keeps the number that an earlier import gave."""
    key = _study_key(study)
    numbers: dict[tuple[str, str], int] = {}
    for purpose, act in run.evidence():
        if purpose.judge == PEOPLE:
            numbers[str(act.request.get(PEOPLE)), str(act.request.get("rater"))] = purpose.repeat
    contents = {(o.case, o.model, o.seed): o.content for o in run.outputs() if o.step is None}
    found = {}
    for (case, model, seed, rater), said in wanted.items():
        repeat = numbers.setdefault((key, rater), max(numbers.values(), default=-1) + 1)
        purpose = Purpose(
            case=case, model=model, judge=PEOPLE, part=PEOPLE, seed=seed, repeat=repeat,
            output=contents[case, model, seed],
        )  # fmt: skip
        given = {name: value for name, (_, value) in said.items()}
        request = {PEOPLE: key, "rater": rater, "case": case, "model": model, "seed": seed, "given": given}
        reply = orjson.dumps({name: value for name, (value, _) in said.items()}).decode()
        found[purpose] = Evidence(kind="chat", request=request, reply=reply, provenance="a study with people")
    return found


def _told(study: Study, reading: Reading, name: str) -> str:
    """The number of raters and their agreement, for the notes of tables."""
    rows = reading.kept()
    raters = len({row.rater for row in rows})
    outputs = len({(row.item, row.model, row.seed) for row in rows})
    agreement = []
    for one in alphas(rows):
        if one.alpha is not None and one.metric in {criterion.name for criterion in study.design.criteria} | {_SCORE}:
            ends = f" ({one.interval[0]:.2f} to {one.interval[1]:.2f})" if one.interval else ""
            agreement.append(f"{one.metric} {one.alpha:.2f}{ends}")
    told = f"{counted(raters, 'rater')} of {counted(outputs, 'output')}"
    fixed = "fixed beforehand" if reading.beforehand else "that were changed after these marks were given"
    left = f", {len(reading.left_out)} left out by rules {fixed}" if reading.left_out else ""
    alpha = f"; their alpha: {', '.join(agreement)}" if agreement else "; their agreement is not known"
    return f"{told}{left}{alpha}; asked about {name}"
