"""What `why` is given: two runs or models of runs, or one run under both of its protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from refbench.analysis.compare.runs import ScoreSource, differences_of, load_sources, split_operand
from refbench.analysis.why.steps import ProtocolFix, ScoredNumber, Why, default_measure, explain
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.tables.scoring import score_run
from refbench.tables.table import columns_of

Outputs = Mapping[str, Mapping[str, Mapping[int, str]]]
"""By model, case and seed: a hash for the final pictures."""


def why(
    first: str,
    second: str,
    *,
    metric: str | None = None,
    protocol: str | None = None,
    judge: str | None = None,
    data: Path | None = None,
) -> list[Why]:
    """Why the numbers of two operands differ: each model that both have, or the two that are named."""
    places = [split_operand(word)[0] for word in (first, second)]
    if first == second:
        raise RefBenchError(f"{first} and {second} are the same: name two runs or two models, or use --protocols")
    sides = load_sources([first, second], protocol, data)
    by_place = dict(zip(dict.fromkeys(places), sides, strict=True))
    one, two = (by_place[place] for place in places)
    pairs = _models((first, one), (second, two))
    outputs = {place: _outputs(place) for place in by_place}
    names = one.name, two.name
    answers = []
    for mine, theirs in pairs:
        models = [f"{model} ({name})" for model, name in zip((mine, theirs), names, strict=True)]
        seeds = _unlike("seeds", models, [one.seeds[mine], two.seeds[theirs]])
        for judges in _judges(one, mine, two, theirs, judge):
            accounts = [
                _account(source, (model, by), outputs[place].get(model, {}))
                for source, model, by, place in zip((one, two), (mine, theirs), judges, places, strict=True)
            ]
            measure = metric or default_measure(*accounts)
            measured = _is_measured(one, measure)
            sides_of = [() if measured else (by,) for by in judges]
            differences = (
                [] if one is two else differences_of((one, names[0], sides_of[0]), (two, names[1], sides_of[1]))
            )
            differences += seeds
            if measured:  # no judge gave it, so that it is the same under each
                accounts = [replace(each, judge=None) for each in accounts]
            else:
                repeats = [_repeats(*asked) for asked in zip(places, (mine, theirs), judges, strict=True)]
                differences += _unlike("repeats", models, repeats)
            answers.append(explain(accounts[0], accounts[1], measure, differences))
            if measured:
                break
    return answers


def _is_measured(side: ScoreSource, measure: str) -> bool:
    measures = side.bench.scoring.protocols[side.protocol].aggregate.measures
    return any(m.name == measure and set(m.parts) <= side.bench.asking.measured for m in measures)


def _repeats(place: str, model: str, judge: str | None) -> int | None:
    """How often a judge was asked about a picture at most; None where that is not recorded."""
    if not (Path(place) / "run.json").is_file():
        return None
    asked = {p.repeat for p, _ in Run.open(Path(place)).evidence() if (p.model, p.judge) == (model, judge)}
    return len(asked) or None


def _unlike(what: str, names: Sequence[str], counts: Sequence[int | None]) -> list[str]:
    """Words after "not the same: ", where two known numbers differ."""
    first, second = counts
    if first is None or second is None or first == second:
        return []
    return [f"{what}: {names[0]} {first}, {names[1]} {second}"]


def why_protocols(run: str, *, metric: str | None = None, judge: str | None = None) -> list[Why]:
    """From the paper's number to the corrected one, for every model of a run."""
    place, wanted = split_operand(run)
    result = score_run(Path(place), draws=0)
    result.needs_all_calls("refbench why", place)
    bench = result.bench
    if not {"paper", "corrected"} <= set(bench.scoring.protocols):
        raise RefBenchError(f"{place}: {bench.title} has one protocol only, {', '.join(bench.scoring.protocols)}")
    outputs = _outputs(place)
    systems = list(dict.fromkeys((score.model, score.judge) for score in result.scores))
    chosen = [(m, j) for m, j in systems if wanted in (None, m) and (judge is None or (j or "none") == judge)]
    if not chosen:
        known = ", ".join(f"{m} by {j or 'no judge'}" for m, j in systems)
        raise RefBenchError(f"{run}: no such model and judge; there are {known}")
    answers = []
    for system in chosen:
        here = outputs.get(system[0], {})
        # The same replies read twice: pictures that nobody recorded are still the same.
        hashes = {case.id: here.get(case.id, {}) for case in result.cases}
        accounts = [
            _account(ScoreSource(place, bench, name, result.cases, result.scores, (system[0],), {}), system, hashes)
            for name in ("paper", "corrected")
        ]
        account = explain(accounts[0], accounts[1], metric)
        fixes = [
            ProtocolFix(
                name=change["change"],
                what=change["what"],
                delta=change["delta"][account.measure],
                items=change["items"],
            )
            for change in result.changes
            if (change["model"], change["judge"] or None) == system
            and change["items"]
            and change["delta"].get(account.measure) is not None
        ]
        answers.append(account.model_copy(update={"fixes": tuple(fixes)}))
    return answers


