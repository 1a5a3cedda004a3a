"""How well a part of the calls tells the number of all: the released CREval scores, one model left out at a time.

    python perf/fewer_calls.py [--samples 200] [--curve docs/images/fewer-calls.svg]

Each of the eight models in turn is the one that is judged, the seven others are the references. A sample is a design of
`refbench run --calls` with a seed of its own, and its estimate is made by the code that tables such a run. Printed are
the error (root mean square, in points of `avg`) and how often the 95 % interval holds the number of all 904 items; then
the same for `--within`, and one line of JSON. `--curve` also draws the error against the share of the calls.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from refbench.analysis.fewer.design import make_design
from refbench.analysis.fewer.references import References, references_of
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import CORRECTED, released_scores
from refbench.engine.sampling import FIRST, next_look
from refbench.report.figures import dot, line, text, ticks
from refbench.runs.run import fair_order
from refbench.stats import Array
from refbench.tables.sampled import SampleDesign, Sampling, estimated_rows
from refbench.tables.table import Columns, Row, columns_of, tabulate

METRICS = ("IF", "VC", "VQ")
WEIGHTS = np.array([0.4, 0.4, 0.2])
SEED = 20251118
BENCH = benchmark("creval")
OVERALL = replace(CORRECTED, slices=CORRECTED.overall)


@dataclass(frozen=True)
class Seen:
    """Errors and hits, samples x models, with the mean half-width and the mean share of the calls."""

    errors: Array
    hits: Array
    half_width: float
    share: float

    @property
    def rmse(self) -> float:
        return float(np.sqrt((self.errors**2).mean()))

    def row(self, name: str) -> dict[str, float | str]:
        cover = 100 * self.hits.mean(axis=0)
        return {
            "what": name,
            "share": round(100 * self.share, 1),
            "rmse": round(self.rmse, 3),
            "coverage": round(float(cover.mean()), 1),
            "worst_model": round(float(cover.min()), 1),
            "bias": round(float(self.errors.mean()), 3),
            "half_width": round(self.half_width, 2),
        }


class Study:
    """The released scores as a population, and every model's designs."""

    def __init__(self) -> None:
        cases, scores = released_scores()
        self.cases = list(cases)
        columns = columns_of(list(scores), self.cases)
        self.models = [model for model, _ in columns.systems]
        self.values = {metric: columns.values[metric] for metric in METRICS}
        self.truth = 100 * sum(w * self.values[m].mean(axis=1) for w, m in zip(WEIGHTS, METRICS, strict=True))
        rows = tabulate("p", OVERALL, [s.model_copy(update={"judge": "j"}) for s in scores], self.cases, draws=0)
        self.rows = {row.model: [row.model_copy(update={"model": "m"})] for row in rows if row.metric == "avg"}
        self.released = references_of(BENCH, self.cases, ["released"], None)
        self.orders: dict[int, tuple[tuple[int, ...], ...]] = {}

    def design(self, model: int, references: int, rng: np.random.Generator) -> SampleDesign:
        others = [number for number in range(len(self.models)) if number != model]
        chosen = sorted(rng.choice(others, min(references, len(others)), replace=False).tolist())
        known = {metric: self.released.columns[metric][chosen] for metric in METRICS} if chosen else {}
        return make_design(BENCH, self.cases, References(known, "others" if chosen else ""))

    def order(self, seed: int) -> tuple[tuple[int, ...], ...]:
        if seed not in self.orders:
            place = {case.id: number for number, case in enumerate(self.cases)}
            self.orders[seed] = tuple(
                tuple(place[case.id] for case in fair_order(self.cases, 1000 + 3 * seed + g)) for g in range(3)
            )
        return self.orders[seed]

    def estimate(self, model: int, design: SampleDesign, units: Sequence[tuple[int, int]]) -> Row:
        """The row of `avg` when these units are judged."""
        judged = np.zeros((3, len(self.cases)), dtype=np.bool_)
        for case, group in units:
            judged[group, case] = True
        of_group = {design.groups[g][0]: judged[g] for g in range(3)}
        masked = {m: np.where(of_group[m], self.values[m][model], np.nan)[None, :] for m in METRICS}
        columns = Columns.of_values([("m", "j")], masked)
        waiting = {m: ~of_group[m][None, :, None] for m in METRICS}
        nowhere = {m: np.zeros_like(gap) for m, gap in waiting.items()}
        columns = replace(columns, waiting=waiting, away=nowhere)
        sampling = Sampling(design, BENCH.asking.parts)
        (row,) = estimated_rows(self.rows[self.models[model]], OVERALL, columns, self.cases, sampling)
        return row

    def seen(self, samples: int, references: int, stop: Callable[[Study, int, SampleDesign], Row]) -> Seen:
        shape = samples, len(self.models)
        errors, hits, widths, shares = (np.zeros(shape) for _ in range(4))
        rng = np.random.default_rng(SEED)
        designs = [self.design(model, references, rng) for model in range(len(self.models))]
        for sample in range(samples):
            for model in range(len(self.models)):
                if 0 < references < 7:
                    designs[model] = self.design(model, references, rng)
                design = designs[model].model_copy(update={"orders": self.order(sample)})
                row = stop(self, model, design)
                assert row.estimate is not None and row.value is not None
                low, high = row.estimate.all_calls95
                errors[sample, model] = row.value - self.truth[model]
                hits[sample, model] = low <= self.truth[model] <= high
                widths[sample, model], shares[sample, model] = row.estimate.half_width, row.estimate.share
        return Seen(errors, hits, float(widths.mean()), float(shares.mean()))

    def random(self, samples: int, share: float) -> Seen:
        """Cases drawn at random, all three calls of each, and their plain mean with Student's interval."""
        rng = np.random.default_rng(SEED)
        n_cases = len(self.cases)
        n = round(share * n_cases)
        every = 100 * sum(w * self.values[m] for w, m in zip(WEIGHTS, METRICS, strict=True))
        errors, hits = np.zeros((samples, len(self.models))), np.zeros((samples, len(self.models)))
        reach = 0.0
        for sample in range(samples):
            mine = every[:, rng.choice(n_cases, n, replace=False)]
            half = 1.96 * mine.std(axis=1, ddof=1) * math.sqrt((1 - n / n_cases) / n)
            errors[sample] = mine.mean(axis=1) - self.truth
            hits[sample] = np.abs(errors[sample]) <= half
            reach += float(half.mean()) / samples
        return Seen(errors, hits, reach, n / n_cases)


