"""Metrics of a folder of pictures against another, picture by picture: pairs have the same path but for the ending."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refbench.failure import Failure
from refbench.metrics.measure import Job, Measurement, Measurer
from refbench.metrics.metric import Metric
from refbench.pictures.collection import picture_names
from refbench.record import RefBenchError
from refbench.stats.interval import Design, Interval, draws_of, interval_for

_DRAWS, _SEED = 2000, 0
_CHUNK = 64


@dataclass(frozen=True)
class Pairs:
    """Pictures of the same name in two folders, and those that have none to be compared with."""

    paths: dict[str, tuple[Path, Path]]
    alone: tuple[str, ...]

    @classmethod
    def of(cls, output: Path, other: Path) -> Pairs:
        first, second = (_by_name(folder) for folder in (output, other))
        both = {name: (first[name], second[name]) for name in first if name in second}
        if not both:
            some = " and ".join(f"{next(iter(of), 'nothing')} in {f}" for f, of in ((output, first), (other, second)))
            raise RefBenchError(f"no picture of {output} has one of its name in {other}: there is {some}")
        alone = [path for of in (first, second) for name, path in of.items() if name not in both]
        return cls(both, tuple(map(str, alone)))


def _by_name(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name in picture_names(folder):
        stem = str(Path(name).with_suffix(""))
        if stem in found:
            raise RefBenchError(f"{folder} has {found[stem].name} and {Path(name).name}: one name, two pictures")
        found[stem] = folder / name
    return found


@dataclass(frozen=True)
class FolderValue:
    """One metric over all pairs: the mean of those with a value, its interval, and what each pair gave."""

    metric: Metric
    values: dict[str, Measurement]

    @property
    def scores(self) -> list[float]:
        return [one.value for one in self.values.values() if one.value is not None]

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.scores)) if self.scores else None

    @property
    def ci95(self) -> Interval:
        """Of the mean, over pictures as a sample of such pictures."""
        scores = np.array(self.scores)
        if len(scores) < 2:
            return None
        names = [str(n) for n in range(len(scores))]
        draws, influence = draws_of(
            lambda weights: weights @ scores / weights.sum(axis=1), Design.of(names, [""] * len(scores)), _DRAWS, _SEED
        )
        low, high = self.metric.range
        ends = None if low is None or high is None else (float(low), float(high))
        return interval_for(float(scores.mean()), draws, influence, n=len(scores), df=len(scores) - 1, ends=ends)

    @property
    def failures(self) -> dict[str, Failure]:
        return {name: one.failure for name, one in self.values.items() if one.failure is not None}


def measure_pairs(
    metrics: Sequence[tuple[Metric, str]], pairs: Pairs, *, protocol: str, device: str, dtype: str
) -> list[FolderValue]:
    """Each metric of each pair; `metrics` say as what the second folder is shown: "source" or "reference"."""
    measurer = Measurer(device=device, dtype=dtype)
    found: list[FolderValue] = []
    names = list(pairs.paths)
    for metric, role in metrics:
        values: dict[str, Measurement] = {}
        for start in range(0, len(names), _CHUNK):
            some = names[start : start + _CHUNK]
            jobs = [
                Job(
                    metric=metric.id,
                    protocol=metric.protocol,
                    decoding=protocol,
                    pictures={"output": str(pairs.paths[name][0]), role: str(pairs.paths[name][1])},
                )
                for name in some
            ]
            values |= dict(zip(some, measurer(jobs), strict=True))
        found.append(FolderValue(metric, values))
    return found
