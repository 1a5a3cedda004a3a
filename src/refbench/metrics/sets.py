"""Measures of whole sets of pictures from their features: Frechet and kernel distances, never of one picture.

A set's Gaussian is a small state that shards gather apart and merge. Every value carries how many pictures it is of
and whose features they are; only Inception's may be called FID or KID.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.measure import Measurer
from refbench.networks import networks, why_not
from refbench.pictures import EXTENSIONS
from refbench.record import Record, RefBenchError

Floats: TypeAlias = NDArray[np.float64]

LEAST_FRECHET = 2_048
"""Pictures a side below which the covariance of Inception's 2,048 features is singular and the distance mostly bias."""
KINDS = ("frechet", "kid")
PLAIN = {"fid": "frechet@inception_v3", "kid": "kid@inception_v3"}
"""Names that mean Inception's features; the value names the network all the same."""
_CHUNK = 64
_SUFFIXES = {*EXTENSIONS.values(), ".jpeg", ".tiff"}


class SetValue(Record):
    """A distance of two sets, with all that a reader must know of it."""

    name: str
    """`FID`, `KID`, or the distance with the network whose features it is of."""
    value: float
    n_output: int
    n_reference: int
    features: str
    spread: float | None = None
    """Standard deviation over the subsets, for kernel distances; None where a subset is all there is."""
    remark: str = ""

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" (standard deviation {self.spread:.6g})"
        remark = f"; {self.remark}" if self.remark else ""
        sizes = f"{self.n_output} against {self.n_reference} pictures, features {self.features}"
        return f"{self.name} {self.value:.6g}{spread}: {sizes}{remark}"


@dataclass(frozen=True)
class GaussianState:
    """Count, mean and scatter (sum of squared deviations) of feature vectors; merging is exact but for rounding."""

    features: str
    n: int
    mean: Floats
    scatter: Floats

    @classmethod
    def of(cls, features: str, vectors: NDArray[Any]) -> GaussianState:
        """The state of some vectors (n x d)."""
        if vectors.ndim != 2 or not len(vectors):
            raise RefBenchError(f"{features}: features must be pictures x dimensions, not {vectors.shape}")
        wide = vectors.astype(np.float64)
        if not np.isfinite(wide).all():
            raise RefBenchError(f"{features}: some features are not finite; leave those pictures out as failures")
        mean = wide.mean(axis=0)
        centred = wide - mean
        return cls(features, len(wide), mean, centred.T @ centred)

    def merge(self, other: GaussianState) -> GaussianState:
        """The state of both sets together; deviations are taken from the common mean, so nothing cancels."""
        if self.features != other.features or self.mean.shape != other.mean.shape:
            raise RefBenchError(f"features of {self.features} and {other.features} cannot be merged")
        n = self.n + other.n
        apart = other.mean - self.mean
        mean = (self.mean * self.n + other.mean * other.n) / n
        scatter = self.scatter + other.scatter + np.outer(apart, apart) * (self.n * other.n / n)
        return GaussianState(self.features, n, mean, scatter)

    @property
    def covariance(self) -> Floats:
        """Unbiased; needs two vectors."""
        return self.scatter / (self.n - 1)


