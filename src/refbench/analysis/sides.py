"""Several sources of scores laid over the same cases, with everything said that is not the same on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from refbench.analysis.operands import RELEASED_DIGITS, Side
from refbench.case import AnyCase
from refbench.columns import EMPTY, Columns, System, columns_of
from refbench.record import RefBenchError


@dataclass(frozen=True)
class Joined:
    """All systems over all cases that any source has; a case that a source does not have is in no state there."""

    columns: Columns
    cases: tuple[AnyCase, ...]
    models: tuple[str, ...]
    protocol: str
    seeds: Mapping[str, int]
    differences: tuple[str, ...]
    notes: tuple[str, ...]


def join_sides(sides: Sequence[Side], judge: str | None = None) -> Joined:
    """Cases are the same when their ids are; those whose content differs between runs take no part."""
    labels = _labels(sides)
    changed = _changed(sides)
    cases = _all_cases(sides, changed)
    chosen = _judges(sides, judge)
    digits = RELEASED_DIGITS if any(side.released for side in sides) else None
    parts = [_laid_out(side, labels[i], chosen[i], cases, digits) for i, side in enumerate(sides)]
    models = [labels[i][model] for i, side in enumerate(sides) for model in side.models]
    seeds = {labels[i][model]: side.seeds[model] for i, side in enumerate(sides) for model in side.models}
    shown = [_short(side, sides) for side in sides]
    differences = [
        line
        for a, b in combinations(range(len(sides)), 2)
        for line in differences_of((sides[a], shown[a], chosen[a]), (sides[b], shown[b], chosen[b]))
    ]
    if changed:
        differences.append(
            f"{len(changed)} cases have the same id but other content, and take no part (first: {sorted(changed)[0]})"
        )
    notes = dict.fromkeys(note for side in sides if side.released for note in side.notes)
    return Joined(
        columns=_stacked(parts, len(cases)),
        cases=cases,
        models=tuple(models),
        protocol=sides[0].protocol,
        seeds=seeds,
        differences=tuple(dict.fromkeys(differences)),
        notes=tuple(notes),
    )


def _labels(sides: Sequence[Side]) -> list[dict[str, str]]:
    """Names that tell all models apart: a model of the same name in two runs carries its run, and beside runs a
    released one says so."""
    count: dict[str, int] = {}
    for side in sides:
        for model in side.models:
            count[model] = count.get(model, 0) + 1
    mixed = any(not side.released for side in sides)
    return [
        {
            model: f"{model} ({_short(side, sides)})" if count[model] > 1 or (side.released and mixed) else model
            for model in side.models
        }
        for side in sides
    ]


def _short(side: Side, sides: Sequence[Side]) -> str:
    """The run's own directory name, where no other run has it."""
    short = Path(side.name).name
    return short if sum(Path(other.name).name == short for other in sides) == 1 else side.name


def _changed(sides: Sequence[Side]) -> set[str]:
    """Ids of cases that are not the same in all runs. Released figures know cases by their ids alone."""
    runs = [side for side in sides if not side.released]
    if len({side.parts["cases"] for side in runs}) <= 1:
        return set()
    keys: dict[str, str] = {}
    changed = set()
    for side in runs:
        for case in side.cases:
            if keys.setdefault(case.id, key := case.key) != key:
                changed.add(case.id)
    return changed


def _all_cases(sides: Sequence[Side], changed: set[str]) -> tuple[AnyCase, ...]:
    found: dict[str, AnyCase] = {}
    for side in sorted(sides, key=lambda side: side.released):  # whole cases before ids
        for case in side.cases:
            if case.id not in changed:
                found.setdefault(case.id, case)
    return tuple(found.values())


def _judges(sides: Sequence[Side], judge: str | None) -> list[tuple[str | None, ...]]:
    """Who judged the chosen models of each source; the one asked for, where a source has it."""
    there = [tuple(dict.fromkeys(score.judge for score in side.scores if score.model in side.models)) for side in sides]
    if judge is None:
        return there
    known = sorted({name or "none" for names in there for name in names})
    if judge.casefold() not in [name.casefold() for name in known]:
        raise RefBenchError(f"--judge {judge}: the judges are {', '.join(known)}")
    asked = [tuple(name for name in names if (name or "none").casefold() == judge.casefold()) for names in there]
    return [mine or names for mine, names in zip(asked, there, strict=True)]


