"""Metrics: measurements of one output, each a small function of pixels, features or texts."""

from refbench.metrics.metric import Box, Grey, Input, Metric, Of, Value, find_metric, metric, metrics

__all__ = ["Box", "Grey", "Input", "Metric", "Of", "Value", "find_metric", "metric", "metrics"]
