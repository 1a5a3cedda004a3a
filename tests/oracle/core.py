"""The oracle: every number of a table a second time, with loops and dictionaries, from what a run exports.

Nothing here comes from refbench's own scoring. What is the same for all benchmarks is in this file: which state each
draw (one model, judge, case and seed) is in, how draws become the number of a case and cases the number of a slice,
how many pictures were expected, scored, failed, not asked about yet or not concerned, and between which bounds a
number lies. What a benchmark's paper says is in the file of that benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

MEAN = "mean"
OUTSIDE = ("api_error", "timeout", "worker_died", "budget")
"""Why there is no picture although the model itself has not failed."""
Case = Mapping[str, Any]
System = tuple[str, str | None]


@dataclass(frozen=True)
class State:
    """A value; or the kind of a failure; or away (the measure does not concern it); or nothing: not asked yet."""

    value: float | None = None
    failed: str | None = None
    by_model: bool = False
    away: bool = False

    @property
    def unasked(self) -> bool:
        return self.value is None and self.failed is None and not self.away


UNASKED = State()
AWAY = State(away=True)
Draw = dict[str, State]


def failed(kind: str, *, by_model: bool = False) -> State:
    return State(failed=kind, by_model=by_model)


@dataclass(frozen=True)
class Measure:
    """A column: the metrics it is made of, its ends, and whether one of them is enough to count as scored."""

    name: str
    parts: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    any_part: bool = False


@dataclass(frozen=True)
class Where:
    """A slice: what the table calls it, its cases, and the slices that a macro average goes over."""

    label: Mapping[str, str]
    cases: tuple[str, ...]
    parts: tuple[Where, ...] = ()

    @property
    def name(self) -> str:
        return list(self.label.values())[-1]


Mean = Callable[[str, Sequence[str]], float | None]


@dataclass(frozen=True)
class Book:
    """What a benchmark's paper says, under one protocol."""

    metrics: tuple[str, ...]
    measures: tuple[Measure, ...]
    slices: Callable[[Sequence[Case]], list[Where]]
    read: Callable[[Case, str, str], Draw]
    """From a case, a part and the reply to it: the states that the reply gives."""
    parts: Mapping[str, tuple[str, ...]]
    """Part of the judge's work to the metrics that its reply gives."""
    summarise: Callable[[Mean, Where, Mapping[str, Case]], dict[str, float | None]]
    measured: frozenset[str] = frozenset()
    away: Callable[[Case], set[str]] = lambda case: set()
    derive: Callable[[Case, Draw], Draw] = lambda case, draw: {}
    combine: Callable[[Draw], Draw] = lambda draw: {}
    """Measures of one picture from its metrics: an average, a total."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Ends of each metric, where it has any: bounds and the worst value come from them."""
    zeros: frozenset[str] = frozenset()
    """Kinds of failure that the official aggregate counts as 0."""
    lower: frozenset[str] = frozenset()
    judges_mean: bool = False
    names_gaps: bool = False
    """Whether a row's remark names the parts of a macro average that nothing was scored in."""
    needs: Callable[[Measure, Case], Sequence[str]] = lambda measure, case: measure.parts
    """The metrics that a measure is made of in a case."""


@dataclass(frozen=True)
class Exported:
    """The JSON lines of one run, and what it was asked for besides: judges, seeds of each model, metrics that cannot
    run."""

    cases: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    evidence: list[dict[str, Any]]
    judges: Sequence[str] = ()
    seeds: Mapping[str, int] = field(default_factory=dict)
    unmeasured: frozenset[str] = frozenset()

    @classmethod
    def read(cls, folder: Path, **asked: Any) -> Exported:
        return cls(*(lines(folder / f"{what}.jsonl") for what in ("cases", "outputs", "evidence")), **asked)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# --- what each draw says -------------------------------------------------------------------------------------


