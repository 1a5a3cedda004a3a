"""What judges are worth on the test part: agreement with people beside what people reach among themselves and a
constant, and what a gate keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refbench.builders.filter_judge.asking import Asking, Judged, Tell, ask, check_trained
from refbench.builders.filter_judge.dataset import FilterSet, Sample, marks_csv
from refbench.builders.filter_judge.gate import Gate, gate_of, is_good
from refbench.builders.refblend.screening import LOWEST
from refbench.record import Record, RefBenchError
from refbench.stats.agreement import mae_draws, quadratic_kappa_draws
from refbench.stats.correlation import pearson_draws, spearman_draws
from refbench.stats.cuts import lower_bound
from refbench.stats.interval import Array, Design, draws_of, interval_for
from refbench.stats.permutation import sum_flip_p

PEOPLE, CONSTANT, EVERYTHING = "people among themselves", "constant", "all"
FIGURES: Mapping[str, Callable[[Array, Array, Array], Array]] = {
    "pearson": pearson_draws,
    "spearman": spearman_draws,
    "qwk": quadratic_kappa_draws,
    "mae": mae_draws,
}


class Figure(Record):
    """A number with its 95 % interval, resampled by originals; None where it is not defined."""

    value: float | None
    interval: tuple[float, float] | None = None


class AgreementRow(Record):
    """How far a judge agrees with people's means, on an axis of a type."""

    type: str
    axis: str
    judge: str
    n: int
    pearson: Figure
    spearman: Figure
    qwk: Figure
    mae: Figure
    p_constant: float | None = None
    """Of its error against the constant's, by original; None for the constant itself."""


class GateRow(Record):
    """What a judge keeps of a type, whose `good` references people would keep. Those it gave no mark are not kept."""

    type: str
    judge: str
    at: str
    """`3`, the paper's rule, or `cuts`, the judge's own."""
    n: int
    good: int
    kept: int
    dropped: int
    to_people: int
    precision: float | None
    precision_bound: float | None
    """One-sided, 95 %; what shares an original is one answer."""
    recall: float | None
    """Of the good ones, those kept."""
    drop_precision: float | None
    auc: float | None


class FilterReport(Record):
    """All that is known of some judges on a test part."""

    agreement: tuple[AgreementRow, ...]
    gates: tuple[GateRow, ...]
    failed: Mapping[str, int]
    """References without a mark, by judge."""


async def judges_tested(
    root: Path, judges: Sequence[str], out: Path, asking: Asking, tell: Tell
) -> tuple[FilterReport, list[Judged]]:
    """Ask judges about the test part, and say what they are worth."""
    held = FilterSet(root)
    held.check_prompts()
    samples = held.part("test")
    for judge in judges:
        found = gate_of(judge)
        check_trained(judge if found is None else found[1].judge, held)
    judged = [one for one, _ in await ask(root, samples, judges, out / "replies", asking, tell)]
    if used := next((one.name for one in judged if one.gate and one.gate.set_sha256 != held.sha256), None):
        raise RefBenchError(
            f"{used} was calibrated on another set than {root}, which may hold this one's test part: calibrate it anew"
        )
    return report_of(held, judged), judged


def report_of(held: FilterSet, judged: Sequence[Judged], *, draws: int = 2000) -> FilterReport:
    samples = held.part("test")
    rows: list[AgreementRow] = []
    for (kind, axis), some in _by_axis(samples).items():
        trained = [s.means()[axis] for s in held.part("train") if not s.made and s.type == kind]
        rows += _rows(kind, axis, some, float(np.mean(trained)) if trained else None, judged, draws)
    gates = []
    for kind in (*sorted({s.type for s in samples}), EVERYTHING):
        of_type = [s for s in samples if kind in (s.type, EVERYTHING)]
        for one in judged:
            gates.append(_gate_row(kind, of_type, one, None))
            if one.gate is not None:
                gates.append(_gate_row(kind, of_type, one, one.gate))
    return FilterReport(agreement=tuple(rows), gates=tuple(gates), failed={one.name: len(one.failed) for one in judged})


def _by_axis(samples: Iterable[Sample]) -> dict[tuple[str, str], list[Sample]]:
    found: dict[tuple[str, str], list[Sample]] = {}
    for sample in sorted(samples, key=lambda s: (s.type, s.id)):
        for axis in sample.labels:
            found.setdefault((sample.type, axis), []).append(sample)
    return found


