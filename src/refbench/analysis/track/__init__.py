"""Checkpoints of one model in order: whether one is worse than a baseline, and whether the judge stayed the same."""
