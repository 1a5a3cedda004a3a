"""Evidence to scores: every expected score in some state, by the readers of the protocols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.columns import System
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges.panel import mean_of_judges, mean_of_repeats
from refbench.output import Output
from refbench.score import Score


def score_evidence(
    bench: Benchmark,
    cases: Sequence[AnyCase],
    evidence: Iterable[tuple[Purpose, Evidence]],
    protocols: Sequence[str],
    systems: Sequence[System] = (),
    outputs: Iterable[Output] = (),
) -> list[Score]:
    """Every expected score in some state: what no evidence speaks of is a failure `missing_reply`, not a gap."""
    by_id = {case.id: case for case in cases}
    missing = {(o.case, o.model): o.failure for o in outputs if o.failure is not None and o.step is None}
    found: dict[tuple[str, str, str | None, str, str], dict[int, Score]] = {}
    unsendable: dict[tuple[str, str, str], Failure] = {}
    expected: dict[System, None] = dict.fromkeys(systems)
    for purpose, act in _whole_parts(evidence):
        case = by_id.get(purpose.case)
        if case is None:
            continue
        expected[purpose.model, purpose.judge] = None
        if purpose.part == "*":
            unsendable[purpose.case, purpose.model, purpose.judge] = act.failure or Failure(kind="undefined")
            continue
        repair = purpose.part.endswith("+repair")
        plain = purpose.model_copy(update={"part": purpose.part.removesuffix("+repair")}) if repair else purpose
        for name in protocols:
            # The released scripts never ask again: a repaired reply is for the corrected protocol alone.
            if purpose.protocol not in ("", name) or (repair and name == "paper"):
                continue
            for score in bench.protocols[name].read(case, plain, act):
                place = found.setdefault((name, score.model, score.judge, score.case, score.metric), {})
                if score.repeat not in place or (repair and place[score.repeat].failure is not None):
                    place[score.repeat] = score
    absent = Failure(kind="missing_reply", detail="no reply is recorded")
    scores: list[Score] = []
    for name in protocols:
        for model, judge in sorted(expected, key=lambda system: (system[0], system[1] or "")):
            for case in cases:
                away = bench.not_applicable(case)
                why = missing.get((case.id, model)) or unsendable.get((case.id, model, judge or "")) or absent
                for metric in (metric for metrics in bench.parts.values() for metric in metrics):
                    there = found.get((name, model, judge, case.id, metric))
                    if there:
                        scores += there.values()
                        continue
                    reason = away.get(metric)
                    scores.append(
                        Score(
                            case=case.id,
                            model=model,
                            judge=judge,
                            metric=metric,
                            protocol=name,
                            failure=None if reason else why,
                            not_applicable=reason,
                        )
                    )
    scores = mean_of_repeats(scores)
    return [*scores, *mean_of_judges(scores)] if bench.judges_mean else scores


def _whole_parts(evidence: Iterable[tuple[Purpose, Evidence]]) -> Iterator[tuple[Purpose, Evidence]]:
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
