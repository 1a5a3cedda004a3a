"""What stopping early, comparisons of many or of incomplete models, ranks and intervals hold, on the released CREval
item scores of eight models (904 items).

    python perf/statistical_claims.py [stopping] [intervals] [families] [missing] [ranks] [plan] [--share 1.0]

Without a name all are measured. `--share` makes so much of the simulations. Seeds are in the script.

stopping: each of 28 pairs is followed in 60 fair orders at .05 / 28; how many cases it takes, those never decided
counted with all 904, for pairs that all cases resolve (Holm over 28). Then the same differences with random signs, so
that nothing differs: how often a pair is decided at .05. Then nulls that are not symmetric: models that are better in
most cases and collapse in a few, with no gap, and pass and fail with a gap as large as the margin; and models that are
equal.
intervals: means of 10, 20, 50 items and of 2, 3, 5 clusters (perf/interval_coverage.py --cells).
families: 2 to 200 models a gap of ten standard errors apart, 50 clusters: how many pairs are resolved.
missing: a model refuses the worst tenth of its cases; how often the wrong one is found better.
ranks: eight models moved to nearly one level, cases drawn anew: how often the intervals hold the true rank.
plan: the detectable difference that `plan` promises beside that which `compare` has.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from interval_coverage import small_cells
from refbench.analysis.compare import Comparison, Further, Systems, compare_columns
from refbench.benchmarks.creval.table import CORRECTED, released_scores
from refbench.case import AnyCase
from refbench.engine.options import RunOptions
from refbench.engine.plan import make_plan
from refbench.failure import KINDS
from refbench.runs.run import fair_order
from refbench.stats.ranks import ranks_of
from refbench.stats.sequential import Parts, follow
from refbench.tables.table import Columns, columns_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
SEED = 20251115
WEIGHTS = {"IF": 0.4, "VC": 0.4, "VQ": 0.2}


def released() -> tuple[list[AnyCase], list[str], dict[str, np.ndarray], np.ndarray]:
    """Cases, models, the scores of each metric (models x cases), and each item's avg from 0 to 100."""
    cases, scores = released_scores()
    columns = columns_of(scores, cases)
    models = [model for model, _ in columns.systems]
    avg = 100 * np.sum([weight * columns.values[metric] for metric, weight in WEIGHTS.items()], axis=0)
    return list(cases), models, dict(columns.values), avg


def compared(
    values: dict[str, np.ndarray], cases: Sequence[AnyCase], *, draws: int = 200, models: Sequence[str] = ()
) -> Comparison:
    names = models or [f"m{i:03d}" for i in range(len(values["IF"]))]
    columns = Columns.of_values([(name, "judge") for name in names], values)
    systems = Systems(CORRECTED, columns, cases, "creval", "CREval", "corrected")
    return compare_columns(systems, metric="avg", draws=draws, further=Further(by_slice=False))


def decided(differences: np.ndarray, level: float) -> int | None:
    """After how many cases; None where it never is."""
    n = len(differences)
    parts = Parts(differences / n, differences / n, np.full(n, 1 / n), 1 / n, 100.0)
    there = np.maximum(parts.logs_above(0.0), parts.logs_below(0.0)) >= np.log(2 / level)
    return int(there.argmax()) + 1 if there.any() else None


def stopping(share: float) -> None:
    cases, models, values, avg = released()
    n, orders = len(cases), max(2, round(60 * share))
    pairs = list(combinations(range(len(models)), 2))
    resolved = [pair.resolved for pair in compared(values, cases, models=models, draws=2000).pairs]
    position = {case.id: i for i, case in enumerate(cases)}
    places = [[position[case.id] for case in fair_order(cases, seed)] for seed in range(orders)]
    rng = np.random.default_rng(SEED)
    took, wrong, all_decided, claims = [], 0, 0, 0
    for (a, b), clear in zip(pairs, resolved, strict=True):
        difference = avg[a] - avg[b]
        for place in places:
            after = decided(difference[place], 0.05 / len(pairs))
            all_decided += after is not None
            if clear:
                took.append(n if after is None else after)
                wrong += after is not None and bool(
                    np.sign(difference[place][:after].mean()) != np.sign(difference.mean())
                )
            claims += decided(difference[place] * rng.choice((-1.0, 1.0), n), 0.05) is not None
    tried = len(pairs) * orders
    print(
        f"stopping: {sum(resolved)} of {len(pairs)} pairs are resolved by all {n} cases; at .05 / {len(pairs)} they take "
        f"{np.mean(took):.0f} cases on average, {100 * np.mean(took) / n:.1f} % (at most 33), {100 * np.mean(np.array(took) < n):.1f} % of them "
        f"stop early, {wrong} with the wrong sign; {all_decided / orders:.1f} pairs are decided of {len(pairs)}; {orders} orders"
    )
    print(
        f"stopping, symmetric differences without a gap: a pair is decided in {100 * claims / tried:.2f} % of {tried} (at most 5)"
    )
    stopping_made_up(max(20, round(1000 * share)))


