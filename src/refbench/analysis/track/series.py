"""A series of checkpoints against a baseline: the gap of each on the cases that both have, with intervals that hold
together however long the series grows, and a verdict against a gate.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, pi
from pathlib import Path
from typing import Literal

import numpy as np

from refbench.analysis.compare import Systems
from refbench.analysis.compare.draws import Interval, Resampling, bound_pairs, draw_pairs, with_zero
from refbench.analysis.compare.family import FLIPS_PER_DRAW, MOST_FLIPS, equal_clusters, scale_of
from refbench.analysis.compare.pairing import Pairing, Pairings
from refbench.analysis.compare.records import between, plain, signed
from refbench.analysis.compare.runs import ScoreSource, joined, load_sources, shown_models, split_operand
from refbench.analysis.track.drift import Drift
from refbench.record import Record, RefBenchError, counted
from refbench.score import digits_of
from refbench.stats.effect import LEVEL
from refbench.tables.scoring import REFUSALS
from refbench.tables.table import DRAWS, SEED, Measure, summary_measure

Verdict = Literal["passed", "regression", "inconclusive", "incomplete", "judge moved", "cannot compare"]
EXIT: Mapping[str, int] = {"passed": 0, "regression": 1}
"""The exit code of a verdict; all others are INCONCLUSIVE."""
INCONCLUSIVE = 4


class Checkpoint(Record):
    """One run of the series. `gap` is its number less the baseline's, on the cases that both have.

    `interval` is at `level`, which is what keeps all intervals of the series true together with 95 %; `ci95` is of this
    one alone. Where outputs failed, `bounds_interval` holds the gap whatever they would have scored.
    """

    run: str
    model: str
    fingerprint: str | None
    look: int
    level: float
    value: float | None = None
    baseline: float | None = None
    gap: float | None = None
    interval: tuple[float, float] | None = None
    ci95: tuple[float, float] | None = None
    bounds: tuple[float, float] | None = None
    bounds_interval: tuple[float, float] | None = None
    n_cases: int = 0
    n_clusters: int = 0
    left_out: Mapping[str, int] = {}
    verdict: Verdict
    why: str = ""
    differences: tuple[str, ...] = ()
    """What is not the same in this run and the baseline, fingerprints included."""
    drift: Drift | None = None
    warnings: tuple[str, ...] = ()


class Track(Record):
    """The series in its order. The exit code is that of the last run: earlier ones had theirs."""

    benchmark: str
    title: str
    metric: str
    protocol: str
    judge: str | None
    lower_is_better: bool
    digits: int
    baseline_run: str
    baseline_model: str
    gate: float
    looks: int | None
    """Of how many looks the correction was made; None for a series without an end."""
    refusals: str
    checkpoints: tuple[Checkpoint, ...]
    sentence: str = ""

    @property
    def exit_code(self) -> int:
        return EXIT.get(self.checkpoints[-1].verdict, INCONCLUSIVE)


@dataclass(frozen=True)
class Rules:
    """How a series is judged. `gate` is the worst gap that is let through, zero or below, worse being less."""

    gate: float
    metric: str | None = None
    protocol: str | None = None
    judge: str | None = None
    refusals: str = REFUSALS[0]
    looks: int | None = None
    draws: int = DRAWS
    seed: int = SEED
    let_drift: bool = False
    """Whether a judge that moved is a warning, not a reason to give no verdict."""


def level_of(look: int, looks: int | None) -> float:
    """The level of the interval at a look, counted from 1.

    The chance of error spent at look k is 0.05 x 6 / (pi k)^2, which sums to 0.05 over a series without an end; of a
    series whose length is known, each look has the same part. Either holds whatever the looks have in common.
    """
    return 1 - (LEVEL / looks if looks else LEVEL * 6 / (pi * look) ** 2)


@dataclass(frozen=True)
class Look:
    """One checkpoint beside the baseline, nothing compared yet."""

    word: str
    source: ScoreSource
    systems: Systems
    labels: Sequence[str]
    measure: Measure


@dataclass(frozen=True)
class Series:
    """Checkpoints and their baseline as they were found: all that can be wrong with what was given is refused here,
    before a check of the judge is paid for."""

    baseline: ScoreSource
    looks: tuple[Look, ...]
    judge: str | None
    rules: Rules


def track(runs: Sequence[str], baseline: str, rules: Rules, drifts: Mapping[str, Drift] | None = None) -> Track:
    """The runs in their order against the baseline, each as RUN or RUN:MODEL; `drifts` are checks of judges, by run."""
    return verdicts(read_series(runs, baseline, rules), drifts)


def read_series(runs: Sequence[str], baseline: str, rules: Rules) -> Series:
    """What is to be compared, and with what; refuses what cannot be."""
    if not -np.inf < rules.gate <= 0:
        raise RefBenchError(f"--gate {rules.gate:g}: write the worst gap that is let through, 0 or below, such as -0.5")
    if rules.looks is not None and rules.looks < len(runs):
        raise RefBenchError(f"--looks {rules.looks}: there are {len(runs)} runs already")
    _check_order(runs)
    words = [baseline, *runs]
    sources = {source.name: source for source in load_sources(words, rules.protocol, None, rules.refusals)}
    chosen = [_of_word(word, sources) for word in words]
    if len({(source.name, source.models) for source in chosen}) < len(chosen):
        raise RefBenchError("a run is given twice: name each checkpoint once, and the baseline by --baseline alone")
    judge = _one_judge(chosen, rules.judge)
    looks = []
    for word, source in zip(runs, chosen[1:], strict=True):
        systems, labels = _systems(chosen[0], source, judge, rules.refusals)
        looks.append(Look(word, source, systems, labels, _measure(systems, rules.metric)))
    return Series(chosen[0], tuple(looks), judge, rules)


def verdicts(series: Series, drifts: Mapping[str, Drift] | None = None) -> Track:
    """The verdict of each checkpoint of a series; `drifts` as of `track`."""
    rules, base, found = series.rules, series.baseline, []
    for number, look in enumerate(series.looks, 1):
        blank = Checkpoint(
            run=look.source.name,
            model=look.source.models[0],
            fingerprint=look.source.fingerprint,
            look=number,
            level=round(level_of(number, rules.looks), 9),
            verdict="inconclusive",
            differences=tuple(look.systems.differences),
            drift=(drifts or {}).get(look.word),
        )
        measured = _measured(blank, look.labels, look.systems, look.measure, rules)
        found.append(_verdict(measured, look.systems, look.measure, rules))
    systems, measure = series.looks[-1].systems, series.looks[-1].measure
    values = [value for one in found for value in (one.value, one.baseline)]
    told = Track(
        benchmark=systems.benchmark,
        title=systems.title,
        metric=measure.name,
        protocol=systems.protocol,
        judge=series.judge,
        lower_is_better=measure.name in systems.lower,
        digits=digits_of(values),
        baseline_run=base.name,
        baseline_model=base.models[0],
        gate=rules.gate,
        looks=rules.looks,
        refusals=rules.refusals,
        checkpoints=tuple(found),
    )
    return told.model_copy(update={"sentence": _sentence(told)})


_NUMBERED = re.compile(r"(.*?)(\d+)")


def _check_order(runs: Sequence[str]) -> None:
    """Refuses checkpoints whose names say another order, as a shell's pattern gives it: step10000 before step2000.
    The last one is the one that the exit code is of."""
    stems: dict[tuple[str, str | None], list[tuple[int, int]]] = {}
    for place, word in enumerate(runs):
        name, model = split_operand(word)
        if (match := _NUMBERED.fullmatch(name)) is not None:
            stems.setdefault((match[1], model), []).append((int(match[2]), place))
    ordered = list(runs)
    for members in stems.values():
        for (_, place), (_, source) in zip(members, sorted(members), strict=True):
            ordered[place] = runs[source]
    if ordered != list(runs):
        raise RefBenchError(
            "the numbers in the names of the checkpoints do not ascend, and the verdict is of the last one: give them "
            f"in this order: {shlex.join(ordered)}"
        )


def _of_word(word: str, sources: Mapping[str, ScoreSource]) -> ScoreSource:
    """The source of one operand, with its one model."""
    place, model = split_operand(word)
    source = next(one for name, one in sources.items() if name == place or (one.released and not _is_here(place)))
    models = (model,) if model is not None else tuple(dict.fromkeys(score.model for score in source.scores))
    if len(models) != 1:
        raise RefBenchError(f"{word}: it holds {', '.join(models)}: write RUN:MODEL")
    return replace(source, models=models)


def _is_here(place: str) -> bool:
    return (Path(place) / "run.json").is_file()


def _one_judge(sources: Sequence[ScoreSource], judge: str | None) -> str | None:
    """The judge whose numbers the gate is about: the one asked for, the only one, or the benchmark's mean of all."""
    from refbench.judges.panel import MEAN

    of_each = [{s.judge for s in source.scores if s.model in source.models and s.judge} for source in sources]
    common = set.intersection(*of_each)
    if judge is not None:
        chosen = [name for name in sorted(common) if name.casefold() == judge.casefold()]
        if not chosen:
            raise RefBenchError(f"--by-judge {judge}: all of the runs were judged by {_listed(common)}")
        return chosen[0]
    if sources[0].bench.scoring.judges_mean and MEAN in common:
        return MEAN
    if not any(of_each):
        return None
    if not common:
        by = "; ".join(
            f"{f'released {source.models[0]}' if source.released else source.name} by {_listed(names)}"
            for source, names in zip(sources, of_each, strict=True)
        )
        raise RefBenchError(
            f"no judge has judged both the baseline and all runs, so a gap could be the judges' alone: {by}"
        )
    if len(common) != 1:
        raise RefBenchError(f"the runs have the judges {_listed(common)} in common: choose one by --by-judge")
    return next(iter(common))


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nobody"


