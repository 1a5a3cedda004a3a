"""A CREval of one's own: instructions in nine dimensions and the questions to judge them by, from a user's pictures."""

from refbench.builders.creval.build import build

__all__ = ["build"]