def stopping_made_up(trials: int) -> None:
    """Differences on a scale of 1 of which the truth is known."""
    rng = np.random.default_rng(SEED)

    def verdicts(draw: Callable[[int], np.ndarray], n: int, margin: float | None) -> list[str]:
        drawn = (np.clip(draw(n), -1, 1) / n for _ in range(trials))
        return [follow(Parts(x, x, np.full(n, 1 / n), 1 / n, 1.0), level=0.05, margin=margin).verdict for x in drawn]

    for often, by in ((0.05, 0.7), (0.05, 0.8), (0.1, 0.6)):
        found = verdicts(
            lambda n, often=often, by=by: rng.normal(often * by, 0.05, n) - by * (rng.random(n) < often), 300, None
        )
        wrong = 100 * (1 - found.count("open") / trials)
        print(
            f"stopping, no gap, {by:g} worse in {100 * often:g} % of 300 cases: decided in {wrong:.1f} % of {trials} (at most 5)"
        )
    for margin in (0.02, 0.05, 0.1):
        found = verdicts(lambda n, margin=margin: 1.0 * (rng.random(n) < margin), 500, margin)
        print(
            f"stopping, pass and fail, 500 cases, gap and margin {margin:g}: equal within it in "
            f"{100 * found.count('within') / trials:.1f} % of {trials} (at most 5)"
        )
    found = verdicts(lambda n: rng.normal(0, 0.15, n), 500, 0.05)
    print(
        f"stopping, equal models, spread .15, 500 cases, margin .05: equal within it in "
        f"{100 * found.count('within') / trials:.1f} % of {trials}"
    )


def intervals(share: float) -> None:
    for n in (2, 3, 5, 10, 20, 50):
        small_cells(n, max(50, round(400 * share)), 400)


def families(share: float) -> None:
    """Noise about the model's level, one value for each of 50 cases in all three metrics."""
    cases = released()[0][:50]
    rng = np.random.default_rng(SEED)
    for count in (2, 8, 32, 64, 100, 200):
        if count > 200 * share and count > 2:
            continue
        noise = rng.normal(0, 1, (count, 50))
        noise = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
        error = 1e-4
        # Of two such models the gap has a standard error of sqrt(2 / 49) noises.
        level = 0.5 + np.arange(count)[:, None] * 10 * error * np.sqrt(2 / 49)
        column = level + error * noise
        found = compared(dict.fromkeys(WEIGHTS, column), cases, draws=100)
        done = sum(pair.resolved for pair in found.pairs)
        print(f"families: {count} models 10 standard errors apart, 50 clusters: {done} of {len(found.pairs)} resolved")
    few = compared(dict.fromkeys(WEIGHTS, column[:8, :8]), cases[:8], draws=100)
    print(f"families: 8 models, 8 clusters: said first: {few.pairs[0].hopeless}")


