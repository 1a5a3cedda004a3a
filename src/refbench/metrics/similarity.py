"""How alike pictures, or a picture and a text, are to a network: LPIPS and DISTS, and the cosine of embeddings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Of, Value, both, metric
from refbench.metrics.pixels import fitted
from refbench.networks import Feature, Network, PairNetwork
from refbench.pictures import Pixels

if TYPE_CHECKING:
    from refbench.networks.large.clip import Clip


def cosine(first: NDArray[Any], second: NDArray[Any]) -> Value:
    """Cosine of two vectors; undefined where one of them has no direction."""
    a, b = np.asarray(first, np.float64).ravel(), np.asarray(second, np.float64).ravel()
    lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if not np.isfinite(lengths).all() or min(lengths) == 0:
        return Failure(kind="undefined", detail="the network gave a vector without a direction")
    return float(np.clip(np.dot(a / lengths[0], b / lengths[1]), -1, 1))


def perceptual_distance(output: Pixels, source: Pixels, network: PairNetwork) -> Value:
    """Distance by a network of pairs; an output of another size is brought to the source's by Pillow's bicubic."""
    distance = network([(fitted(output, source), source)])[0]
    if isinstance(distance, float) and not np.isfinite(distance):
        return Failure(kind="undefined", detail="the network gave no finite distance")
    return distance


@metric("lpips", better="lower", range=(0, None), of={"network": "lpips_alex"})
def lpips_alex(output: Pixels, source: Pixels, network: PairNetwork) -> Value:
    """LPIPS 0.1 on AlexNet, equal to the lpips package; 0 for equal pictures."""
    return perceptual_distance(output, source, network)


@metric("lpips", better="lower", range=(0, None), of={"network": "lpips_vgg"})
def lpips_vgg(output: Pixels, source: Pixels, network: PairNetwork) -> Value:
    """LPIPS 0.1 on VGG16, equal to the lpips package; 0 for equal pictures."""
    return perceptual_distance(output, source, network)


_match = partial(metric, better="higher", range=(-1, 1))


@_match(of=both("mobilenet_v2"))
def image_match(output: Feature, reference: Feature) -> Value:
    """Cosine of the embeddings of output and reference (or source)."""
    return cosine(output["vector"], reference["vector"])


_MASKED = {"output": Of("mobilenet_v2", "inside_mask_white"), "reference": Of("mobilenet_v2")}
_CROPPED = {"output": Of("mobilenet_v2", "mask_crop"), "reference": Of("mobilenet_v2")}


@_match("subject_match", of=_MASKED, protocol="paper")
def subject_match_paper(output: Feature, reference: Feature) -> Value:
    """Cosine of the embeddings of the output, white outside the mask, and of the subject's reference."""
    return cosine(output["vector"], reference["vector"])


@_match(of=_CROPPED, protocol="corrected")
def subject_match(output: Feature, reference: Feature) -> Value:
    """Cosine of the embeddings of the output, cut to the mask's box, and of the subject's reference."""
    return cosine(output["vector"], reference["vector"])


# These crop the centre of what they see: `paper` hands them pictures as they are, `corrected` pads them to squares, so
# that nothing of a wide or tall picture is lost.
for _encoder in ("clip_b16", "clip_l14_336", "dinov2_base", "dinov2_giant", "csd_vit_l"):
    _match("image_match", of=both(_encoder), protocol="paper")(image_match)
    _match("image_match", of=both(_encoder, "padded"), protocol="corrected")(image_match)
# SigLIP squeezes the whole picture.
_match("image_match", of=both("siglip_so400m"))(image_match)
_match(
    "subject_match",
    of={"output": Of("dinov2_giant", "mask_crop"), "reference": Of("dinov2_giant", "padded")},
    protocol="corrected",
)(image_match)


@_match(of={"output": Of("dinov2_giant", "inside_mask_white"), "reference": "dinov2_giant"})
def masked_image_match(output: Feature, reference: Feature) -> Value:
    """Cosine of the embeddings of the output, white outside the mask, and of the reference, as ICE-Bench has it."""
    return cosine(output["vector"], reference["vector"])


@_match(of={"output": Of("clip_l14_336", "padded"), "caption": "clip_l14_336"}, protocol="corrected")
def text_image_match(output: Feature, caption: Feature) -> Value:
    """Cosine of the embeddings of the whole output, on a square, and of the caption (77 tokens of it)."""
    return cosine(output["vector"], caption["vector"])


@_match("text_image_match", of={"output": "clip_l14_336", "caption": "clip_l14_336"}, protocol="paper")
def text_image_match_paper(output: Feature, caption: Feature) -> Value:
    """Cosine of the embeddings of the output and of the caption, cut to the 77 tokens that CLIP reads."""
    return cosine(output["vector"], caption["vector"])


_clip_score = partial(metric, "clip_score", better="higher", range=(0, 100))


@_clip_score(of={"output": Of("clip_b16", "padded"), "caption": "clip_b16"}, protocol="corrected")
def clip_score(output: Feature, caption: Feature) -> Value:
    """CLIPScore: 100 times the cosine of output and caption, not below 0."""
    return _positive(cosine(output["vector"], caption["vector"]))


@_clip_score(of={"caption": "clip_b16", "network": "clip_b16"}, protocol="paper")
def clip_score_paper(output: Pixels, caption: Feature, network: Network) -> Value:
    """CLIPScore as MultiRef computed it: the picture divided by 255 twice, and so almost black."""
    seen = cast("Clip", network).pictures_rescaled_twice([output])[0]
    return seen if isinstance(seen, Failure) else _positive(cosine(seen["vector"], caption["sliced"]))


def _positive(match: Value) -> Value:
    return match if isinstance(match, Failure) else max(100.0 * match, 0.0)


@metric(better="lower", range=(0, None), of={"output": "inception_v3"}, protocol="paper")
def inception_mean(output: Feature) -> Value:
    """What MultiRef prints as FID: the square of the mean of one picture's 2048 features. It measures no distance."""
    return float(np.asarray(output["vector"], np.float64).mean()) ** 2
