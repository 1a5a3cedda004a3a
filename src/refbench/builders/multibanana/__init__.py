"""A MultiBanana of one's own: filtered and classified pictures, sets of references for its 36 tasks, instructions."""

from refbench.builders.multibanana.build import build

__all__ = ["build"]