def merged(states: Iterable[GaussianState]) -> GaussianState:
    """All states together; by halves, so that the rounding does not grow with their number."""
    parts = list(states)
    if not parts:
        raise RefBenchError("there is no set to merge")
    while len(parts) > 1:
        pairs = [parts[i].merge(parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + ([parts[-1]] if len(parts) % 2 else [])
    return parts[0]


def set_label(kind: str, features: str) -> str:
    """What a distance may be called: FID or KID of Inception's features only, else it names its network."""
    inception = features.startswith("inception")
    if kind == "frechet":
        return "FID" if inception else f"Frechet distance of {features}"
    return "KID" if inception else f"kernel distance of {features}"


def frechet(output: GaussianState, reference: GaussianState, *, force: bool = False) -> SetValue:
    """Frechet distance of two sets as Gaussians. Refuses fewer than 2,048 pictures a side unless forced."""
    name = _comparable("frechet", output.features, reference.features, output.mean.size, reference.mean.size)
    fewest = min(output.n, reference.n)
    if fewest < LEAST_FRECHET and not force:
        raise RefBenchError(
            f"{name} of {fewest} pictures would be mostly bias: give at least {LEAST_FRECHET:,} a side, "
            "use KID, or force it"
        )
    if fewest < 2:
        raise RefBenchError(f"{name} needs at least two pictures a side, even when forced")
    return SetValue(
        name=name,
        value=frechet_distance(output.mean, output.covariance, reference.mean, reference.covariance),
        n_output=output.n,
        n_reference=reference.n,
        features=output.features,
        remark=f"forced: {fewest} pictures, fewer than {LEAST_FRECHET:,}" if fewest < LEAST_FRECHET else "",
    )


def frechet_distance(mean: Floats, covariance: Floats, other_mean: Floats, other_covariance: Floats) -> float:
    """|m - m'|^2 + tr(S + S' - 2 (S S')^1/2)."""
    # tr (S S')^1/2 is the sum of the singular values of S^1/2 S'^1/2. Symmetric roots stay real however singular the
    # product is, where a root of S S' itself needs jitter and drops an imaginary part.
    crossed = np.linalg.svd(_root(covariance) @ _root(other_covariance), compute_uv=False).sum()
    apart = mean - other_mean
    traces = float(np.trace(covariance) + np.trace(other_covariance))
    return max(0.0, float(apart @ apart) + traces - 2 * float(crossed))


def _root(symmetric: Floats) -> Floats:
    values, vectors = np.linalg.eigh(symmetric)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def kid(
    output: NDArray[Any],
    reference: NDArray[Any],
    *,
    features: str,
    subsets: int = 100,
    subset_size: int = 1_000,
    seed: int = 0,
) -> SetValue:
    """Kernel distance: unbiased MMD^2 with the kernel (x.y / d + 1)^3, mean over random subsets.

    Unbiased at any number of pictures, so it may be below zero. Sets smaller than `subset_size` give smaller subsets;
    where a subset is the whole of both sets, there is one distance and no spread.
    """
    name = _comparable("kernel", features, features, output.shape[1], reference.shape[1])
    size = min(subset_size, len(output), len(reference))
    if size < 2:
        raise RefBenchError(f"{name} needs at least two pictures a side")
    rng = np.random.default_rng(seed)
    whole = [side for side, vectors in (("output", output), ("reference", reference)) if len(vectors) == size]
    distances = np.empty(1 if len(whole) == 2 else subsets)
    for draw in range(len(distances)):
        ours = output[rng.choice(len(output), size, replace=False)]
        theirs = reference[rng.choice(len(reference), size, replace=False)]
        distances[draw] = mmd_squared(ours, theirs)
    remark = f"subsets of {size} pictures" if size < subset_size or whole else ""
    if len(whole) == 2:
        remark = f"of all {size} pictures at once, so there is no spread to estimate"
    elif whole:
        remark += f", which is all of the {whole[0]}'s: the deviation is that of the other side alone"
    return SetValue(
        name=name,
        value=float(distances.mean()),
        n_output=len(output),
        n_reference=len(reference),
        features=features,
        spread=float(distances.std()) if len(distances) > 1 else None,
        remark=remark,
    )


def mmd_squared(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Unbiased squared maximum mean discrepancy under the cubic polynomial kernel."""
    x, y = first.astype(np.float64), second.astype(np.float64)
    within, within_other, between = _cubic(x, x), _cubic(y, y), _cubic(x, y)
    n, m = len(x), len(y)
    own = (within.sum() - np.trace(within)) / (n * (n - 1))
    other = (within_other.sum() - np.trace(within_other)) / (m * (m - 1))
    return float(own + other - 2 * between.mean())


def _cubic(x: Floats, y: Floats) -> Floats:
    return np.asarray((x @ y.T / x.shape[1] + 1) ** 3)


def _comparable(kind: str, features: str, other: str, size: int, other_size: int) -> str:
    if features != other or size != other_size:
        raise RefBenchError(f"features of {features} ({size}) and {other} ({other_size}) cannot be compared")
    return set_label(kind, features)


def measure_folders(
    metric: str, output: Path, reference: Path, *, device: str = "cpu", force: bool = False
) -> SetValue:
    """`frechet@NETWORK` or `kid@NETWORK` of two folders. A picture that cannot be read is refused, not left out."""
    kind, _, network = PLAIN.get(metric, metric).partition("@")
    able = [info.name for info in networks().values() if info.gives == "embedding"]
    if kind not in KINDS or network not in able:
        ways = ", ".join(f"{k}@{name}" for name in able for k in KINDS)
        raise RefBenchError(f"{metric} is no metric of two folders: there are {ways}")
    reason = why_not(network)
    if reason is not None:
        raise RefBenchError(reason)
    ours, theirs = (_vectors(folder, network, device) for folder in (output, reference))
    if kind == "kid":
        return kid(np.concatenate(ours), np.concatenate(theirs), features=network)
    states = [merged(GaussianState.of(network, block) for block in blocks) for blocks in (ours, theirs)]
    return frechet(*states, force=force)


def _vectors(folder: Path, network: str, device: str) -> list[np.ndarray]:
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in _SUFFIXES)
    if not paths:
        raise RefBenchError(f"{folder} holds no pictures")
    measurer = Measurer(device=device)
    blocks = []
    for start in range(0, len(paths), _CHUNK):
        vectors = measurer.features(network, paths[start : start + _CHUNK])
        for path, feature in zip(paths[start:], vectors, strict=False):
            if isinstance(feature, Failure):
                raise RefBenchError(f"{path}: {feature}; a set with a picture missing is another set, so remove it")
        blocks.append(np.stack([f["vector"] for f in vectors if not isinstance(f, Failure)]))
    return blocks
