"""Answers to scores to the table: the gates of one call, the mean of the three calls, and which questions failed.

In per cent: a task is the mean over its cases, a category the unweighted mean over its tasks (or over groups of tasks,
as the human tables have it), overall the mean over categories. Daggers mark results that were painted from prompts
that a language model rewrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from refbench.benchmarks.ideabench.cases import CALLS, CATEGORIES, LISTED, PARTS, QUESTIONS, Category, IdeaCase, part
from refbench.benchmarks.kit.aggregate import macro_slice
from refbench.benchmarks.kit.definition import Derived
from refbench.benchmarks.kit.published import FailureRate, PublishedValue, published_values, with_totals
from refbench.failure import Failure
from refbench.output import Output, rephrased
from refbench.score import Score
from refbench.tables.table import Aggregate, Has, Mean, Measure, Slice, Summary, left_out, slice_mean

SCORE, FAILURE_RATE = "score", "failure_rate"
NO_QUESTIONS = "the case has no six questions for a judge"
NO_OUTPUT = "there was no output to ask about"
NEVER_ASKED = frozenset({"missing_output", "undefined"})
"""Failures of the model under test, not of the judge: no question was put."""


def gated(answers: Sequence[float | None]) -> list[float | None]:
    """The six answers of one call behind the gates; None where an answer is missing and counts.

    Unless the first two are both earned, the other four count as 0; unless the next two are, so do the last two.
    A gate that a missing answer leaves open or shut, nobody knows, makes what is behind it unknown.
    """
    first, second, third = answers[:2], answers[2:4], answers[4:]
    opened = _opens(first)
    second = _behind(opened, second)
    opened = False if opened is False else _opens(second) if opened else None
    return [*first, *second, *_behind(opened, third)]


def _opens(answers: Sequence[float | None]) -> bool | None:
    if any(answer == 0 for answer in answers):
        return False
    return None if None in answers else True


def _behind(opened: bool | None, answers: Sequence[float | None]) -> list[float | None]:
    if opened is None:
        return [None] * len(answers)
    return list(answers) if opened else [0.0] * len(answers)


def call_score(answers: Sequence[float | None], protocol: str) -> float | None:
    """A sixth of the sum behind the gates. In `paper` all six answers must be there, as the released scorer wants;
    in `corrected` only those that count: what is behind a shut gate is 0 whatever the judge said."""
    if protocol == "paper" and None in answers:
        return None
    counted = [answer for answer in gated(answers) if answer is not None]
    return sum(counted) / QUESTIONS if len(counted) == QUESTIONS else None


def derived(case: IdeaCase, protocol: str, scores: Mapping[str, Score]) -> dict[str, Derived]:
    """The case's score, the mean of the calls that have one, and its share of questions that no call answered."""
    if not case.details.judged:
        return {}
    calls = [[scores[part(q, call)] for q in range(1, QUESTIONS + 1)] for call in range(1, CALLS + 1)]
    answers = [score for call in calls for score in call]
    if any(answer.not_asked for answer in answers):
        return {SCORE: None, FAILURE_RATE: None}
    values = [call_score([score.value for score in call], protocol) for call in calls]
    known = [value for value in values if value is not None]
    return {SCORE: sum(known) / len(known) if known else _why(answers), FAILURE_RATE: failure_share(calls)}


def _why(answers: Sequence[Score]) -> Failure | str:
    """Why no call has a score: the judge's first failure, or, where no question concerns the model, why not.

    `missing_output`, which `paper` makes a 0, is kept for cases without any picture: of an incomplete set some
    questions were answered, and the released scorer refuses it.
    """
    failures = [score.failure for score in answers if score.failure is not None]
    if not failures:
        return next((score.not_applicable for score in answers if score.not_applicable is not None), NO_OUTPUT)
    others = [failure for failure in failures if failure.kind not in NEVER_ASKED]
    if others or len(failures) == len(answers):
        return (others or failures)[0]
    return Failure(kind="missing_reply", detail=f"not every question could be asked: {failures[0].detail}")


def failure_share(calls: Sequence[Sequence[Score]]) -> float | Failure | str:
    """Table 11: of the six questions, those of which no reply was 0 or 1; a text where none could be asked."""
    states = [failed_question(question) for question in zip(*calls, strict=True)]
    if open_still := [state for state in states if isinstance(state, Failure)]:
        return open_still[0]
    asked = [state for state in states if isinstance(state, bool)]
    if asked:
        return sum(asked) / len(asked)
    return next((score.not_applicable for call in calls for score in call if score.not_applicable), NO_OUTPUT)


def failed_question(replies: Sequence[Score]) -> bool | Failure | Literal["to be asked"] | None:
    """Whether no reply was 0 or 1; None where it could not be asked, a Failure where that is not settled yet."""
    if any(reply.value in (0.0, 1.0) for reply in replies):
        return False
    if any(reply.not_asked for reply in replies):
        return "to be asked"
    concerned = [reply for reply in replies if reply.not_applicable is None]
    failures = [reply.failure for reply in concerned if reply.failure is not None]
    if not concerned or (failures and all(f.kind in NEVER_ASKED or f.by_model for f in failures)):
        return None
    # An endpoint that could not be reached has not failed to answer: the next run asks again.
    return next((failure for failure in failures if failure.transient), True)


def not_applicable(case: IdeaCase) -> dict[str, str]:
    """Nothing concerns a case that has questions for people only."""
    return {} if case.details.judged else dict.fromkeys((*PARTS, SCORE, FAILURE_RATE), NO_QUESTIONS)


