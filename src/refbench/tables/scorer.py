"""Evidence to scores: every expected score in some state, by the readers of the protocols."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from refbench.benchmarks import Benchmark
from refbench.benchmarks.kit.definition import Derived
from refbench.case import AnyCase
from refbench.evidence import PEOPLE, Evidence, Purpose
from refbench.failure import CIRCUMSTANCES, Failure
from refbench.judges.panel import mean_of_judges, mean_of_repeats
from refbench.output import Output
from refbench.score import Score
from refbench.tables.table import System


@dataclass(frozen=True)
class RunFacts:
    """What is known beyond evidence: who was to be scored and under which settings, the outputs, and of a run also its
    judges, how many seeds of each model it was asked for, and which parts cannot be measured and why."""

    systems: Sequence[System] = ()
    outputs: Sequence[Output] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    live: bool = False
    """Whether this is a run that may go on: what is not measured there was not asked for yet."""
    judges: tuple[str, ...] = ()
    seeds: Mapping[str, int] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    unsupported_counts: bool = False
    """Whether a request that a model cannot take counts against it."""
    pictures: str = ""
    """One hash for the content of the cases' pictures, as far as the run has opened them."""


def score_evidence(
    bench: Benchmark,
    cases: Sequence[AnyCase],
    evidence: Iterable[tuple[Purpose, Evidence]],
    protocols: Sequence[str],
    facts: RunFacts | None = None,
) -> list[Score]:
    """Every expected score of every seed, in some state: what no evidence speaks of is no gap."""
    read = _Reading(bench, cases, evidence, protocols, facts or RunFacts())
    scores = [
        score
        for name in protocols
        for model, judge in read.systems
        for case in cases
        for seed in read.seeds(model)
        for score in _of_picture(bench, read, case, name, (model, judge), seed)
    ]
    judged = [score for score in scores if score.judge != PEOPLE]  # a mean of judges is none of people
    return [*scores, *mean_of_judges(judged)] if bench.scoring.judges_mean else scores


def drawn_scores(
    bench: Benchmark,
    cases: Sequence[AnyCase],
    evidence: Iterable[tuple[Purpose, Evidence]],
    protocols: Sequence[str],
    facts: RunFacts,
) -> Iterator[Score]:
    """The scores before they are averaged: for each seed and repeat every metric of every case, in some state.

    What is measured has no repeats and says the same in each.
    """
    read = _Reading(bench, cases, evidence, protocols, facts)
    for name in protocols:
        for model, judge in read.systems:
            for seed in read.seeds(model):
                for repeat in read.repeats(name, model, judge):
                    for case in cases:
                        found = read.scores(name, model, judge, case.id, seed, repeat)
                        scores = _with(bench.scoring.derived, case, name, found)
                        yield from _with(bench.scoring.settled, case, name, scores)


def _of_picture(
    bench: Benchmark, read: _Reading, case: AnyCase, protocol: str, system: System, seed: int
) -> list[Score]:
    """The scores of one picture: what follows from others follows in each repeat of the judge (a gate is open or
    shut, not half open), and the repeats are averaged then."""
    derived, settled = bench.scoring.derived, bench.scoring.settled
    repeats = read.repeats_of(protocol, *system, case.id, seed) if derived is not None else []
    if len(repeats) < 2:
        found = mean_of_repeats(read.scores(protocol, *system, case.id, seed))
        return _with(settled, case, protocol, _with(derived, case, protocol, found))
    drawn = [read.scores(protocol, *system, case.id, seed, repeat) for repeat in repeats]
    means = mean_of_repeats([score for scores in drawn for score in _with(derived, case, protocol, scores)])
    return _with(settled, case, protocol, means)


