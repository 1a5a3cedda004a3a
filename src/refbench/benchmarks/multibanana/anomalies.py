"""What is odd in a copy of MultiBanana; anomalies.toml says what each kind does to cases and scores."""

from __future__ import annotations

from collections.abc import Iterator

from refbench.benchmarks.kit.anomalies import Oddity, anomaly_kinds, list_anomalies, request_oddities
from refbench.benchmarks.kit.definition import Anomaly, Dataset
from refbench.benchmarks.multibanana.cases import MultiBananaCase, read_release, read_sources

KINDS = anomaly_kinds(__package__)


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity: of the layout, of tags and sources, then of each case; all pictures are opened."""
    listed = read_sources(dataset.picture_root).known

    def of_case(case: MultiBananaCase) -> Iterator[Oddity]:
        yield from request_oddities(dataset, case, KINDS, instruction="prompt", first=0)
        for index, picture in enumerate(case.request.pictures):
            if listed and case.details.sources[index] is None:
                yield "unlisted_reference", str(index), picture.name

    # From the files once more: sets that were left out have no case that could carry their oddity.
    return list_anomalies(dataset, read_release(dataset.root).oddities, of_case)
