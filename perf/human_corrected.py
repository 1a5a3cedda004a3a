"""How often the intervals of corrected numbers contain the truth, and how much narrower they are than of marks alone.

    python perf/human_corrected.py [--samples 1000]

Two populations of 904 outputs: people's marks that are normal, and the released CREval averages of one model (bounded,
skewed, in lumps). The judge's mark is people's with a planted bias and slope and as much noise of its own as gives the
correlation. Printed is, for each number of marks, the coverage of the corrected interval and of the one of marks alone,
and the ratio of their widths, about these cases alone and about cases of their kind; then the same of lists drawn with
unequal chances by `refbench sample`'s rule, where people differ most from the judge where the list has most.
"""

from __future__ import annotations

import argparse

import numpy as np

from refbench.analysis.humans.sample import _drawn
from refbench.benchmarks.creval.table import released_scores
from refbench.stats import Array, Design
from refbench.stats.corrected import Labels, SampledMarks, corrected_mean, error_of

N = 904
SEED = 20251115
DESIGN = Design.of([str(i) for i in range(N)], [""] * N)
NO_STRATA = np.zeros(N, dtype=np.intp)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1000)
    given = parser.parse_args()
    rng = np.random.default_rng(SEED)
    released = released_average("Bagel")
    print(f"{given.samples} samples of {N} outputs, seed {SEED}")
    print(f"{'marks':>6} {'r':>5} {'people':>9}   these cases: corrected alone  width   of their kind: same")
    for n in (10, 20, 50, 200):
        for r in (0.5, 0.8):
            for name, people in (("normal", None), ("released", released)):
                figures = [one_sample(rng, n, r, people) for _ in range(given.samples)]
                shown = "   ".join(
                    f"{mean:17.3f}" if i in (0, 3) else f"{mean:6.3f}"
                    for i, mean in enumerate(np.mean(figures, axis=0))
                )
                print(f"{n:>6} {r:>5} {name:>9} {shown}")
    for n in (50, 150):
        drawn = np.mean([one_list(rng, n) for _ in range(given.samples)], axis=0)
        print(f"list of {n} with unequal chances: coverage {drawn[0]:.3f} on these cases, {drawn[1]:.3f} of their kind")
    for n in (10, 20):
        figures = [one_sample(rng, n, 0.8, None, skewed=True) for _ in range(given.samples)]
        these, kind = np.mean(figures, axis=0)[[0, 3]]
        print(f"{n} exponential marks: coverage {these:.3f} on these cases, {kind:.3f} of their kind")


def released_average(model: str) -> Array:
    cases, scores = released_scores()
    place = {case.id: i for i, case in enumerate(cases)}
    values = np.zeros(len(cases))
    for score in scores:
        if score.model == model:
            values[place[score.case]] += {"IF": 0.4, "VC": 0.4, "VQ": 0.2}[score.metric] * (score.value or 0.0)
    return values


def one_sample(
    rng: np.random.Generator, n: int, r: float, people: Array | None, *, skewed: bool = False
) -> tuple[float, ...]:
    """Held by the corrected interval, by that of marks alone, and the ratio of widths; for both targets. The released
    averages stand for an endless population when cases are drawn from them with replacement."""
    if people is not None:
        quality = people[rng.integers(0, N, N)]
    else:
        quality = 1 - rng.exponential(size=N) if skewed else rng.normal(size=N)
    truth = 0.0 if people is None else float(people.mean())
    noise = np.std(quality) * (1 / r**2 - 1) ** 0.5 * rng.normal(size=N)
    judge = 5 + 1.7 * (quality + noise)  # its bias and slope
    marks = sampled(quality, judge, rng.choice(N, n, replace=False), np.full(N, n / N))
    found: list[float] = []
    for these in (True, False):
        aim = float(quality.mean()) if these else truth
        ends = [interval(marks, tuned=tuned, these=these) for tuned in (True, False)]
        found += [float(low <= aim <= high) for low, high in ends]
        found.append((ends[0][1] - ends[0][0]) / (ends[1][1] - ends[1][0]))
    return tuple(found)


def one_list(rng: np.random.Generator, n: int) -> tuple[float, float]:
    judge = rng.normal(size=N)
    size = 0.5 + np.abs(rng.normal(size=N))
    people = judge + size * rng.normal(size=N)
    places, chances, strata = _drawn(size / size.mean(), n, rng)
    chance = np.ones(N)
    chance[places] = chances
    marks = sampled(people, judge, np.array(places), chance)
    held = []
    for these in (True, False):
        low, high = interval(marks, tuned=True, these=these, strata=np.array(strata))
        held.append(float(low <= (people.mean() if these else 0.0) <= high))
    return held[0], held[1]


def sampled(people: Array, judge: Array, chosen: Array, chance: Array) -> SampledMarks:
    costly = np.full(N, np.nan)
    costly[chosen] = people[chosen]
    return SampledMarks(np.full(N, 1 / N), judge, costly, chance, np.zeros(N), np.arange(N))


def interval(marks: SampledMarks, *, tuned: bool, these: bool, strata: Labels = NO_STRATA) -> tuple[float, float]:
    made = corrected_mean(marks, N, tuned=tuned)
    assert made is not None
    ends = error_of(made, DESIGN, marks.probability, strata, these_cases=these).interval()
    assert ends is not None
    return ends


if __name__ == "__main__":
    main()