def states(run: Exported, book: Book, protocol: str, refusals: str) -> dict[tuple[System, str, int], Draw]:
    """Every metric of every draw that the run could have: by system, case and seed."""
    wanted = [case for case in run.cases if case["wanted"]]
    known = {case["id"] for case in wanted}
    finals = {(o["model"], o["case"], o["seed"]): o for o in run.outputs if o["step"] is None}
    evidence = [e for e in run.evidence if e["case"] in known]
    newest: dict[str, int] = {}
    for act in evidence:
        if act["protocol"] in ("", protocol):
            newest[act["part"]] = max(version(act), newest.get(act["part"], 0))
    found: dict[tuple[System, str, int], Draw] = {}
    for system in systems(run):
        model, judge = system
        for seed in seeds_of(run, model):
            for case in wanted:
                place = model, case["id"], seed
                mine = [e for e in evidence if (e["model"], e["case"], e["seed"]) == place]
                mine = [e for e in mine if e["protocol"] in ("", protocol)]
                once = partial(_once, run, book, protocol, case, judge, finals.get(place), newest, refusals)
                found[system, case["id"], seed] = _draw(book, judge, mine, once)
    return found | (_judges_mean(found, book) if book.judges_mean else {})


def systems(run: Exported) -> list[System]:
    """Model and judge, as far as anything is recorded; without any judge a model stands alone, and one that has given
    no picture at all stands beside every judge."""
    wanted = {case["id"] for case in run.cases if case["wanted"]}
    there = [e for e in run.evidence if e["case"] in wanted]
    judged = sorted({(e["model"], e["judge"]) for e in there if e["kind"] == "chat"})
    judges = sorted({judge for _, judge in judged} | set(run.judges))
    measured = {e["model"] for e in there}
    silent = {o["model"] for o in run.outputs} - measured if measured or judges else set()
    found: list[System] = [*judged, *((model, judge) for model in sorted(silent) for judge in judges)]
    alone = (measured | silent) - {model for model, _ in found}
    return [*found, *((model, None) for model in sorted(alone))]


def seeds_of(run: Exported, model: str) -> list[int]:
    seeds = {o["seed"] for o in run.outputs if o["model"] == model and o["step"] is None}
    asked = set(range(run.seeds.get(model, 0)))
    return sorted(seeds | asked | {e["seed"] for e in run.evidence if e["model"] == model}) or [0]


def _draw(book: Book, judge: str | None, evidence: Sequence[Any], once: Callable[[Sequence[Any]], Draw]) -> Draw:
    """The metrics of one picture: the mean over the judge's repeats, each with what follows from it."""
    repeats = sorted({e["repeat"] for e in evidence if e["kind"] == "chat" and e["judge"] == judge}) or [0]
    drawn = [once([e for e in evidence if e["repeat"] == repeat or e["kind"] == "measure"]) for repeat in repeats]
    found = {metric: _of_repeats([draw[metric] for draw in drawn]) for metric in drawn[0]}
    if book.derive is Book.derive:  # a repeat that is not among the files says nothing where another has failed
        told = {m: [d[m] for d in drawn if d[m].failed != "missing_reply"] for m in found}
        found |= {metric: _of_repeats(states) for metric, states in told.items() if states}
    return found


def _of_repeats(states: Sequence[State]) -> State:
    """The mean over those that have a value; without any a failure, then what is not asked, then what does not concern."""
    values = [state.value for state in states if state.value is not None]
    if values:
        return State(sum(values) / len(values))
    return next((s for s in states if s.failed), next((s for s in states if s.unasked), states[0]))


def _once(
    run: Exported,
    book: Book,
    protocol: str,
    case: Case,
    judge: str | None,
    output: Mapping[str, Any] | None,
    newest: Mapping[str, int],
    refusals: str,
    evidence: Sequence[Any],
) -> Draw:
    """The metrics of one picture in one repeat: what was read, else measured, else why there is nothing."""
    gone = output["failure"] if output else None
    away = book.away(case)
    files = any(e["judge"] == judge and "imported" in e["request"] for e in run.evidence)
    draw: Draw = {}
    for metric in book.metrics:
        measured = metric in book.measured
        state = (
            _measured(evidence, metric, newest) if measured else _judged(book, protocol, case, judge, metric, evidence)
        )
        if metric in away:
            state = AWAY
        if state.unasked and gone:
            unable = gone["kind"] == "unsupported" and refusals != "worst,unsupported"
            state = AWAY if unable else failed(gone["kind"], by_model=gone["kind"] not in OUTSIDE)
        if state.unasked and measured and metric in run.unmeasured:
            state = failed("not_measured")
        if state.unasked and not measured and files:  # replies that were read from files will not come
            state = failed("missing_reply")
        draw[metric] = state
    return draw | book.derive(case, draw)


