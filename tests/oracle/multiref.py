"""MultiRef-Bench by its paper: the mean of each reference type, their average with errors turned round, three marks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.core import AWAY, Book, Case, Draw, Mean, Measure, State, Where, average, failed, macro, scaled
from oracle.creval import SORRY

AXES = {"IQ": "image_quality", "IF": "instruction_following", "SF": "source_fidelity"}
TYPES = ("bbox", "semantic_map", "mask", "depth", "canny", "sketch", "caption", "pose", "subject", "style")
ERRORS = ("depth", "canny", "sketch")
LOCAL = {
    "sketch": "sketch@sketch_dodge",
    "bbox": "bbox@yolov4_tiny",
    "mask": "mask@u2netp",
    "pose": "pose@blazepose",
    "subject": "subject@mobilenet_v2",
    "style": "style@mobilenet_v2",
}
LAPTOP = {"canny": "canny", **LOCAL}
TYPE_OF = {**{t: t for t in TYPES}, **{part: t for t, part in LOCAL.items()}}
JUDGEABLE = ("style", "subject", "caption", "sketch", "semantic_map")
MARKS = tuple(f"judged_{t}" for t in JUDGEABLE)
SEVERAL = ("subject", "pose")
FURTHER = {f"{part}#{n}": (part, n) for part in TYPE_OF if TYPE_OF[part] in SEVERAL for n in (2, 3, 4)}
MEASURED = (*TYPE_OF, *FURTHER, "inception_mean", "aesthetics")
DERIVED = ("fid", "fidelity", "fidelity@local")
CATEGORIES = (
    "element_replacement",
    "element_addition",
    "style_appearance",
    "spatial_environment",
    "attribute_transfer",
)
SCALE = {**dict.fromkeys((*AXES, *MARKS), 5.0), "caption": 50.0, "aesthetics": 10.0}


def of_type(case: Case, kind: str) -> list[Mapping[str, Any]]:
    return [r for r in case["details"]["references"] if r["type"] == kind]


def types_of(cases: Sequence[Case]) -> list[str]:
    return [t for t in TYPES if any(of_type(case, t) for case in cases)]


def away(case: Case) -> set[str]:
    """Nothing is measured in the real-world split; in the other, only the types that a case has references of."""
    gone = set(MARKS)  # the judge is asked about single references only where a run is set to
    if case["details"]["split"] != "synthetic":
        return gone | {*MEASURED, *DERIVED}
    for part, kind in TYPE_OF.items():
        references = of_type(case, kind)
        usable = all(r["picture"] is not None or r["caption"] for r in references)
        if not references or not usable or len(references) > (4 if kind in SEVERAL else 1):
            gone.add(part)
        elif kind == "sketch":
            drew = references[0]["extractor"]
            if drew != "sketch_dodge" if part == "sketch@sketch_dodge" else drew not in ("", "sketch"):
                gone.add(part)
    return gone | {more for more, (part, n) in FURTHER.items() if part in gone or len(of_type(case, TYPE_OF[part])) < n}


def read(case: Case, part: str, reply: str) -> Draw:
    """A JSON object with three whole marks from 1 to 5; each has a state of its own."""
    if not reply.strip():
        return dict.fromkeys(AXES, failed("empty_reply"))
    if not reply.startswith("{"):
        return dict.fromkeys(AXES, failed("refused" if reply.startswith(SORRY) else "unparsable"))
    said: dict[str, list[Any]] = {}
    for line in reply.splitlines():
        for key, value in json.loads(line).items():
            said.setdefault(key, []).append(value)
    found = {}
    for axis, label in AXES.items():
        marks = set(said.get(label, ()))
        if len(marks) != 1:
            found[axis] = failed("unparsable")
        else:
            (mark,) = marks
            fits = 1 <= mark <= 5 and mark == int(mark)
            found[axis] = State(float(mark)) if fits else failed("out_of_range")
    return found


def derive(paper: bool) -> Any:
    def derived(case: Case, draw: Draw) -> Draw:
        if case["details"]["split"] != "synthetic":
            return dict.fromkeys(DERIVED, AWAY)
        found: Draw = {}
        means = {}
        for part, kind in TYPE_OF.items():
            count = min(len(of_type(case, kind)), 4) or 1
            means[part] = first_lost([draw[part], *(draw[f"{part}#{n}"] for n in range(2, count + 1))])
            if count > 1:
                found[part] = means[part]
        types = types_of([case])
        local = [LAPTOP[t] for t in types if t in LAPTOP and LAPTOP[t] not in away(case)]
        found["fid"] = draw["inception_mean"] if paper else AWAY
        found["fidelity"] = first_lost([good(t, means[t]) for t in types]) if types else AWAY
        found["fidelity@local"] = first_lost([good(p, means[p]) for p in local]) if local else AWAY
        return found

    return derived


def first_lost(values: Sequence[State]) -> State:
    """The mean; without one of the values there is none: because it does not concern the case, has failed, or is still
    to be measured, in this order."""
    for reason in (lambda s: s.away, lambda s: s.failed, lambda s: s.unasked):
        lost = next((state for state in values if reason(state)), None)
        if lost is not None:
            return lost
    return State(sum(state.value or 0.0 for state in values) / len(values))


def good(part: str, state: State) -> State:
    """From 0 (bad) to 1 (good)."""
    if state.value is None:
        return state
    if TYPE_OF[part] in ERRORS:
        return State(1.0 - state.value)
    return State(min(1.0, max(0.0, state.value / (50.0 if part == "caption" else 1.0))))


def slices(cases: Sequence[Case]) -> list[Where]:
    def where(level: str, **names: str) -> list[Where]:
        ids = tuple(c["id"] for c in cases if all(c["groups"].get(k) == v for k, v in names.items()))
        return [Where({"level": level, **names}, ids)] if ids else []

    real = "real-world"
    categories = [w for c in (*CATEGORIES, "unknown") for w in where("category", split=real, category=c)]
    known = tuple(w for w in categories if w.name != "unknown")
    splits = [
        Where(w.label, w.cases, known if split == real else ())
        for split in ("synthetic", real)
        for w in where("split", split=split)
    ]
    combinations = dict.fromkeys(c["groups"]["combination"] for c in cases if "combination" in c["groups"])
    counts = dict.fromkeys(c["groups"]["n_refs"] for c in cases)
    return [
        Where({"level": "overall"}, tuple(c["id"] for c in cases), tuple(splits)),
        *splits,
        *categories,
        *(w for c in combinations for w in where("combination", split="synthetic", combination=c)),
        *(w for split in ("synthetic", real) for n in counts for w in where("n_refs", split=split, n_refs=n)),
    ]


def summarise(paper: bool) -> Any:
    def summary(mean: Mean, where: Where, cases: Mapping[str, Case]) -> dict[str, float | None]:
        types = types_of([cases[case] for case in where.cases])
        found = {axis: scaled(macro(mean, axis, where), 1 / 5) for axis in AXES}
        others = (*MARKS, *TYPE_OF, "aesthetics", "fidelity", "fidelity@local", *(("fid",) if paper else ()))
        for name in others:
            found[name] = scaled(mean(name, where.cases), 1 / SCALE.get(name, 1.0))
        turned = [None if found[t] is None else 1 - found[t] if t in ERRORS else found[t] for t in types]
        found["avg"] = average(turned) if types and None not in turned else None
        return found

    return summary


def _book(paper: bool) -> Book:
    ranges = {**dict.fromkeys((*AXES, *MARKS), (1.0, 5.0)), "fidelity": (0.0, 1.0), "fidelity@local": (0.0, 1.0)}
    for part, kind in TYPE_OF.items():
        ranges[part] = (
            (-1.0, 1.0) if kind in ("subject", "style") else (0.0, 100.0) if kind == "caption" else (0.0, 1.0)
        )
    names = (*AXES, *MARKS, *TYPE_OF, "fidelity@local", "fidelity")
    unbounded = ("aesthetics", *(("fid",) if paper else ()))
    return Book(
        metrics=(*AXES, *MARKS, *MEASURED, *DERIVED),
        measures=(
            *(Measure(name, (name,), *ranges[name]) for name in names),
            *(Measure(name, (name,)) for name in unbounded),
            Measure("avg", TYPES),
        ),
        slices=slices,
        read=read,
        parts={"overall": tuple(AXES)},
        summarise=summarise(paper),
        measured=frozenset(MEASURED),
        away=away,
        derive=derive(paper),
        ranges=ranges,
        lower=frozenset(part for part, kind in TYPE_OF.items() if kind in ERRORS),
    )


BOOKS = {"corrected": _book(False), "paper": _book(True)}


def ratios(rows: Mapping[tuple[Any, ...], dict[str, Any]]) -> dict[tuple[Any, ...], float | None]:
    """Every value as a share of the model `truth`'s, errors turned round on both sides."""
    found = {}
    for (model, judge, protocol, metric, where), row in rows.items():
        truth = rows.get(("truth", judge, protocol, metric, where))
        if truth is not None and metric != "fid":
            mine, whole = (
                None if r["value"] is None else 1 - r["value"] if TYPE_OF.get(metric) in ERRORS else r["value"]
                for r in (row, truth)
            )
            share = mine / whole if mine is not None and whole is not None and whole > 0 else None
            found[model, judge, protocol, f"{metric} / truth", where] = share
    return found
