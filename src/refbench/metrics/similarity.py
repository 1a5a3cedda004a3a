"""How alike two pictures are to a network: LPIPS, and the cosine of embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Of, Value, metric
from refbench.networks import Feature, PairNetwork
from refbench.pictures import Pixels, resize


def cosine(first: NDArray[Any], second: NDArray[Any]) -> Value:
    """Cosine of two vectors; undefined where one of them has no direction."""
    a, b = np.asarray(first, np.float64).ravel(), np.asarray(second, np.float64).ravel()
    lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if not np.isfinite(lengths).all() or min(lengths) == 0:
        return Failure(kind="undefined", detail="the network gave a vector without a direction")
    return float(np.clip(np.dot(a / lengths[0], b / lengths[1]), -1, 1))


def perceptual_distance(output: Pixels, source: Pixels, network: PairNetwork) -> Value:
    """Distance by a network of pairs; an output of another size is brought to the source's by Pillow's bicubic."""
    fitted = resize(output, (source.shape[1], source.shape[0]), "bicubic")
    found = network([(fitted, source)])[0]
    if isinstance(found, float) and not np.isfinite(found):
        return Failure(kind="undefined", detail="the network gave no finite distance")
    return found


@metric("lpips", better="lower", range=(0, None), of={"network": "lpips_alex"})
def lpips_alex(output: Pixels, source: Pixels, network: PairNetwork) -> Value:
    """LPIPS 0.1 on AlexNet, equal to the lpips package; 0 for equal pictures."""
    return perceptual_distance(output, source, network)


@metric("lpips", better="lower", range=(0, None), of={"network": "lpips_vgg"})
def lpips_vgg(output: Pixels, source: Pixels, network: PairNetwork) -> Value:
    """LPIPS 0.1 on VGG16, equal to the lpips package; 0 for equal pictures."""
    return perceptual_distance(output, source, network)


@metric(better="higher", range=(-1, 1), of={"output": "mobilenet_v2", "reference": "mobilenet_v2"})
def image_match(output: Feature, reference: Feature) -> Value:
    """Cosine of the embeddings of output and reference (or source)."""
    return cosine(output["vector"], reference["vector"])


@metric(
    "subject_match",
    better="higher",
    range=(-1, 1),
    of={"output": Of("mobilenet_v2", "inside_mask_white"), "reference": "mobilenet_v2"},
    protocol="paper",
)
def subject_match_paper(output: Feature, reference: Feature) -> Value:
    """Cosine of the embeddings of the output, white outside the mask, and of the subject's reference."""
    return cosine(output["vector"], reference["vector"])


@metric(
    better="higher",
    range=(-1, 1),
    of={"output": Of("mobilenet_v2", "mask_crop"), "reference": "mobilenet_v2"},
    protocol="corrected",
)
def subject_match(output: Feature, reference: Feature) -> Value:
    """Cosine of the embeddings of the output, cut to the mask's box, and of the subject's reference."""
    return cosine(output["vector"], reference["vector"])