def missing(share: float) -> None:
    cases, models, values, avg = released()
    trials, n = max(20, round(1000 * share)), 200
    rng = np.random.default_rng(SEED)
    # The pair with the smallest gap is where losing the worst cases does most.
    gaps = {(a, b): avg[a].mean() - avg[b].mean() for a, b in combinations(range(len(models)), 2)}
    wrong = claimed = naive = 0
    for trial in range(trials):
        first, second = min(gaps, key=lambda pair: abs(gaps[pair])) if trial % 2 else list(gaps)[trial // 2 % len(gaps)]
        if avg[first].mean() > avg[second].mean():
            first, second = second, first  # the worse one refuses
        drawn = rng.choice(len(cases), n)
        refused = np.argsort(avg[first, drawn])[: n // 10]
        sample = [
            cases[i].model_copy(update={"id": str(k), "cluster": str(k)}) for k, i in enumerate(drawn)
        ]  # the same item twice is two cases
        rows = {metric: column[[first, second]][:, drawn].copy() for metric, column in values.items()}
        for metric in rows:
            rows[metric][0, refused] = np.nan
        columns = Columns.of_values([("refuses", "judge"), ("whole", "judge")], rows)
        for metric in rows:
            columns.kinds[metric][0, refused, 0] = KINDS.index("refused")
            columns.away[metric][0, refused, 0] = False
        own = {metric: columns.kinds[metric] >= 0 for metric in rows}
        columns = Columns(columns.systems, columns.drawn, columns.kinds, columns.away, columns.waiting, own)
        systems = Systems(CORRECTED, columns, sample, "creval", "CREval", "corrected")
        (pair,) = compare_columns(systems, metric="avg", draws=100, further=Further(by_slice=False)).pairs
        gap = pair.gap or 0.0
        wrong += pair.resolved and gap > 0
        claimed += pair.resolved
        naive += (pair.p or 1.0) <= 0.05 and gap > 0
    print(
        f"missing: the worse model refuses its worst tenth of {n} cases: {wrong} wrong-sign claims in {trials} (none allowed), "
        f"{claimed} right ones; on the cases both have, p alone would have made {naive} wrong claims"
    )


def ranks(share: float) -> None:
    cases, models, values, avg = released()
    trials, n = max(20, round(300 * share)), 200
    rng = np.random.default_rng(SEED)
    # Each model is brought to one level, and then a tenth of a point from the next.
    target = avg.mean() + 0.1 * np.arange(len(models))
    moved = {m: v + ((target - avg.mean(axis=1)) / 100)[:, None] for m, v in values.items()}
    held = np.zeros((trials, len(models)))
    truth = len(models) - np.arange(len(models))
    for trial in range(trials):
        drawn = rng.choice(len(cases), n)
        sample = [cases[i].model_copy(update={"id": str(k), "cluster": str(k)}) for k, i in enumerate(drawn)]
        found = compared({m: v[:, drawn] for m, v in moved.items()}, sample, draws=100)
        better = np.zeros((len(models), len(models)), dtype=np.bool_)
        for (a, b), pair in zip(combinations(range(len(models)), 2), found.pairs, strict=True):
            if pair.resolved:
                better[(a, b) if (pair.gap or 0) > 0 else (b, a)] = True
        places = ranks_of(better, np.zeros((len(models), 0)))
        held[trial] = (places.low <= truth) & (truth <= places.high)
    print(
        f"ranks: 8 models 0.1 points apart, {n} cases, {trials} samples: the interval holds the true rank in "
        f"{100 * held.mean():.1f} %, of the worst model {100 * held.mean(axis=0).min():.1f} % (at least 95)"
    )


def plan(share: float) -> None:
    """Over all pairs of released models (at most 40 sets of three); `compare` on the first cases of the fair order."""
    from support.checkout import Item, write_checkout, write_outputs

    cases, models, values, _ = released()
    position = {case.id: i for i, case in enumerate(cases)}
    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        items = [Item(case.id, class_id=1 + n % 9) for n, case in enumerate(cases)]
        root, outputs = write_checkout(Path(folder) / "creval", items), Path(folder) / "outputs"
        write_outputs(outputs, items)
        for count, n in ((2, 904), (3, 904), (8, 904), (2, 300), (8, 300)):
            options = RunOptions.of(
                {
                    "benchmark": "creval",
                    "data": root,
                    "models": [f"m{k}=folder:{outputs}" for k in range(count)],
                    "judges": ["gpt-4o=openai:gpt-4o?base_url=http://127.0.0.1:9/v1&price=2,10"],
                    "limit": n,
                    "metrics": "none",
                }
            )
            planned = asyncio.run(make_plan(options)).precision
            assert planned is not None
            assert planned.detectable is not None
            chosen = [position[case.id] for case in fair_order(cases)[:n]]
            sets = list(combinations(range(len(models)), count))
            some = [sets[i] for i in rng.permutation(len(sets))[: max(2, round(40 * share))]]
            found = [
                pair.detectable
                for rows in some
                for pair in compared(
                    {m: v[list(rows)][:, chosen] for m, v in values.items()}, [cases[i] for i in chosen]
                ).pairs
                if pair.detectable is not None
            ]
            median = float(np.median(found))
            print(
                f"plan: {count} models, {n} cases: {planned.detectable:.2f} planned, {median:.2f} the median of what "
                f"compare has ({100 * (planned.detectable / median - 1):+.1f} %, at most 10)"
            )


ALL = {
    "stopping": stopping,
    "intervals": intervals,
    "families": families,
    "missing": missing,
    "ranks": ranks,
    "plan": plan,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*ALL, []])
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    for name in given.names or ALL:
        ALL[name](given.share)


if __name__ == "__main__":
    main()