def _systems(baseline: ScoreSource, source: ScoreSource, judge: str | None, refusals: str) -> tuple[Systems, list[str]]:
    """Both over the same cases. Two models of one run are one source."""
    sources = [baseline, source]
    if baseline.name == source.name:
        sources = [replace(baseline, models=(*baseline.models, *source.models))]
    systems, labels = joined(sources, judge, refusals)
    return systems, shown_models(sources, labels)


def _measure(systems: Systems, metric: str | None) -> Measure:
    measures = systems.aggregate.measures
    tried = {m.name for m in measures if all(systems.columns.tried(part) for part in m.parts)}
    name = metric or summary_measure(measures, tried)
    found = next((measure for measure in measures if measure.name == name), None)
    if found is None:
        raise RefBenchError(f"--metric {name}: {systems.title} has {', '.join(m.name for m in measures)}")
    return found


def _measured(blank: Checkpoint, labels: Sequence[str], systems: Systems, measure: Measure, rules: Rules) -> Checkpoint:
    """The gap with its intervals; without them where there are none."""
    aggregate, columns, cases = systems.aggregate, systems.columns, systems.cases
    values = aggregate.filled(columns)
    # Columns are stacked source by source, and the models of one are sorted.
    row = next(i for i, (name, _) in enumerate(columns.systems) if name == labels[1])
    pairing = Pairings(aggregate, columns, values, measure, cases).of(row, 1 - row)
    n = int(pairing.shared.sum())
    told = {"n_cases": n, "left_out": pairing.left_out}
    if n < 2 or (aggregate.worst is not None and pairing.own):
        why = f"they share {counted(n, 'scored case')}" if n < 2 else "a model's own failures have no worst value"
        return blank.model_copy(update={**told, "verdict": "cannot compare", "why": why})
    flips = max(FLIPS_PER_DRAW * rules.draws - 1, min(ceil(2 / (1 - blank.level)), MOST_FLIPS))
    asked = Resampling(rules.draws, permutations=flips, seed=rules.seed, level=blank.level)
    (drawn,) = draw_pairs(aggregate, values, cases, [pairing], measure.name, asked, by_slice=False)
    if not np.isfinite(drawn.gap.value):
        why = "there is no value on the cases they share"
        return blank.model_copy(update={**told, "verdict": "cannot compare", "why": why})
    interval, ci95 = drawn.gap.ci95, with_zero(drawn.contrast.interval(), drawn.p)
    if interval is None:
        scale = scale_of(aggregate, columns, cases, measure.name)
        interval = _of_equal(systems, pairing, drawn.gap.value, scale, blank.level)
        ci95 = _of_equal(systems, pairing, drawn.gap.value, scale, 1 - LEVEL)
    bounds = None if pairing.whole else bound_pairs(aggregate, columns, cases, [pairing], measure.name, asked)[0]
    unknown = not pairing.whole and bounds is None and pairing.own
    numbers = {
        "value": drawn.values[0],
        "baseline": drawn.values[1],
        "gap": drawn.gap.value,
        "interval": interval,
        "ci95": ci95,
        "bounds": bounds[0] if bounds else None,
        "bounds_interval": bounds[1] if bounds else None,
        "n_clusters": drawn.contrast.n,
        "why": "a model's own failures have no bounds" if unknown else "",
    }
    return blank.model_copy(update={**told, **{key: _rounded(value) for key, value in numbers.items()}})


