"""How often the 95 % intervals of a table contain the truth: samples drawn from the released CREval scores.

    python perf/interval_coverage.py [--samples 300] [--share 1.0] [--cells]

The released item scores are the population; a sample draws, within each dimension, as many items as the share
says (with replacement) and is tabled by the same code as any run. Printed is the share of intervals that
contain the population's value, by level and metric, with the lowest single cell beside it. With `--cells`, plain means
of a few items (a cluster each) of every model and metric instead: each kind of interval beside the one tables have.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from refbench import Score
from refbench.benchmarks.creval.table import CORRECTED, released_scores
from refbench.stats import Design, bca_interval, interval_for, leave_one_out, resample
from refbench.stats.interval import student_interval
from refbench.tables.table import tabulate

METRICS = ("IF", "VC", "VQ")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--cells", action="store_true")
    given = parser.parse_args()
    if given.cells:
        for n in (2, 3, 5, 10, 20, 50):
            small_cells(n, given.samples, given.draws)
        return
    cases, scores = released_scores()
    models = sorted({s.model for s in scores})
    values = {(s.model, s.metric, s.case): s.value for s in scores}
    truth = {(r.model, r.metric, *r.slice.values()): r.value for r in tabulate("p", CORRECTED, scores, cases, draws=0)}
    strata: dict[str, list[int]] = defaultdict(list)
    for number, case in enumerate(cases):
        strata[case.stratum].append(number)
    # The overall mean weights dimensions by their number of items, which the sample keeps up to rounding.
    sizes = {name: max(2, round(len(members) * given.share)) for name, members in strata.items()}
    for model in models:
        for metric in METRICS:
            means = [np.mean([values[model, metric, cases[i].id] for i in members]) for members in strata.values()]
            truth[model, metric, "overall"] = 100 * float(np.average(means, weights=list(sizes.values())))
        truth[model, "avg", "overall"] = sum(
            w * (truth[model, m, "overall"] or 0) for m, w in zip(METRICS, (0.4, 0.4, 0.2), strict=True)
        )
    rng = np.random.default_rng(20251115)
    hits: dict[tuple[str, str], dict[tuple[str, ...], list[bool]]] = defaultdict(lambda: defaultdict(list))
    absent = total = 0
    for _ in range(given.samples):
        drawn = [cases[i] for name, members in strata.items() for i in rng.choice(members, sizes[name])]
        renamed = [c.model_copy(update={"id": str(i), "cluster": str(i)}) for i, c in enumerate(drawn)]
        sample = [
            Score(case=str(i), model=model, metric=metric, protocol="p", value=values[model, metric, c.id])
            for i, c in enumerate(drawn)
            for model in models
            for metric in METRICS
        ]
        for row in tabulate("p", CORRECTED, sample, renamed, draws=given.draws):
            total += 1
            if row.ci95 is None:
                absent += 1
                continue
            place = (row.model, row.metric, *row.slice.values())
            inside = row.ci95[0] <= (truth[place] or 0) <= row.ci95[1]
            hits[row.slice["level"], row.metric][place].append(inside)
    print(
        f"{given.samples} samples of {sum(sizes.values())} items ({min(sizes.values())} to {max(sizes.values())} a dimension), {given.draws} draws"
    )
    for (level, metric), cells in hits.items():
        shares = [100 * np.mean(cell) for cell in cells.values()]
        print(
            f"  {level:9s} {metric:3s}  {np.mean(shares):5.1f} %   lowest of {len(shares)} cells {min(shares):5.1f} %"
        )
    print(f"  no interval (all scores equal): {100 * absent / total:.2f} %")


def small_cells(n: int, samples: int, draws: int) -> None:
    """How often each interval of the mean of n items holds the population's mean, by metric; a cell is a model."""
    _, scores = released_scores()
    rng = np.random.default_rng(20251115)
    design = Design.of([str(i) for i in range(n)], [""] * n)
    weights = np.concatenate(list(resample(design, draws, 1)))
    left = np.concatenate([w for _, w in leave_one_out(design)])
    for metric in METRICS:
        hits: dict[str, list[float]] = defaultdict(list)
        widths: dict[str, list[float]] = defaultdict(list)
        for model in sorted({s.model for s in scores}):
            marks = np.array([s.value for s in scores if (s.model, s.metric) == (model, metric)], dtype=float)
            held: dict[str, list[bool]] = defaultdict(list)
            for x in rng.choice(marks, (samples, n)):
                mean, drawn, influence = x.mean(), weights @ x / n, (x.mean() - left @ x / n) * (1 - 1 / n)
                found = {
                    "BCa": bca_interval(mean, drawn, influence, n - 1),
                    "t": student_interval(mean, float(np.std(drawn)), n - 1),
                    "here": interval_for(mean, drawn, influence, n=n, df=n - 1, ends=(0, 1)),
                }
                for name, ends in found.items():
                    held[name].append(ends is not None and ends[0] <= marks.mean() <= ends[1])
                    if ends is not None:
                        widths[name].append(ends[1] - ends[0])
            for name, inside in held.items():
                hits[name].append(100 * float(np.mean(inside)))
        said = ", ".join(
            f"{name} {np.mean(shares):.1f} (lowest {min(shares):.1f}, width {np.mean(widths[name]):.3f})"
            for name, shares in hits.items()
        )
        print(f"{metric} of {n} items: {said}")


if __name__ == "__main__":
    main()