def _laid_out(
    side: Side, labels: Mapping[str, str], judges: Sequence[str | None], cases: Sequence[AnyCase], digits: int | None
) -> Columns:
    """The source's columns over all cases."""
    scores = [score for score in side.scores if score.model in side.models and score.judge in judges]
    own = columns_of(scores, side.cases)
    systems: tuple[System, ...] = tuple((labels[model], judge) for model, judge in own.systems)
    position = {case.id: i for i, case in enumerate(side.cases)}
    places = [(i, position[case.id]) for i, case in enumerate(cases) if case.id in position]
    here, there = [i for i, _ in places], [j for _, j in places]

    def spread(column: np.ndarray[Any, Any], empty: float | bool) -> np.ndarray[Any, Any]:
        wide = np.full((len(systems), len(cases), column.shape[2]), empty, dtype=column.dtype)
        wide[:, here] = column[:, there]
        return wide

    rounded = own.drawn if digits is None else {m: np.round(column, digits) for m, column in own.drawn.items()}
    found = replace(own, drawn=rounded)
    return Columns(
        systems,
        **{name: {m: spread(c, empty) for m, c in getattr(found, name).items()} for name, empty in EMPTY.items()},
    )


def _stacked(parts: Sequence[Columns], n_cases: int) -> Columns:
    """All systems as one; a metric or a seed that a source does not have is in no state there."""
    metrics = sorted({metric for part in parts for metric in part.drawn})
    n_seeds = max(column.shape[2] for part in parts for column in part.drawn.values())

    def stack(name: str, metric: str, empty: float | bool) -> np.ndarray[Any, Any]:
        found = []
        for part in parts:
            column = getattr(part, name).get(metric)
            kind = np.int8 if name == "kinds" else np.asarray(empty).dtype
            wide = np.full((len(part.systems), n_cases, n_seeds), empty, dtype=kind)
            if column is not None:
                wide[:, :, : column.shape[2]] = column
            found.append(wide)
        return np.concatenate(found)

    return Columns(
        tuple(system for part in parts for system in part.systems),
        **{name: {m: stack(name, m, empty) for m in metrics} for name, empty in EMPTY.items()},
    )


Named = tuple[Side, str, Sequence[str | None]]
"""A side, what it is called, and its judges."""


def differences_of(first: Named, second: Named) -> list[str]:
    """What two sources do not share, each as words after "not the same: "."""
    (a, name_a, judges_a), (b, name_b, judges_b) = first, second
    found = []

    def unlike(what: str, mine: object, theirs: object) -> None:
        if mine != theirs:
            found.append(f"{what}: {name_a} {_said(mine)}, {name_b} {_said(theirs)}")

    same = {_folded(j) for j in judges_a} & {_folded(j) for j in judges_b}
    if not same:
        unlike("judge", ", ".join(map(_said, judges_a)), ", ".join(map(_said, judges_b)))
    unlike("cases", len(a.cases), len(b.cases))
    if a.released or b.released:
        run = b if a.released else a
        aggregate = run.bench.protocols[run.protocol].aggregate
        left = "is left out"
        if aggregate.imputed or aggregate.worst is not None:
            left = "is left out unless the protocol or --refusals gives it a value"
        found.append("content of the cases: released figures name cases by id only, so it cannot be checked")
        found.append(
            f"readers: released figures are as the release scored them, failed replies as 0; {_short(run, [run])} is "
            f"read anew, and what failed in it {left}"
        )
        return found
    unlike("subset", a.parts.get("subset"), b.parts.get("subset"))
    for judge in sorted(same - {""}):
        unlike(f"how judge {judge} was asked", _asked(a, judge), _asked(b, judge))
    for part in ("settings", "measured"):
        mine, theirs = a.parts.get(part, {}), b.parts.get(part, {})
        for key in sorted({*mine, *theirs}):
            unlike(key if part == "settings" else f"how {key} was measured", mine.get(key), theirs.get(key))
    unlike("versions of the protocol", a.parts["protocols"][a.protocol], b.parts["protocols"][b.protocol])
    unlike("pictures of the cases", a.parts.get("pictures"), b.parts.get("pictures"))
    unlike("code of the benchmark", a.parts.get("code"), b.parts.get("code"))
    texts = a.bench.source, b.bench.source
    other = [file for file in sorted({*texts[0], *texts[1]}) if texts[0].get(file) != texts[1].get(file)]
    found += [f"{file}: {name_a} and {name_b} were run with different texts" for file in other]
    if found:
        unlike("fingerprint", a.fingerprint, b.fingerprint)
    return found


def _asked(side: Side, judge: str) -> object:
    asked = {name.casefold(): who for name, who in side.parts.get("asked", {}).items()}
    return asked.get(judge)


def _folded(judge: str | None) -> str:
    return (judge or "").casefold()


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(item)}" for key, item in value.items()) or "nothing"
    return "not recorded" if value is None else str(value)