def _rows(
    kind: str, axis: str, samples: Sequence[Sample], constant: float | None, judged: Sequence[Judged], draws: int
) -> list[AgreementRow]:
    means = {s.id: s.means()[axis] for s in samples}
    group = {s.id: str(s.group) for s in samples}
    left_out = [  # each rater beside the mean of the others
        (s.id, float(mark), (sum(by.values()) - mark) / (len(by) - 1))
        for s in samples
        for by in [s.marks[axis]]
        if len(by) > 1
        for mark in by.values()
    ]
    row = {"type": kind, "axis": axis}
    rows = []
    if left_out:
        figures = _figures(*_columns(left_out), [group[name] for name, _, _ in left_out], draws)
        rows.append(AgreementRow(**row, judge=PEOPLE, n=len({name for name, _, _ in left_out}), **figures))
    if constant is not None:  # a type of which nothing is trained on has none
        level = [(name, constant, mean) for name, mean in means.items()]
        figures = _figures(*_columns(level), [group[name] for name, _, _ in level], draws)
        rows.append(AgreementRow(**row, judge=CONSTANT, n=len(level), **figures))
    for one in judged:
        pairs = [(name, one.said[name][axis], mean) for name, mean in means.items() if name in one.said]
        variants = [(one.name, pairs)]
        if one.gate is not None and (curve := one.gate.maps.get(f"{kind} {axis}")) is not None:
            variants.append((f"{one.name}, calibrated", [(name, curve(mark), mean) for name, mark, mean in pairs]))
        for name, some in variants:
            figures = _figures(*_columns(some), [group[sample] for sample, _, _ in some], draws)
            p = None if constant is None else _against(some, constant, group, draws)
            rows.append(AgreementRow(**row, judge=name, n=len(some), p_constant=p, **figures))
    return rows


Pair = tuple[str, float, float]
"""A sample, a judge's mark, people's."""


def _columns(pairs: Sequence[Pair]) -> tuple[Array, Array]:
    return np.array([p[1] for p in pairs], np.float64), np.array([p[2] for p in pairs], np.float64)


def _figures(x: Array, y: Array, groups: Sequence[str], draws: int) -> dict[str, Figure]:
    if len(x) == 0:
        return dict.fromkeys(FIGURES, Figure(value=None))
    design = Design.of(groups, [""] * len(groups))
    df = design.n_clusters - 1
    found = {}
    for name, figure in FIGURES.items():
        point = float(figure(x, y, np.ones((1, len(x))))[0])
        if not np.isfinite(point):
            found[name] = Figure(value=None)
            continue
        drawn, influence = draws_of(lambda weights, f=figure: f(x, y, weights), design, draws, 0)  # type: ignore[misc]
        interval = interval_for(point, drawn, influence, n=design.n_clusters, df=df)
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        found[name] = Figure(value=point, interval=ends)
    return found


def _against(pairs: Sequence[Pair], constant: float, group: Mapping[str, str], draws: int) -> float | None:
    """Whether its absolute errors differ from the constant's, by exchanging the two within originals."""
    gaps: dict[str, float] = {}
    for name, mark, mean in pairs:
        gaps[group[name]] = gaps.get(group[name], 0.0) + abs(mark - mean) - abs(constant - mean)
    if not gaps:
        return None
    return sum_flip_p(np.array([list(gaps.values())]), draws, 0)[0].p


def _gate_row(kind: str, samples: Sequence[Sample], judged: Judged, gate: Gate | None) -> GateRow:
    verdicts = {s.id: _verdict(s, judged, gate) for s in samples}
    good = {s.id for s in samples if is_good(s)}
    kept = [s for s in samples if verdicts[s.id] == "keep"]
    dropped = [s for s in samples if verdicts[s.id] == "drop"]
    groups = {s.group for s in kept}
    wrong = {s.group for s in kept if s.id not in good}
    marked = [s for s in samples if s.id in judged.said]
    lowest = np.array([min(judged.said[s.id].values()) for s in marked], np.float64)
    return GateRow(
        type=kind,
        judge=judged.name,
        at="3" if gate is None else "cuts",
        n=len(samples),
        good=len(good),
        kept=len(kept),
        dropped=len(dropped),
        to_people=len(samples) - len(kept) - len(dropped),
        precision=_share(s.id in good for s in kept),
        precision_bound=lower_bound(len(wrong), len(groups)) if groups else None,
        recall=_share(verdicts[name] == "keep" for name in good),
        drop_precision=_share(s.id not in good for s in dropped),
        auc=area(lowest, np.array([s.id in good for s in marked], np.bool_)),
    )


def _verdict(sample: Sample, judged: Judged, gate: Gate | None) -> str:
    said = judged.said.get(sample.id)
    if said is None:
        return "people"
    return gate.decide(sample.type, said) if gate else "keep" if min(said.values()) >= LOWEST else "drop"


def _share(of: Iterable[bool]) -> float | None:
    yes = list(of)
    return sum(yes) / len(yes) if yes else None


def area(score: Array, good: NDArray[np.bool_]) -> float | None:
    """The chance that a good one has the higher score, a tie counting half; None without both kinds."""
    if good.all() or not good.any():
        return None
    apart = score[good][:, None] - score[~good][None, :]
    return float((apart > 0).mean() + 0.5 * (apart == 0).mean())


def judged_csv(held: FilterSet, judged: Sequence[Judged]) -> str:
    """People's and judges' marks of the test part, as `refbench agree` reads them."""
    said = {one.name: {(s, a): m for s, marks in one.said.items() for a, m in marks.items()} for one in judged}
    return marks_csv(held.part("test"), said)
