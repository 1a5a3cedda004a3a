"""From the runs that asked about a run's references to what became of each: replies are read by the contract that they
were asked with, measurements by the bounds that are stated here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from refbench.analysis.attribution.records import (
    BESIDE,
    FOLDER,
    NETWORKS,
    WAYS,
    OutputUse,
    State,
    Use,
    Way,
)
from refbench.benchmarks.kit.definition import numbered
from refbench.benchmarks.own.cases import OwnCase, OwnDetails
from refbench.case import Case
from refbench.failure import Failure
from refbench.judges.rubric import Rubric, parse_rubric
from refbench.runs import Run
from refbench.score import Score
from refbench.tables.result import Result
from refbench.tables.scoring import run_draws

QUESTIONS = 3
"""Asked about each reference: whether it is there, distorted, doubled."""
FACE, OBJECT, FEATURES = "face_match@dlib_face", "object_count@yolov4_tiny", "reference_found@mobilenet_v2+u2netp"
"""What is measured of a reference in an output."""
SAME_FACE = 0.4
FOUND, NOT_FOUND = 0.74, 0.68
"""Likeness of a reference and the part of the output most like it: used from the one on, missing below the other. From
pasted photographs (perf/attribution.py); what a model has drawn anew is less like its reference."""
SEVERAL = 2
"""Things of the reference's kind in the output, for each in the reference, from which on it counts as doubled."""

_Place = tuple[str, str, int, str]
"""Case of the attribution, model, seed, judge."""


def attributions(run: Path | str) -> list[OutputUse]:
    """Everything that is on record about the references of a run's outputs, way by way."""
    found: list[OutputUse] = []
    for way in WAYS:
        path = Path(run) / FOLDER / way
        if (path / "run.json").is_file():
            found += by_networks(path) if way == "offline" else by_judges(path, way)
    return found


def with_attribution(result: Result, run: Path | str) -> Result:
    """A run's result with what is known of its references: a note for each model, and the items' own column."""
    found = attributions(run)
    if not found:
        return result
    by_output: defaultdict[tuple[str, str, int], dict[str, str]] = defaultdict(dict)
    for one in found:
        by_output[one.case, one.model, one.seed][seen_by(one)] = one.said()
    return replace(result, notes=(*result.notes, *notes_of(found)), references=dict(by_output))


def seen_by(one: OutputUse) -> str:
    return {"call": f"{one.by}, one call", "each": f"{one.by}, a call each", "offline": NETWORKS}[one.way]


def notes_of(found: Sequence[OutputUse]) -> list[str]:
    """Of each model: how many references its outputs use on average, where all are known, and how often that is so."""
    groups: defaultdict[tuple[str, str], list[OutputUse]] = defaultdict(list)
    for one in found:
        groups[seen_by(one), one.model].append(one)
    notes = []
    for (by, model), outputs in groups.items():
        known = sum(one.known for one in outputs)
        whole = sum(len(one.references) for one in outputs)
        used = sum(one.used for one in outputs)
        share = f"uses {used} of {known} references" if known else "no reference is known"
        notes.append(
            f"{model} {share}, by {by}; {known} of {whole} references of {len(outputs)} outputs are known, and "
            f"{sum(bool(one.images('missing')) for one in outputs)} outputs lack one"
        )
    return notes


# --- judges -----------------------------------------------------------------------------------------------------------


def by_judges(path: Path, way: Way) -> list[OutputUse]:
    """What the judges of an attribution say of each output that they were shown; what is not asked yet is unknown."""
    run = Run.open(path)
    rubric = parse_rubric(run.kept("rubric.md").decode(), "rubric.md")
    cases = {case.id: case for case in run.cases(Case[OwnDetails])}
    said: defaultdict[_Place, dict[str, Failure | bool]] = defaultdict(dict)
    for place, readings in _readings(run, rubric, cases):
        for question, reading in readings.items():
            if isinstance(said[place].get(question, _NOT_ASKED), Failure):
                said[place][question] = reading
    judges = dict.fromkeys(judge for _, _, _, judge in said)
    joined: dict[tuple[str, str, int, str], list[Use]] = {}
    for output in run.outputs():
        case = cases.get(output.case)
        if case is None or output.failure is not None:
            continue
        for judge in judges:
            answers = said.get((case.id, output.model, output.seed, judge), {})
            joined.setdefault((case.cluster, output.model, output.seed, judge), []).extend(_uses(case, answers))
    return [_output_use(place, way, uses) for place, uses in joined.items()]


