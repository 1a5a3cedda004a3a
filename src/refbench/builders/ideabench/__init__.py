"""An IDEA-Bench of one's own: six graded questions for each design task, behind the gates of the paper."""

from refbench.builders.ideabench.build import build

__all__ = ["build"]
