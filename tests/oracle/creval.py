"""CREval by its paper: the share of the questions' weight that was answered right; 4:4:2; macro over dimensions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.core import Book, Case, Draw, Mean, Measure, State, Where, failed, joined, macro, scaled

METRICS = ("IF", "VC", "VQ")
WEIGHTS = {"IF": 0.4, "VC": 0.4, "VQ": 0.2}
SORRY = "I'm sorry, "


def objects(reply: str) -> list[dict[str, Any]]:
    found = []
    for text in re.findall(r"\{.*?\}", reply, re.DOTALL):
        try:
            found.append(json.loads(text.replace("\n", "")))
        except ValueError:
            continue
    return found


def read_paper(case: Case, metric: str, reply: str) -> Draw:
    """As released: exact keys, the first object whose question begins with the id; what is not answered is wrong."""
    answers = objects(reply)
    if not answers:
        return {metric: failed("unparsable" if reply.strip() else "empty_reply")}
    earned = possible = 0
    for question in case["details"]["questions"][metric]:
        said = next((a.get("answer", "") for a in answers if a.get("Question", "").startswith(question["id"])), "")
        possible += question["weight"]
        if said.strip().lower() == question["reference"].strip().lower():
            earned += question["weight"]
    return {metric: State(earned / possible)}


def yes_or_no(words: str) -> str | None:
    found = re.match(r"[\s*`]*(yes|no)\b[\s*`]*($|[(,.])", words.lower())
    return found[1] if found else None


def read_corrected(case: Case, metric: str, reply: str) -> Draw:
    """Keys in any case; blank and repeated questions do not count, abstentions are left out, gaps are failures."""
    if not reply.strip():
        return {metric: failed("empty_reply")}
    said: dict[str, set[str | None]] = {}
    words: dict[str, str] = {}
    for entry in objects(reply):
        answer = {key.lower(): value for key, value in entry.items()}
        named = re.match(r"Q\d+", answer.get("question", ""))
        if named and answer.get("answer"):
            said.setdefault(named[0], set()).add(yes_or_no(answer["answer"]))
            words[named[0]] = answer["answer"]
    if not said:
        return {metric: failed("refused" if reply.startswith(SORRY) else "unparsable")}
    earned = possible = unread = 0
    seen = set()
    for question in case["details"]["questions"][metric]:
        name, wanted = question["id"], yes_or_no(question["reference"])
        if not question["text"].strip() or name in seen:
            continue
        seen.add(name)
        if wanted is None:
            continue
        if len(said.get(name, ())) != 1:  # nothing said, or contradicting answers
            unread += 1
            continue
        (answer_,) = said[name]
        if answer_ is not None:
            weight = question["written_weight"] or question["weight"]
            possible += weight
            earned += weight * (answer_ == wanted)
    if unread:
        return {metric: failed("unparsable")}
    return {metric: State(earned / possible) if possible else failed("undefined")}


def slices(cases: Sequence[Case]) -> list[Where]:
    dimensions: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        dimensions.setdefault((case["groups"]["category"], case["groups"]["dimension"]), []).append(case["id"])
    leaves = [
        Where({"level": "dimension", "category": c, "dimension": d}, tuple(ids)) for (c, d), ids in dimensions.items()
    ]
    found = [Where({"level": "overall"}, tuple(case["id"] for case in cases))]
    for category in dict.fromkeys(c for c, _ in dimensions):
        parts = tuple(leaf for leaf in leaves if leaf.label["category"] == category)
        ids = tuple(case for part in parts for case in part.cases)
        found.append(Where({"level": "category", "category": category}, ids, parts))
    return [*found, *leaves]


def combine(draw: Draw) -> Draw:
    return {
        "avg": joined(
            [draw[m] for m in METRICS], lambda v: sum(w * x for w, x in zip(WEIGHTS.values(), v, strict=True))
        )
    }


def summarise(mean: Mean, where: Where, cases: Mapping[str, Case]) -> dict[str, float | None]:
    return {name: scaled(macro(mean, name, where), 100) for name in (*METRICS, "avg")}


def _book(read: Any, zeros: frozenset[str]) -> Book:
    return Book(
        metrics=METRICS,
        measures=(*(Measure(m, (m,), 0, 1) for m in METRICS), Measure("avg", METRICS, 0, 1)),
        slices=slices,
        read=read,
        parts={m: (m,) for m in METRICS},
        names_gaps=True,
        summarise=summarise,
        combine=combine,
        ranges=dict.fromkeys(METRICS, (0.0, 1.0)),
        zeros=zeros,
    )


STORED_AS_ZERO = frozenset({"api_error", "timeout", "refused", "empty_reply", "unparsable"})
BOOKS = {"corrected": _book(read_corrected, frozenset()), "paper": _book(read_paper, STORED_AS_ZERO)}