def notes(cases: Sequence[IdeaCase], outputs: Iterable[Output]) -> list[str]:
    """One sentence for each model of which some pictures were painted from rewritten prompts."""
    place: dict[str, int] = {name: number for number, name in enumerate(CATEGORIES)}
    ordered = sorted(cases, key=lambda case: place[case.groups["category"]])
    return rephrased(outputs, {case.id: case.groups["category"] for case in ordered}, "category")


PER_CENT = 100.0
BY_GROUPS = "score@groups"

_RATE = Measure(FAILURE_RATE, (FAILURE_RATE,))
_SCORE = Measure(SCORE, (SCORE,))
_GROUPED = Measure(BY_GROUPS, (SCORE,))

ABSENT = dict.fromkeys(NEVER_ASKED, 0.0)
"""What a case without any output counts in `paper`: the published leaderboards score what a model cannot do as 0."""


@dataclass(frozen=True)
class IdeaSlice(Slice):
    """A slice that also knows itself as a mean over groups of tasks."""

    by_groups: Slice | None = None


def slices(cases: Sequence[IdeaCase], *, listed: bool) -> list[Slice]:
    """Overall, categories, groups and tasks of the cases that a judge can score.

    With `listed`, a category is made of the tasks that the released scorer's list has in it by their uids, whatever
    the flags say; the other tasks are tabled, and are in no mean.
    """
    judged = np.array([case.details.judged for case in cases], dtype=np.bool_)
    names = {key: np.array([case.groups[key] for case in cases]) for key in ("category", "group", "task")}
    known = np.ones(len(cases), dtype=np.bool_)
    if listed:
        placed = [_placed(case) for case in cases]
        known = np.array([category is not None for category in placed], dtype=np.bool_)
        names["category"] = np.array(
            [found or case.groups["category"] for found, case in zip(placed, cases, strict=True)]
        )
    categories: list[IdeaSlice] = []
    groups: list[Slice] = []
    tasks: list[Slice] = []
    for category in CATEGORIES:
        here = judged & (names["category"] == category)
        of_category: list[Slice] = []
        grouped: list[Slice] = []
        for group in dict.fromkeys(names["group"][here].tolist()):
            inside = here & (names["group"] == group)
            members = [
                Slice("task", {"category": category, "group": group, "task": task}, inside & (names["task"] == task))
                for task in dict.fromkeys(names["task"][inside].tolist())
            ]
            of_category += members
            grouped.append(macro_slice("group", {"category": category, "group": group}, members))
        tasks += of_category
        counted = [task for task in of_category if known[task.members].any()]
        if not listed:
            groups += grouped
        if counted:
            categories.append(_in_both_ways("category", {"category": category}, counted, grouped))
    if not categories:
        return [Slice("overall", {}, judged & known), *groups, *tasks]
    overall = _in_both_ways("overall", {}, categories, [where.by_groups or where for where in categories])
    return [overall, *categories, *groups, *tasks]


def _placed(case: IdeaCase) -> Category | None:
    """The category in which the released scorer counts a case."""
    return next((category for category, uids in LISTED.items() if case.details.uid in uids), None)


def _in_both_ways(level: str, names: Mapping[str, str], tasks: Sequence[Slice], groups: Sequence[Slice]) -> IdeaSlice:
    by_tasks = macro_slice(level, names, tasks)
    return IdeaSlice(level, names, by_tasks.members, by_tasks.parts, by_groups=macro_slice(level, names, groups))


def summarise(mean: Mean, where: Slice, measures: Sequence[Measure]) -> Summary:
    """The score by tasks and by groups, and the share of questions that the judge did not answer, over all of them."""
    by_groups = (where.by_groups if isinstance(where, IdeaSlice) else None) or where
    known = {
        FAILURE_RATE: lambda: mean(FAILURE_RATE, where.members),
        SCORE: lambda: slice_mean(mean, SCORE, where),
        BY_GROUPS: lambda: slice_mean(mean, SCORE, by_groups),
    }
    return {measure.name: PER_CENT * known[measure.name]() for measure in measures}


def gaps(has: Has, measure: Measure, where: Slice) -> str | None:
    """The parts that nothing was scored in: a category that the model cannot do, a task whose cases all failed."""
    return None if measure.name == FAILURE_RATE else left_out(has, measure, where)


def _aggregate(measures: tuple[Measure, ...], *, listed: bool, imputed: dict[str, float]) -> Aggregate:
    return Aggregate(
        measures,
        partial(slices, listed=listed),
        lambda mean, where: summarise(mean, where, measures),
        imputed=imputed,
        gaps=gaps,
    )


CORRECTED = _aggregate((_RATE, _GROUPED, _SCORE), listed=False, imputed={})
PAPER = _aggregate((_RATE, _SCORE), listed=True, imputed=ABSENT)


def published() -> list[PublishedValue]:
    """All cells with a number. No model's pictures or replies were released, so none has a `model`."""
    return published_values(__package__, {"overall": (), "category": ("category",), "group": ("category", "group")})


def failure_table(scores: Iterable[Score], protocol: str = "paper") -> list[FailureRate]:
    """A row for each judge and model, then the total of the judge."""
    replies: dict[tuple[str, str, str, int, int], list[Score]] = defaultdict(list)
    for score in scores:
        if score.protocol == protocol and score.metric in PARTS and score.judge and score.not_applicable is None:
            question, _ = PARTS[score.metric]
            replies[score.judge, score.model, score.case, score.seed, question].append(score)
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (judge, model, *_), said in replies.items():
        state = failed_question(said)
        if state is not None:
            place = counts[judge, model]
            place[0] += isinstance(state, bool)
            place[1] += state is True
            place[2] += not isinstance(state, bool)
    rows = [
        FailureRate(judge=judge, model=model, questions=asked, failed=failed, open=undecided)
        for (judge, model), (asked, failed, undecided) in counts.items()
    ]
    return with_totals(rows)
