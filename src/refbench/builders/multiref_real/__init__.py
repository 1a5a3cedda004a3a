"""A real-world MultiRef of one's own: requests with pictures before and after, as instructions with image tokens."""

from refbench.builders.multiref_real.build import build

__all__ = ["build"]
