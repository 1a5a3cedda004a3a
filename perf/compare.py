"""What `refbench compare` costs, and how often it claims a difference where there is none.

    python perf/compare.py [--trials 400] [--samples 100] [--cases 3769] [--skew 2000]

Cost: two run directories of MultiBanana's size with one model each, made on the spot, compared by the command itself;
CPU seconds are of the whole process (user and system) and stand beside the time of tabling one of the runs. Error:
each case's released CREval scores are dealt to the models at random, so that no pair differs, and counted is how often
any pair is claimed, with Holm's correction and without. Coverage: samples drawn from the same figures. Skew: how often
a difference is claimed whose mean is zero, from symmetric, skewed and released differences, by each test alone and by
the larger p of both, which is what pairs have.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from refbench.analysis.compare.draws import Resampling, draw_pairs
from refbench.analysis.compare.family import Systems, compare_columns
from refbench.analysis.compare.pairing import Pairings, who_meets
from refbench.benchmarks.creval.table import PAPER, released_scores
from refbench.benchmarks.multibanana.cases import LABELS, PART, TASKS, MultiBananaCase, MultiBananaDetails
from refbench.case import Picture, Request
from refbench.evidence import Evidence, Purpose
from refbench.runs import Run
from refbench.stats import Contrast, Design, error_and_skew, holm, sum_flip_p
from refbench.tables.table import columns_of

TARGET = 10.0


def multibanana_cases(count: int) -> list[MultiBananaCase]:
    rng = np.random.default_rng(0)
    names, tags = list(TASKS), ("rare", "scale", "cross_domain", "multilingual")
    cases = []
    for i in range(count):
        task = TASKS[names[i % len(names)]]
        number = f"{i:04d}"
        cases.append(
            MultiBananaCase(
                id=f"{task.name}/{number}",
                request=Request(
                    instruction=f"Put the things of set {i} on one shelf, in the light of the first picture.",
                    pictures=tuple(
                        Picture(name=f"{task.name}/{number}_{k}.png", role="reference") for k in range(task.n_refs)
                    ),
                ),
                groups={
                    "group": task.group,
                    "task": task.name,
                    "n_refs": str(task.n_refs),
                    "source": ("real", "generated")[i % 2],
                },
                tags=tuple(tag for tag in tags if rng.random() < 0.2),
                cluster=f"{task.name}/{number}",
                stratum=task.name,
                details=MultiBananaDetails(task_dir=task.name, number=number),
            )
        )
    return cases


def write_run(path: Path, cases: list[MultiBananaCase], model: str, shift: float) -> None:
    """A run with a reply for every case, one in a hundred of them without marks."""
    rng = np.random.default_rng([1, *model.encode()])
    level = np.random.default_rng(2).normal(6.5, 1.5, len(cases))
    with Run.create(path, "multibanana", cases).writer() as writer:
        for case, base in zip(cases, level, strict=True):
            marks = np.clip(np.rint(base + shift + rng.normal(0, 1.2, len(LABELS))), 1, 10).astype(int)
            lines = [f"{label}: {mark}" for label, mark in zip(LABELS.values(), marks, strict=True)]
            text = (
                "Nothing to say."
                if rng.random() < 0.01
                else "\n".join(["Reasoning: " + "it is as asked " * 40, "", *lines])
            )
            purpose = Purpose(case=case.id, model=model, judge="judge", part=PART)
            request = {"model": "judge", "case": case.id, "of": model}
            writer.add(Evidence(kind="chat", request=request, reply=text), purpose)


def cpu_of(code: str, *words: str) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # One thread: a second one waits by spinning, and on a busy machine its waiting counts as work.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, env=alone)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended.stdout


COMPARE = "import sys; from refbench.cli.compare import compare_command; compare_command(*sys.argv[1:])"
TABLE = (
    "import sys; from refbench.cli.table import table_command; table_command(__import__('pathlib').Path(sys.argv[1]))"
)


def cost(count: int) -> None:
    cases = multibanana_cases(count)
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / name for name in ("x", "y")]
        for path, model, shift in zip(runs, ("A", "B"), (0.0, 0.08), strict=True):
            write_run(path, cases, model, shift)
        table, _ = cpu_of(TABLE, str(runs[0]))
        seconds, shown = cpu_of(COMPARE, *map(str, runs))
    print(shown)
    print(
        f"compare two runs of {count} cases: {seconds:.1f} s CPU (target {TARGET:.0f}), {seconds / table:.2f} x tabling one of them ({table:.1f} s)"
    )


def errors(trials: int, flips: int = 999) -> None:
    cases, scores = released_scores()
    columns = columns_of(scores, cases)
    (measure,) = [m for m in PAPER.measures if m.name == "avg"]
    models = [model for model, _ in columns.systems]
    pairs = Pairings(PAPER, columns, PAPER.filled(columns), measure, cases)
    pairings = [pairs.of(a, b) for a, b in who_meets(columns.systems, models)]
    rng = np.random.default_rng(20251115)
    rows = np.arange(len(models))[:, None]
    corrected = plain = single = 0
    for trial in range(trials):
        dealt = rng.permuted(np.broadcast_to(rows, (len(models), len(cases))), axis=0)
        values = {m: v[dealt, np.arange(len(cases))] for m, v in columns.values.items()}
        drawn = draw_pairs(PAPER, values, cases, pairings, "avg", Resampling(2, flips, trial), by_slice=False)
        found = [pair.p or 0.0 for pair in drawn]
        corrected += min(holm(found)) <= 0.05
        plain += min(found) <= 0.05
        single += found[0] <= 0.05
    noise = 100 * 1.96 * np.sqrt(0.05 * 0.95 / trials)
    print(
        f"no pair differs, {trials} trials of {len(pairings)} pairs on {len(cases)} released items: any claim "
        f"{100 * corrected / trials:.1f} % with Holm, {100 * plain / trials:.1f} % without; one pair {100 * single / trials:.1f} % "
        f"(simulation noise +-{noise:.1f})"
    )


def coverage(trials: int, draws: int = 500) -> None:
    """How often the interval of a gap has the population's gap in it: items drawn anew within dimensions."""
    cases, scores = released_scores()
    columns = columns_of(scores, cases)
    strata: dict[str, list[int]] = {}
    for number, case in enumerate(cases):
        strata.setdefault(case.stratum, []).append(number)
    systems = Systems(PAPER, columns, cases, "creval", "CREval", "paper")
    truth = [pair.gap for pair in compare_columns(systems, metric="avg", draws=draws).pairs]
    (measure,) = [m for m in PAPER.measures if m.name == "avg"]
    couples = who_meets(columns.systems, [model for model, _ in columns.systems])
    pairs = Pairings(PAPER, columns, PAPER.filled(columns), measure, cases)
    pairings = [pairs.of(a, b) for a, b in couples]
    rng = np.random.default_rng(7)
    hits = np.zeros(len(couples))
    for trial in range(trials):
        picked = np.concatenate([rng.choice(members, len(members)) for members in strata.values()])
        sample = [cases[i].model_copy(update={"id": str(n), "cluster": str(n)}) for n, i in enumerate(picked)]
        values = {m: v[:, picked] for m, v in columns.values.items()}
        found = draw_pairs(PAPER, values, sample, pairings, "avg", Resampling(draws, seed=trial), by_slice=False)
        hits += [
            pair.gap.ci95 is not None and pair.gap.ci95[0] <= (t or 0) <= pair.gap.ci95[1]
            for pair, t in zip(found, truth, strict=True)
        ]
    shares = 100 * hits / trials
    print(
        f"intervals of {len(couples)} gaps, {trials} samples: {shares.mean():.1f} % have the truth, lowest pair {shares.min():.1f} %"
    )


