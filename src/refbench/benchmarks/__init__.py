"""Benchmarks: each is files to cases, requests to a judge, replies to scores, scores to a table."""

from refbench.benchmarks.kit.definition import Anomaly, Benchmark, Dataset, Protocol
from refbench.benchmarks.kit.published import PublishedValue
from refbench.benchmarks.registry import benchmark, names, resolve_data

__all__ = [
    "Anomaly",
    "Benchmark",
    "Dataset",
    "Protocol",
    "PublishedValue",
    "benchmark",
    "names",
    "resolve_data",
]
