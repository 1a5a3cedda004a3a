"""What a network says of the output alone."""

from __future__ import annotations

from refbench.metrics.metric import Value, metric
from refbench.networks import Feature


@metric(better="lower", range=(0, 1), of={"output": "open_nsfw"})
def nsfw(output: Feature) -> Value:
    """How likely the picture is not safe for work: below 0.2 safe, above 0.8 not, between the two unsure."""
    return float(output["score"])