def _of_equal(systems: Systems, pairing: Pairing, gap: float, scale: float | None, level: float) -> Interval:
    """Where the difference is the same in every cluster: as many clusters do not exclude that a share of others, by
    Clopper and Pearson, is as far off as the scale allows. None without a scale."""
    if scale is None:
        return None
    share = 1 - ((1 - level) / 2) ** (1 / equal_clusters(systems, pairing))
    return max((1 - share) * gap - share * scale, -scale), min((1 - share) * gap + share * scale, scale)


def _rounded(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(round(float(end), 9) for end in value)
    return round(value, 9) if isinstance(value, float) else value


def _verdict(one: Checkpoint, systems: Systems, measure: Measure, rules: Rules) -> Checkpoint:
    """A regression when all that the interval holds lies beyond the gate, passed when nothing of it does.

    What failed may have scored anything: the interval of the bounds counts as well, where something failed.
    """
    if one.verdict == "cannot compare" or one.gap is None:
        return one
    warnings = _warnings(one, rules)
    update: dict[str, object] = {"warnings": tuple(warnings)}
    ends = [pair for pair in (one.interval, one.bounds_interval) if pair is not None]
    sign = -1 if measure.name in systems.lower else 1
    waiting = _waiting(systems, measure)
    if waiting:
        cases = counted(waiting, "case")
        update |= {
            "verdict": "incomplete",
            "why": f"{cases} not asked for yet: a run is looked at once, when it is whole",
        }
    elif one.drift is not None and not rules.let_drift and (one.drift.moved or not one.drift.whole):
        why = "the judge does not mark as it did" if one.drift.moved else "the check of the judge is not whole"
        update |= {"verdict": "judge moved" if one.drift.moved else "inconclusive", "why": why}
    elif one.why:
        update |= {"verdict": "inconclusive"}
    elif one.interval is None or (one.bounds is not None and one.bounds_interval is None):
        update |= {"verdict": "inconclusive", "why": "there is no interval: too few clusters, or equal differences"}
    else:
        turned = [sorted(sign * end for end in pair) for pair in ends]
        low, high = min(pair[0] for pair in turned), max(pair[1] for pair in turned)
        update |= {"verdict": "regression" if high < rules.gate else "passed" if low > rules.gate else "inconclusive"}
    return one.model_copy(update=update)


def _waiting(systems: Systems, measure: Measure) -> int:
    """Cases of either run for which something is not asked for yet."""
    columns = systems.columns
    waits = np.zeros(next(iter(columns.drawn.values())).shape, dtype=np.bool_)
    for part in measure.parts:
        if part in columns.waiting:
            waits |= columns.waiting[part] & ~measure.aside(part, columns.away)
    return int(waits.any(axis=(0, 2)).sum())


def _warnings(one: Checkpoint, rules: Rules) -> list[str]:
    if one.drift is None:
        return []
    found = [judge.sentence for judge in one.drift.judges if judge.moved and rules.let_drift]
    unseen = [judge.unseen for judge in one.drift.judges if judge.unseen is not None]
    if unseen and max(unseen) > -rules.gate:
        found.append(
            f"the check of the judge would miss a shift below {plain(max(unseen), one.drift.digits)} in one of five "
            "times, which is more than the gate: take a larger --frozen"
        )
    if any(check.moved for check in one.drift.earlier) and not one.drift.moved:
        found.append("an earlier check of this run found that the judge moved, and the newest does not: both are kept")
    if one.drift.n_other:
        found.append(f"{counted(one.drift.n_other, 'frozen output')} left out: asked about otherwise than then")
    return found


def _sentence(told: Track) -> str:
    last = told.checkpoints[-1]
    name = f"{last.model} ({Path(last.run).name})"
    of = f"on {told.title} {told.metric}{' (lower is better)' if told.lower_is_better else ''}"
    base = f"{told.baseline_model} ({Path(told.baseline_run).name})"
    if last.gap is None:
        return f"{name} cannot be compared with {base} {of}: {last.why}."
    digits = told.digits
    held = f"{100 * last.level:.4g} % CI {between(last.interval, digits)}" if last.interval else "no interval"
    among = f"look {last.look}" + (f" of {told.looks}" if told.looks else "") + ", all looks together 95 %"
    facts = f"{held}, {among}; {told.protocol}; n = {counted(last.n_cases, 'case')}"
    if last.bounds_interval is not None:
        facts += f"; whatever the failed ones had scored {between(last.bounds_interval, digits)}"
    gate = f"the gate of {signed(told.gate, digits)}"
    claims = {
        "passed": f"is not worse than {base} by more than {gate}",
        "regression": f"is worse than {base}, beyond {gate}",
        "inconclusive": f"cannot be told to be within or beyond {gate} of {base}",
        "incomplete": f"is not whole yet beside {base}",
        "judge moved": f"is not compared with {base}",
    }
    why = f": {last.why}" if last.why else ""
    return f"{name} {claims[last.verdict]} {of}{why} (gap {signed(last.gap, digits)}; {facts})."