class _Reading:
    """What the evidence says, score by score, and why nothing is said where it is silent."""

    def __init__(
        self,
        bench: Benchmark,
        cases: Sequence[AnyCase],
        evidence: Iterable[tuple[Purpose, Evidence]],
        protocols: Sequence[str],
        facts: RunFacts,
    ) -> None:
        final = [output for output in facts.outputs if output.step is None]
        self._bench, self._facts, self._protocols = bench, facts, protocols
        self._cases = {case.id: case for case in cases}
        self._missing = {(o.case, o.model, o.seed): _of_model(o.failure) for o in final if o.failure is not None}
        self._imported: set[str | None] = set()
        """Judges whose replies were read from files: what is not there will not come."""
        self._given: set[tuple[str, str]] = set()
        """Protocols and models whose measurements were read from files."""
        self._seeds: defaultdict[str, set[int]] = defaultdict(set)
        for model, count in facts.seeds.items():
            self._seeds[model] |= set(range(count))
        for output in final:
            self._seeds[output.model].add(output.seed)
        self._found: dict[tuple[str, str, str | None, str, str, int], dict[int, Score]] = {}
        self._without_reply: set[tuple[str, str, str | None, str, str, int, int]] = set()
        self._unsendable: dict[tuple[str, str, str, int], Failure] = {}
        self._measured = _Measured()
        told = [system for purpose, act in whole_parts(evidence) if (system := self._take(purpose, act))]
        self.systems = _expected(facts, told, list(dict.fromkeys(output.model for output in final)))
        unasked = bench.asking.not_asked(facts.settings)
        self._away = {case.id: {**bench.asking.not_applicable(case), **unasked} for case in cases}
        self._metrics = [metric for of_part in bench.asking.parts.values() for metric in of_part]

    def _take(self, purpose: Purpose, act: Evidence) -> System | None:
        """Take one act in; returns whom it is about, without a judge for a measurement."""
        if "imported" in act.request and act.kind == "chat":
            self._imported.add(purpose.judge)
        case = self._cases.get(purpose.case)
        if case is None:
            return None
        self._seeds[purpose.model].add(purpose.seed)
        if act.kind == "measure":
            self._measured.add(purpose, act, self._protocols)
            if "imported" in act.request:
                self._given.add((purpose.protocol, purpose.model))
            return purpose.model, None
        if PEOPLE in act.request:
            self._hear(purpose, act)
        elif purpose.part == "*":
            place = purpose.case, purpose.model, purpose.judge, purpose.seed
            self._unsendable[place] = act.failure or Failure(kind="undefined")
        else:
            self._read(case, purpose, act)
        return purpose.model, purpose.judge

    def _read(self, case: AnyCase, purpose: Purpose, act: Evidence) -> None:
        repair = purpose.part.endswith("+repair")
        plain = purpose.model_copy(update={"part": purpose.part.removesuffix("+repair")}) if repair else purpose
        for name in self._protocols:
            # The released scripts never ask again: a repaired reply is for the corrected protocol alone.
            if purpose.protocol not in ("", name) or (repair and name == "paper"):
                continue
            for score in self._bench.scoring.protocols[name].read(case, plain, act):
                key = name, score.model, score.judge, score.case, score.metric, purpose.seed
                place = self._found.setdefault(key, {})
                # Of two acts for one purpose (the judge moved to another address) the one with a reply stands.
                mended = act.failure is None and (*key, score.repeat) in self._without_reply
                if score.repeat not in place or mended or (repair and place[score.repeat].failure is not None):
                    place[score.repeat] = score
                    self._without_reply.discard((*key, score.repeat))
                    if act.failure is not None:
                        self._without_reply.add((*key, score.repeat))

    def _hear(self, purpose: Purpose, act: Evidence) -> None:
        """Take in what one person said of an output: marks by measure, in the judge's units."""
        for metric, value in _said(act.reply).items():
            for name in self._protocols:
                place = self._found.setdefault((name, purpose.model, PEOPLE, purpose.case, metric, purpose.seed), {})
                place[purpose.repeat] = Score.of(purpose, metric, name, value)

    def seeds(self, model: str) -> list[int]:
        return sorted(self._seeds[model]) or [0]

    def repeats(self, protocol: str, model: str, judge: str | None) -> list[int]:
        found = {n for key, place in self._found.items() if key[:3] == (protocol, model, judge) for n in place}
        return sorted(found) or [0]

    def repeats_of(self, name: str, model: str, judge: str | None, case: str, seed: int) -> list[int]:
        """The repeats that say anything of one picture."""
        places = (self._found.get((name, model, judge, case, metric, seed), {}) for metric in self._metrics)
        return sorted({repeat for place in places for repeat in place})

    def scores(
        self, name: str, model: str, judge: str | None, case: str, seed: int, repeat: int | None = None
    ) -> list[Score]:
        """What is said of a case: by all repeats, or every metric as one of them has it."""
        here: list[Score] = []
        for metric in self._metrics:
            there = self._found.get((name, model, judge, case, metric, seed))
            if there and repeat is None:
                here += there.values()
                continue
            if there and repeat in there:
                here.append(there[repeat])
                continue
            state = self._unsaid(judge) if there else self._silent(name, model, judge, case, metric, seed)
            draw = {"seed": seed, "repeat": repeat or 0}
            here.append(Score(case=case, model=model, judge=judge, metric=metric, protocol=name, **draw, **state))
        return here

    def _silent(self, name: str, model: str, judge: str | None, case: str, metric: str, seed: int) -> State:
        """The state of a score that no reply speaks of: measured, out of scope, or the reason why it is not there."""
        gone = self._missing.get((case, model, seed))
        if gone is not None and gone.kind == "unsupported" and not self._facts.unsupported_counts:
            return {"not_applicable": gone.detail or "the model cannot take such a request"}
        if metric in self._away[case]:
            return {"not_applicable": self._away[case][metric]}
        if metric in self._bench.asking.measured:
            found = self._measured.get(name, model, case, metric, seed)
            given = {"failure": _UNMEASURED} if (name, model) in self._given else None
            return found or ({"failure": gone} if gone else given or self._unmeasured(metric))
        failure = gone or self._unsendable.get((case, model, judge or "", seed))
        return {"failure": failure} if failure else self._unsaid(judge)

    def _unsaid(self, judge: str | None) -> State:
        """Of imported replies one is missing; a judge who is asked live has not been asked yet."""
        return {"failure": _ABSENT} if judge in self._imported else {"not_asked": True}

    def _unmeasured(self, metric: str) -> State:
        if not self._facts.live:
            return {"failure": _UNMEASURED}
        why = self._facts.unmeasured.get(metric)
        return {"failure": Failure(kind="not_measured", detail=why)} if why else {"not_asked": True}


