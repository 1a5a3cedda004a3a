"""MultiBanana by its paper: five marks from 1 to 10, total 3:3:1:1:1, unweighted means over tasks above a task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.core import Book, Case, Draw, Mean, Measure, State, Where, failed, joined, macro
from oracle.creval import SORRY

LABELS = {
    "instruction_alignment": "Instruction Alignment",
    "reference_consistency": "Reference Consistency",
    "background_subject_match": "Background-Subject Match",
    "physical_realism": "Physical Realism",
    "visual_quality": "Visual Quality",
}
CRITERIA = tuple(LABELS)
SHARES = (3, 3, 1, 1, 1)
TAGS = ("cross_domain", "scale", "rare", "multilingual", "font")


def read_paper(case: Case, part: str, reply: str) -> Draw:
    """The first whole number behind each label, anywhere; all five or none."""
    found = {c: re.search(rf"{label}:\s*(\d+)", reply) for c, label in LABELS.items()}
    if None in found.values():
        return dict.fromkeys(CRITERIA, failed("unparsable" if reply.strip() else "empty_reply"))
    return {c: State(float(match[1])) for c, match in found.items() if match}


def read_corrected(case: Case, part: str, reply: str) -> Draw:
    """The marks of the block at the end, each for itself, from 1 to 10."""
    if not reply.strip():
        return dict.fromkeys(CRITERIA, failed("empty_reply"))
    block = reply.rpartition("\n\n")[2]
    found = {}
    for criterion, label in LABELS.items():
        said = re.search(rf"^{label}: (-?\d+(?:\.\d+)?)\.?$", block, re.MULTILINE)
        if not said:
            found[criterion] = failed("unparsable")
        elif 1 <= float(said[1]) <= 10:
            found[criterion] = State(float(said[1]))
        else:
            found[criterion] = failed("out_of_range")
    if reply.startswith(SORRY) and not any(label in reply for label in LABELS.values()):
        return dict.fromkeys(CRITERIA, failed("refused"))
    return found


def slices(cases: Sequence[Case]) -> list[Where]:
    def over_tasks(label: Mapping[str, str], chosen: Sequence[Case]) -> Where:
        tasks: dict[str, list[Case]] = {}
        for case in chosen:
            tasks.setdefault(case["groups"]["task"], []).append(case)
        parts = tuple(
            Where({"level": "task", "group": of[0]["groups"]["group"], "task": task}, ids(of))
            for task, of in tasks.items()
        )
        return Where(label, ids(chosen), parts)

    def ids(chosen: Sequence[Case]) -> tuple[str, ...]:
        return tuple(case["id"] for case in chosen)

    overall = over_tasks({"level": "overall"}, cases)
    found = [overall, *overall.parts]
    for level in ("group", "n_refs"):
        for name in dict.fromkeys(case["groups"][level] for case in cases):
            here = [case for case in cases if case["groups"][level] == name]
            found.append(over_tasks({"level": level, level: name}, here))
    for tag in TAGS:
        having = [case for case in cases if tag in case["tags"]]
        without = [case for case in cases if tag not in case["tags"] and case["details"]["tags_known"]]
        for has, here in (("yes", having), ("no", without)):
            if having and here:
                found.append(Where({"level": "tag", "tag": tag, "has": has}, ids(here)))
    sources = dict.fromkeys(case["groups"]["source"] for case in cases)
    for source in sources if list(sources) != ["unknown"] else ():
        here = [case for case in cases if case["groups"]["source"] == source]
        found.append(Where({"level": "source", "source": source}, ids(here)))
    return found


def combine(draw: Draw) -> Draw:
    return {
        "total": joined([draw[c] for c in CRITERIA], lambda v: sum(s * x for s, x in zip(SHARES, v, strict=True)) / 9)
    }


def summarise(mean: Mean, where: Where, cases: Mapping[str, Case]) -> dict[str, float | None]:
    return {name: macro(mean, name, where) for name in (*CRITERIA, "total")}


def _book(read: Any) -> Book:
    return Book(
        metrics=CRITERIA,
        measures=(*(Measure(c, (c,), 1, 10) for c in CRITERIA), Measure("total", CRITERIA, 1, 10)),
        slices=slices,
        read=read,
        parts={"all": CRITERIA},
        names_gaps=True,
        summarise=summarise,
        combine=combine,
        ranges=dict.fromkeys(CRITERIA, (1.0, 10.0)),
        judges_mean=True,
    )


BOOKS = {"corrected": _book(read_corrected), "paper": _book(read_paper)}