_NOT_ASKED = Failure(kind="not_measured", detail="not asked yet")


def _readings(
    run: Run, rubric: Rubric, cases: Mapping[str, OwnCase]
) -> Iterator[tuple[_Place, dict[str, Failure | bool]]]:
    """By output and judge, what each reply says to each question, the first reply before the one that was asked for
    again because it could not be read."""
    (part,) = rubric.parts
    chats = [(purpose, evidence) for purpose, evidence in run.evidence() if evidence.kind == "chat"]
    for purpose, evidence in sorted(chats, key=lambda one: "+" in one[0].part):
        case = cases.get(purpose.case)
        if case is None or purpose.judge is None:
            continue
        place = purpose.case, purpose.model, purpose.seed, purpose.judge
        questions = case.details.questions
        if evidence.failure is not None or evidence.reply is None:
            failure = evidence.failure or _NOT_ASKED
            yield place, {f"Q{n}": failure for n in range(1, len(questions) + 1)}
            continue
        readings = rubric.contract(part, questions).read(evidence.reply)
        yield place, {name: one for name, one in readings.items() if isinstance(one, bool | Failure)}


def _uses(case: OwnCase, answers: Mapping[str, Failure | bool]) -> Iterator[Use]:
    pictures = [(n, one.role) for n, one in enumerate(case.request.pictures, 1) if one.role not in BESIDE]
    for number, (image, role) in enumerate(pictures):
        first = QUESTIONS * number + 1
        there, distorted, doubled = (answers.get(f"Q{first + n}", _NOT_ASKED) for n in range(QUESTIONS))
        state: State | None = None
        if there is False:
            state = "missing"  # what the other two answers say of it then means nothing
        elif there is True and not isinstance(distorted, Failure) and not isinstance(doubled, Failure):
            state = "doubled" if doubled else "distorted" if distorted else "used"
        unread = next((str(one) for one in (there, distorted, doubled) if isinstance(one, Failure)), "")
        yield Use(image=image, role=role, state=state, why="" if state else unread)


def _output_use(place: tuple[str, str, int, str], way: Way, uses: Sequence[Use]) -> OutputUse:
    case, model, seed, by = place
    ordered = tuple(sorted(uses, key=lambda one: one.image))
    return OutputUse(case=case, model=model, seed=seed, way=way, by=by, references=ordered)


# --- networks ---------------------------------------------------------------------------------------------------------


def by_networks(path: Path) -> list[OutputUse]:
    """What the networks' measurements say of each output."""
    run = Run.open(path)
    cases = {case.id: case for case in run.cases(Case[OwnDetails])}
    measured: defaultdict[tuple[str, str, int], dict[str, Score]] = defaultdict(dict)
    for score in run_draws(path):
        measured[score.case, score.model, score.seed][score.metric] = score
    joined: dict[tuple[str, str, int, str], list[Use]] = {}
    for output in run.outputs():
        case = cases.get(output.case)
        if case is None or output.failure is not None:
            continue
        scores = measured[case.id, output.model, output.seed]
        pictures = [(n, one.role) for n, one in enumerate(case.request.pictures, 1) if one.role not in BESIDE]
        uses = [
            _measured_use(image, role, {name: scores.get(numbered(name, n)) for name in (FACE, OBJECT, FEATURES)})
            for n, (image, role) in enumerate(pictures, 1)
        ]
        joined.setdefault((case.cluster, output.model, output.seed, NETWORKS), []).extend(uses)
    return [_output_use(place, "offline", uses) for place, uses in joined.items()]


def _measured_use(image: int, role: str, scores: Mapping[str, Score | None]) -> Use:
    """The face, where it is found again, else the likeness; between its two bounds the state is unknown.

    That no face or thing of the kind is found in the output says little: small detectors overlook a third of those that
    are there. So the detector is asked only whether there are several.
    """
    values = {name: score.value for name, score in scores.items() if score is not None}
    face, alike, count = (values.get(name) for name in (FACE, FEATURES, OBJECT))
    found = (face is not None and face >= SAME_FACE) or (alike is not None and alike >= FOUND)
    if found:
        return Use(image=image, role=role, state="doubled" if (count or 0) >= SEVERAL else "used")
    if alike is None:
        score = scores[FEATURES]
        why = str(score.failure) if score is not None and score.failure is not None else "not measured"
        return Use(image=image, role=role, why=why)
    if alike < NOT_FOUND:
        return Use(image=image, role=role, state="missing")
    return Use(image=image, role=role, why=f"a likeness of {alike:.2f} tells nothing")