def _measured(evidence: Sequence[Any], metric: str, newest: Mapping[str, int]) -> State:
    """The measurement by the newest version of the metric that the run has: older ones are still to be made again."""
    for act in evidence:
        if act["kind"] == "measure" and act["part"] == metric and version(act) == newest[metric]:
            return failed(act["failure"]["kind"]) if act["failure"] else State(json.loads(act["reply"])["value"])
    return UNASKED


def version(act: Mapping[str, Any]) -> int:
    return int(act["request"].get("version", 0))


def _judged(book: Book, protocol: str, case: Case, judge: str | None, metric: str, evidence: Sequence[Any]) -> State:
    """What the judge said of a metric in one repeat."""
    mine = [e for e in evidence if e["kind"] == "chat" and e["judge"] == judge]
    said = [s for e in mine for s in _said(book, protocol, case, metric, e)]
    if said:
        return _standing(said)
    broken = [e for e in mine if e["part"] == "*"]
    return failed(broken[0]["failure"]["kind"]) if broken else UNASKED


def _said(book: Book, protocol: str, case: Case, metric: str, act: Mapping[str, Any]) -> Iterable[tuple[str, State]]:
    """What one act says of a metric: `first` or, for the one further question after an unreadable reply, `repair`."""
    part, _, again = act["part"].partition("+")
    if metric not in book.parts.get(part, ()) or (again and protocol == "paper"):
        return
    if act["failure"]:
        yield again or "call", failed(act["failure"]["kind"])
    else:
        yield again or "first", book.read(case, part, act["reply"])[metric]


def _standing(said: Sequence[tuple[str, State]]) -> State:
    """A reply stands before a call that failed; the reply to a repair stands where the first could not be read."""
    first = [s for how, s in said if how == "first"] or [s for how, s in said if how == "call"]
    repaired = [s for how, s in said if how == "repair"]
    if first and (first[0].value is not None or not repaired):
        return first[0]
    return repaired[0]


def _judges_mean(found: Mapping[tuple[System, str, int], Draw], book: Book) -> dict[tuple[System, str, int], Draw]:
    """The mean over judges of each model that several have seen: of a picture, only when all of them marked it."""
    judges: dict[str, list[str]] = {}
    for (model, judge), _, _ in found:
        if judge is not None and judge not in judges.setdefault(model, []):
            judges[model].append(judge)
    means: dict[tuple[System, str, int], Draw] = {}
    for (model, judge), case, seed in found:
        if len(judges.get(model, ())) > 1 and judge == judges[model][0]:
            of_judges = [found[(model, j), case, seed] for j in judges[model]]
            means[(model, MEAN), case, seed] = {m: joined([d[m] for d in of_judges]) for m in book.metrics}
    return means


def joined(parts: Sequence[State], rule: Callable[[list[float]], float] = lambda v: sum(v) / len(v)) -> State:
    """Several states as one: what does not concern takes no part; the first failure, then what is not asked, decides."""
    concerned = [state for state in parts if not state.away]
    if not concerned:
        return AWAY
    lost = next((state for state in concerned if state.failed), None)
    if lost:
        return lost
    if any(state.unasked for state in concerned):
        return UNASKED
    return State(rule([state.value for state in concerned if state.value is not None]))


# --- from draws to the table ---------------------------------------------------------------------------------


Rows = dict[tuple[Any, ...], dict[str, Any]]


def table(run: Exported, books: Mapping[str, Book], refusals: str = "conditional") -> Rows:
    """Every row of the table by model, judge, protocol, measure and slice."""
    rows: Rows = {}
    cases = {case["id"]: case for case in run.cases if case["wanted"]}
    for protocol, book in books.items():
        draws = states(run, book, protocol, refusals)
        for system in dict.fromkeys(system for system, _, _ in draws):
            mine = {(case, seed): draw for (s, case, seed), draw in draws.items() if s == system}
            point = _filled(mine, book, partial(_official, book, refusals))
            sides = [_filled(mine, book, partial(_extreme, book, refusals, end)) for end in (0, 1)]
            for where in book.slices(list(cases.values())):
                summaries = [_summary(book, draws_, where, cases) for draws_ in (point, *sides)]
                for measure in book.measures:
                    if measure.name in summaries[0]:
                        row = _row(
                            book, measure, where, mine, point, cases, refusals, [s[measure.name] for s in summaries]
                        )
                        rows[(*system, protocol, measure.name, tuple(sorted(where.label.items())))] = row
    return rows


