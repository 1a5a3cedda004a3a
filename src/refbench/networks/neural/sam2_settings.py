"""How SAM 2's automatic masks are made: a grid of points, which masks are kept, and what is cleaned; as data."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MaskSettings:
    """Defaults are those of SAM 2's own generator."""

    side: int = 32
    """Points per side of the grid."""
    batch: int = 64
    """Points that go through at once, at most; halved when memory runs out."""
    least_iou: float = 0.8
    """A mask is kept when the network's own estimate of its IoU is above this,"""
    least_stability: float = 0.95
    """and when its IoU between thresholds `offset` above and below zero is at least this."""
    offset: float = 1.0
    overlap: float = 0.7
    """Of two masks whose boxes overlap by more, the surer one stays."""
    least_area: int = 0
    """Holes and islands up to so many pixels, of the 256 x 256 that the network gives, are filled and removed."""
    refined: bool = False
    """Every mask goes through the network once more, as a prompt."""


DEFAULT = MaskSettings()
"""RefBlend's setting for pictures of people, and MultiRef-Bench's for outputs of up to 2000 pixels."""
STRICT = MaskSettings(24, 32, 0.93, 0.96, 0.85, 0.85, 300, refined=True)
"""RefBlend's setting for semantic maps."""
LOW_IOU = replace(STRICT, least_iou=0.80, least_stability=0.80, offset=0.80)
"""RefBlend's variant with the threshold of 0.8 that the paper names."""

SETTINGS = {"default": DEFAULT, "strict": STRICT, "low_iou": LOW_IOU}
