"""What is odd in a copy of IDEA-Bench; anomalies.toml says what each kind does to cases and scores."""

from __future__ import annotations

from refbench.benchmarks.ideabench.cases import read_release
from refbench.benchmarks.kit.anomalies import anomaly_kinds, list_anomalies, request_oddities
from refbench.benchmarks.kit.definition import Anomaly, Dataset

N_TASKS, N_CASES, N_JUDGED = 100, 275, 51

KINDS = anomaly_kinds(__package__)


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity: of the files, of the release as a whole, then of each case; all pictures are opened."""
    release = read_release(dataset.root)
    sizes = (
        ("tasks", N_TASKS, len({case.groups["task"] for case in release.cases})),
        ("cases", N_CASES, len(release.cases)),
        ("cases for a judge", N_JUDGED, sum(case.details.judged for case in release.cases)),
    )
    of_the_whole = [
        ("release_size", "*", f"{there} {what}, {expected} were published")
        for what, expected, there in sizes
        if there != expected
    ]

    oddities = [*release.oddities, *of_the_whole]
    return list_anomalies(dataset, oddities, lambda case: request_oddities(dataset, case, KINDS))
