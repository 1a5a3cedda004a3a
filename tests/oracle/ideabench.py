"""IDEA-Bench by its paper: six yes-or-no answers behind two gates, three calls, tasks to categories to overall."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.core import AWAY, UNASKED, Book, Case, Draw, Mean, Measure, State, Where, average, failed, macro, scaled
from oracle.creval import SORRY

CALLS, QUESTIONS = (1, 2, 3), (1, 2, 3, 4, 5, 6)
PARTS = tuple(f"q{q}#{c}" for c in CALLS for q in QUESTIONS)
NO_OUTPUT = ("missing_output", "undefined")
TRANSIENT = ("api_error", "timeout", "worker_died", "missing_output", "missing_reply", "not_measured", "budget")
LISTED = {
    *("0024", "0026", "0028", "0063", "0072", "0064", "0065", "0073"),
    *("0014", "0015", "0016", "0017", "0044", "0045", "0046", "0049"),
}


def read_paper(case: Case, part: str, reply: str) -> Draw:
    """One digit behind `score`, whatever digit it is."""
    found = re.search(r"""["']score["']\s*:\s*(\d)""", reply)
    return {part: State(float(found[1])) if found else failed(lost(reply))}


def lost(reply: str) -> str:
    return "refused" if reply.startswith(SORRY) else "unparsable" if reply.strip() else "empty_reply"


def read_corrected(case: Case, part: str, reply: str) -> Draw:
    said = re.findall(r'"score": (-?\d+)', reply)
    if not said:
        return {part: failed(lost(reply))}
    if len(set(said)) > 1:
        return {part: failed("unparsable")}
    return {part: State(float(said[0])) if said[0] in ("0", "1") else failed("out_of_range")}


def call_score(answers: Sequence[float | None], paper: bool) -> float | None:
    """A sixth of what counts. Behind a shut gate everything is 0; behind one that nobody knows nothing is certain."""
    if paper and None in answers:
        return None
    total = 0.0
    for pair in (answers[:2], answers[2:4], answers[4:]):
        if None in pair:
            return None
        total += sum(answer for answer in pair if answer is not None)
        if 0 in pair:
            break
    return total / 6


def derive(paper: bool) -> Any:
    def derived(case: Case, draw: Draw) -> Draw:
        if len(case["details"]["auto"]) != 6:
            return {"score": AWAY, "failure_rate": AWAY}
        if any(draw[part].unasked for part in PARTS):
            return {"score": UNASKED, "failure_rate": UNASKED}
        if all(draw[part].away for part in PARTS):
            return {"score": AWAY, "failure_rate": AWAY}
        calls = [call_score([draw[f"q{q}#{c}"].value for q in QUESTIONS], paper) for c in CALLS]
        return {"score": _score(calls, draw), "failure_rate": _rate(draw)}

    return derived


def _score(calls: Sequence[float | None], draw: Draw) -> State:
    """The mean of the calls that have a score. Otherwise why: the judge's first failure before the model's."""
    known = [call for call in calls if call is not None]
    if known:
        return State(sum(known) / len(known))
    lost = [draw[part] for part in PARTS if draw[part].failed]
    of_judge = [state for state in lost if state.failed not in NO_OUTPUT]
    if of_judge:
        return of_judge[0]
    return lost[0] if len(lost) == len(PARTS) else failed("missing_reply")


def _rate(draw: Draw) -> State:
    """Of the questions that could be asked, those of which no reply was 0 or 1."""
    asked = bad = 0
    for q in QUESTIONS:
        replies = [draw[f"q{q}#{c}"] for c in CALLS]
        if any(reply.value in (0.0, 1.0) for reply in replies):
            asked += 1
            continue
        lost = [reply for reply in replies if reply.failed]
        if lost and all(reply.failed in NO_OUTPUT or reply.by_model for reply in lost):
            continue  # without a picture nobody was asked
        again = [reply for reply in lost if reply.failed in TRANSIENT]
        if again:
            return again[0]
        asked += 1
        bad += 1
    return State(bad / asked) if asked else AWAY


def slices(paper: bool) -> Any:
    def found(cases: Sequence[Case]) -> list[Where]:
        judged = [case for case in cases if len(case["details"]["auto"]) == 6]
        tree: dict[str, dict[str, dict[str, list[str]]]] = {}
        uids = {}
        for case in judged:
            g = case["groups"]
            tree.setdefault(g["category"], {}).setdefault(g["group"], {}).setdefault(g["task"], []).append(case["id"])
            uids[g["category"], g["task"]] = case["details"]["uid"]
        tasks, groups, categories = [], [], []
        for category in [c for c in ("T2I", "I2I", "Is2I", "T2Is", "I(s)2Is") if c in tree]:
            of_category, grouped = [], []
            for group, inside in tree[category].items():
                label = {"level": "task", "category": category, "group": group}
                leaves = [Where({**label, "task": task}, tuple(ids)) for task, ids in inside.items()]
                of_category += leaves
                grouped.append(_over({"level": "group", "category": category, "group": group}, leaves))
            tasks += of_category
            groups += grouped
            counted = [t for t in of_category if not paper or uids[category, t.name] in LISTED]
            if counted:
                categories.append(_over({"level": "category", "category": category}, counted))
        return [_over({"level": "overall"}, categories), *categories, *(() if paper else groups), *tasks]

    return found


def _over(label: Mapping[str, str], parts: Sequence[Where]) -> Where:
    return Where(label, tuple(case for part in parts for case in part.cases), tuple(parts))


def summarise(paper: bool) -> Any:
    def summary(mean: Mean, where: Where, cases: Mapping[str, Case]) -> dict[str, float | None]:
        found = {
            "failure_rate": scaled(mean("failure_rate", where.cases), 100),
            "score": scaled(macro(mean, "score", where), 100),
        }
        if not paper:
            found["score@groups"] = scaled(by_groups(mean, where, cases), 100)
        return found

    return summary


def by_groups(mean: Mean, where: Where, cases: Mapping[str, Case]) -> float | None:
    """Tasks to groups, groups to categories, categories to overall."""
    if where.label["level"] == "overall":
        return average(by_groups(mean, part, cases) for part in where.parts)
    if where.label["level"] != "category":
        return macro(mean, "score", where)
    groups: dict[str, list[Where]] = {}
    for task in where.parts:
        groups.setdefault(task.label["group"], []).append(task)
    return average(average(mean("score", task.cases) for task in tasks) for tasks in groups.values())


def _book(paper: bool) -> Book:
    grouped = () if paper else (Measure("score@groups", ("score",), 0, 1),)
    return Book(
        metrics=(*PARTS, "failure_rate", "score"),
        measures=(Measure("failure_rate", ("failure_rate",), 0, 1), *grouped, Measure("score", ("score",), 0, 1)),
        slices=slices(paper),
        read=read_paper if paper else read_corrected,
        parts={part: (part,) for part in PARTS},
        names_gaps=True,
        summarise=summarise(paper),
        away=lambda case: set() if len(case["details"]["auto"]) == 6 else {*PARTS, "score", "failure_rate"},
        derive=derive(paper),
        ranges={"score": (0.0, 1.0), "failure_rate": (0.0, 1.0)},
        zeros=frozenset(NO_OUTPUT) if paper else frozenset(),
        lower=frozenset({"failure_rate"}),
    )


BOOKS = {"corrected": _book(False), "paper": _book(True)}