def _account(
    source: ScoreSource, system: tuple[str, str | None], outputs: Mapping[str, Mapping[int, str]]
) -> ScoredNumber:
    """The account of one model by one judge."""
    mine = [s for s in source.scores if (s.model, s.judge) == system and s.protocol == source.protocol]
    return ScoredNumber(
        source.name,
        *system,
        source.protocol,
        source.bench.scoring.protocols[source.protocol].aggregate,
        source.cases,
        columns_of(mine, source.cases),
        outputs,
        ids_only=source.released,
    )


def _outputs(place: str) -> Outputs:
    if not (Path(place) / "run.json").is_file():
        return {}
    hashes: dict[str, dict[str, dict[int, str]]] = {}
    for output in Run.open(Path(place)).outputs():
        if output.step is None and output.pictures:
            hashes.setdefault(output.model, {}).setdefault(output.case, {})[output.seed] = output.content
    return hashes


def _models(first: tuple[str, ScoreSource], second: tuple[str, ScoreSource]) -> list[tuple[str, str]]:
    """The models to pair: those named, else those of the same name on both sides, else the only ones."""
    named = [split_operand(word)[1] for word, _ in (first, second)]
    (word, one), (other, two) = first, second
    if named[0] and named[1]:
        return [(named[0], named[1])]
    mine = [named[0]] if named[0] else list(one.models)
    theirs = [named[1]] if named[1] else list(two.models)
    same = [model for model in mine if model in theirs]
    if same:
        return [(model, model) for model in same]
    if len(mine) == len(theirs) == 1:
        return [(mine[0], theirs[0])]
    raise RefBenchError(
        f"{word} has {', '.join(mine)}, {other} has {', '.join(theirs)}, none in both: name one of each as RUN:MODEL"
    )


def _judges(
    one: ScoreSource, mine: str, two: ScoreSource, theirs: str, judge: str | None
) -> list[tuple[str | None, str | None]]:  # fmt: skip
    """Each judge with itself; two different ones where each side has one."""
    known = [
        list(dict.fromkeys(score.judge for score in side.scores if score.model == model))
        for side, model in ((one, mine), (two, theirs))
    ]
    chosen = [[j for j in names if judge is None or (j or "none").casefold() == judge.casefold()] for names in known]
    same = [(j, k) for j in chosen[0] for k in chosen[1] if (j or "").casefold() == (k or "").casefold()]
    if same:
        return same
    left = [names or there for names, there in zip(chosen, known, strict=True)]
    if len(left[0]) == len(left[1]) == 1:
        return [(left[0][0], left[1][0])]
    names_of_both = " and ".join(", ".join(j or "none" for j in names) for names in known)
    raise RefBenchError(
        f"--judge {judge or 'NAME'}: the sides have the judges {names_of_both}: name one that both have"
    )