Draws = Mapping[tuple[str, int], Draw]


def _row(
    book: Book,
    measure: Measure,
    where: Where,
    mine: Draws,
    point: Draws,
    cases: Mapping[str, Case],
    refusals: str,
    values: Sequence[float | None],
) -> dict[str, Any]:
    inside = set(where.cases)
    here = {place: draw for place, draw in mine.items() if place[0] in inside}
    if _without_a_worst(book, measure, here, cases, refusals):
        values = [None, None, None]
    bounded = measure.low is not None and None not in values[1:]
    counts = _coverage(book, measure, here, point, cases)
    if book.names_gaps and values[0] is not None:
        counts["nothing_in"] = _nothing_in(book, measure, point, where, cases)
    return {"value": values[0], "bounds": tuple(values[1:]) if bounded else None, **counts}


def _nothing_in(book: Book, measure: Measure, point: Draws, where: Where, cases: Mapping[str, Case]) -> list[str]:
    """The parts without a number, and those of the parts that have one."""
    found = []
    for part in where.parts:
        lost = _summary(book, point, part, cases)[measure.name] is None
        found += [part.name] if lost else _nothing_in(book, measure, point, part, cases)
    return found


def _summary(book: Book, draws: Draws, where: Where, cases: Mapping[str, Case]) -> dict[str, float | None]:
    """The numbers of a slice; a measure that is made of several metrics is over the pictures that have all of them."""
    found = book.summarise(_means(draws), where, cases)
    for measure in book.measures:
        if len(measure.parts) > 1 and not measure.any_part and measure.name in found:
            whole = {}
            for place, draw in draws.items():
                needed = [draw[part] for part in book.needs(measure, cases[place[0]])]
                if all(state.value is not None or state.away for state in needed):
                    whole[place] = draw
            if len(whole) < len(draws):
                found[measure.name] = book.summarise(_means(whole), where, cases)[measure.name]
    return found


def _extreme(book: Book, refusals: str, end: int, metric: str, state: State) -> float | None:
    """What a failure could have been at most, or at least; what counts as the worst is no longer open."""
    if refusals != "conditional" and state.by_model:
        return _worst(book, metric)
    return book.ranges[metric][end] if metric in book.ranges else None


def _worst(book: Book, metric: str) -> float | None:
    return book.ranges[metric][1 if metric in book.lower else 0] if metric in book.ranges else None


def _without_a_worst(book: Book, measure: Measure, here: Draws, cases: Mapping[str, Case], refusals: str) -> bool:
    """Whether the model's own failures should count as the worst, and nobody knows what that is."""
    if refusals == "conditional":
        return False
    for (case, _), draw in here.items():
        for part in book.needs(measure, cases[case]):
            state = draw[part]
            if state.by_model and state.failed not in book.zeros and _worst(book, part) is None:
                return True
    return False


def _official(book: Book, refusals: str, metric: str, state: State) -> float | None:
    """What stands in place of a failure: the official zero, or the worst value for a failure of the model itself."""
    if state.failed in book.zeros:
        return 0.0
    return _worst(book, metric) if refusals != "conditional" and state.by_model else None


def _filled(mine: Draws, book: Book, fill: Callable[[str, State], float | None]) -> dict[tuple[str, int], Draw]:
    """The draws with something in place of failures, and with the combined measures that follow."""
    done = {}
    for place, draw in mine.items():
        filled = dict(draw)
        for metric, state in draw.items():
            instead = fill(metric, state) if state.failed else None
            if instead is not None:
                filled[metric] = State(instead)
        done[place] = filled | book.combine(filled)
    return done


def _means(draws: Draws) -> Mean:
    """The mean over cases of the mean over a case's seeds, as far as there are values."""
    of_case: dict[str, list[Draw]] = {}
    for (case, _), draw in draws.items():
        of_case.setdefault(case, []).append(draw)

    def mean(metric: str, cases: Sequence[str]) -> float | None:
        return average(average(draw[metric].value for draw in of_case.get(case, ())) for case in cases)

    return mean