def _expected(facts: RunFacts, told: Sequence[System], painted: Sequence[str]) -> list[System]:
    """Whom scores are expected of: who was asked for, whom evidence is about, and models that have outputs alone."""
    models = dict.fromkeys([*(model for model, _ in facts.systems), *(model for model, _ in told)])
    expected = dict.fromkeys([*facts.systems, *(system for system in told if system[1] is not None)])
    # Nobody was asked about a model that has given no picture at all: its failures stand beside the others' scores.
    judges = sorted({judge for _, judge in expected if judge} | set(facts.judges))
    for model in painted if judges or models else ():
        if model not in models:
            expected |= {(model, judge): None for judge in judges}
            models[model] = None
    # Without any judge a model still has its measurements.
    judged = {model for model, _ in expected}
    expected |= {(model, None): None for model in models if model not in judged}
    return sorted(expected, key=lambda system: (system[0], system[1] or ""))


def _of_model(failure: Failure) -> Failure:
    """A failure to give a picture, as the model's own where it is."""
    return failure.model_copy(update={"by_model": failure.kind not in CIRCUMSTANCES})


_ABSENT = Failure(kind="missing_reply", detail="no reply is recorded")
_UNMEASURED = Failure(kind="not_measured", detail="no measurement is recorded")


State: TypeAlias = dict[str, Any]
"""The value, failure or not_applicable of a score."""


def version_of(request: Mapping[str, Any]) -> int:
    """The version of the metric that a measurement is of."""
    version = request.get("version")
    return version if isinstance(version, int) else 0


