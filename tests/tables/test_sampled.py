"""Rows of runs that judged a part of the calls: estimates of what all would give, on every benchmark's own aggregate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from refbench.analysis.fewer.design import judged_together, make_design, total_of
from refbench.analysis.fewer.references import References
from refbench.benchmarks import Benchmark, benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.benchmarks.kit.aggregate import TableRules, Total
from refbench.case import AnyCase, Request
from refbench.failure import KINDS
from refbench.record import RefBenchError
from refbench.stats import Array
from refbench.stats.sample import SampledNumber
from refbench.tables.sampled import SampleDesign, Sampling, Told, _row, away_of, estimated_rows
from refbench.tables.table import Aggregate, Columns, Row, columns_of, summaries, tabulate
from support import icebench, ideabench, multibanana, multiref

WRITERS: dict[str, Callable[[Path], object]] = {
    "multibanana": lambda root: multibanana.write_dataset(root, multibanana.every_task(6)),
    "ideabench": lambda root: ideabench.write_checkout(root, ideabench.designs(3)),
    "multiref": lambda root: multiref.write_checkout(root, multiref.blends(5), multiref.requests(20)),
    "icebench": lambda root: icebench.write_dataset(root, icebench.every_task(6)),
}


def case(number: int, stratum: str = "", cluster: str = "") -> AnyCase:
    return AnyCase(
        id=f"c{number}", request=Request(instruction=""), cluster=cluster or f"c{number}", stratum=stratum, details=None
    )


def masked(columns: Columns, drawn: Sequence[tuple[Array, Sequence[str]]]) -> Columns:
    """The columns as if only these cases had been judged in these metrics."""
    waiting, values = dict(columns.waiting), dict(columns.drawn)
    for cases, metrics in drawn:
        for metric in metrics:
            if metric in values:
                values[metric] = np.where(cases[None, :, None], values[metric], np.nan)
                waiting[metric] = np.broadcast_to(~cases[None, :, None], values[metric].shape)
    return replace(columns, drawn=values, waiting=waiting)


def rows_of(aggregate: Aggregate, columns: Columns, cases: Sequence[AnyCase]) -> list[Row]:
    """Blank rows for all that the aggregate has, with its values when all is judged."""
    slices = aggregate.slices(cases)
    found = summaries(aggregate, aggregate.filled(columns), np.ones((1, len(cases))), slices)
    counts = dict.fromkeys(("n_cases", "n_expected", "n_scored"), len(cases)) | dict.fromkeys(
        ("n_not_asked", "n_not_applicable", "n_imputed"), 0
    )
    return [
        Row(model="m", judge="j", protocol="p", metric=name, slice=slices[i].label, value=float(values[0, 0]),
            n_seeds=1, failures={}, ci95=None, bounds=None, **counts)
        for (i, name), values in found.items()
    ]  # fmt: skip


def judged(design: SampleDesign, parts: dict[str, tuple[str, ...]], share: float) -> list[tuple[Array, list[str]]]:
    found = []
    units = design.units()[: round(share * design.n_units)]
    for group, names in enumerate(design.groups):
        cases = np.isin(np.arange(len(design.orders[group])), [c for c, g in units if g == group])
        metrics = [
            metric
            for name in (*names, *(["derived"] if len(design.groups) == 1 else []))
            for metric in parts.get(name, ())
        ]
        found.append((cases, metrics))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WRITERS))
def test_the_total_of_every_benchmark_is_estimated_without_bias(name: str, tmp_path: Path) -> None:
    bench = benchmark(name)
    WRITERS[name](tmp_path / "data")
    cases = bench.data.load(tmp_path / "data", None).cases
    for protocol in bench.scoring.protocols.values():
        aggregate = replace(protocol.aggregate, slices=protocol.aggregate.overall)
        columns = random_columns(bench, aggregate, cases)
        full = {row.metric: row for row in rows_of(aggregate, columns, cases)}
        errors: dict[str, list[float]] = {}
        hits: list[bool] = []
        for seed in range(15):
            design = make_design(bench, cases, References(), seed=10 * seed)
            part = masked(columns, judged(design, dict(bench.asking.parts), 0.6))
            sampling = Sampling(design, bench.asking.parts, away_of(bench.asking.not_applicable, cases))
            for row in estimated_rows(list(full.values()), aggregate, part, cases, sampling):
                if row.estimate is not None and row.value is not None:
                    errors.setdefault(row.metric, []).append(row.value - (full[row.metric].value or 0.0))
                    low, high = row.estimate.all_calls95
                    hits.append(low <= (full[row.metric].value or 0.0) <= high)
        assert total_of(bench) in errors or protocol.name == "paper", f"{name}: nothing is estimated"
        for metric, off in errors.items():
            assert abs(np.mean(off)) <= 4 * np.std(off) / len(off) ** 0.5 + 1e-9, (protocol.name, metric)
        assert np.mean(hits) > 0.88


def random_columns(bench: Benchmark, aggregate: Aggregate, cases: Sequence[AnyCase]) -> Columns:
    rng = np.random.default_rng(3)
    level = np.unique([case.stratum for case in cases], return_inverse=True)[1] % 3 / 4
    ends = {m: (m_.low or 0.0, m_.high or 1.0) for m_ in aggregate.measures for m in m_.parts}
    away = away_of(bench.asking.not_applicable, cases)
    metrics = {m for of_part in bench.asking.parts.values() for m in of_part} | set(ends)
    found = {}
    for metric in sorted(metrics):
        low, high = ends.get(metric, (0.0, 1.0))
        values = low + (high - low) * (level + rng.uniform(0, 0.5, len(cases)))
        found[metric] = np.where(away.get(metric, np.zeros(len(cases), dtype=bool)), np.nan, values)[None, :]
    return Columns.of_values([("m", "j")], found)


class Released:
    """Two of the released models of CREval, judged by a design."""

    def __init__(self) -> None:
        self.bench = benchmark("creval")
        cases, scores = released_scores()
        self.cases = list(cases)
        self.scores = [s.model_copy(update={"judge": "j"}) for s in scores if s.model in ("Bagel", "gpt-image-1")]
        self.aggregate = self.bench.scoring.protocols["corrected"].aggregate
        self.full = tabulate("corrected", self.aggregate, self.scores, self.cases, draws=0)
        self.design = make_design(self.bench, self.cases, References())
        self.columns = columns_of(self.scores, self.cases)

    def rows(self, share: float, columns: Columns | None = None) -> list[Row]:
        drawn = judged(self.design, {m: (m,) for m in ("IF", "VC", "VQ")}, share)
        part = masked(columns or self.columns, drawn)
        sampling = Sampling(self.design, self.bench.asking.parts)
        return estimated_rows(self.full, self.aggregate, part, self.cases, sampling)


@pytest.fixture(scope="module")
def released() -> Released:
    return Released()


def test_all_calls_leave_the_rows_as_they_are(released: Released) -> None:
    assert released.rows(1.0) == released.full


def test_every_slice_says_what_it_rests_on_or_why_it_cannot_be_told(released: Released) -> None:
    rows = released.rows(0.04)
    assert all(row.sampled for row in rows)
    untold = [row for row in rows if row.estimate is None]
    assert untold
    assert all(row.value is None and "judged in one of its parts" in (row.remark or "") for row in untold)
    told = [row for row in rows if row.estimate is not None]
    overall = [row for row in told if (row.metric, row.slice["level"]) == ("avg", "overall")]
    assert [row.remark for row in overall] == ["estimated from 4.0 % of the calls"] * 2
    for row in told:
        assert row.estimate is not None and row.ci95 is not None and row.value is not None
        low, high = row.estimate.all_calls95
        # About other cases too, an interval is wider than about these.
        assert row.ci95[0] <= low <= row.value <= high <= row.ci95[1]
        assert row.estimate.effective_n >= 1


def test_failures_among_the_judged_are_bounded(released: Released) -> None:
    kinds = {metric: column.copy() for metric, column in released.columns.kinds.items()}
    drawn = {metric: column.copy() for metric, column in released.columns.drawn.items()}
    lost = list(released.design.orders[0][:8])
    kinds["IF"][0, lost, 0] = KINDS.index("refused")
    drawn["IF"][0, lost, 0] = np.nan
    failing = [
        row.model_copy(update={"failures": {"refused": 8}}) if (row.model, row.metric) == ("Bagel", "IF") else row
        for row in released.full
    ]
    whole, released.full = released.full, failing
    rows = released.rows(0.2, replace(released.columns, kinds=kinds, drawn=drawn))
    released.full = whole
    (row,) = [r for r in rows if (r.model, r.metric, r.slice["level"]) == ("Bagel", "IF", "overall")]
    assert row.bounds is not None and row.value is not None
    assert row.bounds[0] < row.value < row.bounds[1]
    judged_cases = sum(group == 0 for _, group in released.design.units()[: round(0.2 * 2712)])
    assert row.bounds[1] - row.bounds[0] == pytest.approx(100 * 8 / judged_cases, rel=0.25)


@pytest.mark.parametrize("lost", ["none", "no number"])
def test_bounds_of_which_one_side_cannot_be_told_are_none_and_it_is_said(released: Released, lost: str) -> None:
    row = released.full[0].model_copy(update={"failures": {"refused": 3}})
    point, low, high = (told(value) for value in (0.5, 0.4, 0.6))
    assert _row(row, point, (0.0, 1.0), {"low": low, "high": high}).bounds == (0.4, 0.6)
    missing = None if lost == "none" else Told(None, "it is no weighted mean", 20, 100, True)
    found = _row(row, point, (0.0, 1.0), {"low": low, "high": missing})
    assert found.value == 0.5
    assert found.bounds is None
    assert "how far those that failed could move it cannot be told" in (found.remark or "")


def told(value: float) -> Told:
    return Told(SampledNumber(value, error=0.05, df=18, case_error=0.02, effective=20, n=20), "", 20, 100, True)


def test_a_total_that_is_no_weighted_mean_over_cases_is_refused_with_the_reason() -> None:
    bench = benchmark("creval")
    rules = TableRules(
        dict.fromkeys(("IF", "VC", "VQ"), (0.0, 1.0)),
        total=Total(lambda means: means["IF"] * means["VC"], name="product", of_means=True),
    )
    protocols = {"corrected": replace(bench.scoring.protocols["corrected"], aggregate=rules.aggregate())}
    product = replace(bench, scoring=replace(bench.scoring, protocols=protocols))
    with pytest.raises(RefBenchError, match="product of CREval is no weighted mean over cases"):
        make_design(product, [case(n) for n in range(30)], References())


def test_a_total_of_each_picture_may_be_any_rule_since_its_parts_are_judged_together() -> None:
    bench = benchmark("creval")
    rules = TableRules(
        dict.fromkeys(("IF", "VC", "VQ"), (0.1, 1.0)), total=Total("geometric_mean", name="all three"), groups=()
    )
    aggregate = rules.aggregate()
    protocols = {"corrected": replace(bench.scoring.protocols["corrected"], aggregate=aggregate)}
    product = replace(bench, scoring=replace(bench.scoring, protocols=protocols))
    assert judged_together(product) == (("IF", "VC", "VQ"),)
    cases = [case(n, f"s{n % 3}") for n in range(120)]
    rng = np.random.default_rng(1)
    columns = Columns.of_values([("m", "j")], {m: rng.uniform(0.1, 1, (1, 120)) for m in ("IF", "VC", "VQ")})
    rows = rows_of(aggregate, columns, cases)
    design = make_design(product, cases, References())
    part = masked(columns, judged(design, dict(product.asking.parts), 0.5))
    for row, full in zip(
        estimated_rows(rows, aggregate, part, cases, Sampling(design, product.asking.parts)), rows, strict=True
    ):
        assert row.estimate is not None
        low, high = row.estimate.all_calls95
        assert low <= (full.value or 0.0) <= high