def of_share(share: float) -> Callable[[Study, int, SampleDesign], Row]:
    def stop(study: Study, model: int, design: SampleDesign) -> Row:
        return study.estimate(model, design, design.units()[: math.ceil(share * design.n_units - 1e-9)])

    return stop


def of_width(within: float) -> Callable[[Study, int, SampleDesign], Row]:
    """Stops as `--within` does."""

    def stop(study: Study, model: int, design: SampleDesign) -> Row:
        units, done = design.units(), math.ceil(FIRST * design.n_units)
        while True:
            row = study.estimate(model, design, units[:done])
            width = row.estimate.half_width if row.estimate else None
            if width is not None and width <= within:
                return row
            done = next_look(done, design.n_units, width, within)

    return stop


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--curve", type=Path)
    given = parser.parse_args()
    study, samples = Study(), given.samples
    found = {
        "7 references, 14 %": study.seen(samples, 7, of_share(0.14)),
        "7 references, 10 %": study.seen(samples, 7, of_share(0.10)),
        "1 reference, 10 %": study.seen(samples, 1, of_share(0.10)),
        "no reference, 10 %": study.seen(samples, 0, of_share(0.10)),
        "at random, 10 %": study.random(10 * samples, 0.10),
        "at random, 14 %": study.random(10 * samples, 0.14),
        "--within 2": study.seen(max(samples // 4, 1), 7, of_width(2.0)),
    }
    rows = [seen.row(name) for name, seen in found.items()]
    print(f"{'':22} {'calls':>6} {'RMSE':>6} {'cover':>6} {'worst':>6} {'bias':>7} {'half':>6}")
    for row in rows:
        numbers = f"{row['share']:>5} % {row['rmse']:>6} {row['coverage']:>6} {row['worst_model']:>6} {row['bias']:>7}"
        print(f"{row['what']:22} {numbers} {row['half_width']:>6}")
    if given.curve is not None:
        shares = (0.03, 0.05, 0.07, 0.10, 0.14, 0.20, 0.30, 0.50)
        fewer = max(samples // 4, 1)
        curves = {
            "at random": [(s, study.random(10 * samples, s).rmse) for s in shares],
            "1 reference model": [(s, study.seen(fewer, 1, of_share(s)).rmse) for s in shares],
            "7 reference models": [(s, study.seen(fewer, 7, of_share(s)).rmse) for s in shares],
        }
        given.curve.write_text(drawn(curves))
        for name, points in curves.items():
            print(name, ", ".join(f"{100 * share:g} %: {rmse:.2f}" for share, rmse in points))
    print(json.dumps({"samples": samples, "seed": SEED, "rows": rows}))


_COLOURS = ("#8a8d94", "#c77d1e", "#1f5fa8")


def drawn(curves: dict[str, list[tuple[float, float]]]) -> str:
    """The error against the share of the calls, one line for each way."""
    left, right, top, bottom, width, height = 58.0, 20.0, 16.0, 44.0, 640.0, 340.0
    most_x, most_y = 0.32, 3.5

    def place(share: float, rmse: float) -> tuple[float, float]:
        x = left + share / most_x * (width - left - right)
        return x, height - bottom - rmse / most_y * (height - top - bottom)

    parts = []
    for tick in ticks((0.0, most_y)):
        (x0, y), (x1, _) = place(0, tick), place(most_x, tick)
        parts += [line((x0, y), (x1, y), "#e2e2dd"), text((x0 - 8, y + 4), f"{tick:g}", 'text-anchor="end"')]
    for share in (0.05, 0.10, 0.14, 0.20, 0.30):
        x, y = place(share, 0)
        parts.append(text((x, y + 18), f"{100 * share:g} %", 'text-anchor="middle"'))
    for (name, points), colour in zip(curves.items(), _COLOURS, strict=True):
        shown = [place(*point) for point in points if point[0] <= most_x and point[1] <= most_y]
        parts += [line(a, b, colour, 2) for a, b in pairwise(shown)]
        parts += [dot(point, colour, 3.5) for point in shown]
        parts.append(text((width - right - 200, top + 20 + 20 * list(curves).index(name)), name, f'fill="{colour}"'))
    (x0, y), (x1, _) = place(0, 0), place(most_x, 0)
    parts.append(line((x0, y), (x1, y), "#585b63"))
    parts.append(text(((x0 + x1) / 2, height - 6), "share of the judge's calls", 'text-anchor="middle"'))
    parts.append(text((8, top - 2), "error of avg in points (root mean square)"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="13" fill="#585b63">', *parts, "</svg>\n"])


if __name__ == "__main__":
    main()