def macro(mean: Mean, metric: str, where: Where) -> float | None:
    """The mean over the cases; of a slice with parts the unweighted mean over the parts that have a value."""
    if not where.parts:
        return mean(metric, where.cases)
    return average(macro(mean, metric, part) for part in where.parts)


def average(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def scaled(value: float | None, by: float) -> float | None:
    return None if value is None else by * value


def _coverage(book: Book, measure: Measure, here: Draws, point: Draws, cases: Mapping[str, Case]) -> dict[str, Any]:
    """Pictures of the slice: scored, failed by kind, not asked yet, not concerned; and failures with a value."""
    counts: dict[str, Any] = dict.fromkeys(("n_scored", "n_not_asked", "n_not_applicable", "n_imputed"), 0)
    counts |= {"failures": {}, "own_failures": {}}
    for place, draw in here.items():
        needed = book.needs(measure, cases[place[0]])
        state = _state(measure, [draw[part] for part in needed])
        if state.value is not None:
            counts["n_scored"] += 1
        elif state.away:
            counts["n_not_applicable"] += 1
        elif state.unasked:
            counts["n_not_asked"] += 1
        else:
            counts["failures"][state.failed] = counts["failures"].get(state.failed, 0) + 1
            if state.by_model:
                counts["own_failures"][state.failed] = counts["own_failures"].get(state.failed, 0) + 1
            stands = [point[place][part].value is not None for part in needed if draw[part].failed]
            counts["n_imputed"] += all(stands)
    counts["n_expected"] = counts["n_scored"] + counts["n_not_asked"] + sum(counts["failures"].values())
    counts["n_cases"] = len({case for case, _ in here})
    counts["n_seeds"] = len({seed for _, seed in here})
    return counts


def _state(measure: Measure, parts: Sequence[State]) -> State:
    if measure.any_part and any(part.value is not None for part in parts):
        return State(0.0)
    return joined(parts, lambda values: 0.0)


# --- single cases, and pairs of models -----------------------------------------------------------------------


def case_value(book: Book, measure: str, draws: Sequence[Draw], case: Case) -> float | None:
    """A measure of some pictures of one case, as if the table had no other."""
    filled = _filled({(case["id"], n): d for n, d in enumerate(draws)}, book, partial(_official, book, "conditional"))
    overall = next((where for where in book.slices([case]) if where.label == {"level": "overall"}), None)
    return _summary(book, filled, overall, {case["id"]: case}).get(measure) if overall else None


def gap(
    run: Exported, book: Book, protocol: str, measure: str, first: System, second: System
) -> tuple[float, int] | None:
    """The first less the second over the cases that both have a value for, and how many these are."""
    cases = {case["id"]: case for case in run.cases if case["wanted"]}
    draws = states(run, book, protocol, "conditional")
    sides = []
    for model, judge in (first, second):
        # What no judge gave is the same beside each of them.
        mine_too = sorted({s for s, _, _ in draws if s[0] == model and judge in (None, s[1])}, key=str)[:1]
        mine = {(c, seed): draw for (s, c, seed), draw in draws.items() if s in mine_too}
        sides.append(_filled(mine, book, partial(_official, book, "conditional")))
    shared = {
        case
        for case in cases
        if all(
            case_value(book, measure, [d for (c, _), d in side.items() if c == case], cases[case]) is not None
            for side in sides
        )
    }
    # A benchmark of these cases alone: of an average over types, those that these cases have.
    kept = [case for name, case in cases.items() if name in shared]
    overall = next((w for w in book.slices(kept) if w.label == {"level": "overall"}), None) if kept else None
    if overall is None:
        return None
    for case in shared:  # a value that one side lacks is no value of the pair
        for metric in book.metrics:
            told = [[d for (c, _), d in side.items() if c == case] for side in sides]
            if not all(any(d[metric].value is not None for d in draws_) for draws_ in told):
                for draw in (d for draws_ in told for d in draws_ if d[metric].value is not None):
                    draw[metric] = UNASKED
    values = []
    for side in sides:
        here = {place: draw for place, draw in side.items() if place[0] in shared}
        values.append(_summary(book, here, overall, cases)[measure])
    if values[0] is None or values[1] is None:
        return None
    return values[0] - values[1], len(shared)
