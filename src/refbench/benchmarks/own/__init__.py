"""The user's own cases: a file of them, judged by a rubric or measured, or both."""

from refbench.benchmarks.own.benchmark import own_benchmark, own_metrics
from refbench.benchmarks.own.cases import load_cases

__all__ = ["load_cases", "own_benchmark", "own_metrics"]
