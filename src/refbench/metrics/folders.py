"""Metrics of two folders of pictures: features from the networks and their cache, then one distance of the sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from refbench.failure import Failure
from refbench.metrics.measure import Measurer
from refbench.metrics.sets import GaussianState, SetValue, frechet, kid, merged
from refbench.networks import networks, why_not
from refbench.pictures import EXTENSIONS
from refbench.record import RefBenchError

KINDS = ("frechet", "kid")
_CHUNK = 64
_SUFFIXES = {*EXTENSIONS.values(), ".jpeg", ".tiff"}


def measure_folders(
    metric: str, output: Path, reference: Path, *, device: str = "cpu", force: bool = False
) -> SetValue:
    """`frechet@NETWORK` or `kid@NETWORK` of two folders. A picture that cannot be read is refused, not left out."""
    kind, _, network = metric.partition("@")
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
        found = measurer.features(network, paths[start : start + _CHUNK])
        for path, feature in zip(paths[start:], found, strict=False):
            if isinstance(feature, Failure):
                raise RefBenchError(f"{path}: {feature}; a set with a picture missing is another set, so remove it")
        blocks.append(np.stack([f["vector"] for f in found if not isinstance(f, Failure)]))
    return blocks