def skew(trials: int, flips: int = 999) -> None:
    cases, scores = released_scores()
    columns = columns_of(scores, cases)
    combined = 100 * (0.4 * columns.values["IF"] + 0.4 * columns.values["VC"] + 0.2 * columns.values["VQ"])
    rng = np.random.default_rng(3)

    def of_pair(rows: np.ndarray, n: int) -> np.ndarray:
        a, b = rng.choice(len(rows), 2, replace=False)
        apart = rows[a] - rows[b]
        return rng.choice(apart - apart.mean(), n)

    kinds = {
        "normal": lambda n: rng.normal(size=n),
        "exponential": lambda n: rng.exponential(size=n) - 1,
        "lognormal": lambda n: np.exp(rng.normal(size=n)) - np.exp(0.5),
        "released avg": lambda n: of_pair(combined, n),
        "released VQ": lambda n: of_pair(100 * columns.values["VQ"], n),
    }
    for name, sample in kinds.items():
        for n in (10, 20, 50, 200):
            design = Design.of([str(i) for i in range(n)], [""] * n)
            claims = {"flips": 0, "Student": 0, "pairs": 0}
            for trial in range(trials):
                x = sample(n)
                error, skewed = error_and_skew((x - x.mean()) / n, design)
                corrected = Contrast(float(x.mean()), error, skewed, n, n - 1).p
                plain = Contrast(float(x.mean()), error, 0.0, n, n - 1).p
                (flipped,) = sum_flip_p(x[None], flips, trial)
                claims["flips"] += flipped.p <= 0.05
                claims["Student"] += (1.0 if plain is None else plain) <= 0.05
                claims["pairs"] += max(flipped.p, corrected or 0.0) <= 0.05
            said = ", ".join(f"{test} {100 * count / trials:.1f} %" for test, count in claims.items())
            print(f"{name} differences with mean zero, {n} clusters: {said} (5 % allowed)")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--cases", type=int, default=3769)
    parser.add_argument("--skew", type=int, default=1000)
    given = parser.parse_args()
    if given.cases:
        cost(given.cases)
    if given.trials:
        errors(given.trials)
    if given.samples:
        coverage(given.samples)
    if given.skew:
        skew(given.skew)


if __name__ == "__main__":
    main()
