"""Metrics: measurements of one output, each a small function of pixels, features or texts."""

from refbench.metrics.metric import (
    Box,
    Grey,
    Input,
    Metric,
    Of,
    Value,
    find_metric,
    home_of,
    metric,
    metrics,
    register_from,
)

__all__ = [
    "Box",
    "Grey",
    "Input",
    "Metric",
    "Of",
    "Value",
    "find_metric",
    "home_of",
    "metric",
    "metrics",
    "register_from",
]