def _said(reply: str | None) -> dict[str, float]:
    """A person's marks by measure; nothing where the record is of another program."""
    try:
        return {str(name): float(value) for name, value in orjson.loads(reply or "").items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def _value(reply: str) -> State:
    try:
        return {"value": float(orjson.loads(reply)["value"])}
    except (ValueError, KeyError, TypeError):  # written by another program than this one
        return {"failure": Failure(kind="unparsable", detail="the record of the measurement cannot be read")}


class _Measured:
    """Measurements by where they belong. Only those by the newest version of a metric that the run holds count: a run
    that was measured again half way is no mixture of two versions."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str, int], tuple[int, Evidence]] = {}
        self._newest: dict[tuple[str, str], int] = {}

    def add(self, purpose: Purpose, act: Evidence, protocols: Sequence[str]) -> None:
        version = version_of(act.request)
        for name in protocols if not purpose.protocol else [p for p in protocols if p == purpose.protocol]:
            place = name, purpose.model, purpose.case, purpose.part, purpose.seed
            if place not in self._found or version > self._found[place][0]:
                self._found[place] = version, act
            self._newest[name, purpose.part] = max(version, self._newest.get((name, purpose.part), version))

    def get(self, protocol: str, model: str, case: str, part: str, seed: int) -> State | None:
        version, act = self._found.get((protocol, model, case, part, seed), (0, None))
        if act is None or version < self._newest[protocol, part]:
            return None
        return {"failure": act.failure} if act.reply is None else _value(act.reply)


def _with(derive: _Derive | None, case: AnyCase, protocol: str, scores: list[Score]) -> list[Score]:
    """The scores of a case with those that follow from them in place."""
    if derive is None:
        return scores
    found = derive(case, protocol, {score.metric: score for score in scores})
    blank: State = {"value": None, "failure": None, "not_applicable": None, "not_asked": False}
    states = {
        name: {**blank, **({"not_asked": True} if said is None else {_KEYS.get(type(said), "value"): said})}
        for name, said in found.items()
    }
    # What does not concern the case stays so, whatever could be computed; and what people said of a measure stands: it
    # does not follow from a judge's answers.
    kept = {score.metric for score in scores if score.judge == PEOPLE and score.value is not None}
    kept |= {score.metric for score in scores if score.not_applicable is not None}
    return [
        Score(**{**dict(s), **states[s.metric]}) if s.metric in states and s.metric not in kept else s for s in scores
    ]


_Derive: TypeAlias = Callable[[AnyCase, str, Mapping[str, Score]], Mapping[str, Derived]]
_KEYS: dict[type[Any], str] = {Failure: "failure", str: "not_applicable"}


def whole_parts(evidence: Iterable[tuple[Purpose, Evidence]]) -> Iterator[tuple[Purpose, Evidence]]:
    """Evidence by whole parts: the replies to `IF/1`, `IF/2`, ... are one reply to IF, or fail as the first did."""
    pieces: dict[Purpose, list[tuple[int, Evidence]]] = {}
    repaired: set[tuple[Purpose, int]] = set()
    for purpose, act in evidence:
        part, slash, rest = purpose.part.partition("/")
        if not slash:
            yield purpose, act
            continue
        whole = purpose.model_copy(update={"part": part})
        number, _, repair = rest.partition("+")
        entries = pieces.setdefault(whole, [])
        if repair:
            if act.failure is None:
                entries[:] = [entry for entry in entries if entry[0] != int(number)]
                entries.append((int(number), act))
                repaired.add((whole, int(number)))
        elif (whole, int(number)) not in repaired:
            entries.append((int(number), act))
    for whole, entries in pieces.items():
        acts = [act for _, act in sorted(entries, key=lambda entry: entry[0])]
        failed = [act for act in acts if act.failure is not None]
        joined = "\n\n".join(act.reply or "" for act in acts)
        yield whole, failed[0] if failed else acts[0].model_copy(update={"reply": joined})
