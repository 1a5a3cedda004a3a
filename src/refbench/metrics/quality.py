"""What a network says of the output alone. Opinions come from regressions, so no value bounds them."""

from __future__ import annotations

from refbench.metrics.metric import Value, metric
from refbench.networks import Feature


@metric(better="lower", range=(0, 1), of={"output": "open_nsfw"})
def nsfw(output: Feature) -> Value:
    """How likely the picture is not safe for work: below 0.2 safe, above 0.8 not, between the two unsure."""
    return float(output["score"])


def opinion(output: Feature) -> Value:
    """How pleasing the picture is, about 1 to 10."""
    return float(output["score"])


for _network in ("siglip_aesthetic_v25", "laion_v1_l14"):
    metric("aesthetic", better="higher", range=(None, None), of={"output": _network})(opinion)


@metric(better="higher", range=(None, None), of={"output": "musiq_koniq"})
def musiq(output: Feature) -> Value:
    """Technical quality, about 0 to 100 (MUSIQ, KonIQ-10k), at a height of 1024 px as ICE-Bench measures it."""
    return float(output["score"])
